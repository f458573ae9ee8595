"""Pictures, films and sounds in every spelling become media, or are refused by their place."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from deployments.errors import InvalidRequestError
from deployments.translate.media import PlacedMedia, check_media, to_media
from deployments.wire.content import Part
from engine.types import Media
from tests.support.scripted import CARD

URL = "https://x/y.png"
AUDIO = Media("audio", "AA")


def parse(part: dict[str, Any]) -> Part:
    parsed: Part = TypeAdapter(Part).validate_python(part)
    return parsed


@pytest.mark.parametrize(
    ("part", "media"),
    [
        ({"type": "input_image", "image_url": URL}, Media("image", URL)),
        ({"type": "input_image", "image_url": URL, "detail": None}, Media("image", URL)),
        ({"type": "input_image", "image_url": URL, "detail": "low"}, Media("image", URL, "low")),
        ({"type": "input_image", "image_url": URL, "file_id": "file_1"}, Media("image", URL)),
        ({"type": "input_image", "image_url": {"url": URL}}, Media("image", URL)),
        (
            {"type": "input_image", "image_url": {"url": URL, "detail": "high"}},
            Media("image", URL, "high"),
        ),
        ({"type": "image_url", "image_url": URL}, Media("image", URL)),
        (
            {"type": "image_url", "image_url": {"url": URL, "detail": "auto"}},
            Media("image", URL, "auto"),
        ),
        ({"type": "video_url", "video_url": URL}, Media("video", URL)),
        ({"type": "video_url", "video_url": {"url": URL}}, Media("video", URL)),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            Media("audio", "AA", "wav"),
        ),
        ({"type": "input_audio", "input_audio": {"data": "AA"}}, AUDIO),
        ({"type": "input_text", "text": URL}, None),
        ({"type": "refusal", "refusal": URL}, None),
    ],
)
def test_every_spelling_is_read(part: dict[str, Any], media: Media | None) -> None:
    assert to_media(parse(part)) == media


def test_the_first_medium_that_the_model_cannot_take_is_named() -> None:
    seeing = replace(CARD, media=("image",))
    placed = [
        PlacedMedia(Media("image", URL), "input[0].content[0]"),
        PlacedMedia(AUDIO, "input[0].content[1]"),
        PlacedMedia(Media("video", URL), "input[0].content[2]"),
    ]
    check_media(placed[:1], seeing)
    with pytest.raises(InvalidRequestError) as caught:
        check_media(placed, seeing)
    assert vars(caught.value) == {
        "message": "The model 'scripted' takes no audio.",
        "param": "input[0].content[1]",
        "code": "unsupported_value",
    }
