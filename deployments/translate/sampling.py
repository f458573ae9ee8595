"""How tokens are picked: what a request says, the model's own settings where it says nothing."""

from dataclasses import replace

from deployments.wire.base import SamplingFields
from engine.types import ModelCard, SamplingParams

NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "seed",
)


def to_sampling(fields: SamplingFields, card: ModelCard) -> SamplingParams:
    sent = {name: value for name in NAMES if (value := getattr(fields, name)) is not None}
    bias = tuple((int(key), value) for key, value in (fields.logit_bias or {}).items())
    return replace(card.default_sampling, logit_bias=bias, **sent)


def to_stop(fields: SamplingFields) -> tuple[str, ...]:
    match fields.stop:
        case None:
            return ()
        case str(text):
            return (text,)
        case texts:
            return tuple(texts)
