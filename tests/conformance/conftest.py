"""Variants of the built-in architectures, small and with random weights. Add a config variant here.

`test_models.py` runs the model checks of `regard.testing` on each variant, in fp32 and fp64.
"""

from __future__ import annotations

from typing import Any

import pytest

from regard.models.gpt.config import GPT2, LLAMA
from regard.models.heads import LABELLED, HeadConfig
from regard.models.transformer.config import MODERN
from regard.registry import architectures
from regard.testing.models import DTYPES, ModelCase

SMALL: dict[str, dict[str, Any]] = {
    "transformer": dict(
        num_encoder_layers=2, num_decoder_layers=3, d_model=22, d_ff=37, num_heads=3, head_dim=6, dropout=0.1
    ),
    "gpt": dict(num_layers=3, d_model=22, d_ff=37, num_heads=4, head_dim=6, context_length=29),
    "bert": dict(num_layers=3, d_model=22, d_ff=37, num_heads=4, head_dim=6, context_length=29),
}
GPT2_BLOCKS = {name: value for name, value in GPT2.items() if name not in ("vocab_size", "context_length", "head_dim")}

# Name → settings; the architecture is the first word of the name. `head` is the kind of head.
VARIANTS: dict[str, dict[str, Any]] = {
    "bert": dict(head="none"),
    "bert-no-pooler": dict(head="none", pooler=False),
    "bert-pruned": dict(head="none", num_heads_by_layer={"encoder.1.self": 1}),
    "bert-pretraining": dict(head="pretraining"),
    "bert-mlm": dict(head="mlm", pooler=False),
    "bert-nsp": dict(head="nsp"),
    "bert-sequence": dict(head="sequence_classification"),
    "bert-tokens": dict(head="token_classification", pooler=False),
    "bert-spans": dict(head="question_answering", pooler=False),
    "gpt": {},
    "gpt-2": GPT2_BLOCKS,
    "gpt-llama": {**LLAMA, "num_kv_heads": 2},
    "gpt-qwen": {**LLAMA, "qk_norm": True, "num_kv_heads": 1},
    "gpt-capped": dict(logit_softcap=5.0, tie_embeddings=True),
    "gpt-pruned": dict(num_heads_by_layer={"decoder.1.self": 1}),
    "gpt-no-positions": dict(positions="none", norm="layer"),
    "transformer-modern": MODERN,
    "transformer-paper": {},
    "transformer-pruned": dict(
        num_heads_by_layer={"encoder.1.self": 1, "decoder.0.self": 2, "decoder.2.cross": 5},
    ),
    "transformer-separate-vocabularies": dict(source_vocab_size=31),
    "transformer-untied": dict(tie_embeddings=False, output_bias=True),
    "transformer-marian": dict(position_layout="halves", activation="silu", output_bias=True),
    "transformer-learned-positions": dict(positions="learned", max_positions=29),
    "transformer-rotary-positions": dict(positions="rotary"),
    "transformer-no-positions": dict(positions="none"),
    "transformer-rms-norm": dict(norm="rms", norm_placement="pre", final_norm=True),
    "transformer-normalized-queries": {**MODERN, "qk_norm": True},
    "transformer-swiglu": dict(activation="swiglu"),
    "transformer-gelu": dict(activation="gelu", norm_placement="pre"),
}


def variant(name: str, dtype: Any) -> ModelCase:
    architecture, settings = architectures[name.partition("-")[0]], dict(VARIANTS[name])
    kind = settings.pop("head", None)
    head = None if kind is None else HeadConfig(kind=kind, labels=("a", "b", "c") if kind in LABELLED else ())
    config = architecture.config(**{"vocab_size": 53, **SMALL[architecture.name], **settings})
    return ModelCase(architecture, config, head, dtype)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`case` is each variant in each dtype, `text_generator` only those that generate."""
    for fixture in {"case", "text_generator"} & set(metafunc.fixturenames):
        cases = {(name, dtype): variant(name, dtype) for name in VARIANTS for dtype in DTYPES}
        chosen = {key: case for key, case in cases.items() if fixture == "case" or case.generates}
        ids = [f"{name}-{str(dtype).removeprefix('torch.')}" for name, dtype in chosen]
        metafunc.parametrize(fixture, list(chosen.values()), ids=ids)
