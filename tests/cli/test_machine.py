"""`regard plan`, `regard doctor` and `regard demo`."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regard as library
from regard.data.world import translation
from regard.labs import world_scores
from regard.tasks import translate
from regard.tasks.translate import TranslateTask
from regard.training.choices import choose_threads

Run = Callable[..., Any]


def test_the_plan_of_the_paper(regard: Run) -> None:
    """65 and 213 million are the paper's own numbers; the exact ones are counted by hand.

    A block of the encoder: four projections of d × d and two of d × f, each with a bias, and two norms of 2 d. A block
    of the decoder has four projections and a norm more. One matrix of 37,000 × d is all three embeddings.
    """
    for preset, published, d, f, pieces in (
        ("transformer-base", 65e6, 512, 2048, 37_000),
        ("transformer-big", 213e6, 1024, 4096, 37_000),
        ("transformer-big-fr", 213e6, 1024, 4096, 32_000),
    ):
        answer = json.loads(regard("plan", preset, "--json").out)
        attention, norm = 4 * (d * d + d), 2 * d
        encoder = attention + 2 * norm + (d * f + f) + (f * d + d)
        assert answer["parameters"] == 6 * encoder + 6 * (encoder + attention + norm) + pieces * d
        assert answer["parameters"] == pytest.approx(published, rel=0.05)
        assert answer["weight_bytes"] == 4 * answer["parameters"]
        assert answer["training_bytes"] == 16 * answer["parameters"]
        assert sum(answer["by_part"].values()) == answer["parameters"]


def test_a_plan_as_text(regard: Run) -> None:
    said = regard("plan", "tiny", "--vocab-size", 100, "--recipe", "default")
    assert said.code == 0
    assert "tiny (default recipe, 100 pieces)" in said.out
    for part in ("parameters", "weights in fp32", "training, Adam", "cache while decoding", "FLOP"):
        assert part in said.out
    assert "not claimed" in regard("plan", "transformer-base").out


def test_m166_the_plan_of_gpt3(regard: Run) -> None:
    """Parameters by hand. The paper's table D.1 has 3.14e23 operations for the training, attention's own left out."""
    answer = json.loads(regard("plan", "gpt3", "--json").out)
    d, layers = 12_288, 96
    block = 4 * (d * d + d) + 2 * d * 4 * d + 4 * d + d + 2 * 2 * d
    assert answer["parameters"] == layers * block + 50_257 * d + 2048 * d + 2 * d == sum(answer["by_part"].values())
    assert answer["weight_bytes"] == 4 * answer["parameters"]
    assert answer["training_bytes"] == 16 * answer["parameters"]
    assert answer["cache_bytes_per_token"] == 2 * 4 * layers * d
    assert answer["forward_flops"] == pytest.approx(2 * answer["parameters"], rel=0.02)
    assert answer["published_flops"] == pytest.approx(3.14e23, rel=0.02)
    said = regard("plan", "gpt3").out
    assert "174,604,259,328" in said
    assert "It was not run here" in said


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("gpt2", 124_439_808), ("gpt2-xl", 1_557_611_200), ("llama-7b", 6_738_415_616), ("llama3-8b", 8_030_261_248)],
)
def test_plans_of_published_language_models(regard: Run, preset: str, parameters: int) -> None:
    answer = json.loads(regard("plan", preset, "--json").out)
    assert answer["parameters"] == parameters == sum(answer["by_part"].values())


def test_the_plan_of_what_is_trained_here_is_the_model_that_is_built(regard: Run) -> None:
    from regard.models.gpt import GPT
    from regard.models.gpt_settings import PRESETS, GPTConfig

    model = GPT(GPTConfig(vocab_size=101, **PRESETS["tiny"]))
    said = regard("plan", "tiny", "--task", "generate", "--vocab-size", 101)
    assert f"{sum(param.numel() for param in model.parameters()):,}" in said.out
    assert "tiny (language model, 101 tokens, context 128)" in said.out
    assert "tiny (default recipe" in regard("plan", "tiny").out
    wrong = regard("plan", "gpt2", "--task", "translate")
    assert wrong.code == 2
    assert "unknown preset 'gpt2'" in wrong.err
    near = regard("plan", "gpt4")
    assert near.code == 2
    assert "Did you mean 'gpt" in near.err


def test_m118_m120_the_values_are_counted(regard: Run) -> None:
    said = regard("plan", "gpt2").out
    for number in ("589,824", "7,077,888", "84,934,656", "98,304", "1,179,648", "14,155,776", "84.9 million"):
        assert number in said
    assert "values" in regard("plan", "transformer-base").out
    assert "1.39 trillion" in regard("plan", "gpt3").out


@pytest.mark.parametrize("arguments", [("--vocab-size", 0), ("--batch-tokens", 0)])
def test_impossible_plans(regard: Run, arguments: tuple[str, int]) -> None:
    for task in ("translate", "generate"):
        said = regard("plan", "tiny", "--task", task, *arguments)
        assert said.code == 2
        assert "must be at least 1" in said.err


def test_the_doctor_says_what_was_chosen_and_why(regard: Run) -> None:
    findings = {finding["what"]: finding for finding in json.loads(regard("doctor", "--json").out)}
    assert {"python", "regard", "device", "threads", "compile", "pictures", "disk"} <= set(findings)
    assert all(finding["value"] and finding["why"] for finding in findings.values())
    said = regard("doctor")
    for what, finding in findings.items():
        assert any(line.startswith(what) and finding["value"] in line for line in said.out.splitlines()) or (
            what == "disk"
        )


def test_threads_are_explained_in_one_way(regard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert "(torch's choice; OMP_NUM_THREADS sets another number)" in regard("doctor").out
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert "(as OMP_NUM_THREADS says)" in regard("doctor").out
    assert str(choose_threads()).endswith("(as OMP_NUM_THREADS says)")


@pytest.fixture
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer sentences of the same world: a model of a few steps writes endless nonsense, which is slow to score."""
    monkeypatch.setattr(translation, "SPLIT_SIZES", dict(train=600, validation=5, test=5, compositional=5))
    monkeypatch.setattr(world_scores, "pronoun_pairs", functools.partial(translation.pronoun_pairs, count=2))
    monkeypatch.setattr(world_scores, "ALIGNED", 5)
    monkeypatch.setattr(translate, "SCORED", 5)


