"""Byte-pair tokenizers (`tokenizer.ggml.model` = gpt2): text is cut, then bytes are merged."""

from collections.abc import Mapping
from dataclasses import dataclass

from gguf import Keys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from engine.gguf.reader import GgufFile
from engine.gguf.vocabulary import Vocabulary

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_GPT4_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_GPT4_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """How text is cut before byte pairs are merged.

    Every regular expression splits the pieces that the ones before it left. `uses_whole_words`
    takes a piece that is itself in the vocabulary without merging. `adds_bos` holds where the
    file does not say.
    """

    splits: tuple[str, ...]
    uses_whole_words: bool = False
    adds_bos: bool = False
    normalizes_nfc: bool = False


_LLAMA3 = PreTokenizer(
    (rf"{_GPT4_WORDS}|\p{{N}}{{1,3}}|{_GPT4_REST}",), uses_whole_words=True, adds_bos=True
)
QWEN2_PRE_TOKENIZER = PreTokenizer((rf"{_GPT4_WORDS}|\p{{N}}|{_GPT4_REST}",), normalizes_nfc=True)

# The values of `tokenizer.ggml.pre`, which name a family's tokenizer. The expressions are those of
# the families' own tokenizer.json files; `default` is what llama.cpp defines under that name.
PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    "smollm": PreTokenizer((r"\p{N}", _GPT2)),
    "gpt-2": PreTokenizer((_GPT2,)),
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": QWEN2_PRE_TOKENIZER,
    "deepseek-r1-qwen": QWEN2_PRE_TOKENIZER,
}


def build_byte_pair(file: GgufFile, vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer, without the tokens at the ends of a text.

    Raises:
        ModelLoadError: the pre-tokenizer is unknown, or a merge is of tokens that do not exist.
    """
    pre = choose_pre_tokenizer(file)
    ids = {token: token_id for token_id, token in enumerate(vocabulary.tokens)}
    merges = read_merges(file, ids)
    tokenizer = Tokenizer(BPE(vocab=ids, merges=merges, ignore_merges=pre.uses_whole_words))
    if pre.normalizes_nfc:
        tokenizer.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(split), "isolated") for split in pre.splits]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [
            AddedToken(vocabulary.tokens[token_id], special=special, normalized=False)
            for token_id, special in vocabulary.added_ids
        ]
    )
    return tokenizer


def choose_pre_tokenizer(file: GgufFile) -> PreTokenizer:
    """Look the file's pre-tokenizer up; there is no safe guess, since a wrong one still runs.

    Raises:
        ModelLoadError: the file names none, or one that is not known here.
    """
    name = file.need(Keys.Tokenizer.PRE, str)
    pre = PRE_TOKENIZERS.get(name)
    if pre is None:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise file.error(f"its pre-tokenizer {name} is not one of: {known}")
    return pre


def read_merges(file: GgufFile, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Read the pairs to merge, the first to be merged first.

    Raises:
        ModelLoadError: a merge is not a pair, or of or to a token that does not exist.
    """
    merges = []
    for merge in file.need_list(Keys.Tokenizer.MERGES, str):
        left, _, right = merge.partition(" ")
        if not (left in ids and right in ids and left + right in ids):
            raise file.error(f"its tokenizer merges {merge!r}, which is not of its tokens")
        merges.append((left, right))
    return merges
