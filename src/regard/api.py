"""The few public verbs. They tie the rooms together; each imports what it needs when it is called."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UsageError, some, unknown

if TYPE_CHECKING:
    from regard.metrics.score import Score
    from regard.nn.packed import Precision
    from regard.tasks.answer import Answerer
    from regard.tasks.choose import Chooser
    from regard.tasks.classify import Classifier
    from regard.tasks.embed import Embedder
    from regard.tasks.fill import Filler
    from regard.tasks.generate import Writer
    from regard.tasks.tag import Tagger
    from regard.tasks.translate import Translation, Translator
    from regard.training.runs import Run
    from regard.views.senses import Senses
    from regard.views.view import View

    OnBert = Embedder | Classifier | Chooser | Tagger | Answerer  # what a BERT becomes with a head, or without

TASKS = ("translate", "generate", "fill", "classify", "pair", "tag", "answer")
PathLike = str | Path
# What reading labels, and going on from weights, can be told.
LABELLING = ("columns", "separator", "numbers", "skip_bad_rows", "size", "from_", "lora")


def train(
    task: str,
    data: PathLike | Sequence[PathLike] | None = None,
    *,
    out: PathLike | None = None,
    validation: PathLike | Sequence[PathLike] | None = None,
    progress: bool = False,
    **settings: Any,
) -> Translator | Writer | Filler | Classifier | Chooser | Tagger | Answerer:
    """Train a model for `task` and return the object that answers text.

    `data` is, for `translate`, a table or two line-aligned files, for `generate` and `fill` any number of text files or
    folders of them, for `classify` and `pair` a table with labels (for `pair` also one with endings, such as SWAG's),
    for `tag` CoNLL columns or CoNLL-U, for `answer` SQuAD's JSON; without it the built-in world is used. `settings` are
    those of `regard train <task> --help`: `minutes`, `steps`, `size`, `seed`, `width` … All but `translate` go on from
    the model in a folder with `from_`, all but `fill` in adapters beside it with `lora=True`; with `forgetting`, a text
    file, it is measured how much a BERT that was begun with forgets. Without `out` the run folder is a temporary one.
    """
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    from functools import partial

    from regard.training.answering import train_answers
    from regard.training.filling import train_filler
    from regard.training.labelling import train_label_files
    from regard.training.options import RunOptions
    from regard.training.progress import Silent, for_terminal
    from regard.training.tagging import train_tags
    from regard.training.translation import train_translation
    from regard.training.writing import train_writer

    run, own = {
        "translate": (train_translation, ("columns", "reverse", "skip_bad_rows", "size", "recipe")),
        "generate": (train_writer, ("size", "from_", "lora")),
        "fill": (train_filler, ("size", "from_")),
        "classify": (partial(train_label_files, "classify"), LABELLING),
        "pair": (partial(train_label_files, "pair"), LABELLING),
        "tag": (train_tags, ("tag_column", "repair_tags", "skip_bad_rows", "size", "from_", "lora")),
        "answer": (train_answers, ("skip_bad_rows", "size", "from_", "lora")),
    }[task]
    asked = {name: settings.pop(name) for name in own if name in settings}
    options = {
        name: settings.pop(name)
        for name in ("device", "save_every", "resume", "force", "forgetting")
        if name in settings
    }
    if options.get("forgetting") is not None:
        options["forgetting"] = Path(options["forgetting"])
    shown = for_terminal() if progress else Silent()
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="regard-"))
    try:
        done: Run[Any] = run(  # type: ignore[operator]
            _paths(data),
            folder,
            validation=_paths(validation),
            settings=settings,
            options=RunOptions(progress=shown, **options),
            **asked,
        )
    finally:
        shown.close()
    return done.result  # type: ignore[no-any-return]


def load(folder: PathLike, *, precision: Precision = "fp32") -> Translator | Writer | OnBert:
    """The model in a folder: one of regard's, or a folder as `transformers` writes it (Marian, GPT-2, Llama, BERT …).

    With `precision` "int8" or "int4" its matrices are kept in so many bits: a quarter or an eighth of the memory, and
    faster to write with, since writing is bound by reading the weights.
    """
    from regard.tasks.folders import load_folder

    return load_folder(Path(folder), precision)


def look(
    model: Translator | Writer | OnBert,
    text: str | tuple[str, str],
    *,
    target: str | Translation | None = None,
    steps: bool | str = False,
    targets: bool = False,
    ranks: bool = False,
    inputs: bool = False,
) -> View:
    """What a model attends to while it translates `text`, or reads it: a page to show, save or serve.

    A BERT also reads two texts, such as a pair, or a question with its passage: as a tuple.
    With `target` a translator reads that translation instead of its own. Four pages show something else: with `steps`
    how one attention is computed, in five steps: that at the given address (`decoder.2.cross`), or the encoder's first
    for True; with `targets` what each position of a language model sees and has to guess, and how well it does; with
    `ranks` the spectra of the value matrices, and the loss by their rank; with `inputs` the three vectors whose sum
    enters a BERT.
    """
    from regard.tasks.generate import Writer
    from regard.tasks.translate import Translator

    if (steps is not False) + targets + ranks + inputs > 1:
        raise UsageError("steps, targets, ranks and inputs are pages of their own: ask for one at a time.")
    if not isinstance(model, Translator) and (target is not None or steps is not False):
        raise UsageError("target and steps are for translators; a language model reads the text as it stands.")
    if not isinstance(model, Translator | Writer):
        if targets or ranks:
            raise UsageError("targets and ranks are for models that write, and this is a BERT.")
        if inputs:
            from regard.inspection.inputs import input_view

            return input_view(model, text)
    elif inputs:
        raise UsageError("inputs are those of a BERT: the vectors of token, segment and position.")
    elif not isinstance(text, str):
        raise UsageError("this model reads one text at a time, not two.")
    elif targets:
        from regard.inspection.causal import causal_training
        from regard.views.causal import causal_view

        return causal_view(causal_training(model, text), title=text)
    elif ranks:
        from regard.inspection.ranks import value_ranks
        from regard.views.ranks import ranks_view

        return ranks_view(value_ranks(model, text, target=target), title=text)
    if not isinstance(model, Translator):
        return _look_at_reading(model, text)
    assert isinstance(text, str), "anything else was refused"
    if steps is not False:
        from regard.inspection.steps import translation_steps
        from regard.views.steps import steps_view

        address = None if steps is True else steps
        return steps_view(translation_steps(model, text, target=target, address=address), title=text)
    from regard.views.attention import attention_view
    from regard.views.traces import most_telling, trace_maps

    output = model(text) if target is None else target
    maps = trace_maps(model.trace(text, output))
    cut_off = "" if isinstance(output, str) or output.ended else f" … (cut off after {len(output.ids)} pieces)"
    return attention_view(maps, title=text, note=f"→ {output}{cut_off}", initial=most_telling(maps))


def _look_at_reading(model: Writer | OnBert, text: str | tuple[str, str]) -> View:
    """All attention over what a model reads: a text, or two where it takes two."""
    from regard.tasks.answer import Answerer
    from regard.tasks.choose import Chooser
    from regard.tasks.classify import Classifier
    from regard.tasks.embed import Embedder
    from regard.views.attention import attention_view
    from regard.views.traces import most_telling, trace_maps

    note = ""
    if isinstance(model, Answerer | Classifier | Chooser | Embedder):
        trace = model.trace(text)
        if isinstance(model, Answerer) and not isinstance(text, str):
            note = f"→ {model(*text).text or '(no answer)'}"
    elif isinstance(text, str):
        trace = model.trace(text)
    else:
        raise UsageError("this model reads one text at a time, not two.")
    maps = trace_maps(trace)
    title = text if isinstance(text, str) else " / ".join(text)
    return attention_view(maps, title=title, note=note, initial=most_telling(maps))


def senses(
    model: OnBert,
    sentences: PathLike | None = None,
    *,
    skip_bad_rows: bool = False,
) -> Senses:
    """Same word, other meaning: for every layer of a BERT, how often a word's nearest sentence means it alike.

    `sentences` is a table with the columns word, sense and sentence; without it the built-in world's sentences with
    bank, spring and run are used. `regard.views.senses.senses_view` draws the result.
    """
    from regard.data.senses import read_senses, world_senses
    from regard.inspection.senses import word_senses
    from regard.tasks.embed import Embedder

    embedder = model if isinstance(model, Embedder) else getattr(model, "embedder", None)
    if embedder is None:
        raise UsageError(f"senses are read from a BERT, whose vectors see both sides of a word, not from {model!r}.")
    if sentences is None:
        return word_senses(embedder, world_senses())
    return word_senses(embedder, read_senses(sentences, skip_bad_rows=skip_bad_rows).examples)


def evaluate(
    model: Translator | OnBert,
    data: PathLike | Sequence[PathLike],
    *,
    columns: Any = None,
    reverse: bool = False,
    skip_bad_rows: bool = False,
    progress: bool = False,
    **search: Any,
) -> list[Score]:
    """The official scores of a model on files, read as `train` reads them, with their signatures.

    A translator gets BLEU and chrF; a classifier accuracy, F1 and Matthews' correlation, or Pearson's and Spearman's,
    a model that chooses among endings accuracy, a tagger entity F1, answers the exact match and F1 of SQuAD; and beside
    them what always saying the same would reach. A BERT that fills gaps gets the share of hidden words of a text that
    it guesses, beside guessing by frequency; any BERT on pairs with numbers (a table) the correlations of its cosines
    with these, beside those of shared words. `columns` are as for `train`. Where texts have one label each,
    `.confusion` of what is returned says which labels were taken for which. With `progress`, rows that are left out and
    columns that are not read are named on stderr.
    """
    from regard.tasks.embed import Embedder
    from regard.tasks.translate import Translator

    if isinstance(model, Embedder):
        if search:
            raise UsageError(f"{some(sorted(search))} is not for a BERT without a head for labels.")
        return _evaluate_encoder(model, data, columns, skip_bad_rows=skip_bad_rows, progress=progress)
    if not isinstance(model, Translator):
        return _evaluate_labels(model, data, columns, skip_bad_rows=skip_bad_rows, progress=progress, **search)
    from regard.data.pairs import read_pairs
    from regard.metrics.translation import bleu, chrf

    paths = _paths(data)
    if not paths:
        raise UsageError("evaluate needs a file of pairs.")
    reading = read_pairs(paths, columns=columns, skip_bad_rows=skip_bad_rows)
    if progress and (reading.remarks or reading.bad):
        from regard.data.files import skipped_rows
        from regard.training.progress import Lines

        Lines().say("\n".join([*reading.remarks, *skipped_rows(reading.bad)]))
    pairs = [pair.reversed() for pair in reading.pairs] if reverse else reading.pairs
    outputs = [translation.text for translation in model([pair.source for pair in pairs], **search)]
    references = [pair.target for pair in pairs]
    return [bleu(outputs, references), chrf(outputs, references)]


def _paths(given: PathLike | Sequence[PathLike] | None) -> list[Path] | None:
    if given is None:
        return None
    return [Path(given)] if isinstance(given, str | Path) else [Path(path) for path in given]


def _evaluate_encoder(
    model: Embedder, data: PathLike | Sequence[PathLike], columns: Any, *, skip_bad_rows: bool, progress: bool
) -> list[Score]:
    from regard.data.tables import table_suffix
    from regard.inspection.similarity import score_similarity
    from regard.tasks.fill import Filler
    from regard.training.filling import score_text
    from regard.training.progress import Lines

    paths = _paths(data) or []
    has_pairs = bool(columns) or any(table_suffix(path) in (".tsv", ".csv") for path in paths)
    if isinstance(model, Filler) and not has_pairs:
        scores, remarks = score_text(model, paths)
    elif len(paths) != 1:
        raise UsageError("evaluate needs one table of pairs with numbers.")
    else:
        scores, remarks = score_similarity(model, paths[0], columns=columns, skip_bad_rows=skip_bad_rows)
    if progress and remarks:
        Lines().say("\n".join(remarks))
    return scores


def _evaluate_labels(
    model: Classifier | Chooser | Tagger | Answerer,
    data: PathLike | Sequence[PathLike],
    columns: Any,
    *,
    skip_bad_rows: bool,
    progress: bool,
    **how: Any,
) -> list[Score]:
    from regard.tasks.answer import Answerer
    from regard.tasks.choose import Chooser
    from regard.tasks.tag import Tagger
    from regard.training.answering import score_answer_file
    from regard.training.choosing import score_endings
    from regard.training.labelling import LabelFiles, score_file
    from regard.training.progress import Lines
    from regard.training.tagging import TagFiles, score_tag_file

    paths = _paths(data)
    if paths is None or len(paths) != 1:
        raise UsageError("evaluate needs one file with labels.")
    if isinstance(model, Answerer):
        scores, remarks = score_answer_file(model, paths[0], skip_bad_rows=skip_bad_rows, **how)
    elif isinstance(model, Chooser):
        scores, remarks = score_endings(model, paths[0], skip_bad_rows=skip_bad_rows, **how)
    elif isinstance(model, Tagger):
        scores, remarks = score_tag_file(model, TagFiles(data=paths[0], skip_bad_rows=skip_bad_rows, **how))
    else:
        files = LabelFiles(data=paths[0], columns=columns or {}, skip_bad_rows=skip_bad_rows, **how)
        scores, remarks = score_file(model, files)
    if progress and remarks:
        Lines().say("\n".join(remarks))
    return scores
