"""`regard import` and `regard export`: folders of other tools, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json, note


@dataclass(frozen=True, kw_only=True)
class Import:
    """Read a folder of another tool (safetensors) and write it as one of regard's.

    Marian, BERT, GPT-2, Llama, Qwen3, Mistral or NanoChat.
    """

    folder: tyro.conf.Positional[Path]  # the folder to read
    out: Path  # the folder to write
    force: bool = False  # replace a model that is already there
    json: bool = False  # print the result as JSON


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a model as a folder that `transformers` loads with the same logits.

    A BERT, a language model, or a translator trained with --recipe paper: `transformers` has no class for that of the
    default recipe. What stands in the way of a model is named.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    out: Path  # the folder to write
    to: Literal["transformers"] = "transformers"  # for which library
    force: bool = False  # replace a model that is already there
    json: bool = False  # print the result as JSON


def main(verb: str, arguments: list[str]) -> int:
    if verb == "import":
        asked = parse(Import, arguments, program="regard import")
        check_folder(asked.folder)
        from regard.tasks.folders import import_folder

        what = repr(import_folder(asked.folder, asked.out, force=asked.force))
        _say(asked.json, asked.out, [what])
        return 0
    wanted = parse(Export, arguments, program="regard export")
    check_folder(wanted.model)
    from regard.tasks.folders import export_folder

    _say(wanted.json, wanted.out, export_folder(wanted.model, wanted.out, force=wanted.force))
    return 0


def _say(json: bool, out: Path, what: Sequence[str]) -> None:
    """What the folder now holds, and remarks on it."""
    model, *notes = what
    if json:
        answer_json({"folder": str(out), "model": model, "notes": notes})
        return
    answer(f"{out}: {model}")
    for remark in notes:
        note(remark)
