"""What trainings on BERT agree on before they begin: how long, what is refused, and what of a folder's model learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import regard
from regard.checkpoint.folder import own_tensors, write_model
from regard.errors import UsageError
from regard.models.bert import Bert
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.tasks.classify import make_classifier_model
from regard.tasks.embed import Embedder
from regard.text.training import train_tokenizer
from regard.training.encoders import SYMBOLS, Request, usual_epochs
from regard.training.options import RunOptions


def request_for(tmp_path: Path, **settings: Any) -> Request:
    return Request.check(settings, tmp_path / "run", size=None, from_=None, lora=False, options=RunOptions())


@pytest.mark.parametrize(("steps", "epochs"), [(1, 40), (2, 40), (8, 38), (30, 10), (100, 3), (5000, 3)])
def test_few_examples_are_seen_more_often(steps: int, epochs: int) -> None:
    assert usual_epochs(steps) == epochs


@pytest.mark.parametrize(
    ("settings", "steps", "keep"),
    [({}, 300, "best"), ({"epochs": 2}, 20, "best"), ({"steps": 7}, 7, "best"), ({"keep": "last"}, 300, "last")],
)
def test_the_budget_of_a_new_model(tmp_path: Path, settings: dict[str, Any], steps: int, keep: str) -> None:
    budget = request_for(tmp_path, **settings).budget(320, tmp_path / "run", resume=False)
    assert (budget.config.steps, budget.config.keep) == (steps, keep)
    assert budget.config.warmup_steps == max(1, steps // 10)


@pytest.mark.parametrize(("given", "keep"), [({}, "best"), ({"keep": "last"}, "last")])
def test_m150_whoever_is_patient_keeps_the_best(given: dict[str, str], keep: str, tmp_path: Path) -> None:
    bert = Bert(BertConfig(vocab_size=20, layers=1, width=8, hidden=8, heads=2, head_width=4, context=16))
    tokenizer = train_tokenizer(["a b c d"] * 3, kind="wordpiece", vocab_size=20, symbols=SYMBOLS)
    contents = Embedder(bert, tokenizer).contents()
    write_model(tmp_path / "bert", config=contents.config, tensors=own_tensors(bert), texts=contents.texts)
    for patience, kept in ((0, given.get("keep", "last")), (2, keep)):
        request = Request.check(
            {"patience": patience, **given},
            tmp_path / "run",
            size=None,
            from_=tmp_path / "bert",
            lora=False,
            options=RunOptions(),
        )
        assert request.training["keep"] == kept


@pytest.mark.parametrize(
    ("wrong", "advice"), [({"label_smoothing": 0.1}, "plain cross-entropy"), ({"batch_tokens": 512}, "Give batch_rows")]
)
def test_settings_of_other_trainings_are_refused(wrong: dict[str, Any], advice: str, tmp_path: Path) -> None:
    for task in ("classify", "pair", "tag", "answer"):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))} is not for trainings on labels: .*{advice}"):
            regard.train(task, out=tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()
    assert request_for(tmp_path, label_smoothing=0.0), "none of it is what is done anyway"


HEAD = HeadConfig(kind="sequence", labels=("bad", "good"))


@pytest.mark.parametrize("pooler", [True, False])
@pytest.mark.parametrize("way", ["freeze", "lora", "lora on all", "whole"])
def test_m149_a_pooler_that_was_not_there_learns(way: str, pooler: bool, tmp_path: Path) -> None:
    """It is as random as the head above it, whatever of the encoder stays as it is."""
    tokenizer = train_tokenizer(["a b c d"] * 3, kind="wordpiece", vocab_size=20, symbols=SYMBOLS)
    shape = dict(layers=1, width=8, hidden=8, heads=2, head_width=4, context=16, pooler=pooler)
    bert = Bert(BertConfig(vocab_size=tokenizer.vocab_size, **shape))  # type: ignore[arg-type]
    contents = Embedder(bert, tokenizer).contents()
    write_model(tmp_path / "bert", config=contents.config, tensors=own_tensors(bert), texts=contents.texts)
    settings: dict[str, Any] = {
        "freeze": {"freeze": "encoder"},
        "lora": {"lora_rank": 2},
        "lora on all": {"lora_rank": 2, "lora_on": "all"},
        "whole": {},
    }[way]
    request = Request.check(
        settings, tmp_path / "run", size=None, from_=tmp_path / "bert", lora="lora" in way, options=RunOptions()
    )
    ready = request.model_for(HEAD, make_classifier_model, ["a b"], seed=0)
    model = ready.model
    assert model.head.output.weight.requires_grad
    assert model.bert.pooler is not None
    assert model.bert.pooler.weight.requires_grad is (not pooler or way == "whole")
    assert model.bert.encoder[0].feed_forward.widen.weight.requires_grad is (way == "whole")
    assert ready.beginning is not None
    weights = ready.beginning.close(model, tmp_path / "run")
    assert {name for name in weights.tensors if "pooler" in name} == {"bert.pooler.weight", "bert.pooler.bias"}
