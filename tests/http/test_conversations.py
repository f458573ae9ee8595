"""Conversations and their items by their own routes."""

import json
from dataclasses import replace
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError

from tests.support.asking import Json, add_items, ask, converse, not_found, refused, user
from tests.support.bad_requests import BAD_REQUESTS
from tests.support.item_oracles import check_item, check_item_list
from tests.support.refusals import check_bad, send, shorten
from tests.support.resources import make_message
from tests.support.scripted import saying
from tests.support.serving import MAX_BODY_BYTES, ROOMY, START_S, make_store, playing, serving
from tests.support.spots import TEXT, BadRequest, call, message, output
from tests.support.wrong_values import ONE_OF_EACH_KIND

ALICE, BOB = "sk-alice-1", "sk-bob-22"
HELLO = saying("Hello")
CONVERSATION = "/v1/conversations/conv_1"
EMPTY = {"id": "conv_1", "object": "conversation", "created_at": START_S, "metadata": {}}
DISABLED = replace(ROOMY, max_entries=0)
SAID: list[Json] = [
    message(role="system", content="Rhyme."),
    message(),
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "So."}]},
    call(),
    output(),
    message(role="assistant", content="Hello"),
]

# Each route that names a conversation, and a good body where it takes one.
ROUTES: list[tuple[str, str, Json | None]] = [
    ("GET", "", None),
    ("POST", "", {"metadata": {}}),
    ("DELETE", "", None),
    ("GET", "/items", None),
    ("POST", "/items", {"items": [message()]}),
]
ITEM_ROUTES = [("GET", "/items/msg_9"), ("DELETE", "/items/msg_9")]


def unknown(conversation_id: str) -> tuple[int, Json]:
    return not_found(f"Conversation with id '{conversation_id}' not found.", "conversation_id")


def unknown_item(conversation_id: str, item_id: str) -> tuple[int, Json]:
    text = f"Item with id '{item_id}' not found in conversation '{conversation_id}'."
    return not_found(text, "item_id")


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_a_conversation_lives_from_its_creation_to_its_deletion(prefix: str) -> None:
    path = f"{prefix}/conversations/conv_1"
    async with serving(playing()) as served:
        http = served.http
        made = await http.post(f"{prefix}/conversations", json={"metadata": {"a": "b"}})
        read = await http.get(path)
        updated = await http.post(path, json={"metadata": {"c": "d"}})
        read_again = await http.get(path)
        deleted = await http.delete(path)
        gone = [await http.get(path), await http.delete(path)]
    assert made.json() == read.json() == {**EMPTY, "metadata": {"a": "b"}}
    assert updated.json() == read_again.json() == {**EMPTY, "metadata": {"c": "d"}}
    assert deleted.json() == {"id": "conv_1", "object": "conversation.deleted", "deleted": True}
    replies = [made, read, updated, read_again, deleted]
    assert [reply.status_code for reply in replies] == [200] * 5
    assert [(reply.status_code, reply.json()) for reply in gone] == [unknown("conv_1")] * 2


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_items_are_added_listed_read_and_taken_out(prefix: str) -> None:
    path = f"{prefix}/conversations/conv_1/items"
    async with serving(playing()) as served:
        await served.http.post(f"{prefix}/conversations", json={"items": [message()]})
        added = await served.http.post(path, json={"items": SAID[2:]})
        listed = await served.http.get(f"{path}?order=asc")
        ids = [item["id"] for item in listed.json()["data"]]
        read = await served.http.get(f"{path}/{ids[4]}")
        taken = await served.http.delete(f"{path}/{ids[1]}")
        rest = await served.http.get(f"{path}?order=asc&limit=2")
        gone = await served.http.get(f"{path}/{ids[1]}")
        gone_again = await served.http.delete(f"{path}/{ids[1]}")
    for page in (added.json(), listed.json(), rest.json()):
        check_item_list(page)
    assert added.json()["data"] == listed.json()["data"][1:]
    assert read.json() == make_message("Hello", item_id=ids[4])
    assert (taken.status_code, taken.json()) == (200, EMPTY)
    assert [item["id"] for item in rest.json()["data"]] == [ids[0], ids[2]]
    assert rest.json()["has_more"] is True
    for reply in (gone, gone_again):
        assert (reply.status_code, reply.json()) == unknown_item("conv_1", ids[1])


