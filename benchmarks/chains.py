"""Chains over HTTP, against a running server: what a turn costs, and one sent at once.

    python -m benchmarks.chains --base-url http://127.0.0.1:8000/v1 --model smollm2-135m

First a chain of `--turns` turns: the seconds of each turn and the tokens of its input, beside the
same turns sent whole without a parent, turn about. Then, `--instants` times, a request that goes on
from a stream is sent as soon as the client has read the stream's terminal event, which must succeed
each time. `OPENAI_API_KEY` is sent as the key.
"""

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import dataclass

import openai

TERMINAL = ("response.completed", "response.incomplete")
TEXT = "Go on with the story, please."


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the chain: its input's tokens, and the seconds with a parent and sent whole."""

    input_tokens: int
    chained_s: float
    whole_s: float


def take_turns(client: openai.OpenAI, model: str, num_turns: int) -> list[Turn]:
    parent: str | None = None
    history: list[dict[str, str]] = []
    turns = []
    for _ in range(num_turns):
        history.append({"role": "user", "content": TEXT})
        start = time.perf_counter()
        chained = client.responses.create(
            model=model, input=TEXT, previous_response_id=parent, max_output_tokens=4, temperature=0
        )
        chained_s = time.perf_counter() - start
        start = time.perf_counter()
        whole = client.responses.create(
            model=model,
            input=history,  # type: ignore[arg-type]
            store=False,
            max_output_tokens=4,
            temperature=0,
        )
        whole_s = time.perf_counter() - start
        if chained.usage is None or whole.usage is None:
            raise SystemExit("the server tells no usage")
        if chained.usage.input_tokens != whole.usage.input_tokens:
            raise SystemExit(f"the chain's prompt differs: {chained.usage} and {whole.usage}")
        turns.append(Turn(chained.usage.input_tokens, chained_s, whole_s))
        history.append({"role": "assistant", "content": chained.output_text})
        parent = chained.id
    return turns


def chain_at_once(client: openai.OpenAI, model: str, num_times: int) -> list[float]:
    """Seconds from a terminal event to the first event of the response that goes on from it."""
    waits = []
    for _ in range(num_times):
        for event in client.responses.create(
            model=model, input=TEXT, max_output_tokens=2, stream=True
        ):
            if event.type in TERMINAL:
                start = time.perf_counter()
                chained = client.responses.create(
                    model=model,
                    input=TEXT,
                    previous_response_id=event.response.id,  # type: ignore[union-attr]
                    max_output_tokens=1,
                    stream=True,
                )
                first = next(iter(chained))
                waits.append(time.perf_counter() - start)
                chained.close()
                if first.type != "response.created":
                    raise SystemExit(f"a chained request began with {first.type}")
    return waits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--instants", type=int, default=200)
    options = parser.parse_args()
    key = os.environ.get("OPENAI_API_KEY", "none")
    with openai.OpenAI(base_url=options.base_url, api_key=key, max_retries=0) as client:
        turns = take_turns(client, options.model, options.turns)
        waits = chain_at_once(client, options.model, options.instants)
    for number, turn in enumerate(turns, 1):
        if number in (1, len(turns)) or number % 10 == 0:
            times = f"chained {turn.chained_s * 1000:.0f} ms  whole {turn.whole_s * 1000:.0f} ms"
            print(f"turn {number:3}  {turn.input_tokens:5} tokens  {times}")
    result = {
        "ratio of all turns": sum(t.chained_s for t in turns) / sum(t.whole_s for t in turns),
        "chained at once": len(waits),
        "first event ms, p50": statistics.median(waits) * 1000,
        "first event ms, max": max(waits) * 1000,
    }
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
