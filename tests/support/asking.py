"""What tests of chains and conversations ask, and what the engine should be shown of it."""

from collections.abc import Sequence
from typing import Any

from openai import AsyncStream
from openai.types.conversations import Conversation, ConversationItemList
from openai.types.responses import Response

from engine.types import ChatMessage, GenerateRequest, GenerationFinished, GenerationStarted
from tests.support.scripted import ScriptedEngine, Step, calling, thinking
from tests.support.serving import Served

Json = dict[str, Any]

THINKS_AND_CALLS: list[Step] = [
    GenerationStarted(5),
    *thinking("Rain", "?"),
    *calling("f", '{"city":', '"Rome"}', before=2),
    *thinking("Time", "?", before=6),
    *calling("f", "{}", before=8),
    GenerationFinished("stop", 11),
]
CUT_IN_A_CALL: list[Step] = [
    GenerationStarted(5),
    *calling("f", '{"ci', "ty")[:-1],
    GenerationFinished("length", 3),
]


def in_turn(*scripts: Sequence[Step]) -> ScriptedEngine:
    """An engine that plays one script after the other, a request each."""
    left = iter(scripts)
    return ScriptedEngine(lambda _: next(left))


def user(text: str) -> ChatMessage:
    return ChatMessage("user", text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage("assistant", text)


async def ask(served: Served, text: Any = "Hi", is_streamed: bool = False, **body: Any) -> Response:
    """A response when it has ended, however it came; `text` may be items."""
    if not is_streamed:
        sent: Json = {"model": "scripted", "input": text, **body}
        response: Response = await served.openai.responses.create(**sent)
        return response
    stream = await open_stream(served, text, **body)
    *_, last = [event async for event in stream]
    final: Response = last.response
    return final


async def open_stream(served: Served, text: Any = "Hi", **body: Any) -> AsyncStream[Any]:
    """The events of a response; their types are for the test to know."""
    stream: AsyncStream[Any] = await served.openai.responses.create(
        model="scripted", input=text, stream=True, **body
    )
    return stream


async def converse(served: Served, *items: Any, **metadata: str) -> Conversation:
    """A new conversation with these items."""
    return await served.openai.conversations.create(items=list(items), metadata=metadata)


async def add_items(served: Served, conversation_id: str, *items: Any) -> ConversationItemList:
    """Items at the end of a conversation."""
    return await served.openai.conversations.items.create(conversation_id, items=list(items))


async def post(served: Served, path: str = "/v1/responses", **body: Any) -> tuple[int, Json]:
    """Status and body of the reply to a request for a response."""
    reply = await served.http.post(path, json={"model": "scripted", **body})
    told: Json = reply.json()
    return reply.status_code, told


def count(request: GenerateRequest) -> list[Step]:
    """A script whose prompt has a token for each character that the model would be shown."""
    shown = [str(message.content) for message in request.messages]
    shown += [tool.name for tool in request.tools]
    return [GenerationStarted(sum(map(len, shown))), GenerationFinished("stop", 0)]


def refused(message: str, param: str | None, code: str) -> tuple[int, Json]:
    """What is told of a request that is wrong."""
    kind = "invalid_request_error"
    return 400, {"error": {"message": message, "type": kind, "param": param, "code": code}}


def not_found(message: str, param: str) -> tuple[int, Json]:
    return 404, {
        "error": {"message": message, "type": "not_found", "param": param, "code": "not_found"}
    }
