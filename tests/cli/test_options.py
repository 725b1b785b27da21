"""Flags from configs: which flags exist, how values are passed on, and the help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import tyro
from pydantic import Field

from regard.cli.options import Section, option, parse, value_of
from regard.utils.config import Config
from regard.utils.errors import UsageError


class Loop(Config):
    """Options of a loop."""

    steps: int | None = Field(None, ge=1, description="Number of updates.")
    rate: float = Field(0.5, gt=0, description="Learning rate.")
    kind: Literal["fast", "slow"] = Field("fast", description="Kind of loop.")
    lowercase: bool = Field(True, description="Ignore case.")
    quiet: bool = Field(False, description="Print nothing.")
    names: tuple[str, ...] = Field((), description="Names of things.")
    pair: tuple[str, str] | None = Field(None, description="Two columns.")
    by_layer: Mapping[str, int] = Field(default_factory=dict, description="No flag: a mapping.")
    out: str = Field("x", description="Taken by the verb itself.")


class Model(Config):
    """Options of a model."""

    rate: float = Field(0.1, description="Another rate: the first one counts.")
    width: int = Field(8, description="Width of the model.")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Do something."""

    model: tyro.conf.Positional[Path] = option("Model folder.")
    data: tyro.conf.Positional[tuple[Path, ...]] = option("Files.", ())
    out: Path | None = option("File to write.", None)
    from_: str | None = option("Weights to start from.", None)
    json: bool = option("Print JSON.", False)


def run(*arguments: str, **options: Any) -> tuple[Arguments, dict[str, Any]]:
    sections = options.pop("sections", [Section(Loop), Section(Model)])
    return parse(Arguments, arguments, program="regard do", sections=sections, **options)


def test_own_arguments_and_config_fields_are_separated() -> None:
    asked, given = run("m", "a.txt", "b.txt", "--out", "o", "--from", "w", "--steps", "3", "--width", "4")
    assert asked == Arguments(
        model=Path("m"), data=(Path("a.txt"), Path("b.txt")), out=Path("o"), from_="w", json=False
    )
    assert given == {"steps": "3", "width": "4"}, "values as they were typed: the config converts and checks them"


def test_only_given_fields_are_passed_on() -> None:
    assert run("m")[1] == {}
    assert run("m", "--steps=many")[1] == {"steps": "many"}
    assert run("m", "--rate", "-1")[1] == {"rate": "-1"}


def test_switches_lists_and_pairs() -> None:
    _, given = run("m", "--quiet", "--lowercase", "false", "--names", "a", "b", "--pair", "x", "y")
    assert given == {"quiet": True, "lowercase": "false", "names": ("a", "b"), "pair": ("x", "y")}
    config = Loop(**given)
    assert (config.quiet, config.lowercase, config.names, config.pair) == (True, False, ("a", "b"), ("x", "y"))


@pytest.mark.parametrize("arguments", [["m", "--stepz", "3"], ["m", "--by-layer", "x"], [], ["m", "--steps"]])
def test_wrong_flags_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((SystemExit, UsageError)) as stop:  # from tyro, or from a name that does not exist
        run(*arguments)
    assert (stop.value.exit_code if isinstance(stop.value, UsageError) else stop.value.code) == 2
    assert capsys.readouterr().out == ""


def test_the_help_shows_descriptions_ranges_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    description = "Do it well."
    sections = [
        Section(Loop, without={"names"}, defaults={"rate": "by the size of the model"}),
        Section(Model, default="set by --size"),
    ]
    with pytest.raises(SystemExit) as stop:
        run("--help", sections=sections, description=description)
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert description in shown
    for flag in (
        "--steps N",
        "--kind {fast,slow}",
        "--lowercase {true,false}",
        "--quiet",
        "--pair",
        "--width",
        "--from",
    ):
        assert flag in shown
    defaults = {"rate": "by the size of the model", "width": "set by --size", "kind": "fast"}
    fields = {**Model.model_fields, **Loop.model_fields}
    for name, default in defaults.items():
        assert f"{fields[name].description} (default: {default})" in shown
    for absent in ("--names", "--by-layer", "Another rate", "Taken by the verb itself"):
        assert absent not in shown


@pytest.mark.parametrize(
    ("arguments", "value"),
    [(["a", "--model", "gpt"], "gpt"), (["--model=gpt", "b"], "gpt"), (["--model"], None), (["--models", "x"], None)],
)
def test_the_value_of_a_flag_before_parsing(arguments: list[str], value: str | None) -> None:
    assert value_of("--model", arguments) == value


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--lr", "0.1"], "--learning-rate"), (["--width=5"], "--d-model"),
        (["--learning_rat", "1"], "--learning-rate"),
        (["--output-dir", "x"], "--out"), (["--num-train-epochs", "3"], "--epochs"),
    ],
)  # fmt: skip
def test_unknown_options_get_a_suggestion(words: list[str], meant: str) -> None:
    from regard.cli.train import main

    with pytest.raises(UsageError) as error:
        main("train", ["classify", "data.csv", *words])
    assert (error.value.argument, error.value.hint) == ("option", meant)


def test_texts_that_begin_with_dashes_are_not_options() -> None:
    _, given = run("m", "--names", "-- Bonjour", "---")
    assert given == {"names": ("-- Bonjour", "---")}


def test_positional_arguments_are_not_suggested_as_options() -> None:
    from regard.cli.predict import main

    with pytest.raises(UsageError) as error:
        main("translate", ["m", "--input", "x"])
    assert error.value.hint != "--inputs"
    assert "--inputs" not in (error.value.allowed or ())


def test_a_positional_argument_given_as_an_option() -> None:
    with pytest.raises(UsageError) as caught:
        run("--model", "m")
    assert (caught.value.argument, caught.value.value) == ("option", "--model")
    assert "positional" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "argument"),
    [([], "model"), (["m", "--out"], "out"), (["m", "--kind"], "kind"), (["m", "--from"], "from")],
)
def test_wrong_command_lines_are_one_error(words: list[str], argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as caught:
        run(*words)
    assert caught.value.argument == argument
    assert not {"│", "\n"} & set(str(caught.value))
    assert capsys.readouterr() == ("", "")
