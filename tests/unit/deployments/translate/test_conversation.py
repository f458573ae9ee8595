"""RA's rules that span several items of a conversation."""

import pytest

from deployments.errors import InvalidRequestError
from deployments.translate.conversation import (
    MOVED,
    Conversation,
    check_says_something,
)
from deployments.translate.media import PlacedMedia
from engine.types import ChatMessage, Media, Role, ToolCall

CAT, DOG = Media("image", "https://x/cat"), Media("image", "https://x/dog", "low")
PLACED_CAT = PlacedMedia(CAT, "input[0].content[0]")
PLACED_DOG = PlacedMedia(DOG, "input[0].content[1]")


def call(number: int) -> ToolCall:
    return ToolCall(f"call_{number}", "f", "{}")


def test_texts_of_a_turn_are_joined_with_line_ends() -> None:
    conversation = Conversation()
    conversation.add_turn("user", ["a", "", "b\n"])
    conversation.add_turn("assistant", [])
    assert conversation.messages == (
        ChatMessage("user", "a\n\nb\n"),
        ChatMessage("assistant", ""),
    )


def test_thoughts_go_with_the_assistants_next_turn() -> None:
    conversation = Conversation()
    conversation.add_reasoning("One.")
    conversation.add_reasoning("")
    conversation.add_reasoning("Two.")
    conversation.add_turn("assistant", ["Three."])
    conversation.add_turn("assistant", ["Four."])
    assert conversation.messages == (
        ChatMessage("assistant", "Three.", "One.\nTwo."),
        ChatMessage("assistant", "Four."),
    )


@pytest.mark.parametrize("role", ["user", "system"])
def test_thoughts_before_anothers_turn_stand_alone(role: Role) -> None:
    conversation = Conversation()
    conversation.add_reasoning("Hm.")
    conversation.add_turn(role, ["Hi"])
    assert conversation.messages == (ChatMessage("assistant", "", "Hm."), ChatMessage(role, "Hi"))


def test_thoughts_before_a_picture_or_an_output_stand_alone_too() -> None:
    conversation = Conversation()
    conversation.add_reasoning("Hm.")
    conversation.add_turn("user", [PLACED_CAT])
    conversation.add_reasoning("Ah.")
    conversation.add_output("call_1", ["ok"])
    assert conversation.messages == (
        ChatMessage("assistant", "", "Hm."),
        ChatMessage("user", (CAT,)),
        ChatMessage("assistant", "", "Ah."),
        ChatMessage("tool", "ok", call_id="call_1"),
    )


def test_thoughts_at_the_end_stand_alone_until_a_turn_takes_them() -> None:
    conversation = Conversation()
    conversation.add_reasoning("Hm.")
    assert conversation.messages == (ChatMessage("assistant", "", "Hm."),)
    conversation.add_turn("assistant", ["Hi"])
    assert conversation.messages == (ChatMessage("assistant", "Hi", "Hm."),)


def test_calls_join_the_assistants_turn_before_them() -> None:
    conversation = Conversation()
    conversation.add_turn("assistant", ["Wait."])
    conversation.add_call(call(1), "")
    conversation.add_call(call(2), "")
    assert conversation.messages == (
        ChatMessage("assistant", "Wait.", tool_calls=(call(1), call(2))),
    )


@pytest.mark.parametrize("role", ["user", "system"])
def test_calls_after_anothers_turn_are_a_turn_of_their_own(role: Role) -> None:
    conversation = Conversation()
    conversation.add_turn(role, ["Hi"])
    conversation.add_call(call(1), "")
    assert conversation.messages[1:] == (ChatMessage("assistant", "", tool_calls=(call(1),)),)


def test_thoughts_between_calls_keep_their_place() -> None:
    conversation = Conversation()
    for number in (1, 2):
        conversation.add_reasoning(f"{number}?")
        conversation.add_call(call(number), "")
    conversation.add_call(call(3), "")
    assert conversation.messages == (
        ChatMessage("assistant", "", "1?", (call(1),)),
        ChatMessage("assistant", "", "2?", (call(2), call(3))),
    )


