"""The tokenizers of converted models are those that the models were trained with."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase
from xgrammar import TokenizerInfo

from engine.backend import load_tokenizer
from tests.engine.gguf_fixtures import (
    BYTES,
    CHARACTERS,
    MERGED_PIECES,
    PIECE_TYPES,
    PIECES,
    SCORES,
    TOKENS,
    USER_PIECES,
    load_fast,
    make_sentence_piece,
    read_json,
    resolve,
    write_gguf,
)


def test_control_tokens_are_special_and_user_tokens_are_text(
    tiny_gguf: Path, cache_dir: Path
) -> None:
    tokenizer = load_fast(resolve(tiny_gguf, cache_dir))
    assert tokenizer.encode("hello<turn>hello<think>") == [263, 1, 263, 3]
    assert tokenizer.decode([263, 1, 263, 3], skip_special_tokens=True) == "hellohello<think>"
    assert tokenizer.all_special_ids == [1, 2, 0]
    assert len(tokenizer) == len(TOKENS)
    assert tokenizer.chat_template == "{{ messages[0].content }}"


def test_a_model_without_a_chat_template_stays_without(tmp_path: Path, cache_dir: Path) -> None:
    path = write_gguf(tmp_path / "base.gguf", metadata={"tokenizer.chat_template": None})
    assert load_fast(resolve(path, cache_dir)).chat_template is None


def test_all_ends_of_a_turn_stop_a_generation(tmp_path: Path, cache_dir: Path) -> None:
    ends = {"tokenizer.ggml.eot_token_id": 0, "tokenizer.ggml.eom_token_id": 1}
    folder = resolve(write_gguf(tmp_path / "ends.gguf", metadata=ends), cache_dir)
    config = read_json(folder / "config.json")
    assert config["eos_token_id"] == [0, 1, 2]
    assert load_tokenizer(folder, eos_token_ids=config["eos_token_id"]).eos_token_ids == {0, 1, 2}


@pytest.mark.parametrize(
    ("metadata", "ids"),
    [
        ({"tokenizer.ggml.add_bos_token": True}, [1, 263]),
        ({"tokenizer.ggml.add_bos_token": False}, [263]),
        ({"tokenizer.ggml.add_eos_token": True}, [263, 2]),
        ({"tokenizer.ggml.pre": "llama-bpe"}, [1, 263]),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, [263]),
    ],
)
def test_the_first_and_last_token_are_added_as_the_file_says(
    tmp_path: Path, cache_dir: Path, metadata: dict[str, Any], ids: list[int]
) -> None:
    tokenizer = load_fast(resolve(write_gguf(tmp_path / "m.gguf", metadata=metadata), cache_dir))
    assert tokenizer.encode("hello") == ids
    assert tokenizer.encode("hello", add_special_tokens=False) == [263]


DONT = ["Don", "'t"]


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [
        ("smollm", [*DONT, " mix", " ", "1", "2", "3", "4", " ,.", "\n\n", " x", "'", "S"]),
        ("gpt-2", [*DONT, " mix", " 1234", " ,.", "\n\n", " x", "'", "S"]),
        ("default", ["Don", "'", "t", " mix", " ", "123", "4", " ", ",.", "\n\n", " x", "'", "S"]),
        ("llama-bpe", [*DONT, " mix", " ", "123", "4", " ,.\n\n", " x", "'S"]),
        ("qwen2", [*DONT, " mix", " ", "1", "2", "3", "4", " ,.\n\n", " x", "'S"]),
    ],
)
def test_text_is_cut_as_the_pre_tokenizer_says(
    tmp_path: Path, cache_dir: Path, pre: str, pieces: list[str]
) -> None:
    path = write_gguf(tmp_path / "pre.gguf", metadata={"tokenizer.ggml.pre": pre})
    backend = load_fast(resolve(path, cache_dir)).backend_tokenizer
    cut = backend.pre_tokenizer.pre_tokenize_str("Don't mix 1234 ,.\n\n x'S")
    assert [backend.decoder.decode([piece]) for piece, _ in cut] == pieces


def test_a_llama3_word_of_the_vocabulary_is_one_token_without_merges(
    tmp_path: Path, cache_dir: Path
) -> None:
    for pre, ids in (("llama-bpe", [265]), ("qwen2", [4 + BYTES.index("1")] * 3)):
        metadata = {"tokenizer.ggml.pre": pre}
        folder = resolve(write_gguf(tmp_path / f"{pre}.gguf", metadata=metadata), cache_dir)
        assert load_fast(folder).encode("111", add_special_tokens=False) == ids


def test_a_token_that_ends_the_familys_turns_stops_a_generation_unnamed(
    tmp_path: Path, cache_dir: Path
) -> None:
    tokens = [*TOKENS[:2], "<|im_end|>", *TOKENS[3:]]
    metadata = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.eos_token_id": 0}
    folder = resolve(write_gguf(tmp_path / "ends.gguf", metadata=metadata), cache_dir)
    assert read_json(folder / "config.json")["eos_token_id"] == [0, 2]
    types = [3, 3, 1, 4, *[1] * (len(TOKENS) - 4)]
    metadata["tokenizer.ggml.token_type"] = types
    folder = resolve(write_gguf(tmp_path / "text.gguf", metadata=metadata), cache_dir)
    assert read_json(folder / "config.json")["eos_token_id"] == [0], "it is text, no marker"


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_qwen_keeps_what_its_file_says_of_tokens(
    tmp_path: Path, cache_dir: Path, family: str
) -> None:
    pre = {"tokenizer.ggml.pre": "deepseek-r1-qwen", "tokenizer.ggml.add_bos_token": True}
    path = write_gguf(tmp_path / "qwen.gguf", family=family, metadata=pre)
    tokenizer = load_fast(resolve(path, cache_dir))
    assert tokenizer.encode("hello<turn>hello<think>") == [1, 263, 1, 263, 3]
    assert tokenizer.decode([263, 1, 3], skip_special_tokens=True) == "hello<think>"
    assert len(tokenizer) == len(TOKENS), "transformers adds none of its own"
    assert tokenizer.unk_token is None


# SentencePiece


@pytest.fixture(scope="module")
def pieces_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pieces")
    return resolve(write_gguf(folder / "g.gguf", family="gemma3"), folder / "cache")


@pytest.fixture(scope="module")
def pieces_tokenizer(pieces_folder: Path) -> PreTrainedTokenizerBase:
    return load_fast(pieces_folder)


@pytest.fixture(scope="module")
def spaced_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerBase:
    folder = tmp_path_factory.mktemp("spaced")
    metadata = {"tokenizer.ggml.add_space_prefix": None}
    path = write_gguf(folder / "g.gguf", family="gemma3", metadata=metadata)
    return load_fast(resolve(path, folder / "cache"))


SENTENCE_PIECE = make_sentence_piece(PIECES, SCORES, PIECE_TYPES, adds_space=False)
WITH_SPACE = make_sentence_piece(PIECES, SCORES, PIECE_TYPES, adds_space=True)
FRAGMENTS = st.sampled_from([*MERGED_PIECES, *CHARACTERS, *USER_PIECES, " ", "ü", "👍", "<0x0A>"])


@given(text=st.lists(FRAGMENTS, max_size=25).map("".join) | st.text(max_size=30))
def test_text_becomes_the_pieces_that_sentencepiece_makes(
    pieces_tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    text = text.encode("utf-8", "replace").decode()
    ids = pieces_tokenizer.encode(text, add_special_tokens=False)
    assert ids == SENTENCE_PIECE.encode(text)
    assert pieces_tokenizer.decode(ids) == SENTENCE_PIECE.decode(ids) == text.replace("▁", " ")


@given(text=st.lists(FRAGMENTS, max_size=25).map("".join))
def test_the_bytes_of_a_texts_pieces_are_the_text(
    pieces_tokenizer: PreTrainedTokenizerBase, text: str
) -> None:
    vocabulary = TokenizerInfo.from_huggingface(pieces_tokenizer).decoded_vocab
    ids = pieces_tokenizer.encode(text, add_special_tokens=False)
    assert b"".join(vocabulary[token_id] for token_id in ids).decode() == text.replace("▁", " ")


@given(words=st.lists(st.sampled_from([*MERGED_PIECES[4:], "é", "ü", "."]), min_size=1))
def test_a_space_is_put_in_front_where_the_file_does_not_forbid_it(
    spaced_tokenizer: PreTrainedTokenizerBase, words: list[str]
) -> None:
    text = " ".join(words).replace("▁", "")
    ids = spaced_tokenizer.encode(text, add_special_tokens=False)
    assert ids == WITH_SPACE.encode(text)
    assert spaced_tokenizer.decode(ids) == text


def test_runs_of_spaces_and_lines_are_tokens_that_nothing_joins(
    pieces_tokenizer: PreTrainedTokenizerBase,
) -> None:
    cut = pieces_tokenizer.tokenize("     a\n\n\n\n<table>the   hello")
    assert cut == ["▁▁▁▁", "▁a", "\n\n\n", "\n", "<table>", "the", "▁▁▁", "hello"]


def test_control_pieces_are_markers_and_frame_the_text(pieces_folder: Path) -> None:
    tokenizer = load_fast(pieces_folder)
    the, turn = PIECES.index("the"), PIECES.index("<turn>")
    assert tokenizer.encode("the<turn>the") == [2, the, turn, the]
    assert tokenizer.decode([2, the, turn, 1], skip_special_tokens=True) == "the"
    assert load_tokenizer(pieces_folder, eos_token_ids=[1]).eos_token_ids == {1}


@pytest.mark.parametrize(
    ("metadata", "before", "after"),
    [
        ({}, [2], []),
        ({"tokenizer.ggml.add_bos_token": None}, [2], []),
        ({"tokenizer.ggml.add_bos_token": False}, [], []),
        ({"tokenizer.ggml.add_eos_token": True}, [2], [1]),
    ],
)
def test_a_text_of_pieces_is_framed_as_the_file_says(
    tmp_path: Path, cache_dir: Path, metadata: dict[str, Any], before: list[int], after: list[int]
) -> None:
    path = write_gguf(tmp_path / "g.gguf", family="gemma3", metadata=metadata)
    the = PIECES.index("the")
    assert load_fast(resolve(path, cache_dir)).encode("the") == [*before, the, *after]
