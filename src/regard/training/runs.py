"""What every training has in common, whatever its task: prepare, train, write, score, report.

The loop knows no task and the task knows no loop; here they meet. How data become a task is said in a file of its own
for each task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor

from regard.checkpoint.adapters import name_to_keep
from regard.checkpoint.atomic import is_edited_card
from regard.checkpoint.card import Card, CardScore, model_card
from regard.checkpoint.folder import CARD, write_model
from regard.checkpoint.output import clear_output
from regard.config import to_dict
from regard.errors import FolderError
from regard.metrics.score import Score, no_better
from regard.tasks.task import Sample, Task
from regard.training.beginning import Beginning, Weights, whole
from regard.training.choices import choose_device, choose_threads
from regard.training.forgetting import watch_forgetting
from regard.training.loop import InterruptedRunError, Position, Trainer
from regard.training.memory import keep_freed_memory
from regard.training.options import Budget, RunOptions
from regard.training.report import write_report
from regard.training.settings import TrainingConfig

BEGUN = "It went on from the weights of {}, where it is told what those were trained on."

R = TypeVar("R", covariant=True)


@dataclass(frozen=True)
class Run(Generic[R]):
    """What came out of a training."""

    result: R  # the object that answers text
    folder: Path
    position: Position
    scores: Sequence[Score]
    samples: Sequence[Sample]
    scored_on: str


def carry_out(
    task: Task[R],
    budget: Budget,
    out: Path,
    options: RunOptions,
    *,
    described: Mapping[str, Any],
    remarks: Sequence[str],
    beginning: Beginning | None = None,
    rates: Mapping[Tensor, float] | None = None,
) -> Run[R]:
    """Train `task` in the folder `out`, which is held, and leave a model, its scores and a report there.

    `described` are settings that no config holds, for the card; `remarks` are for whoever watches. `beginning` is
    the folder that the task's model came from, if it came from one; `rates` are parameters that learn more slowly.
    """
    device = choose_device(options.device)
    task.model.to(device.value)
    choices = [str(choice) for choice in (device, choose_threads(), keep_freed_memory())]
    choices += [remark for remark in (*remarks, budget.remark) if remark]
    for line in (task.describe(), *choices):
        options.progress.say(line)
    begun = beginning.identity() if beginning else {"from": None}
    identity = {**task.settings(), "examples": task.examples(), **begun}
    forgetting = watch_forgetting(task.model, beginning, options.forgetting)
    trainer = Trainer(
        task,
        budget.config,
        out,
        save_every=options.save_every,
        progress=options.progress,
        identity=identity,
        rates=rates,
        go_on=options.go_on,
        also=forgetting.along_the_way if forgetting else dict,
    )
    if options.force:  # an earlier run goes only when nothing is left that could be wrong with this one
        clear_output(out)
    position = trainer.run(resume=options.resume)
    for remark in (trainer.kept(), trainer.overfitting()):
        if remark:
            options.progress.say(remark)
            choices.append(remark)
    weights = beginning.close(task.model, out) if beginning else whole(task.model)
    if beginning:
        described = {**described, **beginning.settings()}
    try:
        # The model comes first: whatever happens to its scores, it is there.
        _write_model(out, task, weights, budget.config, (), described)
        options.progress.say(f"scoring it: {task.scored_on}")
        scores, samples = task.evaluate()
        if flag := no_better(scores):
            options.progress.say(flag)
            choices.append(flag)
        if forgetting:
            forgotten = forgetting.after()
            options.progress.say(str(forgotten))
            choices.append(str(forgotten))
            scores = [*scores, *forgotten.scores()]
        _write_model(out, task, weights, budget.config, scores, described)
        write_report(
            out,
            title=out.name,
            counted=task.counted,
            scores=scores,
            samples=samples,
            sample_names=task.sample_names,
            settings=_settings(task, budget.config, described),
            notes=[*choices, f"scores: on {task.scored_on}"],
            traces=task.traces(samples),
        )
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "stopped by Ctrl-C after the training, which is saved. Have the model scored with:\n"
            f"  {options.go_on(out, None)}"
        ) from None
    except FolderError as error:
        raise FolderError(
            f"{error} The training is saved. Have the model written with:\n  {options.go_on(out, None)}"
        ) from error
    return Run(task.result(), out, position, scores, samples, task.scored_on)


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
    usage = task.usage(Path(name_to_keep(str(folder))))
    card = Card(
        title=folder.name,
        summary=task.summary + (f" {BEGUN.format(described['from'])}" if "from" in described else ""),
        task=task.name,
        num_parameters=sum(param.numel() for param in task.model.parameters()),
        data=tuple(task.data),
        settings=_settings(task, training, described),
        scores=tuple(
            CardScore(metric=s.name, value=s.value, on=s.on or task.scored_on, signature=s.signature) for s in scores
        ),
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
