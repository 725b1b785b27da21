"""Rules for the whole source tree: allowed imports, forbidden calls, and what README and coverage table must show.

The tests read source text and syntax trees; they run regard only to ask for its public names. Each checker is also
tested on examples of bad code, so that a rule that no longer works is noticed.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import regard
from regard.models.heads import HEAD_KINDS
from regard.registry import TASKS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "regard"

# A package or module may import those before it in this list (docs/architecture.md); `utils` imports nothing of regard.
PACKAGES = [
    "utils", "spec", "registry", "tokenizers", "metrics", "data", "nn", "models", "views", "checkpoint", "generation",
    "training", "tasks", "inspection", "retrieval", "experiments", "serve", "cli",
]  # fmt: skip
TOP = ["api", "testing", "__init__", "__main__"]
PUBLIC = [PACKAGE, PACKAGE / "testing"]  # packages whose names users import: `from regard.testing import check_task`
CALLABLE = ["models", "tasks"]  # packages that are also public functions: `regard.tasks()`

SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON_FILES = SOURCES + sorted(file for folder in ("tests", "benchmarks") for file in (ROOT / folder).rglob("*.py"))
MAX_LINES = 600


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def package_of(file: Path) -> str:
    """The first name below regard: a package or a module."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


# --- allowed imports ------------------------------------------------------------------------------------------


def imported_packages(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, package) of everything below regard that `tree` imports anywhere; `package` resolves relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            targets = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and is_import_call(node):
            targets = [readable_prefix(node.args[0])]
        else:
            continue
        for target in targets:
            parts = target.split(".")
            if parts[0] == "regard":
                own = len(parts) == 1 or parts[1] == "__version__"
                yield node.lineno, "__init__" if own else parts[1]


def is_import_call(call: ast.Call) -> bool:
    return getattr(call.func, "attr", getattr(call.func, "id", "")) in ("import_module", "__import__")


def readable_prefix(name: ast.expr) -> str:
    """As much of a module's name as can be read; a fully computed name counts as an unknown package."""
    first = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else name
    return str(first.value) if isinstance(first, ast.Constant) else "regard.<computed>"


def may_import(importer: str, imported: str) -> bool:
    """Whether a file of `importer` may import from `imported` (both: a package or a module directly below regard)."""
    if importer == imported:
        return True
    if importer == "spec" and imported == "<computed>":
        return True  # `resolve` imports what specs and entry points name
    if importer == "api":
        return imported in PACKAGES
    if importer == "testing":
        return imported in [*PACKAGES, "api"]
    if importer == "__init__":
        return True  # it re-exports names of several packages; that it does so lazily is tested below
    if importer == "__main__":
        return imported == "cli"
    if imported in PACKAGES:
        return PACKAGES.index(imported) < PACKAGES.index(importer)
    return importer == "cli" and imported in TOP  # the command line may also use the public names


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_imports_point_upwards(file: Path) -> None:
    package = ["regard", *file.relative_to(PACKAGE).parts[:-1]]
    wrong = [
        f"{name_of(file)}:{line}: {package_of(file)} may not import {imported}"
        for line, imported in imported_packages(tree_of(file), package)
        if not may_import(package_of(file), imported)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_a_known_package() -> None:
    assert {package_of(file) for file in SOURCES} <= {*PACKAGES, *TOP}


def test_the_import_walk_sees_hidden_imports() -> None:
    code = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from regard.cli import main\n"
        "def f():\n    from ..serve import app\n    import regard.experiments.bias\n    from regard import api, nn\n"
        "    import importlib; importlib.import_module('regard.tasks.base')\n"
        "    importlib.import_module(f'regard.data.{x}'); importlib.import_module(x)\n"
        "from .masks import keep\nfrom . import masks\n"
    )
    packages = {name for _, name in imported_packages(ast.parse(code), ["regard", "nn"])}
    assert packages == {"cli", "serve", "experiments", "api", "nn", "tasks", "data", "<computed>"}


@pytest.mark.parametrize(
    ("importer", "imported", "allowed"),
    [
        ("nn", "tokenizers", True), ("tokenizers", "nn", False), ("nn", "nn", True), ("nn", "utils", True),
        ("utils", "spec", False), ("spec", "utils", True), ("utils", "nn", False), ("registry", "spec", True),
        ("api", "serve", True), ("serve", "api", False), ("cli", "api", True), ("nn", "__init__", False),
        ("__init__", "api", True), ("__main__", "cli", True), ("__main__", "api", False),
        ("nn", "<computed>", False), ("cli", "<computed>", False), ("spec", "<computed>", True),
        ("tasks", "training", True), ("training", "tasks", False), ("testing", "api", True),
    ],
)  # fmt: skip
def test_the_order_of_packages(importer: str, imported: str, allowed: bool) -> None:
    assert may_import(importer, imported) is allowed


