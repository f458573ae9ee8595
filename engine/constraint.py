"""What restricts a generation's next token: the place of a grammar in the batch."""

from typing import Protocol

import numpy as np
import numpy.typing as npt


class Constraint(Protocol):
    """The state of one generation's grammar, advanced by every token that it generates.

    It belongs to the engine's thread. Whatever it raises ends its own generation and no other; what
    it does after the last token, which it cannot know to be the last, ends nothing.
    """

    def accept(self, token_id: int) -> None:
        """Take a generated token. Raises any error where the grammar does not allow it."""
        ...

    def fill(self, allowed: npt.NDArray[np.bool_]) -> None:
        """Write which tokens may come next, shape [vocabulary], all True before. Not all False."""
        ...
