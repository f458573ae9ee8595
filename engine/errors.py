"""The engine's one error tree. All arguments go to `Exception.__init__`, so they pickle."""


class EngineError(Exception):
    """Base of all errors that the engine raises."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ModelLoadError(EngineError):
    """A model cannot be found, converted or loaded: its settings or files are at fault."""


class Refusal(EngineError):
    """Base of errors that are no fault of ours: a request is refused before its first event."""


class RequestError(Refusal):
    """Base of errors that a request itself causes."""


class ContextLengthError(RequestError):
    """The prompt leaves no room in the model's context for a single token of output.

    `prompt_tokens` may be a lower bound: what is far too long is not tokenized to its end.
    `is_memory_bound` says that the model could take more, but the memory for its caches cannot.
    """

    def __init__(
        self, prompt_tokens: int, context_length: int, is_memory_bound: bool = False
    ) -> None:
        Exception.__init__(self, prompt_tokens, context_length, is_memory_bound)
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length
        self.is_memory_bound = is_memory_bound
        self.message = (
            f"The input of {prompt_tokens} tokens or more leaves no room for output in the model's "
            f"context of {context_length} tokens."
        )
        if is_memory_bound:
            self.message += (
                " The server's memory allows no longer one: its operator can free some or raise the"
                " model's kv_cache_bytes."
            )


class ChatTemplateError(RequestError):
    """The model's chat template refuses these messages."""


class NoChatTemplateError(RequestError):
    """The model has no chat template, so it takes no messages."""

    def __init__(self) -> None:
        Exception.__init__(self)
        self.message = (
            "This model has no chat template, so it takes no messages; its setting chat_template "
            "can name a file with one."
        )


class QueueFullError(Refusal):
    """As many generations wait as the engine lets wait."""

    def __init__(self, max_waiting: int) -> None:
        Exception.__init__(self, max_waiting)
        self.max_waiting = max_waiting
        self.message = (
            "The model is running as many requests as it can, and all places in its queue "
            f"({max_waiting}) are taken; try again soon."
        )


class GenerationFailedError(EngineError):
    """A generation that had started cannot go on."""


class DeadlineError(EngineError):
    """A generation, with the time it waited, has taken longer than the model's settings allow."""

    def __init__(self, limit_s: float) -> None:
        Exception.__init__(self, limit_s)
        self.limit_s = limit_s
        self.message = (
            f"The answer took longer than the {limit_s:g} s that this server allows, the wait in "
            "its queue included; a smaller limit of output tokens makes it shorter."
        )


class LogitBiasError(RequestError):
    """A token id of `logit_bias` is none of the model's."""

    def __init__(self, token_id: int, vocab_size: int) -> None:
        Exception.__init__(self, token_id, vocab_size)
        self.token_id = token_id
        self.vocab_size = vocab_size
        self.message = f"{token_id} is not one of the model's {vocab_size} token ids."


class UnknownTokenError(RequestError):
    """The prompt has a token that the model does not: a caller's, or one of its tokenizer's."""

    def __init__(self, token_id: int, vocab_size: int) -> None:
        Exception.__init__(self, token_id, vocab_size)
        self.token_id = token_id
        self.vocab_size = vocab_size
        self.message = f"The input holds token {token_id}, but the model has {vocab_size} tokens."


class EngineStoppedError(EngineError):
    """The engine's thread has ended: no generation can run in this process any more."""