@pytest.mark.usefixtures("small_world")
def test_the_demo_goes_from_nothing_to_a_report(regard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = regard("demo", "--minutes", 0.05)
    assert said.code == 0, said.err
    for row in ("BLEU, test", "BLEU, unseen combinations", "it → il/elle", "alignment error rate"):
        assert row in said.out
    assert "The animal did not cross the street because it was too wide." in said.out
    assert "  looked at: " in said.out
    report = tmp_path / "runs" / "demo" / "report.html"
    assert said.out.endswith(f"report  {report.relative_to(tmp_path)}\n")
    html = report.read_text(encoding="utf-8")
    assert "too wide" in html
    assert "decoder.1.cross" in html
    assert library.load(tmp_path / "runs" / "demo")("The cat sleeps.")

    again = regard("demo", "--minutes", 0.001, "--json")
    assert again.code == 0, "the demo replaces its own folder"
    found = json.loads(again.out)
    assert len(found["translations"]) == 4
    words = " ".join(link["target"] for link in found["links"])
    assert words.split() == re.findall(r"\w+'?|[^\w\s]", found["translations"][2]["translation"])


@pytest.mark.usefixtures("small_world")
@pytest.mark.skipif(os.name == "nt", reason="this system sends no POSIX signals")
def test_a_demo_that_was_stopped_says_how_to_begin_again(
    regard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: TranslateTask, indices: list[int]) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return real(self, indices)

    real = TranslateTask.loss
    monkeypatch.setattr(TranslateTask, "loss", interrupt)
    out = tmp_path / "a demo"
    said = regard("demo", "--minutes", 1, "--out", out)
    assert said.code == 130
    assert said.err.endswith(f"A demo begins anew: regard demo --out '{out}' --force\n")


@pytest.mark.usefixtures("small_world")
def test_the_demo_leaves_other_runs_alone(regard: Run, model: Path) -> None:
    before = (model / "model.safetensors").read_bytes()
    said = regard("demo", "--minutes", 0.001, "--out", model)
    assert said.code == 2
    assert "--force" in said.err
    assert (model / "model.safetensors").read_bytes() == before


def test_doctor_says_who_writes(regard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def writing() -> dict[str, str]:
        (found,) = [row for row in json.loads(regard("doctor", "--json").out) if row["what"] == "writing"]
        return dict(found)

    assert writing()["value"] == "compiled kernels"
    monkeypatch.setattr("regard.generation.backend.trouble", lambda: "RuntimeError: no such instruction")
    assert writing() == {
        "what": "writing",
        "value": "torch",
        "why": "the compiled kernels do not run here: RuntimeError: no such instruction",
    }
    monkeypatch.setenv("REGARD_BACKEND", "torch")
    assert writing()["why"] == "as REGARD_BACKEND says"
    monkeypatch.setattr("regard.training.choices.find_spec", lambda name: None)
    assert "numba is not installed" in writing()["why"]