async def test_openais_client_does_all_of_it() -> None:
    async with serving(playing()) as served:
        conversations = served.openai.conversations
        sent: Any = SAID
        made = await conversations.create(items=sent[:2], metadata={"a": "b"})
        assert await conversations.retrieve(made.id) == made
        added = await conversations.items.create(made.id, items=sent[2:])
        pager = conversations.items.list(made.id, order="asc", limit=2)
        items = [item async for item in pager]
        assert items[2:] == added.data
        for item in items:
            item_id = item.id or ""
            assert await conversations.items.retrieve(item_id, conversation_id=made.id) == item
        left = await conversations.items.delete(items[0].id or "", conversation_id=made.id)
        changed = await conversations.update(made.id, metadata={"a": "c"})
        deleted = await conversations.delete(made.id)
    assert [item.type for item in items] == [
        *("message", "message", "reasoning", "function_call", "function_call_output", "message")
    ]
    assert left == made
    assert (changed.metadata, deleted.deleted, deleted.id) == ({"a": "c"}, True, made.id)


@pytest.mark.parametrize(
    "body", [{}, {"items": None, "metadata": None}, {"items": [], "input": []}]
)
async def test_a_conversation_may_begin_with_nothing(body: Json) -> None:
    async with serving(playing()) as served:
        made = await served.http.post("/v1/conversations", json={**body, "colour": "red"})
        page = await served.http.get(f"{CONVERSATION}/items")
    assert (made.status_code, made.json()) == (200, EMPTY)
    assert (page.json()["data"], page.json()["first_id"]) == ([], None)


async def test_every_conversation_has_an_id_of_its_own() -> None:
    async with serving(playing()) as served:
        made = [await converse(served) for _ in range(3)]
    assert len({each.id for each in made}) == 3


async def test_null_takes_all_metadata_away() -> None:
    async with serving(playing()) as served:
        await converse(served, a="b")
        reply = await served.http.post(CONVERSATION, json={"metadata": None})
        kept = await served.http.get(CONVERSATION)
    assert reply.json() == kept.json() == EMPTY


@pytest.mark.parametrize(
    ("query", "status", "shown"),
    [
        ("", 200, ["4", "3", "2", "1", "0"]),
        ("?order=asc&limit=2", 200, ["0", "1"]),
        ("?order=asc&limit=2&after=ID", 200, ["3", "4"]),
        ("?limit=5&after=ID", 200, ["1", "0"]),
        ("?limit=0", 400, "limit"),
        ("?order=up", 400, "order"),
        ("?after=msg_9", 400, "after"),
        ("?before=ID", 400, "before"),
    ],
)
async def test_items_come_in_pages(query: str, status: int, shown: Any) -> None:
    async with serving(playing()) as served:
        sent: Any = [message(content=str(number)) for number in range(5)]
        made = await converse(served, *sent)
        ids = [item.id async for item in served.openai.conversations.items.list(made.id)]
        page = await served.http.get(f"{CONVERSATION}/items{query.replace('ID', ids[2] or '')}")
    told = page.json()
    assert page.status_code == status
    if status == 400:
        assert told["error"]["param"] == shown
    else:
        assert [item["content"][0]["text"] for item in told["data"]] == shown


async def test_an_item_that_is_there_stays_where_it_is() -> None:
    async with serving(playing()) as served:
        await converse(served, message(content="0"))
        added = await served.http.post(f"{CONVERSATION}/items", json={"items": SAID})
        again = await served.http.post(
            f"{CONVERSATION}/items", json={"items": added.json()["data"][::-1]}
        )
        page = await served.http.get(f"{CONVERSATION}/items?order=asc")
    assert again.json()["data"] == added.json()["data"][::-1]
    assert page.json()["data"][1:] == added.json()["data"]
    assert len(page.json()["data"]) == 1 + len(SAID)


