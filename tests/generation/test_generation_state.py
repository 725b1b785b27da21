"""Generation: the same tokens in any batch, with and without draft tokens, and beyond the context length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.generation.config import SamplingConfig
from regard.generation.decoder import TorchGPTDecoder
from regard.generation.sampling import GeneratedToken, GenerationState, keep_last
from regard.generation.streaming import StoppingStream
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.utils.errors import RegardError

CONTEXT = 13


def make_model(positions: str = "rotary", seed: int = 0) -> GPT:
    torch.manual_seed(seed)
    config = GPTConfig(
        vocab_size=11,
        num_layers=2,
        d_model=14,
        d_ff=22,
        num_heads=2,
        head_dim=6,
        context_length=CONTEXT,
        positions=positions,  # type: ignore[arg-type]
    )
    model = GPT(config).eval()
    with torch.no_grad():
        for param in model.parameters():
            param.normal_(std=0.5)
    return model


def generate(
    model: GPT, prompts: list[list[int]], *, lookup: bool = False, **settings: object
) -> list[list[GeneratedToken]]:
    config = SamplingConfig(**{"temperature": 0.0, "max_new_tokens": 40, **settings})  # type: ignore[arg-type]
    rows: list[list[GeneratedToken]] = [[] for _ in prompts]
    for one in GenerationState(
        TorchGPTDecoder(model), prompts, config=config, context=CONTEXT, end_ids=(10,), lookup=lookup
    ):
        rows[one.row].append(one)
    return rows


def by_hand(model: GPT, prompt: list[int], count: int) -> list[int]:
    """Greedy, one full forward pass per token; when the context is full, continue from the last half."""
    text, read = list(prompt), 0
    kept = CONTEXT - min(count, CONTEXT // 2)
    start = max(0, len(text) - kept)
    while len(text) - len(prompt) < count:
        if len(text) - start >= CONTEXT + 1:
            left = count - (len(text) - len(prompt))
            start = len(text) - (CONTEXT - min(left, CONTEXT // 2))
        with torch.no_grad():
            text.append(int(model(torch.tensor([text[start:]]))[0, -1].argmax()))
        read += 1
        if text[-1] == 10:
            break
    return text[len(prompt) :]


@pytest.mark.parametrize("positions", ["rotary", "learned", "none"])
@pytest.mark.parametrize("prompt", [[3], [1, 2, 3, 4, 5], list(range(10)) * 3])
def test_greedy_takes_the_most_probable_token_beyond_the_context(positions: str, prompt: list[int]) -> None:
    for seed in range(4):
        model = make_model(positions, seed)
        found = [one.id for one in generate(model, [prompt])[0]]
        assert found == by_hand(model, prompt, 40)


@pytest.mark.parametrize("positions", ["rotary", "learned", "none"])
def test_a_row_is_the_same_in_a_batch_as_alone(positions: str) -> None:
    """Also beyond the context length, which rows of different lengths reach at different steps."""
    prompts = [[3], [1, 2, 3, 4, 5], [7, 7], list(range(10)) * 2]
    for settings in ({"temperature": 0.0}, {"temperature": 1.0, "seed": 3}):
        for seed in range(2):
            model = make_model(positions, seed)
            together = generate(model, prompts, **settings)
            for row, prompt in enumerate(prompts):
                own = {**settings, "seed": 3 + row} if settings["temperature"] else settings
                alone = generate(model, [prompt], **own)[0]
                assert [one.id for one in together[row]] == [one.id for one in alone]


@pytest.mark.parametrize("context", [1, 2, 3])
def test_the_smallest_contexts_slide(context: int) -> None:
    model = make_model()
    config = SamplingConfig(temperature=0.0, max_new_tokens=9)
    prompts = [[3], [1, 2, 3, 4, 5]]
    together = list(GenerationState(TorchGPTDecoder(model), prompts, config=config, context=context))
    for row, prompt in enumerate(prompts):
        alone = list(GenerationState(TorchGPTDecoder(model), [prompt], config=config, context=context))
        assert [one.id for one in together if one.row == row] == [one.id for one in alone]


def test_a_dropped_row_gets_no_more_tokens() -> None:
    steps: list[int] = []

    class Counted(TorchGPTDecoder):
        def step(self, ids: torch.Tensor) -> torch.Tensor:
            steps.append(len(ids))
            return super().step(ids)

    model, config = make_model("learned"), SamplingConfig(temperature=0.0, max_new_tokens=7)
    prompts = [[3], [1, 2, 3], [7, 7]]
    alone = [one.id for one in generate(model, prompts[2:], max_new_tokens=7)[0]]
    state = GenerationState(Counted(model), prompts, config=config, context=CONTEXT)
    found: list[list[int]] = [[], [], []]
    for row, id_, _ in state:
        found[row].append(id_)
        if len(found[0]) == 2:
            state.drop(0)
            state.drop(1)
    assert [len(ids) for ids in found] == [2, 1, 7], "row 1 was dropped before its second token"
    assert found[2] == alone
    assert steps == [3, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinite_logits_raise(temperature: float, value: float) -> None:
    model = make_model()
    with torch.no_grad():
        model.output_weight[3] = value
    with pytest.raises(RegardError) as caught:
        generate(model, [[1, 2]], temperature=temperature)
    assert caught.value.argument == "model"


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.0}, {"temperature": 0.7, "seed": 5}, {"repetition_penalty": 1.3}]
)
def test_draft_tokens_do_not_change_the_output(settings: dict[str, float]) -> None:
    calls = 0

    class Counted(TorchGPTDecoder):
        def extend(self, ids: torch.Tensor) -> torch.Tensor:
            nonlocal calls
            calls += ids.shape[1] > 1
            return super().extend(ids)

    for seed in range(6):
        model = make_model("rotary", seed)
        prompt = [1, 2, 3, 1, 2, 3, 1]
        plain = generate(model, [prompt], **settings)[0]
        config = SamplingConfig(**{"temperature": 0.0, "max_new_tokens": 40, **settings})  # type: ignore[arg-type]
        speculative = list(
            GenerationState(Counted(model), [prompt], config=config, context=CONTEXT, end_ids=(10,), lookup=True)
        )
        assert [one.id for one in speculative] == [one.id for one in plain]
        for one, other in zip(speculative, plain, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
    assert calls, "no draft tokens were verified"


def test_no_part_of_a_stop_string_is_returned() -> None:
    def decode(ids: object) -> str:
        return "".join("abcdefghij"[i] for i in ids)  # type: ignore[attr-defined]

    stream = StoppingStream(decode, ("cde", "ff"))
    shown = []
    for id_ in (0, 2, 3, 0, 5, 2, 3, 4, 9):
        chunk = stream.push(id_)
        if chunk is None:
            break
        shown.append(chunk)
    assert shown == ["a", "", "", "cda", "", "f", ""]
    assert (stream.finish(), stream.text, stream.stopped) == ("", "acdaf", True)


def assert_stream_equals_decode(decode: Callable[[Sequence[int]], str], ids: list[int], stops: tuple[str, ...]) -> None:
    """Compare a stream with decoding all ids and searching the whole text after each id."""
    stream, shown = StoppingStream(decode, stops), ""
    for count, id_ in enumerate(ids, start=1):
        whole = decode(ids[:count])
        ends = [whole.find(stop) for stop in stops if stop in whole]
        chunk = stream.push(id_)
        assert stream.stopped == bool(ends) == (chunk is None)
        assert stream.text == (whole[: min(ends)] if ends else whole)
        shown += chunk or ""
        assert stream.text.startswith(shown)
        if ends:
            break
    assert shown + stream.finish() == stream.text


@given(
    st.text("aé€😀 ", min_size=1, max_size=200),
    st.lists(st.text("aé€ ", min_size=1, max_size=5), max_size=2).map(tuple),
    st.integers(0, 255),
)
def test_a_long_stream_equals_decoding_all_ids(text: str, stops: tuple[str, ...], broken: int) -> None:
    data = text.encode()
    ids = [*data, broken, *data]  # an invalid byte may separate the bytes of a character
    assert_stream_equals_decode(lambda ids: bytes(ids).decode("utf-8", "replace"), ids, stops)


def test_the_cost_per_token_does_not_grow_with_the_stream() -> None:
    longest = 0

    def decode(ids: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return bytes(ids).decode("utf-8", "replace")

    stream = StoppingStream(decode, ("never",))
    chunks = [stream.push(byte) for byte in "ein schöner Satz. ".encode() * 200]
    assert "".join(chunk or "" for chunk in chunks) + stream.finish() == stream.text == "ein schöner Satz. " * 200
    assert longest <= 256


def test_finish_returns_the_held_back_text() -> None:
    stream = StoppingStream(lambda ids: bytes(ids).decode("utf-8", "replace"), ("stop",))
    assert [stream.push(byte) for byte in "é st".encode()] == ["", "é", " ", "", ""]
    assert stream.finish() == "st"
    assert stream.text == "é st"
    assert not stream.stopped


@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_the_prefix_stays_in_the_context(prefix: int) -> None:
    """Every prefill and refill starts with the prefix."""
    read: list[list[int]] = []

    class Recorded(TorchGPTDecoder):
        def prefill(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
            read.append(ids[0].tolist())
            return super().prefill(ids, lengths)

        def refill(self, rows: torch.Tensor, ids: torch.Tensor) -> None:
            read.append(ids[0].tolist())
            super().refill(rows, ids)

    first, prompt = [8, 9][:prefix], [1, 2, 3] * 7
    config = SamplingConfig(temperature=0.0, max_new_tokens=30)
    new = list(
        GenerationState(Recorded(make_model()), [[*first, *prompt]], config=config, context=CONTEXT, prefix=prefix)
    )
    assert len(read) > 2
    assert len(new) == 30
    assert all(ids[:prefix] == first for ids in read)
    assert read[0] == [*first, *prompt[-(7 - prefix) :]]
    assert all(len(ids) <= CONTEXT for ids in read)


def test_keep_last() -> None:
    ids = list(range(9))
    assert keep_last(ids, 9) == keep_last(ids, 20, 3) == ids
    assert keep_last(ids, 4) == [5, 6, 7, 8]
    assert keep_last(ids, 4, 1) == [0, 6, 7, 8]
    assert keep_last(ids, 3, 3) == [6, 7, 8]  # the end of the text matters more than the prefix


def test_any_end_token_ends_a_row() -> None:
    model, config = make_model(), SamplingConfig(temperature=0.0, max_new_tokens=12)
    endless = [one.id for one in GenerationState(TorchGPTDecoder(model), [[3]], config=config, context=CONTEXT)]
    found = [
        one.id
        for one in GenerationState(
            TorchGPTDecoder(model), [[3]], config=config, context=CONTEXT, end_ids={endless[4], 99}
        )
    ]
    assert found == endless[: endless.index(endless[4]) + 1]
