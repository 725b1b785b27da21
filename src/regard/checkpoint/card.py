"""The model card (`README.md`): a description of the model, its training data, settings and scores.

Pure functions that return Markdown, with the YAML front matter that the Hugging Face Hub reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.metrics.score import Score

LICENSE_NOTE = (
    "The license of the training data determines whether these weights may be shared. No license is set here: add "
    "`license:` to the front matter of this file once you know it."
)


@dataclass(frozen=True, kw_only=True)
class CardData:
    """One file or generated dataset that the model was trained or evaluated on."""

    name: str  # file name, or a description such as "built-in synthetic dataset"
    role: str  # training, validation or test
    num_rows: int
    sha256: str = ""  # checksum of the file; empty for generated data


def model_card(
    *,
    title: str,
    summary: str,  # one paragraph: inputs, outputs, kind of model
    task: str,
    num_parameters: int,
    data: Iterable[CardData] = (),
    settings: Mapping[str, Any] | None = None,
    scores: Iterable[Score] = (),
    command: str = "",  # example on the command line
    python: str = "",  # example in Python
    versions: Mapping[str, str] | None = None,
    pipeline: str = "",  # the Hub's name for the task, such as "translation"
) -> str:
    """Return the text of `README.md`."""
    score_rows = [(score.name, f"{score.value:.4g}", score.on, score.signature) for score in scores]
    data_rows = [(item.name, item.role, f"{item.num_rows:,}", item.sha256 or "generated") for item in data]
    sections = [
        _front_matter(pipeline),
        f"# {_one_line(title)}",
        summary.strip(),
        f"Task: {_one_line(task)}. Parameters: {num_parameters:,}.",
        _section("Use", _code("sh", command), _code("python", python)),
        _section("Scores", _table(("metric", "value", "measured on", "signature"), score_rows)),
        _section("Data", _table(("file", "role", "rows", "sha256"), data_rows)),
        _section("Settings", _table(("setting", "value"), [(k, _value(v)) for k, v in (settings or {}).items()])),
        _section("Versions", _table(("package", "version"), list((versions or {}).items()))),
        _section("License", LICENSE_NOTE),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _front_matter(pipeline: str) -> str:
    """Return the YAML front matter. JSON strings are valid YAML, so any text is safe."""
    lines = [f"pipeline_tag: {json.dumps(pipeline)}"] if pipeline else []
    return "\n".join(("---", "library_name: regard", *lines, "tags:", "- regard", "- transformer", "---"))


def _section(title: str, *bodies: str) -> str:
    """Return a heading with its bodies, or nothing if all bodies are empty."""
    present = [body for body in bodies if body]
    return "\n\n".join((f"## {title}", *present)) if present else ""


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _code(language: str, text: str) -> str:
    """Return a code block whose fence is longer than any fence inside it."""
    if not text.strip():
        return ""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def _cell(text: str) -> str:
    return _one_line(text.replace("\\", "\\\\").replace("|", "\\|"))


def _one_line(text: str) -> str:
    """Return the text on one line, with HTML tags escaped."""
    return " ".join(text.split()).replace("<", "&lt;")


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
