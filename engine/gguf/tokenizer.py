"""The tokenizer of a GGUF file, as tokenizer.json and tokenizer_config.json hold one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gguf import Keys, TokenType
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.processors import ByteLevel, PostProcessor, Sequence, TemplateProcessing

from engine.gguf.reader import GgufFile

SPECIAL_TYPES = (TokenType.CONTROL, TokenType.UNKNOWN)

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
_QWEN2 = PreTokenizer((rf"{_GPT4_WORDS}|\p{{N}}|{_GPT4_REST}",), normalizes_nfc=True)

# The values of `tokenizer.ggml.pre`, which name a family's tokenizer. The expressions are those of
# the families' own tokenizer.json files; `default` is what llama.cpp defines under that name.
PRE_TOKENIZERS: Mapping[str, PreTokenizer] = {
    "smollm": PreTokenizer((r"\p{N}", _GPT2)),
    "gpt-2": PreTokenizer((_GPT2,)),
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a file by id, and which ids have a role; None where the file names none."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    bos_id: int | None
    eos_id: int
    eot_id: int | None
    eom_id: int | None
    unk_id: int | None
    pad_id: int | None

    @property
    def stop_ids(self) -> list[int]:
        """Ids that end a generation: of the text, of the turn, of a message before a tool's."""
        ids = (self.eos_id, self.eot_id, self.eom_id)
        return sorted({token_id for token_id in ids if token_id is not None})

    @property
    def special_tokens(self) -> list[str]:
        """Tokens that steer the model and are not text."""
        return [t for t, kind in zip(self.tokens, self.types, strict=True) if kind in SPECIAL_TYPES]

    def token(self, token_id: int | None) -> str | None:
        """The token of a role, if the role is filled."""
        return None if token_id is None else self.tokens[token_id]


def read_vocabulary(file: GgufFile) -> Vocabulary:
    """Read the tokens, their types and their roles.

    Raises:
        ModelLoadError: the tokenizer is not a byte-pair one, or its parts do not fit together.
    """
    model = file.need(Keys.Tokenizer.MODEL, str)
    if model != "gpt2":
        raise file.error(
            f"its tokenizer is of type {model}, but only byte-pair ones (gpt2) can be read"
        )
    tokens = file.need_list(Keys.Tokenizer.LIST, str)
    types = file.need_list(Keys.Tokenizer.TOKEN_TYPE, int)
    if len(types) != len(tokens):
        raise file.error(f"its tokenizer has {len(tokens)} tokens but {len(types)} token types")
    if len(set(tokens)) != len(tokens):
        raise file.error("its tokenizer has the same token twice")

    def find_id(key: str) -> int | None:
        token_id = file.find(key, int)
        if token_id is not None and not 0 <= token_id < len(tokens):
            raise file.error(f"its {key} {token_id} is not one of its {len(tokens)} tokens")
        return token_id

    eos_id = find_id(Keys.Tokenizer.EOS_ID)
    if eos_id is None:
        raise file.error(f"its metadata lacks {Keys.Tokenizer.EOS_ID}")
    return Vocabulary(
        tokens=tuple(tokens),
        types=tuple(types),
        bos_id=find_id(Keys.Tokenizer.BOS_ID),
        eos_id=eos_id,
        eot_id=find_id(Keys.Tokenizer.EOT_ID),
        eom_id=find_id(Keys.Tokenizer.EOM_ID),
        unk_id=find_id(Keys.Tokenizer.UNK_ID),
        pad_id=find_id(Keys.Tokenizer.PAD_ID),
    )


def build_tokenizer(file: GgufFile, vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer that the model was trained with.

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
    tokenizer.post_processor = make_post_processor(file, vocabulary, pre)
    tokenizer.add_tokens(
        [
            AddedToken(token, special=kind in SPECIAL_TYPES, normalized=False)
            for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=True)
            if kind in SPECIAL_TYPES or kind == TokenType.USER_DEFINED
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


def make_post_processor(file: GgufFile, vocabulary: Vocabulary, pre: PreTokenizer) -> PostProcessor:
    """Frame an encoded text with the tokens that the model wants at its ends.

    Raises:
        ModelLoadError: the file wants a first token but names none.
    """
    adds_bos = file.find(Keys.Tokenizer.ADD_BOS, bool)
    if adds_bos is None:
        adds_bos = pre.adds_bos
    bos = vocabulary.token(vocabulary.bos_id)
    if adds_bos and bos is None:
        raise file.error(f"its metadata lacks {Keys.Tokenizer.BOS_ID}")
    before = [bos] if adds_bos and bos is not None else []
    adds_eos = file.find(Keys.Tokenizer.ADD_EOS, bool)
    after = [vocabulary.tokens[vocabulary.eos_id]] if adds_eos else []
    if not before and not after:
        return ByteLevel(trim_offsets=False)
    template = TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, *before, "$B", *after],
        special_tokens=[(token, vocabulary.tokens.index(token)) for token in {*before, *after}],
    )
    return Sequence([ByteLevel(trim_offsets=False), template])


def make_tokenizer_config(
    file: GgufFile, vocabulary: Vocabulary, context_length: int
) -> dict[str, Any]:
    """The content of tokenizer_config.json, by which transformers loads tokenizer.json as it is.

    First and last tokens are left to the post-processor: `add_bos_token` here would make
    transformers replace it. Special tokens are listed because transformers knows them by this
    list alone, however they are marked in tokenizer.json.
    """
    roles = {
        "bos_token": vocabulary.token(vocabulary.bos_id),
        "eos_token": vocabulary.token(vocabulary.eos_id),
        "unk_token": vocabulary.token(vocabulary.unk_id),
        "pad_token": vocabulary.token(vocabulary.pad_id),
    }
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        **{role: token for role, token in roles.items() if token is not None},
        "additional_special_tokens": vocabulary.special_tokens,
    }
    template = file.find(Keys.Tokenizer.CHAT_TEMPLATE, str)
    if template is not None:
        config["chat_template"] = template
    return config
