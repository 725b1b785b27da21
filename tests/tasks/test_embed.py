"""Embedding: pooled by hand, however texts are batched and threaded; token vectors; truncated and empty texts."""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert, build
from regard.models.heads import HeadConfig
from regard.nn.hooks import capture
from regard.nn.quantized import quantize_weights
from regard.registry import architectures
from regard.tasks.embed.predictor import Embedder, Embedding, Similarity, TokenVectors, pool
from regard.tasks.embed.spec import EmbedConfig
from regard.tasks.encoder import predictor as encoder_predictor
from regard.tasks.encoder.inference import (
    MAX_BATCH_TOKENS,
    MIN_BATCH_TOKENS,
    BufferedEncoder,
    in_threads,
    length_batches,
)
from regard.tasks.encoder.predictor import EncodedExample, encode_texts, predict_logits
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

WORDS = ("the", "small", "cat", "sleeps", "while", "a", "big", "dog", "runs", "over", "green", "hills", "and", "sees")
TEXTS = [
    " ".join(itertools.islice(itertools.cycle(WORDS), start, start + n)) for start, n in enumerate((3, 11, 1, 7, 3))
]
TOKENIZER = train_tokenizer(
    TEXTS,
    kind="wordpiece",
    vocab_size=79,
    special_tokens=SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]"),
)


def make(head: HeadConfig | None = None, **settings: Any) -> Embedder:
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=TOKENIZER.vocab_size, num_layers=2, d_model=14, d_ff=22, num_heads=2, head_dim=7, context_length=53
    )
    model = build(config, head or HeadConfig())
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
@pytest.mark.parametrize("normalize", [True, False])
def test_m169_pooled_by_hand(embedder: Embedder, pooling: str, normalize: bool) -> None:
    found = embedder.vectors(TEXTS, pooling=pooling, normalize=normalize)
    assert found.shape == (5, 14)
    assert found.dtype == np.float32
    for row, text in zip(found, TEXTS, strict=True):
        states = hidden(embedder, text).double().numpy()
        expected = {"mean": states.sum(axis=0) / len(states), "cls": states[0], "max": states.max(axis=0)}[pooling]
        if normalize:
            expected = expected / np.sqrt((expected**2).sum())
        np.testing.assert_allclose(row, expected, atol=1e-5)


