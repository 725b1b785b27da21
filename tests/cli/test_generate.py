"""`regard train generate`, `generate`, `suggest` and `score` with a small language model."""

from __future__ import annotations

import io
import json
import math
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard as library
from regard.cli.output import progress_bar
from regard.tasks.generate import objective
from regard.tasks.generate.objective import GenerateObjective
from regard.tasks.generate.predictor import TextGenerator, score_text
from regard.utils.errors import UsageError

Run = Callable[..., Any]
LINE = "one two three four five six seven eight nine ten.\n"
SMALL = ["--size", "tiny", "--d-model", 32, "--num-heads", 2, "--head-dim", 16, "--d-ff", 64, "--num-layers", 2]
PACE = ["--context-length", 32, "--steps", 100, "--batch-tokens", 1024, "--warmup-steps", 5, "--learning-rate", 0.01]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(LINE * 400, encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["char", "bpe"])
def made(request: pytest.FixtureRequest, regard: Run, book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / request.param
    flags = [*SMALL, *PACE, "--tokenizer", request.param, "--vocab-size", 300]
    done = regard("train", "generate", book, "--out", folder, *flags, "--json")
    assert done.code == 0, done.err
    assert {"perplexity", "bits per byte"} <= {score["name"] for score in json.loads(done.out)["scores"]}
    return folder


@pytest.fixture(scope="module")
def generator(made: Path) -> TextGenerator:
    found = library.load(made)
    assert isinstance(found, TextGenerator)
    return found


def test_a_training_leaves_a_model_its_card_and_a_report(made: Path) -> None:
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "report.html", "metrics.jsonl"} <= {
        path.name for path in made.iterdir()
    }
    card = (made / "README.md").read_text(encoding="utf-8")
    assert "regard generate" in card
    assert 'pipeline_tag: "text-generation"' in card
    assert '"Generated"' in (made / "report.html").read_text(encoding="utf-8")


def test_options_of_other_tasks_are_not_offered(regard: Run, book: Path, tmp_path: Path) -> None:
    done = regard("train", "generate", "--help").out
    assert "--label-smoothing" not in done
    assert "--recipe" not in done
    with pytest.raises(UsageError) as error:
        library.train("generate", book, out=tmp_path / "m", label_smoothing=0.1)
    assert error.value.value == "label_smoothing"


def test_only_the_continuation_is_printed(regard: Run, made: Path) -> None:
    done = regard("generate", made, "one two three", "--temperature", 0, "--max-new-tokens", 12)
    assert done.code == 0
    assert done.err == ""
    assert done.out.startswith(" four")


def test_a_stream_is_the_whole_text(generator: TextGenerator) -> None:
    for sampling in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3}, {"seed": 5, "stop": ("six",)}):
        text = generator("one two", max_new_tokens=70, **sampling).text
        assert "".join(generator.stream("one two", max_new_tokens=70, **sampling)) == text
        assert generator("one two", max_new_tokens=70, lookup=True, **sampling).text == text
        assert "six" not in text or "stop" not in sampling


def test_several_texts_from_one_seed(regard: Run, made: Path) -> None:
    options = ("--num-return-sequences", 3, "--seed", 7, "--temperature", 9, "--max-new-tokens", 9)
    first, second = (regard("generate", made, "one", *options, "--json") for _ in range(2))
    assert first.out == second.out
    best = json.loads(first.out)
    results = [best, *best["alternatives"]]
    assert len(results) == 3
    assert len({result["text"] for result in results}) > 1
    for result in results:
        assert len(result["tokens"]) == len(result["log_probs"])
        assert all(value <= 0 for value in result["log_probs"])
    plain = regard("generate", made, "one", *options).out
    assert plain == "".join(result["text"] + "\n" for result in results)


def test_a_stop_string_ends_the_text(regard: Run, made: Path, generator: TextGenerator) -> None:
    whole = generator("three", temperature=0, max_new_tokens=60).text
    stop = whole[8:12]
    done = regard("generate", made, "three", "--temperature", 0, "--max-new-tokens", 60, "--stop", stop, "zzz")
    assert done.out == whole[: whole.index(stop)] + "\n"


