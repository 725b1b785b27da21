"""Installation: pins lie inside the declared ranges, and scripts/setup.sh refuses a wrong interpreter.

Nothing is installed here; small shell scripts stand in for interpreters.
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
    """What benchmarks import is a core dependency or in `bench`, except llama.cpp, which takes long to build."""
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
    return subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=600)


def fake_python(tmp_path: Path, script: str) -> str:
    """A shell script that stands in for an interpreter; the code that it is given is $2."""
    file = tmp_path / "python"
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return str(file)


OLD = 'case "$2" in *print*) echo 3.10 ;; *exit*) exit 1 ;; esac'
WITHOUT_VENV = 'case "$2" in *print*) echo 3.11 ;; *ensurepip*) exit 1 ;; esac'


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (OLD, ["3.10", "3.11", "PYTHON=python3.12"]),
        (WITHOUT_VENV, ["apt install python3.11-venv"]),
        ("exit 127", ["3.11", "PYTHON=python3.12"]),
    ],
    ids=["too old", "without venv", "does not run"],
)
def test_a_wrong_interpreter_is_refused(tmp_path: Path, script: str, words: list[str]) -> None:
    done = set_up(tmp_path, fake_python(tmp_path, script))
    assert done.returncode == 1
    assert all(word in done.stderr for word in words), done.stderr
    assert not (tmp_path / "environment").exists()


def test_an_environment_of_another_python_is_kept(tmp_path: Path) -> None:
    bin_folder = tmp_path / "environment" / "bin"
    bin_folder.mkdir(parents=True)
    fake_python(bin_folder, "echo 2.7")
    done = set_up(tmp_path, sys.executable)
    assert done.returncode == 1
    assert "Python 2.7" in done.stderr
    assert [file.name for file in bin_folder.iterdir()] == ["python"]


def test_an_unknown_part_is_named(tmp_path: Path) -> None:
    done = set_up(tmp_path, sys.executable, part="everything")
    assert done.returncode == 1
    assert "'everything'" in done.stderr
    assert all(name in done.stderr for name in ("core", "dev", "docs", "bench"))


def test_make_without_a_target_lists_the_targets() -> None:
    done = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0
    for target in ("demo", "test", "check", "docs", "bench", "setup", "clean"):
        assert f"make {target} " in done.stdout
