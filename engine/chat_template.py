"""Messages to prompt text, by the model's own chat template in a sandbox."""

from collections.abc import Sequence

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from engine.errors import ChatTemplateError, NoChatTemplateError
from engine.types import ChatMessage


class ChatTemplate:
    """A template and the tokenizer whose special tokens it may name.

    transformers renders in jinja2's `ImmutableSandboxedEnvironment`, which keeps a template from
    Python's internals but bounds neither its time nor its memory. So a template comes from a
    model's files or its settings, never from a request.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, override: str | None) -> None:
        """`override` replaces the tokenizer's own template.

        Raises:
            ChatTemplateError: where the template does not even render a greeting.
        """
        self._tokenizer = tokenizer
        self._source = tokenizer.chat_template if override is None else override
        if self._source is not None and not self.render((ChatMessage("user", "Hello"),)):
            raise ChatTemplateError("The chat template renders a greeting to nothing.")

    @property
    def exists(self) -> bool:
        return self._source is not None

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The prompt up to where the assistant's answer begins.

        Raises:
            NoChatTemplateError: where there is no template.
            ChatTemplateError: where it refuses these messages.
        """
        if self._source is None:
            raise NoChatTemplateError
        try:
            prompt = self._tokenizer.apply_chat_template(
                [{"role": message.role, "content": message.content} for message in messages],
                chat_template=self._source,
                tokenize=False,
                add_generation_prompt=True,
            )
        except (TemplateError, TypeError, ValueError, LookupError) as error:
            raise ChatTemplateError(
                f"The model's chat template refuses these messages: {error}"
            ) from error
        return str(prompt)
