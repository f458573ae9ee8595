"""Whatever turns a template takes, nothing that was said is lost, and what it refuses is told."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from configs.paths import REPOSITORY
from engine.chat_template import ROLES, ChatTemplate
from engine.errors import ChatTemplateError, NoChatTemplateError
from engine.turns import TemplateTraits
from engine.types import ChatMessage, Media, Role, ToolCall

EACH = "{% for m in messages %}{% if m.role != 'system' or loop.first %}"
PROMPT = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
SPLIT_SYSTEM = (
    "{% set first = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% set rest = messages[1:] if messages[0].role == 'system' else messages %}"
)
ALTERNATE = (
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
)
TEMPLATES = {
    # Takes every turn wherever it stands, as ChatML does.
    "chatml": "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}" + PROMPT,
    # Trims, and puts each turn under a heading, as Llama 3 does.
    "llama3": (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}]\n\n{{ m.content | trim }}<|eot|>"
        "{% endfor %}{% if add_generation_prompt %}[assistant]\n\n{% endif %}"
    ),
    # Puts the system turn into the user's first, and lets the roles alternate, as Gemma 3 does.
    "gemma": (
        SPLIT_SYSTEM + "{% for m in rest %}" + ALTERNATE + "<turn>{{ m.role }}\n"
        "{{ first ~ '\n\n' if loop.first and first }}{{ m.content | trim }}</turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<turn>model\n{% endif %}"
    ),
    # Puts the system turn into the user's last, and names the roles that it knows, as Mistral does.
    "mistral": (
        SPLIT_SYSTEM + "{% for m in rest %}" + ALTERNATE + "{% if m.role == 'user' %}[INST]"
        "{{ first ~ '\n\n' if loop.last and first }}{{ m.content }}[/INST]"
        "{% elif m.role == 'assistant' %}{{ m.content }}</s>"
        "{% else %}{{ raise_exception('only users and assistants') }}{% endif %}{% endfor %}"
    ),
    # Has no system turn at all.
    "no system": (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}" + ALTERNATE + "<{{ m.role }}>{{ m.content }}{% endfor %}"
    ),
    # Our own, for ChatML models whose template knows no tools.
    "ours": (REPOSITORY / "configs/templates/chatml-hermes-tools.jinja").read_text("utf-8"),
    # Leaves out late system turns without a word.
    "dropping": EACH + "<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}",
    # Leaves out all but the last of neighbours of one role without a word.
    "last word": (
        "{% for m in messages %}{% if loop.last or m.role != loop.nextitem.role %}"
        "<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}"
    ),
}
ALL: frozenset[Role] = frozenset({"system", "user", "assistant"})
TRAITS = {
    "chatml": TemplateTraits(),
    "llama3": TemplateTraits(),
    "gemma": TemplateTraits(True, False, False, ALL),
    "mistral": TemplateTraits(True, False, False, ALL),
    "no system": TemplateTraits(False, False, False, ALL),
    "ours": TemplateTraits(),
    "dropping": TemplateTraits(takes_late_system=False, merged_roles=frozenset({"system"})),
    "last word": TemplateTraits(merged_roles=ALL),
}


def make_tokenizer() -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>"
    )


def make_template(source: str | None) -> ChatTemplate:
    return ChatTemplate(make_tokenizer(), source)


MADE = {name: make_template(source) for name, source in TEMPLATES.items()}


def say(roles: str) -> list[ChatMessage]:
    """A conversation by the first letters of its roles; its texts are numbers between bars."""
    return [ChatMessage(ROLES[letter], f"|{n}|") for n, letter in enumerate(roles)]


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_template_takes_is_found_out_by_what_it_does(name: str) -> None:
    assert MADE[name].traits == TRAITS[name]


@pytest.mark.parametrize("name", TEMPLATES)
@given(systems=st.integers(0, 2), rest=st.text("sua", max_size=8))
@settings(max_examples=60, deadline=None)
def test_no_text_of_any_turn_is_lost(name: str, systems: int, rest: str) -> None:
    messages = say(systems * "s" + "u" + rest + ("u" if name == "mistral" else ""))
    prompt = MADE[name].render(messages)
    assert [prompt.count(str(message.content)) for message in messages] == [1] * len(messages)


@pytest.mark.parametrize("name", TEMPLATES)
def test_system_turns_alone_are_not_lost(name: str) -> None:
    for roles in ("s", "ss"):
        prompt = MADE[name].render(say(roles))
        assert all(str(message.content) in prompt for message in say(roles))


@pytest.mark.parametrize(
    ("name", "roles", "prompt"),
    [
        ("chatml", "usu", "<|user|>|0|<|end|><|system|>|1|<|end|><|user|>|2|<|end|><|assistant|>"),
        ("llama3", "su", "<s>[system]\n\n|0|<|eot|>[user]\n\n|1|<|eot|>[assistant]\n\n"),
        ("gemma", "suasu", "<turn>user\n|0|\n\n|3|\n\n|1|</turn>\n<turn>assistant\n|2|</turn>\n"),
        ("gemma", "uu", "<turn>user\n|0|\n\n|1|</turn>\n<turn>model\n"),
        ("mistral", "usu", "[INST]|1|\n\n|0|\n\n|2|[/INST]"),
        ("no system", "usau", "<user>|1|\n\n|0|<assistant>|2|<user>|3|"),
        ("dropping", "uus", "<system>|2|<user>|0|<user>|1|"),
    ],
)
def test_turns_are_joined_only_where_a_template_demands_it(
    name: str, roles: str, prompt: str
) -> None:
    assert MADE[name].render(say(roles)).startswith(prompt)


@pytest.mark.parametrize("roles", ["a", "sau", "uat"])
def test_a_refusal_keeps_the_templates_own_words(roles: str) -> None:
    with pytest.raises(ChatTemplateError, match="refuses these messages: roles must alternate"):
        MADE["gemma"].render(say(roles))


def test_no_messages_at_all_are_refused() -> None:
    with pytest.raises(ChatTemplateError):
        MADE["chatml"].render([])


@pytest.mark.parametrize(
    "fault", ["{{ 1 // 0 }}", "{{ m.content + 1 }}", "{{ m.nothing.at_all }}", "{{ [][3].x }}"]
)
def test_a_fault_of_the_template_is_a_refusal_and_not_a_crash(fault: str) -> None:
    source = "{% for m in messages %}{{ m.content }}{% if m.role == 'tool' %}" + fault
    template = make_template(source + "{% endif %}{% endfor %}")
    with pytest.raises(ChatTemplateError, match="refuses these messages"):
        template.render(say("ut"))


@pytest.mark.parametrize("source", ["", "{% for m in messages %}{% endfor %}", "{{ oops("])
def test_a_template_that_does_not_render_a_greeting_is_not_taken(source: str) -> None:
    with pytest.raises(ChatTemplateError):
        make_template(source)


@pytest.mark.parametrize("names", [["default", "tool_use"], ["tool_use"]])
def test_of_several_templates_with_names_the_default_is_taken(names: list[str]) -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = {name: f"{name}: {{{{ messages[0].content }}}}" for name in names}
    template = ChatTemplate(tokenizer, None)
    assert template.exists == ("default" in names)
    if template.exists:
        assert template.render(say("u")).startswith("default: ")


def test_without_a_template_messages_are_refused() -> None:
    template = make_template(None)
    assert not template.exists
    with pytest.raises(NoChatTemplateError):
        template.render(say("u"))


def test_calls_results_and_thoughts_come_to_the_template() -> None:
    template = make_template(
        "{% for m in messages %}{{ m.role }}({{ m.reasoning_content }}|{{ m.reasoning }})"
        "{% for c in m.tool_calls %}{{ c.id }}:{{ c.function.name }}"
        "={{ c.function.arguments | tojson }}{% endfor %}"
        "{% if m.role == 'tool' %}{{ m.name }}<{{ m.tool_call_id }}{% endif %}{{ m.content }}\n"
        "{% endfor %}"
    )
    calls = (ToolCall("c1", "now", '{"a": [1, "é"]}'), ToolCall("c2", "then", "not JSON"))
    messages: Sequence[ChatMessage] = (
        ChatMessage("assistant", "x", reasoning="hm", tool_calls=calls),
        ChatMessage("tool", "12", call_id="c2"),
    )
    assert template.render(messages) == (
        'assistant(hm|hm)c1:now={"a": [1, "é"]}c2:then="not JSON"x\ntool(|)then<c212\n'
    )


@pytest.mark.parametrize("name", TEMPLATES)
def test_media_and_deep_arguments_never_crash(name: str) -> None:
    picture = ChatMessage("user", ("look", Media("image", "data:image/png;base64,AA==")))
    deep = ToolCall("c", "f", '{"a":' * 900 + "1" + "}" * 900)
    calling = ChatMessage("assistant", "|1|", tool_calls=(deep,))
    for messages in ([picture], [ChatMessage("user", "|0|"), calling]):
        try:
            assert MADE[name].render(messages)
        except ChatTemplateError:
            continue
