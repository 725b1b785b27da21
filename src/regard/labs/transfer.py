"""Pre-trained or from scratch: what pre-training is worth, by number of labels.

Twice the same training: the same examples, in the same batches, with the same tokens and a model of the same shape. One
begins with the weights of a folder, the other with random ones. Samples of a size are stratified, those of a larger
size contain those of a smaller one, and several seeds draw and train anew. Each side has the rate that suits it: random
weights need a higher one.
"""

from __future__ import annotations

import heapq
import json
import math
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from regard.checkpoint.presence import check_folder
from regard.config import from_dict
from regard.data.batches import hold_out
from regard.data.files import skipped_rows
from regard.data.labelled import TextColumns, read_labelled, refuse_unseen, require_one_label, require_two_labels
from regard.data.world.opinions import opinions
from regard.errors import UsageError, unknown
from regard.tasks.settings import CLASSIFY
from regard.training.encoders import held_remark, overlap_remark
from regard.training.labelling import LabelFiles, train_labels
from regard.training.options import RunOptions
from regard.views.transfer import Transfer

ALL = "all"
HELD_OUT_SHARE = 0.1  # of the examples, where no file to validate on is given
Metric = Literal["accuracy", "F1", "Matthews"]
SCORES = {"accuracy": "accuracy", "F1": "macro F1", "Matthews": "Matthews"}  # what a metric is called among the scores
Examples = list[tuple[str, str]]  # text, label


