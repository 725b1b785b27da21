"""The transfer curve: samples by hand, both sides as ordinary trainings, and the gain of pretraining."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.api import run_training
from regard.cli.main import main
from regard.experiments.transfer import (
    TransferConfig,
    label_counts,
    stratified_sample,
    transfer_curve,
    write_seeded_init,
)
from regard.utils.errors import DataError, RegardError, UsageError
from regard.views.studies import Transfer, transfer_view

THINGS = [f"{a} {b}" for a in ("red", "blue", "green", "dark", "old") for b in ("house", "car", "dog", "tree", "cat")]
ROWS = [(f"the {w} is {v}", x) for w in THINGS for v, x in (("fine", "good"), ("awful", "bad"))]
TINY = dict(d_model=32, num_heads=2, head_dim=16, d_ff=48, num_layers=2, vocab_size=200, dropout=0.0)
QUICK = dict(max_seq_len=16, batch_size=16)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and an encoder that was pretrained on similar text."""
    place = tmp_path_factory.mktemp("transfer")
    table = "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS)
    (place / "reviews.tsv").write_text(table, encoding="utf-8")
    files = [place / "reviews.tsv"]
    settings = {**TINY, **QUICK, "epochs": 25, "learning_rate": 0.01}
    run = run_training("classify", files, validation=files, out=place / "bert", size="tiny", **settings)
    assert run.scores[0].value == 100
    return place


@pytest.fixture(scope="module")
def curve(place: Path) -> tuple[Transfer, list[str]]:
    said: list[str] = []
    config = TransferConfig(sizes="8,all,1000", seeds=2, min_steps=4, epochs=1, learning_rate=1e-3, **QUICK)
    files = place / "reviews.tsv"
    return transfer_curve(place / "bert", files, validation=files, config=config, notify=said.append), said


def test_m148_pretrained_weights_score_higher(curve: tuple[Transfer, list[str]]) -> None:
    found, said = curve
    assert (found.sizes, found.seeds, found.held_out, found.metric) == ((8, 50), 2, 50, "accuracy")
    assert found.majority == 50
    for pretrained, scratch in zip(found.pretrained, found.scratch, strict=True):
        assert min(pretrained) > max(scratch)
    assert sum(line.startswith("sizes:") and "1000" in line for line in said) == 1
    assert sum(line.startswith(("8 labels, seed ", "50 labels, seed ")) for line in said) == 4


def test_m148_each_side_is_an_ordinary_training(place: Path, curve: tuple[Transfer, list[str]], tmp_path: Path) -> None:
    """The run with all labels and the second seed, trained again from files."""
    found, _ = curve
    lines = [
        json.dumps({"text": text, "label": label})
        for text, label in stratified_sample(ROWS, [label for _, label in ROWS], 50, 1)
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    write_seeded_init(place / "bert", tmp_path / "fresh", seed=1)
    settings = {**QUICK, "steps": 4, "num_evals": 1, "seed": 1}
    for begun, rate, scores in (
        (place / "bert", 1e-3, found.pretrained),
        (tmp_path / "fresh", 5e-4, found.scratch),
    ):
        out = tmp_path / f"run-{rate}"
        run = run_training(
            "classify",
            [tmp_path / "train.jsonl"],
            validation=[place / "reviews.tsv"],
            out=out,
            from_=begun,
            **settings,
            learning_rate=rate,
        )
        assert run.scores[0].value == scores[1][1]


def test_a_fresh_encoder_differs_in_its_weights_only(place: Path, tmp_path: Path) -> None:
    for seed, name in ((0, "a"), (0, "b"), (1, "c")):
        write_seeded_init(place / "bert", tmp_path / name, seed=seed)
    known = regard.load(place / "bert", task="embed")
    a, b, c = (regard.load(tmp_path / name) for name in "abc")
    assert a.tokenizer.to_json() == known.tokenizer.to_json()  # type: ignore[union-attr]
    assert a.model.config == known.bert.config
    weights = [model.model.embedding.weight for model in (a, b, c)]  # type: ignore[union-attr]
    assert (weights[0] == weights[1]).all()
    assert not (weights[0] == weights[2]).any()
    assert not (weights[0] == known.bert.embedding.weight).any()


@pytest.mark.parametrize(
    ("counts", "size", "expected"),
    [
        ({"a": 50, "b": 50}, 10, {"a": 5, "b": 5}),
        ({"a": 90, "b": 10}, 10, {"a": 9, "b": 1}),
        ({"a": 990, "b": 10}, 10, {"a": 9, "b": 1}),
        ({"a": 6, "b": 3, "c": 1}, 10, {"a": 6, "b": 3, "c": 1}),
        ({"a": 100, "b": 1, "c": 1}, 3, {"a": 1, "b": 1, "c": 1}),
    ],
)
def test_label_counts(counts: dict[str, int], size: int, expected: dict[str, int]) -> None:
    assert label_counts([label for label, count in counts.items() for _ in range(count)], size) == expected


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 5))
def test_samples_are_stratified_and_grow(counts: list[int], seed: int) -> None:
    examples = [(f"{label}-{n}", str(label)) for label, count in enumerate(counts) for n in range(count)]
    before: set[tuple[str, str]] = set()
    for size in range(len(counts), len(examples) + 1):
        sample = stratified_sample(examples, [label for _, label in examples], size, seed)
        assert len(set(sample)) == size
        assert before <= set(sample)
        for label, count in enumerate(counts):
            share = Counter(label for _, label in sample)[str(label)]
            assert 1 <= share <= count
        before = set(sample)
    assert before == set(examples)


