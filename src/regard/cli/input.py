"""What comes from stdin or from a file: bytes, which may be no text."""

from __future__ import annotations

import sys

from regard.utils.errors import DataError


def read_stdin() -> str:
    """All of stdin; lines end as they do on Unix."""
    return decoded(sys.stdin.buffer.read(), "<stdin>", first=True).replace("\r\n", "\n")


def decoded(data: bytes, where: str, *, first: bool) -> str:
    """The text of some bytes; the `first` of a file may begin with a mark of their order."""
    try:
        return data.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: not UTF-8 (byte 0x{data[error.start]:02X} at {error.start}: {error.reason}). Convert it first."
        ) from None
