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
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from regard.checkpoint.probe import check_folder
from regard.data.labelled import read_labelled, refuse_unseen, require_two_labels
from regard.data.splits import hold_out
from regard.data.synthetic.opinions import opinions
from regard.tasks.encoder.labels import held_out_note, overlap_note
from regard.training.run import run_task
from regard.utils.config import Config
from regard.utils.errors import UsageError
from regard.views.transfer import Transfer

ALL = "all"
HELD_OUT_SHARE = 0.1  # of the examples, where no file to validate on is given
Metric = Literal["accuracy", "F1", "Matthews"]
SCORES = {"accuracy": "accuracy", "F1": "macro F1", "Matthews": "Matthews"}  # what a metric is called among the scores
Examples = list[tuple[str, str]]  # text, label


class TransferConfig(Config):
    """Options of the comparison."""

    sizes: str = Field("100,1000,all", description="Numbers of labels to train on, and `all`.")
    seeds: int = Field(3, ge=1, description="Repetitions, each with another sample and other random numbers.")
    metric: Metric = Field("accuracy", description="Metric to compare; F1 is the mean over the labels.")
    epochs: float = Field(3.0, gt=0, description="Training epochs.")
    min_steps: int = Field(60, ge=1, description="Fewest training steps, for small samples.")
    batch_size: int = Field(32, ge=1, description="Examples per batch.")
    max_seq_len: int = Field(128, ge=4, description="Longest text, in tokens.")
    learning_rate: float | None = Field(
        None, gt=0, description="Learning rate of the pretrained model (default: that of `regard train classify`)."
    )
    scratch_learning_rate: float = Field(5e-4, gt=0, description="Learning rate of the model with random weights.")

    @model_validator(mode="after")
    def _valid_sizes(self) -> Self:
        self.counts(1)
        return self

    def counts(self, num_examples: int) -> list[int]:
        """The sizes as numbers; sizes above the number of examples are left out."""
        found = set()
        for part in (part.strip() for part in self.sizes.split(",")):
            if part != ALL and not (part.isdecimal() and int(part) > 1):
                raise UsageError(
                    f"--sizes has {part!r}; give numbers above 1 and {ALL!r}, as in 100,1000,all.",
                    argument="sizes",
                    value=part,
                )
            found.add(num_examples if part == ALL else int(part))
        return sorted(size for size in found if size <= num_examples)


def transfer_curve(
    folder: Path,
    data: Path | None = None,
    *,
    validation: Path | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    config: TransferConfig | None = None,
    notify: Callable[[str], None] = lambda line: None,
) -> Transfer:
    """Train twice on samples of labelled texts (default: the built-in synthetic opinions), and compare."""
    config = config or TransferConfig()
    check_folder(folder)
    train, validation_set, remarks = _read(data, validation, columns or {}, skip_bad_rows=skip_bad_rows)
    sizes = config.counts(len(train))
    if not sizes:
        raise UsageError(f"--sizes {config.sizes}: there are {len(train):,} examples to learn from; add {ALL!r}.")
    labels = [label for _, label in train]
    if sizes[0] < len(set(labels)):
        raise UsageError(f"--sizes: {sizes[0]} examples cannot have {len(set(labels))} labels; give larger numbers.")
    if asked := [part for part in config.sizes.split(",") if part.strip() != ALL and int(part) > len(train)]:
        remarks.append(f"sizes: {', '.join(asked)} left out (there are {len(train):,} examples to learn from)")
    for remark in remarks:
        notify(remark)
    with tempfile.TemporaryDirectory(prefix="regard-transfer-") as place:
        lab = _Lab(Path(place), folder, validation_set, config)
        runs = [
            [lab.compare(_picked(train, size, seed), seed, notify) for seed in range(config.seeds)] for size in sizes
        ]
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
        held_out=len(validation_set),
    )


