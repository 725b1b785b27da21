"""`regard plan`, `regard doctor` and `regard demo`."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard as library
from regard.data.synthetic import translation
from regard.experiments import demo
from regard.tasks.translate import objective
from regard.tasks.translate.objective import TranslateObjective
from regard.training.environment import choose_threads

Run = Callable[..., Any]


def test_the_plan_of_the_paper(regard: Run) -> None:
    """65 and 213 million are the paper's own numbers; the exact ones are counted by hand.

    A block of the encoder: four projections of d × d and two of d × f, each with a bias, and two norms of 2 d. A block
    of the decoder has four projections and a norm more. One matrix of 37,000 × d is all three embeddings.
    """
    for preset, published, d, f, tokens in (
        ("transformer-base", 65e6, 512, 2048, 37_000),
        ("transformer-big", 213e6, 1024, 4096, 37_000),
        ("transformer-big-fr", 213e6, 1024, 4096, 32_000),
    ):
        answer = json.loads(regard("plan", preset, "--json").out)
        attention, norm = 4 * (d * d + d), 2 * d
        encoder = attention + 2 * norm + (d * f + f) + (f * d + d)
        assert answer["parameters"] == 6 * encoder + 6 * (encoder + attention + norm) + tokens * d
        assert answer["parameters"] == pytest.approx(published, rel=0.05)
        assert answer["weight_bytes"] == 4 * answer["parameters"]
        assert answer["training_bytes"] == 16 * answer["parameters"]
        assert sum(answer["by_part"].values()) == answer["parameters"]


def test_a_plan_as_text(regard: Run) -> None:
    done = regard("plan", "tiny", "--vocab-size", 100, "--recipe", "default")
    assert done.code == 0
    for part in ("tiny", "transformer", "100", "parameters", "fp32", "Adam", "FLOP"):
        assert part in done.out


def test_m166_the_plan_of_gpt3(regard: Run) -> None:
    """Parameters by hand. The paper's table D.1 has 3.14e23 operations of training, without attention itself."""
    answer = json.loads(regard("plan", "gpt3", "--json").out)
    d, layers = 12_288, 96
    block = 4 * (d * d + d) + 2 * d * 4 * d + 4 * d + d + 2 * 2 * d
    assert answer["parameters"] == layers * block + 50_257 * d + 2048 * d + 2 * d == sum(answer["by_part"].values())
    assert answer["weight_bytes"] == 4 * answer["parameters"]
    assert answer["training_bytes"] == 16 * answer["parameters"]
    assert answer["cache_bytes_per_token"] == 2 * 4 * layers * d
    assert answer["forward_flops"] == pytest.approx(2 * answer["parameters"], rel=0.02)
    assert answer["published_flops"] == pytest.approx(3.14e23, rel=0.02)
    assert "174,604,259,328" in regard("plan", "gpt3").out


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("gpt2", 124_439_808), ("gpt2-xl", 1_557_611_200), ("llama-7b", 6_738_415_616), ("llama3-8b", 8_030_261_248)],
)
def test_plans_of_published_language_models(regard: Run, preset: str, parameters: int) -> None:
    answer = json.loads(regard("plan", preset, "--json").out)
    assert answer["parameters"] == parameters == sum(answer["by_part"].values())


def test_the_plan_counts_the_parameters_of_the_built_model(regard: Run) -> None:
    from regard.models.gpt.config import PRESETS, GPTConfig
    from regard.models.gpt.model import GPT

    model = GPT(GPTConfig(vocab_size=101, **PRESETS["tiny"]))
    done = regard("plan", "tiny", "--model", "gpt", "--vocab-size", 101)
    assert f"{sum(param.numel() for param in model.parameters()):,}" in done.out
    assert "(gpt" in done.out and "(transformer" in regard("plan", "tiny").out
    wrong = regard("plan", "gpt2", "--model", "transformer")
    assert (wrong.code, wrong.error.argument, wrong.error.value) == (2, "preset", "gpt2")
    near = regard("plan", "gpt4")
    assert (near.code, near.error.argument, near.error.hint) == (2, "preset", "gpt3")


def test_m118_m120_the_values_are_counted(regard: Run) -> None:
    done = regard("plan", "gpt2").out
    for number in ("589,824", "7,077,888", "84,934,656", "98,304", "1,179,648", "14,155,776", "84.9 million"):
        assert number in done
    assert "values" in regard("plan", "transformer-base").out
    assert "1.39 trillion" in regard("plan", "gpt3").out


