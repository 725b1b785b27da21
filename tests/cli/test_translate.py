"""`regard translate`: an argument, a filter, files, n-best lists, streams and JSON."""

from __future__ import annotations

import csv
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
from regard.data import inputs
from regard.tasks.translate.predictor import Translation, Translator

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
    done = regard("translate", model, "seven one four two")
    assert done == (0, translator("seven one four two").text + "\n", "")


def test_a_filter_answers_each_line_with_one_line(regard: Run, model: Path, translator: Translator) -> None:
    done = regard("translate", model, stdin=as_input(LINES))
    assert done.code == 0
    assert done.out.count("\n") == len(LINES)
    assert done.out.split("\n")[:-1] == [translator(line).text for line in LINES]
    assert done.out.split("\n")[1] == done.out.split("\n")[3] == "", "an empty line stays empty"


def test_files_and_tables_are_translated(regard: Run, model: Path, translator: Translator, tmp_path: Path) -> None:
    lines = [LINES[0], LINES[2]]
    expected = [translator(line).text for line in lines]
    text = tmp_path / "lines.txt"
    text.write_bytes(as_input(lines))
    assert regard("translate", model, text).out.splitlines() == expected
    table = tmp_path / "pairs.tsv"
    table.write_text("target\tsource\n" + "".join(f"x\t{line}\n" for line in lines), encoding="utf-8")
    assert regard("translate", model, table).out.splitlines() == expected
    assert regard("translate", model, table, "--columns", "source", "target").out.splitlines() == expected
    backwards = regard("translate", model, table, "--columns", "target", "source", "--reverse")
    assert backwards.out.splitlines() == expected
    added = tmp_path / "added.tsv"
    assert regard("translate", model, table, "--out", added).code == 0
    rows = [line.split("\t") for line in added.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["target", "source", "predicted_text", "score"]
    assert [row[:3] for row in rows[1:]] == [["x", line, found] for line, found in zip(lines, expected, strict=True)]
    out = tmp_path / "out.csv"
    assert regard("translate", model, text, "--out", out, "--n-best", 2).code == 0
    with out.open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["text"] for row in written[::2]] == expected
    assert [row["source"] for row in written] == [lines[0]] * 2 + [lines[1]] * 2


def test_white_space_around_a_sentence_does_not_matter(translator: Translator) -> None:
    assert translator("  nine two\t").text == translator("nine two").text


def test_a_filter_accepts_windows_line_ends_and_a_missing_last_one(regard: Run, model: Path) -> None:
    plain = regard("translate", model, "-", stdin=b"one two three four\nfive\n").out
    assert regard("translate", model, stdin=b"one two three four\r\nfive").out == plain
    assert regard("translate", model, stdin=b"").out == ""


def test_the_text_none_is_translated(regard: Run, model: Path) -> None:
    done = regard("translate", model, "None", stdin=b"one\ntwo\n")
    assert done.out.count("\n") == 1, "the text itself is translated, not stdin"


def test_beams(regard: Run, model: Path, translator: Translator) -> None:
    for num_beams in (1, 4):
        done = regard("translate", model, "--num-beams", num_beams, stdin=as_input(LINES))
        assert done.out.split("\n")[:-1] == [translator(line, num_beams=num_beams).text for line in LINES]


def test_n_best_lists_hold_different_translations_with_falling_scores(regard: Run, model: Path) -> None:
    for count in (4, 7):  # more than the beams of the folder widen the beam
        done = regard("translate", model, "seven one four two", "--n-best", count)
        found = [line.split("\t") for line in done.out.splitlines()]
        assert len({text for _, text in found}) == len(found) == count
        scores = [float(score) for score, _ in found]
        assert scores == sorted(scores, reverse=True)


def test_json_has_scores_and_tokens(regard: Run, model: Path, translator: Translator) -> None:
    done = regard("translate", model, "--json", stdin=as_input(LINES))
    results = [json.loads(line) for line in done.out.splitlines()]
    assert [result["source"] for result in results] == LINES
    best = translator(LINES[0])
    assert results[0]["text"] == best.text
    assert results[0]["score"] == pytest.approx(best.score, abs=1e-6)
    assert results[0]["tokens"] == list(best.tokens)
    assert len(results[0]["log_probs"]) == len(results[0]["tokens"])
    assert sum(results[0]["log_probs"]) / len(results[0]["tokens"]) == pytest.approx(results[0]["score"], abs=1e-6)
    alternatives = json.loads(regard("translate", model, LINES[0], "--json", "--n-best", 3).out)["alternatives"]
    assert len(alternatives) == 2


