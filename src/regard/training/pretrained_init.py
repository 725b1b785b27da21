"""Training from pretrained weights, with or without LoRA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.checkpoint.folder import ADAPTER, is_adapter_folder
from regard.checkpoint.predictors import BASE, LORA, BaseReference, Weights, public_name, weights_checksum
from regard.nn.config import LoRAConfig
from regard.nn.lora import adapter_tensors, add_adapters, merge
from regard.nn.state_dict import unique_tensors
from regard.utils.config import Config, to_dict
from regard.utils.errors import UsageError, flag


@dataclass(frozen=True)
class PretrainedInit:
    """The pretrained weights that a training run starts from."""

    name: str  # as the user gave it: a path or hf:owner/name
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
        """Start from `model`, which was loaded from `folder`. With `lora`, train only adapters and new parts."""
        if lora is not None and is_adapter_folder(folder):
            raise UsageError(
                f"--lora needs a complete model, but {name} is an adapter. Merge it first with `regard export {name} "
                "--out FOLDER` and start from that folder, or remove --lora.",
                argument="lora",
                path=folder,
            )
        init = cls(name, folder, weights_checksum(unique_tensors(model)), lora, new_parts)
        if lora is not None:
            add_adapters(model, lora, seed=seed)
            for part in new_parts:
                part.requires_grad_(True)
        return init

    def settings(self) -> dict[str, Any]:
        """Return the settings to show in the model card and the report."""
        lora = {} if self.lora is None else to_dict(self.lora)
        return {"from": public_name(self.name), LORA: self.lora is not None, **lora}

    def identity(self) -> dict[str, Any]:
        """Return the settings that must be the same when resuming. The path of the folder may change."""
        return {**self.settings(), "from": f"weights with checksum {self.checksum[:16]}"}

    def note(self, model: nn.Module) -> str:
        """Describe which weights are trained."""
        num_trained = sum(param.numel() for param in model.parameters() if param.requires_grad)
        if self.lora is not None:
            scope = f"training adapters, {num_trained:,} parameters"
        elif all(param.requires_grad for param in model.parameters()):
            scope = "training all weights"
        else:
            scope = f"training {num_trained:,} parameters; all others are frozen"
        return f"from: the weights of {public_name(self.name)}; {scope}"

    def close(self, model: nn.Module, out: Path) -> Weights:
        """Merge adapters into the model and return the weights to write into `out`.

        A model with new parts is written completely, because its base folder does not contain those parts.
        """
        if self.lora is None or self.new_parts:
            if self.lora is not None:
                merge(model)
            return Weights.of(model)
        reference = BaseReference.relative_to(out, name=self.name, base=self.folder, checksum=self.checksum)
        adapters = adapter_tensors(model)
        merge(model)
        return Weights(ADAPTER, adapters, {LORA: to_dict(self.lora), BASE: to_dict(reference)})


def refuse_contradictions(
    given: Mapping[str, Any], pretrained: Config, *, name: str, free: Sequence[str] = (), advice: str = ""
) -> None:
    """Raise if model settings, except those in `free`, differ from the pretrained model."""
    changed = pretrained.replace(**given)  # `replace` also parses values from flags, which are text
    for key in given:
        value, allowed = getattr(changed, key), getattr(pretrained, key)
        if key not in free and value != allowed:
            raise UsageError(
                f"{flag(key)} conflicts with --from {name} (its {key} is {allowed}). Remove {flag(key)}, or train a "
                f"new model without --from.{advice and f' {advice}'}",
                argument=key,
                value=value,
                allowed=[allowed],
            )
