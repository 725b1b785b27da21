"""Run checks, and compare weights, records and schemas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from regard.spec import Architecture, TaskSpec
from regard.utils.errors import UsageError, unknown

Check = Callable[[Any], None]


def run_checks(subject: Any, checks: Sequence[Check], exceptions: Mapping[str, str]) -> None:
    """Run checks; those with a declared exception must fail, all others must pass."""
    names = [check.__name__ for check in checks]
    for name in exceptions:
        if name not in names:
            raise unknown("exceptions", name, names)
    for name, check in zip(names, checks, strict=True):
        try:
            check(subject)
        except (AssertionError, UsageError):
            if name not in exceptions:
                raise
        else:
            assert name not in exceptions, f"{name} passes, so remove its exception ({exceptions[name]})"


def spec_needs_no_torch(subject: Any) -> None:
    """Importing the spec of a task or an architecture does not import torch."""
    registry, spec = ("architectures", subject) if isinstance(subject, Architecture) else ("tasks", subject.spec)
    lookup = f"from regard.registry import {registry}; {registry}[{spec.name!r}]"
    code = f"import sys; {lookup}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, f"{spec.name} imports torch"


def assert_same_weights(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> None:
    assert list(first) == list(second)
    for name in first:
        assert torch.equal(first[name], second[name]), f"{name} differs"


def assert_close(first: Any, second: Any) -> None:
    """Assert that JSON values are equal, except that floats may differ by 1e-5 of the largest float."""
    (left, left_floats), (right, right_floats) = without_floats(first), without_floats(second)
    assert left == right
    largest = max(map(abs, left_floats), default=0.0)
    for one, other in zip(left_floats, right_floats, strict=True):
        assert abs(one - other) <= 1e-5 * largest, (one, other)


def without_floats(value: Any) -> tuple[Any, list[float]]:
    """Replace each float in a JSON value with "float"; return the value and the floats."""
    floats: list[float] = []

    def replaced(part: Any) -> Any:
        if isinstance(part, float):
            floats.append(part)
            return "float"
        if isinstance(part, Mapping):
            return [(name, replaced(item)) for name, item in part.items()]
        return [replaced(item) for item in part] if isinstance(part, list | tuple) else part

    return replaced(value), floats


def assert_matches_schema(record: Mapping[str, Any], spec: TaskSpec) -> None:
    """Assert that a record has the outputs that a task declares; it may also contain inputs."""
    schema = spec.schema()["outputs"]
    fields = {**spec.schema()["inputs"]["properties"], **schema["properties"]}
    missing, undeclared = set(schema["required"]) - set(record), set(record) - set(fields)
    assert not missing and not undeclared, f"missing: {sorted(missing)}; undeclared: {sorted(undeclared)}"
    assert set(record) & set(schema["properties"]), "there is no output"
    for name, value in record.items():
        assert has_type(value, fields[name]), f"{name}: {value!r} is not {fields[name]['type']}"


def has_type(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a JSON value has the type in a schema."""
    allowed = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kinds = {str: "string", bool: "boolean", int: "number", float: "number", list: "array", dict: "object"}
    if (kinds.get(type(value)) if value is not None else "null") not in allowed:
        return False
    if isinstance(value, list):
        return all(has_type(item, schema["items"]) for item in value)
    of_values = schema.get("additionalProperties")
    return not (of_values and isinstance(value, dict)) or all(has_type(item, of_values) for item in value.values())
