"""Models without weights need no memory, no random numbers and no torch._dynamo."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from regard.models.bert.config import PRESETS as BERTS
from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert
from regard.models.gpt.config import PRESETS as GPTS
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn.init import Linear, empty_weights, is_placeholder
from regard.nn.state_dict import load_into, unique_tensors
from regard.utils.errors import FolderError


def small() -> list[nn.Module]:
    shape = dict(vocab_size=53, d_model=22, d_ff=37, num_heads=3, head_dim=6)
    return [
        Transformer(TransformerConfig(**shape, num_encoder_layers=1, num_decoder_layers=2)),
        GPT(GPTConfig(**shape, num_layers=2)),
        GPT(GPTConfig(**{**GPTS["gpt2"], **shape, "num_layers": 2})),
        Bert(BertConfig(**shape, num_layers=2)),
    ]


def test_an_empty_model_loads_weights_bit_for_bit() -> None:
    torch.manual_seed(0)
    whole = small()
    before = torch.get_rng_state()
    with empty_weights():
        empty = small()
    for full, bare in zip(whole, empty, strict=True):
        assert any(is_placeholder(param) for param in bare.parameters())
        assert not any(is_placeholder(param) for param in full.parameters())
        expected = unique_tensors(full)
        assert {name: t.shape for name, t in unique_tensors(bare).items()} == {n: t.shape for n, t in expected.items()}
        load_into(bare, dict(expected))
        found = unique_tensors(bare)
        assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
        assert not any(is_placeholder(param) for param in bare.parameters())
    assert torch.get_rng_state().shape == before.shape


def test_weights_that_do_not_fit_change_nothing() -> None:
    with empty_weights():
        model = Linear(3, 5)
    with pytest.raises(FolderError) as caught:
        load_into(model, {"weight": torch.ones(5, 3)})
    assert (caught.value.argument, caught.value.value) == ("tensors", {"missing": ("bias",)})
    assert is_placeholder(model.weight)


def test_the_largest_presets_need_no_memory() -> None:
    with empty_weights():
        model = GPT(GPTConfig(**GPTS["gpt3"]))
        Bert(BertConfig(**BERTS["bert-large"]))
    assert sum(param.numel() for param in model.parameters()) == 174_604_259_328


def test_outside_the_block_weights_are_initialized_as_in_torch() -> None:
    torch.manual_seed(0)
    theirs = nn.Linear(7, 5)
    torch.manual_seed(0)
    ours = Linear(7, 5)
    assert torch.equal(ours.weight, theirs.weight) and torch.equal(ours.bias, theirs.bias)
    assert repr(ours) == repr(theirs)


def test_loading_does_not_import_dynamo() -> None:
    code = """
import sys
import torch
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.nn.init import empty_weights
from regard.nn.state_dict import load_into, unique_tensors
config = GPTConfig(vocab_size=53, d_model=22, d_ff=37, num_heads=3, head_dim=6, num_layers=2)
with empty_weights():
    model = GPT(config)
load_into(model, {name: torch.zeros(t.shape) for name, t in unique_tensors(model).items()})
with torch.inference_mode():
    model.eval()(torch.tensor([[1, 2, 3]]))
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120)
    assert done.stdout.strip() == "False", done.stderr