@pytest.mark.parametrize("arguments", [("--vocab-size", 0), ("--batch-tokens", 0)])
def test_impossible_plans(regard: Run, arguments: tuple[str, int]) -> None:
    for model in ("transformer", "gpt"):
        done = regard("plan", "tiny", "--model", model, *arguments)
        assert done.code == 2
        assert (done.error.argument, done.error.value) == (arguments[0][2:].replace("-", "_"), 0)


# --- Doctor -------------------------------------------------------------------------------------------------


def findings(regard: Run) -> dict[str, dict[str, str]]:
    return {finding["what"]: finding for finding in json.loads(regard("doctor", "--json").out)}


def test_the_doctor_shows_choices_and_reasons(regard: Run) -> None:
    found = findings(regard)
    assert {"python", "regard", "device", "threads", "compile", "decoding", "pictures", "disk"} <= set(found)
    assert all(finding["value"] and finding["why"] for finding in found.values())
    lines = regard("doctor").out.splitlines()
    assert [line.split()[0] for line in lines] == list(found)


def test_the_reason_for_the_number_of_threads(regard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    default = findings(regard)["threads"]["why"]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert findings(regard)["threads"]["why"] == choose_threads().why != default


def test_the_reason_for_the_decoder(regard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoding() -> tuple[str, str]:
        found = findings(regard)["decoding"]
        return found["value"], found["why"]

    assert decoding()[0] == "compiled kernels"
    reason = "RuntimeError: no such instruction"
    monkeypatch.setattr("regard.generation.backend.kernel_error", lambda: reason)
    value, why = decoding()
    assert (value, reason in why) == ("torch", True)
    monkeypatch.setenv("REGARD_BACKEND", "torch")
    value, why = decoding()
    assert (value, "REGARD_BACKEND" in why) == ("torch", True)
    monkeypatch.setattr("regard.training.environment.find_spec", lambda name: None)
    value, why = decoding()
    assert (value, "numba" in why) == ("torch", True)


# --- Demo ---------------------------------------------------------------------------------------------------


@pytest.fixture
def small_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer sentences of the same dataset: an untrained model generates endless text, which is slow to score."""
    monkeypatch.setattr(translation, "SPLIT_SIZES", dict(train=600, validation=5, test=5, compositional=5))
    monkeypatch.setattr(demo, "pronoun_pairs", functools.partial(translation.pronoun_pairs, count=2))
    monkeypatch.setattr(demo, "NUM_ALIGNED", 5)
    monkeypatch.setattr(objective, "NUM_SCORED", 5)


@pytest.mark.usefixtures("small_dataset")
def test_the_demo_trains_a_model_and_writes_a_report(
    regard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = regard("demo", "--minutes", 0.05)
    assert done.code == 0, done.err
    for row in ("BLEU, test", "BLEU, unseen combinations", "it → il/elle", "alignment error rate"):
        assert row in done.out
    assert demo.SENTENCES[1] in done.out
    report = tmp_path / "runs" / "demo" / "report.html"
    assert done.out.endswith(f"report  {report.relative_to(tmp_path)}\n")
    html = report.read_text(encoding="utf-8")
    assert "too wide" in html
    assert "decoder.1.cross" in html
    assert library.load(tmp_path / "runs" / "demo")("The cat sleeps.")

    again = regard("demo", "--minutes", 0.001, "--json")
    assert again.code == 0, "the demo replaces its own folder"
    found = json.loads(again.out)
    assert {score["name"] for score in found["scores"]} >= {"BLEU, test"}
    assert len(found["translations"]) == 4
    words = " ".join(link["target"] for link in found["links"])
    assert words.split() == re.findall(r"\w+'?|[^\w\s]", found["translations"][2]["translation"])


@pytest.mark.usefixtures("small_dataset")
@pytest.mark.skipif(os.name == "nt", reason="this system sends no POSIX signals")
def test_an_interrupted_demo_prints_the_command_that_starts_it_again(
    regard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: TranslateObjective, indices: list[int]) -> object:
        signal.raise_signal(signal.SIGINT)
        return real(self, indices)

    real = TranslateObjective.loss
    monkeypatch.setattr(TranslateObjective, "loss", interrupt)
    out = tmp_path / "a demo"
    done = regard("demo", "--minutes", 1, "--out", out)
    assert done.code == 130
    assert shlex.split(done.err.splitlines()[-1]) == ["regard", "demo", "--out", str(out), "--force"]


@pytest.mark.usefixtures("small_dataset")
def test_the_demo_does_not_replace_other_runs(regard: Run, model: Path) -> None:
    before = (model / "model.safetensors").read_bytes()
    done = regard("demo", "--minutes", 0.001, "--out", model)
    assert (done.code, "--force" in done.err) == (2, True)
    assert (model / "model.safetensors").read_bytes() == before
