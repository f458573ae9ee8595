"""Finds where a text stops, character by character; what may begin a stop string is held back."""

from collections.abc import Sequence


class StopStrings:
    """Cuts one streamed text before the first stop string that is completed.

    The result is the same however the text is cut into pieces, so a stop string may lie across
    tokens or inside one. Where several end at the same character, the longest wins. The work is
    linear in the text, whatever the strings are: each has the automaton of Knuth, Morris and Pratt
    (1977), whose state is how many of its characters the text now ends with.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        """`stops` are not empty."""
        self._stops = tuple(stops)
        self._borders = [find_borders(stop) for stop in self._stops]
        self._states = [0] * len(self._stops)
        self._held = ""
        self.is_stopped = False

    def feed(self, text: str) -> str:
        """What is certainly before any stop string; nothing more once one is complete."""
        if not self._stops:
            return text
        if self.is_stopped:
            return ""
        seen = self._held + text
        for index, character in enumerate(text, len(self._held)):
            length = self._advance(character)
            if length:
                self.is_stopped, self._held = True, ""
                return seen[: index + 1 - length]
        held = max(self._states)
        cut = len(seen) - held
        self._held = seen[cut:]
        return seen[:cut]

    def flush(self) -> str:
        """What was held back and turns out to be text, at the end of a text that did not stop."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> int:
        """Take one character; the length of the longest stop string that it completes, or 0."""
        completed = 0
        for index, (stop, borders) in enumerate(zip(self._stops, self._borders, strict=True)):
            state = self._states[index]
            while state and stop[state] != character:
                state = borders[state - 1]
            state += stop[state] == character
            if state == len(stop):
                completed = max(completed, state)
                state = borders[state - 1]
            self._states[index] = state
        return completed


def find_borders(text: str) -> list[int]:
    """For each prefix of a text, the length of its longest proper prefix that is its suffix too."""
    borders = [0] * len(text)
    for index in range(1, len(text)):
        length = borders[index - 1]
        while length and text[index] != text[length]:
            length = borders[length - 1]
        borders[index] = length + (text[index] == text[length])
    return borders
