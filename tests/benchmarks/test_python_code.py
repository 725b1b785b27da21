"""Programs from a language model: what counts as a sample, what parses, and the n-gram baseline."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from regard.utils.errors import UsageError


def load_script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


code = load_script(Path(__file__).parents[2] / "benchmarks" / "python_code.py")
FUNCTION = "f(x):\n    return (x,\n1)\n"


@pytest.mark.parametrize(
    ("source", "is_program"),
    [
        ("def f(x):\n    return x\n", True),
        ("def f(x):\n", False),
        ("def f(x:\n    return x\n", False),
        ("def f(x):\n  return x\n    return x\n", False),
        ("x = '\\d'\n", True),  # an invalid escape is only a warning
        ("\0", False),
        ("(" * 9999, False),
    ],
    ids=["function", "no-body", "bracket", "indent", "escape", "null", "deep"],
)
def test_m167_what_parses(source: str, is_program: bool) -> None:
    assert code.parses(source) is is_program


@pytest.mark.parametrize(
    ("text", "function", "finished"),
    [
        ("f():\n    pass\n\nclass A:\n    x = 1\n", "def f():\n    pass\n", True),
        ("f(\n):\n    pass\n\nx = 1", "def f(\n):\n    pass\n", True),  # a closing bracket continues the function
        ("f():\n    pass\n    retu", "def f():\n    pass\n", False),
        ("f():\n# why\n    pass\n@b\n", "def f():\n# why\n    pass\n", True),
        ("f()", "def\n", False),
    ],
    ids=["next-class", "bracket", "cut", "comment", "no-line"],
)
def test_m167_a_sample_is_one_function(text: str, function: str, finished: bool) -> None:
    assert code.first_function(text) == (function, finished)


def test_m167_the_share_that_parses() -> None:
    texts = ["f():\n    pass\nx = 1", "f(:\n    pass\nx = 1", "g():\n    return 1\n    ret", "h():\n    pass\ny"]
    rate = code.parse_rate(lambda count: texts[:count], 4, training_text="def h():\n    pass\n")
    assert (rate.samples, rate.parsed, rate.finished, rate.copied) == (4, 3, 2, 1)
    assert rate.share == 0.75
    with pytest.raises(UsageError) as error:
        code.parse_rate(lambda count: [], 0)
    assert (error.value.argument, error.value.value) == ("count", 0)


def test_m167_files_that_parse_are_found_without_tests(tmp_path: Path) -> None:
    for name, text in (
        ("b.py", "x = 1\n"),
        ("a/c.py", "y = 2\n"),
        ("a/tests/t.py", "z = 3\n"),
        ("tables/t.py", "t = 4\n"),
        ("wrong.py", "def\n"),
        ("empty.py", ""),
        ("note.txt", "text"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    assert code.python_files(tmp_path, exclude=["tables"]) == [tmp_path / "a" / "c.py", tmp_path / "b.py"]
    missing = tmp_path / "a" / "tests" / "none"
    with pytest.raises(UsageError) as error:
        code.python_files(missing)
    assert error.value.path == missing


def test_ngrams_generate_only_known_ngrams() -> None:
    text = f"{code.PROMPT}{FUNCTION}{code.PROMPT}{FUNCTION}"
    grams = code.CharacterNGrams(text, 6)
    samples = grams.generate(3, length=40, seed=1)
    assert all(sample.startswith("f(x):") for sample in samples)
    assert grams.generate(3, length=40, seed=1) == samples
    windows = {text[i : i + 6] for i in range(len(text) - 5)}
    assert all((code.PROMPT + sample)[i : i + 6] in windows for sample in samples for i in range(len(sample)))


def test_a_low_temperature_draws_the_most_frequent_character() -> None:
    grams = code.CharacterNGrams("f aab" * 9 + "f ac" + code.PROMPT + "f aab", 3)
    assert {sample[:4] for sample in grams.generate(20, length=4, temperature=0.05)} == {"aabf"}  # PROMPT ends in "f "
    with pytest.raises(UsageError) as error:
        code.CharacterNGrams("text", 1)
    assert error.value.argument == "order"
