"""The public verbs in Python: train, load, look, evaluate, and the object that answers text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.errors import FolderError, UsageError

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SETTINGS: dict[str, Any] = dict(
    size="tiny",
    width=32,
    heads=2,
    head_width=16,
    hidden=64,
    encoder_layers=1,
    decoder_layers=1,
    pieces=300,
    batch_tokens=2048,
    validations=1,
)


@pytest.fixture(scope="module")
def pairs_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "pairs.tsv"
    numbers = random.Random(0).sample(range(1000, 10_000), 200)
    rows = [(" ".join(WORDS[int(digit)] for digit in str(n)), " ".join(reversed(str(n)))) for n in numbers]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("api") / "m"
    regard.train("translate", data=pairs_file, out=out, steps=60, warmup_steps=10, learning_rate=0.01, **SETTINGS)
    return out


@pytest.fixture(scope="module")
def translator(folder: Path) -> Any:
    return regard.load(folder)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    text = tmp_path_factory.mktemp("text") / "numbers.txt"
    text.write_text("one two three four five six seven eight nine. " * 100, encoding="utf-8")
    shape: dict[str, Any] = dict(size="tiny", width=32, heads=2, head_width=16, hidden=64, layers=1, context=32)
    return regard.train("generate", text, steps=2, validations=1, **shape)


def test_what_was_trained_and_what_is_loaded_give_the_same(pairs_file: Path, tmp_path: Path) -> None:
    made = regard.train("translate", str(pairs_file), out=str(tmp_path / "m"), steps=2, **SETTINGS)
    loaded = regard.load(str(tmp_path / "m"))
    assert loaded("one two three four") == made("one two three four")


def test_without_out_the_run_is_temporary(
    pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    regard.train("translate", data=pairs_file, steps=1, **SETTINGS)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", ""), "a library is silent unless asked"
    regard.train("translate", data=pairs_file, steps=1, progress=True, **SETTINGS)
    out, err = capfd.readouterr()
    assert out == "", "progress is no answer"
    assert "100%" in err


def test_one_text_one_result_many_texts_many_results(translator: Any) -> None:
    texts = ["one two three four", "", "nine", "five five five five five five"]
    one = translator(texts[0])
    assert str(one) == one.text
    assert len(one.tokens) == len(one.log_probs)
    many = translator(texts)
    assert [result.text for result in many] == [translator(text).text for text in texts]
    assert translator([]) == []
    best = translator(texts[0], beams=4, n_best=3)
    assert len(best.alternatives) == 2
    assert best.score >= best.alternatives[0].score >= best.alternatives[1].score


def test_a_stream_is_the_greedy_translation(translator: Any) -> None:
    assert "".join(translator.stream("one two three four")) == translator("one two three four", beams=1).text
    assert list(translator.stream(" ")) == []


def test_look_and_trace(translator: Any, tmp_path: Path) -> None:
    view = regard.look(translator, "one two three four")
    page = view.save(tmp_path / "look.html")
    assert "one two three four" in page.read_text(encoding="utf-8")
    assert "<iframe" in view._repr_html_()
    trace = translator.trace("one two", "2 1")
    weights = trace.weights("decoder.0.cross")
    rows, columns = trace.labels("decoder.0.cross")
    source, target = (
        [piece.token for piece in side.pieces(text)]
        for side, text in zip(translator.vocabularies, ("one two", "2 1"), strict=True)
    )
    assert list(rows) == ["<s>", *target]
    assert list(columns) == [*source, "</s>"]
    assert weights.shape == (2, len(rows), len(columns))
    assert weights.sum(-1).allclose(weights.new_ones(2, len(rows)), atol=1e-5)


def test_pages_of_what_is_learned(translator: Any, writer: Any) -> None:
    triangle = regard.look(writer, "one two three", targets=True)
    assert (triangle.viewer, triangle.title) == ("causal", "one two three")
    read = writer.tokenizer.encode("one two three")
    assert triangle.data["loss"] == pytest.approx(writer.score("one two three").loss, rel=1e-5)
    assert len(triangle.data["losses"]) == len(read) - 1
    waist = regard.look(writer, "one two three", ranks=True)
    assert waist.viewer == "ranks"
    assert waist.data["losses"]["series"][0]["points"][-1] == [16, writer.score("one two three").loss]


def test_ranks_of_a_translator_are_measured_by_a_translation(translator: Any) -> None:
    def last(view: Any) -> list[float]:
        return view.data["losses"]["series"][0]["points"][-1]  # type: ignore[no-any-return]

    own = translator("one two three four", beams=1)
    view = regard.look(translator, "one two three four", target=own, ranks=True)
    assert [one["address"] for one in view.data["spectra"]] == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    # The search has computed the same mean, a piece at a time.
    assert last(view) == [16, pytest.approx(-sum(own.log_probs) / len(own.log_probs), abs=1e-4)]
    short = translator("one two three four", beams=1, max_new_tokens=2)
    assert not short.ended, "what was cut off has no end to be surprised by"
    assert translator.loss("one two three four", short) == pytest.approx(-sum(short.log_probs) / 2, abs=1e-4)
    assert last(regard.look(translator, "one", target="9 9 9", ranks=True))[1] == translator.loss("one", "9 9 9")
    assert last(regard.look(translator, "one", ranks=True))[1] == translator.loss("one", translator("one"))


def test_evaluate(translator: Any, pairs_file: Path) -> None:
    bleu, chrf = regard.evaluate(translator, pairs_file, beams=1)
    assert (bleu.name, chrf.name) == ("BLEU", "chrF")
    assert 0 <= bleu.value <= 100
    assert "version:" in bleu.signature


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, p: regard.train("translat", data=p), "Did you mean 'translate'"),
        (lambda t, p: regard.train("translate", data=p, widht=3), "unknown setting 'widht'. Did you mean 'width'"),
        (lambda t, p: regard.train("translate", data=p, size="tinny"), "Did you mean 'tiny'"),
        (lambda t, p: regard.train("translate", data=p, schedule="cosin"), "Did you mean 'cosine'"),
        (lambda t, p: regard.train("translate", data=p, vocab_size=10), "unknown setting 'vocab_size'"),
        (lambda t, p: t("one", beam=3), "Did you mean 'beams'"),
        (lambda t, p: t(["one", 2]), "must be a str, not int"),
        (lambda t, p: regard.evaluate(t, p, beems=3), "Did you mean 'beams'"),
        (lambda t, p: regard.evaluate(t, []), "needs a file"),
    ],
)
def test_wrong_use_is_named(translator: Any, pairs_file: Path, call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(translator, pairs_file)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="not a model folder"):
        regard.load(tmp_path)
    with pytest.raises(FolderError, match="does not exist"):
        regard.load(tmp_path / "absent")


def test_the_steps_of_one_attention_are_a_view_too(translator: Any) -> None:
    view = regard.look(translator, "one two", steps=True)
    assert (view.viewer, view.data["address"]) == ("steps", "encoder.0.self")
    assert regard.look(translator, "one two", steps="decoder.0.self").data["address"] == "decoder.0.self"
    with pytest.raises(UsageError, match=r"unknown attention 'decoder\.9\.self'"):
        regard.look(translator, "one two", steps="decoder.9.self")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, w: regard.look(w, "one two", steps=True), "for translators"),
        (lambda t, w: regard.look(w, "one two", target="2 1"), "for translators"),
        (lambda t, w: regard.look(t, "one two", targets=True), "for language models"),
        (lambda t, w: regard.look(w, "one two", targets=True, ranks=True), "one at a time"),
        (lambda t, w: regard.look(t, "one two", steps="decoder.0.self", ranks=True), "one at a time"),
        (lambda t, w: regard.look(w, "o", targets=True), "fewer than two tokens"),
    ],
    ids=["steps", "target", "targets", "two", "three", "short"],
)
def test_pages_that_a_model_does_not_have(translator: Any, writer: Any, call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(translator, writer)
