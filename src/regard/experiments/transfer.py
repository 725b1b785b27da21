"""The benefit of pretraining by number of labels: the same classifier, trained from pretrained and from random weights.

Both models are trained on the same examples, in the same batches, with the same tokenizer and model size. Samples are
stratified by label. For a given seed, larger samples contain the smaller ones. With each seed, new samples are drawn
and both models are trained again. The learning rates differ, because random weights need a higher one.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from pydantic import Field, model_validator

from regard.checkpoint.probe import check_folder
from regard.data.files import ReadResult
from regard.data.labelled import refuse_unseen
from regard.metrics.labels import label_names
from regard.tasks.base import LabelledExample, Splits
from regard.tasks.classify.reader import ClassifyReader
from regard.tasks.classify.spec import ClassifyTraining
from regard.training.run import TrainRequest, train_on_splits
from regard.utils.config import Config
from regard.utils.errors import UsageError
from regard.views.studies import Transfer

ALL = "all"
VAL_FRACTION = 0.1  # fraction of validation examples if no validation file is given
Metric = Literal["accuracy", "F1", "Matthews"]
SCORES = {"accuracy": "accuracy", "F1": "macro F1", "Matthews": "Matthews"}  # metric → name of its score

E = TypeVar("E")


class TransferConfig(Config):
    """Options of the comparison."""

    sizes: str = Field("100,1000,all", description="Numbers of labeled examples to train on; `all` uses every example.")
    seeds: int = Field(3, ge=1, description="Number of repetitions, each with a different sample and seed.")
    metric: Metric = Field("accuracy", description="Metric to compare; F1 is the mean over the labels.")
    epochs: float = Field(3.0, gt=0, description="Training epochs.")
    min_steps: int = Field(60, ge=1, description="Minimum number of training steps (matters for small samples).")
    batch_size: int = Field(32, ge=1, description="Examples per batch.")
    max_seq_len: int = Field(128, ge=4, description="Maximum length of a text, in tokens.")
    learning_rate: float | None = Field(
        None,
        gt=0,
        description="Learning rate of the pretrained model (default: the same as in `regard train classify`).",
    )
    scratch_learning_rate: float = Field(5e-4, gt=0, description="Learning rate of the model with random weights.")

    @model_validator(mode="after")
    def _valid_sizes(self) -> Self:
        self.counts(1)
        return self

    def counts(self, num_examples: int) -> tuple[list[int], list[int]]:
        """Return two lists: the sizes up to the number of examples, and the larger ones."""
        sizes = set()
        for part in (part.strip() for part in self.sizes.split(",")):
            if part != ALL and not (part.isdecimal() and int(part) > 1):
                message = f"--sizes has {part!r}. Give numbers above 1 and {ALL!r}, as in 100,1000,all."
                raise UsageError(message, argument="sizes", value=part)
            sizes.add(num_examples if part == ALL else int(part))
        ordered = sorted(sizes)
        return [n for n in ordered if n <= num_examples], [n for n in ordered if n > num_examples]


class SingleLabelReader(ClassifyReader):
    """Texts with exactly one label each; other rows are bad rows."""

    def read_file(self, path: Path) -> ReadResult[LabelledExample]:
        result = super().read_file(path)
        labels = label_names(label for example in result.examples for label in example.labels)
        skip = self.config.skip_bad_rows
        return refuse_unseen(result, path, labels, lambda e: e.labels, single=True, skip_bad_rows=skip)


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
    """Train classifiers on samples of labeled texts from pretrained and from random weights, and compare them."""
    config = config or TransferConfig()
    check_folder(folder)
    if data is None and validation is not None:
        message = "--validation needs training data. Give a training file, or remove --validation."
        raise UsageError(message, argument="validation", value=validation)
    named = {f"{role}_column": name for role, name in (columns or {}).items()}
    reader = SingleLabelReader(ClassifyTraining(val_fraction=VAL_FRACTION, skip_bad_rows=skip_bad_rows, **named))
    splits = reader.builtin() if data is None else reader.read([data], None if validation is None else [validation])
    sizes, too_large = config.counts(len(splits.train))
    if not sizes:
        message = f"--sizes {config.sizes}: each exceeds the {len(splits.train):,} training examples. Add {ALL!r}."
        raise UsageError(message, argument="sizes", value=config.sizes)
    if sizes[0] < len(splits.head.labels):
        message = f"--sizes: {sizes[0]} examples are too few for {len(splits.head.labels)} labels. Give larger numbers."
        raise UsageError(message, argument="sizes", value=sizes[0])
    for note in splits.notes:
        notify(note)
    if too_large:
        left_out = ", ".join(map(str, too_large))
        notify(f"sizes: left out {left_out}, because there are only {len(splits.train):,} training examples")
    metric = SCORES[config.metric]
    labels = [example.labels[0] for example in splits.train]
    pretrained: dict[int, list[float]] = {size: [] for size in sizes}
    scratch: dict[int, list[float]] = {size: [] for size in sizes}
    with tempfile.TemporaryDirectory(prefix="regard-transfer-") as temporary:
        for size, seed in itertools.product(sizes, range(config.seeds)):
            init = Path(temporary, f"seed-{seed}")
            if not init.exists():
                write_seeded_init(folder, init, seed=seed)
            sample = replace(splits, train=stratified_sample(splits.train, labels, size, seed))
            sides = ((folder, config.learning_rate, pretrained), (init, config.scratch_learning_rate, scratch))
            for weights, rate, side in sides:
                scores = _train(sample, Path(temporary, "run"), weights, rate, seed, config)
                side[size].append(scores[metric])
            result = f"{metric} {scratch[size][-1]:.2f} from scratch, {pretrained[size][-1]:.2f} pretrained"
            notify(f"{size:,} labels, seed {seed}: {result}")
    return Transfer(
        metric=metric,
        sizes=tuple(sizes),
        seeds=config.seeds,
        pretrained=tuple(map(tuple, pretrained.values())),
        scratch=tuple(map(tuple, scratch.values())),
        majority=scores.get(f"{metric} of the majority"),
        held_out=len(splits.validation),
    )


def _train(
    splits: Splits[LabelledExample], out: Path, weights: Path, rate: float | None, seed: int, config: TransferConfig
) -> dict[str, float]:
    """Train a classifier from the weights of a folder and return its scores."""
    steps = round(config.epochs * math.ceil(len(splits.train) / config.batch_size))
    settings: dict[str, Any] = {
        "steps": max(config.min_steps, steps),
        "batch_size": config.batch_size,
        "max_seq_len": config.max_seq_len,
        "num_evals": 1,
        "seed": seed,
        **({} if rate is None else {"learning_rate": rate}),
    }
    run = train_on_splits(TrainRequest.parse("classify", {**settings, "from_": weights}, out=out), splits)
    shutil.rmtree(out)
    return {score.name: score.value for score in run.scores}


def write_seeded_init(folder: Path, out: Path, *, seed: int) -> None:
    """Write an encoder with random weights and with the shape and tokenizer of the encoder in `folder`."""
    from regard.checkpoint.predictors import load_predictor
    from regard.models.bert.model import Bert
    from regard.nn.init import seeded_init

    known = load_predictor(folder, task="embed")
    bert = seeded_init(lambda: Bert(known.bert.config), seed=seed)
    type(known)(bert, known.tokenizer, config=known.config).save(out)


def stratified_sample(examples: Sequence[E], labels: Sequence[str], size: int, seed: int) -> list[E]:
    """Draw `size` examples, stratified by label, at least one per label; includes all smaller samples of the seed."""
    order = list(range(len(examples)))
    random.Random(seed).shuffle(order)
    left = label_counts(labels, size)
    sample = []
    for index in order:
        if left[labels[index]] > 0:
            left[labels[index]] -= 1
            sample.append(examples[index])
    return sample


def label_counts(labels: Sequence[str], size: int) -> dict[str, int]:
    """Return how many of `size` examples have each label: in proportion, but at least 1.

    Each further example goes to the label that is most underrepresented (Sainte-Laguë). With this rule no count
    decreases when `size` increases.
    """
    available = Counter(labels)
    counts = dict.fromkeys(sorted(available), 1)
    queue = [(-available[label] / 3, label) for label in counts if available[label] > 1]
    heapq.heapify(queue)
    for _ in range(size - len(counts)):
        _, label = heapq.heappop(queue)
        counts[label] += 1
        if counts[label] < available[label]:
            heapq.heappush(queue, (-available[label] / (2 * counts[label] + 1), label))
    return counts
