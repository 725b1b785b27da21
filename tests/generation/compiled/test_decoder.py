"""The compiled decoders: logits equal uncached torch, for any selection of rows and any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.generation.compiled import decoder as decoder_module
from regard.generation.compiled.decoder import CompiledGPTDecoder, CompiledSeq2SeqDecoder
from regard.generation.config import SamplingConfig, SearchConfig
from regard.generation.decoder import TorchGPTDecoder, TorchSeq2SeqDecoder
from regard.generation.sampling import GenerationState
from regard.generation.search import beam_search
from regard.models.gpt.config import GPT2, LLAMA, GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import MODERN, TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.quantized import quantize_weights
from regard.utils.errors import UsageError

SIZE, START = 47, 2
GPTS: dict[str, dict[str, Any]] = {
    "default": dict(),
    "gpt2": {**GPT2, "head_dim": 6},
    "llama": {**LLAMA, "num_kv_heads": 1},
    "shared and capped": dict(activation="swiglu", norm_affine=True, num_heads=4, num_kv_heads=2, logit_softcap=2.0),
    "no positions": dict(positions="none", activation="gelu", tie_embeddings=True),
    "other heads": dict(num_heads_by_layer={"decoder.1.self": 1}, activation="silu", norm="layer", bias=True),
}
TRANSLATORS: dict[str, dict[str, Any]] = {
    "2017": dict(),
    "modern": dict(**MODERN, qk_norm=True),
    "learned": dict(positions="learned", max_positions=19, output_bias=True, tie_embeddings=False),
}
# fp32 in another order of summation; the logits are about 1.
EXACT = dict(rtol=0, atol=2e-5)


def make_gpt(**more: Any) -> GPT:
    shape = dict(vocab_size=SIZE, context_length=31, num_layers=2, d_model=22, d_ff=35, num_heads=3, head_dim=6)
    return _random(
        GPT(GPTConfig(**{**shape, **{k: v for k, v in more.items() if k not in ("vocab_size", "context_length")}}))
    )


def make_translator(**more: Any) -> Transformer:
    shape = dict(
        vocab_size=SIZE, d_model=10, d_ff=13, num_heads=3, head_dim=4, num_encoder_layers=2, num_decoder_layers=2
    )
    return _random(Transformer(TransformerConfig(**{**shape, **more})))


def _random(model: Any) -> Any:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for param in model.parameters():
            param.copy_(torch.randn(param.shape, generator=generator) * 0.3)
    return model.eval()


def random_ids(*shape: int) -> Tensor:
    return torch.randint(SIZE, shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Run every model, however small, in this many threads."""
    monkeypatch.setattr(decoder_module, "MULTITHREAD_BYTES", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    yield request.param


Decoding = tuple[CompiledGPTDecoder | CompiledSeq2SeqDecoder, Callable[[list[int], list[int]], Tensor]]


def gpt_decoding(kind: str) -> Decoding:
    """A compiled decoder, and a function of prompt and generated ids that returns the expected logits."""
    model = make_gpt(**GPTS[kind])
    return CompiledGPTDecoder(model), lambda read, written: model(torch.tensor([[*read, *written]]))


def translator_decoding(kind: str) -> Decoding:
    model = make_translator(**TRANSLATORS[kind])

    def truth(read: list[int], written: list[int]) -> Tensor:
        logits: Tensor = model(torch.tensor([read]), torch.tensor([[START, *written]]), masks.no_mask())
        return logits

    return CompiledSeq2SeqDecoder(model, start_id=START), truth


@pytest.mark.parametrize(
    ("decoding", "kind"),
    [*((gpt_decoding, kind) for kind in GPTS), *((translator_decoding, kind) for kind in TRANSLATORS)],
    ids=[*(f"gpt-{kind}" for kind in GPTS), *(f"translator-{kind}" for kind in TRANSLATORS)],
)
@settings(max_examples=15)
@given(data=st.data())
def test_logits_equal_uncached_logits(decoding: Callable[[str], Decoding], kind: str, data: st.DataObject) -> None:
    """Prefill texts of different lengths; each step drops and repeats some rows and continues all others."""
    decoder, truth = decoding(kind)
    lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4), label="lengths")
    ids = random_ids(len(lengths), max(lengths))
    logits = decoder.prefill(ids, torch.tensor(lengths))
    rows: list[tuple[list[int], list[int]]] = [(ids[row, :length].tolist(), []) for row, length in enumerate(lengths)]
    for _ in range(5):
        for (read, written), found in zip(rows, logits, strict=True):
            with torch.no_grad():
                torch.testing.assert_close(found, truth(read, written)[0, -1], **EXACT)
        picks = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6), label="rows")
        decoder.reorder(torch.tensor(picks))
        new = data.draw(st.lists(st.integers(0, SIZE - 1), min_size=len(picks), max_size=len(picks)), label="ids")
        rows = [(rows[pick][0], [*rows[pick][1], id_]) for pick, id_ in zip(picks, new, strict=True)]
        logits = decoder.step(torch.tensor(new))


