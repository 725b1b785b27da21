"""Read the word lists and phrases of the built-in synthetic dataset from the folder `tables`."""

from __future__ import annotations

from importlib import resources


def read_table(name: str) -> list[list[str]]:
    """The rows of `tables/<name>.txt`: cells are separated by bars, lines that start with # are comments."""
    text = (resources.files("regard.data.synthetic") / "tables" / f"{name}.txt").read_text(encoding="utf-8")
    return [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if not line.startswith("#")]
