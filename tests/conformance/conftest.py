"""All models of regard, small and with random weights, and functions that run them. Register new models here.

`test_models.py` runs the same checks for every entry of REGISTERED: captured = uncaptured, batched = single,
padded = unpadded, cached = uncached, saved = loaded, and no dependence on later tokens. An entry builds its model and
runs it on texts of different lengths. Checks that do not apply, such as the cache of an encoder, are skipped because
the entry has no function for them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from regard.generation.compiled.decoder import CompiledGPTDecoder, CompiledSeq2SeqDecoder
from regard.models.bert.config import BertConfig
from regard.models.bert.model import (
    Bert,
    BertForPretraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from regard.models.gpt.config import GPT2, LLAMA, GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import MODERN, TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks

VOCABULARY = 53
SOURCE_VOCABULARY = 31


class TokenIds(NamedTuple):
    """Ids of one example: source, and target so far."""

    source: list[int]
    target: list[int]


# Texts of different lengths, from 1 to 13. All ids are in both vocabularies.
TEXTS = [
    TokenIds([3, 14, 15, 9, 26, 5, 30], [27, 18, 28, 18, 28]),
    TokenIds([2], [7, 1, 8, 2, 8, 1, 8, 28, 4, 5, 9, 0, 4]),
    TokenIds([16, 18, 0, 3, 3, 9, 8, 8, 7, 4, 9], [1]),
    TokenIds([5, 7, 7], [2, 15, 6]),
]


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A model and the functions that run it."""

    name: str
    config: Any
    build: Callable[[Any], nn.Module]  # from `config`
    # Outputs of each text without padding. All texts run in one batch, with `padding` additional columns.
    run: Callable[[Any, Sequence[TokenIds], int], list[Tensor]]
    # Outputs of one text whose target is given in chunks of these sizes; None for models that do not generate.
    run_cached: Callable[[Any, TokenIds, Sequence[int]], Tensor] | None = None
    # The same with the compiled decoder, token by token; None if there is none.
    run_compiled: Callable[[Any, TokenIds], Tensor] | None = None


def run_transformer(model: Transformer, texts: Sequence[TokenIds], padding: int) -> list[Tensor]:
    source, source_lengths = batch([text.source for text in texts], padding)
    target, _ = batch([text.target for text in texts], padding)
    logits = model(source, target, masks.lengths(source_lengths))
    return [row[: len(text.target)] for row, text in zip(logits, texts, strict=True)]


def run_transformer_cached(model: Transformer, text: TokenIds, sizes: Sequence[int]) -> Tensor:
    mask, caches = masks.lengths(torch.tensor([len(text.source)])), model.new_caches()
    memory = model.encode(torch.tensor([text.source]), mask)
    parts = []
    for chunk in torch.tensor([text.target]).split(list(sizes), dim=1):
        parts.append(model.logits(model.decode(chunk, memory, mask, caches=caches))[0])
        memory = None  # now in the cache
    return torch.cat(parts)


def run_transformer_compiled(model: Transformer, text: TokenIds) -> Tensor:
    first, *rest = text.target
    decoder = CompiledSeq2SeqDecoder(model, start_id=first)
    parts = [decoder.prefill(torch.tensor([text.source]), torch.tensor([len(text.source)]))]
    return torch.cat(parts + [decoder.step(torch.tensor([id_])) for id_ in rest])


