"""What clients were told while a server was killed, and what must therefore be in its store. Pure.

An attempt is one request for a response. Its tag is in its metadata and in its input, so that what
is found in the store can be told from everything else. A turn is what an attempt adds to the items
of its conversation or chain: the message that has its tag, then its output.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Json = dict[str, Any]
End = Literal["open", "acknowledged", "failed", "refused", "cut", "unsent"]

# What must be kept exactly as it was told.
FIELDS: Final = ("id", "status", "output", "usage", "metadata", "previous_response_id")
TAG: Final = "tag"


@dataclass(slots=True, eq=False)
class Attempt:
    """One request, and how it ended for its client.

    `acknowledged`: the reply came whole, or the stream's terminal event, with a response that is
    not failed; `reply` is that response. `failed`: its stream ended with a failed response.
    `refused`: an error with a status code. `cut`: the connection ended before. `unsent`: there was
    no connection. `response_id` is the id that the client was told, by whatever event. `before` are
    the attempts of the same chain or conversation.
    """

    tag: str
    kind: str = ""
    before: tuple["Attempt", ...] = ()
    end: End = "open"
    response_id: str | None = None
    reply: Json | None = None

    @property
    def text(self) -> str:
        return f"Say {self.tag}."


@dataclass(frozen=True, slots=True)
class Kept:
    """A response as the store's file has it."""

    response_id: str
    tag: str | None
    status: str


@dataclass(slots=True)
class Ledger:
    """All attempts, and the errors that clients saw: `404 not_found` by status and code.

    The code is None where an error is not ours, but of the proxy that found no application.
    """

    attempts: list[Attempt] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    kind: str = ""

    def begin(self, before: Iterable[Attempt] = ()) -> Attempt:
        """A new attempt in the midst of what `kind` says."""
        attempt = Attempt(f"{len(self.attempts):06d}", self.kind, tuple(before))
        self.attempts.append(attempt)
        return attempt

    @property
    def acknowledged(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.end == "acknowledged"]

    @property
    def seen(self) -> list[Attempt]:
        """Those of which a client knows an id and no end."""
        return [each for each in self.attempts if each.response_id and each.reply is None]

    @property
    def refusals(self) -> list[str]:
        """The server's own errors that blame the client, which asked for nothing wrong."""
        return [name for name in self.errors if name.startswith("4") and not name.endswith("None")]

    def count_ends(self) -> Counter[str]:
        return Counter(attempt.end for attempt in self.attempts)


def find_difference(attempt: Attempt, kept: Json) -> str | None:
    """The first field of a response that is not as its client was told."""
    told = attempt.reply or {}
    for name in FIELDS:
        if told.get(name) != kept.get(name):
            return f"{name} was {told.get(name)!r} and is {kept.get(name)!r}"
    return None


def find_wrong_turn(
    items: Sequence[Json], before: Sequence[Attempt], own: Attempt | None = None
) -> str | None:
    """What is wrong with the items of a chain or a conversation, the oldest first.

    They must be the turns of all attempts that were acknowledged, in their order. Those of others
    may stand between them, whole, unless they were never sent. With `own` the last is its message.
    """
    expected = list(before)
    turns = split_turns(items)
    if own is not None and (not turns or turns.pop() != (own.text, [])):
        return "the last item is not its own message"
    for text, output in turns:
        while expected and expected[0].text != text:
            if expected.pop(0).end == "acknowledged":
                return f"a turn is missing before {text!r}"
        if not expected or expected[0].end == "unsent":
            return f"{text!r} does not belong there"
        attempt = expected.pop(0)
        if attempt.end == "acknowledged" and output != (attempt.reply or {})["output"]:
            return f"the output of {text!r} is another"
    if any(attempt.end == "acknowledged" for attempt in expected):
        return "the last turn is missing"
    return None


def split_turns(items: Sequence[Json]) -> list[tuple[str, list[Json]]]:
    """The text of each user's message, with the items behind it."""
    turns: list[tuple[str, list[Json]]] = []
    for item in items:
        if item.get("role") == "user":
            turns.append(("".join(part["text"] for part in item["content"]), []))
        elif turns:
            turns[-1][1].append(item)
        else:
            turns.append(("", [item]))
    return turns


def find_strangers(kept: Iterable[Kept], attempts: Iterable[Attempt]) -> list[str]:
    """Responses that nobody asked for, or that have another id than their client was told.

    A response whose client was told nothing may be there once.
    """
    by_tag = {attempt.tag: attempt for attempt in attempts if attempt.end != "unsent"}
    strangers = []
    for response in kept:
        attempt = by_tag.pop(response.tag or "", None)  # a second one of the tag finds none
        if attempt is None:
            strangers.append(f"{response.response_id}: nobody asked for it ({response.tag})")
        elif attempt.response_id not in (None, response.response_id):
            strangers.append(f"{response.response_id}: its client knows {attempt.response_id}")
    return strangers


def find_missing(kept: Iterable[Kept], attempts: Iterable[Attempt]) -> list[str]:
    """Responses that were acknowledged and are not there, or do not say how they ended."""
    by_id = {response.response_id: response for response in kept}
    missing = []
    for attempt in attempts:
        if attempt.end != "acknowledged" or attempt.reply is None:
            continue
        response = by_id.get(attempt.reply["id"])
        if response is None or response.status != attempt.reply["status"]:
            missing.append(f"{attempt.reply['id']}: {response}")
    return missing
