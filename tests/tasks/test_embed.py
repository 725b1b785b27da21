"""Embedding: pooled by hand, however texts are batched and threaded; token vectors; what is cut and what is empty."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import UsageError
from regard.models.bert import Bert, make_bert
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.packed import pack_weights
from regard.nn.taps import capture
from regard.tasks.embed import Embedder, pool
from regard.tasks.reading import LARGEST, SMALLEST, Reader, alike, in_threads, padded
from regard.tasks.settings import EmbedConfig
from regard.text.tokenizer import Symbols
from regard.text.training import train_tokenizer

WORDS = ("the", "small", "cat", "sleeps", "while", "a", "big", "dog", "runs", "over", "green", "hills", "and", "sees")
TEXTS = [
    " ".join(itertools.islice(itertools.cycle(WORDS), start, start + n)) for start, n in enumerate((3, 11, 1, 7, 3))
]
TOKENIZER = train_tokenizer(
    TEXTS, kind="wordpiece", vocab_size=79, symbols=Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
)


def make(head: HeadConfig | None = None, **settings: Any) -> Embedder:
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=TOKENIZER.vocab_size, layers=2, width=14, hidden=22, heads=2, head_width=7, context=53
    )
    model = make_bert(config, head or HeadConfig())
    for param in model.parameters():
        nn.init.normal_(param, std=0.4)
    return Embedder(model, TOKENIZER, head=head, config=EmbedConfig(**settings))


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return make()


def hidden(embedder: Embedder, text: str) -> torch.Tensor:
    ids = [TOKENIZER.start_id, *TOKENIZER.encode(text), TOKENIZER.end_id]
    with torch.no_grad():
        return embedder.bert(torch.tensor([ids]))[0]


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalise", [True, False])
def test_m169_pooled_by_hand(embedder: Embedder, pooling: str, normalise: bool) -> None:
    found = embedder.embed(TEXTS, pooling=pooling, normalise=normalise)
    assert found.shape == (5, 14)
    assert found.dtype == np.float32
    for row, text in zip(found, TEXTS, strict=True):
        states = hidden(embedder, text).double().numpy()
        expected = {"mean": states.sum(axis=0) / len(states), "cls": states[0], "max": states.max(axis=0)}[pooling]
        if normalise:
            expected = expected / np.sqrt((expected**2).sum())
        np.testing.assert_allclose(row, expected, atol=1e-5)


def test_rows_are_of_length_one_and_in_the_order_of_the_texts(embedder: Embedder) -> None:
    found = embedder.embed(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    for text, row in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(embedder.embed([text])[0], row, atol=1e-5)
        np.testing.assert_allclose(embedder(text), row, atol=1e-5)
    assert embedder.embed([]).shape == (0, 14)


def test_threads_change_nothing(embedder: Embedder) -> None:
    texts = TEXTS * 31
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = embedder.embed(texts)
        torch.set_num_threads(3)
        together = embedder.embed(texts)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_any_head_embeds_and_who_watches_sees(embedder: Embedder) -> None:
    sequence = make(HeadConfig(kind="sequence", labels=("a", "b")))
    assert sequence.embed(TEXTS).shape == (5, 14)
    with capture(embedder.bert) as trace:
        embedder.embed(TEXTS)
    assert set(trace.recipes) == {"encoder.0.self", "encoder.1.self"}


def test_m34_m35_a_vector_for_every_token_that_depends_on_its_neighbours(embedder: Embedder) -> None:
    one, other = embedder.tokens("the small cat sleeps"), embedder.tokens("the small dog sleeps")
    assert one.vectors.shape == (len(one), 14)
    assert one.tokens[0] == "[CLS]"
    assert one.tokens[-1] == "[SEP]"
    np.testing.assert_allclose(one.vectors, hidden(embedder, "the small cat sleeps").numpy(), atol=1e-6)
    assert np.linalg.norm(one.vectors[1] - other.vectors[1]) > 1e-3, "the same word, another neighbour"


def test_pieces_are_the_text_as_it_was_typed(embedder: Embedder) -> None:
    text = "  The SMALL cat  sleeps!"
    found = embedder.tokens(text)
    assert found.pieces[0] == found.pieces[-1] == ""
    assert "".join(found.pieces) == "TheSMALLcatsleeps!"
    assert all(text[start:end] == piece for (start, end), piece in zip(found.spans, found.pieces, strict=True))
    assert len(found.pieces) == len(found.tokens) == len(found.vectors)


def test_vectors_of_every_layer(embedder: Embedder) -> None:
    text = TEXTS[1]
    ids = torch.tensor([[TOKENIZER.start_id, *TOKENIZER.encode(text), TOKENIZER.end_id]])
    with torch.no_grad():
        x = embedder.bert.embedding(ids)
        np.testing.assert_allclose(embedder.tokens(text, layer=0).vectors, x[0].numpy(), atol=1e-6)
        for layer, block in enumerate(embedder.bert.encoder, start=1):
            x = block(x)
            np.testing.assert_allclose(embedder.tokens(text, layer=layer).vectors, x[0].numpy(), atol=1e-5)
    with pytest.raises(UsageError, match="from 0, the embeddings, to 2, the last block, not 3"):
        embedder.tokens(text, layer=3)


def test_similarity_is_the_cosine(embedder: Embedder) -> None:
    vectors = embedder.embed(TEXTS, normalise=False)
    expected = [[(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)) for b in vectors] for a in vectors]
    np.testing.assert_allclose(embedder.similarity(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(embedder.similarity(TEXTS[0], TEXTS[1:]), np.array(expected)[:1, 1:], atol=1e-5)
    assert embedder.similarity(TEXTS[0], TEXTS[0]).shape == (1, 1)


def test_long_texts_are_cut_and_it_is_said(embedder: Embedder) -> None:
    said: list[str] = []
    found = embedder.embed(["cat " * 100_000, "cat"], say=said.append)
    assert len(said) == 1
    assert "1 of 2 texts cut off after 53 tokens: text 1 (" in said[0]
    np.testing.assert_allclose(found[0], embedder.embed("cat " * 51), atol=1e-5)
    said.clear()
    embedder.embed(TEXTS, max_tokens=5, say=said.append)
    assert "cut off after 5 tokens" in said[0]
    assert len(embedder.tokens(TEXTS[1], max_tokens=5)) == 5


def test_texts_without_words_are_named(embedder: Embedder) -> None:
    said: list[str] = []
    found = embedder.embed(["", "cat", " \t"], say=said.append)
    assert said == ["2 of 3 texts without words, and vectors of nothing: text 1, 3."]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0], found[2], atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(pooling="median"), "unknown pooling 'median'"),
        (dict(max_tokens=2), "max_tokens must be at least 3"),
        (dict(poling="mean"), "Did you mean 'pooling'"),
    ],
)
def test_settings_that_make_no_sense(embedder: Embedder, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        embedder.embed(TEXTS, **settings)


def test_what_is_no_text(embedder: Embedder) -> None:
    with pytest.raises(UsageError, match="text 1 must be a str, got int"):
        embedder.embed(["a", 7])  # type: ignore[list-item]


def test_attention_over_a_text(embedder: Embedder) -> None:
    trace = embedder.trace("the small cat")
    weights = trace["encoder.1.self"].weights()
    assert weights.shape[1] == 2
    assert weights.shape[-1] == len(embedder.tokens("the small cat"))


# --- Batches -------------------------------------------------------------------------------------------------


def test_batches_hold_every_text_once_and_waste_little() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(3, 60, 1009)]
    batches = alike(lengths, shares=2)
    assert sorted(number for batch in batches for number in batch) == list(range(1009))
    sizes = [(max(lengths[i] for i in batch), len(batch)) for batch in batches]
    assert all(longest * count <= LARGEST for longest, count in sizes)
    assert [longest for longest, _ in sizes] == sorted((longest for longest, _ in sizes), reverse=True)
    computed = sum(longest * count for longest, count in sizes)
    assert computed <= 1.02 * sum(lengths)


def test_few_texts_are_padded_together_and_many_are_not() -> None:
    assert alike([5, 9, 7]) == [[1, 2, 0]]
    same = alike([SMALLEST] * 3 + [SMALLEST - 1] * 2)
    assert same == [[0, 1, 2], [3, 4]]
    assert len(alike([16] * 128, shares=2)) == 2
    assert alike([]) == []
    assert alike([LARGEST + 5, 3]) == [[0], [1]]


def test_padding() -> None:
    ids, lengths = padded([[4, 5], [6]], 9, torch.device("cpu"))
    assert ids.tolist() == [[4, 5], [6, 9]]
    assert lengths is not None
    assert lengths.tolist() == [2, 1]
    assert padded([[4, 5], [6, 7]], 9, torch.device("cpu"))[1] is None


def test_a_failure_in_a_thread_is_a_failure() -> None:
    def run(batch: list[int]) -> int:
        if batch == [2]:
            raise UsageError("no")
        return batch[0]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert list(in_threads(run, [[0], [1]])) == [0, 1]
        with pytest.raises(UsageError, match="no"):
            list(in_threads(run, [[0], [1], [2]]))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_pooling_of_nothing_but_padding_values() -> None:
    states = torch.tensor([[[1.0], [3.0], [100.0]], [[-1.0], [-2.0], [-3.0]]])
    lengths = torch.tensor([2, 3])
    assert pool(states, lengths, "mean").flatten().tolist() == [2.0, -2.0]
    assert pool(states, lengths, "max").flatten().tolist() == [3.0, -1.0]
    assert pool(states, lengths, "cls").flatten().tolist() == [1.0, -1.0]


# --- Reading in a hurry --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu-tanh"])
def test_who_only_reads_gets_the_same_bits(dtype: torch.dtype, activation: Any) -> None:
    torch.manual_seed(2)
    shape: Any = dict(vocab_size=31, layers=3, width=14, hidden=22, heads=3, head_width=5, context=29)
    bert = Bert(BertConfig(**shape, activation=activation, heads_at={"encoder.1.self": 1})).to(dtype).eval()
    for param in bert.parameters():
        nn.init.normal_(param, std=0.4)
    read = Reader(bert)
    with torch.no_grad():
        for rows, tokens in ((2, 5), (7, 13), (1, 3), (7, 13)):  # memory that is too small, and too large
            ids = torch.randint(31, (rows, tokens))
            lengths, segments = torch.randint(1, tokens + 1, (rows,)), torch.randint(2, (rows, tokens))
            assert torch.equal(read(ids), bert(ids))
            assert torch.equal(read(ids, lengths, segments), bert(ids, lengths, segments))


def test_what_was_read_stays_when_more_is_read() -> None:
    read = Reader(make().bert)
    with torch.no_grad():
        first = read(torch.tensor([[1, 2, 3]]))
        before = first.clone()
        read(torch.tensor([[4, 5, 6]]))
    assert torch.equal(first, before)


def test_where_there_is_more_to_do_the_encoder_itself_runs() -> None:
    embedder = make()
    read, ids = Reader(embedder.bert), torch.tensor([[1, 2, 3]])
    assert read(ids).requires_grad
    with torch.no_grad():
        with capture(embedder.bert) as trace:
            read(ids)
        assert len(trace.recipes) == 2
        plain = read(ids)
        pack_weights(embedder.bert, "int8")
        assert not torch.equal(read(ids), plain)
        assert (read(ids) - plain).abs().max() < 0.2
