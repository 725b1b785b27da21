"""The card of a model folder, its `README.md`: what the model is, what it was trained on, how well it does.

A pure function from a small description to Markdown with the YAML head that the Hugging Face Hub reads. It
measures nothing and looks nothing up: every fact is handed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_LICENCE_REMARK = (
    "The weights are what training made of the data above; whether they may be passed on depends on the licence "
    "of that data. None is claimed here: add `license:` to the head of this file once you know it."
)


@dataclass(frozen=True, kw_only=True)
class CardData:
    """One file, or one made-up source, that the model learned from or was measured on."""

    name: str  # file name or a description such as "built-in synthetic dataset"
    role: str  # training, validation or test
    num_rows: int
    sha256: str = ""  # checksum of the file, empty for data that was generated


@dataclass(frozen=True, kw_only=True)
class CardScore:
    """One measured number with what is needed to measure it again."""

    metric: str
    value: float
    on: str  # the data it was measured on
    signature: str = ""  # the metric's own statement of its settings (sacreBLEU's signature)


@dataclass(frozen=True, kw_only=True)
class Card:
    """Everything the card says."""

    title: str
    summary: str  # one paragraph: what goes in, what comes out, what kind of model
    task: str  # regard's name of the task, such as "translate"
    num_parameters: int
    data: tuple[CardData, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[CardScore, ...] = ()
    command: str = ""  # how to use it on the command line
    python: str = ""  # how to use it from Python
    versions: Mapping[str, str] = field(default_factory=dict)
    languages: tuple[str, ...] = ()  # ISO 639 codes, as the Hub wants them
    pipeline: str = ""  # the Hub's name of the task, such as "translation"
    tags: tuple[str, ...] = ()
    licence: str = ""  # a licence identifier of the Hub; empty: a remark says that none is claimed


def model_card(card: Card) -> str:
    """The text of `README.md`."""
    sections = [
        _head(card),
        f"# {_prose(card.title)}",
        card.summary.strip(),
        f"Task: {_prose(card.task)}. Parameters: {card.num_parameters:,}.",
        _section("Use", _code("sh", card.command), _code("python", card.python)),
        _section("Scores", _scores(card.scores)),
        _section("Data", _data(card.data)),
        _section("Settings", _table(("setting", "value"), [(k, _value(v)) for k, v in card.settings.items()])),
        _section("Versions", _table(("package", "version"), list(card.versions.items()))),
        _section("Licence", f"`{_line(card.licence)}`" if card.licence else _LICENCE_REMARK),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(card: Card) -> str:
    """The YAML head. JSON's quoted strings are YAML, so any text is safe in it."""
    lines = ["library_name: regard"]
    if card.pipeline:
        lines.append(f"pipeline_tag: {_quoted(card.pipeline)}")
    if card.licence:
        lines.append(f"license: {_quoted(card.licence)}")
    if card.languages:
        lines += ["language:", *(f"- {_quoted(code)}" for code in card.languages)]
    tags = dict.fromkeys(("regard", "transformer", *card.tags))
    lines += ["tags:", *(f"- {_quoted(tag)}" for tag in tags)]
    return "\n".join(("---", *lines, "---"))


def _scores(scores: Iterable[CardScore]) -> str:
    rows = [(score.metric, f"{score.value:.4g}", score.on, score.signature) for score in scores]
    return _table(("metric", "value", "measured on", "signature"), rows)


def _data(data: Iterable[CardData]) -> str:
    rows = [(item.name, item.role, f"{item.num_rows:,}", item.sha256 or "generated") for item in data]
    return _table(("file", "role", "rows", "sha256"), rows)


def _section(title: str, *bodies: str) -> str:
    """A heading with its bodies, or nothing when all of them are empty."""
    present = [body for body in bodies if body]
    return "\n\n".join((f"## {title}", *present)) if present else ""


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _code(language: str, text: str) -> str:
    """A code block whose fence is longer than any fence inside it."""
    if not text.strip():
        return ""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def _cell(text: str) -> str:
    return _prose(text.replace("\\", "\\\\").replace("|", "\\|"))


def _prose(text: str) -> str:
    """Text on one line, in which no markup can begin."""
    return _line(text).replace("<", "&lt;")


def _line(text: str) -> str:
    return " ".join(text.split())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _quoted(text: str) -> str:
    return json.dumps(text)
