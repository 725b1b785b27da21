"""`regard train <task>`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from regard.api import TASKS
from regard.cli.output import answer, answer_json
from regard.errors import UsageError, unknown

if TYPE_CHECKING:
    from regard.training.options import RunOptions
    from regard.training.runs import Run

USUAL, BY_SIZE, BY_RECIPE = "(usually {})", "(by --size)", "(by --size and --recipe)"
USUAL_TIME = {"minutes": "10 without --steps"}
NOT_FOR_ENCODERS = ("pooler", "segments", "head_dropout")  # settled by what a BERT learns from
HIDDEN = ("vocab_size", "source_vocab_size", "heads_at", "rotary_scaling", "architecture")


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Train a translator on pairs of sentences.

    DATA is one table (.tsv, .csv, .jsonl) or two line-aligned text files, each plain or .gz. Without DATA the
    built-in English–French world is used. Settings that are not given follow from --recipe and --size.
    """

    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # a table, or two line-aligned files
    out: Path | None = None  # the folder to write (required)
    validation: tuple[Path, ...] = ()  # pairs to validate on; otherwise some of DATA are held out
    columns: tuple[str, str] | None = None  # names of the source and target columns, or numbers if there is no header
    reverse: bool = False  # translate from the second language to the first
    skip_bad_rows: bool = False  # leave out rows that cannot be used, and list them
    size: str = "small"  # tiny, small, base, large; transformer-base, transformer-big, transformer-big-fr as published
    # default: learns fastest here; paper: as in 2017. Where none is given, paper for the sizes transformer-…
    recipe: str | None = None
    device: str = "auto"  # auto, cpu, cuda, mps
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False  # go on from the last good checkpoint in --out
    force: bool = False  # replace what an earlier run wrote to --out
    json: bool = False  # print the result as JSON


@dataclass(frozen=True, kw_only=True)
class Generate:
    """Train a language model on plain text: it learns to go on with it.

    DATA are text files, folders of them, or JSON lines with a "text", each plain or .gz. Without DATA the built-in
    world's stories are used. Settings that are not given follow from --size, or from the model that --from names.
    """

    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # text files or folders
    out: Path | None = None  # the folder to write (required)
    validation: tuple[Path, ...] = ()  # text to validate on; otherwise the end of DATA is held out
    # tiny, small (usual), base, large; or a published shape: gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3, llama-7b,
    # llama3-8b; llama-tiny has Llama's kind of layers
    size: str | None = None
    from_: str | None = None  # go on from the model in this folder, of regard's or another tool's, or hf:owner/name
    lora: bool = False  # with --from: leave its weights as they are and learn small adapters beside them
    device: str = "auto"  # auto, cpu, cuda, mps
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False  # go on from the last good checkpoint in --out
    force: bool = False  # replace what an earlier run wrote to --out
    json: bool = False  # print the result as JSON


