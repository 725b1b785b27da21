"""The torch decoder: cached logits equal uncached ones, whichever rows `reorder` selects."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.generation.decoder import TorchSeq2SeqDecoder
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.utils.errors import UsageError

START, SIZE = 2, 11
KINDS = {
    "2017": dict(),
    "modern": dict(positions="rotary", norm_placement="pre", final_norm=True, qk_norm=True),
    "learned": dict(positions="learned", max_positions=19),
}


def make_model(**more: object) -> Transformer:
    torch.manual_seed(0)
    shape = dict(d_model=10, d_ff=13, num_heads=3, head_dim=4, num_encoder_layers=2, num_decoder_layers=2)
    model = Transformer(TransformerConfig(vocab_size=SIZE, **{**shape, **more})).double().eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def uncached(model: Transformer, source: Tensor, target: list[int]) -> Tensor:
    """The logits after `target`, from one row of source (S,) without padding and without caches."""
    with torch.no_grad():
        return model(source[None], torch.tensor([[START, *target]]), masks.no_mask())[0, -1]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(data=st.data())
def test_cached_logits_equal_uncached_logits(kind: str, data: st.DataObject) -> None:
    model = make_model(**KINDS[kind])
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4), label="lengths")
    ids = torch.randint(SIZE, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(1))
    decoder = TorchSeq2SeqDecoder(model, start_id=START)
    logits = decoder.prefill(ids, torch.tensor(lengths))
    rows: list[tuple[int, list[int]]] = [(row, []) for row in range(len(lengths))]  # source and target of each
    for _ in range(5):
        for (source, target), given_logits in zip(rows, logits, strict=True):
            truth = uncached(model, ids[source, : lengths[source]], target)
            torch.testing.assert_close(given_logits, truth, rtol=0, atol=1e-10)
        picks = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6), label="rows")
        decoder.reorder(torch.tensor(picks))
        new = data.draw(st.lists(st.integers(0, SIZE - 1), min_size=len(picks), max_size=len(picks)), label="ids")
        rows = [(rows[pick][0], [*rows[pick][1], i]) for pick, i in zip(picks, new, strict=True)]
        logits = decoder.step(torch.tensor(new))


def test_prefill_resets_the_decoder() -> None:
    decoder = TorchSeq2SeqDecoder(make_model(), start_id=START)
    ids, lengths = torch.tensor([[3, 4, 5]]), torch.tensor([3])
    first = decoder.prefill(ids, lengths)
    decoder.step(torch.tensor([7]))
    assert torch.equal(decoder.prefill(ids, lengths), first)


def test_two_decoders_of_one_model_are_independent() -> None:
    model = make_model()
    a, b = (TorchSeq2SeqDecoder(model, start_id=START) for _ in range(2))
    a.prefill(torch.tensor([[3, 4, 5]]), torch.tensor([3]))
    b.prefill(torch.tensor([[6, 7], [8, 9]]), torch.tensor([2, 1]))
    b.step(torch.tensor([1, 1]))
    logits = a.step(torch.tensor([7]))
    torch.testing.assert_close(logits[0], uncached(model, torch.tensor([3, 4, 5]), [7]), rtol=0, atol=1e-10)


def test_decoding_records_no_gradients_and_a_grown_position_table_can_be_trained() -> None:
    model = make_model(positions="rotary")
    decoder = TorchSeq2SeqDecoder(model, start_id=START)
    logits = decoder.prefill(torch.tensor([[3]]), torch.tensor([1]))
    assert not logits.requires_grad
    for _ in range(300):  # beyond the table of positions, which then grows
        logits = decoder.step(torch.tensor([4]))
    assert not logits.requires_grad
    model.train()
    model(torch.tensor([[3, 4]]), torch.tensor([[START, 5]])).sum().backward()


def test_only_learned_positions_limit_the_length() -> None:
    assert TorchSeq2SeqDecoder(make_model(), start_id=START).max_new_tokens is None
    assert TorchSeq2SeqDecoder(make_model(**KINDS["learned"]), start_id=START).max_new_tokens == 19


def test_bad_calls_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        TorchSeq2SeqDecoder(make_model(), start_id=SIZE)
    assert (caught.value.argument, caught.value.value) == ("start_id", SIZE)
    with pytest.raises(UsageError) as caught:
        TorchSeq2SeqDecoder(make_model(), start_id=START).step(torch.tensor([1]))
    assert (caught.value.argument, caught.value.hint) == ("ids", "prefill")
    model = make_model().train()
    with pytest.raises(UsageError) as caught:
        TorchSeq2SeqDecoder(model, start_id=START).prefill(torch.tensor([[3]]), torch.tensor([1]))
    assert (caught.value.argument, caught.value.hint) == ("model", "model.eval()")
