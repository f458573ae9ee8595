"""Pictures, films and sounds of a request, each with the place where it stands in the body."""

from dataclasses import dataclass, replace

from deployments.errors import InvalidRequestError
from deployments.wire.content import (
    ImageUrlPart,
    InputAudioPart,
    InputImagePart,
    Part,
    Url,
    VideoUrlPart,
)
from engine.types import Media, MediaKind, ModelCard

# What the models call them in a refusal.
PLURALS: dict[MediaKind, str] = {"image": "images", "video": "videos", "audio": "audio"}


@dataclass(frozen=True, slots=True)
class PlacedMedia:
    """A medium and its JSON path in the request."""

    media: Media
    param: str


MediaPart = InputImagePart | ImageUrlPart | VideoUrlPart | InputAudioPart


def to_media(part: Part) -> Media | None:
    """The medium of a part; None where it is a text."""
    match part:
        case InputImagePart():
            media = _from_url("image", part.image_url)
            detail = part.detail or media.detail
            # What was sent without one is kept with `auto`, and must render as it did.
            return replace(media, detail=None if detail == "auto" else detail)
        case ImageUrlPart():
            return _from_url("image", part.image_url)
        case VideoUrlPart():
            return _from_url("video", part.video_url)
        case InputAudioPart():
            return Media("audio", part.input_audio.data, part.input_audio.format)
        case _:
            return None


def _from_url(kind: MediaKind, url: str | Url) -> Media:
    return Media(kind, url) if isinstance(url, str) else Media(kind, url.url, url.detail)


def check_media(placed: list[PlacedMedia], card: ModelCard) -> None:
    """Refuse what the model cannot look at, before anything is fetched.

    Raises:
        InvalidRequestError: with the place of the first such part.
    """
    for each in placed:
        if each.media.kind not in card.media:
            raise InvalidRequestError(
                f"The model '{card.name}' takes no {PLURALS[each.media.kind]}.",
                each.param,
                "unsupported_value",
            )
