"""What a response went on from and was asked, page by page."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from openai import NotFoundError

from engine.types import GenerationStarted
from tests.support.asking import THINKS_AND_CALLS, Json, ask, not_found, refused
from tests.support.item_oracles import check_item, check_item_list
from tests.support.resources import make_message
from tests.support.scripted import CARD, ScriptedEngine, saying
from tests.support.serving import ROOMY, Served, make_store, playing, serving
from tests.support.spots import AUDIO, IMAGE_URL, call, image, message, output

ALICE, BOB = "sk-alice-1", "sk-bob-22"
HELLO = saying("Hello")
SEEING = replace(CARD, media=("image",))
COUNT: list[Json] = [message(content=str(number)) for number in range(25)]


async def read(served: Served, response_id: str, query: str = "") -> tuple[int, Json]:
    reply = await served.http.get(f"/v1/responses/{response_id}/input_items{query}")
    told: Json = reply.json()
    return reply.status_code, told


async def read_page(served: Served, response_id: str, query: str = "") -> Json:
    """A page that both judges find right."""
    status, page = await read(served, response_id, query)
    assert (status, set(page)) == (200, {"object", "data", "first_id", "last_id", "has_more"})
    check_item_list(page)
    ids = [item["id"] for item in page["data"]]
    ends = (ids[0], ids[-1]) if ids else (None, None)
    assert (page["first_id"], page["last_id"]) == ends
    return page


def texts(page: Json) -> list[str]:
    return [item["content"][0]["text"] for item in page["data"]]


def numbers(*counted: int) -> list[str]:
    return [str(number) for number in counted]


@pytest.mark.parametrize("prefix", ["", "/v1"])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_text_is_a_message_of_the_user(prefix: str, is_streamed: bool) -> None:
    async with serving(playing(*HELLO)) as served:
        await ask(served, "Hi", is_streamed, instructions="Sing.")
        page = (await served.http.get(f"{prefix}/responses/resp_1/input_items")).json()
    (item,) = page.pop("data")
    item_id = item.pop("id")
    assert item_id.startswith("msg_")
    assert page == {"object": "list", "first_id": item_id, "last_id": item_id, "has_more": False}
    assert item == {
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "Hi"}],
    }


@pytest.mark.parametrize(
    ("query", "expected", "has_more"),
    [
        ("", range(24, 4, -1), True),
        ("?order=desc&limit=24", range(24, 0, -1), True),
        ("?limit=25", range(24, -1, -1), False),
        ("?limit=100", range(24, -1, -1), False),
        ("?order=asc", range(20), True),
        ("?order=asc&limit=1", range(1), True),
        ("?order=asc&limit=100&include[]=message.output_text.logprobs", range(25), False),
    ],
)
async def test_a_page_has_as_many_items_as_are_asked_for_the_newest_first(
    query: str, expected: range, has_more: bool
) -> None:
    async with serving(playing(*HELLO)) as served:
        await ask(served, COUNT)
        page = await read_page(served, "resp_1", query)
    assert (texts(page), page["has_more"]) == (numbers(*expected), has_more)


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 7, 24, 25, 26])
async def test_the_next_page_begins_behind_the_last_item(order: str, limit: int) -> None:
    async with serving(playing(*HELLO)) as served:
        await ask(served, COUNT)
        query = f"?order={order}&limit={limit}"
        pages = [await read_page(served, "resp_1", query)]
        while pages[-1]["has_more"]:
            after = f"{query}&after={pages[-1]['last_id']}"
            pages.append(await read_page(served, "resp_1", after))
        end = await read_page(served, "resp_1", f"{query}&after={pages[-1]['last_id']}")
    assert [len(page["data"]) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    read_texts = [text for page in pages for text in texts(page)]
    assert read_texts == numbers(*range(25))[:: 1 if order == "asc" else -1]
    assert (end["data"], end["has_more"]) == ([], False)


async def test_openais_client_turns_the_pages_itself() -> None:
    async with serving(playing(*HELLO)) as served:
        first = await ask(served, COUNT)
        child = await ask(served, "And?", previous_response_id=first.id)
        pager = served.openai.responses.input_items.list(child.id, limit=3, order="asc")
        items = [item.to_dict() async for item in pager]
    shown: list[Any] = [item["content"] for item in items]
    assert [content[0]["text"] for content in shown] == [*numbers(*range(25)), "Hello", "And?"]


async def test_a_chained_response_has_its_history_first_and_every_item_keeps_its_id() -> None:
    async with serving(playing(*HELLO)) as served:
        made, parent = [], None
        for text in ("One", "Two", "Three"):
            made.append(await ask(served, text, previous_response_id=parent))
            parent = made[-1].id
        pages = [await read_page(served, each.id, "?order=asc") for each in made]
        newest_first = await read_page(served, made[-1].id)
    assert [texts(page) for page in pages] == [
        ["One"],
        ["One", "Hello", "Two"],
        ["One", "Hello", "Two", "Hello", "Three"],
    ]
    assert pages[1]["data"] == pages[2]["data"][:3]
    assert pages[2]["data"][1::2] == [make_message("Hello", item_id=f"msg_{n}") for n in (1, 2)]
    assert newest_first["data"] == pages[2]["data"][::-1]


async def test_a_response_of_a_conversation_has_what_was_in_it_first() -> None:
    async with serving(playing(*HELLO)) as served:
        await ask(served, "One", conversation="mine")
        made = await ask(served, "Two", conversation="mine")
        await ask(served, "Three", conversation="mine")
        page = await read_page(served, made.id, "?order=asc")
    assert texts(page) == ["One", "Hello", "Two"]


ITEMS: list[Json] = [
    message(role="developer", content=[{"type": "text", "text": "Rhyme."}]),
    message(content=[IMAGE_URL, image(detail="high"), {"type": "input_text", "text": "?"}]),
    message(role="assistant", content=[{"type": "refusal", "refusal": "No."}]),
    {"type": "reasoning", "content": [{"type": "text", "text": "So."}]},
    {"type": "reasoning", "summary": [{"type": "text", "text": "So."}], "status": None},
    call(status="completed", id="mine"),
    output(output=[{"type": "text", "text": "a"}, image()], status=None),
]


async def test_every_kind_of_item_is_shown_as_clients_and_the_contract_know_it() -> None:
    async with serving(ScriptedEngine(lambda _: THINKS_AND_CALLS, SEEING)) as served:
        first = await ask(served, ITEMS, top_logprobs=2)
        page = await read_page(served, first.id, "?order=asc")
        ids = [item.call_id for item in first.output if item.type == "function_call"]
        given = [output(call_id=call_id) for call_id in ids]
        child = await ask(served, given, previous_response_id=first.id)
        chained = await read_page(served, child.id, "?order=asc")
    kinds = ["message"] * 3 + ["reasoning"] * 2 + ["function_call", "function_call_output"]
    assert [item["type"] for item in page["data"]] == kinds
    assert page["data"] == chained["data"][:7]
    assert chained["data"][7:11] == [item.to_dict() for item in first.output]


@pytest.mark.parametrize("part", [AUDIO, {"type": "video_url", "video_url": "https://x/y"}])
async def test_what_the_contract_cannot_spell_is_shown_as_it_was_sent(part: Json) -> None:
    hearing = replace(CARD, media=("audio", "video"))
    async with serving(ScriptedEngine(lambda _: HELLO, hearing)) as served:
        await ask(served, [message(content=[part])])
        _, page = await read(served, "resp_1")
    assert page["data"][0]["content"] == [part]
    with pytest.raises(AssertionError):
        check_item(page["data"][0])


async def test_a_response_that_runs_has_its_items_too() -> None:
    go_on = asyncio.Event()
    engine = playing(GenerationStarted(5), go_on, *HELLO[1:])
    async with serving(engine) as served:
        running = asyncio.create_task(ask(served, COUNT))
        await engine.held.wait()
        page = await read_page(served, "resp_1", "?order=asc&limit=2")
        go_on.set()
        await running
        assert await read_page(served, "resp_1", "?order=asc&limit=2") == page
    assert (texts(page), page["has_more"]) == (numbers(0, 1), True)


async def test_a_response_without_an_input_has_an_empty_page() -> None:
    async with serving(playing(*HELLO)) as served:
        await ask(served, [], instructions="Sing.")
        assert await read_page(served, "resp_1") == {
            "object": "list",
            "data": [],
            "first_id": None,
            "last_id": None,
            "has_more": False,
        }


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        *((f"limit={word}", "limit", "invalid_value") for word in ("0", "101", "-1", "1.5", "x")),
        ("limit=", "limit", "invalid_value"),
        ("order=up", "order", "unsupported_value"),
        ("order=", "order", "unsupported_value"),
        ("after=", "after", "invalid_value"),
        (f"after={'x' * 513}", "after", "invalid_value"),
        ("before=msg_1", "before", "unsupported_value"),
        ("limit=5&limit=6", "limit", "invalid_value"),
        ("after=msg_9", "after", "item_not_found"),
        ("after=resp_1", "after", "item_not_found"),
        ("after=%00", "after", "item_not_found"),
        ("after=%FF", "after", "item_not_found"),
    ],
)
async def test_a_wrong_query_is_refused_by_its_key(query: str, param: str, code: str) -> None:
    async with serving(playing(*HELLO)) as served:
        await ask(served)
        status, told = await read(served, "resp_1", f"?{query}")
    error = told["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    found = (status, error["type"], error["param"], error["code"])
    assert found == (400, "invalid_request_error", param, code)


async def test_an_item_of_another_response_is_no_place_to_begin_behind() -> None:
    async with serving(playing(*HELLO)) as served:
        first, other = await ask(served), await ask(served)
        for item_id in (other.output[0].id, first.output[0].id):
            status, told = await read(served, first.id, f"?after={item_id}")
            assert (status, told["error"]["code"]) == (400, "item_not_found")


async def test_what_is_not_there_has_no_items() -> None:
    async with serving(playing(*HELLO)) as served:
        unkept = await ask(served, store=False)
        deleted = await ask(served)
        await served.openai.responses.delete(deleted.id)
        for response_id in (unkept.id, deleted.id, "resp_9", "conv_1"):
            message = f"Response with id '{response_id}' not found."
            told = await read(served, response_id, "?after=msg_9")
            assert told == not_found(message, "response_id")
        with pytest.raises(NotFoundError):
            await served.openai.responses.input_items.list("resp_9")


async def test_another_keys_response_has_no_items() -> None:
    async with serving(playing(*HELLO), keys=[ALICE, BOB]) as served:
        mine = await ask(served)
        served.http.headers["authorization"] = f"Bearer {BOB}"
        told = await read(served, mine.id)
    assert told == not_found(f"Response with id '{mine.id}' not found.", "response_id")


async def test_a_disabled_store_names_its_setting() -> None:
    async with serving(playing(*HELLO), store=make_store(replace(ROOMY, max_entries=0))) as served:
        told = await read(served, "resp_1")
    setting = "Nothing is stored on this server: its setting `responses_store_max_entries` is 0."
    assert told == refused(setting, None, "unsupported_value")


async def test_being_listed_is_a_use() -> None:
    store = make_store(replace(ROOMY, max_entries=2))
    async with serving(playing(*HELLO), store=store) as served:
        first, second = await ask(served), await ask(served)
        await read_page(served, first.id)
        await ask(served)
        assert (await read(served, first.id))[0] == 200
        assert (await read(served, second.id))[0] == 404


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
async def test_items_are_only_read(method: str) -> None:
    async with serving(playing(*HELLO)) as served:
        reply = await served.http.request(method, "/v1/responses/resp_1/input_items")
    assert (reply.status_code, set(reply.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