@dataclass(frozen=True, kw_only=True)
class TransferConfig:
    sizes: str = "100,1000,all"  # how many labels are learned from, one after the other
    seeds: int = 3  # how often each is repeated, with another sample and other random numbers
    metric: Metric = "accuracy"  # what is compared; F1 is the mean over the labels
    epochs: float = 3.0  # how often a sample is seen
    least_steps: int = 60  # but at least so many steps, or a hundred examples would hardly be learned
    batch_rows: int = 32  # examples of a batch
    max_tokens: int = 128  # how many tokens of a text are read
    learning_rate: float | None = None  # of the pre-trained model; if not given, that of `regard train classify`
    scratch_learning_rate: float = 5e-4  # of the model that begins with random weights

    def __post_init__(self) -> None:
        for name in ("seeds", "least_steps", "batch_rows"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.metric not in get_args(Metric):
            raise unknown("metric", str(self.metric), get_args(Metric))
        if not self.epochs > 0:
            raise UsageError(f"epochs must be more than 0, not {self.epochs}.")
        self.counts(1)

    def counts(self, there: int) -> list[int]:
        """The sizes as numbers, of so many examples; larger ones than there are fall away."""
        found = set()
        for part in (part.strip() for part in self.sizes.split(",")):
            if part != ALL and not (part.isdecimal() and int(part) > 1):
                raise UsageError(f"--sizes has {part!r}; give numbers above 1 and {ALL!r}, as in 100,1000,all.")
            found.add(there if part == ALL else int(part))
        return sorted(size for size in found if size <= there)


def transfer_curve(
    folder: Path,
    data: Path | None = None,
    *,
    validation: Path | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    config: TransferConfig | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Transfer:
    """Train on samples of a table of labelled texts, or of the built-in world's opinions: twice each, and compare."""
    config = config or TransferConfig()
    check_folder(folder)
    train, held, remarks = _read(data, validation, columns or {}, skip_bad_rows=skip_bad_rows)
    sizes = config.counts(len(train))
    if not sizes:
        raise UsageError(f"--sizes {config.sizes}: there are {len(train):,} examples to learn from; add {ALL!r}.")
    labels = [label for _, label in train]
    if sizes[0] < len(set(labels)):
        raise UsageError(f"--sizes: {sizes[0]} examples cannot have {len(set(labels))} labels; give larger numbers.")
    if asked := [part for part in config.sizes.split(",") if part.strip() != ALL and int(part) > len(train)]:
        remarks.append(f"sizes: {', '.join(asked)} left out (there are {len(train):,} examples to learn from)")
    for remark in remarks:
        say(remark)
    with tempfile.TemporaryDirectory(prefix="regard-transfer-") as place:
        lab = _Lab(Path(place), folder, held, config)
        runs = [[lab.compare(_picked(train, size, seed), seed, say) for seed in range(config.seeds)] for size in sizes]
    by_side = [[[one[side] for one in row] for row in runs] for side in (0, 1)]
    metric = SCORES[config.metric]
    pretrained, scratch = (tuple(tuple(scores[metric] for scores in row) for row in side) for side in by_side)
    return Transfer(
        metric=metric,
        sizes=tuple(sizes),
        seeds=config.seeds,
        pretrained=pretrained,
        scratch=scratch,
        majority=runs[-1][0][0].get(f"{metric} of the majority"),
        held_out=len(held),
    )


@dataclass(frozen=True)
class _Lab:
    """A place for the folders of all trainings, which are gone when the curve is there."""

    place: Path
    folder: Path
    held: Examples
    config: TransferConfig

    def compare(
        self, sample: Examples, seed: int, say: Callable[[str], None]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """The scores of the model that was begun with, and of one with random weights, after the same training."""
        fresh = self.place / f"fresh-{seed}"
        if not fresh.exists():
            write_fresh(self.folder, fresh, seed=seed)
        config = self.config
        pretrained = self._train(sample, self.folder, seed=seed, rate=config.learning_rate)
        scratch = self._train(sample, fresh, seed=seed, rate=config.scratch_learning_rate)
        metric = SCORES[config.metric]
        found = f"{metric} {scratch[metric]:.2f} from scratch, {pretrained[metric]:.2f} pre-trained"
        say(f"{len(sample):,} labels, seed {seed}: {found}")
        return pretrained, scratch

    def _train(self, sample: Examples, begun: Path, *, seed: int, rate: float | None) -> dict[str, float]:
        files = LabelFiles(
            data=_write(self.place / "train.jsonl", sample), validation=_write(self.place / "held.jsonl", self.held)
        )
        config = self.config
        steps = round(config.epochs * math.ceil(len(sample) / config.batch_rows))
        settings: dict[str, Any] = {
            "steps": max(config.least_steps, steps),
            "batch_rows": config.batch_rows,
            "max_tokens": config.max_tokens,
            "validations": 1,
            "seed": seed,
            **({} if rate is None else {"learning_rate": rate}),
        }
        out = self.place / "run"
        run = train_labels(CLASSIFY, files, out, from_=begun, settings=settings, options=RunOptions())
        shutil.rmtree(out)
        return {score.name: score.value for score in run.scores}


def write_fresh(folder: Path, out: Path, *, seed: int) -> None:
    """An encoder of the same shape and with the same tokens as that in `folder`, but with random weights."""
    from regard.checkpoint.folder import own_tensors, write_model
    from regard.models.bert import Bert
    from regard.tasks.embed import Embedder
    from regard.tasks.folders import load_embedder
    from regard.tasks.labelling import fresh

    known = load_embedder(folder)
    bert = fresh(lambda: Bert(known.bert.config), seed=seed)
    contents = Embedder(bert, known.tokenizer, config=known.config).contents()
    write_model(out, config=contents.config, tensors=own_tensors(bert), texts=contents.texts)


# Examples ---------------------------------------------------------------------------------------------------


def _read(
    data: Path | None, validation: Path | None, columns: Mapping[str, str], *, skip_bad_rows: bool
) -> tuple[Examples, Examples, list[str]]:
    """Examples to learn from, examples to be scored on, and what there is to say of them."""
    if data is None:
        if validation is not None or skip_bad_rows:
            raise UsageError("--validation and --skip-bad-rows need a table; without one the built-in world is used.")
        train, held = ([(one.text, one.labels[0]) for one in opinions(split)] for split in ("train", "validation"))
        return train, held, ["data: the built-in world's opinions (no file was given)"]
    asked = from_dict(TextColumns, columns)
    reading = read_labelled(data, columns=asked, skip_bad_rows=skip_bad_rows)
    reading = require_one_label(reading, data, skip_bad_rows=skip_bad_rows)
    examples = [(one.text, one.labels[0]) for one in reading.examples]
    remarks = [*reading.remarks, *skipped_rows(reading.bad)]
    labels = sorted({label for _, label in examples})
    require_two_labels(labels, data, len(examples))
    if validation is None:
        texts, kinds = zip(*examples, strict=True)
        kept, out = hold_out(texts, [(label,) for label in kinds], share=HELD_OUT_SHARE, kinds=kinds)
        remarks.append(held_remark(len(out), "example"))
        train, held = ([examples[number] for number in part] for part in (kept, out))
        return train, held, remarks
    checking = read_labelled(validation, columns=asked, skip_bad_rows=skip_bad_rows)
    known = refuse_unseen(
        checking, validation, labels, lambda one: one.labels, single=True, skip_bad_rows=skip_bad_rows
    )
    held = [(one.text, one.labels[0]) for one in known.examples]
    overlap = overlap_remark(*([text for text, _ in side] for side in (examples, held)))
    return examples, held, [*remarks, *known.remarks, *skipped_rows(known.bad), *overlap]


def _picked(examples: Examples, size: int, seed: int) -> Examples:
    """So many examples, every label in its share, at least once; of one seed a larger sample has the smaller."""
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    shares = shares_of([label for _, label in examples], size)
    taken: Counter[str] = Counter()
    numbers = []
    for number in order:
        label = examples[number][1]
        if taken[label] < shares[label]:
            taken[label] += 1
            numbers.append(number)
    return [examples[number] for number in numbers]


def shares_of(labels: Sequence[str], size: int) -> dict[str, int]:
    """How many of `size` examples have each label: in proportion, none of them missing, none fewer than in a smaller.

    One after the other is given to the label that lacks most (Sainte-Laguë): by such a rule nobody loses by growth.
    """
    counts = Counter(labels)
    shares = dict.fromkeys(sorted(counts), 1)
    lacking = [(-counts[label] / 3, label) for label in shares if counts[label] > 1]
    heapq.heapify(lacking)
    for _ in range(size - len(shares)):
        _, label = heapq.heappop(lacking)
        shares[label] += 1
        if shares[label] < counts[label]:
            heapq.heappush(lacking, (-counts[label] / (2 * shares[label] + 1), label))
    return shares


def _write(path: Path, examples: Examples) -> Path:
    lines = (json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n" for text, label in examples)
    path.write_text("".join(lines), encoding="utf-8")
    return path