def test_table_numbers_and_pictures() -> None:
    transfer = Transfer(
        metric="accuracy", sizes=(100, 1000), seeds=2, pretrained=((70, 72), (80, 80)), scratch=((50, 54), (60, 63)),
        majority=50.5, held_out=872,
    )  # fmt: skip
    title, head, first, second, last = transfer.lines()
    assert title == "accuracy on 872 held-out examples, mean ± standard deviation of 2 seeds"
    assert head.split() == ["labels", "from", "scratch", "pretrained", "gain"]
    assert first.split() == ["100", "52.00", "±", "2.83", "71.00", "±", "1.41", "+19.00"]
    assert second.split()[-1] == "+18.50"
    assert last == "majority baseline: 50.50"
    row = transfer.numbers()["sizes"][1]
    assert row["from_scratch"] == {"mean": 61.5, "scores": [60, 63]} and row["labels"] == 1000
    picture = transfer_view(transfer, title="T").svg()
    assert ">100<" in picture and ">1000<" in picture
    alone = Transfer(metric="F1", sizes=(7,), seeds=1, pretrained=((70,),), scratch=((50,),), majority=None, held_out=3)
    assert alone.lines()[0] == "F1 on 3 held-out examples, 1 seed"
    assert transfer_view(alone, title="T").svg()
    for sizes, argument in (((), "sizes"), ((7,), "pretrained")):
        with pytest.raises(UsageError) as error:
            Transfer(metric="F1", sizes=sizes, seeds=2, pretrained=((1,),), scratch=((1,),), majority=None, held_out=3)
        assert error.value.argument == argument


@pytest.mark.parametrize(
    ("argument", "value"),
    [("sizes", "100,many"), ("sizes", "1,all"), ("sizes", ""), ("seeds", 0), ("epochs", 0), ("metric", "BLEU")],
)
def test_bad_settings(argument: str, value: Any) -> None:
    with pytest.raises(UsageError) as error:
        TransferConfig(**{argument: value})
    assert error.value.argument == argument


def test_data_that_cannot_be_compared(place: Path, tmp_path: Path) -> None:
    def refused(*rows: str, **options: Any) -> RegardError:
        path = tmp_path / "t.tsv"
        path.write_text("text\tlabel\n" + "\n".join(rows) + "\n", encoding="utf-8")
        with pytest.raises(RegardError) as error:
            transfer_curve(place / "bert", path, **options)
        return error.value

    pairs = [f"text {n}\t{'ab'[n % 2]}" for n in range(20)]
    assert isinstance(refused("x\ta", "y\ta"), DataError)  # one label only
    assert refused(*pairs, config=TransferConfig(sizes="100")).argument == "sizes"
    error = refused(*pairs, "x\tc", "y\tc", "z\tc", config=TransferConfig(sizes="2"))
    assert (error.argument, error.value) == ("sizes", 2)  # fewer examples than labels
    unseen = tmp_path / "unseen.tsv"
    unseen.write_text("text\tlabel\nx\tz\n", encoding="utf-8")
    assert refused(*pairs, validation=unseen).line == 2
    several = tmp_path / "several.jsonl"
    for labels in ([], ["a", "b"]):
        records = [{"text": "x", "label": "a"}, {"text": "y", "label": labels}, {"text": "z", "label": "b"}]
        several.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        assert refused(*pairs, validation=several).line == 2
        with pytest.raises(DataError) as data_error:
            transfer_curve(place / "bert", several)
        assert data_error.value.line == 2
    with pytest.raises(UsageError) as usage_error:
        transfer_curve(place / "bert", validation=unseen)
    assert usage_error.value.argument == "validation"
    with pytest.raises(UsageError) as usage_error:
        transfer_curve(place / "bert", skip_bad_rows=True)
    assert usage_error.value.argument == "skip_bad_rows"
    unseen.write_text("text\tlabel\n\tz\n", encoding="utf-8")
    with pytest.raises(DataError):
        transfer_curve(place / "bert", unseen)


def test_m148_the_command(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "curve.html"
    quick = ["--sizes", "8,20", "--seeds", "1", "--min-steps", "1", "--epochs", "0.1", "--max-seq-len", "16"]
    command = ["transfer", str(place / "bert"), str(place / "reviews.tsv"), *quick]
    assert main([*command, "--out", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "accuracy on 5 held-out examples, 1 seed"
    assert said.out.splitlines()[-1] == str(page)
    assert "20 labels, seed 0" in said.err
    assert main([*command, "--out", str(page)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main([*command[:3], command[2], *quick]) == 2
    assert capsys.readouterr().out == ""