@dataclass(frozen=True)
class _Lab:
    """A place for the folders of all trainings, which are gone when the curve is there."""

    place: Path
    folder: Path
    validation_set: Examples
    config: TransferConfig

    def compare(
        self, sample: Examples, seed: int, notify: Callable[[str], None]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """The scores of the model that was begun with, and of one with random weights, after the same training."""
        seeded_init = self.place / f"fresh-{seed}"
        if not seeded_init.exists():
            write_seeded_init(self.folder, seeded_init, seed=seed)
        config = self.config
        pretrained = self._train(sample, self.folder, seed=seed, rate=config.learning_rate)
        scratch = self._train(sample, seeded_init, seed=seed, rate=config.scratch_learning_rate)
        metric = SCORES[config.metric]
        found = f"{metric} {scratch[metric]:.2f} from scratch, {pretrained[metric]:.2f} pre-trained"
        notify(f"{len(sample):,} labels, seed {seed}: {found}")
        return pretrained, scratch

    def _train(self, sample: Examples, start: Path, *, seed: int, rate: float | None) -> dict[str, float]:
        train = _write(self.place / "train.jsonl", sample)
        validation = _write(self.place / "validation.jsonl", self.validation_set)
        config = self.config
        steps = round(config.epochs * math.ceil(len(sample) / config.batch_size))
        settings: dict[str, Any] = {
            "steps": max(config.min_steps, steps),
            "batch_size": config.batch_size,
            "max_seq_len": config.max_seq_len,
            "num_evals": 1,
            "seed": seed,
            **({} if rate is None else {"learning_rate": rate}),
        }
        out = self.place / "run"
        run = run_task("classify", [train], validation=[validation], out=out, from_=start, **settings)
        shutil.rmtree(out)
        return {score.name: score.value for score in run.scores}


def write_seeded_init(folder: Path, out: Path, *, seed: int) -> None:
    """An encoder of the same shape and with the same tokens as that in `folder`, but with random weights."""
    from regard.checkpoint.predictors import load_predictor
    from regard.models.bert.model import Bert
    from regard.nn.init import seeded_init

    known = load_predictor(folder, task="embed")
    bert = seeded_init(lambda: Bert(known.bert.config), seed=seed)
    type(known)(bert, known.tokenizer, config=known.config).save(out)


# Examples ---------------------------------------------------------------------------------------------------


def _read(
    data: Path | None, validation: Path | None, columns: Mapping[str, str], *, skip_bad_rows: bool
) -> tuple[Examples, Examples, list[str]]:
    """Examples to learn from, examples to be scored on, and what there is to say of them."""
    if data is None:
        if validation is not None or skip_bad_rows:
            raise UsageError(
                "--validation and --skip-bad-rows need a table; without one the built-in synthetic dataset is used."
            )
        train, validation_set = (
            [(one.text, one.labels[0]) for one in opinions(split)] for split in ("train", "validation")
        )
        return train, validation_set, ["data: the built-in synthetic dataset's opinions (no file was given)"]
    text_column, label_column = columns.get("text"), columns.get("label")
    reading = read_labelled(data, text_column=text_column, label_column=label_column, skip_bad_rows=skip_bad_rows)
    labels = sorted({label for example in reading.examples for label in example.labels})
    reading = refuse_unseen(
        reading, data, labels, lambda example: example.labels, single=True, skip_bad_rows=skip_bad_rows
    )
    examples = [(one.text, one.labels[0]) for one in reading.examples]
    remarks = reading.notes()
    labels = sorted({label for _, label in examples})
    require_two_labels(labels, data, len(examples))
    if validation is None:
        texts, kinds = zip(*examples, strict=True)
        kept, out = hold_out(texts, [(label,) for label in kinds], fraction=HELD_OUT_SHARE, kinds=kinds)
        remarks.append(held_out_note(len(out), "example"))
        train, validation_set = ([examples[number] for number in part] for part in (kept, out))
        return train, validation_set, remarks
    checking = read_labelled(
        validation, text_column=text_column, label_column=label_column, skip_bad_rows=skip_bad_rows
    )
    known = refuse_unseen(
        checking, validation, labels, lambda one: one.labels, single=True, skip_bad_rows=skip_bad_rows
    )
    validation_set = [(one.text, one.labels[0]) for one in known.examples]
    overlap = overlap_note(*([text for text, _ in side] for side in (examples, validation_set)))
    return examples, validation_set, [*remarks, *known.notes(), *overlap]


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