def test_beams_find_the_most_probable_texts(regard: Run, made: Path, generator: TextGenerator) -> None:
    greedy = generator("one two", temperature=0, max_new_tokens=12)
    assert generator("one two", num_beams=1, max_new_tokens=12).text == greedy.text
    best = generator("one two", num_beams=5, num_return_sequences=4, max_new_tokens=12)
    found = [best, *best.alternatives]
    assert [result.score for result in found] == sorted((result.score for result in found), reverse=True)
    assert best.score == pytest.approx(sum(best.log_probs) / len(best.log_probs))
    assert sum(best.log_probs) >= sum(greedy.log_probs) - 1e-6
    assert len({result.text for result in found}) == len(found)

    options = ("--num-beams", 5, "--max-new-tokens", 12)
    done = json.loads(regard("generate", made, "one two", *options, "--num-return-sequences", 4, "--json").out)
    assert [result["text"] for result in (done, *done["alternatives"])] == [result.text for result in found]
    assert done["score"] == pytest.approx(best.score)
    plain = regard("generate", made, "one two", *options, "--length-penalty", 0)
    assert plain.out == generator("one two", num_beams=5, max_new_tokens=12, length_penalty=0.0).text + "\n"


def test_beams_end_at_a_stop_string_and_within_the_context(generator: TextGenerator) -> None:
    found = generator("one two", num_beams=3, max_new_tokens=30, stop="five")
    assert found.text == " three four "
    assert found.ended
    assert "".join(found.tokens).count("e") and len(found.tokens) == len(found.log_probs)
    best = generator("one two", num_beams=9, num_return_sequences=9, max_new_tokens=25, stop=" ")
    many = [best, *best.alternatives]
    assert len({result.text for result in many}) == len(many) < 9
    assert [result.score for result in many] == sorted((result.score for result in many), reverse=True)
    long = generator(LINE * 9, num_beams=2, max_new_tokens=500)
    assert 1 <= len(long.tokens) <= generator.model.config.context_length // 2


def test_a_long_prompt_is_truncated_and_reported(regard: Run, made: Path, generator: TextGenerator) -> None:
    import torch

    done = regard("generate", made, LINE * 9, "--temperature", 0, "--max-new-tokens", 4)
    assert done.code == 0
    assert "28" in done.err
    assert regard("generate", made, LINE * 9, "--max-new-tokens", 4, "--json").err == done.err
    text, ids = done.out.removesuffix("\n"), generator.prompt_ids(LINE * 9)[-28:]
    for _ in range(4):
        with torch.no_grad():
            ids.append(int(generator.model(torch.tensor([ids]))[0, -1].argmax()))
    assert text == generator.tokenizer.decode(ids[28:])


def test_a_search_beyond_the_context_is_reported(regard: Run, made: Path, generator: TextGenerator) -> None:
    max_new_tokens = generator.model.config.context_length - len(generator.prompt_ids("one two"))
    done = regard("generate", made, "one two", "--num-beams", 2, "--max-new-tokens", max_new_tokens + 1, "--json")
    assert f"{max_new_tokens:,}" in done.err and f"{max_new_tokens + 1:,}" in done.err
    assert len(json.loads(done.out)["tokens"]) <= max_new_tokens
    assert regard("generate", made, "one two", "--num-beams", 2, "--max-new-tokens", max_new_tokens).err == ""