@pytest.mark.parametrize("precision", ["fp32", "int8", "int4"])
@pytest.mark.parametrize("kind", [*GPTS, "whole groups"])
def test_any_number_of_threads_gives_the_same_bits(
    kind: str, precision: Any, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sizes that are multiples of 32, as in real models, use other instructions.
    sizes = dict(d_model=64, d_ff=96) if kind == "whole groups" else {}
    model = make_gpt(**{**GPTS.get(kind, {}), **sizes})
    quantize_weights(model, precision)
    ids = random_ids(3, 4)
    shared = CompiledGPTDecoder(model)
    found = shared.prefill(ids, torch.tensor([4, 4, 4])), shared.step(ids[:, 0]), shared.extend(ids)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    alone = CompiledGPTDecoder(model)
    truth = alone.prefill(ids, torch.tensor([4, 4, 4])), alone.step(ids[:, 0]), alone.extend(ids)
    assert all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))


@pytest.mark.parametrize(("precision", "tolerance"), [("int8", 0.04), ("int4", 0.06)])
@pytest.mark.parametrize("kind", ["default", "gpt2", "llama"])
def test_quantized_logits_match_dequantized_weights(kind: str, precision: Any, tolerance: float) -> None:
    # The difference is the rounding of keys, values and inputs to 8 bits: about 1 % of the spread of the logits each.
    model = make_gpt(**{**GPTS[kind], "d_model": 64, "d_ff": 96})
    plain = model(ids := random_ids(1, 13))[0, -1]
    quantize_weights(model, precision)
    decoder = CompiledGPTDecoder(model)
    decoder.prefill(ids[:, :5], torch.tensor([5]))
    found = decoder.extend(ids[:, 5:])[0, -1]
    with torch.no_grad():
        truth = model(ids)[0, -1]
    assert (found - truth).std() < tolerance * truth.std()
    assert not torch.equal(truth, plain)


def test_rewind_removes_tokens() -> None:
    model, ids = make_gpt(), random_ids(2, 20)
    decoder = CompiledGPTDecoder(model)
    decoder.prefill(ids[:, :4], torch.tensor([4, 4]))
    decoder.extend(ids[:, 10:17])
    decoder.rewind(7)
    with torch.no_grad():
        torch.testing.assert_close(decoder.extend(ids[:, 4:9]), model(ids[:, :9])[:, 4:], **EXACT)
    assert decoder.max_new_tokens == 31 - 9


@pytest.mark.parametrize("lookup", [False, True])
@pytest.mark.parametrize("kind", GPTS)
def test_greedy_output_equals_torch(kind: str, lookup: bool) -> None:
    model = make_gpt(**GPTS[kind])
    prompts = [random_ids(7).tolist()] if lookup else [random_ids(7).tolist(), [3, 1], [5] * 18, [7] * 29]
    config = SamplingConfig(temperature=0.0, max_new_tokens=40)  # longer than the context, so it slides
    ask: Callable[[Any], list[tuple[int, int]]] = lambda decoder: [  # noqa: E731
        (row, id_) for row, id_, _ in GenerationState(decoder, prompts, config=config, context=31, lookup=lookup)
    ]
    assert ask(CompiledGPTDecoder(model)) == ask(TorchGPTDecoder(model))


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_beam_search_equals_torch(kind: str) -> None:
    model = make_translator(**TRANSLATORS[kind])
    ids, lengths = random_ids(3, 6), torch.tensor([6, 2, 5])
    config = SearchConfig(num_beams=4, n_best=3, max_new_tokens=15)
    found, truth = (
        beam_search(make(model, start_id=START), ids, lengths, end_id=1, config=config)
        for make in (CompiledSeq2SeqDecoder, TorchSeq2SeqDecoder)
    )
    assert [[h.ids for h in row] for row in found] == [[h.ids for h in row] for row in truth]


def test_a_translation_may_outgrow_the_initial_cache() -> None:
    model = make_translator(**MODERN)
    compiled, slow = CompiledSeq2SeqDecoder(model, start_id=START), TorchSeq2SeqDecoder(model, start_id=START)
    ids = random_ids(2, 5)
    for decoder in (compiled, slow):
        decoder.prefill(ids, torch.tensor([5, 3]))
    for number in range(2 * decoder_module.SPARE_POSITIONS + 3):
        new = torch.tensor([number % SIZE, 7])
        a, b = compiled.step(new), slow.step(new)
    torch.testing.assert_close(a, b, **EXACT)


def test_decoders_in_several_threads_are_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "MULTITHREAD_BYTES", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model, results = make_gpt(), {}

    def work(name: int) -> None:
        decoder = CompiledGPTDecoder(model)
        logits = decoder.prefill(torch.tensor([[name, 3]]), torch.tensor([2]))
        for _ in range(20):
            logits = decoder.step(logits.argmax(dim=-1))
        results[name] = logits

    workers = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    together = dict(results)
    for name in range(4):
        work(name)
        assert torch.equal(results[name], together[name])