def test_rows_are_of_length_one_and_in_the_order_of_the_texts(embedder: Embedder) -> None:
    found = embedder.vectors(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    for text, row in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(embedder.vectors([text])[0], row, atol=1e-5)
        np.testing.assert_allclose(embedder(text).vector, row, atol=1e-5)
        np.testing.assert_allclose(embedder.embed(text), row, atol=1e-5)
    assert embedder.vectors([]).shape == (0, 14)


def test_threads_change_nothing(embedder: Embedder) -> None:
    texts = TEXTS * 31
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = embedder.vectors(texts)
        torch.set_num_threads(3)
        together = embedder.vectors(texts)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_any_head_embeds_and_hooks_see_all_layers(embedder: Embedder) -> None:
    sequence = make(HeadConfig(kind="sequence_classification", labels=("a", "b")))
    assert sequence.vectors(TEXTS).shape == (5, 14)
    with capture(embedder.bert) as trace:
        embedder.vectors(TEXTS)
    assert set(trace.captured) == {"encoder.0.self", "encoder.1.self"}


def test_m34_m35_a_vector_for_every_token_that_depends_on_its_neighbors(embedder: Embedder) -> None:
    one, other = embedder.tokens("the small cat sleeps"), embedder.tokens("the small dog sleeps")
    assert one.vectors.shape == (len(one), 14)
    assert one.tokens[0] == "[CLS]"
    assert one.tokens[-1] == "[SEP]"
    np.testing.assert_allclose(one.vectors, hidden(embedder, "the small cat sleeps").numpy(), atol=1e-6)
    assert np.linalg.norm(one.vectors[1] - other.vectors[1]) > 1e-3, "the same word, another neighbor"


def test_tokens_are_the_text_as_it_was_typed(embedder: Embedder) -> None:
    text = "  The SMALL cat  sleeps!"
    found = embedder.tokens(text)
    assert found.token_texts[0] == found.token_texts[-1] == ""
    assert "".join(found.token_texts) == "TheSMALLcatsleeps!"
    assert all(text[start:end] == typed for (start, end), typed in zip(found.spans, found.token_texts, strict=True))
    assert len(found.token_texts) == len(found.tokens) == len(found.vectors)


def test_vectors_of_every_layer(embedder: Embedder) -> None:
    text = TEXTS[1]
    ids = torch.tensor([[TOKENIZER.start_id, *TOKENIZER.encode(text), TOKENIZER.end_id]])
    with torch.no_grad():
        x = embedder.bert.embedding(ids)
        np.testing.assert_allclose(embedder.tokens(text, layer=0).vectors, x[0].numpy(), atol=1e-6)
        for layer, block in enumerate(embedder.bert.encoder, start=1):
            x = block(x)
            np.testing.assert_allclose(embedder.tokens(text, layer=layer).vectors, x[0].numpy(), atol=1e-5)
    with pytest.raises(UsageError) as error:
        embedder.tokens(text, layer=3)
    assert (error.value.argument, error.value.value) == ("layer", 3)


def test_similarity_is_the_cosine(embedder: Embedder) -> None:
    vectors = embedder.vectors(TEXTS, normalize=False)
    expected = [[(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)) for b in vectors] for a in vectors]
    np.testing.assert_allclose(embedder.similarity(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(embedder.similarity(TEXTS[0], TEXTS[1:]), np.array(expected)[:1, 1:], atol=1e-5)
    assert embedder.similarity(TEXTS[0], TEXTS[0]).shape == (1, 1)


def test_results(embedder: Embedder) -> None:
    found = embedder(TEXTS, pooling="max")
    assert all(isinstance(result, Embedding) for result in found)
    assert [result.text for result in found] == TEXTS
    np.testing.assert_array_equal([result.vector for result in found], embedder.vectors(TEXTS, pooling="max"))
    assert json.loads(str(found[0])) == found[0].record() and list(found[0].row())[:2] == ["text", "0"]
    near = embedder(TEXTS, similarity=True)
    np.testing.assert_array_equal([result.scores for result in near], embedder.similarity(TEXTS))
    (other,) = embedder(TEXTS[:1], similarity=True, similar_to=("text", "cat"))
    assert isinstance(other, Similarity) and other.others == ("text", "cat")
    assert other.score == other.scores.max() and len(other.row()) == 3
    tokens = embedder(TEXTS[1], tokens=True, layer=1)
    assert isinstance(tokens, TokenVectors)
    np.testing.assert_array_equal(tokens.vectors, embedder.tokens(TEXTS[1], layer=1).vectors)
    assert [row["token"] for row in tokens.rows()] == list(tokens.tokens)
    assert repr(found[0]) == f"Embedding({TEXTS[0]!r}, shape={found[0].vector.shape})"
    assert all(len(repr(result)) < 120 for result in (found[0], near[0], tokens, embedder))


def test_arrays_are_written_as_npy(embedder: Embedder) -> None:
    for options in ({}, {"similarity": True}):
        results = embedder(TEXTS, **options)
        content = embedder.encode_results(results, ".npy")
        assert isinstance(content, bytes)
        expected = embedder.similarity(TEXTS) if options else embedder.vectors(TEXTS)
        np.testing.assert_array_equal(np.load(io.BytesIO(content)), expected)
    for results, suffix in ((embedder(TEXTS, tokens=True), ".npy"), (embedder(TEXTS), ".parquet")):
        with pytest.raises(UsageError) as error:
            embedder.encode_results(results, suffix)
        assert error.value.argument == "out"


def test_saved_equals_loaded(embedder: Embedder, tmp_path: Path) -> None:
    other = make(pooling="cls", normalize=False, max_seq_len=9)
    other.save(tmp_path / "m")
    loaded = regard.load(tmp_path / "m")
    assert isinstance(loaded, Embedder) and loaded.config == other.config and loaded.max_seq_len == 9
    np.testing.assert_array_equal(loaded.vectors(TEXTS), other.vectors(TEXTS))


def test_long_texts_are_truncated_with_a_note(embedder: Embedder) -> None:
    notes: list[str] = []
    found = embedder.vectors(["cat " * 100_000, "cat"], notify=notes.append)
    assert len(notes) == 1 and "1 of 2" in notes[0] and "53 tokens" in notes[0]
    exact = embedder.vectors("cat " * 51, notify=notes.append)
    assert len(notes) == 1, "a text that fits exactly is not truncated"
    np.testing.assert_allclose(found[0], exact, atol=1e-5)
    embedder.vectors(TEXTS, max_seq_len=5, notify=notes.append)
    assert "5 tokens" in notes[1]
    assert len(embedder.tokens(TEXTS[1], max_seq_len=5)) == 5
    short = make(max_seq_len=5)
    assert short.max_seq_len == 5 and len(short.tokens(TEXTS[1])) == 5
    assert len(short.tokens(TEXTS[1], max_seq_len=7)) == 7, "an option goes before the default of the folder"


def test_texts_without_words_are_named(embedder: Embedder) -> None:
    notes: list[str] = []
    found = embedder.vectors(["", "cat", " \t"], notify=notes.append)
    assert len(notes) == 1 and "2 of 3" in notes[0] and "1, 3" in notes[0]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0], found[2], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        (dict(pooling="median"), "pooling"),
        (dict(max_seq_len=2), "max_seq_len"),
        (dict(poling="mean"), "setting"),
        (dict(tokens=True, similarity=True), "tokens"),
        (dict(similar_to=("a",)), "similar_to"),
        (dict(layer=1), "layer"),
    ],
)
def test_options_that_make_no_sense(embedder: Embedder, options: dict[str, Any], argument: str) -> None:
    for call in (embedder.vectors, embedder):
        with pytest.raises(UsageError) as error:
            call(TEXTS, **options)
        assert error.value.argument == argument


