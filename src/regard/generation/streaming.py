"""Ids as they come into text as it can be shown: pieces that never have to be taken back.

A token may be half a character or half a word, and the next one may change how the last word is written. So the last
word is held back until something follows it. How ids become text is given; models and searches are not known here.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from regard.errors import RegardError

WINDOW = 64  # ids after which it is tried to do without the first of them
OVERLAP = 16  # ids that are kept before and after the place where a text is parted


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
    on from that of fewer, as it does for characters and bytes; how a token reads may depend on a few before it. Only
    the last ids are decoded again with each new one, so that the end of a long text costs no more than its beginning.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()) -> None:
        self._decode, self._stops = decode, tuple(stops)
        self._aside: list[str] = []  # text that was shown, whose ids are not needed any more
        self._ids: list[int] = []  # the newest
        self._known = 0  # how much of their text is aside already
        self._tail = ""  # the rest of it
        self._shown = 0  # how much of the tail was shown
        self.stopped = False

    @property
    def text(self) -> str:
        """What was written so far, without a stop text."""
        return "".join((*self._aside, self._tail))

    def push(self, new_id: int) -> str | None:
        """Take one more id; returns the text that is now certain, often none. None when a stop text is complete."""
        self._ids.append(new_id)
        self._tail = self._decode(self._ids)[self._known :]
        # Nothing that was shown can belong to a stop text.
        ends = [place for stop in self._stops if (place := self._tail.find(stop, self._shown)) >= 0]
        if ends:
            self._tail, self.stopped = self._tail[: min(ends)], True
            return None
        end = len(self._tail.rstrip("\ufffd"))
        held = max((_overlap(self._tail[self._shown : end], stop) for stop in self._stops), default=0)
        piece = self._show(end - held)
        if len(self._ids) % WINDOW == 0:
            self._put_aside()
        return piece

    @property
    def rest(self) -> str:
        """What is certain and has not been shown."""
        return self._show(len(self._tail))

    def finish(self) -> str:
        """The rest: call it after the last id."""
        return self.rest

    def _show(self, end: int) -> str:
        piece, self._shown = self._tail[self._shown : end], max(self._shown, end)
        return piece

    def _put_aside(self) -> None:
        """Need the first ids no more, if their text was shown and the others read the same without them."""
        done = self._ids[:-OVERLAP]
        text = self._decode(done)[self._known :]
        ids = done[-OVERLAP:] + self._ids[-OVERLAP:]
        known = len(self._decode(ids[:-OVERLAP]))
        tail = self._tail[len(text) :]
        if len(text) <= self._shown and self._tail.startswith(text) and self._decode(ids)[known:] == tail:
            self._aside.append(text)
            self._ids, self._known, self._tail = ids, known, tail
            self._shown -= len(text)


def _overlap(text: str, stop: str) -> int:
    """How much of the end of `text` is a beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
