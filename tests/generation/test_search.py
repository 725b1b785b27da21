"""Search, compared with enumerating every sequence, with teacher forcing, and with the search of transformers.

Tiny random models with prime sizes in float64. A table of logits can be a decoder too: it tests ties, forbidden ids and
lengths by hand, and shows that a search does not depend on torch's modules.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.generation.config import SearchConfig
from regard.generation.decoder import TorchGPTDecoder, TorchSeq2SeqDecoder
from regard.generation.search import Hypothesis, beam_search, stream, top_of_rows
from regard.models.gpt import convert
from regard.models.gpt.config import GPT2, GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.utils.errors import RegardError, UsageError

START, END = 0, 1


def make_model(*, vocab_size: int, seed: int = 0, spread: float = 1.0, **more: object) -> Transformer:
    """A small random model in float64; a larger `spread` gives more peaked distributions."""
    torch.manual_seed(seed)
    shape = dict(d_model=10, d_ff=13, num_heads=3, head_dim=4, num_encoder_layers=1, num_decoder_layers=2)
    model = Transformer(TransformerConfig(vocab_size=vocab_size, **{**shape, **more})).double().eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
        for embedding in (model.source_embedding, model.target_embedding):
            embedding.weight *= spread
    return model


def make_sources(lengths: list[int], *, vocab_size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random ids; those beyond the length of a row are padding, which must not matter."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (len(lengths), max(lengths)), generator=generator), torch.tensor(lengths)


def teacher_forced(model: Transformer, source: Tensor, sequences: list[list[int]]) -> list[list[float]]:
    """The log-probability of each token given those before it, for sequences of one length and one source (S,).

    One forward pass without caches.
    """
    target = torch.tensor(sequences)
    before = torch.cat((torch.full((len(target), 1), START), target[:, :-1]), dim=1)
    with torch.no_grad():
        logits = model(source.expand(len(target), -1), before, masks.no_mask())
    return logits.log_softmax(-1).gather(2, target[:, :, None]).squeeze(2).tolist()  # type: ignore[no-any-return]


def greedy(decoder: Any, ids: Tensor, lengths: Tensor, *, config: SearchConfig | None = None, **ids_of: Any) -> Any:
    """Greedy search: beam search with one beam. Returns one hypothesis per row."""
    config = (config or SearchConfig()).replace(num_beams=1, n_best=1)
    return [hypothesis for (hypothesis,) in beam_search(decoder, ids, lengths, config=config, **ids_of)]


def tokens_of(hypothesis: Hypothesis) -> list[int]:
    return [*hypothesis.ids, END] if hypothesis.ended else list(hypothesis.ids)


class TableDecoder:
    """Logits from a table: the next token depends only on the newest token."""

    max_new_tokens: int | None = None

    def __init__(self, table: Tensor) -> None:
        self.table = table  # (V, V); the row of START has the logits of the first token
        self.rows_at_each_step: list[int] = []

    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        self.rows = torch.zeros(len(ids))
        return self.step(torch.full((len(ids),), START))

    def step(self, ids: Tensor) -> Tensor:
        assert len(ids) == len(self.rows)
        self.rows_at_each_step.append(len(ids))
        return self.table[ids].clone()

    def reorder(self, rows: Tensor) -> None:
        self.rows = self.rows[rows]


def table_of(rows: dict[int, dict[int, float]], size: int) -> Tensor:
    """Log-probabilities by hand; entries that are not listed are impossible."""
    table = torch.full((size, size), -math.inf, dtype=torch.float64)
    for row, entries in rows.items():
        for column, probability in entries.items():
            table[row, column] = math.log(probability)
    return table


ONE_SOURCE = (torch.zeros(1, 3, dtype=torch.long), torch.tensor([3]))

# --- optimality ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length_penalty", [-0.7, 0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_full_beam_finds_the_best_of_all_sequences(length_penalty: float, seed: int) -> None:
    size, longest, wanted = 5, 4, 7
    model = make_model(vocab_size=size, seed=seed)
    ids, lengths = make_sources([3, 2], vocab_size=size, seed=seed)
    config = SearchConfig(
        num_beams=size**longest, n_best=wanted, length_penalty=length_penalty, max_new_tokens=longest, max_len_a=None
    )
    found = beam_search(TorchSeq2SeqDecoder(model, start_id=START), ids, lengths, end_id=END, config=config)
    others = [i for i in range(size) if i != END]
    for row, source_length in enumerate(lengths.tolist()):
        scored = []
        for n in range(longest):
            every = [[*body, END] for body in itertools.product(others, repeat=n)]
            truths = teacher_forced(model, ids[row, :source_length], every)
            scored += [(sum(t) / (n + 1) ** length_penalty, s) for t, s in zip(truths, every, strict=True)]
        scored.sort(key=lambda pair: -pair[0])
        assert [tokens_of(hypothesis) for hypothesis in found[row]] == [sequence for _, sequence in scored[:wanted]]
        for hypothesis, (score, _) in zip(found[row], scored, strict=False):
            assert hypothesis.score == pytest.approx(score, rel=1e-10)


@pytest.mark.parametrize("length_penalty", [-0.7, 0.0, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_full_beam_finds_the_best_of_all_texts_of_a_gpt(length_penalty: float, seed: int) -> None:
    """Finished texts and texts truncated at the length limit, ranked together."""
    size, longest, wanted, prompt = 5, 4, 9, [3, 0, 2]
    torch.manual_seed(seed)
    model = GPT(
        GPTConfig(vocab_size=size, num_layers=2, d_model=10, d_ff=13, num_heads=3, head_dim=4, context_length=7)
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    model.eval()
    config = SearchConfig(
        num_beams=size**longest, n_best=wanted, length_penalty=length_penalty, max_new_tokens=longest, max_len_a=None
    )
    ids = torch.tensor([prompt])
    one = dict(end_id=END, config=config, prefer_ends=False)
    found = beam_search(TorchGPTDecoder(model), ids, torch.tensor([3]), **one)[0]  # type: ignore[arg-type]
    others = [i for i in range(size) if i != END]
    scored = []
    for n in range(1, longest + 1):
        every = [[*body, last] for body in itertools.product(others, repeat=n - 1) for last in range(size)]
        every = [text for text in every if n == longest or text[-1] == END]
        with torch.no_grad():
            log_probs = model(torch.tensor([[*prompt, *text] for text in every])).log_softmax(-1)[:, 2:-1]
        truths = log_probs.gather(2, torch.tensor(every)[:, :, None]).sum(dim=(1, 2)).tolist()
        scored += [(truth / n**length_penalty, text) for truth, text in zip(truths, every, strict=True)]
    scored.sort(key=lambda pair: -pair[0])
    assert [tokens_of(hypothesis) for hypothesis in found] == [text for _, text in scored[:wanted]]
    assert [hypothesis.score for hypothesis in found] == pytest.approx([score for score, _ in scored[:wanted]])


def test_a_larger_beam_finds_a_better_sequence_than_greedy() -> None:
    # 2 is more probable than 3, but its continuations are spread out; 3 is followed by the end token.
    table = table_of(
        {START: {2: 0.6, 3: 0.4}, 2: {4: 0.3, 5: 0.3, 6: 0.4}, 3: {END: 1.0}, 4: {END: 1}, 5: {END: 1}, 6: {END: 1}}, 7
    )
    config = SearchConfig(num_beams=2, n_best=2, length_penalty=0.0)
    assert greedy(TableDecoder(table), *ONE_SOURCE, end_id=END, config=config)[0].ids == (2, 6)
    best, second = beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, config=config)[0]
    assert best.ids == (3,)
    assert best.log_prob == pytest.approx(math.log(0.4))
    assert second.ids == (2, 6)
    assert second.log_prob == pytest.approx(math.log(0.24))


def test_the_length_penalty_by_hand() -> None:
    # "2 end" has probability 0.5, "3 3 3 end" 0.5 · 0.8 · 0.8 · 0.2 and so on: longer sequences are less probable.
    table = table_of({START: {2: 0.5, 3: 0.5}, 2: {END: 1.0}, 3: {3: 0.8, END: 0.2}}, 4)
    short = beam_search(
        TableDecoder(table),
        *ONE_SOURCE,
        end_id=END,
        config=SearchConfig(num_beams=3, length_penalty=0.0, max_len_a=None),
    )[0][0]
    assert short.ids == (2,)
    assert short.score == pytest.approx(math.log(0.5))
    long = beam_search(
        TableDecoder(table),
        *ONE_SOURCE,
        end_id=END,
        config=SearchConfig(num_beams=3, length_penalty=1.0, max_new_tokens=30, max_len_a=None),
    )[0][0]
    expected = {n: (math.log(0.5) + (n - 1) * math.log(0.8) + math.log(0.2)) / (n + 1) for n in range(1, 30)}
    best = max(expected, key=lambda n: expected[n])
    assert long.ids == (3,) * best
    assert long.score == pytest.approx(expected[best])


# --- consistency --------------------------------------------------------------------------------------------

KINDS = {
    "2017": dict(),
    "modern": dict(
        positions="rotary", norm_placement="pre", final_norm=True, activation="relu2", bias=False, embedding_norm=True,
        scale_embeddings=False, qk_norm=True,
    ),
    "learned": dict(positions="learned", max_positions=29, output_bias=True, tie_embeddings=False),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_scores_equal_teacher_forcing(kind: str) -> None:
    model = make_model(vocab_size=11, spread=0.5, **KINDS[kind])
    ids, lengths = make_sources([5, 2, 7], vocab_size=11)
    config = SearchConfig(num_beams=4, n_best=3, length_penalty=0.8, max_new_tokens=13)
    decoder = TorchSeq2SeqDecoder(model, start_id=START)
    lists = beam_search(decoder, ids, lengths, end_id=END, config=config)
    lists += [[one] for one in greedy(decoder, ids, lengths, end_id=END, config=config)]
    for row, hypotheses in enumerate(lists):
        for hypothesis in hypotheses:
            source = ids[row % 3, : lengths[row % 3]]
            (truth,) = teacher_forced(model, source, [tokens_of(hypothesis)])
            assert hypothesis.token_log_probs == pytest.approx(truth, abs=1e-10)
            assert hypothesis.log_prob == pytest.approx(sum(truth), abs=1e-10)
            assert hypothesis.score == pytest.approx(sum(truth) / len(truth) ** 0.8, abs=1e-10)


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    num_beams=st.integers(1, 5),
    spread=st.sampled_from([0.3, 1.0, 3.0]),
    length_penalty=st.sampled_from([-0.5, 0.0, 1.0]),
)
def test_batched_search_equals_single_search(
    lengths: list[int], seed: int, num_beams: int, spread: float, length_penalty: float
) -> None:
    model = make_model(vocab_size=7, seed=seed, spread=spread)
    ids, real = make_sources(lengths, vocab_size=7, seed=seed)
    config = SearchConfig(
        num_beams=num_beams, n_best=(num_beams + 1) // 2, length_penalty=length_penalty, max_new_tokens=9
    )
    decoder = TorchSeq2SeqDecoder(model, start_id=START)
    together = beam_search(decoder, ids, real, end_id=END, config=config)
    for row, length in enumerate(lengths):
        alone = beam_search(decoder, ids[row : row + 1, :length], real[row : row + 1], end_id=END, config=config)[0]
        assert [h.ids for h in alone] == [h.ids for h in together[row]]
        for a, b in zip(alone, together[row], strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-10)


def test_batched_search_equals_single_search_in_fp32() -> None:
    model = make_model(vocab_size=23).float()
    ids, lengths = make_sources([3, 11, 5, 2], vocab_size=23)
    decoder = TorchSeq2SeqDecoder(model, start_id=START)
    together = beam_search(decoder, ids, lengths, end_id=END)
    for row in range(4):
        alone = beam_search(decoder, ids[row : row + 1, : lengths[row]], lengths[row : row + 1], end_id=END)[0]
        assert alone[0].ids == together[row][0].ids
        assert alone[0].score == pytest.approx(together[row][0].score, abs=1e-5)


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), spread=st.sampled_from([0.3, 1.0, 3.0]), least=st.integers(0, 3))
def test_beam_search_with_one_beam_and_stream_are_greedy(seed: int, spread: float, least: int) -> None:
    model = make_model(vocab_size=7, seed=seed, spread=spread)
    ids, lengths = make_sources([3, 1, 5], vocab_size=7, seed=seed)
    config = SearchConfig(num_beams=1, max_new_tokens=9, min_new_tokens=least)
    decoder = TorchSeq2SeqDecoder(model, start_id=START)
    chosen = greedy(decoder, ids, lengths, end_id=END, config=config)
    searched = beam_search(decoder, ids, lengths, end_id=END, config=config)
    assert [[h] for h in chosen] == searched
    for row, hypothesis in enumerate(chosen):
        length = int(lengths[row])
        source = (ids[row : row + 1, :length], lengths[row : row + 1])
        pairs = list(stream(decoder, *source, end_id=END, config=config))
        assert tuple(i for i, _ in pairs) == hypothesis.ids
        assert [p for _, p in pairs] == pytest.approx(hypothesis.token_log_probs[: len(pairs)], abs=1e-10)
        # And without caches: a full forward pass for each token.
        prefix = [START]
        while len(prefix) <= len(hypothesis.ids):
            with torch.no_grad():
                logits = model(source[0], torch.tensor([prefix]), masks.no_mask())[0, -1]
            if len(prefix) <= least:
                logits[END] = -math.inf
            prefix.append(int(logits.argmax()))
        assert tuple(prefix[1:]) == hypothesis.ids


# --- lists ---------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    num_beams=st.integers(1, 6),
    n_best=st.integers(1, 6),
    longest=st.integers(1, 6),
    spread=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_n_best_lists_are_sorted_distinct_and_within_limits(
    seed: int, num_beams: int, n_best: int, longest: int, spread: float
) -> None:
    n_best = min(n_best, num_beams)
    model = make_model(vocab_size=7, seed=seed, spread=spread)
    ids, lengths = make_sources([3, 5], vocab_size=7, seed=seed)
    config = SearchConfig(num_beams=num_beams, n_best=n_best, max_new_tokens=longest)
    forbidden = (START, 4)
    decoder = TorchSeq2SeqDecoder(model, start_id=START)
    for hypotheses in beam_search(decoder, ids, lengths, end_id=END, forbidden_ids=forbidden, config=config):
        assert 1 <= len(hypotheses) <= n_best
        assert len({(h.ids, h.ended) for h in hypotheses}) == len(hypotheses)
        order = [(not h.ended, -h.score) for h in hypotheses]
        assert order == sorted(order)
        for hypothesis in hypotheses:
            assert not set(hypothesis.ids) & {*forbidden, END}
            assert len(hypothesis.token_log_probs) == len(hypothesis.ids) + hypothesis.ended <= longest
            assert hypothesis.ended or len(hypothesis.ids) == longest


def test_forbidden_ids_are_skipped_without_renormalization() -> None:
    table = table_of({START: {2: 0.5, 3: 0.3, END: 0.2}, 3: {2: 0.9, END: 0.1}}, 4)
    (chosen,) = greedy(TableDecoder(table), *ONE_SOURCE, end_id=END, forbidden_ids=[2])
    assert chosen.ids == (3,)
    assert chosen.token_log_probs == pytest.approx([math.log(0.3), math.log(0.1)])
    assert beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, forbidden_ids=[2])[0][0].ids == ()


def test_fewer_continuations_than_beams() -> None:
    table = table_of({START: {2: 0.5, END: 0.5}, 2: {END: 1.0}}, 3)
    config = SearchConfig(num_beams=5, n_best=5, length_penalty=0.0)
    found = beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, config=config)[0]
    assert [h.ids for h in found] == [(), (2,)]
    only_end = beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, forbidden_ids=[START, 2], config=config)[0]
    assert [h.ids for h in only_end] == [()]


# --- lengths -------------------------------------------------------------------------------------------------

RUNAWAY = table_of({START: {2: 1.0}, 2: {2: 0.99, 3: 0.01}, 3: {3: 1.0}}, 4)  # never ends


@pytest.mark.parametrize("num_beams", [1, 3])
def test_output_without_an_end_is_limited_by_the_source_length(num_beams: int) -> None:
    ids, lengths = torch.zeros(3, 5, dtype=torch.long), torch.tensor([1, 5, 3])
    config = SearchConfig(num_beams=num_beams, max_len_a=1.5, max_len_b=2)
    for hypotheses, expected in zip(
        beam_search(TableDecoder(RUNAWAY), ids, lengths, end_id=END, config=config), [3, 9, 6], strict=True
    ):
        assert hypotheses[0].ids == (2,) * expected
        assert not hypotheses[0].ended
        assert len(hypotheses[0].token_log_probs) == expected
    assert [len(h.ids) for h in greedy(TableDecoder(RUNAWAY), ids, lengths, end_id=END, config=config)] == [3, 9, 6]
    streamed = list(stream(TableDecoder(RUNAWAY), ids[:1], lengths[:1], end_id=END, config=config))
    assert [i for i, _ in streamed] == [2, 2, 2]


def test_max_new_tokens_counts_the_end_token() -> None:
    ids, lengths = torch.zeros(1, 50, dtype=torch.long), torch.tensor([50])
    config = SearchConfig(max_new_tokens=4)
    assert beam_search(TableDecoder(RUNAWAY), ids, lengths, end_id=END, config=config)[0][0].ids == (2,) * 4
    ending = table_of({START: {2: 1.0}, 2: {3: 1.0}, 3: {END: 1.0}}, 4)
    whole = greedy(TableDecoder(ending), ids, lengths, end_id=END, config=SearchConfig(max_new_tokens=3))[0]
    assert (whole.ids, whole.ended) == ((2, 3), True)
    cut = greedy(TableDecoder(ending), ids, lengths, end_id=END, config=SearchConfig(max_new_tokens=2))[0]
    assert (cut.ids, cut.ended) == ((2, 3), False)


def test_finished_hypotheses_rank_before_unfinished_ones() -> None:
    table = table_of({START: {2: 0.9, END: 0.1}, 2: {2: 0.99, END: 0.01}}, 3)
    config = SearchConfig(num_beams=3, n_best=3, max_new_tokens=2)
    found = beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, config=config)[0]
    assert [(h.ids, h.ended) for h in found] == [((), True), ((2,), True), ((2, 2), False)]
    assert found[2].score > found[0].score > found[1].score


def test_min_new_tokens_delay_the_end_token() -> None:
    table = table_of({START: {END: 0.9, 2: 0.1}, 2: {END: 0.9, 2: 0.1}}, 3)
    config = SearchConfig(min_new_tokens=3, max_len_a=0.1, max_len_b=0)  # min_new_tokens takes precedence
    for hypothesis in (
        greedy(TableDecoder(table), *ONE_SOURCE, end_id=END, config=config)[0],
        beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, config=config)[0][0],
    ):
        assert hypothesis.ids == (2, 2, 2)
        assert hypothesis.ended
        assert hypothesis.log_prob == pytest.approx(3 * math.log(0.1) + math.log(0.9))


def test_learned_positions_limit_the_output() -> None:
    model = make_model(vocab_size=5, positions="learned", max_positions=6)
    ids, lengths = make_sources([5], vocab_size=5)
    config = SearchConfig(num_beams=2, min_new_tokens=20)
    found = beam_search(TorchSeq2SeqDecoder(model, start_id=START), ids, lengths, end_id=END, config=config)[0][0]
    assert len(found.ids) == 6
    assert not found.ended


# --- ties and stopping --------------------------------------------------------------------------------------


def test_ties_are_broken_by_the_lower_id() -> None:
    flat = torch.zeros(300, 300)
    config = SearchConfig(num_beams=3, n_best=3, max_new_tokens=2, max_len_a=None)
    chosen = greedy(TableDecoder(flat), *ONE_SOURCE, end_id=299, config=config)[0]
    found = beam_search(TableDecoder(flat), *ONE_SOURCE, end_id=299, config=config)[0]
    assert chosen.ids == (0, 0)
    assert [h.ids for h in found] == [(0, 0), (0, 1), (0, 2)]
    assert beam_search(TableDecoder(flat), *ONE_SOURCE, end_id=299, config=config.replace(num_beams=1, n_best=1)) == [
        [chosen]
    ]


@given(
    values=st.lists(st.lists(st.integers(0, 4), min_size=9, max_size=9), min_size=1, max_size=4),
    count=st.integers(1, 9),
)
def test_top_of_rows_equals_a_stable_sort(values: list[list[int]], count: int) -> None:
    scores = torch.tensor(values, dtype=torch.float32)
    best, places = top_of_rows(scores, count)
    for row, numbers in enumerate(values):
        expected = sorted(range(9), key=lambda i: (-numbers[i], i))[:count]
        assert places[row].tolist() == expected
        assert best[row].tolist() == [numbers[i] for i in expected]


def test_finished_sentences_leave_the_batch() -> None:
    # A table does not depend on the source, so all sentences have the same output; only their limits differ.
    decoder = TableDecoder(RUNAWAY)
    ids, lengths = torch.zeros(3, 7, dtype=torch.long), torch.tensor([1, 7, 3])
    beam_search(decoder, ids, lengths, end_id=END, config=SearchConfig(num_beams=2, max_len_a=1.0, max_len_b=0))
    assert decoder.rows_at_each_step == [3, 4, 4, 2, 2, 2, 2]
    decoder = TableDecoder(RUNAWAY)
    greedy(decoder, ids, lengths, end_id=END, config=SearchConfig(max_len_a=1.0, max_len_b=0))
    assert decoder.rows_at_each_step == [3, 2, 2, 1, 1, 1, 1]


def test_search_stops_when_no_beam_can_win() -> None:
    table = table_of({START: {2: 0.9, 3: 0.1}, 2: {END: 1.0}, 3: {3: 1.0}}, 4)
    decoder = TableDecoder(table)
    config = SearchConfig(num_beams=2, length_penalty=0.0, max_len_a=None)
    beam_search(decoder, *ONE_SOURCE, end_id=END, config=config)
    assert len(decoder.rows_at_each_step) == 2  # sums only decrease: 0.1 cannot exceed 0.9
    # With length normalization, 0.1 could: its mean over 100 tokens of probability 1 exceeds the mean of 0.9 over two.
    decoder = TableDecoder(table)
    config = SearchConfig(num_beams=2, length_penalty=1.0, max_len_a=None, max_new_tokens=100)
    beam_search(decoder, *ONE_SOURCE, end_id=END, config=config)
    assert len(decoder.rows_at_each_step) == 100


def test_no_rows_give_no_output() -> None:
    nothing = (torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert beam_search(TableDecoder(RUNAWAY), *nothing, end_id=END) == []
    assert greedy(TableDecoder(RUNAWAY), *nothing, end_id=END) == []


# --- compared with transformers --------------------------------------------------------------------------------------


class MarianDecoder:
    """A MarianMT model of transformers as a `Decoder`, without caches: each step processes the whole prefix."""

    max_new_tokens: int | None = None

    def __init__(self, model: torch.nn.Module, start_id: int) -> None:
        self.model, self.start_id = model, start_id

    def prefill(self, ids: Tensor, lengths: Tensor) -> Tensor:
        self.source = ids
        self.mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        self.target = torch.full((len(ids), 0), 0)
        return self.step(torch.full((len(ids),), self.start_id))

    @torch.no_grad()
    def step(self, ids: Tensor) -> Tensor:
        self.target = torch.cat((self.target, ids[:, None]), dim=1)
        out = self.model(input_ids=self.source, attention_mask=self.mask, decoder_input_ids=self.target)
        return out.logits[:, -1]  # type: ignore[no-any-return]

    def reorder(self, rows: Tensor) -> None:
        self.source, self.mask, self.target = self.source[rows], self.mask[rows], self.target[rows]


@pytest.mark.parametrize("length_penalty", [0.6, 1.0])
def test_n_best_lists_equal_those_of_transformers(length_penalty: float) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    size, pad = 17, 16
    marian = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=size, d_model=12, encoder_layers=1, decoder_layers=2, encoder_attention_heads=3,
            decoder_attention_heads=3, encoder_ffn_dim=13, decoder_ffn_dim=13, pad_token_id=pad, eos_token_id=END,
            decoder_start_token_id=pad, forced_eos_token_id=None, max_position_embeddings=64, init_std=0.4,
        )
    ).double().eval()  # fmt: skip
    ids, lengths = make_sources([5, 3, 7, 2, 6], vocab_size=size - 1)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    generation = dict(max_new_tokens=40, do_sample=False, return_dict_in_generate=True, output_scores=True)
    generation |= dict(bad_words_ids=[[pad]], pad_token_id=pad, eos_token_id=END, forced_eos_token_id=None)

    def without_padding(row: Tensor) -> list[int]:
        return [i for i in row.tolist() if i not in (pad, END)]

    theirs = marian.generate(ids, attention_mask=mask, num_beams=1, **generation)
    config = SearchConfig(num_beams=4, n_best=3, length_penalty=length_penalty, max_new_tokens=40, max_len_a=None)
    search = dict(end_id=END, forbidden_ids=[pad], config=config)
    ours = greedy(MarianDecoder(marian, pad), ids, lengths, **search)  # type: ignore[arg-type]
    assert [list(h.ids) for h in ours] == [without_padding(row) for row in theirs.sequences]

    # "never" is their name for stopping only when nothing can win any more.
    theirs = marian.generate(
        ids, attention_mask=mask, num_beams=4, num_return_sequences=3, early_stopping="never",
        length_penalty=length_penalty, **generation,
    )  # fmt: skip
    lists = beam_search(MarianDecoder(marian, pad), ids, lengths, **search)  # type: ignore[arg-type]
    flat = [hypothesis for hypotheses in lists for hypothesis in hypotheses]
    compared = 0
    for hypothesis, sequence, score in zip(flat, theirs.sequences, theirs.sequences_scores, strict=True):
        if hypothesis.ended and END in sequence.tolist():
            assert list(hypothesis.ids) == without_padding(sequence)
            assert hypothesis.score == pytest.approx(float(score), abs=1e-6)  # they add up in single precision
            compared += 1
    assert compared >= 10


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("can_end", [True, False])
def test_beam_search_of_a_gpt_equals_that_of_transformers(length_penalty: float, can_end: bool) -> None:
    """GPT-2 in transformers and here with the same weights; both rank unfinished texts by their scores, too."""
    transformers = pytest.importorskip("transformers")
    size, longest = 17, 9
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=size, n_positions=31, n_embd=12, n_layer=2, n_head=3, initializer_range=0.5,
            bos_token_id=END, eos_token_id=END,
        )
    ).double().eval()  # fmt: skip
    shape = dict(vocab_size=size, context_length=31, d_model=12, num_layers=2, num_heads=3, head_dim=4, d_ff=48)
    ours = GPT(GPTConfig(**{**GPT2, **shape})).double().eval()
    ours.load_state_dict(convert.GPT2.read_tensors(theirs.state_dict(), ours.config))
    least = 0 if can_end else longest
    found, ended = [], 0
    for prompt in ([5], [2, 3, 11], [7, 7, 7, 7]):
        out = theirs.generate(
            torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), num_beams=4, num_return_sequences=3,
            early_stopping="never", length_penalty=length_penalty, max_new_tokens=longest, do_sample=False,
            return_dict_in_generate=True, output_scores=True, pad_token_id=0, min_new_tokens=least,
        )  # fmt: skip
        config = SearchConfig(
            num_beams=4, n_best=3, length_penalty=length_penalty, max_new_tokens=longest, max_len_a=None,
            min_new_tokens=least,
        )  # fmt: skip
        decoder, ids = TorchGPTDecoder(ours), torch.tensor([prompt])
        one = dict(end_id=END, config=config, prefer_ends=False)
        hypotheses = beam_search(decoder, ids, torch.tensor([len(prompt)]), **one)[0]  # type: ignore[arg-type]
        for hypothesis, sequence, score in zip(hypotheses, out.sequences, out.sequences_scores, strict=True):
            written = sequence.tolist()[len(prompt) :]
            if can_end and END in written:
                written = written[: written.index(END)]
            found.append((list(hypothesis.ids), written))
            ended += hypothesis.ended
            assert hypothesis.score == pytest.approx(float(score), abs=1e-6)  # they add up in single precision
    assert all(mine == their for mine, their in found), found
    assert bool(ended) == (can_end and length_penalty < 1)  # means per token favor the longest here


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_settings", "argument"),
    [
        (dict(num_beams=0), "num_beams"),
        (dict(n_best=0), "n_best"),
        (dict(num_beams=3, n_best=4), "n_best"),
        (dict(max_new_tokens=0), "max_new_tokens"),
        (dict(min_new_tokens=-1), "min_new_tokens"),
        (dict(min_new_tokens=9, max_new_tokens=8), "min_new_tokens"),
        (dict(max_len_b=-1), "max_len_b"),
        (dict(max_len_a=0.0), "max_len_a"),
        (dict(max_len_a=math.nan), "max_len_a"),
        (dict(length_penalty=math.nan), "length_penalty"),
        (dict(length_penalty=11.0), "length_penalty"),
    ],
)
def test_invalid_settings_are_refused(given_settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        SearchConfig(**given_settings)
    assert caught.value.argument == argument


@pytest.mark.parametrize("function", [beam_search, stream])
@pytest.mark.parametrize(
    ("ids", "lengths", "more", "argument", "value"),
    [
        (torch.zeros(3, dtype=torch.long), torch.tensor([3]), {}, "ids", ((3,), (1,))),
        (torch.zeros(1, 3, dtype=torch.long), torch.tensor([3, 3]), {}, "ids", ((1, 3), (2,))),
        (torch.zeros(1, 3, dtype=torch.long), torch.tensor([0]), {}, "lengths", 0),
        (torch.zeros(1, 3, dtype=torch.long), torch.tensor([4]), {}, "lengths", 4),
        (*ONE_SOURCE, {"end_id": 4}, "end_id", 4),
        (*ONE_SOURCE, {"forbidden_ids": [-1]}, "forbidden_ids", -1),
        (*ONE_SOURCE, {"forbidden_ids": [END]}, "forbidden_ids", END),
        (
            *ONE_SOURCE,
            {"forbidden_ids": [0, 2, 3], "config": SearchConfig(min_new_tokens=1)},
            "forbidden_ids",
            (0, 2, 3),
        ),
    ],
)
def test_invalid_arguments_are_refused(
    function: Any, ids: Tensor, lengths: Tensor, more: dict[str, object], argument: str, value: object
) -> None:
    with pytest.raises(UsageError) as caught:
        function(TableDecoder(RUNAWAY), ids, lengths, **{"end_id": END, **more})
    assert (caught.value.argument, caught.value.value) == (argument, value)


def test_stream_refuses_several_sequences() -> None:
    with pytest.raises(UsageError) as caught:
        stream(TableDecoder(RUNAWAY), torch.zeros(2, 3, dtype=torch.long), torch.tensor([3, 3]), end_id=END)
    assert (caught.value.argument, caught.value.value) == ("ids", (2, 3))


@pytest.mark.parametrize(("place", "bad"), [((2, 3), math.nan), ((2, 3), math.inf), ((0, 2), -math.inf)])
def test_nan_and_infinite_logits_raise(place: tuple[int, int], bad: float) -> None:
    table = RUNAWAY.clone()
    table[place] = bad
    for function in (greedy, beam_search):
        with pytest.raises(RegardError) as caught:
            function(TableDecoder(table), *ONE_SOURCE, end_id=END)
        assert caught.value.argument == "model"


def test_any_end_token_ends_a_hypothesis() -> None:
    # 5 is another end token.
    table = table_of({START: {2: 0.15, 3: 0.1, END: 0.45, 5: 0.3}, 2: {5: 0.6, 4: 0.4}, 3: {END: 1}, 4: {END: 1}}, 6)
    config = SearchConfig(num_beams=2, n_best=2, length_penalty=0.0)
    found = beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, other_ends=[5], config=config)[0]
    assert [(one.ids, one.end_id, one.ended) for one in found] == [((), END, True), ((), 5, True)]
    assert [one.log_prob for one in found] == pytest.approx([math.log(0.45), math.log(0.3)])
    later = beam_search(
        TableDecoder(table),
        *ONE_SOURCE,
        end_id=END,
        other_ends=[5],
        config=SearchConfig(num_beams=2, n_best=2, length_penalty=0.0, min_new_tokens=1),
    )[0]
    assert [(one.ids, one.end_id) for one in later] == [((3,), END), ((2,), 5)]
    with pytest.raises(UsageError) as caught:
        beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, other_ends=[5], forbidden_ids=[5])
    assert (caught.value.argument, caught.value.value) == ("forbidden_ids", 5)


def test_end_tokens_do_not_displace_unfinished_beams() -> None:
    # In both beams, both end tokens are more probable than token 4, but sequences with it win by length.
    table = table_of({START: {2: 0.5, 3: 0.5}, **{i: {END: 0.35, 5: 0.35, 4: 0.3} for i in (2, 3)}, 4: {END: 1}}, 6)
    config = SearchConfig(num_beams=2, n_best=2, length_penalty=2.0)
    found = beam_search(TableDecoder(table), *ONE_SOURCE, end_id=END, other_ends=[5], config=config)[0]
    assert [one.ids for one in found] == [(2, 4), (3, 4)]