def test_the_prompt_may_come_from_stdin(regard: Run, made: Path) -> None:
    ask = ("generate", made, "-", "--temperature", 0, "--max-new-tokens", 12)
    done = regard(*ask, stdin="\ufeffone two\r\none two three".encode())
    assert done.out == regard("generate", made, "one two\none two three", *ask[3:]).out
    wrong = regard(*ask, stdin=b"one tw\xf6")
    assert (wrong.code, wrong.out) == (1, "")
    assert "<stdin>" in wrong.err


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (["--temperature", -1], "temperature"),
        (["--top-p", 0], "top_p"),
        (["--top-p", 1.01], "top_p"),
        (["--stop", ""], "stop"),
        (["--num-return-sequences", 0], "num_return_sequences"),
        (["--max-new-tokens", 0], "max_new_tokens"),
        (["--num-beams", -1], "num_beams"),
        (["--num-beams", 2, "--num-return-sequences", 3], "num_return_sequences"),
        (["--num-beams", 2, "--top-k", 3, "--seed", 1], "top_k"),
        (["--num-beams", 2, "--lookup"], "lookup"),
        (["--lookup", "--num-return-sequences", 2], "lookup"),
        (["--length-penalty", 2], "length_penalty"),
        (["--num-beams", 2, "--length-penalty", 99], "length_penalty"),
        (["--stream", "--num-beams", 2], "num_beams"),
        (["--stream", "--json"], "--json"),
    ],
)
def test_wrong_options(regard: Run, made: Path, arguments: list[object], argument: str) -> None:
    done = regard("generate", made, "one", *arguments)
    assert done.code == 2
    assert argument in done.err
    assert done.out == ""


