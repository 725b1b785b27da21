"""`regard TASK MODEL INPUT…`: run any task on texts, a file, a table or stdin; print text, JSON lines or a table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from regard.checkpoint.probe import check_folder
from regard.cli.options import Section, option, parse
from regard.cli.output import check_free, print_line, progress_bar, write_results
from regard.data.inputs import is_read_from_file, read_inputs
from regard.registry import tasks
from regard.spec import TaskSpec
from regard.utils.config import split_settings
from regard.utils.errors import UsageError, flag, print_message

if TYPE_CHECKING:
    from regard.tasks.base import Predictor

PICTURES = (".html", ".svg", ".png")  # formats for a view of one input


@dataclass(frozen=True, kw_only=True)
class PredictArguments:
    model: tyro.conf.Positional[Path] = option("Model folder.")
    inputs: tyro.conf.Positional[tuple[str, ...]] = option("Texts in quotes, or a file; - or nothing for stdin.", ())
    out: Path | None = option("File to write instead of stdout; its suffix sets the format (see above).", None)
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print one JSON object per input.", False)
    stream: bool = option("Print text as it is generated.", False)
    precision: Literal["fp32", "int8", "int4"] = option("Weight precision (int8, int4: quantized).", "fp32")


def main(verb: str, words: list[str]) -> None:
    spec = tasks[verb]
    args, given = parse(
        PredictArguments,
        words,
        program=f"regard {verb}",
        sections=[
            Section(spec.predict_config, default="as in the model folder"),
            Section(spec.read_config, without=spec.read_config.field_names() - spec.input_options),
        ],
        description=_description(spec),
    )
    check_folder(args.model)
    _check_out(args, spec)
    options, reading = split_settings(given, (spec.predict_config, spec.read_config))
    spec.predict_config(**options)
    if reading and not is_read_from_file(args.inputs, spec.inputs):
        name = min(reading)
        message = f"{flag(name)} applies only to an input file. Give a file, or remove it."
        raise UsageError(message, argument=name, value=reading[name])
    reader = spec.load("reader")(spec.read_config(**reading))
    groups = read_inputs(args.inputs, spec.inputs, reader.read_inputs)
    for line in reader.notes:
        print_message(line)
    if args.out is not None:  # bad inputs are reported before the model is loaded
        groups = [[value for group in groups for value in group]]
    from regard.api import load

    predictor = load(args.model, task=verb, precision=args.precision)
    config = predictor.config.replace(**options)
    if predictor.needs_all_inputs(config):
        groups = [[value for group in groups for value in group]]
    if args.out is not None and args.out.suffix in PICTURES:
        predictor.config = config
        _draw(predictor, next(iter(groups)), args.out)
        return
    for inputs in groups:
        if args.stream or (not args.json and args.out is None and len(inputs) == 1 and predictor.can_stream(config)):
            _stream(predictor, inputs, options)
        else:
            with progress_bar(verb) as predictor.progress:
                results = predictor.predict(inputs, config, notify=print_message)
            write_results(results, args.out, as_json=args.json, encode=predictor.encode_results)
        sys.stdout.flush()


def _formats(spec: TaskSpec) -> tuple[str, ...]:
    """Suffixes that --out accepts."""
    return spec.formats + (PICTURES if spec.views else ())


def _description(spec: TaskSpec) -> str:
    names = " ".join(field.name.upper() for field in spec.inputs)
    fields = "\n".join(f"  {field.name}: {field.help}" for field in spec.inputs)
    files = "a file with one input per line, or a table (.csv, .tsv, .jsonl)"
    if len(spec.inputs) == 1 and spec.inputs[0].type == "document":
        files = "a text file, or a .jsonl file with one text per line"
    return f"{spec.summary}\n\nINPUTS: {names}, or {files}.\n{fields}\n\nFormats of --out: {', '.join(_formats(spec))}."


def _check_out(args: PredictArguments, spec: TaskSpec) -> None:
    if args.stream and (args.json or args.out is not None):
        raise UsageError("--stream prints plain text. Remove --json and --out.", argument="stream")
    if args.out is None:
        return
    allowed = _formats(spec)
    if args.out.suffix not in allowed:
        message = f"--out {args.out} must end in {', '.join(allowed)}."
        raise UsageError(message, argument="out", value=args.out, allowed=allowed)
    check_free(args.out, force=args.force)


def _stream(predictor: Predictor[Any], inputs: Iterable[Any], options: Mapping[str, Any]) -> None:
    for text in inputs:
        for part in predictor.stream(text, notify=print_message, **options):
            sys.stdout.write(part)
            sys.stdout.flush()
        print_line("")


def _draw(predictor: Predictor[Any], inputs: Sequence[Any], out: Path) -> None:
    if len(inputs) != 1:
        raise UsageError(
            f"--out {out} shows one input, got {len(inputs):,}. Use .csv or .jsonl.", argument="out", value=out
        )
    from regard.api import look

    (value,) = inputs
    look(predictor, *(value if isinstance(value, tuple) else (value,))).save(out)
    print_line(str(out))
