"""The public verbs in Python: train, load, look, evaluate, and the object that answers text."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.cli.main import main
from regard.registry import tasks
from regard.tasks.score.predictor import TextScorer
from regard.utils.errors import FolderError, MissingFolderError, UsageError

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SETTINGS: dict[str, Any] = dict(
    size="tiny",
    d_model=32,
    num_heads=2,
    head_dim=16,
    d_ff=64,
    num_encoder_layers=1,
    num_decoder_layers=1,
    vocab_size=300,
    batch_tokens=2048,
    num_evals=1,
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
def text_generator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    text = tmp_path_factory.mktemp("text") / "numbers.txt"
    text.write_text("one two three four five six seven eight nine. " * 100, encoding="utf-8")
    shape: dict[str, Any] = dict(
        size="tiny", d_model=32, num_heads=2, head_dim=16, d_ff=64, num_layers=1, context_length=32
    )
    return regard.train("generate", text, steps=2, num_evals=1, **shape)


def test_a_trained_and_a_loaded_model_give_the_same_results(pairs_file: Path, tmp_path: Path) -> None:
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
    best = translator(texts[0], num_beams=4, n_best=3)
    assert len(best.alternatives) == 2
    assert best.score >= best.alternatives[0].score >= best.alternatives[1].score


def test_a_stream_is_the_greedy_translation(translator: Any) -> None:
    assert "".join(translator.stream("one two three four")) == translator("one two three four", num_beams=1).text
    assert list(translator.stream(" ")) == []


def test_look_and_trace(translator: Any, tmp_path: Path) -> None:
    text = "one two three four"
    view = regard.look(translator, text)
    page = view.save(tmp_path / "look.html")
    assert text in page.read_text(encoding="utf-8")
    assert "<iframe" in view._repr_html_()
    trace = translator.trace("one two", "2 1")
    weights = trace.weights("decoder.0.cross")
    rows, columns = trace.labels("decoder.0.cross")
    source, target = (
        [span.token for span in side.token_spans(text)]
        for side, text in zip(translator.tokenizers, ("one two", "2 1"), strict=True)
    )
    assert list(rows) == ["<s>", *target]
    assert list(columns) == [*source, "</s>"]
    assert weights.shape == (2, len(rows), len(columns))
    assert weights.sum(-1).allclose(weights.new_ones(2, len(rows)), atol=1e-5)


def test_views_of_learning(translator: Any, text_generator: Any) -> None:
    triangle = regard.look(text_generator, "one two three", view="targets")
    assert (triangle.viewer, triangle.title) == ("causal", "one two three")
    read = text_generator.tokenizer.encode("one two three")
    assert triangle.data["loss"] == pytest.approx(TextScorer.adapt(text_generator)("one two three").loss, rel=1e-5)
    assert len(triangle.data["losses"]) == len(read) - 1
    waist = regard.look(text_generator, "one two three", view="ranks")
    assert waist.viewer == "ranks"
    loss = TextScorer.adapt(text_generator)("one two three").loss
    assert waist.data["losses"]["series"][0]["points"][-1] == [16, loss]


def test_ranks_of_a_translator_are_measured_by_a_translation(translator: Any) -> None:
    def last(view: Any) -> list[float]:
        return view.data["losses"]["series"][0]["points"][-1]  # type: ignore[no-any-return]

    own = translator("one two three four", num_beams=1)
    view = regard.look(translator, "one two three four", target=str(own), view="ranks")
    assert [one["address"] for one in view.data["spectra"]] == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    # The search has computed the same mean, a token at a time.
    assert translator.loss("one two three four", own) == pytest.approx(
        -sum(own.log_probs) / len(own.log_probs), abs=1e-4
    )
    short = translator("one two three four", num_beams=1, max_new_tokens=2)
    assert not short.ended, "a truncated output has no end token"
    assert translator.loss("one two three four", short) == pytest.approx(-sum(short.log_probs) / 2, abs=1e-4)
    assert last(regard.look(translator, "one", target="9 9 9", view="ranks"))[1] == translator.loss("one", "9 9 9")
    assert last(regard.look(translator, "one", view="ranks"))[1] == translator.loss("one", translator("one"))


def test_evaluate(translator: Any, pairs_file: Path) -> None:
    bleu, chrf = regard.evaluate(translator, pairs_file, num_beams=1)
    assert (bleu.name, chrf.name) == ("BLEU", "chrF")
    assert 0 <= bleu.value <= 100
    assert "version:" in bleu.signature


def test_evaluate_a_language_model(text_generator: Any, tmp_path: Path) -> None:
    path = tmp_path / "test.txt"
    path.write_text("one two three four five. " * 20, encoding="utf-8")
    scores = regard.evaluate(text_generator, path)
    assert {score.name for score in scores} >= {"perplexity"}
    assert all(score.signature for score in scores)


@pytest.mark.parametrize(
    ("call", "argument", "value", "hint"),
    [
        (lambda t, p: regard.train("translat", data=p), "task", "translat", "translate"),
        (lambda t, p: regard.train("translate", data=p, d_modle=3), "setting", "d_modle", "d_model"),
        (lambda t, p: regard.train("translate", data=p, size="tinny"), "size", "tinny", "tiny"),
        (lambda t, p: regard.train("translate", data=p, schedule="cosin"), "schedule", "cosin", "cosine"),
        (lambda t, p: t("one", beam=3), "setting", "beam", "num_beams"),
        (lambda t, p: t(["one", 2]), "inputs", None, None),
        (lambda t, p: regard.evaluate(t, p, beems=3), "setting", "beems", "num_beams"),
        (lambda t, p: regard.evaluate(t, []), "data", None, None),
        (lambda t, p: regard.look(t, "one", view="stepps"), "view", "stepps", "steps"),
        (lambda t, p: regard.look(t), "inputs", 0, None),
        (lambda t, p: regard.look(t, "one", "two"), "inputs", 2, None),
    ],
)
def test_wrong_requests(
    translator: Any, pairs_file: Path, call: Any, argument: str, value: Any, hint: str | None
) -> None:
    with pytest.raises(UsageError) as error:
        call(translator, pairs_file)
    assert (error.value.argument, error.value.value, error.value.hint) == (argument, value, hint)


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", "many"), ("learning_rate", "-1"), ("schedule", "cosin"), ("d_model", "wide"), ("num_beams", "0")],
)
def test_an_argument_and_a_flag_give_the_same_error(
    name: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError) as error:
        regard.train("translate", out=tmp_path / "m", **{name: value})
    assert error.value.argument == name
    assert main(["train", "translate", "--out", str(tmp_path / "m"), f"--{name.replace('_', '-')}", value]) == 2
    assert capsys.readouterr().err == f"regard: {error.value}\n"


def test_folders_without_a_model(tmp_path: Path) -> None:
    for path, kind in ((tmp_path, FolderError), (tmp_path / "absent", MissingFolderError)):
        with pytest.raises(kind) as error:
            regard.load(path)
        assert error.value.path == path


def test_tasks_and_models_describe_themselves() -> None:
    assert set(regard.tasks()) == set(tasks)
    schema = regard.tasks()["classify"].schema()
    assert json.loads(json.dumps(schema)) == schema
    assert schema["inputs"]["required"] == ["text"]
    assert schema["options"]["properties"]["threshold"]["default"] == 0.5
    assert schema["training"]["properties"]["learning_rate"]["exclusiveMinimum"] == 0
    assert "encoder" in regard.models()["bert"].capabilities
    assert regard.__version__


def test_predict_takes_a_folder_or_a_predictor(folder: Path, translator: Any) -> None:
    text = "one two three four"
    assert regard.predict(folder, text) == regard.predict(translator, text) == translator(text)
    assert regard.predict(translator, [text, "nine"], num_beams=1)[0].text == translator(text, num_beams=1).text


def test_the_steps_of_one_attention_are_a_view_too(translator: Any) -> None:
    view = regard.look(translator, "one two", view="steps")
    assert (view.viewer, view.data["address"]) == ("steps", "encoder.0.self")
    chosen = regard.look(translator, "one two", view="steps", address="decoder.0.self")
    assert chosen.data["address"] == "decoder.0.self"
    with pytest.raises(UsageError) as error:
        regard.look(translator, "one two", view="steps", address="decoder.9.self")
    assert error.value.value == "decoder.9.self"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, w: regard.look(w, "one two", target="2 1"), "target"),
        (lambda t, w: regard.look(t, "one two", view="targets"), "view"),
        (lambda t, w: regard.look(t, "one two", view="no such view"), "view"),
        (lambda t, w: regard.look(w, "o", view="targets"), "inputs"),
    ],
    ids=["target", "targets", "unknown", "short"],
)
def test_views_that_a_model_does_not_offer(translator: Any, text_generator: Any, call: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        call(translator, text_generator)
    assert error.value.argument == message