def test_suggestions_complete_words_with_probabilities(
    regard: Run, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # M206
    suggester: Any = library.load(made, task="suggest")
    for text, word in (("one two th", "three"), ("one two ", "three"), ("one two", "two"), ("five six sev", "seven")):
        found = suggester(text)
        assert found.word == word, (text, found)
        assert 0.3 < found.score <= 1.0001
        assert list(found.scores.values()) == sorted(found.scores.values(), reverse=True)
    done = json.loads(regard("suggest", made, "one two th", "--n", 2, "--json").out)
    assert (done["word"], done["text"]) == ("three", "one two th")
    assert len(done["scores"]) <= 2
    assert "three" in regard("suggest", made, "one two th").out
    lines = regard("suggest", made, "--json", stdin=b"one two \nfive six sev\n").out.splitlines()
    assert [json.loads(line)["word"] for line in lines] == ["three", "seven"]
    assert regard("suggest", made, "one", "--n", 0).code == 2
    monkeypatch.setattr("regard.tasks.suggest.predictor.suggest", lambda *arguments, **options: [])
    none = regard("suggest", made, "one")
    assert (none.code, none.out.strip(), none.err != "") == (0, "", True)


def test_the_score_is_the_probability_under_the_model(
    regard: Run, made: Path, generator: TextGenerator, tmp_path: Path
) -> None:
    import torch

    text = LINE * 2
    ids = generator.tokenizer.encode(text)[: generator.model.config.context_length]
    with torch.no_grad():
        log_probs = generator.model(torch.tensor([ids])).log_softmax(-1)
    expected = [log_probs[0, i, ids[i + 1]].item() for i in range(len(ids) - 1)]
    score = score_text(generator.model, generator.tokenizer, text)
    assert list(score.log_probs[: len(expected)]) == pytest.approx(expected, abs=1e-4)
    assert score.num_tokens == len(generator.tokenizer.encode(text)) - 1
    assert score.perplexity == pytest.approx(math.exp(score.loss))
    assert score.bits_per_byte * score.num_bytes * math.log(2) == pytest.approx(score.loss * len(score.log_probs))

    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    found = json.loads(regard("score", made, path, "--json", "--per-token").out)
    assert found["perplexity"] == pytest.approx(score.perplexity)
    assert len(found["per_token"]) == found["num_tokens"] == score.num_tokens
    done = regard("score", made, path)
    assert f"{score.num_tokens:,}" in done.out
    assert done.err == ""
    assert regard("score", made, "-", stdin=text.encode()).code == 0
    evaluated = json.loads(regard("evaluate", made, path, "--json").out)
    assert [one["value"] for one in evaluated] == pytest.approx([score.perplexity, score.bits_per_byte])
    fractions: list[float] = []
    scorer: Any = library.load(made, task="score")
    scorer.progress = fractions.append
    assert scorer(text * 300).num_bytes > 0
    assert fractions == sorted(fractions)
    assert (len(fractions) > 1, fractions[-1]) == (True, 1)


def test_documents_of_a_file_are_continued_separately_and_scored_together(
    regard: Run, made: Path, generator: TextGenerator, tmp_path: Path
) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one two"}\n{"text": "six\\nseven"}\n', encoding="utf-8")
    done = regard("generate", made, path, "--json", "--temperature", 0, "--max-new-tokens", 4)
    assert [json.loads(line)["prompt"] for line in done.out.splitlines()] == ["one two", "six\nseven"]
    scored = json.loads(regard("score", made, path, "--json").out)
    assert scored["loss"] == pytest.approx(generator.loss("one twosix\nseven"))


def test_a_progress_bar_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress_bar("scoring") as progress:
        assert progress is not None
        progress(0.25)
    assert "scoring" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("scoring") as progress:
        assert progress is None
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_attention_is_drawn(regard: Run, made: Path, tmp_path: Path) -> None:
    done = regard("look", made, "one two three", "--out", tmp_path / "look.html")
    assert done.code == 0
    assert "decoder.1.self" in (tmp_path / "look.html").read_text(encoding="utf-8")
    weights = json.loads(regard("look", made, "one two three", "--json").out)["attention"]
    assert [one["address"] for one in weights] == ["decoder.0.self", "decoder.1.self"]
    assert regard("look", made, "one", "--view", "steps", "--out", tmp_path / "steps.html").code == 0


def test_the_targets_of_training_are_drawn(regard: Run, made: Path, tmp_path: Path) -> None:  # M95
    done = regard("look", made, "one two three", "--view", "targets", "--out", tmp_path / "t.html")
    assert done.code == 0, done.err
    assert "■ ·" in done.out
    assert (tmp_path / "t.html").exists()
    numbers = json.loads(regard("look", made, "one two three", "--view", "targets", "--json").out)
    assert numbers["mask"][0] == [1] + [0] * (len(numbers["tokens"]) - 1)
    assert numbers["targets"][:-1] == numbers["tokens"][1:]
    assert regard("look", made, "o", "--view", "targets", "--json").code == 2, "nothing to predict"


def test_spectra_and_the_loss_by_rank_are_drawn(regard: Run, made: Path, tmp_path: Path) -> None:  # M119
    done = regard("look", made, LINE, "--view", "ranks", "--out", tmp_path / "r.html")
    assert done.code == 0, done.err
    found = json.loads(regard("look", made, LINE, "--view", "ranks", "--json").out)
    losses = {one["rank"]: one["loss"] for one in found["losses"]}
    assert losses[0] > losses[16], "what was learned passes through the values"
    for one in found["attentions"]:
        assert max(one["ranks"]) <= found["head_dim"] == 16
        assert [len(values) for values in one["singular_values"]] == [16, 16]


def test_ranks_of_a_translator(regard: Run, model: Path, tmp_path: Path) -> None:  # M119
    done = regard("look", model, "one two", "--view", "ranks", "--out", tmp_path / "r.html")
    assert done.code == 0, done.err
    found = json.loads(regard("look", model, "one two", "--target", "2 1", "--view", "ranks", "--json").out)
    assert [one["address"] for one in found["attentions"]][-1] == "decoder.0.cross"
    assert regard("look", model, "one two", "--view", "targets").code == 2, "of language models only"


def test_tokens_are_shown(regard: Run, made: Path) -> None:
    assert regard("tokens", made, "one two").code == 0


def test_the_error_for_a_wrong_task_names_the_task_of_the_model(regard: Run, made: Path, model: Path) -> None:  # M165
    for verb, folder, other in (
        ("generate", model, "translate"),
        ("score", model, "translate"),
        ("translate", made, "generate"),
    ):
        done = regard(verb, folder, "one")
        assert (done.code, done.error.argument, done.error.value) == (2, "task", verb)
        assert f"regard {other}" in done.err, "the command for this model"


def test_a_trained_model_runs_in_transformers(
    regard: Run, made: Path, generator: TextGenerator, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    done = regard("export", made, "--to", "transformers", "--out", tmp_path / "there")
    assert done.code == 0, done.err
    assert "NanoChatForCausalLM" in done.out
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "there").eval()
    ids = torch.tensor([generator.prompt_ids("one two three")])
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, generator.model(ids), atol=1e-4, rtol=0)
    assert library.load(tmp_path / "there")("one two", temperature=0).text == generator("one two", temperature=0).text