def test_importing_regard_imports_nothing_else() -> None:
    """`import regard` stays fast: what it re-exports is imported inside functions."""
    eager = [
        node
        for node in tree_of(PACKAGE / "__init__.py").body
        if isinstance(node, ast.Import | ast.ImportFrom) and list(imported_packages(ast.Module([node], []), ["regard"]))
    ]
    assert not eager, "src/regard/__init__.py imports a part of regard at module level"
    code = "import regard, sys; print([m for m in sys.modules if m.startswith(('regard.', 'torch', 'numpy'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=600)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_every_public_name_is_there() -> None:
    assert all(getattr(regard, name).__doc__ for name in regard.__all__)


def test_no_package_has_the_name_of_a_public_function() -> None:
    assert regard.__all__, "regard offers no public names"
    assert sorted(set(regard.__all__) & set(PACKAGES)) == CALLABLE


# --- generic code knows no task -----------------------------------------------------------------------------

# The files that work through the registry and the contracts alone. format1.py translates the names of old folders.
GENERIC = [
    file
    for file in SOURCES
    if package_of(file) in ("api", "cli", "checkpoint", "training", "serve") and file.name != "format1.py"
]
PREDICTOR_CLASSES = {
    node.name
    for file in SOURCES
    if package_of(file) == "tasks"
    for node in ast.walk(tree_of(file))
    if isinstance(node, ast.ClassDef)
}


def known_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, name) of every task, head and predictor class that code knows."""
    names = {*TASKS, *HEAD_KINDS} - {"none"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names:
            yield node.lineno, repr(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            used = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(node.args[1])}
            yield from ((node.lineno, f"isinstance of {name}") for name in sorted(used & PREDICTOR_CLASSES))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from ((node.lineno, f"import of {name}") for name in modules if is_task_module(name))


def is_task_module(name: str) -> bool:
    parts = name.split(".")
    return parts[:2] == ["regard", "tasks"] and len(parts) > 2 and parts[2] in (*TASKS, "encoder")


@pytest.mark.parametrize("file", GENERIC, ids=name_of)
def test_generic_code_knows_no_task(file: Path) -> None:
    known = [f"{name_of(file)}:{line}: {what}" for line, what in known_names(tree_of(file))]
    assert not known, "\n".join(known)


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("load(path, task='embed')", 1), ("if head.kind == 'mlm': pass", 1), ("isinstance(p, Translator)", 1),
        ("isinstance(p, (str, base.Predictor))", 1), ("from regard.tasks.fill.spec import SPEC", 1),
        ("import regard.tasks.encoder.config", 1), ("from regard.tasks.base import Predictor", 0),
        ("print('embed a text')", 0), ("isinstance(p, str | Path)", 0), ("spec.name", 0),
    ],
)  # fmt: skip
def test_the_checker_finds_known_names(code: str, number: int) -> None:
    assert len(list(known_names(ast.parse(code)))) == number


# The number of files outside nn/ and models/ whose code runs between the command and the first gradient.
MAX_FILES = 30
TRACED_TRAINING = """
import inspect, json, os, sys
import regard
ROOT = os.path.dirname(regard.__file__) + os.sep
files = set()