async def test_an_item_may_be_in_many_conversations_and_goes_from_one() -> None:
    async with serving(playing(*HELLO)) as served:
        said = await ask(served)
        item_id = said.output[0].id
        named: Any = [{"type": "item_reference", "id": item_id}]
        for _ in range(2):
            await converse(served, *named)
        assert (await served.http.delete(f"{CONVERSATION}/items/{item_id}")).status_code == 200
        replies = [
            await served.http.get(f"/v1/conversations/conv_{n}/items/{item_id}") for n in (1, 2)
        ]
        assert await served.openai.responses.retrieve(said.id) == said
    assert [reply.status_code for reply in replies] == [404, 200]
    check_item(replies[1].json())


# ── what is refused ──────────────────────────────────────────────────────────────────────────────

# Items are checked by the code that checks a response's: each of its faults is one here.
BAD_ITEMS = [
    ({"items": changes["input"]}, param.replace("input", "items", 1), code)
    for changes, param, code in BAD_REQUESTS
    if changes.keys() == {"input"} and isinstance(changes["input"], list)
]
BAD_METADATA = [
    (changes, param, code)
    for changes, param, code in BAD_REQUESTS
    if changes.keys() == {"metadata"}
]
NO_ARRAYS: list[BadRequest] = [
    ({"items": value}, "items", "invalid_type")
    for value in [*ONE_OF_EACH_KIND.values(), "Hi"]
    if value not in (None, [])
]
OTHER_NAMES = [
    ({name: [message()], "items": [message()]}, name, "unsupported_value")
    for name in ("input", "messages")
]
UNKNOWN_ITEM = [
    ({"items": [message(), {"type": "item_reference", "id": "x"}]}, "items[1].id", "item_not_found")
]
REFUSAL = {"type": "refusal", "refusal": "No."}
# What no response could go on from: it would stand in the way of all that come.
NEVER_SHOWN: list[BadRequest] = [
    ({"items": [message(content=[TEXT, REFUSAL])]}, "items[0].content[1]", "unsupported_value"),
    ({"items": [call(), message(), call()]}, "items[2].call_id", "invalid_value"),
]
BAD_BODIES: dict[str, list[tuple[Json, str, str]]] = {
    "/v1/conversations": [
        *BAD_ITEMS,
        *BAD_METADATA,
        *NO_ARRAYS,
        *OTHER_NAMES,
        *UNKNOWN_ITEM,
        *NEVER_SHOWN,
    ],
    CONVERSATION: [
        *BAD_METADATA,
        ({}, "metadata", "missing_required_parameter"),
        ({"metadata": {}, "items": [message()]}, "items", "unsupported_value"),
    ],
    f"{CONVERSATION}/items": [
        *BAD_ITEMS,
        *NO_ARRAYS,
        *OTHER_NAMES,
        *UNKNOWN_ITEM,
        *NEVER_SHOWN,
        ({}, "items", "missing_required_parameter"),
        ({"items": []}, "items", "invalid_value"),
        ({"items": None}, "items", "invalid_type"),
    ],
}


@pytest.mark.parametrize("path", BAD_BODIES)
async def test_a_bad_body_is_refused_by_its_place_and_changes_nothing(path: str) -> None:
    assert len(BAD_ITEMS) > 100
    assert len(BAD_METADATA) > 5
    async with serving(playing()) as served:
        await converse(served)
        for body, param, code in BAD_BODIES[path]:
            told = check_bad(await send(served.http, path, body), body, param, code)
            assert told, shorten(body)
        assert (await served.http.get(CONVERSATION)).json() == EMPTY
        assert (await served.http.get(f"{CONVERSATION}/items")).json()["data"] == []
        assert (await served.http.get("/v1/conversations/conv_2")).status_code == 404


