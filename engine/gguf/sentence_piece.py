"""SentencePiece's byte-pair tokenizers (`tokenizer.ggml.model` = llama): characters are merged.

SentencePiece knows no list of merges: of all neighbours that together are a piece, it merges those
whose piece has the highest score, the leftmost first. Every way to put a piece together from two
others, in the order of scores, is a list of merges that does the same.
"""

import math
from collections.abc import Mapping

from gguf import Keys, TokenType
from tokenizers import AddedToken, Tokenizer, decoders, normalizers
from tokenizers.models import BPE

from engine.gguf.reader import GgufFile
from engine.gguf.vocabulary import Vocabulary

SPACE = "▁"
# Trying all ways to cut a piece is quadratic; no published piece is a quarter as long.
MAX_PIECE_LENGTH = 256


def build_sentence_piece(file: GgufFile, vocabulary: Vocabulary) -> Tokenizer:
    """Build the tokenizer, without the tokens at the ends of a text.

    Raises:
        ModelLoadError: scores or byte tokens are missing or wrong, or text is changed in a way
            that is not known here.
    """
    for key in (Keys.Tokenizer.REMOVE_EXTRA_WS, Keys.Tokenizer.PRECOMPILED_CHARSMAP):
        if key in file.keys and file.find(key, bool) is not False:
            raise file.error(f"its {key} is not supported")
    prefix = file.find(Keys.Tokenizer.ADD_PREFIX, bool)
    adds_space = True if prefix is None else prefix
    ids = spell_pieces(file, vocabulary, adds_space)
    tokenizer = Tokenizer(
        BPE(
            vocab=ids,
            merges=find_merges(file, vocabulary, ids),
            unk_token=vocabulary.token(vocabulary.unk_id),
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    mark = normalizers.Replace(" ", SPACE)
    unmark = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if adds_space:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), mark])
        tokenizer.decoder = decoders.Sequence([*unmark, decoders.Strip(" ", 1, 0)])
    else:
        tokenizer.normalizer = mark
        tokenizer.decoder = decoders.Sequence(unmark)
    spelled = list(ids)
    tokenizer.add_tokens(
        [
            # A marked space is found only in text whose spaces are marked, which is normalized.
            AddedToken(spelled[token_id], special=special, normalized=not (special or adds_space))
            for token_id, special in vocabulary.added_ids
        ]
    )
    return tokenizer


def spell_pieces(file: GgufFile, vocabulary: Vocabulary, adds_space: bool) -> dict[str, int]:
    """The ids of the pieces as SentencePiece spells them, in the order of ids.

    llama.cpp writes the spaces of user-defined pieces as such. They stay so where a text gets a
    space in front: there the pieces are looked for before that, as llama.cpp does.

    Raises:
        ModelLoadError: two pieces are the same, or one of the 256 bytes has none.
    """
    ids = {}
    for token_id, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
        is_marked = kind == TokenType.USER_DEFINED and not adds_space
        ids[token.replace(" ", SPACE) if is_marked else token] = token_id
    if len(ids) != len(vocabulary.tokens):
        raise file.error("its tokenizer has the same token twice")
    missing = [token for token in (f"<0x{byte:02X}>" for byte in range(256)) if token not in ids]
    if missing:
        raise file.error(f"its tokenizer lacks {len(missing)} bytes, such as {missing[0]}")
    return ids


def find_merges(
    file: GgufFile, vocabulary: Vocabulary, ids: Mapping[str, int]
) -> list[tuple[str, str]]:
    """All pairs of pieces that together are a piece, the one of the highest score first.

    Bytes, user-defined and control pieces are never made by merging, nor merged.

    Raises:
        ModelLoadError: there is not one finite score a piece, or a piece is too long.
    """
    scores = file.need_list(Keys.Tokenizer.SCORES, float, len(vocabulary.tokens))
    if not all(map(math.isfinite, scores)):
        raise file.error(f"its {Keys.Tokenizer.SCORES} are not all finite")
    pieces = {
        token: scores[token_id]
        for token, token_id in ids.items()
        if vocabulary.types[token_id] == TokenType.NORMAL
    }
    longest = max(map(len, pieces), default=0)
    if longest > MAX_PIECE_LENGTH:
        raise file.error(f"its tokenizer has a token of {longest} characters")
    return [
        (piece[:cut], piece[cut:])
        for piece in sorted(pieces, key=lambda piece: -pieces[piece])
        for cut in range(1, len(piece))
        if piece[:cut] in pieces and piece[cut:] in pieces
    ]
