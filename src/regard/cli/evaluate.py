"""`regard evaluate`: official scores on a test file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.checkpoint.presence import check_folder
from regard.cli.flags import parse
from regard.cli.output import answer, answer_json
from regard.config import to_dict
from regard.errors import UsageError
from regard.generation.settings import SearchConfig
from regard.metrics.score import Scores
from regard.training.options import flag_of

# What some models take and others do not.
FLAGS = (
    "columns",
    "text_column",
    "first_column",
    "second_column",
    "label_column",
    "tag_column",
    "repair_tags",
    "separator",
    "reverse",
    "beams",
    "length_penalty",
)


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Score a model on a test file by the official metric of its task.

    A translator by sacreBLEU and chrF, a classifier as GLUE, a choice of endings by accuracy, a tagger by entity F1,
    answers by SQuAD's exact match and F1; a BERT that fills gaps by the hidden words of plain text that it guesses, and
    any BERT on pairs with numbers by how well the cosines of its vectors correlate with them. Each score comes with the
    signature that repeats it, and with what always saying the same would reach: the commonest label of the model's
    training. What is not given of --beams and --length-penalty is taken from the model's folder.
    """

    model: tyro.conf.Positional[Path]  # a model folder
    # a table of pairs, or two line-aligned files; a table with labels, or with endings as SWAG has them; words with
    # tags; questions as SQuAD's JSON; text
    data: tyro.conf.Positional[tuple[Path, ...]]
    columns: tuple[str, str] | None = None  # names of the source and target columns, or numbers if there is no header
    text_column: str | None = None  # of labelled texts: the name or number of the column
    first_column: str | None = None  # of labelled pairs: that of the first text
    second_column: str | None = None  # and of the second
    label_column: str | None = None  # that of the label
    tag_column: str | None = None  # of tagged words: the number of the column, or its name in CoNLL-U
    repair_tags: bool = False  # take an entity that goes on without having begun for its beginning
    separator: str | None = None  # what stands between several labels of a text
    reverse: bool = False  # translate from the second language to the first
    skip_bad_rows: bool = False  # leave out rows that cannot be used, and list them
    beams: int | None = None  # unfinished translations that are pursued at a time; 1 is greedy
    length_penalty: float | None = None  # more than 1 favours longer translations
    # of single labels: print, too, how often each was taken for each other; as JSON an object with scores and confusion
    confusion: bool = False
    json: bool = False  # print the scores as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard evaluate")
    check_folder(asked.model)
    given = {"beams": asked.beams, "length_penalty": asked.length_penalty}
    search = {name: value for name, value in given.items() if value is not None}
    SearchConfig(**search)  # type: ignore[arg-type] # what is wrong with it is said before anything is loaded
    from regard.api import evaluate
    from regard.cli.classify import label_columns
    from regard.tasks.answer import Answerer
    from regard.tasks.choose import Chooser
    from regard.tasks.classify import Classifier
    from regard.tasks.embed import Embedder
    from regard.tasks.folders import load_folder, load_translator
    from regard.tasks.generate import Writer
    from regard.tasks.tag import Tagger

    model = load_folder(asked.model)
    if not isinstance(model, Writer):  # which is told below where to go
        _refuse_misfits(asked, model)
    if asked.confusion and not (isinstance(model, Classifier) and model.head.answers == "one"):
        raise UsageError("--confusion is for classifiers, and for texts or pairs with one label each.")
    if isinstance(model, Classifier):
        # A folder of another tool does not say whether it is for texts or for pairs; columns of pairs do.
        pairs = model.either and (asked.first_column or asked.second_column)
        scores = evaluate(
            model,
            asked.data,
            columns=label_columns(asked, "pair" if pairs else model.task),
            separator=asked.separator,
            skip_bad_rows=asked.skip_bad_rows,
            progress=True,
        )
    elif isinstance(model, Answerer | Chooser):
        scores = evaluate(model, asked.data, skip_bad_rows=asked.skip_bad_rows, progress=True)
    elif isinstance(model, Tagger):
        scores = evaluate(
            model,
            asked.data,
            tag_column=asked.tag_column,
            repair_tags=asked.repair_tags,
            skip_bad_rows=asked.skip_bad_rows,
            progress=True,
        )
    elif isinstance(model, Embedder):
        scores = evaluate(
            model, asked.data, columns=label_columns(asked, "pair"), skip_bad_rows=asked.skip_bad_rows, progress=True
        )
    elif isinstance(model, Writer):
        raise UsageError(
            f"{asked.model} holds a language model, which is measured on a text: use `regard score {asked.model} FILE`."
        )
    else:
        scores = evaluate(
            load_translator(asked.model),
            asked.data,
            columns=asked.columns,
            reverse=asked.reverse,
            skip_bad_rows=asked.skip_bad_rows,
            progress=True,
            **search,
        )
    table = scores.confusion if asked.confusion and isinstance(scores, Scores) else None
    if asked.json:
        listed = [{"name": s.name, "value": s.value, "signature": s.signature} for s in scores]
        answer_json({"scores": listed, "confusion": to_dict(table)} if table else listed)
        return 0
    for score in scores:
        answer(str(score))
    if table:
        answer(f"\nrows: the label of the file, columns: what the model said\n{table}")
    return 0


def _refuse_misfits(asked: Arguments, model: object) -> None:
    """Flags that say nothing to this kind of model."""
    kind, fitting = _fitting(model)
    given = [name for name in FLAGS if getattr(asked, name) not in (None, False)]
    if wrong := [name for name in given if name not in fitting]:
        also = f"; there are {', '.join(map(flag_of, fitting))}" if fitting else ""
        verb = "is" if len(wrong) == 1 else "are"
        raise UsageError(f"{', '.join(map(flag_of, wrong))} {verb} not for {kind}, which {asked.model} holds{also}.")


def _fitting(model: object) -> tuple[str, tuple[str, ...]]:
    """What a model is, and the flags that it takes."""
    from regard.tasks.answer import Answerer
    from regard.tasks.choose import Chooser
    from regard.tasks.classify import Classifier
    from regard.tasks.embed import Embedder
    from regard.tasks.tag import Tagger

    texts, pairs = ("text_column", "label_column", "separator"), ("first_column", "second_column", "label_column")
    if isinstance(model, Classifier):
        if model.either:
            return "a classifier", tuple(dict.fromkeys(texts + pairs))
        return ("a judge of pairs", pairs) if model.task == "pair" else ("a classifier of texts", texts)
    if isinstance(model, Tagger):
        return "a tagger", ("tag_column", "repair_tags")
    if isinstance(model, Answerer):
        return "a model that answers questions", ()
    if isinstance(model, Chooser):
        return "a model that chooses among endings", ()
    if isinstance(model, Embedder):
        return "a BERT without a head for labels", pairs
    return "a translator", ("columns", "reverse", "beams", "length_penalty")
