"""State dicts: tied weights are stored once, and loading requires every name and shape to match."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from regard.nn.init import is_placeholder
from regard.utils.errors import FolderError, shorten_list


def unique_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the state dict of a module without duplicates: tied weights appear only under their first name."""
    tensors: dict[str, torch.Tensor] = {}
    seen: set[tuple[object, ...]] = set()
    for name, tensor in module.state_dict(keep_vars=True).items():
        memory: tuple[object, ...] = (id(tensor),)
        if not (tensor.is_meta or tensor.numel() == 0):  # these tensors have no memory address
            memory = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if memory not in seen:
            tensors[name] = tensor.detach()
        seen.add(memory)
    return tensors


def trainable_tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return `unique_tensors` without frozen parameters."""
    frozen = {name for name, param in module.named_parameters() if not param.requires_grad}
    return {name: tensor for name, tensor in unique_tensors(module).items() if name not in frozen}


def load_into(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], *, trainable_only: bool = False) -> None:
    """Copy `tensors` into a module. Names and shapes must match exactly, otherwise nothing is changed.

    Tied weights are expected under their first name, as in `unique_tensors`. With `trainable_only`, frozen parameters
    are not expected and stay as they are. A module that was built inside `empty_weights` uses the given tensors without
    a copy and removes them from `tensors` if it is a dict, so that they are never in memory twice.
    """
    expected = trainable_tensors(module) if trainable_only else unique_tensors(module)
    check_fit(tensors, expected, type(module).__name__)
    with torch.no_grad():
        for name in expected:
            if is_placeholder(expected[name]):
                taken = tensors.pop(name) if isinstance(tensors, dict) else tensors[name]
                _take(module, module.get_parameter(name), taken)
            else:
                expected[name].copy_(tensors[name])


def check_fit(tensors: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], class_name: str) -> None:
    """Raise if names, shapes or dtypes differ from those that `class_name` expects."""
    wrong: dict[str, dict[str, str]] = {  # keyed by reason: tensor names with descriptions
        "missing": {name: name for name in expected if name not in tensors},
        "surplus": {name: name for name in tensors if name not in expected},
        "of another shape": {},
        "of another type": {},
    }
    for name in (name for name in expected if name in tensors):
        given, wanted = tensors[name], expected[name]
        if given.shape != wanted.shape:
            wrong["of another shape"][name] = f"{name} is {_shape(given)} instead of {_shape(wanted)}"
        if given.is_floating_point() != wanted.is_floating_point():
            wrong["of another type"][name] = f"{name} is {given.dtype} instead of {wanted.dtype}"
    if any(wrong.values()):
        details = "; ".join(f"{reason}: {shorten_list([*names.values()])}" for reason, names in wrong.items() if names)
        raise FolderError(
            f"these weights do not fit a {class_name} with this config; {details}. "
            "Config and weights belong to different models. Copy or download the folder again.",
            argument="tensors",
            value={reason: tuple(names) for reason, names in wrong.items() if names},
        )


def _take(module: torch.nn.Module, empty: torch.Tensor, tensor: torch.Tensor) -> None:
    """Replace a placeholder with a tensor everywhere in the module."""
    param = torch.nn.Parameter(tensor.to(empty.dtype).contiguous(), requires_grad=empty.requires_grad)
    for part in module.modules():
        for name, existing in list(part.named_parameters(recurse=False, remove_duplicate=False)):
            if existing is empty:
                setattr(part, name, param)


def _shape(tensor: torch.Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "a single number"