def is_importing(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(ROOT):
            return True
        frame = frame.f_back
    return False

def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(ROOT) and code.co_flags & inspect.CO_OPTIMIZED:
        name = code.co_filename[len(ROOT):]
        if name not in files and not is_importing(frame):
            files.add(name)

class FirstGradient(BaseException):
    pass

def stop(*_, **__):
    raise FirstGradient

sys.setprofile(note)
from regard.cli.main import main
import torch
torch.autograd.grad = torch.Tensor.backward = stop
try:
    code = main(sys.argv[1:])
except FirstGradient:
    code = "first gradient"
sys.setprofile(None)
print(json.dumps([code, sorted(files)]))
"""


def test_training_runs_code_of_few_files_before_the_first_gradient(tmp_path: Path) -> None:
    rows = [f"the car {number} is {word}\t{word}" for number in range(20) for word in ("fine", "bad")]
    (tmp_path / "reviews.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
    command = ["train", "classify", str(tmp_path / "reviews.tsv"), "--out", str(tmp_path / "m"), "--steps", "2"]
    done = subprocess.run(
        [sys.executable, "-c", TRACED_TRAINING, *command],
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    code, files = json.loads(done.stdout)
    assert code == "first gradient"
    passed = [file for file in files if Path(file).parts[0] not in ("nn", "models")]
    assert len(passed) <= MAX_FILES, "\n".join(passed)


# --- what every file has, and what no file does -------------------------------------------------------------


@pytest.mark.parametrize("file", PYTHON_FILES, ids=name_of)
def test_every_file_has_a_docstring(file: Path) -> None:
    tree = tree_of(file)
    if file.name == "__init__.py" and file.parent in [PACKAGE / name for name in CALLABLE]:
        assert len(tree.body) <= 4, "the package only becomes callable here"
    elif file.name == "__init__.py" and file.parent not in PUBLIC:
        rest = tree.body[1:] if ast.get_docstring(tree) else tree.body
        assert not rest, "a package's __init__ is empty or a docstring: import from the module that has the thing"
    else:
        assert ast.get_docstring(tree), "the file has no docstring at its top"


def repeated_classes(trees: Iterable[ast.AST]) -> set[str]:
    """The names of public classes that are defined more than once."""
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    counts = Counter(node.name for node in nodes if not node.name.startswith("_"))
    return {name for name, count in counts.items() if count > 1}


def test_the_name_of_a_public_class_stands_for_one_type() -> None:
    assert repeated_classes(map(tree_of, SOURCES)) == set()


def test_the_checker_finds_repeated_classes() -> None:
    first, second = ast.parse("class A: ...\nclass B: ...\nclass _C: ..."), ast.parse("class A: ...\nclass _C: ...")
    assert repeated_classes([first, second]) == {"A"}


@pytest.mark.parametrize("file", SOURCES + sorted(PACKAGE.rglob("*.js")), ids=name_of)
def test_files_are_not_too_long(file: Path) -> None:
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
                yield node.lineno, "prints: only the command line does"
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
        f"{name_of(file)}:{line}: {what}" for line, what in offences(tree_of(file), may_print=package_of(file) == "cli")
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


MAX_PINNED = 40
TESTS = [file for file in PYTHON_FILES if file.is_relative_to(ROOT / "tests")]
ESCAPE = re.compile(r"\\.")  # an escape sequence of a regular expression
WORD = re.compile(r"""(?<![^\s'"(`])[A-Za-z][\w.'/-]+""")


def pinned_sentences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of every string of three or more words that a test expects in a message, a page or other text.

    The string is an argument `match=`, or is compared with `in` or `not in` with anything but a literal collection.
    """
    collections = (ast.Tuple, ast.List, ast.Set, ast.Dict)
    for node in ast.walk(tree):
        strings: list[ast.expr] = []
        if isinstance(node, ast.Call):
            strings = [keyword.value for keyword in node.keywords if keyword.arg == "match"]
        elif isinstance(node, ast.Compare):
            pairs = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
            strings = [
                left
                for left, operator, right in pairs
                if isinstance(operator, ast.In | ast.NotIn) and not isinstance(right, collections) and is_string(left)
            ]
        texts = (literal_text(string) for string in strings)
        yield from ((node.lineno, text) for text in texts if len(WORD.findall(ESCAPE.sub("", text))) >= 3)


def is_string(node: ast.expr) -> bool:
    """Whether an expression is a string literal, an f-string, or a sum that starts or ends with one."""
    if isinstance(node, ast.BinOp):
        return is_string(node.left) or is_string(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def literal_text(node: ast.AST) -> str:
    """The text of all string literals in an expression, without the values of f-strings."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return " "
    return "".join(literal_text(child) for child in ast.iter_child_nodes(node))


def test_few_sentences_are_pinned() -> None:
    """Tests assert types, fields, exit codes, JSON and numbers, so that a message can be reworded."""
    pinned = [f"{name_of(file)}:{line}: {text!r}" for file in TESTS for line, text in pinned_sentences(tree_of(file))]
    assert len(pinned) <= MAX_PINNED, "\n".join(pinned)


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("pytest.raises(E, match='the disk is full')", 1), ("pytest.raises(E, match=re.escape('is it (so)?'))", 1),
        ("assert 'the disk is full' in error", 1), ("assert 'no such file' not in str(e.value), 'why'", 1),
        ("assert f'{path} is not there' in text", 1), ("assert 'the disk ' + how + ' is full' in text", 1),
        ("assert 'one is here' in a and 'two is there' in b", 2), ("assert ('is it full' in err) == (code == 1)", 1),
        ("pytest.raises(E, match='learning_rate')", 0), ("pytest.raises(E, match=path.name)", 0),
        ("assert f'{path}:3: ' in err", 0), ("assert f'model {names[\"a b c\"]}' in text", 0),
        ("assert 'the disk is full' in ('a', 'b')", 0), ("assert 'next token loss' in {'next token loss': 1}", 0),
        ("assert names['a b c'] in text", 0), ("assert text == 'a full disk'", 0), ("assert x in text, 'so it is'", 0),
        (r"pytest.raises(E, match='num_beams \(5\): \[1, 4\]')", 0),
    ],
)  # fmt: skip
def test_the_checker_finds_pinned_sentences(code: str, number: int) -> None:
    assert len(list(pinned_sentences(ast.parse(code)))) == number


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


def test_the_path_pattern_finds_and_ignores_the_right_paths() -> None:
    slash = "/"
    assert MACHINE_PATH.search(f"open('{slash}root{slash}x')")
    assert MACHINE_PATH.search(f"cd {slash}home{slash}user")
    assert not MACHINE_PATH.search(f"https:{slash}{slash}example.org{slash}home{slash}page")
    assert not MACHINE_PATH.search("folder / 'root' / name")


# --- the front page and the coverage table ------------------------------------------------------------------


def test_the_readme_starts_with_the_make_targets() -> None:
    first = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30])
    assert "make demo" in first
    assert "make test" in first


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_of_links_and_pictures_exist(page: Path) -> None:
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


def test_every_row_is_once_in_the_coverage_table() -> None:
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
