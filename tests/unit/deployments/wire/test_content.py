"""Parts of a content in all their spellings, with what outputs have beside."""

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from deployments.errors import InvalidRequestError
from deployments.wire.content import (
    Content,
    FunctionOutput,
    ImageUrlPart,
    InputAudioPart,
    InputImagePart,
    RefusalPart,
    TextPart,
    Url,
    VideoUrlPart,
)
from deployments.wire.parse import parse_model
from tests.support.bad_requests import FILES

URL = "https://x/y.png"


class Message(BaseModel):
    content: Content = ""
    output: FunctionOutput = ""


def parse(part: Any) -> Any:
    return TypeAdapter(Content).validate_python([part])[0]


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_a_text_has_three_spellings(kind: str) -> None:
    part = {"type": kind, "text": "", "annotations": [{"type": "url_citation"}], "logprobs": []}
    assert parse(part) == TextPart(type=kind, text="")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "refusal", "refusal": ""}, RefusalPart),
        ({"type": "input_image", "image_url": URL, "detail": "auto"}, InputImagePart),
        ({"type": "input_image", "image_url": {"url": URL}}, InputImagePart),
        ({"type": "input_image", "image_url": URL, "file_id": "file_1"}, InputImagePart),
        ({"type": "image_url", "image_url": {"url": URL, "detail": "high"}}, ImageUrlPart),
        ({"type": "image_url", "image_url": URL}, ImageUrlPart),
        ({"type": "video_url", "video_url": {"url": URL}}, VideoUrlPart),
        ({"type": "input_audio", "input_audio": {"data": "AA"}}, InputAudioPart),
    ],
)
def test_other_parts_are_read_by_their_type(part: dict[str, Any], kind: type[BaseModel]) -> None:
    assert type(parse(part)) is kind


@pytest.mark.parametrize("detail", ["auto", "low", "high", None])
def test_a_picture_has_three_details(detail: Any) -> None:
    assert parse({"type": "input_image", "image_url": URL, "detail": detail}).detail == detail
    assert Url(url=URL, detail=detail).detail == detail


@pytest.mark.parametrize("file", FILES, ids=str)
@pytest.mark.parametrize("key", ["content", "output"])
def test_files_are_refused_with_a_reason(key: str, file: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_model(Message, {key: [file]})
    assert (caught.value.param, caught.value.code) == (f"{key}[0]", "unsupported_value")
    assert "this server keeps no files" in caught.value.message or (
        "this server reads no files" in caught.value.message
    )


@pytest.mark.parametrize("kind", ["refusal", "input_audio", "video_url", "any", "image_file", "é"])
def test_an_output_keeps_parts_that_it_does_not_know(kind: str) -> None:
    part = {"type": kind, "file_id": "file_1", "x": [None, 1.5, {"y": True}]}
    assert TypeAdapter(FunctionOutput).validate_python([part]) == [part]


def test_a_content_may_be_empty() -> None:
    assert TypeAdapter(Content).validate_python([]) == []
    assert TypeAdapter(FunctionOutput).validate_python("") == ""
