"""Senses by layer: vectors by hand, neighbors and maps compared with scikit-learn, a real encoder on synthetic data."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import regard
from regard.data.senses import synthetic_senses
from regard.data.synthetic.labelled import SenseSentence
from regard.inspection.senses import nearest_sentences, word_senses, word_vectors
from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert
from regard.tasks.embed.predictor import Embedder
from regard.tasks.embed.spec import EmbedConfig
from regard.tokenizers.tokenizer import SpecialTokens
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import DataError, UsageError
from regard.views.studies import STATIC, LayerSenses, Senses, WordSenses, senses_view

SENTENCES = [one for one in synthetic_senses() if one.word in ("bank", "spring")][::3]
SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
# The words themselves are never seen: they fall into tokens.
TOKENIZER = train_tokenizer(
    [one.text.replace(one.word, one.word[::-1]) for one in SENTENCES],
    kind="wordpiece",
    vocab_size=61,
    special_tokens=SPECIAL_TOKENS,
    lowercase=True,
)


def make(context: int = 101, **settings: Any) -> Embedder:
    torch.manual_seed(3)
    bert = Bert(
        BertConfig(
            vocab_size=TOKENIZER.vocab_size,
            num_layers=2,
            d_model=14,
            d_ff=22,
            num_heads=2,
            head_dim=7,
            context_length=context,
        )
    )
    for param in bert.parameters():
        nn.init.normal_(param, std=0.4)
    return Embedder(bert, TOKENIZER, config=EmbedConfig(**settings))


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return make()


@pytest.fixture(scope="module")
def found(embedder: Embedder) -> Senses:
    return word_senses(embedder, SENTENCES)


def test_a_words_vector_is_the_mean_over_its_tokens(embedder: Embedder) -> None:
    vectors = word_vectors(embedder, SENTENCES)
    assert list(vectors) == [STATIC, "0", "1", "2"]
    for number in (0, 7, 41):
        one = SENTENCES[number]
        before, word = TOKENIZER.encode(one.text[: one.start]), TOKENIZER.encode(one.word)
        assert len(word) > 1
        inside = slice(len(before) + 1, len(before) + 1 + len(word))
        for layer in range(3):
            alone = embedder.tokens(one.text, layer=layer).vectors[inside].mean(axis=0)
            np.testing.assert_allclose(vectors[str(layer)][number], alone, atol=1e-5)
        table = embedder.bert.embedding.weight[word].mean(dim=0).detach().numpy()
        np.testing.assert_allclose(vectors[STATIC][number], table, atol=1e-6)


def test_nearest_sentences_equal_those_of_scikit_learn(embedder: Embedder, found: Senses) -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    vectors = word_vectors(embedder, SENTENCES)
    for word in found.words:
        numbers = [n for n, one in enumerate(SENTENCES) if one.word == word.word]
        meant = np.array([SENTENCES[n].sense for n in numbers])
        assert word.majority == max(Counter(meant).values()) / len(meant)
        for name in ("1", "2"):  # below, words at the same place are equally near
            rows = vectors[name][numbers].astype(np.float64)
            search = neighbors.NearestNeighbors(n_neighbors=6, metric="cosine").fit(rows)
            distances, others = search.kneighbors()  # without arguments a row is not its own neighbor
            layer = word.layer(name)
            assert layer.accuracy == pytest.approx((meant[others[:, 0]] == meant).mean())
            np.testing.assert_array_equal(layer.nearest, others[:, :5])
            np.testing.assert_allclose(layer.similarities, 1 - distances[:, :5], atol=1e-5)


def test_means_of_cosines_and_the_largest_distance_pair_by_pair(embedder: Embedder, found: Senses) -> None:
    word = found.word("spring")
    one_of = [one for one in SENTENCES if one.word == "spring"]
    rows = word_vectors(embedder, one_of)["2"].astype(np.float64)
    sums: dict[tuple[str, str], list[float]] = {}
    largest = 0.0
    for i, a in enumerate(one_of):
        for j, b in enumerate(one_of):
            if i != j:
                cosine = rows[i] @ rows[j] / np.sqrt((rows[i] @ rows[i]) * (rows[j] @ rows[j]))
                sums.setdefault((a.sense, b.sense), []).append(cosine)
                largest = max(largest, float(np.sqrt(((rows[i] - rows[j]) ** 2).sum())))
    layer = word.layer(2)
    for i, one in enumerate(word.senses):
        for j, other in enumerate(word.senses):
            assert layer.cosines[i, j] == pytest.approx(np.mean(sums[one, other]), abs=1e-5)
    within = [x for (one, other), values in sums.items() if one == other for x in values]
    across = [x for (one, other), values in sums.items() if one != other for x in values]
    assert (layer.within, layer.across) == pytest.approx((np.mean(within), np.mean(across)), abs=1e-5)
    assert layer.max_distance == pytest.approx(largest, rel=1e-5)


def test_the_map_shows_principal_components(embedder: Embedder, found: Senses) -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    rows = word_vectors(embedder, [one for one in SENTENCES if one.word == "bank"])["1"]
    expected = decomposition.PCA(2).fit_transform(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    places = found.word("bank").layer(1).positions
    for axis in (0, 1):  # a direction and its opposite are the same
        sign = np.sign(expected[:, axis] @ places[:, axis])
        np.testing.assert_allclose(sign * places[:, axis], expected[:, axis], atol=1e-4)


def test_m28_m30_a_static_vector_does_not_separate_senses(found: Senses) -> None:
    for word in found.words:
        static = word.layer(STATIC)
        assert static.max_distance == 0
        assert static.accuracy == word.majority
        assert (static.within, static.across) == pytest.approx((1, 1))
        np.testing.assert_allclose(static.positions, 0, atol=1e-6)


def test_ties_between_neighbors_go_to_the_more_frequent_sense() -> None:
    """Three sentences that differ in one word, which is [UNK] for the model, so their vectors are equal."""
    texts = [("ж", "b"), ("ш", "b"), ("щ", "b"), ("ц", "a"), ("ю", "a")]
    rows = [SenseSentence(f"the bank {mark}", "bank", 4, sense) for mark, sense in texts]
    word = word_senses(make(), rows).word("bank")
    assert {layer.accuracy for layer in word.layers} == {0.6}
    assert word.majority == 0.6


def test_a_word_far_into_a_long_text_is_encoded_with_its_context(embedder: Embedder) -> None:
    one = SENTENCES[0]
    mask_filler = "a b c d e f g h "
    long = SenseSentence(mask_filler * 9 + one.text, one.word, len(mask_filler) * 9 + one.start, one.sense)
    short = make(max_seq_len=25)
    vector = word_vectors(short, [long])["2"][0]
    ids = TOKENIZER.encode(long.text)
    before, word = len(TOKENIZER.encode(long.text[: long.start])), len(TOKENIZER.encode(one.word))
    begin = min(max(0, (2 * before + word - 23) // 2), len(ids) - 23)
    row = [TOKENIZER.start_id, *ids[begin : begin + 23], TOKENIZER.end_id]
    with torch.no_grad():
        hidden = short.bert(torch.tensor([row]))[0, before - begin + 1 : before - begin + 1 + word].mean(dim=0)
    np.testing.assert_allclose(vector, hidden.numpy(), atol=1e-5)


def test_sentences_near_a_given_sentence(embedder: Embedder) -> None:
    nearest = nearest_sentences(embedder, SENTENCES[0].text, SENTENCES, count=3, layer=1)
    word = word_senses(embedder, SENTENCES).word("bank")
    assert [one.text for one in nearest] == [word.texts[n] for n in word.layer(1).nearest[0, :3]]
    assert [one.cosine for one in nearest] == pytest.approx(word.layer(1).similarities[0, :3].tolist(), abs=1e-5)
    own = nearest_sentences(embedder, "A Bank and a spring.", SENTENCES, word="Bank")
    assert len(own) == 5
    assert own[0].cosine >= own[-1].cosine
    for given, argument in (
        ({"text": "A spring near the bank."}, "word"),
        ({"text": "Nothing."}, "word"),
        ({"text": "Nothing.", "word": "bank"}, "text"),
        ({"text": "A fly.", "word": "fly"}, "word"),
        ({"text": "A bank.", "layer": 7}, "layer"),
        ({"text": "A bank.", "count": 0}, "count"),
    ):
        with pytest.raises(UsageError) as error:
            nearest_sentences(embedder, sentences=SENTENCES, **given)  # type: ignore[arg-type]
        assert error.value.argument == argument


def test_bad_arguments(embedder: Embedder, found: Senses) -> None:
    with pytest.raises(DataError) as data_error:
        word_senses(embedder, [one for one in SENTENCES if one.sense == "money"])
    assert data_error.value.value == ("money",)
    with pytest.raises(DataError) as data_error:
        word_vectors(embedder, [SenseSentence("\x01", "\x01", 0, "x")])
    assert data_error.value.value == "\x01"
    calls: dict[str, Callable[[], object]] = {
        "sentences": lambda: word_senses(embedder, []),
        "model": lambda: word_senses("no model", SENTENCES),
        "word": lambda: found.word("fly"),
        "layer": lambda: found.word("bank").layer(9),
        "words": lambda: Senses(()),
    }
    for argument, call in calls.items():
        with pytest.raises(UsageError) as error:
            call()
        assert error.value.argument == argument


def test_the_table_and_the_numbers(found: Senses) -> None:
    numbers = found.numbers()
    assert numbers["sentences"] == len(SENTENCES)
    rights = sum(word.layer(2).accuracy * len(word.texts) for word in found.words)
    assert numbers["accuracy"]["2"] == pytest.approx(rights / len(SENTENCES))
    _, head, majority, *rows = found.lines()
    assert head.split() == ["layer", "bank", "spring", "all", "within", "across"]
    assert majority.split()[1:] == [f"{100 * x:.1f}" for x in (*(w.majority for w in found.words), found.majority)]
    assert [row.split()[0] for row in rows[:4]] == ["static", "0", "1", "2"]
    assert float(rows[3].split()[4]) == pytest.approx(
        sum(w.layer(2).within * len(w.texts) for w in found.words) / len(SENTENCES), abs=6e-4
    )
    senses = found.word("bank").senses
    assert f"{senses[0]}–{senses[1]} {found.word('bank').best.cosines[0, 1]:.3f}" in rows[4]
    picture = senses_view(found, title="T").svg()
    assert picture.count('rx="4"') == sum(one.word == "bank" for one in SENTENCES)


def test_a_long_list_is_thinned_on_the_map_only(found: Senses) -> None:
    word = found.word("bank")
    many = 700
    again = np.arange(many) % len(word.texts)

    def longer(layer: LayerSenses) -> LayerSenses:
        parts = {name: getattr(layer, name)[again] for name in ("positions", "nearest", "similarities")}
        return dataclasses.replace(layer, **parts)

    long = WordSenses(
        "bank",
        word.senses,
        tuple(word.texts[n] for n in again),
        tuple(word.labels[n] for n in again),
        tuple(word.starts[n] for n in again),
        word.majority,
        tuple(map(longer, word.layers)),
    )
    [data] = senses_view(Senses((long,)), title="T").data["words"]
    assert data["count"] == many
    assert len(data["texts"]) == len(data["layers"][0]["positions"]) == 300


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Senses:
    return regard.senses(regard.load(minilm_folder))  # type: ignore[arg-type]


def test_m28_season_water_and_coil_separate_in_a_real_encoder(minilm: Senses) -> None:
    spring = minilm.word("spring")
    assert spring.layer(STATIC).max_distance == 0
    assert spring.layer(6).accuracy > spring.majority
    cosines = spring.best.cosines
    assert cosines.shape == (3, 3)
    assert (np.diag(cosines) > cosines.max(axis=1, where=~np.eye(3, dtype=bool), initial=-1)).all()


def test_m29_two_senses_of_bank(minilm: Senses) -> None:
    bank, senses = minilm.word("bank").layer(6), minilm.word("bank").senses
    money, river = senses.index("money"), senses.index("river")
    assert bank.cosines[money, money] > bank.cosines[money, river]
    assert bank.cosines[river, river] > bank.cosines[money, river]


def test_m30_three_senses_of_run(minilm: Senses) -> None:
    run = minilm.word("run")
    assert len(run.senses) == 3
    assert run.layer(STATIC).accuracy == run.majority
    assert run.layer(6).accuracy > run.layer(STATIC).accuracy
