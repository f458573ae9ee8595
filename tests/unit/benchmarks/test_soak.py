"""The bookkeeping of the soak run: every attempt is counted once, however it ends."""

import asyncio
from collections import Counter

import httpx2

from benchmarks.soak import Soak


async def test_every_attempt_is_counted_once_and_no_more_run_than_asked() -> None:
    running = most = 0
    number = iter(range(100))

    async def attempt() -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return "odd" if next(number) % 2 else "even"

    async with httpx2.AsyncClient() as http:
        ends = await Soak(http, "m", 1).repeat(attempt, 25, 4)
    assert ends == Counter(even=13, odd=12)
    assert most == 4


async def test_what_a_server_answers_is_how_an_attempt_ends() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if b'"stream":true' in request.content.replace(b" ", b""):
            return httpx2.Response(200, text="data: response.output_text.delta\n\n")
        raise httpx2.ConnectError("no")

    async with httpx2.AsyncClient(
        transport=httpx2.MockTransport(answer), base_url="http://test"
    ) as http:
        soak = Soak(http, "m", 1)
        assert await soak.ask() == "ConnectError"
        assert await soak.leave_in_mid_stream() == "closed"
