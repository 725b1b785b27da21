"""Going on from weights: what every fine-tuning has in common, whatever its task.

A task reads its own kind of folder and says which settings it took from there. Here are the rest: what contradicts a
folder, adapters instead of the whole model, and what is written when the training is over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.checkpoint.adapters import BASE, BaseReference, name_to_keep, weights_checksum
from regard.checkpoint.folder import ADAPTER, WEIGHTS, own_tensors
from regard.config import to_dict
from regard.errors import UsageError
from regard.nn.lora import adapter_tensors, add_adapters, merge
from regard.nn.lora_settings import LoRAConfig
from regard.tasks.folders import LORA, is_adapter_folder
from regard.training.options import flag_of


@dataclass(frozen=True)
class Weights:
    """What a training leaves of a model: the file, its tensors, and what config.json says of them."""

    file: str
    tensors: Mapping[str, Tensor]
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Beginning:
    """The folder that a training goes on from, and whether the whole model learns or adapters beside it."""

    name: str  # as it was given: a path or hf:owner/name
    folder: Path
    checksum: str  # of the weights that were in it
    lora: LoRAConfig | None
    fresh: Sequence[nn.Module] = ()  # parts of the model that the folder does not have, such as a task's head

    @classmethod
    def of(
        cls,
        name: str,
        folder: Path,
        model: nn.Module,
        *,
        lora: LoRAConfig | None,
        seed: int,
        fresh: Sequence[nn.Module] = (),
    ) -> Beginning:
        """Begin with `model`, which was read from `folder`; with `lora` it gets adapters, and only these learn.

        Parts of it that are `fresh` learn in any case.
        """
        if lora is not None and is_adapter_folder(folder):
            raise UsageError(
                f"--from {name} is an adapter itself, and --lora puts none on top of another. Write it out as a whole "
                f"model with `regard export {name} --out …` and begin with that, or leave --lora away."
            )
        beginning = cls(name, folder, weights_checksum(own_tensors(model)), lora, fresh)
        if lora is not None:
            add_adapters(model, lora, seed=seed)
            for part in fresh:
                part.requires_grad_(True)
        return beginning

    def settings(self) -> dict[str, Any]:
        """For the card."""
        return {"from": name_to_keep(self.name), LORA: self.lora is not None, **_plain(self.lora)}

    def identity(self) -> dict[str, Any]:
        """What a resumed run must have the same: the weights, wherever they lie now."""
        return {**self.settings(), "from": f"weights with checksum {self.checksum[:16]}"}

    def remark(self, model: nn.Module) -> str:
        """What learns, for whoever watches."""
        learning = sum(param.numel() for param in model.parameters() if param.requires_grad)
        what = f"adapters learn, {learning:,} numbers"
        if self.lora is None:
            frozen = not all(param.requires_grad for param in model.parameters())
            what = f"{learning:,} numbers learn, the others stay" if frozen else "all weights learn"
        return f"beginning: the weights of {name_to_keep(self.name)}; {what}"

    def close(self, model: nn.Module, out: Path) -> Weights:
        """What to write into `out`. Adapters are merged into the model, which is a plain one again.

        A model with a fresh part is written whole: what it learned would not fit onto the folder it came from.
        """
        if self.lora is None:
            return whole(model)
        if self.fresh:
            merge(model)
            return whole(model)
        reference = BaseReference.seen_from(out, name=self.name, base=self.folder, checksum=self.checksum)
        learned = adapter_tensors(model)
        merge(model)
        return Weights(ADAPTER, learned, {LORA: to_dict(self.lora), BASE: to_dict(reference)})


def whole(model: nn.Module) -> Weights:
    return Weights(WEIGHTS, own_tensors(model), {})


def refuse_contradictions(
    given: Mapping[str, Any], found: Any, *, name: str, free: Sequence[str] = (), advice: str = ""
) -> None:
    """Settings that a model was given must be those that it has, but for the `free` ones."""
    fields = {field.name for field in dataclasses.fields(found)}.difference(free)
    wrong = [
        f"{flag_of(key)} {value} (there: {getattr(found, key)})"
        for key, value in given.items()
        if key in fields and value != getattr(found, key)
    ]
    if wrong:
        raise UsageError(
            f"the model in {name} is what it is, and {' and '.join(wrong)} would be another: leave that away, or train "
            f"a new model without --from.{advice and f' {advice}'}"
        )


def _plain(lora: LoRAConfig | None) -> dict[str, Any]:
    return to_dict(lora) if lora is not None else {}
