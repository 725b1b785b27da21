"""The rules of the house: who may import whom, what no file may do, and what the front page must show.

Everything here reads source text and syntax trees; nothing of regard is run except to ask for its public names.
Each checker is itself tried on a small piece of bad code, so that a rule that stopped working would be noticed.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "regard"

LEAVES = ["errors", "config"]
ROOMS = [
    "text", "metrics", "data", "nn", "models", "views", "checkpoint", "generation",
    "tasks", "training", "inspection", "retrieval", "labs", "serve", "cli",
]  # fmt: skip
TOP = ["api", "__init__", "__main__"]

SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = SOURCES + sorted(file for folder in ("tests", "benchmarks") for file in (ROOT / folder).rglob("*.py"))
MAX_LINES = 600


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def room_of(file: Path) -> str:
    """The first name below regard: a room, a leaf or a top module."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


# --- who may import whom ------------------------------------------------------------------------------------


def imported_rooms(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, room) of everything below regard that `tree` imports anywhere; `package` resolves relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            targets = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and is_import_call(node):
            targets = [beginning_of(node.args[0])]
        else:
            continue
        for target in targets:
            parts = target.split(".")
            if parts[0] == "regard":
                yield node.lineno, parts[1] if len(parts) > 1 else "__init__"


def is_import_call(call: ast.Call) -> bool:
    return getattr(call.func, "attr", getattr(call.func, "id", "")) in ("import_module", "__import__")


def beginning_of(name: ast.expr) -> str:
    """As much of a module's name as can be read; a name that is wholly computed counts as some unknown room."""
    first = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else name
    return str(first.value) if isinstance(first, ast.Constant) else "regard.<computed>"


def may_import(importer: str, imported: str) -> bool:
    """Whether a file of `importer` may import from `imported` (both: room, leaf or top module)."""
    if importer == imported:
        return True
    if imported in LEAVES:
        return importer not in LEAVES or LEAVES.index(imported) < LEAVES.index(importer)
    if importer in LEAVES:
        return False
    if importer == "api":
        return imported in ROOMS
    if importer == "__init__":
        return True  # it offers names of several rooms; that it does so lazily is tested below
    if importer == "__main__":
        return imported == "cli"
    if imported in ROOMS:
        return ROOMS.index(imported) < ROOMS.index(importer)
    return importer == "cli" and imported in TOP  # the command line may also use the public names


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_imports_point_upwards(file: Path) -> None:
    package = ["regard", *file.relative_to(PACKAGE).parts[:-1]]
    wrong = [
        f"{name_of(file)}:{line}: {room_of(file)} may not import {room}"
        for line, room in imported_rooms(tree_of(file), package)
        if not may_import(room_of(file), room)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_a_known_room() -> None:
    assert {room_of(file) for file in SOURCES} <= {*LEAVES, *ROOMS, *TOP}


def test_the_import_walk_sees_hidden_imports() -> None:
    code = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from regard.cli import main\n"
        "def f():\n    from ..serve import app\n    import regard.labs.bias\n    from regard import api, nn\n"
        "    import importlib; importlib.import_module('regard.tasks.base')\n"
        "    importlib.import_module(f'regard.data.{x}'); importlib.import_module(x)\n"
        "from .masks import keep\nfrom . import masks\n"
    )
    rooms = {room for _, room in imported_rooms(ast.parse(code), ["regard", "nn"])}
    assert rooms == {"cli", "serve", "labs", "api", "nn", "tasks", "data", "<computed>"}


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("nn", "text", True), ("text", "nn", False), ("nn", "nn", True), ("nn", "errors", True),
        ("errors", "config", False), ("config", "errors", True), ("config", "nn", False),
        ("api", "serve", True), ("serve", "api", False), ("cli", "api", True), ("nn", "__init__", False),
        ("__init__", "api", True), ("__main__", "cli", True), ("__main__", "api", False),
        ("nn", "<computed>", False), ("cli", "<computed>", False),
    ],
)  # fmt: skip
def test_the_order_of_rooms(importer: str, imported: str, allowed: bool) -> None:
    assert may_import(importer, imported) is allowed