def test_what_is_no_text(embedder: Embedder) -> None:
    with pytest.raises(UsageError):
        embedder.vectors(["a", 7])  # type: ignore[list-item]


def test_attention_over_a_text(embedder: Embedder) -> None:
    trace = embedder.trace("the small cat")
    weights = trace["encoder.1.self"].weights()
    assert weights.shape[1] == 2
    assert weights.shape[-1] == len(embedder.tokens("the small cat"))


# --- Batches -------------------------------------------------------------------------------------------------


def test_batches_hold_every_text_once_and_waste_little() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(3, 60, 1009)]
    batches = length_batches(lengths, min_batches=2)
    assert sorted(number for batch in batches for number in batch) == list(range(1009))
    sizes = [(max(lengths[i] for i in batch), len(batch)) for batch in batches]
    assert all(longest * count <= MAX_BATCH_TOKENS for longest, count in sizes)
    assert [longest for longest, _ in sizes] == sorted((longest for longest, _ in sizes), reverse=True)
    computed = sum(longest * count for longest, count in sizes)
    assert computed <= 1.02 * sum(lengths)


def test_few_texts_are_padded_together_and_many_are_not() -> None:
    assert length_batches([5, 9, 7]) == [[1, 2, 0]]
    same = length_batches([MIN_BATCH_TOKENS] * 3 + [MIN_BATCH_TOKENS - 1] * 2)
    assert same == [[0, 1, 2], [3, 4]]
    assert len(length_batches([16] * 128, min_batches=2)) == 2
    assert length_batches([]) == []
    assert length_batches([MAX_BATCH_TOKENS + 5, 3]) == [[0], [1]]