@dataclass(frozen=True, kw_only=True)
class Fill:
    """Pre-train a BERT on plain text: it learns to guess hidden words, and whether one sentence follows another.

    DATA are text files, folders of them, or JSON lines with a "text", each plain or .gz. A blank line ends a document;
    a heading (= Title = or # Title) opens one that goes on to the next heading. Without DATA the built-in world's
    stories are used. Settings that are not given follow from --size, or from the model that --from names.
    """

    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # text files or folders
    out: Path | None = None  # the folder to write (required)
    validation: tuple[Path, ...] = ()  # text to validate on; otherwise the end of DATA is held out
    size: str | None = None  # tiny, mini (usual), small, medium, base, large; bert-base, bert-large as published
    # go on from the BERT in this folder, of regard's or another tool's, or hf:owner/name; it must have a head for words
    from_: str | None = None
    forgetting: Path | None = None  # with --from: other plain text on which to measure what the encoder forgets
    whole_words: bool = False  # hide all pieces of a word or none
    device: str = "auto"  # auto, cpu, cuda, mps
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False  # go on from the last good checkpoint in --out
    force: bool = False  # replace what an earlier run wrote to --out
    json: bool = False  # print the result as JSON


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Train a model on labels.

    DATA is a table (.tsv, .csv, .jsonl, or tab-separated text of any name), plain or .gz. Without DATA the built-in
    world is used. Settings that are not given follow from --size, or from the model that --from names.
    """

    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # a table with labels
    out: Path | None = None  # the folder to write (required)
    validation: tuple[Path, ...] = ()  # a file to validate on; otherwise some of DATA are held out
    skip_bad_rows: bool = False  # leave out rows that cannot be used, and list them
    size: str | None = None  # of a new model: tiny (usual), mini, small, medium, base, large, bert-base, bert-large
    from_: str | None = None  # begin with the encoder in this folder, of regard's or another tool's, or hf:owner/name
    lora: bool = False  # with --from: leave its weights as they are and learn small adapters beside them
    forgetting: Path | None = None  # with --from: plain text on which to measure what the encoder forgets
    device: str = "auto"  # auto, cpu, cuda, mps
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False  # go on from the last good checkpoint in --out
    force: bool = False  # replace what an earlier run wrote to --out
    json: bool = False  # print the result as JSON


@dataclass(frozen=True, kw_only=True)
class Classify(Encoder):
    """Train a classifier of texts: one label each, or with --separator any number of them.

    DATA is a table (.tsv, .csv, .jsonl, or tab-separated text of any name), plain or .gz. Without DATA the built-in
    world's opinions are used. Settings that are not given follow from --size, or from the model that --from names.
    """

    text_column: str | None = None  # the name or number of the column with the texts
    label_column: str | None = None  # that of the column with the labels
    separator: str | None = None  # what stands between several labels of a text


@dataclass(frozen=True, kw_only=True)
class Pair(Encoder):
    """Train a model that judges two texts: a label, or a number such as how alike they are; or chooses among endings.

    DATA is a table (.tsv, .csv, .jsonl, or tab-separated text of any name), plain or .gz. One with the columns sent1,
    sent2, ending0, ending1 … and label, as SWAG has them, is learned as a choice. Without DATA the built-in world's
    inferences are used. Settings that are not given follow from --size, or from the model that --from names.
    """

    first_column: str | None = None  # the name or number of the column with the first texts
    second_column: str | None = None  # and of that with the second ones
    label_column: str | None = None  # that of the column with the labels
    numbers: bool = False  # the labels are numbers to be guessed, even if all of them are whole


@dataclass(frozen=True, kw_only=True)
class Tag(Encoder):
    """Train a tagger: a label for every word, such as names or parts of speech.

    DATA is CoNLL columns (word first, tag last, a blank line between sentences) or CoNLL-U, plain or .gz. Without DATA
    the built-in world's names are used. Settings that are not given follow from --size, or from the model that --from
    names.
    """

    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # sentences with a tag for each word
    tag_column: str | None = None  # the number of the column with the tags (usually the last); in CoNLL-U upos, xpos …
    repair_tags: bool = False  # take an entity that goes on without having begun for its beginning


@dataclass(frozen=True, kw_only=True)
class Answer(Encoder):
    """Train a model that finds the answer to a question in a passage, or says that there is none.

    DATA is the JSON of SQuAD v1.1 or v2, plain or .gz. Without DATA the built-in world's passages are used. Settings
    that are not given follow from --size, or from the model that --from names.
    """

    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # questions about passages, as JSON


ENCODERS: dict[str, type[Encoder]] = {"classify": Classify, "pair": Pair, "tag": Tag, "answer": Answer}


def main(verb: str, arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        answer(
            "usage: regard train <task> …\n\n"
            f"tasks: {', '.join(TASKS)}\n"
            "  translate  pairs of sentences → a translator\n"
            "  generate   plain text → a language model, which goes on with a text\n"
            "  fill       plain text → a BERT, which guesses missing words and is the base of other tasks\n"
            "  classify   texts with labels → a classifier\n"
            "  pair       pairs of texts with labels or numbers → a judge of pairs; endings → a chooser\n"
            "  tag        words with tags → a tagger\n"
            "  answer     questions about passages → a model that finds the answers\n\n"
            "`regard train <task> --help` tells more."
        )
        return 0
    task, *rest = arguments
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    if task in ENCODERS:
        return _labels(task, rest)
    return {"translate": _translate, "generate": _generate, "fill": _fill}[task](rest)


def _translate(arguments: list[str]) -> int:
    from regard.cli.flags import parse
    from regard.generation.settings import SearchConfig
    from regard.models.transformer_settings import TransformerConfig
    from regard.tasks.settings import TranslateConfig
    from regard.training.settings import TrainingConfig

    owners = {TrainingConfig: USUAL, TranslateConfig: USUAL, TransformerConfig: BY_RECIPE, SearchConfig: USUAL}
    asked = parse(
        Translate, arguments, program="regard train translate", owners=owners, without=HIDDEN, usual=USUAL_TIME
    )
    from regard.training.translation import train_translation

    return _train(
        asked,
        ["train", "translate", *arguments],
        lambda out, options: train_translation(
            asked.data or None,
            out,
            validation=asked.validation or None,
            columns=asked.columns,
            reverse=asked.reverse,
            skip_bad_rows=asked.skip_bad_rows,
            size=asked.size,
            recipe=asked.recipe,
            settings=_settings(asked, Translate),
            options=options,
        ),
    )


def _generate(arguments: list[str]) -> int:
    from regard.cli.flags import parse
    from regard.generation.settings import SamplingConfig
    from regard.models.gpt_settings import GPTConfig
    from regard.nn.lora_settings import LoRAConfig
    from regard.tasks.settings import GenerateConfig
    from regard.training.recipes import NOT_FOR_WRITERS
    from regard.training.settings import TrainingConfig

    owners = {TrainingConfig: USUAL, GenerateConfig: USUAL, GPTConfig: BY_SIZE, SamplingConfig: USUAL}
    owners[LoRAConfig] = USUAL
    asked = parse(
        Generate,
        arguments,
        program="regard train generate",
        owners=owners,
        without=(*HIDDEN, *NOT_FOR_WRITERS),
        usual=_usual_for_writers(),
    )
    from regard.training.writing import train_writer

    return _train(
        asked,
        ["train", "generate", *arguments],
        lambda out, options: train_writer(
            asked.data or None,
            out,
            validation=asked.validation or None,
            size=asked.size,
            from_=asked.from_,
            lora=asked.lora,
            settings=_settings(asked, Generate),
            options=options,
        ),
    )


def _labels(task: str, arguments: list[str]) -> int:
    """The trainings of an encoder with a head, whose settings are the same."""
    from regard.cli.flags import parse
    from regard.models.bert_settings import BertConfig
    from regard.nn.lora_settings import LoRAConfig
    from regard.tasks.settings import LabelConfig, SpanConfig
    from regard.training.answering import USUAL as USUAL_FOR_ANSWERS
    from regard.training.encoders import NOT_FOR_LABELS
    from regard.training.settings import TrainingConfig

    own = ENCODERS[task]
    owners: dict[type, str] = {LabelConfig: USUAL, TrainingConfig: USUAL, BertConfig: BY_SIZE, LoRAConfig: USUAL}
    usual = {**_usual_for_labels(), "minutes": None, "warmup_steps": "a tenth", "validations": "epochs, at most 10"}
    if task == "answer":
        owners, usual = {SpanConfig: USUAL, **owners}, {**usual, **USUAL_FOR_ANSWERS}
    weightless = ("class_weights",) if task in ("tag", "answer") else ()
    asked: Any = parse(
        own,
        arguments,
        program=f"regard train {task}",
        owners=owners,
        without=(*HIDDEN, *NOT_FOR_LABELS, "pooler", "segments", "n_best", *weightless),
        usual=usual,
    )
    train = _training(task, asked)
    return _train(
        asked,
        ["train", task, *arguments],
        lambda out, options: train(
            asked.data or None,
            out,
            validation=asked.validation or None,
            skip_bad_rows=asked.skip_bad_rows,
            size=asked.size,
            from_=asked.from_,
            lora=asked.lora,
            settings=_settings(asked, own),
            options=options,
        ),
    )


def _training(task: str, asked: Any) -> Callable[..., Run[Any]]:
    """What trains for a task, with the flags that are its own."""
    if task == "answer":
        from regard.training.answering import train_answers

        return train_answers
    if task == "tag":
        from regard.training.tagging import train_tags

        return functools.partial(train_tags, tag_column=asked.tag_column, repair_tags=asked.repair_tags)
    from regard.cli.classify import label_columns
    from regard.training.labelling import train_label_files

    how = {"separator": asked.separator} if task == "classify" else {"numbers": asked.numbers or None}
    return functools.partial(train_label_files, task, columns=label_columns(asked, task), **how)


def _usual_for_writers() -> dict[str, Any]:
    from regard.training.recipes import USUAL_SIZE, fine_tuning_recipe, writing_recipe

    whole, adapters = (fine_tuning_recipe(lora=lora).training for lora in (False, True))
    return _usual(writing_recipe(USUAL_SIZE).training, whole, adapters)


def _usual_for_labels() -> dict[str, Any]:
    from regard.training.recipes import labelling_recipe

    new, whole, adapters = (
        labelling_recipe(begins=begins, lora=lora).training
        for begins, lora in ((False, False), (True, False), (True, True))
    )
    whole["learning_rate"] = f"{whole['learning_rate']} (more if it is narrow)"
    return _usual(new, whole, adapters)


def _usual_for_fillers() -> dict[str, Any]:
    from regard.training.recipes import USUAL_ENCODER, filling_recipe, fine_tuning_recipe

    whole = fine_tuning_recipe(lora=False).training
    return _usual(filling_recipe(USUAL_ENCODER).training, whole, whole)


def _usual(new: Mapping[str, Any], whole: Mapping[str, Any], adapters: Mapping[str, Any]) -> dict[str, Any]:
    """What is usual of a training's settings: for a new model, and where that differs for one that goes on.

    One that goes on learns as a `whole`, or in `adapters` beside it.
    """
    from regard.training.settings import TrainingConfig

    usual = {field.name: field.default for field in dataclasses.fields(TrainingConfig)} | dict(new) | USUAL_TIME
    for name in whole:
        going_on = f"with --from {whole[name]}"
        if adapters[name] != whole[name]:
            going_on += f", with --lora {adapters[name]}"
        elif whole[name] == usual[name]:
            continue
        usual[name] = f"{usual[name]}; {going_on}"
    return usual


def _fill(arguments: list[str]) -> int:
    from regard.cli.flags import parse
    from regard.models.bert_settings import BertConfig
    from regard.tasks.settings import FillConfig
    from regard.training.recipes import NOT_FOR_FILLERS
    from regard.training.settings import TrainingConfig

    asked = parse(
        Fill,
        arguments,
        program="regard train fill",
        owners={TrainingConfig: USUAL, FillConfig: USUAL, BertConfig: BY_SIZE},
        without=(*HIDDEN, *NOT_FOR_FILLERS, *NOT_FOR_ENCODERS),
        usual=_usual_for_fillers(),
    )
    from regard.training.filling import train_filler

    return _train(
        asked,
        ["train", "fill", *arguments],
        lambda out, options: train_filler(
            asked.data or None,
            out,
            validation=asked.validation or None,
            size=asked.size,
            from_=asked.from_,
            settings={**_settings(asked, Fill), "whole_words": asked.whole_words},
            options=options,
        ),
    )


def _settings(asked: object, own: type) -> dict[str, Any]:
    """What was asked for beyond the verb's own flags: the settings of the configs."""
    named = {field.name for field in dataclasses.fields(own)}
    others = [field.name for field in dataclasses.fields(asked) if field.name not in named]  # type: ignore[arg-type]
    return {name: getattr(asked, name) for name in others if getattr(asked, name) is not None}