def test_the_front_door_imports_nothing_at_once() -> None:
    """`import regard` stays fast: what it re-exports is imported inside functions."""
    eager = [
        node
        for node in tree_of(PACKAGE / "__init__.py").body
        if isinstance(node, ast.Import | ast.ImportFrom) and list(imported_rooms(ast.Module([node], []), ["regard"]))
    ]
    assert not eager, "src/regard/__init__.py imports a part of regard at module level"
    code = "import regard, sys; print([m for m in sys.modules if m.startswith(('regard.', 'torch', 'numpy'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_every_public_name_is_there() -> None:
    assert all(getattr(regard, name).__doc__ for name in regard.__all__)


def test_no_room_bears_the_name_of_a_public_function() -> None:
    assert regard.__all__, "regard offers no public names"
    assert not set(regard.__all__) & {*ROOMS, *LEAVES}


# --- what every file has, and what no file does -------------------------------------------------------------


@pytest.mark.parametrize("file", PYTHON_FILES, ids=name_of)
def test_every_file_says_what_it_is(file: Path) -> None:
    tree = tree_of(file)
    if file.name == "__init__.py" and file.parent != PACKAGE:
        rest = tree.body[1:] if ast.get_docstring(tree) else tree.body
        assert not rest, "a room's __init__ is empty or a docstring: import from the module that has the thing"
    else:
        assert ast.get_docstring(tree), "the file has no docstring at its top"


