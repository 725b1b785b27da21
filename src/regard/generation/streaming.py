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
