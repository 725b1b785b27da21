"""Ids as they come into text as it can be shown: pieces that never have to be taken back.

A token may be half a character or half a word, and the next one may change how the last word is written. So the last
word is held back until something follows it. How ids become text is given; models and searches are not known here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from regard.errors import RegardError


class TextStream:
    """Turns growing ids into pieces of text; joined, they are `decode` of all ids.

    `decode` may rewrite the last word of a text when another id follows, but not the words before it.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._shown = ""

    def push(self, new_id: int) -> str:
        """Take one more id; returns the text that is now certain, often none."""
        self._ids.append(new_id)
        text = self._decode(self._ids)
        return self._show(text[: certain_length(text)])

    def finish(self) -> str:
        """The rest: call it after the last id."""
        text = self._decode(self._ids)
        if not text.startswith(self._shown):
            raise RegardError(
                f"the text {self._shown!r} was shown, but all ids together read {text!r}: this tokenizer rewrites "
                f"earlier words, so its text cannot be streamed; decode it as a whole."
            )
        return self._show(text)

    def _show(self, text: str) -> str:
        if not text.startswith(self._shown):
            return ""
        piece = text[len(self._shown) :]
        self._shown = text
        return piece


def pieces(decode: Callable[[Sequence[int]], str], ids: Iterable[int]) -> Iterator[str]:
    """The text of `ids` piece by piece, while they come."""
    text = TextStream(decode)
    for new_id in ids:
        piece = text.push(new_id)
        if piece:
            yield piece
    rest = text.finish()
    if rest:
        yield rest


def certain_length(text: str) -> int:
    """How much of a growing text can be shown: all but its last word and the space before it.

    Scripts that write without spaces are shown character by character: a wide character counts as a word.
    """
    end = len(text)
    while end and not (text[end - 1].isspace() or _is_wide(text[end - 1])):
        end -= 1
    while end and text[end - 1].isspace():
        end -= 1
    return end


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F")


def behind(decode: Callable[[Sequence[int]], str], before: Sequence[int]) -> Callable[[Sequence[int]], str]:
    """`decode` for ids that come behind others: many decoders drop the space before the first word of a text."""
    known = len(decode(before))
    return lambda ids: decode([*before, *ids])[known:]


class StoppingStream:
    """Turns growing ids into pieces of text, up to the first of some stop texts, of which nothing is ever shown.

    What could be the beginning of a stop text is held back, and so is half a character. `decode` of more ids must go
    on from that of fewer, as it does for characters and bytes.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()) -> None:
        self._decode, self._stops = decode, tuple(stops)
        self._ids: list[int] = []
        self._shown = 0
        self.text = ""  # what was written so far, without a stop text
        self.stopped = False

    def push(self, new_id: int) -> str | None:
        """Take one more id; returns the text that is now certain, often none. None when a stop text is complete."""
        self._ids.append(new_id)
        self.text = self._decode(self._ids)
        ends = [place for stop in self._stops if (place := self.text.find(stop)) >= 0]
        if ends:
            self.text, self.stopped = self.text[: min(ends)], True
            return None
        end = len(self.text.rstrip("\ufffd"))
        held = max((_overlap(self.text[:end], stop) for stop in self._stops), default=0)
        return self._show(end - held)

    @property
    def rest(self) -> str:
        """What is certain and has not been shown."""
        return self._show(len(self.text))

    def finish(self) -> str:
        """The rest: call it after the last id."""
        return self.rest

    def _show(self, end: int) -> str:
        piece, self._shown = self.text[self._shown : end], max(self._shown, end)
        return piece


def _overlap(text: str, stop: str) -> int:
    """How much of the end of `text` is a beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
