"""`regard translate`: an argument, a filter, n-best lists, streams and JSON."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard as library
from regard.cli import translate
from regard.tasks.translate import Translation, Translator

Run = Callable[..., Any]
LINES = ["seven one four two", "", "nine", "   ", "three three zero five"]


@pytest.fixture(scope="module")
def translator(model: Path) -> Any:
    return library.load(model)


def as_input(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_the_model_has_learned_something_worth_comparing(translator: Translator, rows: list[tuple[str, str]]) -> None:
    outputs = [translation.text for translation in translator([source for source, _ in rows[:50]])]
    digits = sum(sorted(out.split()) == sorted(want.split()) for out, (_, want) in zip(outputs, rows, strict=False))
    assert digits >= 25


def test_a_text_as_argument(regard: Run, model: Path, translator: Translator) -> None:
    said = regard("translate", model, "seven one four two")
    assert said == (0, translator("seven one four two").text + "\n", "")


def test_a_filter_answers_each_line_with_one_line(regard: Run, model: Path, translator: Translator) -> None:
    said = regard("translate", model, stdin=as_input(LINES))
    assert said.code == 0
    assert said.out.count("\n") == len(LINES)
    assert said.out.split("\n")[:-1] == [translator(line).text for line in LINES]
    assert said.out.split("\n")[1] == said.out.split("\n")[3] == "", "what is empty stays empty"


def test_white_space_around_a_sentence_does_not_matter(translator: Translator) -> None:
    assert translator("  nine two\t") == translator("nine two")


def test_a_filter_needs_no_last_line_end_and_takes_windows_ones(regard: Run, model: Path) -> None:
    plain = regard("translate", model, "-", stdin=b"one two three four\nfive\n").out
    assert regard("translate", model, stdin=b"one two three four\r\nfive").out == plain
    assert regard("translate", model, stdin=b"").out == ""


def test_a_word_that_other_programs_read_as_nothing(regard: Run, model: Path) -> None:
    said = regard("translate", model, "None", stdin=b"one\ntwo\n")
    assert said.out.count("\n") == 1, "the text itself was to be translated, not stdin"


def test_beams(regard: Run, model: Path, translator: Translator) -> None:
    for beams in (1, 4):
        said = regard("translate", model, "--beams", beams, stdin=as_input(LINES))
        assert said.out.split("\n")[:-1] == [translator(line, beams=beams).text for line in LINES]


def test_n_best_lists_hold_different_translations_with_falling_scores(regard: Run, model: Path) -> None:
    said = regard("translate", model, "seven one four two", "--n-best", 4)
    found = [line.split("\t") for line in said.out.splitlines()]
    assert len(found) == 4
    assert len({text for _, text in found}) == 4
    scores = [float(score) for score, _ in found]
    assert scores == sorted(scores, reverse=True)


def test_json_has_scores_and_pieces(regard: Run, model: Path, translator: Translator) -> None:
    said = regard("translate", model, "--json", stdin=as_input(LINES))
    answers = [json.loads(line) for line in said.out.splitlines()]
    assert [answer["source"] for answer in answers] == LINES
    best = translator(LINES[0])
    assert answers[0]["text"] == best.text
    assert answers[0]["score"] == pytest.approx(best.score, abs=1e-6)
    assert answers[0]["tokens"] == list(best.tokens)
    assert len(answers[0]["log_probs"]) == len(answers[0]["tokens"])
    assert sum(answers[0]["log_probs"]) / len(answers[0]["tokens"]) == pytest.approx(answers[0]["score"], abs=1e-6)
    alternatives = json.loads(regard("translate", model, LINES[0], "--json", "--n-best", 3).out)["alternatives"]
    assert len(alternatives) == 2


def test_a_stream_is_the_greedy_translation(regard: Run, model: Path) -> None:
    greedy = regard("translate", model, "--beams", 1, stdin=as_input(LINES))
    stream = regard("translate", model, "--stream", stdin=as_input(LINES))
    assert stream == greedy


def test_a_line_break_that_a_model_writes_does_not_break_the_filter(
    regard: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Translation("a\nb\r\nc", -1.0, (), ())
    monkeypatch.setattr(Translator, "__call__", lambda self, texts, **search: [broken for _ in texts])
    monkeypatch.setattr(Translator, "stream", lambda self, text, **limit: iter(["a\n", "b"]))
    assert regard("translate", model, stdin=b"one\ntwo\n").out == "a b  c\n" * 2
    assert regard("translate", model, "one", "--stream").out == "a b\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beams", 0], "beams must be at least 1"),
        (["--n-best", 0], "n_best must be at least 1"),
        (["--n-best", 5, "--beams", 2], "set beams to 5"),
        (["--length-penalty", 99], "length_penalty must be between"),
        (["--stream", "--json"], "leave out --json"),
        (["--stream", "--n-best", 2], "leave out --json, --n-best"),
        (["--stream", "--beams", 5], "--beams and --length-penalty"),
        (["--stream", "--length-penalty", 2], "--beams and --length-penalty"),
        (["--max-new-tokens", 0], "max_new_tokens must be at least 1"),
    ],
)
def test_wrong_use(regard: Run, model: Path, arguments: list[object], message: str) -> None:
    said = regard("translate", model, "one", *arguments)
    assert said.code == 2
    assert message in said.err
    assert said.out == ""


def test_a_translation_that_is_cut_off_says_so(regard: Run, model: Path) -> None:
    said = regard("translate", model, "seven one four two", "--beams", 1, "--max-new-tokens", 2, "--json")
    assert said.code == 0
    assert json.loads(said.out)["ended"] is False
    assert "cut off after 2 pieces: 'seven one four two'" in said.err
    assert regard("translate", model, "seven one four two").err == ""


def test_a_byte_order_mark_is_not_a_word(regard: Run, model: Path) -> None:
    assert regard("translate", model, stdin=b"\xef\xbb\xbfone two\n") == regard("translate", model, stdin=b"one two\n")


def test_a_closed_stdin_is_empty(model: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m regard translate {shlex.quote(str(model))} <&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_lines_that_cannot_be_read_are_named(regard: Run, model: Path) -> None:
    said = regard("translate", model, stdin=b"one\n\xff\xfe\n")
    assert said.code == 1
    assert "<stdin>:2: not UTF-8" in said.err
    long = regard("translate", model, stdin=b"one\ntwo\n" + 100_000 * b"x")
    assert long.code == 1
    assert "<stdin>:3: 100,000 characters; the limit is 10,000" in long.err
    assert regard("translate", model, 100_000 * "x").code == 1


def test_a_filter_answers_before_the_next_line_comes(model: Path) -> None:
    """Who sends a line and waits for its answer, as a pipe from a program does, gets it."""
    command = [sys.executable, "-m", "regard", "translate", str(model)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("seven one four two", "nine"):
            process.stdin.write(line + "\n")
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")
        process.stdin.close()
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_many_lines_come_back_in_order_whatever_the_pipe_cuts(
    regard: Run, model: Path, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate, "READ", 7)
    monkeypatch.setattr(translate, "LINES", 2)
    monkeypatch.setattr(translate, "LONGEST", 40)
    lines = [f"{word} one" for word in ("two", "three", "four", "five", "six")]
    said = regard("translate", model, stdin=as_input(lines))
    assert said.out.split("\n")[:-1] == [translator(line).text for line in lines]


def test_bytes_without_end_are_refused_while_they_come(regard: Run, model: Path) -> None:
    said = regard("translate", model, stdin=b"ok\n" + b"x" * (translate.LONGEST + translate.READ))
    assert said.code == 1
    assert "<stdin>:2: " in said.err
    assert "Split it into sentences" in said.err
