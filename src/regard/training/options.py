"""What is settled before a training begins: how it runs, how long, and which config each setting belongs to.

Nothing here needs torch, so that a command that cannot work is answered before torch is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.checkpoint.hub import model_folder
from regard.checkpoint.presence import check_folder
from regard.config import from_dict
from regard.errors import UsageError, unknown
from regard.nn.lora_settings import LoRAConfig
from regard.training.choices import choose_device
from regard.training.progress import Progress, Silent
from regard.training.settings import TrainingConfig

BUDGET = ("steps", "minutes")  # the settings that a resumed run may change
DEFAULT_MINUTES = 10.0
NOT_SET = ("vocab_size", "source_vocab_size", "architecture")  # follow from data and task

# How to go on with the run in a folder, in the words of whoever started it; with another number of steps if given.
GoOn = Callable[[Path, int | None], str]


def go_on_in_python(out: Path, steps: int | None = None) -> str:
    """How a run goes on that was started from Python."""
    budget = "" if steps is None else f", steps={steps}"
    return f"regard.train(…, out={str(out)!r}{budget}, resume=True), the other arguments as they were"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a training runs; nothing of it changes what is learned."""

    device: str = "auto"
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False
    force: bool = False
    progress: Progress = field(default_factory=Silent)
    go_on: GoOn = go_on_in_python
    forgetting: Path | None = None  # general text on which to measure what a BERT that was begun with forgets

    def __post_init__(self) -> None:
        if self.forgetting is not None and not self.forgetting.exists():
            raise UsageError(f"--forgetting {self.forgetting} does not exist: give a text file, or a folder of them.")
        if not self.save_every > 0:
            raise UsageError(f"save_every must be more than 0 seconds, not {self.save_every}.")
        if self.device != "auto":
            choose_device(self.device)  # a wrong one is refused before anything is read


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
        chosen = (earlier_settings(out, BUDGET) if resume else {}) or {"minutes": DEFAULT_MINUTES}
        spent = f"{chosen['minutes']:g} minutes" if "minutes" in chosen else f"{chosen['steps']:,} steps"
        config = from_dict(TrainingConfig, {**training, **chosen})
        return cls(config, f"budget: {spent} (neither --steps nor --minutes was given)")


def earlier_settings(out: Path, names: Sequence[str]) -> dict[str, Any]:
    """Some settings of the run that is resumed, as far as it had them: such as how long it was meant to be."""
    from regard.checkpoint.training_state import last_good_checkpoint

    checkpoint = last_good_checkpoint(out)
    identity = checkpoint.state["identity"] if checkpoint else {}
    return {name: identity[name] for name in names if identity.get(name) is not None}


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


def find_folder(name: str, out: Path) -> Path:
    """The folder to go on from; one of the Hub's is fetched. It must not be the one that is written."""
    folder = model_folder(name)
    if out.exists() and folder.exists() and out.resolve() == folder.resolve():
        raise UsageError(f"--from and --out are the same folder, {folder}: choose another --out.")
    return folder


def settled_folder(name: str, out: Path, given: Mapping[str, Any], *, settled: Sequence[str]) -> Path:
    """The folder of a model to go on with, which is there; what that model has `settled` cannot be asked for."""
    for setting in settled:
        flag, value = flag_of(setting), given.get(setting)
        if value is not None:
            raise UsageError(
                f"{flag} {value} does not go with --from: the model in {name} has its size and its tokens already. "
                f"Leave {flag} away, or train a new model without --from."
            )
    folder = find_folder(name, out)
    check_folder(folder)
    return folder


def lora_settings(given: Mapping[str, Any], *, lora: bool, begins: bool) -> LoRAConfig | None:
    """The adapters that were asked for; without --lora there is nothing to set on them."""
    if lora and not begins:
        raise UsageError("--lora learns beside weights that are there already: name their folder with --from.")
    if given and not lora:
        raise UsageError(f"{flag_of(min(given))} is a setting of adapters: give --lora beside it.")
    return from_dict(LoRAConfig, given) if lora else None


def no_head_for_words(name: str) -> UsageError:
    """The error for a folder that is begun with and cannot say what it forgets."""
    return UsageError(
        f"--forgetting needs a head for masked words beside the encoder, and {name} has none: leave it out, or begin "
        "with a folder of `regard train fill`, or of Hugging Face's with such a head."
    )


def flag_of(setting: str) -> str:
    return "--" + setting.replace("_", "-")
