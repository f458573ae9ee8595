"""One request as its user sees it: the body that goes out, and what the events that come in say.

It computes only: times are given to it, and it never touches a socket.
"""

import json
import random
from dataclasses import dataclass
from typing import Any, Final, Literal

Api = Literal["responses", "chat", "completions"]

PATHS: Final[dict[Api, str]] = {
    "responses": "/responses",
    "chat": "/chat/completions",
    "completions": "/completions",
}

INSTRUCTION: Final = "\n\nTell a very long story in which each of these words occurs many times."
INSTRUCTION_TOKENS: Final = 16

# Each of them is one token, with the space before it, in the vocabularies of most models.
WORD_LIST: Final = (
    "apple arm army baby back ball bank bear bed bell bird blood blue board boat body bone book "
    "box boy bread bridge brother car card cat chair child church city class clock cloud coat cold "
    "corn cross cup dance day death desk dog door dream dress dust ear earth egg engine eye face "
    "farm field fire fish floor flower food foot forest friend game garden gate girl glass gold "
    "grass hair hall hand hat head heart hill horse house ice iron island judge key king kitchen "
    "knife lady lake land law leaf leg letter light lion map market milk mind mirror money moon "
    "mother mountain mouth music neck night nose ocean oil paper path piano pocket prince queen "
    "rain ring river road rock roof room rose salt sand school sea ship shirt shoe shop silver "
    "sister sky sleep smoke snow song stone storm story street summer sun table tail tea teacher "
    "thread town train tree valley village voice wall war watch water wheel wind window wine "
    "winter wolf woman wood wool world year"
)
WORDS: Final = tuple(WORD_LIST.split())


def make_prompt(seed: str, num_tokens: int) -> str:
    """About `num_tokens` tokens, always the same for one seed.

    The random words come first, so that prompts of two seeds share no prefix of more than a few
    tokens, and no server answers from what it cached for another prompt.
    """
    rng = random.Random(seed)
    words = rng.choices(WORDS, k=max(1, num_tokens - INSTRUCTION_TOKENS))
    return " ".join(words) + INSTRUCTION


def make_body(
    api: Api, model: str, prompt: str, max_tokens: int, temperature: float
) -> dict[str, object]:
    """The body of a streaming request that asks for usage and leaves nothing stored."""
    body: dict[str, object] = {"model": model, "temperature": temperature, "stream": True}
    if api == "responses":
        return body | {"input": prompt, "max_output_tokens": max_tokens, "store": False}
    body |= {"max_tokens": max_tokens, "stream_options": {"include_usage": True}}
    if api == "chat":
        return body | {"messages": [{"role": "user", "content": prompt}]}
    return body | {"prompt": prompt}


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came back for one request. All times are in seconds, as they passed at the client.

    `ttft_s` runs from sending to the first piece of text (None where none came), `gaps_s` are the
    times between one piece and the next. `is_estimate` marks `output_tokens` that the server did
    not report: then every piece counts as one token. The tokens of the prompt, and those of them
    that the server took from a cache, are 0 where it reports none.
    """

    error: str | None
    ttft_s: float | None
    gaps_s: tuple[float, ...]
    output_tokens: int
    is_estimate: bool
    prompt_tokens: int
    cached_tokens: int


class ExchangeReader:
    """Reads the data of one stream's events, whichever of the three APIs they speak."""

    def __init__(self, sent_s: float) -> None:
        self._sent_s = sent_s
        self._text_at_s: list[float] = []
        self._usage: dict[str, Any] = {}
        self._error: str | None = None
        self._has_ended = False

    def feed(self, data: str, at_s: float) -> None:
        if data == "[DONE]":
            self._has_ended = True
            return
        try:
            payload = json.loads(data)
        except json.JSONDecodeError:
            self._error = f"not JSON: {data[:80]!r}"
            return
        if find_text(payload):
            self._text_at_s.append(at_s)
        self._usage = find_usage(payload) or self._usage
        self._error = self._error or find_error(payload)
        self._has_ended = self._has_ended or is_end(payload)

    def finish(self, error: str | None = None) -> Exchange:
        """What was read; a failure if there was an error or the stream had not come to its end."""
        error = error or self._error or (None if self._has_ended else "the stream ended early")
        times_s = self._text_at_s
        tokens = count_output_tokens(self._usage)
        return Exchange(
            error=to_line(error) if error else None,
            ttft_s=times_s[0] - self._sent_s if times_s else None,
            gaps_s=tuple(b - a for a, b in zip(times_s, times_s[1:], strict=False)),
            output_tokens=len(times_s) if tokens is None else tokens,
            is_estimate=tokens is None,
            prompt_tokens=count_prompt_tokens(self._usage),
            cached_tokens=count_cached_tokens(self._usage),
        )


def to_line(message: str) -> str:
    """What a report shows of a message: one line of at most 200 characters."""
    return " ".join(message.split())[:200]


def find_text(payload: Any) -> str:
    """The text that the event adds to the output, reasoning included; empty if it adds none."""
    match payload:
        case {
            "type": "response.output_text.delta" | "response.reasoning_text.delta",
            "delta": str(text),
        }:
            return text
        case {"choices": [{"delta": {"content": str(text)}}, *_]} if text:
            return text
        case {"choices": [{"delta": {"reasoning": str(text)}}, *_]} if text:
            return text
        case {"choices": [{"delta": {"reasoning_content": str(text)}}, *_]} if text:
            return text
        case {"choices": [{"text": str(text)}, *_]}:
            return text
        case _:
            return ""


def find_usage(payload: Any) -> dict[str, Any]:
    """The usage that the event reports; empty if it reports none."""
    match payload:
        case {"response": {"usage": dict(usage)}} | {"usage": dict(usage)}:
            return usage
        case _:
            return {}


def count_output_tokens(usage: dict[str, Any]) -> int | None:
    match usage:
        case {"output_tokens": int(count)} | {"completion_tokens": int(count)}:
            return count
        case _:
            return None


def count_prompt_tokens(usage: dict[str, Any]) -> int:
    match usage:
        case {"input_tokens": int(count)} | {"prompt_tokens": int(count)}:
            return count
        case _:
            return 0


def count_cached_tokens(usage: dict[str, Any]) -> int:
    """Tokens of the prompt that the server did not compute for this request."""
    match usage.get("input_tokens_details") or usage.get("prompt_tokens_details"):
        case {"cached_tokens": int(count)}:
            return count
        case _:
            return 0


def find_error(payload: Any) -> str | None:
    """What the event says went wrong."""
    match payload:
        case {"type": "response.failed", "response": {"error": {"message": str(message)}}}:
            return message
        case {"type": "error", "message": str(message)}:
            return message
        case {"error": {"message": str(message)}} | {"error": str(message)}:
            return message
        case {"type": "response.failed" | "error" as event_type}:
            return str(event_type)
        case _:
            return None


def is_end(payload: Any) -> bool:
    """Whether the event is the terminal one: nothing that matters comes after it but usage."""
    match payload:
        case {"type": "response.completed" | "response.incomplete" | "response.failed" | "error"}:
            return True
        case {"choices": [{"finish_reason": str()}, *_]}:
            return True
        case _:
            return False
