"""Streaming: turn ids into chunks of text as they arrive. A chunk is final once it is returned.

A token may be a part of a character or word, and the next token may change how the last word is written. So the last
word is returned only when more text follows. The caller provides `decode`; this module does not depend on models.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from regard.utils.errors import RegardError

Decode = Callable[[Sequence[int]], str]
WINDOW = 64  # after this many ids the oldest ones are dropped, if possible
OVERLAP = 16  # number of ids on each side of the boundary that are decoded together


class TextStream:
    """Turns a growing sequence of ids into chunks of text; joined, the chunks equal `decode` of all ids.

    `decode` may rewrite the last word of a text when another id follows, but not the words before it. `byte_ids` are
    tokens for single bytes (byte fallback): a run of byte tokens is decoded only when it is complete.
    """

    def __init__(self, decode: Decode, byte_ids: Collection[int] = ()) -> None:
        self._decode, self._byte_ids = decode, byte_ids
        self._ids: list[int] = []
        self._complete = 0  # number of ids before the trailing run of byte tokens
        self._shown = ""

    def push(self, new_id: int) -> str:
        """Add an id; returns the text that is now final, often empty."""
        self._ids.append(new_id)
        text = self._decode(self._ids)
        end = final_length(text)
        if new_id not in self._byte_ids:
            self._complete = len(self._ids)
        elif end:
            end = min(end, len(self._decode(self._ids[: self._complete])))
        return self._show(text[:end])

    def finish(self) -> str:
        """The rest of the text. Call it after the last id."""
        text = self._decode(self._ids)
        if not text.startswith(self._shown):
            message = f"the stream returned {self._shown!r}, but all ids decode to {text!r}: this tokenizer rewrites "
            message += "earlier words, so its text cannot be streamed. Decode all ids at once."
            raise RegardError(message, argument="decode", value=text)
        return self._show(text)

    def _show(self, text: str) -> str:
        if not text.startswith(self._shown):
            return ""
        chunk = text[len(self._shown) :]
        self._shown = text
        return chunk


def text_chunks(decode: Decode, ids: Iterable[int], byte_ids: Collection[int] = ()) -> Iterator[str]:
    """Yield the text of `ids` in chunks as the ids arrive."""
    text = TextStream(decode, byte_ids)
    yield from filter(None, map(text.push, ids))
    if rest := text.finish():
        yield rest


def final_length(text: str) -> int:
    """Return the length of the final part of a growing text: all but its last word and the space before it.

    A wide character counts as a word, so scripts without spaces are streamed character by character.
    """
    end = len(text)
    while end and not (text[end - 1].isspace() or unicodedata.east_asian_width(text[end - 1]) in ("W", "F")):
        end -= 1
    return len(text[:end].rstrip())


def decode_after(decode: Decode, before: Sequence[int]) -> Decode:
    """Decode ids that follow `before`, because many decoders drop the space before the first word of a text."""
    start = len(decode(before))
    return lambda ids: decode([*before, *ids])[start:]


class StoppingStream:
    """Turns a growing sequence of ids into chunks of text, up to the first stop string, which is never returned.

    A possible beginning of a stop string is not returned until the next ids rule it out; the same applies to an
    incomplete character. More ids must only append to the decoded text, as with characters and bytes; the text of a
    token may depend on a few tokens before it. Only the last ids are decoded again with each new id, so the cost per
    token does not grow with the text.
    """

    def __init__(self, decode: Decode, stops: Sequence[str] = ()) -> None:
        self._decode, self._stops = decode, tuple(stops)
        self._done_text: list[str] = []  # returned text whose ids were dropped
        self._ids: list[int] = []  # the newest ids
        self._offset = 0  # length of the part of their text that is in `_done_text`
        self._tail = ""  # the rest of their text
        self._shown = 0  # length of the part of the tail that was returned
        self.stopped = False

    @property
    def text(self) -> str:
        """The text so far, without the stop string."""
        return "".join((*self._done_text, self._tail))

    def push(self, new_id: int) -> str | None:
        """Add an id; returns the text that is now final, often empty, or None when a stop string is complete."""
        self._ids.append(new_id)
        self._tail = self._decode(self._ids)[self._offset :]
        # Text that was returned cannot be part of a stop string.
        ends = [place for stop in self._stops if (place := self._tail.find(stop, self._shown)) >= 0]
        if ends:
            self._tail, self.stopped = self._tail[: min(ends)], True
            return None
        end = len(self._tail.rstrip("\ufffd"))
        overlap = max((_overlap(self._tail[self._shown : end], stop) for stop in self._stops), default=0)
        chunk = self._show(end - overlap)
        if len(self._ids) % WINDOW == 0:
            self._drop_old_ids()
        return chunk

    def finish(self) -> str:
        """The rest of the text. Call it after the last id."""
        return self._show(len(self._tail))

    def _show(self, end: int) -> str:
        chunk, self._shown = self._tail[self._shown : end], max(self._shown, end)
        return chunk

    def _drop_old_ids(self) -> None:
        """Drop the oldest ids if their text was returned and the other ids decode to the same text without them."""
        done = self._ids[:-OVERLAP]
        text = self._decode(done)[self._offset :]
        ids = done[-OVERLAP:] + self._ids[-OVERLAP:]
        offset = len(self._decode(ids[:-OVERLAP]))
        tail = self._tail[len(text) :]
        if len(text) <= self._shown and self._tail.startswith(text) and self._decode(ids)[offset:] == tail:
            self._done_text.append(text)
            self._ids, self._offset, self._tail = ids, offset, tail
            self._shown -= len(text)


def _overlap(text: str, stop: str) -> int:
    """The length of the longest suffix of `text` that is a proper prefix of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
