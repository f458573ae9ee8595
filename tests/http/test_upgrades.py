"""Who asks for a WebSocket is told that there is none, on every route and in JSON."""

import pytest

from tests.support.serving import playing, serving

HANDSHAKE = {"connection": "Upgrade", "upgrade": "websocket"}
KEY = "sk-a-key-of-ours"


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/v1/chat/completions"])
async def test_a_handshake_is_refused(path: str) -> None:
    async with serving(playing()) as served:
        reply = await served.http.get(path, headers=HANDSHAKE)
    assert (reply.status_code, reply.json()["error"]["code"]) == (426, "upgrade_not_supported")


async def test_a_handshake_without_a_key_is_refused_for_that() -> None:
    async with serving(playing(), keys=[KEY]) as served:
        headers = {**HANDSHAKE, "authorization": "Bearer nobodys"}
        reply = await served.http.get("/v1/responses", headers=headers)
    assert reply.status_code == 401