def test_a_stream_is_the_greedy_translation(regard: Run, model: Path) -> None:
    greedy = regard("translate", model, "--num-beams", 1, stdin=as_input(LINES))
    stream = regard("translate", model, "--stream", stdin=as_input(LINES))
    assert (stream.code, stream.out) == (greedy.code, greedy.out)
    assert regard("translate", model, LINES[0], "--stream", "--max-new-tokens", 2).code == 0


def test_a_line_break_in_a_translation_does_not_break_the_filter(
    regard: Run, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Translation("one", "a\nb\r\nc", -1.0)
    monkeypatch.setattr(Translator, "predict", lambda self, texts, config=None, **others: [broken for _ in texts])
    assert regard("translate", model, stdin=b"one\ntwo\n").out == "a b  c\n" * 2
    monkeypatch.setattr("regard.tasks.translate.predictor.text_chunks", lambda *arguments: iter(["a\n", "b"]))
    assert regard("translate", model, "one", "--stream").out == "a b\n"


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (["--num-beams", 0], "num_beams"),
        (["--n-best", 0], "n_best"),
        (["--n-best", 5, "--num-beams", 2], "n_best"),
        (["--length-penalty", 99], "length_penalty"),
        (["--max-new-tokens", 0], "max_new_tokens"),
        (["--stream", "--json"], "--json"),
        (["--stream", "--n-best", 2], "--n-best"),
        (["--stream", "--num-beams", 5], "--num-beams"),
        (["--stream", "--length-penalty", 2], "--length-penalty"),
        (["--columns", "a", "b"], "--columns"),
    ],
)
def test_wrong_options(regard: Run, model: Path, arguments: list[object], argument: str) -> None:
    done = regard("translate", model, "one", *arguments)
    assert done.code == 2
    assert argument in done.err
    assert done.out == ""


def test_a_truncated_translation_is_reported(regard: Run, model: Path) -> None:
    text = "seven one four two"
    done = regard("translate", model, text, "--num-beams", 1, "--max-new-tokens", 2, "--json")
    assert done.code == 0
    assert json.loads(done.out)["ended"] is False
    assert repr(text) in done.err
    assert regard("translate", model, text).err == ""


def test_a_byte_order_mark_is_not_a_word(regard: Run, model: Path) -> None:
    assert regard("translate", model, stdin=b"\xef\xbb\xbfone two\n") == regard("translate", model, stdin=b"one two\n")


def test_a_closed_stdin_is_empty(model: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m regard translate {shlex.quote(str(model))} <&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_lines_that_cannot_be_read_are_refused(regard: Run, model: Path) -> None:
    done = regard("translate", model, stdin=b"one\ntw\xf6\n")
    assert done.code == 1
    assert "<stdin>:2" in done.err
    for long in (
        regard("translate", model, stdin=b"one\ntwo\n" + 100_000 * b"x"),
        regard("translate", model, 9**5 * "x"),
    ):
        assert long.code == 1


def test_a_filter_answers_before_it_reads_the_next_line(model: Path) -> None:
    """A program can send a line through a pipe and wait for its translation."""
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


def test_lines_are_answered_in_order_for_any_chunk_size(
    regard: Run, model: Path, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "READ_SIZE", 7)
    monkeypatch.setattr(inputs, "GROUP_LINES", 2)
    monkeypatch.setattr(inputs, "MAX_LINE", 40)
    lines = [f"{word} one" for word in ("two", "three", "four", "five", "six")]
    done = regard("translate", model, stdin=as_input(lines))
    assert done.out.split("\n")[:-1] == [translator(line).text for line in lines]


def test_an_endless_line_is_refused_before_its_end(regard: Run, model: Path) -> None:
    done = regard("translate", model, stdin=b"ok\n" + b"x" * (inputs.MAX_LINE + inputs.READ_SIZE))
    assert done.code == 1
    assert "<stdin>:2" in done.err