@pytest.mark.parametrize("file", SOURCES + sorted(PACKAGE.rglob("*.js")), ids=name_of)
def test_files_stay_readable_in_length(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


RUNS_CODE_ON_LOADING = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
PICKLING_CALLS = {"torch.load", "torch.save", "torch.jit.load"}
TEXT_UNLESS_B = {"open", "fdopen"}
BINARY_UNLESS_T = {"gzip", "bz2", "lzma"}
OTHER_OPENS = {"os", "tarfile", "zipfile", "webbrowser", "safetensors"}


def offences(tree: ast.AST, *, may_print: bool = False) -> Iterator[tuple[int, str]]:
    """(line, what) of every use of pickle, of print, and of text files without an encoding."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in RUNS_CODE_ON_LOADING:
                    yield node.lineno, f"imports {alias.name}: loading may run code"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            if str(node.module).split(".")[0] in RUNS_CODE_ON_LOADING or names & PICKLING_CALLS:
                yield node.lineno, f"imports from {node.module}: loading may run code"
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            unsafe = any(k.arg == "allow_pickle" and ast.unparse(k.value) != "False" for k in node.keywords)
            if unsafe or called in PICKLING_CALLS:
                yield node.lineno, f"{called} pickles"
            if called == "print" and not may_print:
                yield node.lineno, "prints: a library returns, the command line prints"
            if opens_text(node) and not names_encoding(node):
                yield node.lineno, f"{called} without an encoding"


def opens_text(call: ast.Call) -> bool:
    """Whether `call` opens, reads or writes a file as text."""
    function = call.func
    method = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    owner = ast.unparse(function.value) if isinstance(function, ast.Attribute) else ""
    if method in ("read_text", "write_text"):
        return True
    if method not in TEXT_UNLESS_B or (owner in OTHER_OPENS and method == "open"):
        return False
    mode_at = 0 if owner and owner not in ("io", "os", "codecs", *BINARY_UNLESS_T) else 1
    given = next((k.value for k in call.keywords if k.arg == "mode"), None)
    given = given or (call.args[mode_at] if len(call.args) > mode_at else None)
    mode = str(given.value) if isinstance(given, ast.Constant) else ""
    return "t" in mode if owner in BINARY_UNLESS_T else "b" not in mode


def names_encoding(call: ast.Call) -> bool:
    method = getattr(call.func, "attr", "")
    positional = {"read_text": 0, "write_text": 1}.get(method, 99)
    return len(call.args) > positional or any(k.arg in ("encoding", None) for k in call.keywords)


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_no_pickle_no_print_no_guessed_encoding(file: Path) -> None:
    wrong = [
        f"{name_of(file)}:{line}: {what}" for line, what in offences(tree_of(file), may_print=room_of(file) == "cli")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "def f():\n    from pickle import loads", "import joblib.numpy_pickle", "torch.load(p)",
        "from torch import load", "np.load(p, allow_pickle=True)", "print('x')", "open(p)", "open(p, 'w')",
        "p.open()", "p.open('a')", "p.read_text()", "p.write_text(t)", "gzip.open(p, 'rt')", "os.fdopen(n, 'w')",
    ],
)  # fmt: skip
def test_the_checker_finds(code: str) -> None:
    assert list(offences(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "open(p, 'rb')", "open(p, encoding='utf-8')", "p.open('wb')", "p.open(mode='rb')", "gzip.open(p)",
        "p.read_text(encoding='utf-8')", "p.read_text('utf-8')", "p.write_text(t, encoding='utf-8')",
        "gzip.open(p, 'rt', encoding='utf-8')", "os.open(p, flags)", "safetensors.torch.load(p)",
        "p.read_bytes()", "np.load(p)", "np.save(p, a, allow_pickle=False)", "import pickletools_of_ours",
    ],
)  # fmt: skip
def test_the_checker_allows(code: str) -> None:
    assert not list(offences(ast.parse(code)))


HOMES = "|".join(["work", "root", "home", "Users", "opt"])
MACHINE_PATH = re.compile(rf"(?<![\w.:/)}}\]-])/(?:{HOMES})/\w|[A-Z]:\\+Users")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".js", ".css", ".sh", ".html", ".json", ".jsonl", ".svg", ""}


def committed_texts() -> list[Path]:
    folders = ("src", "tests", "docs", "benchmarks", "scripts", ".ci")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file()]
    files += [ROOT / name for name in ("README.md", "Makefile", "pyproject.toml", "constraints.txt")]
    return [
        file
        for file in files
        if file.suffix in TEXT_SUFFIXES and "__pycache__" not in file.parts and ".egg-info" not in str(file)
    ]


def test_no_file_names_a_path_of_one_machine() -> None:
    wrong = [
        f"{name_of(file)}:{number}"
        for file in committed_texts()
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_path_pattern_knows_the_difference() -> None:
    slash = "/"
    assert MACHINE_PATH.search(f"open('{slash}root{slash}x')")
    assert MACHINE_PATH.search(f"cd {slash}home{slash}somebody")
    assert not MACHINE_PATH.search(f"https:{slash}{slash}example.org{slash}home{slash}page")
    assert not MACHINE_PATH.search("folder / 'root' / name")


# --- the front page and the coverage table ------------------------------------------------------------------


def test_the_readme_starts_with_what_works() -> None:
    first = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30])
    assert "make demo" in first
    assert "make test" in first


def test_the_readme_lists_the_commands_there_are() -> None:
    from regard.cli.main import VERBS

    table = re.findall(r"^\| `regard (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(table) == set(VERBS)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


ROWS = range(1, 217)
COVERAGE = ROOT / "docs" / "coverage.md"
STATUSES = {"shown", "planned"}


def coverage_rows() -> list[tuple[int, str, str, str]]:
    """(number, what, where, status) of each row of the table."""
    rows = []
    for line in COVERAGE.read_text(encoding="utf-8").splitlines():
        if re.match(r"\| *M\d", line):
            number, what, where, status = (cell.strip() for cell in line.strip().strip("|").split(" | "))
            rows.append((int(number.removeprefix("M")), what, where, status))
    return rows


def test_every_row_stands_once_in_the_coverage_table() -> None:
    assert [number for number, *_ in coverage_rows()] == list(ROWS)


def test_every_row_has_a_phrase_and_a_status() -> None:
    for number, what, where, status in coverage_rows():
        assert what, f"M{number} has no phrase"
        assert status in STATUSES, f"M{number}: status {status!r}"
        assert status == "planned" or "`" in where, f"M{number} is called shown but names no place"


def test_every_place_in_the_coverage_table_exists() -> None:
    missing = []
    for number, _, where, _ in coverage_rows():
        for place in re.findall(r"`((?:tests|docs|src|benchmarks)/[^`]+)`", where):
            path, _, test = place.partition("::")
            if not (ROOT / path).exists():
                missing.append(f"M{number}: no file {path}")
            elif test and test.split("::")[-1] not in defined_names(ROOT / path):
                missing.append(f"M{number}: no {test} in {path}")
    assert not missing, "\n".join(missing)


def defined_names(file: Path) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree_of(file)) if isinstance(node, kinds)}