def test_a_call_after_an_output_begins_a_turn() -> None:
    conversation = Conversation()
    for number in (1, 2):
        conversation.add_call(call(number), "")
        conversation.add_output(f"call_{number}", ["ok"])
    assert [(each.role, each.call_id) for each in conversation.messages] == [
        ("assistant", None),
        ("tool", "call_1"),
        ("assistant", None),
        ("tool", "call_2"),
    ]


def test_media_of_the_user_stay_in_their_place() -> None:
    conversation = Conversation()
    conversation.add_turn("user", ["a", PLACED_CAT, "b", PLACED_DOG])
    assert conversation.messages == (ChatMessage("user", ("a", CAT, "b", DOG)),)
    assert conversation.media == [PLACED_CAT, PLACED_DOG]


@pytest.mark.parametrize("role", ["assistant", "system"])
def test_media_of_others_follow_in_a_turn_of_the_user(role: Role) -> None:
    conversation = Conversation()
    conversation.add_turn(role, ["a", PLACED_CAT, "b", PLACED_DOG])
    assert conversation.messages == (ChatMessage(role, "a\nb"), ChatMessage("user", (CAT, DOG)))
    assert conversation.media == [PLACED_CAT, PLACED_DOG]


def test_media_of_an_output_follow_it_and_it_says_so_in_its_last_line() -> None:
    conversation = Conversation()
    conversation.add_output("call_1", [PLACED_CAT, "captured", PLACED_DOG])
    conversation.add_output("call_2", [PLACED_DOG])
    assert conversation.messages == (
        ChatMessage("tool", f"captured\n{MOVED}", call_id="call_1"),
        ChatMessage("user", (CAT, DOG)),
        ChatMessage("tool", MOVED, call_id="call_2"),
        ChatMessage("user", (DOG,)),
    )
    assert conversation.media == [PLACED_CAT, PLACED_DOG, PLACED_DOG]


def test_two_calls_without_an_answer_may_not_have_one_id() -> None:
    conversation = Conversation()
    conversation.add_call(call(1), "input[0].call_id")
    conversation.add_call(call(2), "input[1].call_id")
    with pytest.raises(InvalidRequestError) as caught:
        conversation.add_call(call(1), "input[2].call_id")
    assert vars(caught.value) == {
        "message": "Two calls with the id 'call_1' are without an answer: which one an output "
        "belongs to cannot be told.",
        "param": "input[2].call_id",
        "code": "invalid_value",
    }


def test_the_id_of_an_answered_call_may_be_used_again() -> None:
    conversation = Conversation()
    for _ in range(2):
        conversation.add_call(call(1), "")
        conversation.add_output("call_1", ["ok"])
    assert len(conversation.messages) == 4


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage("user", ""),
        ChatMessage("user", " \n\t\u3000"),
        ChatMessage("user", ("", " ")),
        ChatMessage("assistant", "", " "),
        ChatMessage("tool", " ", call_id="call_1"),
    ],
)
def test_blanks_say_nothing(message: ChatMessage) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_says_something([message], "input", "instructions")
    assert vars(caught.value) == {
        "message": "The request has no effective input: give 'input' or 'instructions' some text.",
        "param": "input",
        "code": "missing_required_parameter",
    }


@pytest.mark.parametrize(
    "message",
    [
        ChatMessage("system", "Sing."),
        ChatMessage("user", (" ", "a")),
        ChatMessage("user", (CAT,)),
        ChatMessage("assistant", "", "Hm."),
        ChatMessage("assistant", "", tool_calls=(call(1),)),
        ChatMessage("tool", "ok", call_id="call_1"),
    ],
)
def test_a_word_a_medium_a_call_or_a_thought_anywhere_is_an_input(message: ChatMessage) -> None:
    check_says_something([ChatMessage("user", " "), message], "input")
