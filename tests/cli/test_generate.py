"""`regard train generate`, `generate`, `suggest` and `score`: a small language model, used as a person would."""

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
from regard.errors import UsageError
from regard.tasks.generate import GenerateTask, Writer
from regard.training import writing

Run = Callable[..., Any]
LINE = "one two three four five six seven eight nine ten.\n"
SMALL = ["--size", "tiny", "--width", 32, "--heads", 2, "--head-width", 16, "--hidden", 64, "--layers", 2]
PACE = ["--context", 32, "--steps", 100, "--batch-tokens", 1024, "--warmup-steps", 5, "--learning-rate", 0.01]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(LINE * 400, encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=["char", "bpe"])
def made(request: pytest.FixtureRequest, regard: Run, book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("writers") / request.param
    flags = [*SMALL, *PACE, "--tokens", request.param, "--pieces", 300]
    said = regard("train", "generate", book, "--out", folder, *flags)
    assert said.code == 0, said.err
    assert "perplexity" in said.out
    assert "bits per byte" in said.out
    return folder


@pytest.fixture(scope="module")
def writer(made: Path) -> Writer:
    found = library.load(made)
    assert isinstance(found, Writer)
    return found


def test_a_training_leaves_a_model_its_card_and_a_report(made: Path) -> None:
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "report.html", "metrics.jsonl"} <= {
        path.name for path in made.iterdir()
    }
    card = (made / "README.md").read_text(encoding="utf-8")
    assert "regard generate" in card
    assert 'pipeline_tag: "text-generation"' in card
    assert '"How the model goes on"' in (made / "report.html").read_text(encoding="utf-8")


def test_what_does_not_concern_a_language_model_is_not_offered(regard: Run, book: Path, tmp_path: Path) -> None:
    said = regard("train", "generate", "--help").out
    assert "--label-smoothing" not in said
    assert "--recipe" not in said
    assert "(usually 0.95)" in said, "the recipe's own value of beta2"
    with pytest.raises(UsageError, match="label_smoothing is for translators"):
        library.train("generate", book, out=tmp_path / "m", label_smoothing=0.1)


def test_what_was_learned_is_written_to_stdout_and_nothing_else_is(regard: Run, made: Path) -> None:
    said = regard("generate", made, "one two three", "--temperature", 0, "--max-new-tokens", 12)
    assert said.code == 0
    assert said.err == ""
    assert said.out.startswith(" four")


def test_a_stream_is_the_whole_text(writer: Writer) -> None:
    for sampling in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3}, {"seed": 5, "stop": ("six",)}):
        text = writer("one two", max_new_tokens=70, **sampling).text
        assert "".join(writer.stream("one two", max_new_tokens=70, **sampling)) == text
        assert writer("one two", max_new_tokens=70, lookup=True, **sampling).text == text
        assert "six" not in text or "stop" not in sampling


def test_several_texts_from_one_seed(regard: Run, made: Path) -> None:
    arguments = ("generate", made, "one", "--n", 3, "--seed", 7, "--temperature", 9, "--max-new-tokens", 9, "--json")
    first, second = regard(*arguments), regard(*arguments)
    assert first.out == second.out
    texts = [json.loads(line) for line in first.out.splitlines()]
    assert len(texts) == 3
    assert len({text["text"] for text in texts}) > 1
    for text in texts:
        assert len(text["tokens"]) == len(text["log_probs"])
        assert all(value <= 0 for value in text["log_probs"])


def test_a_stop_ends_the_text(regard: Run, made: Path, writer: Writer) -> None:
    whole = writer("three", temperature=0, max_new_tokens=60).text
    stop = whole[8:12]
    said = regard("generate", made, "three", "--temperature", 0, "--max-new-tokens", 60, "--stop", stop, "zzz")
    assert said.out == whole[: whole.index(stop)] + "\n"


def test_beams_find_the_likeliest_texts(regard: Run, made: Path, writer: Writer) -> None:
    greedy = writer("one two", temperature=0, max_new_tokens=12)
    assert [text.text for text in writer.search("one two", beams=1, max_new_tokens=12)] == [greedy.text]
    found = writer.search("one two", beams=5, n_best=4, max_new_tokens=12)
    assert [text.score for text in found] == sorted((text.score for text in found), reverse=True)
    assert found[0].score == pytest.approx(sum(found[0].log_probs) / len(found[0].log_probs))
    assert sum(found[0].log_probs) >= sum(greedy.log_probs) - 1e-6
    assert len({text.text for text in found}) == len(found)

    said = regard("generate", made, "one two", "--beams", 5, "--n", 4, "--max-new-tokens", 12, "--json")
    assert [json.loads(line)["text"] for line in said.out.splitlines()] == [text.text for text in found]
    assert json.loads(said.out.splitlines()[0])["score"] == pytest.approx(found[0].score)
    plain = regard("generate", made, "one two", "--beams", 5, "--max-new-tokens", 12, "--length-penalty", 0)
    assert plain.out == writer.search("one two", beams=5, max_new_tokens=12, length_penalty=0.0)[0].text + "\n"