@pytest.mark.parametrize(
    ("text", "flags", "code"),
    [
        ("", [], 1),
        ("too short", ["--tokenizer", "char"], 1),
        (LINE * 99, ["--val-fraction", 2], 2),
        (LINE * 99, ["--size", "huge"], 2),
        (LINE * 99, ["--vocab-size", 10], 2),
        (LINE * 99, ["--tokenizer", "words"], 2),
        (LINE * 99, ["--window", 0], 2),
    ],
)
def test_bad_input(regard: Run, tmp_path: Path, text: str, flags: list[object], code: int) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    done = regard("train", "generate", path, "--out", tmp_path / "m", "--size", "tiny", "--steps", 1, *flags)
    assert done.code == code
    assert "Traceback" not in done.err


def test_resume_is_exact(regard: Run, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [*SMALL, "--context-length", 32, "--batch-tokens", 512, "--tokenizer", "char", "--steps", 6]
    assert regard("train", "generate", book, "--out", tmp_path / "a", *flags).code == 0
    loss, calls = GenerateObjective.loss, 0

    def interrupted(task: GenerateObjective, indices: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            signal.raise_signal(signal.SIGINT)
        return loss(task, indices)

    with monkeypatch.context() as patch:
        patch.setattr(GenerateObjective, "loss", interrupted)
        stopped = regard("train", "generate", book, "--out", tmp_path / "b", *flags)
    assert stopped.code == 130, stopped.err
    assert not (tmp_path / "b" / "model.safetensors").exists()
    resumed = regard("train", "generate", book, "--out", tmp_path / "b", *flags, "--resume")
    assert resumed.code == 0, resumed.err
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert first == second
    assert calls < 6, "there was something left to do"


def test_a_long_validation_text_is_truncated_and_empty_files_are_skipped(
    regard: Run, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "MAX_VALIDATION_TOKENS", 500)
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "book.txt").write_bytes(book.read_bytes())
    (folder / "empty.txt").touch()
    flags = [*SMALL, "--context-length", 32, "--batch-tokens", 512, "--tokenizer", "char", "--steps", 1]
    done = regard("train", "generate", folder, "--validation", book, "--out", tmp_path / "m", *flags, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["scored_on"] == "validation, 500 tokens"
    assert f"{len(LINE) * 400 + 1:,}" in done.err


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_quantized_models_predict_what_was_learned(regard: Run, made: Path, book: Path, precision: str) -> None:
    ask = ("--precision", precision)
    done = regard("generate", made, "one two three", "--temperature", 0, "--max-new-tokens", 12, *ask)
    assert done.code == 0, done.err
    assert done.out.startswith(" four")
    plain, packed = (json.loads(regard("score", made, book, "--json", *flags).out)["perplexity"] for flags in ((), ask))
    assert plain != packed
    assert packed == pytest.approx(plain, rel=0.02 if precision == "int8" else 0.5)
    assert regard("suggest", made, "one two ", *ask).out.split()[1] == "three"


def test_an_unknown_precision_is_refused(regard: Run, made: Path) -> None:
    done = regard("generate", made, "one", "--precision", "int3")
    assert done.code == 2
    assert "int8" in done.err
    with pytest.raises(UsageError) as error:
        library.load(made, precision="int3")  # type: ignore[call-overload]
    assert (error.value.argument, error.value.value) == ("precision", "int3")


def test_the_compiled_decoder_generates_what_torch_generates(
    generator: TextGenerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {}
    for backend in ("torch", "kernels"):
        monkeypatch.setenv("REGARD_BACKEND", backend)
        texts[backend] = [
            str(generator("one two", temperature=0, max_new_tokens=60)),
            str(generator("nine", temperature=0.9, seed=3, max_new_tokens=40)),
            *map(str, generator(["one", "seven eight nine ten. one"], temperature=0, max_new_tokens=20)),
            "".join(generator.stream("six", temperature=0, max_new_tokens=30, lookup=True)),
        ]
    assert texts["kernels"] == texts["torch"]