class WordCounts(nn.Module):
    """No BERT: logits from counts of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(TOKENIZER.vocab_size, 3)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor | None, type_ids: torch.Tensor | None) -> torch.Tensor:
        vectors = self.table(ids)
        if lengths is not None:
            vectors = vectors * (torch.arange(ids.shape[1]) < lengths[:, None])[..., None]
        out: torch.Tensor = vectors.sum(dim=1)
        return out


def test_logits_of_any_model_in_the_order_of_the_examples() -> None:
    model, examples = WordCounts(), encode_texts(TOKENIZER, TEXTS * 9, 12)
    for example, logits in zip(examples, predict_logits(model, examples, TOKENIZER.pad_id), strict=True):
        torch.testing.assert_close(logits, model.table(torch.tensor(example.ids)).sum(dim=0).detach())
    bert: Any = make(HeadConfig(kind="sequence_classification", labels=("a", "b"))).model
    pair = EncodedExample([2, 5, 3, 6, 7, 3], 3)
    with torch.no_grad():
        alone = bert(torch.tensor([pair.ids]), None, torch.tensor([[0, 0, 0, 1, 1, 1]]))[0]
    found = predict_logits(bert, [*examples, pair], TOKENIZER.pad_id)
    torch.testing.assert_close(found[-1], alone, atol=1e-5, rtol=1e-5)


def test_a_failure_in_a_thread_is_a_failure() -> None:
    def run(batch: list[int]) -> int:
        if batch == [2]:
            raise UsageError("no")
        return batch[0]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert list(in_threads(run, [[0], [1]])) == [0, 1]
        with pytest.raises(UsageError):
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


# --- Buffered encoder ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu-tanh"])
def test_the_buffered_encoder_gives_the_same_bits(dtype: torch.dtype, activation: Any) -> None:
    torch.manual_seed(2)
    shape: Any = dict(vocab_size=31, num_layers=3, d_model=14, d_ff=22, num_heads=3, head_dim=5, context_length=29)
    bert = Bert(BertConfig(**shape, activation=activation, num_heads_by_layer={"encoder.1.self": 1})).to(dtype).eval()
    for param in bert.parameters():
        nn.init.normal_(param, std=0.4)
    read = BufferedEncoder(bert)
    with torch.no_grad():
        for rows, tokens in ((2, 5), (7, 13), (1, 3), (7, 13)):  # memory that is too small, and too large
            ids = torch.randint(31, (rows, tokens))
            lengths, segments = torch.randint(1, tokens + 1, (rows,)), torch.randint(2, (rows, tokens))
            assert torch.equal(read(ids), bert(ids))
            assert torch.equal(read(ids, lengths, segments), bert(ids, lengths, segments))


def test_hidden_states_survive_the_next_batch() -> None:
    read = BufferedEncoder(make().bert)
    with torch.no_grad():
        first = read(torch.tensor([[1, 2, 3]]))
        before = first.clone()
        read(torch.tensor([[4, 5, 6]]))
    assert torch.equal(first, before)


def test_gradients_hooks_and_quantized_weights_use_the_encoder_itself() -> None:
    embedder = make()
    read, ids = BufferedEncoder(embedder.bert), torch.tensor([[1, 2, 3]])
    assert read(ids).requires_grad
    with torch.no_grad():
        with capture(embedder.bert) as trace:
            read(ids)
        assert len(trace.captured) == 2
        plain = read(ids)
        quantize_weights(embedder.bert, "int8")
        assert not torch.equal(read(ids), plain)
        assert (read(ids) - plain).abs().max() < 0.2


def test_an_embedder_is_adapted_to_itself(embedder: Embedder) -> None:
    assert Embedder.adapt(embedder) is embedder
    assert embedder.embedder() is embedder


def test_a_model_has_only_the_capability_of_its_own_head(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its architecture, from another package, has kinds of head that regard does not know."""
    bert = architectures["bert"]
    heads = bert.heads | {"ranking"}
    ranker = dataclasses.replace(bert, capabilities=bert.capabilities | heads | {"other"}, heads=heads)
    monkeypatch.setattr(encoder_predictor, "architecture_of", lambda model: ranker)
    common = {"encoder", "attention", "pairs", "summed_embeddings", "other"}
    assert embedder.capabilities == {*common, "none"}
    with_head = Embedder(embedder.model, embedder.tokenizer, head=HeadConfig(kind="ranking"))
    assert with_head.capabilities == {*common, "ranking"}