def test_beams_end_at_a_stop_text_and_within_the_context(writer: Writer) -> None:
    (found,) = writer.search("one two", beams=3, max_new_tokens=30, stop="five")
    assert found.text == " three four "
    assert found.ended
    assert "".join(found.tokens).count("e") and len(found.tokens) == len(found.log_probs)
    many = writer.search("one two", beams=9, n_best=9, max_new_tokens=25, stop=" ")
    assert len({text.text for text in many}) == len(many) < 9
    assert [text.score for text in many] == sorted((text.score for text in many), reverse=True)
    (long,) = writer.search(LINE * 9, beams=2, max_new_tokens=500)
    assert 1 <= len(long.tokens) <= writer.model.config.context // 2


def test_a_long_prompt_slides_and_says_so(regard: Run, made: Path, writer: Writer) -> None:
    import torch

    said = regard("generate", made, LINE * 9, "--temperature", 0, "--max-new-tokens", 4)
    assert said.code == 0
    assert "the model sees the last 28 of them" in said.err
    text, ids = said.out.removesuffix("\n"), writer.prompt_ids(LINE * 9)[-28:]
    for _ in range(4):
        with torch.no_grad():
            ids.append(int(writer.model(torch.tensor([ids]))[0, -1].argmax()))
    assert text == writer.tokenizer.decode(ids[28:])


def test_a_search_that_would_leave_the_context_says_how_far_it_goes(regard: Run, made: Path, writer: Writer) -> None:
    room = writer.model.config.context - len(writer.prompt_ids("one two"))
    said = regard("generate", made, "one two", "--beams", 2, "--max-new-tokens", room + 1, "--json")
    assert f"it writes at most {room:,} here, not {room + 1:,}" in said.err
    assert len(json.loads(said.out)["tokens"]) <= room
    assert regard("generate", made, "one two", "--beams", 2, "--max-new-tokens", room).err == ""


def test_the_prompt_may_come_from_stdin(regard: Run, made: Path) -> None:
    ask = ("generate", made, "-", "--temperature", 0, "--max-new-tokens", 12)
    said = regard(*ask, stdin="\ufeffone two\r\none two three".encode())
    assert said.out == regard("generate", made, "one two\none two three", *ask[3:]).out
    wrong = regard(*ask, stdin=b"one tw\xf6")
    assert (wrong.code, wrong.out) == (1, "")
    assert "<stdin>: not UTF-8 (byte 0xF6 at 6: " in wrong.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", -1], "temperature must be 0 (greedy) or more"),
        (["--top-p", 0], "top_p must be above 0 and at most 1"),
        (["--top-p", 1.01], "top_p must be above 0 and at most 1"),
        (["--stop", ""], "a stop text is empty"),
        (["--n", 0], "--n must be at least 1"),
        (["--max-new-tokens", 0], "max_new_tokens must be at least 1"),
        (["--beams", 0], "beams must be at least 1"),
        (["--beams", 2, "--n", 3], "give --beams 3"),
        (["--beams", 2, "--top-k", 3, "--seed", 1], "leave out --top-k, --seed"),
        (["--beams", 2, "--lookup"], "leave out --lookup"),
        (["--length-penalty", 2], "give --beams"),
        (["--beams", 2, "--length-penalty", 99], "length_penalty must be between -10 and 10"),
    ],
)
def test_wrong_use(regard: Run, made: Path, arguments: list[object], message: str) -> None:
    said = regard("generate", made, "one", *arguments)
    assert said.code == 2
    assert message in said.err
    assert said.out == ""


def test_m206_suggestions_complete_words_with_probabilities(regard: Run, made: Path, writer: Writer) -> None:
    for text, word in (("one two th", "three"), ("one two ", "three"), ("one two", "two"), ("five six sev", "seven")):
        found = writer.suggest(text)
        assert found[0].word == word, (text, found)
        assert 0.3 < found[0].probability <= 1.0001
        assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    said = regard("suggest", made, "one two th", "--n", 2, "--json")
    assert json.loads(said.out)[0]["word"] == "three"
    assert "three" in regard("suggest", made, "one two th").out
    assert regard("suggest", made, "one", "--n", 0).code == 2


