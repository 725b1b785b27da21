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
from regard.cli.output import check_free, flat, print_line, progress_bar, write_results
from regard.data.inputs import TableInputs, is_read_from_file, read_inputs
from regard.data.table_output import TABLE_FORMATS, SourceTable
from regard.data.tables import table_suffix
from regard.registry import tasks
from regard.spec import TaskSpec
from regard.utils.atomic_files import write_file
from regard.utils.config import Config, split_settings
from regard.utils.errors import UsageError, flag, number_of, print_message, shorten_list

if TYPE_CHECKING:
    from regard.tasks.base import Predictor

PLAIN = (".txt", ".jsonl", ".csv", ".tsv")  # formats that every result can be written to
PICTURES = (".html", ".svg", ".png")  # formats for a view of one input


@dataclass(frozen=True, kw_only=True)
class PredictArguments:
    model: tyro.conf.Positional[Path] = option("Model folder.")
    inputs: tyro.conf.Positional[tuple[str, ...]] = option("Texts in quotes, or a file; - or nothing for stdin.", ())
    out: Path | None = option("File to write instead of stdout; its suffix sets the format (see above).", None)
    force: bool = option("Replace an existing file.", False)
    json: bool = option("Print one JSON object per input.", False)
    stream: bool = option("Print text as it is generated.", False)
    prefix: str | None = option("Prefix of the columns that are added to a table (see above).", None)
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
    table = _table(args, groups)
    if args.out is not None and table is None:  # bad inputs are reported before the model is loaded
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
    if table is not None and args.out is not None:
        with progress_bar(verb) as predictor.progress:
            _add_columns(predictor, config, table, args)
        return
    for inputs in groups:
        if args.stream or (not args.json and args.out is None and len(inputs) == 1 and predictor.can_stream(config)):
            _stream(predictor, inputs, options)
        else:
            with progress_bar(verb) as predictor.progress:
                results = _predict(predictor, inputs, config, skip_blank=args.out is None or args.out.suffix in PLAIN)
            write_results(results, args.out, as_json=args.json, encode=predictor.encode_results)
        sys.stdout.flush()


def _formats(spec: TaskSpec) -> tuple[str, ...]:
    """Return the suffixes that --out accepts."""
    tables = (".tsv",) if ".csv" in spec.formats else ()
    return (*spec.formats, *tables, *(PICTURES if spec.views else ()))


def _description(spec: TaskSpec) -> str:
    names = " ".join(field.name.upper() for field in spec.inputs)
    fields = "\n".join(f"  {field.name}: {field.help}" for field in spec.inputs)
    files, added = "a file with one input per line, or a table (.csv, .tsv, .jsonl)", ""
    if len(spec.inputs) == 1 and spec.inputs[0].type == "document":
        files = "a text file, or a .jsonl file with one text per line"
    else:
        name = spec.outputs[0].name
        added = (
            "If INPUTS is a table, --out .csv, .tsv or .jsonl keeps its rows and columns and adds the results as new "
            f"columns, such as {_column(name, spec, None)}. --prefix new_ would name it new_{name}."
        )
    formats = f"Formats of --out: {', '.join(_formats(spec))}."
    return "\n\n".join(filter(None, (spec.summary, f"INPUTS: {names}, or {files}.\n{fields}", formats, added)))


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


def _table(args: PredictArguments, groups: Iterable[Sequence[Any]]) -> TableInputs | None:
    """Return the inputs if they are rows of a table whose columns --out should contain."""
    inputs = groups[0] if isinstance(groups, list) and len(groups) == 1 else None
    is_table = isinstance(inputs, TableInputs) and len(args.inputs) == 1 and table_suffix(args.inputs[0])
    if is_table and args.out is not None and args.out.suffix in TABLE_FORMATS:
        return inputs
    if args.prefix is not None:
        message = "--prefix needs a table as input, and --out with the suffix .csv, .tsv or .jsonl."
        raise UsageError(message, argument="prefix", value=args.prefix)
    return None


def _add_columns(predictor: Predictor[Any], config: Config, inputs: TableInputs, args: PredictArguments) -> None:
    """Write the table of the inputs with the columns of their results. Rows without text get empty results."""
    assert args.out is not None
    source = SourceTable.read(Path(args.inputs[0]), inputs.header)
    source.check_names(_column(field.name, predictor.spec, args.prefix) for field in predictor.spec.outputs)
    own = {field.name for field in predictor.spec.inputs}
    rows, lines = {}, set(inputs.lines)
    for line, result in zip(inputs.lines, _predict(predictor, inputs, config), strict=True):
        if result.columns():
            values = flat({name: value for name, value in result.columns().items() if name not in own})
            rows[line] = {_column(name, predictor.spec, args.prefix): value for name, value in values.items()}
    write_file(args.out, source.with_columns(rows, args.out.suffix), parents=True)
    empty = [str(row.line) for row in source.rows if row.line in lines and row.line not in rows and not row.is_blank]
    if empty:
        count = number_of(len(empty), "row")
        print_message(
            f"no text: {count} of {source.path} (line {shorten_list(empty)}); the results of these rows are empty"
        )
    print_line(str(args.out))


def _predict(predictor: Predictor[Any], inputs: Sequence[Any], config: Config, *, skip_blank: bool = True) -> list[Any]:
    """Return one result per input. A blank text has no result, unless it is a document, such as an empty prompt."""
    from regard.tasks.base import NoResult

    (first, *others) = predictor.spec.inputs
    skip_blank &= first.type == "text" and not others and not predictor.needs_all_inputs(config)
    is_blank = [skip_blank and isinstance(value, str) and not value.strip() for value in inputs]
    filled = [value for value, blank in zip(inputs, is_blank, strict=True) if not blank]
    if any(is_blank) and not isinstance(inputs, TableInputs):
        numbers = [str(number) for number, blank in enumerate(is_blank, start=1) if blank]
        print_message(f"no text: input {shorten_list(numbers)}; the results of these inputs are empty")
    results = iter(predictor.predict(filled, config, notify=print_message))
    return [
        NoResult(predictor.spec, value) if blank else next(results)
        for value, blank in zip(inputs, is_blank, strict=True)
    ]


def _column(name: str, spec: TaskSpec, prefix: str | None) -> str:
    """Return the name of an added column: with `prefix`, or by default "predicted_" except for scores."""
    if prefix is not None:
        return prefix + name
    kinds = {field.name: field.type for field in spec.outputs}
    is_score = name != "number" and kinds.get(name.partition(".")[0]) in ("number", "numbers", "scores")
    return name if is_score else f"predicted_{name}"


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
