"""The input of an encoder: three embeddings added by hand in float64, compared with the model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.inspection.views import input_sums
from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert, BertForPretraining, BertForSequenceClassification
from regard.models.heads import HeadConfig
from regard.nn.hooks import observe
from regard.nn.quantized import quantize_weights
from regard.tasks.embed.predictor import Embedder
from regard.tasks.encoder.predictor import collate
from regard.tasks.fill.predictor import MaskFiller
from regard.tasks.pair.predictor import PairClassifier
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

TOKENIZER = train_tokenizer(
    ["my dog is cute he likes playing"] * 5,
    kind="wordpiece",
    vocab_size=60,
    special_tokens=SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]"),
)


def test_only_models_that_declare_summed_embeddings_have_the_view(monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Embedder(Bert(config()), TOKENIZER)
    assert "inputs" in regard.views_of(embedder)
    others = embedder.capabilities - {"summed_embeddings"}
    monkeypatch.setattr(Embedder, "capabilities", others)
    assert {"encoder", "pairs"} <= others and "inputs" not in regard.views_of(embedder)


def config(**changes: int) -> BertConfig:
    shape = dict(num_layers=1, d_model=14, d_ff=20, num_heads=2, head_dim=7, context_length=30)
    return BertConfig(**{"vocab_size": TOKENIZER.vocab_size, **shape, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    torch.manual_seed(0)
    bert = Bert(config())
    for param in bert.parameters():
        torch.nn.init.normal_(param, mean=float(param.dim() == 1), std=0.5)
    return Embedder(bert, TOKENIZER)


@pytest.mark.parametrize("text", ["my dog is cute", ("my dog is cute", "he likes playing")])
def test_m145_the_sum_of_three_tables_normalized(embedder: Embedder, text: str | tuple[str, str]) -> None:
    found = input_sums(embedder, text)
    tables = {name: part.detach().double().numpy() for name, part in embedder.bert.embedding.named_parameters()}
    ids, segments = np.array(found.ids), np.array(found.segments)
    total = tables["weight"][ids] + tables["token_types.weight"][segments] + tables["positions.weight"][: len(ids)]
    np.testing.assert_allclose(found.sums, total, atol=1e-5)
    centered = total - total.mean(axis=1, keepdims=True)
    normal = centered / np.sqrt((centered**2).mean(axis=1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(found.normalized, normal * tables["norm.weight"] + tables["norm.bias"], atol=1e-5)
    with torch.no_grad(), observe(embedder.bert, "embedding") as seen:
        embedder.bert(*collate([embedder.encode_input(text)], TOKENIZER.pad_id, torch.device("cpu")))
    np.testing.assert_allclose(found.normalized, seen["embedding"][0].numpy(), atol=1e-6)


def test_m145_the_first_segment_ends_with_its_separator(embedder: Embedder) -> None:
    found = input_sums(embedder, ("my dog", "he likes"))
    split = list(found.tokens).index("[SEP]") + 1
    assert list(found.segments) == [0] * split + [1] * (len(found.tokens) - split)
    assert (found.tokens[0], found.tokens[-1]) == ("[CLS]", "[SEP]")
    assert set(input_sums(embedder, "my dog").segments) == {0}
    assert found.lines()[1].split() == ["[CLS]", str(TOKENIZER.start_id), "A", "0"]
    assert found.lines()[-1].split() == ["[SEP]", str(TOKENIZER.end_id), "B", str(len(found.tokens) - 1)]


def test_mask_tokens_stay_single_tokens() -> None:
    torch.manual_seed(0)
    special_tokens = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]", mask="[MASK]")
    tokenizer = train_tokenizer(["my dog is cute"] * 5, kind="wordpiece", vocab_size=60, special_tokens=special_tokens)
    filler = MaskFiller(BertForPretraining(config(vocab_size=tokenizer.vocab_size)), tokenizer)
    for text in ("my [MASK] is cute", ("my [MASK]", "is [MASK] cute")):
        found = input_sums(filler, text)
        assert list(found.tokens).count("[MASK]") == (1 if isinstance(text, str) else 2)
        assert list(found.tokens) == list(filler.trace(text).labels("encoder.0.self")[0])


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_quantized_weights_have_nearly_the_same_sums(embedder: Embedder, precision: Any) -> None:
    quantized = copy.deepcopy(embedder)
    quantize_weights(quantized.model, precision)
    plain, found = input_sums(embedder, "my dog").sums, input_sums(quantized, "my dog").sums
    assert np.abs(found - plain).max() < 0.2 * np.abs(plain).max()


def test_a_model_with_a_head_and_one_with_a_single_token_type() -> None:
    head = HeadConfig(kind="sequence_classification", labels=("a", "b"))
    classifier = PairClassifier(BertForSequenceClassification(config(), 2), TOKENIZER, head=head)
    assert input_sums(classifier, ("my dog", "he likes")).segments[-1] == 1
    with pytest.raises(UsageError) as error:
        input_sums(Embedder(Bert(config(type_vocab_size=1)), TOKENIZER), ("my dog", "he likes"))
    assert error.value.argument == "type_vocab_size"
