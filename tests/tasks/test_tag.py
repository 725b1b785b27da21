"""Tagging: windows that lose no word, first pieces, scores beside a word list, and that it learns at all."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.checkpoint.folder import own_tensors, write_model
from regard.data.tagged import Tagged
from regard.errors import UsageError
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.tasks.folders import load_embedder, load_folder, load_tagger
from regard.tasks.labelling import as_inputs
from regard.tasks.settings import LabelConfig
from regard.tasks.tag import Tagger, TagTask, baseline, make_tagger_model, score_tags, split_words, windows
from regard.text.tokenizer import Symbols, Tokenizer
from regard.text.training import train_tokenizer

SYMBOLS = Symbols(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
HEAD = HeadConfig(kind="tokens", labels=("B-loc", "I-loc", "O"))
TOKENIZER = train_tokenizer(
    ["paris is big and new york is old yes no", "p a r i s n e w y o k b g d"] * 5,
    kind="wordpiece", vocab_size=70, symbols=SYMBOLS, lowercase=True,
)  # fmt: skip
WORDS = ("paris", "is", "newyorkisbig", "york", "pygmy", "yes", "\u200b")


def model(**changes: object) -> BertConfig:
    small = dict(layers=2, width=12, hidden=20, heads=2, head_width=6, context=29, dropout=0.0)
    return BertConfig(vocab_size=TOKENIZER.vocab_size, **{**small, **changes})  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40), st.integers(4, 20))
def test_m156_no_word_is_lost(words: list[str], longest: int) -> None:
    cut = windows(TOKENIZER, words, longest)
    covered: set[int] = set()
    for window in cut:
        assert len(window.row.ids) <= longest
        assert window.row.ids[0] == TOKENIZER.start_id
        assert window.row.ids[-1] == TOKENIZER.end_id
        covered |= {window.first + number for number in range(len(window.places))}
        for number, place in enumerate(window.places):
            pieces = TOKENIZER.encode(words[window.first + number])
            assert window.row.ids[place] == (pieces[0] if pieces else TOKENIZER.unknown_id)
    assert covered == set(range(len(words)))
    starts = [window.first for window in cut]
    assert starts == sorted(set(starts))


def test_m156_windows_overlap_and_the_middle_counts() -> None:
    words = ["is"] * 20
    cut = windows(TOKENIZER, words, 10)  # eight words a window
    assert [window.first for window in cut] == [0, 4, 8, 12]
    tagger = Tagger(make_tagger_model(model(), HEAD, seed=0), TOKENIZER, head=HEAD)
    shape = (10, 3)
    parts = [(window, torch.zeros(shape)) for window in cut]
    for number, (_, output) in enumerate(parts):
        output[:, number % 2] = 5.0  # windows vote for the first and the second tag in turn
    found = tagger._joined(words, parts)
    # Word 5 stands second in the second window and sixth, two before the end, in the first: the first is as good.
    assert found.tags[:6] == ("B-loc",) * 6
    assert found.tags[6:10] == ("I-loc",) * 4
    assert found.tags[16:] == ("I-loc",) * 4
    assert len(found.tags) == 20


def test_m156_long_sentences_are_tagged_whole() -> None:
    tagger = Tagger(make_tagger_model(model(), HEAD, seed=0), TOKENIZER, head=HEAD, max_tokens=9)
    (found, nothing) = tagger([["paris", "newyorkisbig"] * 500, []])
    assert len(found.tags) == 1000
    assert nothing.tags == ()
    assert len(tagger("yes " * 3000).words) == 3000


def test_split_words() -> None:
    assert split_words("Don't go, it's a well-known (trap)!") == [
        "Don't", "go", ",", "it's", "a", "well-known", "(", "trap", ")", "!",
    ]  # fmt: skip


def test_the_loss_is_that_of_first_pieces() -> None:
    sentences = [Tagged(("newyorkisbig", "is"), ("B-loc", "O")), Tagged(("yes",), ("O",))]
    net = make_tagger_model(model(), HEAD, seed=1).eval()
    task = TagTask(
        model=net, tokenizer=TOKENIZER, head=HEAD, sentences=(sentences, sentences), config=LabelConfig(max_tokens=20)
    )
    loss = task.loss([0, 1])
    assert loss.tokens == 3
    wanted = []
    for one in sentences:
        (window,) = windows(TOKENIZER, one.words, 20)
        logits = net(*as_inputs([window.row], TOKENIZER.pad_id, torch.device("cpu")))[0].log_softmax(-1)
        wanted += [-logits[place, HEAD.labels.index(tag)] for place, tag in zip(window.places, one.tags, strict=True)]
    assert loss.train.item() == pytest.approx(torch.stack(wanted).mean().item(), rel=1e-5)
    assert task.validation_loss() == pytest.approx(loss.train.item(), rel=1e-5)


def test_m156_scores_beside_a_word_list() -> None:
    gold = [["B-loc", "I-loc", "O"], ["O"]]
    assert [score.name for score in score_tags(gold, gold)] == ["entity F1", "accuracy"]
    assert [score.name for score in score_tags([["NOUN"]], [["VERB"]])] == ["accuracy"], "parts of speech"
    train = [Tagged(("paris", "is"), ("B-loc", "O")), Tagged(("is",), ("O",))]
    held = [Tagged(("paris", "york"), ("B-loc", "B-loc"))]
    scores = {score.name: score.value for score in baseline(train, held)}
    assert scores == {"entity F1 of a word list": pytest.approx(200 / 3), "accuracy of a word list": 50}


def test_gold_tags_say_whether_there_are_entities() -> None:
    assert [score.name for score in score_tags([["B-loc"]], [["O"]])] == ["accuracy"]
    assert [score.name for score in score_tags([["O"]], [["B-loc"]])] == ["entity F1", "accuracy"]


def learned(sentences: list[Tagged], held: list[Tagged] | None = None) -> TagTask:
    net = make_tagger_model(model(), HEAD, seed=1).eval()
    both = sentences, held or sentences
    return TagTask(model=net, tokenizer=TOKENIZER, head=HEAD, sentences=both, config=LabelConfig(max_tokens=20))


def test_m156_the_commonest_tag_is_that_of_training_and_not_of_the_test(tmp_path: Path) -> None:
    """No word list of the test file: that would know all of its answers."""
    (tmp_path / "test.conll").write_text("paris\tB-loc\nyork\tB-loc\n\nis\tO\nyes\tB-loc\n", encoding="utf-8")
    task = learned([Tagged(("paris", "is", "big"), ("B-loc", "O", "O"))])
    contents = task.contents()
    write_model(tmp_path / "m", config=contents.config, tensors=own_tensors(task.model), texts=contents.texts)
    loaded = load_folder(tmp_path / "m")
    assert isinstance(loaded, Tagger)
    for tagger in (task.result(), loaded):
        scores = {score.name: score.value for score in regard.evaluate(tagger, tmp_path / "test.conll")}
        baselines = {name: value for name, value in scores.items() if " of " in name}
        assert baselines == {"entity F1 of the commonest tag": 0, "accuracy of the commonest tag": 25}
    old = Tagger(task.model, TOKENIZER, head=HEAD)  # as from a folder that tells nothing of its training
    scores = {score.name: score.value for score in regard.evaluate(old, tmp_path / "test.conll")}
    assert scores["accuracy of this file's own commonest tag"] == 75


def test_other_tags_are_other_examples() -> None:
    one = Tagged(("paris", "is", "big"), ("B-loc", "O", "O"))
    other = Tagged(("paris", "is", "big"), ("B-loc", "O", "I-loc"))
    joined = Tagged(("paris", "isbig"), ("B-loc", "O"))
    found = [
        learned(train, held).examples()
        for train, held in (([one], [one]), ([other], [one]), ([one], [other]), ([one], [joined]), ([one, one], [one]))
    ]
    assert len(set(found)) == len(found)
    assert learned([one]).examples() == found[0]


def test_all_words_are_cut_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    encode = Tokenizer.encode_batch
    monkeypatch.setattr(Tokenizer, "encode_batch", lambda self, texts: calls.append(len(texts)) or encode(self, texts))
    task = learned([Tagged(("paris", "is", "big"), ("B-loc", "O", "O")), Tagged(("yes",), ("O",))])
    assert calls == [4, 4], "training and validation"
    calls.clear()
    task.result()([["paris", "is"], [], ["newyorkisbig"]])
    assert calls == [3]


def test_tags_are_the_likeliest_ones() -> None:
    tagger = Tagger(make_tagger_model(model(), HEAD, seed=5), TOKENIZER, head=HEAD)
    for parameter in tagger.model.parameters():
        parameter.data *= 8 if parameter.dim() > 1 else 1
    words = ["paris", "newyorkisbig", "is", "yes"]
    (window,) = windows(TOKENIZER, words, 29)
    with torch.no_grad():
        logits = tagger.model(*as_inputs([window.row], TOKENIZER.pad_id, torch.device("cpu")))[0]
    (found,) = tagger([words])
    for number, place in enumerate(window.places):
        shares = [share / sum(logits[place].double().exp().tolist()) for share in logits[place].double().exp().tolist()]
        assert found.tags[number] == HEAD.labels[shares.index(max(shares))]
        assert found.probabilities[number] == pytest.approx(max(shares), rel=1e-5)


def test_entities_of_an_answer() -> None:
    tagger = Tagger(make_tagger_model(model(), HEAD, seed=0), TOKENIZER, head=HEAD)
    found = tagger("paris is big")
    assert str(found).count("/") == 3
    tags = dataclasses.replace(found, words=("new", "york", "is", "paris"), tags=("B-loc", "I-loc", "O", "B-loc"))
    assert tags.entities == [("loc", "new york"), ("loc", "paris")]


def test_saved_is_loaded(tmp_path: Path) -> None:
    net = make_tagger_model(model(), HEAD, seed=3)
    tagger = Tagger(net, TOKENIZER, head=HEAD, max_tokens=11)
    contents = tagger.contents()
    write_model(tmp_path / "m", config=contents.config, tensors=own_tensors(net), texts=contents.texts)
    found = load_folder(tmp_path / "m")
    assert isinstance(found, Tagger)
    assert found("paris is big") == tagger("paris is big") == load_tagger(tmp_path / "m")("paris is big")
    assert load_embedder(tmp_path / "m").embed(["paris"]).shape == (1, 12)


def test_m157_it_learns() -> None:
    sentences = [
        Tagged((word, "is", "big"), (tag, "O", "O"))
        for word, tag in (("paris", "B-loc"), ("york", "B-loc"), ("yes", "O"))
    ]
    net = make_tagger_model(model(), HEAD, seed=0)
    task = TagTask(
        model=net, tokenizer=TOKENIZER, head=HEAD, sentences=(sentences, sentences), config=LabelConfig(max_tokens=20)
    )
    net.train()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(40):
        optimiser.zero_grad()
        task.loss([0, 1, 2]).train.backward()
        optimiser.step()
    net.eval()
    scores, samples = task.evaluate()
    assert [score.value for score in scores[:2]] == [100, 100]
    assert samples[0].reference == samples[0].output
    assert task.result()("Paris is big").entities == [("loc", "Paris")]


def test_a_folder_that_is_no_tagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.tasks import folders
    from regard.tasks.classify import Classifier, make_classifier_model

    head = HeadConfig(kind="sequence", labels=("a", "b"))
    other = Classifier(make_classifier_model(model(), head, seed=0), TOKENIZER, head=head)
    monkeypatch.setattr(folders, "load_folder", lambda path, precision="fp32": other)
    with pytest.raises(UsageError, match=r"holds a classifier.*use `regard classify`"):
        load_tagger(tmp_path)
