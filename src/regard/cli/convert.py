"""`regard import` and `regard export`: convert from and to Hugging Face folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import option, parse
from regard.cli.output import print_result
from regard.utils.errors import print_message


@dataclass(frozen=True, kw_only=True)
class ImportArguments:
    """Convert a Hugging Face folder (safetensors) into a regard folder.

    Supports Marian, BERT, GPT-2, Llama, Qwen3, Mistral without a sliding window, and NanoChat.
    """

    folder: tyro.conf.Positional[Path] = option("Folder to read.")
    out: Path = option("Folder to write.")
    force: bool = option("Replace an existing model.", False)
    json: bool = option("Print the result as JSON.", False)


@dataclass(frozen=True, kw_only=True)
class ExportArguments(ImportArguments):
    """Convert a model into a folder that `transformers` loads with the same logits.

    Supports BERT with any head, language models, and translators trained with --recipe paper. If `transformers` has no
    class for a model, the error lists the settings that prevent the export.
    """

    to: Literal["transformers"] = option("Library that can load the exported folder.", "transformers")


def main(verb: str, words: list[str]) -> None:
    args, _ = parse(ImportArguments if verb == "import" else ExportArguments, words, program=f"regard {verb}")
    check_folder(args.folder)
    from regard.api import export_model, import_model

    if verb == "import":
        model, notes = repr(import_model(args.folder, args.out, force=args.force)), []
    else:
        model, *notes = export_model(args.folder, args.out, force=args.force)
    record = {"folder": str(args.out), "model": model, "notes": notes}
    print_result(record, [f"{args.out}: {model}"], as_json=args.json)
    for line in [] if args.json else notes:
        print_message(line)
