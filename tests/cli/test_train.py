"""`regard train translate`: what it writes and prints, resuming and replacing, and what it refuses."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.registry import tasks
from regard.training.callbacks import read_metrics

Run = Callable[..., Any]


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_training_leaves_a_model_its_card_its_curves_and_a_report(trained: Any) -> None:
    names = {path.name for path in trained.folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "metrics.jsonl", "report.html"} <= names
    card = (trained.folder / "README.md").read_text(encoding="utf-8")
    assert "pairs.tsv" in card
    assert "BLEU" in card
    config = json.loads((trained.folder / "config.json").read_text(encoding="utf-8"))
    assert config["model"]["d_model"] == 32
    assert config["training"]["steps"] == 150
    assert read_metrics(trained.folder)[-1]["step"] == 150


def test_results_are_on_stdout_and_progress_on_stderr(trained: Any) -> None:
    _, out, err = trained.result
    assert out.count("validation: BLEU ") == 1
    assert "tok:13a" in out
    assert f"model: {trained.folder}" in out
    assert f"report: {trained.folder / 'report.html'}" in out
    for item in ("device: cpu", "threads: ", "190", "100%"):  # 190 of 200 pairs are for training
        assert item in err, item


def test_steps_and_json(regard: Run, pairs_file: Path, small: list[str], tmp_path: Path) -> None:
    done = regard("train", "translate", pairs_file, "--out", tmp_path / "m", *small, "--steps", 3, "--json")
    result = json.loads(done.out)
    assert result["step"] == 3
    assert result["folder"] == str(tmp_path / "m")
    assert [score["name"] for score in result["scores"]] == ["BLEU", "chrF"]


def test_the_seed_determines_the_weights(regard: Run, pairs_file: Path, small: list[str], tmp_path: Path) -> None:
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        done = regard("train", "translate", pairs_file, "--out", tmp_path / name, *small, "--steps", 3, "--seed", seed)
        assert done.code == 0, done.err
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_line_aligned_files_backwards_with_two_vocabularies(
    regard: Run, rows: list[tuple[str, str]], small: list[str], tmp_path: Path
) -> None:
    words, digits = tmp_path / "train.en", tmp_path / "train.digits.gz"
    words.write_text("".join(f"{source}\n" for source, _ in rows), encoding="utf-8")
    digits.write_bytes(gzip.compress("".join(f"{target}\n" for _, target in rows).encode()))
    validation = tmp_path / "held.jsonl"
    validation.write_text("".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in rows[:7]), encoding="utf-8")
    done = regard(
        *("train", "translate", words, digits, "--validation", validation, "--out", tmp_path / "m", "--reverse"),
        *(*small, "--steps", 2, "--tokenizer", "char", "--separate-vocabularies"),
    )
    assert done.code == 0, done.err
    assert "200" in done.err and "7" in done.err
    vocabularies = [tmp_path / "m" / f"tokenizer.{side}.json" for side in ("source", "target")]
    assert "w" not in json.loads(vocabularies[0].read_text(encoding="utf-8"))["model"]["vocab"]
    assert "w" in json.loads(vocabularies[1].read_text(encoding="utf-8"))["model"]["vocab"]
    assert regard("translate", tmp_path / "m", "1 2").code == 0


def test_an_existing_run_is_refused_resumed_or_replaced(
    regard: Run, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "m"
    training = ["train", "translate", pairs_file, "--out", run, *small]
    assert regard(*training, "--steps", 2).code == 0
    (run / "notes.txt").write_text("mine", encoding="utf-8")
    before = (run / "model.safetensors").read_bytes()
    refused = regard(*training, "--steps", 2)
    assert (refused.code, refused.out) == (2, "")
    assert (refused.error.argument, refused.error.path) == ("out", run)
    assert (run / "model.safetensors").read_bytes() == before
    further = regard(*training, "--steps", 4, "--resume", "--json")
    assert json.loads(further.out)["step"] == 4
    assert [row["step"] for row in read_metrics(run)] == [1, 2, 3, 4]
    model = (run / "model.safetensors").read_bytes()
    assert regard(*training, "--steps", 3, "--force", "--vocab-size", 20).code == 2
    assert regard(*training, "--steps", 3, "--force", "--d-model", 0).code == 2
    assert (run / "model.safetensors").read_bytes() == model, "a refused request replaces nothing"
    assert regard(*training, "--steps", 3, "--force").code == 0
    assert [row["step"] for row in read_metrics(run)] == [1, 2, 3]
    assert (run / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("flags", "setting", "values"),
    [
        (["--dropout", 0.3], "dropout", ("0.0", "0.3")),
        (["--learning-rate", 0.5], "learning_rate", ("0.03", "0.5")),
        (["--vocab-size", 301], "vocab_size", ("300", "301")),
        (["--reverse"], "reverse", ("False", "True")),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_resume_needs_the_same_settings_and_data(
    regard: Run,
    pairs_file: Path,
    small: list[str],
    tmp_path: Path,
    flags: list[object],
    setting: str,
    values: tuple[str, str],
) -> None:
    run = tmp_path / "m"
    assert regard("train", "translate", pairs_file, "--out", run, *small, "--steps", 1).code == 0
    before = contents(run)
    done = regard("train", "translate", pairs_file, "--out", run, *small, "--steps", 2, "--resume", *flags)
    assert done.code == 2
    assert all(word in done.err for word in (setting, *values)), done.err
    assert contents(run) == before


def test_resume_never_replaces_a_model_that_has_no_checkpoint(
    regard: Run, pairs_file: Path, small: list[str], tmp_path: Path
) -> None:
    run = tmp_path / "m"
    training = ["train", "translate", pairs_file, "--out", run, *small, "--steps", 2]
    assert regard(*training).code == 0
    shutil.rmtree(run / "checkpoint-2")
    before = contents(run)
    assert regard(*training, "--resume").code == 2
    assert contents(run) == before


def test_a_resumed_run_keeps_its_budget(regard: Run, pairs_file: Path, small: list[str], tmp_path: Path) -> None:
    run = tmp_path / "m"
    training = ["train", "translate", pairs_file, "--out", run, *small]
    assert regard(*training, "--steps", 3).code == 0
    done = regard(*training, "--resume", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["step"] == 3


@pytest.mark.parametrize("flag", [["--columns", "en", "fr"], ["--skip-bad-rows"]])
def test_reading_options_need_files(regard: Run, flag: list[str], tmp_path: Path) -> None:
    done = regard("train", "translate", "--out", tmp_path / "m", *flag)
    assert (done.code, flag[0] in done.err) == (2, True)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are arbitrary bytes on Linux only")
def test_names_that_are_not_utf8(regard: Run, pairs_file: Path, small: list[str], tmp_path: Path) -> None:
    data, run = tmp_path / "donn\udce9es.tsv", tmp_path / "\udce9"
    data.write_bytes(pairs_file.read_bytes())
    done = regard("train", "translate", data, "--out", run, *small, "--steps", 1)
    assert done.code == 0, done.err
    assert "donn?es.tsv" in (run / "README.md").read_text(encoding="utf-8")


def test_out_is_required(regard: Run, pairs_file: Path) -> None:
    done = regard("train", "translate", pairs_file)
    assert (done.code, "--out" in done.err) == (2, True)


def test_train_without_a_task_lists_the_trainable_ones(regard: Run) -> None:
    done = regard("train")
    assert done.code == 0
    listed = {line.split()[0] for line in done.out.splitlines() if line.startswith("  ")}
    assert listed == {name for name in tasks if tasks[name].trainable}
    refused = regard("train", "embed", "--out", "x")
    assert (refused.code, refused.out) == (2, "")


def test_an_unknown_architecture_gets_a_suggestion(regard: Run, pairs_file: Path, tmp_path: Path) -> None:
    done = regard("train", "translate", pairs_file, "--out", tmp_path / "m", "--model", "gpt")
    assert (done.code, "transformer" in done.err) == (2, True)
    done = regard("train", "translate", pairs_file, "--out", tmp_path / "m", "--model", "transfromer")
    assert (done.code, "'transformer'" in done.err) == (2, True)
