"""What every training has in common, whatever its task: prepare, train, write, score, report.

The loop knows no task and the task knows no loop; here they meet. `settings` are flat: each goes to the config
that has a field of its name, and a name that no config has raises with the nearest one. How data become a task is
said in a file of its own for each task.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from regard.checkpoint.atomic import is_edited_card
from regard.checkpoint.card import Card, CardScore, model_card
from regard.checkpoint.folder import CARD, write_model
from regard.checkpoint.output import clear_output
from regard.checkpoint.training_state import last_good_checkpoint
from regard.config import from_dict, to_dict
from regard.errors import FolderError, UsageError, unknown
from regard.metrics.score import Score
from regard.tasks.task import Sample, Task
from regard.training.beginning import Beginning, Weights, whole
from regard.training.choices import Choice, choose_device
from regard.training.loop import BUDGET, InterruptedRunError, Position, Trainer
from regard.training.memory import keep_freed_memory
from regard.training.progress import Progress, Silent
from regard.training.report import write_report
from regard.training.settings import TrainingConfig

DEFAULT_MINUTES = 10.0
BEGUN = "It went on from the weights of {}, where it is told what those were trained on."
NOT_SET = ("vocab_size", "source_vocab_size", "architecture")  # follow from data and task

R = TypeVar("R", covariant=True)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a training runs; nothing of it changes what is learned."""

    device: str = "auto"
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False
    force: bool = False
    progress: Progress = field(default_factory=Silent)

    def __post_init__(self) -> None:
        if not self.save_every > 0:
            raise UsageError(f"save_every must be more than 0 seconds, not {self.save_every}.")
        choose_device(self.device)  # a wrong one is refused before anything is read


@dataclass(frozen=True)
class Run(Generic[R]):
    """What came out of a training."""

    result: R  # the object that answers text
    folder: Path
    position: Position
    scores: Sequence[Score]
    samples: Sequence[Sample]
    scored_on: str


@dataclass(frozen=True)
class Budget:
    """The settings of the loop, and what was chosen where nothing was given."""

    config: TrainingConfig
    remark: str = ""

    @classmethod
    def settle(cls, training: Mapping[str, Any], out: Path, *, resume: bool) -> Budget:
        """Without --steps and --minutes a run goes on as it began, or takes ten minutes."""
        if training.get("steps") is not None or training.get("minutes") is not None:
            return cls(from_dict(TrainingConfig, training))
        chosen = (_earlier_budget(out) if resume else {}) or {"minutes": DEFAULT_MINUTES}
        spent = f"{chosen['minutes']:g} minutes" if "minutes" in chosen else f"{chosen['steps']:,} steps"
        config = from_dict(TrainingConfig, {**training, **chosen})
        return cls(config, f"budget: {spent} (neither --steps nor --minutes was given)")


def _earlier_budget(out: Path) -> dict[str, Any]:
    """How long the run that is resumed was meant to be."""
    checkpoint = last_good_checkpoint(out)
    identity = checkpoint.state["identity"] if checkpoint else {}
    return {name: identity[name] for name in BUDGET if identity.get(name) is not None}


def carry_out(
    task: Task[R],
    budget: Budget,
    out: Path,
    options: RunOptions,
    *,
    described: Mapping[str, Any],
    remarks: Sequence[str],
    beginning: Beginning | None = None,
) -> Run[R]:
    """Train `task` in the folder `out`, which is held, and leave a model, its scores and a report there.

    `described` are settings that no config holds, for the card; `remarks` are for whoever watches. `beginning` is
    the folder that the task's model came from, if it came from one.
    """
    device = choose_device(options.device)
    task.model.to(device.value)
    choices = [str(choice) for choice in (device, _threads(), keep_freed_memory())]
    choices += [remark for remark in (*remarks, budget.remark) if remark]
    for line in (task.describe(), *choices):
        options.progress.say(line)
    begun = beginning.identity() if beginning else {"from": None}
    identity = {**task.settings(), "examples": task.examples(), **begun}
    trainer = Trainer(
        task, budget.config, out, save_every=options.save_every, progress=options.progress, identity=identity
    )
    if options.force:  # an earlier run goes only when nothing is left that could be wrong with this one
        clear_output(out)
    position = trainer.run(resume=options.resume)
    weights = beginning.close(task.model, out) if beginning else whole(task.model)
    if beginning:
        described = {**described, **beginning.settings()}
    try:
        # The model comes first: whatever happens to its scores, it is there.
        _write_model(out, task, weights, budget.config, (), described)
        options.progress.say(f"scoring it: {task.scored_on}")
        scores, samples = task.evaluate()
        _write_model(out, task, weights, budget.config, scores, described)
        write_report(
            out,
            title=out.name,
            scores=scores,
            samples=samples,
            settings=_settings(task, budget.config, described),
            notes=[*choices, f"scores: on {task.scored_on}"],
            traces=task.traces(samples),
        )
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped by Ctrl-C after the training, which is saved. Have the model scored with: --out {out} --resume"
        ) from None
    except FolderError as error:
        raise FolderError(
            f"{error} The training is saved: have the model written with --out {out} --resume."
        ) from error
    return Run(task.result(), out, position, scores, samples, task.scored_on)


def sort_settings(settings: Mapping[str, Any], owners: Sequence[type]) -> dict[type, dict[str, Any]]:
    """Give each setting to the config that has a field of its name."""
    fields = {owner: {field.name for field in dataclasses.fields(owner)} for owner in owners}
    parts: dict[type, dict[str, Any]] = {owner: {} for owner in owners}
    for name, value in settings.items():
        owner = next((owner for owner in owners if name in fields[owner]), None)
        if owner is None or name in NOT_SET:
            raise unknown("setting", name, set().union(*fields.values()).difference(NOT_SET))
        parts[owner][name] = value
    return parts


def _threads() -> Choice:
    threads = torch.get_num_threads()
    return Choice("threads", str(threads), f"torch's choice for {platform.machine()}")


def _settings(task: Task[Any], training: TrainingConfig, described: Mapping[str, Any]) -> dict[str, Any]:
    return {**described, **to_dict(training), **task.settings(), **task.answering()}


def _write_model(
    folder: Path,
    task: Task[Any],
    weights: Weights,
    training: TrainingConfig,
    scores: Sequence[Score],
    described: Mapping[str, Any],
) -> None:
    contents = task.contents()
    usage = task.usage(folder)
    card = Card(
        title=folder.name,
        summary=task.summary + (f" {BEGUN.format(described['from'])}" if "from" in described else ""),
        task=task.name,
        num_parameters=sum(param.numel() for param in task.model.parameters()),
        data=tuple(task.data),
        settings=_settings(task, training, described),
        scores=tuple(CardScore(metric=s.name, value=s.value, on=task.scored_on, signature=s.signature) for s in scores),
        command=usage.command,
        python=usage.python,
        versions={package: version(package) for package in ("regard", "torch", "tokenizers")},
        pipeline=usage.pipeline,
    )
    texts = dict(contents.texts)
    if not is_edited_card(folder, CARD):
        texts[CARD] = model_card(card)
    config = {**contents.config, **weights.config, "training": {**described, **to_dict(training)}}
    write_model(folder, config=config, tensors=weights.tensors, texts=texts, weights=weights.file, force=True)
