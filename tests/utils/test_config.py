"""Configs: errors with argument, value and allowed values; settings that find their config; other defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pytest
from pydantic import AfterValidator, Field, ValidationError, model_validator

from regard.registry import architectures, tasks
from regard.utils.config import Config, field_default, split_settings, typed_values
from regard.utils.errors import UsageError


def no_seven(value: int) -> int:
    if value == 7:
        raise UsageError("no seven.", argument="own", value=value)
    return value


class Shape(Config):
    """A config of every kind of field."""

    size: int = Field(3, ge=1, le=10, description="The size.")
    rate: float = Field(0.5, gt=0, lt=1, description="The rate.")
    kind: Literal["round", "square"] = Field("round", description="The kind.")
    maybe: Literal["yes", "no"] | None = Field(None, description="Perhaps.")
    names: tuple[str, ...] = Field((), description="Names.")
    flag: bool = Field(False, description="A flag.")
    path: Path | None = Field(None, description="A file.")
    own: Annotated[int, AfterValidator(no_seven)] = Field(0, description="Checked by a validator.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.flag and self.size > 5:
            raise UsageError("a flag needs a size up to 5.", argument="size", value=self.size)
        return self


class Required(Config):
    """A config with a field that has no default."""

    vocab_size: int = Field(ge=1, description="The vocabulary.")


@pytest.mark.parametrize(
    ("values", "argument", "value"),
    [
        ({"size": "many"}, "size", "many"),
        ({"size": 0}, "size", 0),
        ({"size": 11}, "size", 11),
        ({"size": 2.5}, "size", 2.5),
        ({"size": None}, "size", None),
        ({"rate": 1}, "rate", 1),
        ({"rate": "0"}, "rate", "0"),
        ({"rate": float("inf")}, "rate", float("inf")),
        ({"kind": "rond"}, "kind", "rond"),
        ({"kind": 3}, "kind", 3),
        ({"maybe": "yess"}, "maybe", "yess"),
        ({"names": 3}, "names", 3),
        ({"flag": "perhaps"}, "flag", "perhaps"),
        ({"own": 7}, "own", 7),
        ({"flag": True, "size": 6}, "size", 6),
        ({"sise": 3}, "setting", "sise"),
    ],
    ids=str,
)
def test_wrong_values_are_named(values: dict[str, Any], argument: str, value: Any) -> None:
    with pytest.raises(UsageError) as error:
        Shape(**values)
    assert (error.value.argument, error.value.value) == (argument, value)
    assert error.value.exit_code == 2
    assert "pydantic" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "allowed", "hint"),
    [
        ({"kind": "rond"}, ("round", "square"), "round"),
        ({"maybe": "yess"}, ("no", "yes"), "yes"),
        ({"sise": 3}, tuple(sorted(Shape.model_fields)), "size"),
    ],
)
def test_choices_and_names_have_suggestions(values: dict[str, Any], allowed: tuple[str, ...], hint: str) -> None:
    with pytest.raises(UsageError) as error:
        Shape(**values)
    assert (error.value.allowed, error.value.hint) == (allowed, hint)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(UsageError) as error:
        Required()
    assert error.value.argument == "vocab_size"


def test_text_becomes_typed_values() -> None:
    shape = Shape(size="4", rate="0.25", names=["a"], flag="true", path="x/y")
    assert (shape.size, shape.rate, shape.names, shape.flag, shape.path) == (4, 0.25, ("a",), True, Path("x/y"))
    assert typed_values(Shape, {"size": "4"}) == {"size": 4}
    with pytest.raises(UsageError) as error:
        typed_values(Shape, {"size": "4", "rate": "x"})
    assert error.value.argument == "rate"


def test_configs_are_frozen_and_copied() -> None:
    shape = Shape(size=4)
    with pytest.raises(ValidationError):
        shape.size = 5  # type: ignore[misc]
    assert shape.replace(rate=0.1) == Shape(size=4, rate=0.1)
    with pytest.raises(UsageError):
        shape.replace(size=0)
    assert Shape(**shape.to_dict()) == shape
    assert shape.to_dict()["names"] == []


def test_another_default_keeps_description_and_range() -> None:
    class Larger(Shape):
        size: int = field_default(Shape, "size", 9)

    assert (Larger().size, Shape().size) == (9, 3)
    assert Larger.model_fields["size"].description == "The size."
    schema = Larger.model_json_schema()["properties"]["size"]
    assert (schema["default"], schema["minimum"], schema["maximum"]) == (9, 1, 10)
    with pytest.raises(UsageError):
        Larger(size=11)


def test_settings_go_to_the_first_config_that_has_them() -> None:
    class Other(Config):
        size: int = 1
        colour: str = "red"

    assert split_settings({"colour": "blue", "size": 2}, (Shape, Other)) == [{"size": 2}, {"colour": "blue"}]
    assert split_settings({"size": 2}, (Shape, Other), fixed={Shape: ["size"]}) == [{}, {"size": 2}]
    for name, meant in (("color", "colour"), ("xyzzy", None)):
        with pytest.raises(UsageError) as error:
            split_settings({name: 1}, (Shape, Other))
        assert (error.value.argument, error.value.value, error.value.hint) == ("setting", name, meant)
    with pytest.raises(UsageError) as error:
        split_settings({"size": 2}, (Shape,), fixed={Shape: ["size"]})
    assert "size" not in (error.value.allowed or ())


def configs() -> list[type[Config]]:
    found: list[type[Config]] = [architecture.config for architecture in architectures.values()]
    for spec in tasks.values():
        found += [spec.read_config, spec.predict_config, *([spec.train_config] if spec.train_config else [])]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("config", configs(), ids=lambda config: config.__name__)
def test_every_field_has_a_description(config: type[Config]) -> None:
    for name, info in config.model_fields.items():
        description = info.description or ""
        assert description, name
        assert description[0] == description[0].upper() or " " not in description.split(":")[0], (name, description)
        assert description.endswith((".", ")")), (name, description)


@pytest.mark.parametrize("config", configs(), ids=lambda config: config.__name__)
def test_defaults_are_valid_and_survive_json(config: type[Config]) -> None:
    required = {name: 10 for name, info in config.model_fields.items() if info.is_required()}
    default = config(**required)
    assert config(**default.to_dict()) == default