def test_the_score_is_the_models_own_probability(regard: Run, made: Path, writer: Writer, tmp_path: Path) -> None:
    import torch

    text = LINE * 2
    ids = writer.tokenizer.encode(text)[: writer.model.config.context]
    with torch.no_grad():
        log_probs = writer.model(torch.tensor([ids])).log_softmax(-1)
    expected = [log_probs[0, i, ids[i + 1]].item() for i in range(len(ids) - 1)]
    score = writer.score(text)
    assert list(score.log_probs[: len(expected)]) == pytest.approx(expected, abs=1e-4)
    assert len(score.log_probs) == len(writer.tokenizer.encode(text)) - 1
    assert score.perplexity == pytest.approx(math.exp(score.loss))
    assert score.bits_per_byte * score.num_bytes * math.log(2) == pytest.approx(score.loss * len(score.log_probs))

    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    found = json.loads(regard("score", made, path, "--json", "--per-token").out)
    assert found["perplexity"] == pytest.approx(score.perplexity)
    assert len(found["per_token"]) == found["tokens"]
    said = regard("score", made, path)
    assert f"({len(score.log_probs):,} tokens: all but the first)" in said.out
    assert f"({score.num_bytes:,} bytes: these tokens as UTF-8)" in said.out
    assert said.err == "", "nobody watches"
    shares: list[float] = []
    assert writer.score(text * 300, progress=shares.append).num_bytes > 0
    assert shares == sorted(shares)
    assert (len(shares) > 1, shares[-1]) == (True, 1)


def test_a_long_score_shows_a_bar_where_a_person_watches(monkeypatch: pytest.MonkeyPatch) -> None:
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
    said = regard("look", made, "one two three", "--out", tmp_path / "look.html")
    assert said.code == 0
    assert "decoder.1.self" in (tmp_path / "look.html").read_text(encoding="utf-8")
    weights = json.loads(regard("look", made, "one two three", "--json").out)["attention"]
    assert [one["address"] for one in weights] == ["decoder.0.self", "decoder.1.self"]
    refused = regard("look", made, "one", "--steps")
    assert refused.code == 2
    assert "for translators" in refused.err


def test_m95_the_triangle_of_training_is_drawn(regard: Run, made: Path, tmp_path: Path) -> None:
    said = regard("look", made, "one two three", "--targets", "--out", tmp_path / "t.html")
    assert said.code == 0, said.err
    assert "■ ·" in said.out
    assert "no target: the text ends" in said.out
    assert (tmp_path / "t.html").exists()
    numbers = json.loads(regard("look", made, "one two three", "--targets", "--json").out)
    assert numbers["keep"][0] == [1] + [0] * (len(numbers["tokens"]) - 1)
    assert numbers["targets"][:-1] == numbers["tokens"][1:]


def test_m119_spectra_and_the_loss_by_rank_are_drawn(regard: Run, made: Path, tmp_path: Path) -> None:
    said = regard("look", made, LINE, "--ranks", "--out", tmp_path / "r.html")
    assert said.code == 0, said.err
    assert "rank   16  loss" in said.out
    found = json.loads(regard("look", made, LINE, "--ranks", "--json").out)
    losses = {one["rank"]: one["loss"] for one in found["losses"]}
    assert losses[0] > losses[16], "what was learned goes through the values"
    for one in found["attentions"]:
        assert max(one["ranks"]) <= found["head_width"] == 16
        assert [len(values) for values in one["singular_values"]] == [16, 16]


def test_m119_ranks_of_a_translator(regard: Run, model: Path, tmp_path: Path) -> None:
    said = regard("look", model, "one two", "--ranks", "--out", tmp_path / "r.html")
    assert said.code == 0, said.err
    assert "rank   16  loss" in said.out
    found = json.loads(regard("look", model, "one two", "--target", "2 1", "--ranks", "--json").out)
    assert (found["source"], found["target"]) == ("one two", "2 1")
    assert [one["address"] for one in found["attentions"]][-1] == "decoder.0.cross"


def test_pages_of_language_models_only_and_one_at_a_time(regard: Run, made: Path, model: Path) -> None:
    both = regard("look", made, "one two", "--targets", "--ranks")
    assert both.code == 2
    assert "one at a time" in both.err
    said = regard("look", model, "one two", "--targets")
    assert said.code == 2
    assert "for language models" in said.err
    assert "fewer than two tokens" in regard("look", made, "o", "--targets", "--json").err


def test_pieces_are_shown(regard: Run, made: Path) -> None:
    assert regard("tokens", made, "one two").code == 0


def test_m165_who_cannot_write_says_why(regard: Run, made: Path, model: Path) -> None:
    said = regard("generate", model, "one")
    assert said.code == 2
    assert "it takes a decoder alone: `regard train generate`" in said.err
    other = regard("translate", made, "one")
    assert other.code == 2
    assert "holds a language model, which goes on with a text: use `regard generate`" in other.err
    scored = regard("evaluate", made, "one.txt")
    assert scored.code == 2 and "regard score" in scored.err


