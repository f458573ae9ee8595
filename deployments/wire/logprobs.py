"""Log probabilities as `/v1/responses` and `/v1/chat/completions` spell them, token by token."""

from typing import Any

from engine.types import SampledLogprob, TokenLogprob

# OpenAI's for a token that is next to impossible. JSON has no infinity, which is the logarithm of
# a probability of 0, and no NaN, which a model that computes nonsense gives.
FLOOR = -9999.0


def to_logprobs(sampled: tuple[SampledLogprob, ...]) -> list[dict[str, Any]]:
    """One element a token, each with its alternatives, the likeliest first."""
    return [
        {**_to_token(each.sampled), "top_logprobs": [_to_token(token) for token in each.top]}
        for each in sampled
    ]


def to_text(token: TokenLogprob) -> str:
    """A token as text: what is no whole character in UTF-8 shows as U+FFFD; its bytes tell it."""
    return token.token.decode(errors="replace")


def _to_token(token: TokenLogprob) -> dict[str, Any]:
    return {
        "token": to_text(token),
        "bytes": list(token.token),
        "logprob": to_finite(token.logprob),
    }


def to_finite(logprob: float) -> float:
    """A log probability from `FLOOR` to 0, whatever the model computed."""
    return min(logprob, 0.0) if logprob > FLOOR else FLOOR