@pytest.mark.parametrize("path", BAD_BODIES)
async def test_what_is_no_json_object_or_too_large_is_refused(path: str) -> None:
    async with serving(playing()) as served:
        for content in (b"", b"Hi", b"[]", b"null", b"[" * 100_000, b'{"items":"\xff"}'):
            reply = await served.http.post(path, content=content)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, None)
        large = json.dumps({"items": [message(content="a" * MAX_BODY_BYTES)]})
        assert (await served.http.post(path, content=large)).status_code == 413


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_an_unknown_conversation_is_not_found_by_any_route(prefix: str) -> None:
    async with serving(playing()) as served:
        for conversation_id in ("conv_9", "resp_1", "%00", "%F0%9F%99%82", "a%20b"):
            path = f"{prefix}/conversations/{conversation_id}"
            name = served.http.build_request("GET", path).url.path.rpartition("/")[2]
            for method, rest, body in ROUTES:
                reply = await served.http.request(method, path + rest, json=body)
                assert (reply.status_code, reply.json()) == unknown(name)
            for method, rest in ITEM_ROUTES:
                reply = await served.http.request(method, path + rest)
                assert (reply.status_code, reply.json()) == unknown_item(name, "msg_9")


async def test_an_unknown_item_is_not_found() -> None:
    async with serving(playing()) as served:
        await converse(served, message())
        other = await converse(served, message())
        (item,) = [each async for each in served.openai.conversations.items.list(other.id)]
        for method, _ in ITEM_ROUTES:
            reply = await served.http.request(method, f"{CONVERSATION}/items/{item.id}")
            assert (reply.status_code, reply.json()) == unknown_item("conv_1", item.id or "")
        with pytest.raises(NotFoundError):
            await served.openai.conversations.items.delete("msg_9", conversation_id="conv_1")


async def test_the_conversations_of_another_key_are_unknown() -> None:
    """It must look as an id that nobody has: not a word may differ."""
    async with serving(playing(), keys=[ALICE, BOB]) as served:
        made = await converse(served, message(), a="b")
        page = await served.http.get(f"{CONVERSATION}/items")
        served.http.headers["authorization"] = f"Bearer {BOB}"
        for method, rest, body in ROUTES:
            reply = await served.http.request(method, CONVERSATION + rest, json=body)
            assert (reply.status_code, reply.json()) == unknown("conv_1")
        for method, _ in ITEM_ROUTES:
            path = f"{CONVERSATION}/items/{page.json()['first_id']}"
            reply = await served.http.request(method, path)
            assert (reply.status_code, reply.json()) == unknown_item("conv_1", path[-36:])
        served.http.headers["authorization"] = f"Bearer {ALICE}"
        assert await served.openai.conversations.retrieve("conv_1") == made
        assert (await served.http.get(f"{CONVERSATION}/items")).json() == page.json()


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/conversations", {"POST"}),
        ("/v1/conversations/conv_1", {"GET", "HEAD", "POST", "DELETE"}),
        ("/conversations/conv_1/items", {"GET", "HEAD", "POST"}),
        ("/v1/conversations/conv_1/items/msg_1", {"GET", "HEAD", "DELETE"}),
    ],
)
async def test_a_method_that_a_route_does_not_take_is_told_all_that_it_takes(
    path: str, methods: set[str]
) -> None:
    async with serving(playing()) as served:
        for method in {"GET", "POST", "DELETE", "PUT", "PATCH"} - methods:
            reply = await served.http.request(method, path)
            assert reply.status_code == 405
            assert set(reply.headers["allow"].split(", ")) == methods
            assert reply.json()["error"].keys() == {"message", "type", "param", "code"}


async def test_no_route_lists_the_conversations_or_takes_more_of_a_path() -> None:
    async with serving(playing()) as served:
        for path in (
            "/conversations/",
            "/v1/conversations/conv_1/items/msg_1/x",
            f"{CONVERSATION}/",
        ):
            reply = await served.http.get(path)
            assert (reply.status_code, reply.json()["error"]["type"]) == (404, "not_found")


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────


async def test_disabled_conversations_name_their_setting_on_every_route() -> None:
    setting = "Nothing is stored on this server: its setting `conversation_store_max_entries` is 0."
    told = refused(setting, None, "unsupported_value")
    async with serving(playing(), store=make_store(ROOMY, DISABLED)) as served:
        create = await served.http.post("/v1/conversations", json={"items": SAID})
        replies = [
            await served.http.request(method, CONVERSATION + rest, json=body)
            for method, rest, body in [*ROUTES, *((*each, None) for each in ITEM_ROUTES)]
        ]
    for reply in (create, *replies):
        assert (reply.status_code, reply.json()) == told


