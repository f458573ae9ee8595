"""Content parts in every spelling that clients send: Responses' own and Chat Completions'."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from deployments.wire.base import (
    NO_OBJECT,
    NO_WORD,
    UNSUPPORTED,
    Array,
    JsonObject,
    Label,
    WireModel,
    name_form,
    name_type,
)

Source = Annotated[str, Field(min_length=1)]
Detail = Literal["auto", "low", "high"]


class TextPart(WireModel):
    """A text."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class RefusalPart(WireModel):
    """What an assistant once said in place of an answer."""

    type: Literal["refusal"]
    refusal: str


def refuse_lone_file(value: Any, key: str) -> Any:
    """Refuse what names a file in place of saying where it is: this server keeps no files.

    Raises:
        PydanticCustomError: where there is a `file_id` and nothing under `key`.
    """
    if isinstance(value, dict) and value.get(key) is None and value.get("file_id") is not None:
        raise PydanticCustomError(
            UNSUPPORTED, f"this server keeps no files, so a file_id names none; give {key} instead"
        )
    return value


class Url(WireModel):
    """Where a picture or a film is; `detail` is for pictures."""

    url: Source
    detail: Detail | None = None

    @model_validator(mode="before")
    @classmethod
    def check_is_no_file(cls, value: Any) -> Any:
        return refuse_lone_file(value, "url")


def name_url(value: object) -> str:
    """The branch of a URL that stands alone or in an object."""
    return "<text>" if isinstance(value, str) else "<object>"


UrlOrText = Annotated[
    Annotated[Source, Tag("<text>")] | Annotated[Url, Tag("<object>")], Discriminator(name_url)
]


class InputImagePart(WireModel):
    """A picture, as `/v1/responses` spells it: `image_url` is a URL or a data URI.

    A `file_id` beside it is not needed and not read.
    """

    type: Literal["input_image"]
    image_url: UrlOrText
    detail: Detail | None = None

    @model_validator(mode="before")
    @classmethod
    def check_is_no_file(cls, value: Any) -> Any:
        return refuse_lone_file(value, "image_url")


class ImageUrlPart(WireModel):
    """A picture, as Chat Completions spells it."""

    type: Literal["image_url"]
    image_url: UrlOrText

    @model_validator(mode="before")
    @classmethod
    def check_is_no_file(cls, value: Any) -> Any:
        return refuse_lone_file(value, "image_url")


class VideoUrlPart(WireModel):
    """A film, as other servers' Chat Completions spell it."""

    type: Literal["video_url"]
    video_url: UrlOrText


class Audio(WireModel):
    """A sound in base64."""

    data: Source
    format: Label | None = None


class InputAudioPart(WireModel):
    """A sound."""

    type: Literal["input_audio"]
    input_audio: Audio


class FilePart(WireModel):
    """A file, which is always refused."""

    type: Literal["input_file", "file"]

    @model_validator(mode="after")
    def refuse(self) -> Self:
        raise PydanticCustomError(
            UNSUPPORTED, "this server reads no files; send their text as a text part"
        )


# The part of a function's output that is none of the above: it is kept as JSON (RA).
AnyPart = JsonObject

# What messages and the outputs of functions share: texts and pictures.
SharedPart = (
    Annotated[TextPart, Tag("<input_text>")]
    | Annotated[TextPart, Tag("<output_text>")]
    | Annotated[TextPart, Tag("<text>")]
    | Annotated[InputImagePart, Tag("<input_image>")]
    | Annotated[ImageUrlPart, Tag("<image_url>")]
)

Part = Annotated[
    SharedPart
    | Annotated[RefusalPart, Tag("<refusal>")]
    | Annotated[VideoUrlPart, Tag("<video_url>")]
    | Annotated[InputAudioPart, Tag("<input_audio>")]
    | Annotated[FilePart, Tag("<input_file>")]
    | Annotated[FilePart, Tag("<file>")],
    Discriminator(name_type),
]

Content = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Array[Part], Tag("<array>")],
    Discriminator(name_form),
]

OUTPUT_PARTS = ("<input_text>", "<output_text>", "<text>", "<input_image>", "<image_url>")


def name_output_part(value: object) -> str | None:
    """The branch of a part of a function's output: a type without one of its own is any part."""
    name = name_type(value)
    if name in ("<input_file>", "<file>"):
        return "<file>"
    return name if name in (None, NO_OBJECT, NO_WORD, *OUTPUT_PARTS) else "<any>"


OutputPart = Annotated[
    SharedPart | Annotated[FilePart, Tag("<file>")] | Annotated[AnyPart, Tag("<any>")],
    Discriminator(name_output_part),
]

FunctionOutput = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Array[OutputPart], Tag("<array>")],
    Discriminator(name_form),
]
