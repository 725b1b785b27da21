"""The mask, the target and the loss of each position of a language model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.inspection.views import causal_training
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.tasks.generate.predictor import TextGenerator
from regard.tasks.score.predictor import TextScorer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError
from regard.views.tokens import CausalTraining, causal_view

TEXT = "a bad cab faced"


@pytest.fixture(scope="module")
def text_generator() -> TextGenerator:
    tokenizer = train_tokenizer([TEXT], kind="char", vocab_size=100)
    torch.manual_seed(0)
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size, context_length=11, num_layers=2, d_model=14, num_heads=2, head_dim=6, d_ff=17
    )
    model = GPT(config)
    for param in model.parameters():
        torch.nn.init.normal_(param, std=0.4)
    return TextGenerator(model, tokenizer)


def test_m95_a_triangle_with_targets_and_losses(text_generator: TextGenerator) -> None:
    training = causal_training(text_generator, "a bad cab")
    assert list(training.tokens) == list("a bad cab")
    assert (training.mask == np.tri(9, dtype=bool)).all()
    # Each loss alone: the probability of the next character after a text that ends there.
    ids = text_generator.tokenizer.encode("a bad cab")
    for place, loss in enumerate(training.losses):
        with torch.no_grad():
            logits = text_generator.model(torch.tensor([ids[: place + 1]]))[0, -1]
        assert loss == pytest.approx(-logits.log_softmax(-1)[ids[place + 1]].item(), abs=1e-5)
    assert training.loss == pytest.approx(TextScorer.adapt(text_generator)("a bad cab").loss, abs=1e-5)


def test_m95_loss_positions_are_listed(text_generator: TextGenerator) -> None:
    training = causal_training(text_generator, "a bad cab")
    lines = training.lines()
    assert len(lines) == 10
    assert "■ · · · · · · · ·  → ␣" in lines[0]
    assert "■ ■ ■ ■ ■ ■ ■ ■ ■  " in lines[8] and "→" not in lines[8]
    assert lines[-1] == f"mean loss {training.loss:.3f} over 8 positions"
    numbers = training.numbers()
    assert numbers["targets"] == [*" bad cab", None]
    assert numbers["losses"][-1] is None


def test_the_picture_follows_the_models_own_mask(text_generator: TextGenerator) -> None:
    from regard.nn import masks

    model = GPT(text_generator.model.config)
    model.mask = masks.no_mask()
    assert causal_training(TextGenerator(model, text_generator.tokenizer), "a bad").mask.all()


def test_a_long_text_ends_with_the_context(text_generator: TextGenerator) -> None:
    assert len(causal_training(text_generator, TEXT).tokens) == 11


def test_bad_arguments(text_generator: TextGenerator) -> None:
    with pytest.raises(UsageError) as error:
        causal_training(text_generator, "a")
    assert (error.value.argument, error.value.value) == ("inputs", "a")
    with pytest.raises(UsageError) as error:
        CausalTraining(tokens=["a", "b", "c"], mask=np.ones((2, 2), dtype=bool), losses=[1.0])
    assert (error.value.argument, error.value.value) == ("tokens", 3)


def test_the_page_and_its_picture(text_generator: TextGenerator) -> None:
    view = causal_view(causal_training(text_generator, "a bad cab"), title="<i>a bad cab</i>")
    assert view.data["mask"][2] == [1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert view.data["tokens"] == [c if c != " " else "␣" for c in "a bad cab"]
    assert "<i>a bad" not in view.html()
    svg = view.svg()
    assert svg.count("<rect") >= 81 + 8
    assert svg.count("no target") == 1


def test_only_the_first_positions_are_drawn() -> None:
    count = 80
    training = CausalTraining(tokens=["x"] * count, mask=np.tri(count, dtype=bool), losses=[1.0] * (count - 1))
    view = causal_view(training, title="long")
    assert (view.data["shown"], view.data["count"], len(view.data["mask"])) == (64, 80, 64)
    assert "no target" not in view.svg()