def test_bad_calls_are_refused() -> None:
    decoder = CompiledGPTDecoder(make_gpt())
    with pytest.raises(UsageError) as caught:
        decoder.step(torch.tensor([1]))
    assert caught.value.hint == "prefill"
    with pytest.raises(UsageError) as caught:
        decoder.prefill(random_ids(1, 32), torch.tensor([32]))
    assert (caught.value.argument, caught.value.value) == ("ids", 32)
    decoder.prefill(random_ids(1, 31), torch.tensor([31]))
    with pytest.raises(UsageError) as caught:
        decoder.step(torch.tensor([1]))
    assert (caught.value.argument, caught.value.value) == ("ids", 32)
    with pytest.raises(UsageError) as caught:
        CompiledSeq2SeqDecoder(make_translator(), start_id=START).step(torch.tensor([1]))
    assert caught.value.hint == "prefill"
    model = make_gpt().train()
    with pytest.raises(UsageError) as caught:
        CompiledGPTDecoder(model).prefill(random_ids(1, 20), torch.tensor([20]))
    assert caught.value.hint == "model.eval()"


@pytest.mark.parametrize("kind", GPTS)
def test_padding_is_freed_when_the_longest_row_leaves(kind: str) -> None:
    """Padding takes no positions of the context once no row needs it."""
    model = make_gpt(**GPTS[kind])
    ids, lengths = random_ids(2, 20), torch.tensor([20, 3])
    decoders = CompiledGPTDecoder(model), TorchGPTDecoder(model)
    for decoder in decoders:
        decoder.prefill(ids, lengths)
        decoder.reorder(torch.tensor([1]))
    compiled, slow = decoders
    assert compiled.max_new_tokens == slow.max_new_tokens == 28
    for step in range(28):
        new = ids[0, step % 20 : step % 20 + 1]
        torch.testing.assert_close(compiled.step(new), slow.step(new), **EXACT)
    assert compiled.max_new_tokens == 0
    for decoder in decoders:
        with pytest.raises(UsageError) as caught:
            decoder.step(new)
        assert caught.value.value == 32


@pytest.mark.parametrize("make", [CompiledGPTDecoder, TorchGPTDecoder])
@pytest.mark.parametrize("kind", GPTS)
def test_refill_replaces_the_context_of_rows(kind: str, make: Any) -> None:
    model, ids = make_gpt(**GPTS[kind]), random_ids(3, 20)
    decoder = make(model)
    decoder.prefill(ids, torch.tensor([20, 3, 12]))
    decoder.reorder(torch.tensor([2, 0]))
    decoder.step(ids[:2, 0])
    rows = [[*ids[2, :12].tolist(), int(ids[0, 0])], [*ids[0].tolist(), int(ids[1, 0])]]
    for place, other in ((1, ids[1, :9]), (0, ids[1, :8]), (1, ids[1, :0])):
        decoder.refill(torch.tensor([place]), other[None])
        rows[place] = other.tolist()
        logits = decoder.step(ids[:2, 5])
        for row, new, found in zip(rows, ids[:2, 5].tolist(), logits, strict=True):
            row.append(new)
            with torch.no_grad():
                torch.testing.assert_close(found, model(torch.tensor([row]))[0, -1], **EXACT)
    assert decoder.max_new_tokens == 31 - max(map(len, rows))


def test_a_batch_may_be_larger_than_the_vocabulary() -> None:
    model, rows = make_gpt(), SIZE + 3
    ids = random_ids(rows, 5)
    with torch.no_grad():
        truth = model(ids)[:, -1]
    torch.testing.assert_close(CompiledGPTDecoder(model).prefill(ids, torch.full((rows,), 5)), truth, **EXACT)


def test_ids_and_positions_out_of_range_are_refused() -> None:
    decoder = CompiledGPTDecoder(make_gpt())
    for wrong in (-1, SIZE):
        with pytest.raises(UsageError) as caught:
            decoder.prefill(torch.tensor([[wrong]]), torch.tensor([1]))
        assert (caught.value.argument, caught.value.value) == ("ids", (wrong, wrong))
    translator = CompiledSeq2SeqDecoder(make_translator(**TRANSLATORS["learned"]), start_id=START)
    translator.prefill(random_ids(1, 3), torch.tensor([3]))
    for _ in range(18):
        translator.step(torch.tensor([5]))
    with pytest.raises(UsageError) as caught:
        translator.step(torch.tensor([5]))
    assert (caught.value.argument, caught.value.value) == ("ids", 20)


def test_decoding_works_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "MULTITHREAD_BYTES", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model, ids = make_gpt(), random_ids(1, 3)
    decoder = CompiledGPTDecoder(model)
    truth = decoder.prefill(ids, torch.tensor([3]))

    def interrupted(rank: int, size: int, *arguments: Any) -> None:
        if rank == 0:
            raise KeyboardInterrupt
        real(rank, size, *arguments)

    real, thread_pool = decoder_module.k.run, decoder_module.thread_pool()
    for _ in range(20):
        monkeypatch.setattr(decoder_module.k, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            decoder.prefill(ids, torch.tensor([3]))
        monkeypatch.setattr(decoder_module.k, "run", real)
        assert torch.equal(decoder.prefill(ids, torch.tensor([3])), truth)
    assert decoder_module.thread_pool() is thread_pool, "its threads have finished the aborted job"
