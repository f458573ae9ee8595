"""Messages to prompt text, by the model's own chat template in a sandbox."""

from collections.abc import Sequence
from typing import get_args

from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerBase

from engine.errors import ChatTemplateError, NoChatTemplateError
from engine.turns import TemplateTraits, arrange, to_template_turns
from engine.types import ChatMessage, Role

# Conversations that show what a template takes, by the first letters of their roles.
LATE_SYSTEMS = ("us", "usau", "uasu", "suasu")
NEIGHBOURS: dict[Role, tuple[str, ...]] = {
    "system": ("ssu",),
    "user": ("uu", "uauu"),
    "assistant": ("uaau",),
}
ROLES: dict[str, Role] = {role[0]: role for role in get_args(Role)}


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
        self._source = find_own_template(tokenizer) if override is None else override
        self.traits = TemplateTraits()
        if self._source is None:
            return
        if not self.render((ChatMessage("user", "Hello"),)):
            raise ChatTemplateError("The chat template renders a greeting to nothing.")
        self.traits = self._find_traits()

    @property
    def exists(self) -> bool:
        return self._source is not None

    def render(self, messages: Sequence[ChatMessage]) -> str:
        """The prompt up to where the assistant's answer begins.

        Turns that the template does not take as they are have been joined (see `engine.turns`).

        Raises:
            NoChatTemplateError: where there is no template.
            ChatTemplateError: where it refuses these messages.
        """
        if self._source is None:
            raise NoChatTemplateError
        return self._apply(arrange(messages, self.traits))

    def _apply(self, messages: Sequence[ChatMessage]) -> str:
        try:
            prompt = self._tokenizer.apply_chat_template(
                to_template_turns(messages),
                chat_template=self._source,
                tokenize=False,
                add_generation_prompt=True,
            )
        # A template is a program of its author's: it may count, cut and look up what it likes.
        except (
            *(TemplateError, TypeError, ValueError, LookupError),
            *(AttributeError, ArithmeticError, RecursionError),
        ) as error:
            raise ChatTemplateError(
                f"The model's chat template refuses these messages: {error}"
            ) from error
        return str(prompt)

    def _find_traits(self) -> TemplateTraits:
        """What the template takes, told by what it does: its words say nothing certain."""
        return TemplateTraits(
            takes_system=self._keeps("su"),
            takes_lone_system=self._keeps("s"),
            takes_late_system=all(map(self._keeps, LATE_SYSTEMS)),
            merged_roles=frozenset(
                role for role, each in NEIGHBOURS.items() if not all(map(self._keeps, each))
            ),
        )

    def _keeps(self, roles: str) -> bool:
        """Whether a conversation of these roles is rendered, and every text of it."""
        sentinels = [f"Sentinel {number}." for number in range(len(roles))]
        messages = [ChatMessage(ROLES[r], text) for r, text in zip(roles, sentinels, strict=True)]
        try:
            prompt = self._apply(messages)
        except ChatTemplateError:
            return False
        return all(sentinel in prompt for sentinel in sentinels)


def find_own_template(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """The template that the tokenizer's files give; the default one of several with names."""
    own = tokenizer.chat_template
    source: str | None = own.get("default") if isinstance(own, dict) else own
    return source
