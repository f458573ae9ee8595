"""The tokens of a GGUF file, and the roles that some of them have."""

from dataclasses import dataclass

from gguf import Keys, TokenType

from engine.gguf.reader import GgufFile

SPECIAL_TYPES = (TokenType.CONTROL, TokenType.UNKNOWN)
# What ends a generation by the published generation_config.json of the families and their kin.
END_TOKENS = frozenset(
    {
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<end_of_turn>",
    }
)


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
        """Ids that end a generation: of the text, of the turn, of a message before a tool's.

        Many files name only one of a model's ends, so the ends of the families are known here too.
        """
        named = {self.eos_id, self.eot_id, self.eom_id} - {None}
        known = {
            token_id
            for token_id, (token, kind) in enumerate(zip(self.tokens, self.types, strict=True))
            if kind == TokenType.CONTROL and token in END_TOKENS
        }
        return sorted(token_id for token_id in named | known if token_id is not None)

    @property
    def special_tokens(self) -> list[str]:
        """Tokens that steer the model and are not text."""
        return [t for t, kind in zip(self.tokens, self.types, strict=True) if kind in SPECIAL_TYPES]

    @property
    def added_ids(self) -> list[tuple[int, bool]]:
        """Ids of the tokens that are found in a text before all others, and which are special."""
        return [
            (token_id, kind in SPECIAL_TYPES)
            for token_id, kind in enumerate(self.types)
            if kind in SPECIAL_TYPES or kind == TokenType.USER_DEFINED
        ]

    def token(self, token_id: int | None) -> str | None:
        """The token of a role, if the role is filled."""
        return None if token_id is None else self.tokens[token_id]


def read_vocabulary(file: GgufFile) -> Vocabulary:
    """Read the tokens, their types and their roles.

    Raises:
        ModelLoadError: a part is missing, or does not fit the others.
    """
    tokens = file.need_list(Keys.Tokenizer.LIST, str)
    types = file.need_list(Keys.Tokenizer.TOKEN_TYPE, int, len(tokens))
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