async def test_conversations_do_not_depend_on_responses() -> None:
    store = make_store(DISABLED, ROOMY)
    async with serving(playing(), store=store) as served:
        made = await converse(served, message())
        await add_items(served, made.id, message())
        assert len([each async for each in served.openai.conversations.items.list(made.id)]) == 2


async def test_without_bytes_no_conversation_is_kept() -> None:
    store = make_store(ROOMY, replace(ROOMY, max_bytes=0))
    async with serving(playing(), store=store) as served:
        made = await converse(served, message())
        with pytest.raises(NotFoundError):
            await served.openai.conversations.retrieve(made.id)


async def test_a_conversation_without_room_says_so_and_stays_as_it_was() -> None:
    store = make_store(ROOMY, replace(ROOMY, max_bytes=3000))
    async with serving(playing(), store=store) as served:
        made = await converse(served, message())
        page = (await served.http.get(f"{CONVERSATION}/items")).json()
        for more in (message(content="a" * 3000), message(content="ä" * 1500)):
            with pytest.raises(BadRequestError) as caught:
                await add_items(served, made.id, message(), more)
            assert (caught.value.param, caught.value.code) == ("items", "conversation_full")
        assert (await served.http.get(f"{CONVERSATION}/items")).json() == page
        await add_items(served, made.id, message(content="a" * 1000))


async def test_a_conversation_that_has_no_room_at_all_is_not_made() -> None:
    store = make_store(ROOMY, replace(ROOMY, max_bytes=3000))
    async with serving(playing(), store=store) as served:
        with pytest.raises(BadRequestError) as caught:
            await converse(served, message(content="a" * 3000))
    assert (caught.value.param, caught.value.code) == ("items", "conversation_full")


async def test_metadata_without_room_is_refused_by_its_name() -> None:
    store = make_store(ROOMY, replace(ROOMY, max_bytes=1500))
    large = {str(number): "a" * 500 for number in range(3)}
    async with serving(playing(), store=store) as served:
        made = await converse(served, a="b")
        with pytest.raises(BadRequestError) as caught:
            await served.openai.conversations.update(made.id, metadata=large)
        assert await served.openai.conversations.retrieve(made.id) == made
    assert (caught.value.param, caught.value.code) == ("metadata", "conversation_full")


async def test_the_least_recently_used_conversation_goes_first() -> None:
    store = make_store(ROOMY, replace(ROOMY, max_entries=2))
    async with serving(playing(), store=store) as served:
        for number in (1, 2, 3):
            await converse(served)
            told = await served.http.get(f"/v1/conversations/conv_{number}")
            assert told.status_code == 200
            await served.http.get(f"{CONVERSATION}/items")
        gone = await served.http.get("/v1/conversations/conv_2")
        kept = await served.http.get(CONVERSATION)
    assert (gone.status_code, kept.status_code) == (404, 200)


@pytest.mark.parametrize(("ttl_s", "status"), [(60, 404), (0, 200)])
async def test_a_read_prolongs_no_life_and_an_append_does(ttl_s: int, status: int) -> None:
    now_s = [0.0]
    store = make_store(ROOMY, replace(ROOMY, ttl_s=ttl_s), clock=lambda: now_s[0])
    async with serving(playing(), store=store) as served:
        for _ in range(2):
            await converse(served)
        now_s[0] = 50.0
        await served.http.get(CONVERSATION)
        await add_items(served, "conv_2", message())
        now_s[0] = 100.0
        assert (await served.http.get(CONVERSATION)).status_code == status
        assert (await served.http.get("/v1/conversations/conv_2")).status_code == 200
        now_s[0] = 111.0
        assert (await served.http.get("/v1/conversations/conv_2")).status_code == status


async def test_what_was_posted_is_what_a_model_is_shown() -> None:
    engine = playing(*HELLO)
    async with serving(engine) as served:
        sent: Any = SAID
        made = await converse(served, *sent)
        await ask(served, "And?", conversation=made.id)
        await ask(served, [*SAID, message(content="And?")], store=False)
    assert engine.requests[0].messages == engine.requests[1].messages
    assert engine.requests[0].messages[-1] == user("And?")