def _train(
    asked: Translate | Generate | Fill | Encoder, command: Sequence[str], train: Callable[[Path, RunOptions], Run[Any]]
) -> int:
    from regard.cli.again import command_to_go_on
    from regard.training.options import RunOptions
    from regard.training.progress import for_terminal

    if asked.out is None:
        raise UsageError("--out is missing: name the folder to write, for example --out runs/mine.")
    progress = for_terminal()
    try:
        options = RunOptions(
            device=asked.device,
            save_every=asked.save_every,
            resume=asked.resume,
            force=asked.force,
            progress=progress,
            go_on=lambda _, steps: command_to_go_on(command, steps=steps),
            forgetting=getattr(asked, "forgetting", None),
        )
        run = train(asked.out, options)
    finally:
        progress.close()
    report = run.folder / "report.html"
    if asked.json:
        scores = [
            {"name": s.name, "value": s.value, "signature": s.signature, **({"on": s.on} if s.on else {})}
            for s in run.scores
        ]
        answer_json(
            {
                "folder": str(run.folder),
                "step": run.position.step,
                "scores": scores,
                "scored_on": run.scored_on,
                "report": str(report),
            }
        )
    else:
        for score in run.scores:
            answer(f"{score.on or run.scored_on}: {score}")
        answer(f"model: {run.folder}\nreport: {report}")
    return 0
