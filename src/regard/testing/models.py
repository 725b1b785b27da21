"""Checks of architectures, on small models with random weights."""

from __future__ import annotations

import functools
import importlib.util
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.generation.config import SearchConfig
from regard.generation.search import beam_search
from regard.models.heads import HEAD_KINDS, LABELLED, HeadConfig
from regard.nn.hooks import AttentionHook, addresses_of, capture
from regard.nn.state_dict import unique_tensors
from regard.spec import Architecture, resolve
from regard.testing.checks import Check, assert_same_weights, spec_needs_no_torch


def presets_are_valid(architecture: Architecture) -> None:
    """Every preset gives a valid config."""
    for settings in architecture.presets.values():
        architecture.config(**{**required_settings(architecture), **settings})


def heads_are_declared(architecture: Architecture) -> None:
    """The heads are capabilities, and include all kinds of head in regard that are capabilities."""
    assert architecture.capabilities.intersection(HEAD_KINDS) <= architecture.heads <= architecture.capabilities


def costs_count_parameters(architecture: Architecture) -> None:
    """The cost model predicts the number of parameters of a built model."""
    if architecture.cost_model is None:
        return
    config = smallest_config(architecture)
    built = sum(param.numel() for param in architecture.build(config).parameters())
    assert architecture.costs(config).parameters == built


def building_is_seeded(architecture: Architecture) -> None:
    """The same seed gives the same weights."""
    config = smallest_config(architecture)
    models = []
    for _ in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            models.append(architecture.build(config))
    assert_same_weights(*(unique_tensors(model) for model in models))


def required_settings(architecture: Architecture) -> dict[str, Any]:
    fields = architecture.config.model_fields
    return {name: 59 for name, info in fields.items() if info.is_required()}


def smallest_config(architecture: Architecture) -> Any:
    own = {key: value for key, value in architecture.test_settings.items() if key in architecture.config.model_fields}
    return architecture.config(**{**required_settings(architecture), **own})


class Tokens(NamedTuple):
    """Token ids: a source and a target, or the two segments of a pair."""

    source: list[int]
    target: list[int]