def batch(rows: Sequence[list[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Return padded ids (B, T) and lengths (B,). The padding is the id of an ordinary token."""
    lengths = torch.tensor([len(row) for row in rows])
    ids = torch.full((len(rows), int(lengths.max()) + padding), 1)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    return ids, lengths


def transformer(name: str, **settings: Any) -> Registered:
    small = dict(
        vocab_size=VOCABULARY,
        num_encoder_layers=2,
        num_decoder_layers=3,
        d_model=22,
        d_ff=37,
        num_heads=3,
        head_dim=6,
        dropout=0.1,
    )
    config = TransformerConfig(**small | settings)
    return Registered(
        name=name,
        config=config,
        build=Transformer,
        run=run_transformer,
        run_cached=run_transformer_cached,
        run_compiled=run_transformer_compiled,
    )


def run_gpt(model: GPT, texts: Sequence[TokenIds], padding: int) -> list[Tensor]:
    ids, _ = batch([text.target for text in texts], padding)
    return [row[: len(text.target)] for row, text in zip(model(ids), texts, strict=True)]


def run_gpt_cached(model: GPT, text: TokenIds, sizes: Sequence[int]) -> Tensor:
    caches = model.new_caches()
    chunks = torch.tensor([text.target]).split(list(sizes), dim=1)
    return torch.cat([model.logits(model.decode(chunk, caches=caches))[0] for chunk in chunks])


def run_gpt_compiled(model: GPT, text: TokenIds) -> Tensor:
    first, *rest = text.target
    decoder = CompiledGPTDecoder(model)
    parts = [decoder.prefill(torch.tensor([[first]]), torch.tensor([1]))]
    return torch.cat(parts + [decoder.step(torch.tensor([id_])) for id_ in rest])


def gpt(name: str, **settings: Any) -> Registered:
    small = dict(vocab_size=VOCABULARY, num_layers=3, d_model=22, d_ff=37, num_heads=4, head_dim=6, context_length=29)
    config = GPTConfig(**small | settings)
    return Registered(
        name=name,
        config=config,
        build=GPT,
        run=run_gpt,
        run_cached=run_gpt_cached,
        run_compiled=run_gpt_compiled,
    )


def of_pretraining(model: BertForPretraining, *inputs: Tensor) -> Tensor:
    """Return the logits of both heads in one tensor: (B, T, V + 2) if the model has both."""
    mlm, nsp = model(*inputs)
    if nsp is None:
        return mlm
    nsp = nsp[:, None].expand(-1, inputs[0].shape[1], -1)
    return nsp if mlm is None else torch.cat((mlm, nsp), dim=-1)


def of_encoder(model: Bert, *inputs: Tensor) -> Tensor:
    """Return hidden states and pooled output in one tensor: (B, T, 2 · D) with a pooler, otherwise (B, T, D)."""
    hidden = model(*inputs)
    if model.pooler is None:
        return hidden
    return torch.cat((hidden, model.pool(hidden)[:, None].expand_as(hidden)), dim=-1)


def bert(
    name: str,
    build: Callable[[BertConfig], nn.Module],
    out: Callable[..., Tensor] = lambda model, *inputs: model(*inputs),
    **settings: Any,
) -> Registered:
    """Register a BERT. Source and target of a text become a pair with token types 0 and 1."""

    def run(model: nn.Module, texts: Sequence[TokenIds], padding: int) -> list[Tensor]:
        ids, lengths = batch([text.source + text.target for text in texts], padding)
        segments = (torch.arange(ids.shape[1]) >= torch.tensor([len(text.source) for text in texts])[:, None]).long()
        found = out(model, ids, lengths, segments)
        whole = found.dim() == 2  # one output per text
        return [row if whole else row[:length] for row, length in zip(found, lengths.tolist(), strict=True)]

    small = dict(vocab_size=VOCABULARY, num_layers=3, d_model=22, d_ff=37, num_heads=4, head_dim=6, context_length=29)
    return Registered(name=name, config=BertConfig(**small | settings), build=build, run=run)


REGISTERED = [
    bert("bert", Bert, of_encoder),
    bert("bert-no-pooler", Bert, of_encoder, pooler=False),
    bert("bert-pruned", Bert, of_encoder, num_heads_by_layer={"encoder.1.self": 1}),
    bert("bert-pretraining", BertForPretraining, of_pretraining),
    bert("bert-mlm", lambda config: BertForPretraining(config, nsp=False), of_pretraining, pooler=False),
    bert("bert-nsp", lambda config: BertForPretraining(config, mlm=False), of_pretraining),
    bert("bert-sequence-classification", lambda config: BertForSequenceClassification(config, 3)),
    bert("bert-token-classification", lambda config: BertForTokenClassification(config, 5), pooler=False),
    bert("bert-question-answering", BertForQuestionAnswering, pooler=False),
    gpt("gpt"),
    gpt(
        "gpt-2",
        **{name: value for name, value in GPT2.items() if name not in ("vocab_size", "context_length", "head_dim")},
    ),
    gpt("gpt-llama", **LLAMA, num_kv_heads=2),
    gpt("gpt-qwen", **LLAMA | {"qk_norm": True}, num_kv_heads=1),
    gpt("gpt-capped", logit_softcap=5.0, tie_embeddings=True),
    gpt("gpt-pruned", num_heads_by_layer={"decoder.1.self": 1}),
    gpt("gpt-no-positions", positions="none", norm="layer"),
    transformer("transformer-modern", **MODERN),
    transformer("transformer-paper"),
    transformer(
        "transformer-pruned", num_heads_by_layer={"encoder.1.self": 1, "decoder.0.self": 2, "decoder.2.cross": 5}
    ),
    transformer("transformer-separate-vocabularies", source_vocab_size=SOURCE_VOCABULARY),
    transformer("transformer-untied", tie_embeddings=False, output_bias=True),
    transformer("transformer-marian", position_layout="halves", activation="silu", output_bias=True),
    transformer("transformer-learned-positions", positions="learned", max_positions=29),
    transformer("transformer-rotary-positions", positions="rotary"),
    transformer("transformer-no-positions", positions="none"),
    transformer("transformer-rms-norm", norm="rms", norm_placement="pre", final_norm=True),
    transformer("transformer-normalized-queries", **MODERN, qk_norm=True),
    transformer("transformer-swiglu", activation="swiglu"),
    transformer("transformer-gelu", activation="gelu", norm_placement="pre"),
]


class Case(NamedTuple):
    """A registered model with weights in one dtype, and the tolerance for its outputs."""

    registered: Registered
    model: nn.Module
    tolerance: float  # relative to the largest absolute value

    def run(self, texts: Sequence[TokenIds], padding: int = 0) -> list[Tensor]:
        return self.registered.run(self.model, texts, padding)

    def assert_near(self, found: Tensor, expected: Tensor) -> None:
        assert found.shape == expected.shape
        error = (found - expected).abs().max().item() / expected.abs().max().item()
        assert error <= self.tolerance


_built: dict[str, nn.Module] = {}


def build(registered: Registered) -> nn.Module:
    """Build the model and make all parameters random, because those that start at zero would have no effect."""
    if registered.name not in _built:
        torch.manual_seed(0)
        model = registered.build(registered.config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                is_vector = parameter.dim() == 1
                parameter.normal_(mean=float(is_vector), std=0.3)
        _built[registered.name] = model
    return copy.deepcopy(_built[registered.name])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`case` runs over models and dtypes, `text_generator` over the models that have a cache."""
    for fixture, entries in (("case", REGISTERED), ("text_generator", [r for r in REGISTERED if r.run_cached])):
        if fixture in metafunc.fixturenames:
            pairs = [(entry, dtype) for entry in entries for dtype in (torch.float32, torch.float64)]
            ids = [f"{entry.name}-{'fp32' if dtype is torch.float32 else 'fp64'}" for entry, dtype in pairs]
            metafunc.parametrize(fixture, pairs, ids=ids, indirect=True)


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    registered, dtype = request.param
    return Case(registered, build(registered).to(dtype), 1e-5 if dtype is torch.float32 else 1e-10)


text_generator = case


@pytest.fixture
def texts() -> list[TokenIds]:
    return list(TEXTS)
