"""Token ids to text, byte by byte: a character comes out when its last byte has come in."""

import codecs
from collections.abc import Collection, Sequence


class Detokenizer:
    """Incremental decoder of one generation: `feed` each id, `flush` once at its end.

    `vocabulary` maps an id to its bytes; ids in `hidden` (special tokens) and ids beyond the
    vocabulary give no text. Bytes that are no UTF-8 become U+FFFD, as a decoder of the whole would.
    """

    def __init__(self, vocabulary: Sequence[bytes], hidden: Collection[int]) -> None:
        self._vocabulary = vocabulary
        self._hidden = hidden
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_inside_character(self) -> bool:
        """Whether bytes of a character wait for its last one."""
        return bool(self._decoder.getstate()[0])

    def is_hidden(self, token_id: int) -> bool:
        """Whether a token gives no text whatever comes."""
        return token_id in self._hidden or token_id >= len(self._vocabulary)

    def to_bytes(self, token_id: int) -> bytes:
        """A token's own bytes, those of a special token too; none beyond the vocabulary."""
        return self._vocabulary[token_id] if token_id < len(self._vocabulary) else b""

    def feed(self, token_id: int) -> str:
        """The characters that this token completes; often none within a multi-byte character."""
        if self.is_hidden(token_id):
            return ""
        return self._decoder.decode(self._vocabulary[token_id])

    def flush(self) -> str:
        """What an unfinished character at the end comes to: U+FFFD or nothing."""
        return self._decoder.decode(b"", final=True)
