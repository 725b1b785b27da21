"""Training from pretrained weights: what every fine-tuning shares, with or without LoRA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.checkpoint.adapters import BASE, BaseReference, name_to_keep, weights_checksum
from regard.checkpoint.folder import ADAPTER, WEIGHTS, is_adapter_folder
from regard.checkpoint.predictors import LORA, Weights
from regard.nn.lora import adapter_tensors, add_adapters, merge
from regard.nn.lora_config import LoRAConfig
from regard.nn.state_dict import unique_tensors
from regard.training.request import flag
from regard.utils.config import Config, to_dict
from regard.utils.errors import UsageError


@dataclass(frozen=True)
class PretrainedInit:
    """The folder whose weights a training started from."""

    name: str  # as it was given: a path or hf:owner/name
    folder: Path
    checksum: str  # of the pretrained weights
    lora: LoRAConfig | None
    new_parts: Sequence[nn.Module] = ()  # modules without pretrained weights, such as a head

    @classmethod
    def of(
        cls,
        name: str,
        folder: Path,
        model: nn.Module,
        *,
        lora: LoRAConfig | None,
        seed: int,
        new_parts: Sequence[nn.Module] = (),
    ) -> PretrainedInit:
        """Start from `model`, which was read from `folder`; with `lora` it gets adapters, and only these are trained.

        Parts that are new are trained in any case.
        """
        if lora is not None and is_adapter_folder(folder):
            raise UsageError(
                f"--lora needs a whole model, and {name} is an adapter. Merge it first with `regard export {name} "
                "--out FOLDER` and start from that folder, or remove --lora.",
                argument="lora",
                path=str(folder),
            )
        init = cls(name, folder, weights_checksum(unique_tensors(model)), lora, new_parts)
        if lora is not None:
            add_adapters(model, lora, seed=seed)
            for part in new_parts:
                part.requires_grad_(True)
        return init

    def settings(self) -> dict[str, Any]:
        """For card and report."""
        return {
            "from": name_to_keep(self.name),
            LORA: self.lora is not None,
            **(to_dict(self.lora) if self.lora else {}),
        }

    def identity(self) -> dict[str, Any]:
        """What a resumed run must share: the weights, wherever they are now."""
        return {**self.settings(), "from": f"weights with checksum {self.checksum[:16]}"}

    def note(self, model: nn.Module) -> str:
        """Which weights are trained."""
        trained = sum(param.numel() for param in model.parameters() if param.requires_grad)
        if self.lora is not None:
            scope = f"training adapters, {trained:,} parameters"
        elif all(param.requires_grad for param in model.parameters()):
            scope = "training all weights"
        else:
            scope = f"training {trained:,} parameters, the others are frozen"
        return f"from: the weights of {name_to_keep(self.name)}; {scope}"

    def close(self, model: nn.Module, out: Path) -> Weights:
        """The weights to write into `out`. Adapters are merged into the model, which is a plain one again.

        A model with new parts is written whole: an adapter would not fit the folder it came from.
        """
        if self.lora is None:
            return whole(model)
        if self.new_parts:
            merge(model)
            return whole(model)
        reference = BaseReference.seen_from(out, name=self.name, base=self.folder, checksum=self.checksum)
        adapters = adapter_tensors(model)
        merge(model)
        return Weights(ADAPTER, adapters, {LORA: to_dict(self.lora), BASE: to_dict(reference)})


def whole(model: nn.Module) -> Weights:
    return Weights(WEIGHTS, unique_tensors(model), {})


def refuse_contradictions(
    given: Mapping[str, Any], found: Config, *, name: str, free: Sequence[str] = (), advice: str = ""
) -> None:
    """Refuse model settings that differ from those of the pretrained model, except the `free` ones."""
    converted = type(found)(**{**dict(found), **given})  # values from flags are text
    for key in given:
        value, pretrained = getattr(converted, key), getattr(found, key)
        if key not in free and value != pretrained:
            raise UsageError(
                f"{flag(key)} conflicts with --from {name} (its {key} is {pretrained}). Remove {flag(key)}, or train a "
                f"new model without --from.{advice and f' {advice}'}",
                argument=key,
                value=value,
                allowed=[pretrained],
            )