def test_what_is_trained_here_runs_in_transformers(regard: Run, made: Path, writer: Writer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    said = regard("export", made, "--to", "transformers", "--out", tmp_path / "there")
    assert said.code == 0, said.err
    assert "NanoChatForCausalLM" in said.out
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "there").eval()
    ids = torch.tensor([writer.prompt_ids("one two three")])
    with torch.no_grad():
        torch.testing.assert_close(theirs(ids).logits, writer.model(ids), atol=1e-4, rtol=0)
    assert library.load(tmp_path / "there")("one two", temperature=0).text == writer("one two", temperature=0).text


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("", [], "is empty. Give a file with text in it"),
        ("too short", ["--tokens", "char"], "too few for a context of 128"),
        (LINE * 99, ["--validation-share", 2], "validation_share must lie between 0 and 1"),
        (LINE * 99, ["--size", "huge"], "unknown size 'huge'"),
        (LINE * 99, ["--pieces", 10], "--tokens bpe with --pieces 10"),
        (LINE * 99, ["--tokens", "words"], "words"),
    ],
)
def test_bad_input(regard: Run, tmp_path: Path, text: str, flags: list[object], message: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    said = regard("train", "generate", path, "--out", tmp_path / "m", "--size", "tiny", "--steps", 1, *flags)
    assert said.code in (1, 2)
    assert message in said.err
    assert "Traceback" not in said.err


def test_resume_is_exact(regard: Run, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = [*SMALL, "--context", 32, "--batch-tokens", 512, "--tokens", "char", "--steps", 6]
    assert regard("train", "generate", book, "--out", tmp_path / "a", *flags).code == 0
    loss, calls = GenerateTask.loss, 0

    def interrupted(task: GenerateTask, indices: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:
            signal.raise_signal(signal.SIGINT)
        return loss(task, indices)

    with monkeypatch.context() as patch:
        patch.setattr(GenerateTask, "loss", interrupted)
        stopped = regard("train", "generate", book, "--out", tmp_path / "b", *flags)
    assert stopped.code == 130, stopped.err
    assert not (tmp_path / "b" / "model.safetensors").exists()
    resumed = regard("train", "generate", book, "--out", tmp_path / "b", *flags, "--resume")
    assert resumed.code == 0, resumed.err
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert first == second
    assert calls < 6, "there was something left to do"


def test_a_long_validation_text_is_cut_and_empty_files_are_named(
    regard: Run, book: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "MOST_HELD_OUT", 500)
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "book.txt").write_bytes(book.read_bytes())
    (folder / "empty.txt").touch()
    flags = [*SMALL, "--context", 32, "--batch-tokens", 512, "--tokens", "char", "--steps", 1]
    said = regard("train", "generate", folder, "--validation", book, "--out", tmp_path / "m", *flags)
    assert said.code == 0, said.err
    assert f"validation: the first 500 of {len(LINE) * 400 + 1:,} tokens" in said.err
    assert "data: empty files passed over: 1" in said.err
    assert "500 validation tokens" in said.err


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_fewer_bits_still_know_what_was_learned(regard: Run, made: Path, book: Path, precision: str) -> None:
    ask = ("--precision", precision)
    said = regard("generate", made, "one two three", "--temperature", 0, "--max-new-tokens", 12, *ask)
    assert said.code == 0, said.err
    assert said.out.startswith(" four")
    plain, packed = (json.loads(regard("score", made, book, "--json", *flags).out)["perplexity"] for flags in ((), ask))
    assert plain != packed
    assert packed == pytest.approx(plain, rel=0.02 if precision == "int8" else 0.5)
    assert regard("suggest", made, "one two ", *ask).out.split()[1] == "three"


def test_an_unknown_precision_is_refused(regard: Run, made: Path) -> None:
    said = regard("generate", made, "one", "--precision", "int3")
    assert said.code == 2
    assert "int8" in said.err
    with pytest.raises(library.errors.UsageError, match="int8"):
        library.load(made, precision="int3")  # type: ignore[arg-type]


def test_the_compiled_decoder_writes_what_torch_writes(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {}
    for backend in ("torch", "kernels"):
        monkeypatch.setenv("REGARD_BACKEND", backend)
        texts[backend] = [
            str(writer("one two", temperature=0, max_new_tokens=60)),
            str(writer("nine", temperature=0.9, seed=3, max_new_tokens=40)),
            *map(str, writer(["one", "seven eight nine ten. one"], temperature=0, max_new_tokens=20)),
            "".join(writer.stream("six", temperature=0, max_new_tokens=30, lookup=True)),
        ]
    assert texts["kernels"] == texts["torch"]
