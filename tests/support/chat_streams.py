"""Streams of Chat Completions and Completions as a client reads them: parsed, and put together."""

import json
from collections.abc import Iterable
from typing import Any

from deployments.sse import COMMENT
from tests.support.chat_oracles import check_chunk

Json = dict[str, Any]


def read_chunks(stream: bytes) -> list[Json]:
    """The data of a stream that comes to its end, after a look at how it is laid out."""
    *frames, done, end = stream.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return read_frames(frames)


def read_broken(stream: bytes) -> tuple[list[Json], Json]:
    """The chunks of a stream that breaks off, and the error that it ends with."""
    *frames, last, end = stream.decode().split("\n\n")
    assert end == ""
    return read_frames(frames), json.loads(last.removeprefix("data: "))


def read_frames(frames: Iterable[str]) -> list[Json]:
    chunks = [
        json.loads(frame.removeprefix("data: "))
        for frame in frames
        if f"{frame}\n\n".encode() != COMMENT
    ]
    for chunk in chunks:
        check_chunk(chunk)
    return chunks


def join_chat(chunks: list[Json]) -> Json:
    """The chat completion that a stream adds up to, without what only one of the two can say.

    An empty content is the same as none: a stream begins with one before anybody knows.
    """
    first, *_ = chunks
    message: Json = {"role": None, "content": "", "refusal": None}
    calls: list[Json] = []
    logprobs: list[Json] | None = None
    reason = None
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        assert reason is None, "a chunk after the last one"
        delta, reason = choice["delta"], choice["finish_reason"]
        for name, value in delta.items():
            if name == "tool_calls":
                add_calls(calls, value)
            else:
                message[name] = (message.get(name) or "") + value
        if choice["logprobs"] is not None:
            logprobs = (logprobs or []) + choice["logprobs"]["content"]
    message["content"] = message["content"] or None
    choice = {"index": 0, "message": message, "finish_reason": reason}
    choice["logprobs"] = None if logprobs is None else {"content": logprobs, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    head = {name: first[name] for name in ("id", "created", "model")}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": read_usage(chunks)}


def add_calls(calls: list[Json], pieces: list[Json]) -> None:
    for piece in pieces:
        index = piece["index"]
        if index == len(calls):
            calls.append({**piece, "function": dict(piece["function"])})
            del calls[-1]["index"]
        else:
            assert index == len(calls) - 1, "two calls at once"
            assert piece.keys() == {"index", "function"}
            calls[-1]["function"]["arguments"] += piece["function"]["arguments"]


def join_completion(chunks: list[Json]) -> Json:
    """The completion that a stream adds up to."""
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    lists: dict[str, list[Any]] = {}
    for choice in choices:
        for name, values in (choice["logprobs"] or {}).items():
            lists.setdefault(name, []).extend(values)
    *others, last = [choice["finish_reason"] for choice in choices]
    assert not any(others), "a chunk after the last one"
    choice = {
        "index": 0,
        "text": "".join(choice["text"] for choice in choices),
        "logprobs": lists or None,
        "finish_reason": last,
    }
    head = {name: chunks[0][name] for name in ("id", "object", "created", "model")}
    return {**head, "choices": [choice], "usage": read_usage(chunks)}


def read_usage(chunks: list[Json]) -> Json | None:
    """The usage, which only a last chunk without a choice may tell."""
    *others, last = chunks
    assert not any(chunk.get("usage") for chunk in others)
    usage: Json | None = last.get("usage")
    assert (usage is not None) == (last["choices"] == [])
    return usage
