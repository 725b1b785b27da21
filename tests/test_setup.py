"""Setting up: the pins agree with the declared ranges, and a wrong interpreter is refused with advice.

Nothing is installed here; interpreters are played by small shell scripts.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DECLARED = [
    *PROJECT["project"]["dependencies"],
    *(line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra),
    *PROJECT["build-system"]["requires"],
]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("declared", sorted(set(DECLARED)))
def test_every_dependency_is_pinned_inside_its_range(declared: str) -> None:
    requirement = Requirement(declared)
    assert pins()[canonicalize_name(requirement.name)] in requirement.specifier


def test_pins_are_plain_versions() -> None:
    """No build suffix, no path, no editable line: any platform can take them."""
    for name, version in pins().items():
        assert re.fullmatch(r"\d+(\.\w+)*", version), f"{name}=={version}"
    assert pins()["torch"] == "2.13.0"


def test_constraints_name_no_place_to_install_from() -> None:
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert not re.search(r"https?:|^-|@", text, flags=re.MULTILINE)


def test_benchmarks_have_their_peers() -> None:
    """What benchmarks import is in the core or in the extra `bench`; what takes long to build is left to the user."""
    extra = {canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["optional-dependencies"]["bench"]}
    core = {canonicalize_name(Requirement(line).name) for line in PROJECT["project"]["dependencies"]}
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    own = {"regard", "llama_cpp", *(file.stem for file in files), *sys.stdlib_module_names}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in {name.partition(".")[0] for name in named} - own:
                assert canonicalize_name(module) in core | extra, f"{file.name} imports {module}"
    assert "llama-cpp-python" in pins()


def set_up(tmp_path: Path, python: str, part: str = "core") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": python, "VENV": str(tmp_path / "environment")}
    command = ["sh", str(ROOT / "scripts" / "setup.sh"), part]
    return subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=60)


def actor(tmp_path: Path, script: str) -> str:
    """An interpreter played by a shell script that sees the code it is given as $2."""
    file = tmp_path / "python"
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return str(file)


OLD = 'case "$2" in *print*) echo 3.10 ;; *exit*) exit 1 ;; esac'
WITHOUT_VENV = 'case "$2" in *print*) echo 3.11 ;; *ensurepip*) exit 1 ;; esac'


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (OLD, ["Python 3.10", "3.11 or newer", "PYTHON=python3.12 make test"]),
        (WITHOUT_VENV, ["cannot make virtual environments", "apt install python3.11-venv"]),
        ("exit 127", ["that runs on this machine", "Install Python 3.11 or newer"]),
    ],
    ids=["too old", "without venv", "does not run"],
)
def test_a_wrong_interpreter_is_refused_with_advice(tmp_path: Path, script: str, words: list[str]) -> None:
    done = set_up(tmp_path, actor(tmp_path, script))
    assert done.returncode == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "environment").exists()


def test_an_environment_of_another_python_is_left_alone(tmp_path: Path) -> None:
    bin_folder = tmp_path / "environment" / "bin"
    bin_folder.mkdir(parents=True)
    actor(bin_folder, "echo 2.7")
    done = set_up(tmp_path, sys.executable)
    assert done.returncode == 1
    assert "holds Python 2.7" in done.stderr
    assert "Remove the folder" in done.stderr
    assert [file.name for file in bin_folder.iterdir()] == ["python"]


def test_an_unknown_part_is_named(tmp_path: Path) -> None:
    done = set_up(tmp_path, sys.executable, part="everything")
    assert done.returncode == 1
    assert "unknown part 'everything'. Known: core, dev, bench." in done.stderr


def test_make_alone_shows_what_there_is() -> None:
    done = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert done.returncode == 0
    for target in ("demo", "test", "check", "bench", "setup", "clean"):
        assert f"make {target} " in done.stdout