# Lengths 1 to 13, none a multiple of another.
TEXTS = [
    Tokens([3, 14, 15, 9, 26, 5, 30], [27, 18, 28, 18, 28]),
    Tokens([2], [7, 1, 8, 2, 8, 1, 8, 28, 4, 5, 9, 0, 4]),
    Tokens([16, 18, 0, 3, 3, 9, 8, 8, 7, 4, 9], [1]),
    Tokens([5, 7, 7], [2, 15, 6]),
]
START_ID, END_ID, NUM_NEW = 4, 6, 6  # settings of generation
DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class ModelCase:
    """A model with random weights. The capabilities of its architecture determine how it is called:

    | capability | call | output |
    |---|---|---|
    | encoder-decoder | `model(source, target, attention_mask=…)` | logits (B, T, V) |
    | decoder | `model(ids)` | logits (B, T, V) |
    | encoder, or a kind of head | `model(ids, lengths, type_ids)` | one or several of (B, T, …) and (B, …) |
    """

    architecture: Architecture
    config: Any
    head: HeadConfig | None = None
    dtype: torch.dtype = torch.float32

    @cached_property
    def model(self) -> Any:
        model = self.architecture.build(self.config, self.head)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            for parameter in model.parameters():  # including those that start at zero
                parameter.normal_(mean=float(parameter.dim() == 1), std=0.3)
        return model.to(self.dtype).eval()

    @property
    def has_source(self) -> bool:
        return "encoder-decoder" in self.architecture.capabilities

    @property
    def generates(self) -> bool:
        return self.architecture.decoder_builder is not None

    def run(self, texts: Sequence[Tokens], padding: int = 0) -> list[Tensor]:
        """Return the flattened outputs of each text without padding. `padding` adds columns to the batch."""
        if self.has_source:
            source, lengths = batch([text.source for text in texts], padding)
            is_token = torch.arange(source.shape[1]) < lengths[:, None]
            target, counts = batch([text.target for text in texts], padding)
            found = self.model(source, target, attention_mask=is_token)
        elif "decoder" in self.architecture.capabilities:
            ids, counts = batch([text.target for text in texts], padding)
            found = self.model(ids)
        else:
            ids, counts = batch([text.source + text.target for text in texts], padding)
            types = torch.arange(ids.shape[1]) >= torch.tensor([len(text.source) for text in texts])[:, None]
            found = self.model(ids, counts, types.long())
        parts = [part for part in ([found] if isinstance(found, Tensor) else found) if part is not None]
        return [
            torch.cat([(part[row] if part.dim() == 2 else part[row, :count]).flatten() for part in parts])
            for row, count in enumerate(counts.tolist())
        ]

    @property
    def has_backends(self) -> bool:
        """Return whether the decoder can run on the compiled kernels."""
        return "backend" in inspect.signature(resolve(self.architecture.decoder_builder or "")).parameters

    def decoder(self, backend: str = "torch", start_id: int = START_ID) -> Any:
        options: dict[str, Any] = {"start_id": start_id} if self.has_source else {}
        return self.architecture.decoder(self.model, **options, **({"backend": backend} if self.has_backends else {}))

    def decode(self, text: Tokens, backend: str = "torch") -> Tensor:
        """Return the logits of one text, as from `run`, but computed token by token."""
        first, *rest = text.target
        decoder, prompt = self.decoder(backend, first), text.source if self.has_source else [first]
        parts = [decoder.prefill(torch.tensor([prompt]), torch.tensor([len(prompt)]))]
        return torch.cat(parts + [decoder.step(torch.tensor([id_])) for id_ in rest]).flatten()

    def prompts(self, texts: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
        return batch([text.source if self.has_source else text.target for text in texts], 0)

    def continue_texts(self, texts: Sequence[Tokens], backend: str = "torch") -> list[Tensor]:
        """Return the logits of the first two new tokens of each text."""
        decoder = self.decoder(backend)
        first = decoder.prefill(*self.prompts(texts))
        return list(torch.cat([first, decoder.step(torch.full((len(texts),), 3))], dim=1))

    def assert_near(self, found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
        """Assert that tensors are equal within 1e-5 (fp32) or 1e-10 (fp64) of the largest value."""
        tolerance = 1e-5 if self.dtype is torch.float32 else 1e-10
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            difference, largest = (one - other).abs().max(), other.abs().max()
            assert difference <= tolerance * largest, f"{difference:.2e} of {largest:.2e}"


def batch(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Return padded ids and row lengths. The padding id is an ordinary token, so that a wrong mask changes outputs."""
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max()) + padding
    return torch.tensor([[*row, *[1] * (width - len(row))] for row in rows]), lengths


@torch.no_grad()
def captured_equals_uncaptured(case: ModelCase) -> None:
    """Capturing attention changes no bit of the outputs, and captures every attention."""
    if "attention" not in case.architecture.capabilities:
        return
    plain = case.run(TEXTS)
    with capture(case.model) as trace:
        captured = case.run(TEXTS)
    assert all(torch.equal(one, other) for one, other in zip(plain, captured, strict=True))
    hooks = {at for hook, at in addresses_of(case.model).items() if isinstance(hook, AttentionHook)}
    assert set(trace.captured) == hooks
    for address in hooks:
        sums = trace[address].weights().sum(dim=-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-5, rtol=0)


@torch.no_grad()
def padded_equals_unpadded(case: ModelCase) -> None:
    """Neither padding nor other texts in the batch change the outputs of a text, up to rounding."""
    alone = [case.run([text])[0] for text in TEXTS]
    for padding in (0, 1, 7):
        case.assert_near(case.run(TEXTS, padding), alone)
    case.assert_near(case.run(TEXTS[::-1])[::-1], alone)
    if case.generates:
        case.assert_near(case.continue_texts(TEXTS), [case.continue_texts([text])[0] for text in TEXTS])


@torch.no_grad()
def later_tokens_change_nothing(case: ModelCase) -> None:
    """The outputs of a decoder up to a position do not depend on later tokens: they are bitwise identical."""
    for text in TEXTS if case.generates else ():
        count = len(text.target)
        before = case.run([text])[0].view(count, -1)
        for t in range(count - 1):
            changed = [*text.target[: t + 1], text.target[t + 1] + 1, *text.target[t + 2 :]]
            after = case.run([text._replace(target=changed)])[0].view(count, -1)
            assert torch.equal(before[: t + 1], after[: t + 1]), f"position {t} depends on position {t + 1}"
            assert not torch.equal(before[t + 1], after[t + 1]), f"position {t + 1} does not depend on its token"


@torch.no_grad()
def cached_equals_uncached(case: ModelCase) -> None:
    """Decoding token by token gives the same logits as one forward pass over the text, up to rounding."""
    if case.generates:
        case.assert_near([case.decode(text) for text in TEXTS], [case.run([text])[0] for text in TEXTS])


@torch.no_grad()
def compiled_equals_torch(case: ModelCase) -> None:
    """The compiled decoder, if the architecture has one, gives the same logits as torch, up to rounding."""
    if case.generates and case.has_backends and case.dtype is torch.float32 and importlib.util.find_spec("numba"):
        case.assert_near([case.decode(text, "kernels") for text in TEXTS], [case.run([text])[0] for text in TEXTS])
        case.assert_near(case.continue_texts(TEXTS, "kernels"), case.continue_texts(TEXTS))


@torch.no_grad()
def beam_1_equals_greedy(case: ModelCase) -> None:
    """Beam search with one beam chooses the most probable token at each step."""
    if not case.generates:
        return
    ids, lengths = case.prompts(TEXTS)
    config = SearchConfig(num_beams=1, max_new_tokens=NUM_NEW)
    found = beam_search(case.decoder(), ids, lengths, end_id=END_ID, config=config)
    decoder = case.decoder()
    chosen = [decoder.prefill(ids, lengths).argmax(dim=-1)]
    while len(chosen) < NUM_NEW:
        chosen.append(decoder.step(chosen[-1]).argmax(dim=-1))
    for (best,), row in zip(found, torch.stack(chosen, dim=1).tolist(), strict=True):
        assert list(best.ids) == row[: row.index(END_ID) if END_ID in row else None]


def every_parameter_has_a_gradient(case: ModelCase) -> None:
    """The outputs depend on every parameter. Skipped for an encoder without a head, which may not use its pooler."""
    if case.head is not None and case.head.kind == "none":
        return
    outputs = torch.cat(case.run(TEXTS))
    parameters = dict(case.model.named_parameters())
    gradients = torch.autograd.grad(outputs.square().sum(), list(parameters.values()), allow_unused=True)
    for name, gradient in zip(parameters, gradients, strict=True):
        assert gradient is not None and gradient.isfinite().all() and gradient.any(), f"{name} has no gradient"


MODEL_CHECKS: list[Check] = [
    captured_equals_uncaptured,
    padded_equals_unpadded,
    later_tokens_change_nothing,
    cached_equals_uncached,
    compiled_equals_torch,
    beam_1_equals_greedy,
    every_parameter_has_a_gradient,
]


def model_cases(architecture: Architecture) -> list[ModelCase]:
    """Return the smallest model of an architecture with each kind of head it supports, in fp32 and fp64."""
    kinds = sorted(architecture.heads)
    heads: list[HeadConfig | None] = [
        HeadConfig(kind=kind, labels=("a", "b", "c") if kind in LABELLED else ())
        for kind in (["none", *kinds] if "encoder" in architecture.capabilities else kinds)
    ]
    config = smallest_config(architecture)
    return [ModelCase(architecture, config, head, dtype) for head in heads or [None] for dtype in DTYPES]


def for_all_models(check: Check) -> Check:
    """Turn a check of one model into a check of all models of an architecture."""

    @functools.wraps(check)
    def run(architecture: Architecture) -> None:
        for case in model_cases(architecture):
            check(case)

    return run


# Functions that raise AssertionError if an `Architecture` fails.
ARCHITECTURE_CHECKS: list[Check] = [spec_needs_no_torch, presets_are_valid, heads_are_declared]
ARCHITECTURE_CHECKS += [costs_count_parameters, building_is_seeded]
ARCHITECTURE_CHECKS += [for_all_models(check) for check in MODEL_CHECKS]
