"""What the loop and the runner say to each other of a running sequence: plain values, no MLX."""

import hashlib
import secrets
from dataclasses import dataclass, field

from engine.constraint import Constraint
from engine.types import SamplingParams


def make_key(seed: int) -> tuple[int, int]:
    """Two 32-bit words for a seed of any size; neighbouring seeds share nothing."""
    digest = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


@dataclass(slots=True)
class SequenceParams:
    """How a sequence picks its tokens, from its start to its end.

    Its random key and the state of its constraint are kept here, so a sequence that is preempted
    and begun again goes on as if it had not been.
    """

    sampling: SamplingParams
    top_logprobs: int | None = None
    constraint: Constraint | None = None
    key: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        seed = self.sampling.seed
        self.key = make_key(secrets.randbits(64) if seed is None else seed)


@dataclass(frozen=True, slots=True)
class SampledToken:
    """A token's id and, where asked for, the model's own view of it.

    `top` are ids and log probabilities of the likeliest tokens, the likeliest first.
    """

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class StepOutput:
    """One decode step: a token for each row, by generation id, and the rows that have failed."""

    tokens: dict[str, SampledToken] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()


class BatchLostError(Exception):
    """The rows of the decode batch are in no known state any more."""
