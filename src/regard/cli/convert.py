"""`regard import` and `regard export`: folders of other tools, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import option, parse
from regard.cli.output import note, print_json, print_line


@dataclass(frozen=True, kw_only=True)
class Import:
    """Convert a Hugging Face folder (safetensors) into a regard folder.

    Reads Marian, BERT, GPT-2, Llama, Qwen3, Mistral without a sliding window, and NanoChat.
    """

    folder: tyro.conf.Positional[Path] = option("Folder to read.")
    out: Path = option("Folder to write.")
    force: bool = option("Replace an existing model.", False)
    json: bool = option("Print the result as JSON.", False)


@dataclass(frozen=True, kw_only=True)
class Export:
    """Convert a model into a folder that `transformers` loads with the same logits.

    Works for BERT with any head, language models, and translators trained with --recipe paper. Where `transformers`
    has no class for a model, the message names the settings in the way.
    """

    model: tyro.conf.Positional[Path] = option("Model folder.")
    out: Path = option("Folder to write.")
    to: Literal["transformers"] = option("Library that loads the folder.", "transformers")
    force: bool = option("Replace an existing model.", False)
    json: bool = option("Print the result as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    if verb == "import":
        asked, _ = parse(Import, arguments, program="regard import")
        check_folder(asked.folder)
        from regard.checkpoint.predictors import import_folder

        _report(asked.json, asked.out, [repr(import_folder(asked.folder, asked.out, force=asked.force))])
        return 0
    wanted, _ = parse(Export, arguments, program="regard export")
    check_folder(wanted.model)
    from regard.checkpoint.predictors import export_folder

    _report(wanted.json, wanted.out, export_folder(wanted.model, wanted.out, force=wanted.force))
    return 0


def _report(as_json: bool, out: Path, result: Sequence[str]) -> None:
    model, *notes = result
    if as_json:
        print_json({"folder": str(out), "model": model, "notes": notes})
        return
    print_line(f"{out}: {model}")
    for line in notes:
        note(line)
