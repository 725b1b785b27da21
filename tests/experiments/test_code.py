"""Programs from a language model: what counts as a sample, what parses, and the n-grams beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.experiments.code import PROMPT, CharacterNGrams, first_function, parse_rate, parses, python_files
from regard.utils.errors import UsageError

FUNCTION = "f(x):\n    return (x,\n1)\n"


@pytest.mark.parametrize(
    ("code", "is_program"),
    [
        ("def f(x):\n    return x\n", True),
        ("def f(x):\n", False),
        ("def f(x:\n    return x\n", False),
        ("def f(x):\n  return x\n    return x\n", False),
        ("x = '\\d'\n", True),  # a doubtful escape is a warning at most
        ("\0", False),
        ("(" * 9999, False),
    ],
    ids=["function", "no-body", "bracket", "indent", "escape", "null", "deep"],
)
def test_m167_what_parses(code: str, is_program: bool) -> None:
    assert parses(code) is is_program


@pytest.mark.parametrize(
    ("text", "code", "finished"),
    [
        ("f():\n    pass\n\nclass A:\n    x = 1\n", "def f():\n    pass\n", True),
        ("f(\n):\n    pass\n\nx = 1", "def f(\n):\n    pass\n", True),  # a closing bracket goes on with the function
        ("f():\n    pass\n    retu", "def f():\n    pass\n", False),
        ("f():\n# why\n    pass\n@b\n", "def f():\n# why\n    pass\n", True),
        ("f()", "def\n", False),
    ],
    ids=["next-class", "bracket", "cut", "comment", "no-line"],
)
def test_m167_a_sample_is_one_function(text: str, code: str, finished: bool) -> None:
    assert first_function(text) == (code, finished)


def test_m167_the_share_that_parses() -> None:
    texts = ["f():\n    pass\nx = 1", "f(:\n    pass\nx = 1", "g():\n    return 1\n    ret", "h():\n    pass\ny"]
    found = parse_rate(lambda count: texts[:count], 4, training_text="def h():\n    pass\n")
    assert (found.samples, found.parsed, found.finished, found.copied) == (4, 3, 2, 1)
    assert found.share == 0.75
    with pytest.raises(UsageError, match="at least 1, not 0"):
        parse_rate(lambda count: [], 0)


def test_m167_programs_are_found_and_tests_left_out(tmp_path: Path) -> None:
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
    assert python_files(tmp_path, without=["tables"]) == [tmp_path / "a" / "c.py", tmp_path / "b.py"]
    with pytest.raises(UsageError, match="holds no"):
        python_files(tmp_path / "a" / "tests" / "none")


def test_ngrams_write_what_they_have_seen() -> None:
    text = f"{PROMPT}{FUNCTION}{PROMPT}{FUNCTION}"
    grams = CharacterNGrams(text, 6)
    written = grams.write(3, length=40, seed=1)
    assert all(one.startswith("f(x):") for one in written)
    assert grams.write(3, length=40, seed=1) == written
    windows = {text[i : i + 6] for i in range(len(text) - 5)}
    assert all((PROMPT + one)[i : i + 6] in windows for one in written for i in range(len(one)))


def test_ngrams_that_draw_coldly_take_the_likeliest() -> None:
    grams = CharacterNGrams("f aab" * 9 + "f ac" + PROMPT + "f aab", 3)
    assert {one[:4] for one in grams.write(20, length=4, temperature=0.05)} == {"aabf"}  # PROMPT ends in "f "
    with pytest.raises(UsageError, match="the order must be at least 2"):
        CharacterNGrams("text", 1)
