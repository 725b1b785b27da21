"""Tagging: windows that lose no word, first tokens of words, scores beside a word list, and that it learns at all."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.data.tagged import Tagged
from regard.models.bert.config import BertConfig
from regard.models.bert.model import build
from regard.models.heads import HeadConfig
from regard.nn.init import seeded_init
from regard.tasks.base import Splits
from regard.tasks.encoder.objective import EncoderInit
from regard.tasks.encoder.predictor import collate
from regard.tasks.tag.objective import TagObjective
from regard.tasks.tag.predictor import Tagger, sentence_windows, split_words, tag_scores, word_list_baseline
from regard.tasks.tag.reader import TagReader
from regard.tasks.tag.spec import TagReading
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.training.run import TrainRequest
from regard.utils.errors import DataError, FolderError, UsageError

SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]")
HEAD = HeadConfig(kind="token_classification", labels=("B-loc", "I-loc", "O"))
TOKENIZER = train_tokenizer(
    ["paris is big and new york is old yes no", "p a r i s n e w y o k b g d"] * 5,
    kind="wordpiece", vocab_size=70, special_tokens=SPECIAL_TOKENS, lowercase=True,
)  # fmt: skip
WORDS = ("paris", "is", "newyorkisbig", "york", "pygmy", "yes", "\u200b")


def model(seed: int = 0, head: HeadConfig = HEAD) -> Any:
    shape = dict(num_layers=2, d_model=12, d_ff=20, num_heads=2, head_dim=6, context_length=29, dropout=0.0)
    config = BertConfig(vocab_size=TOKENIZER.vocab_size, **shape)  # type: ignore[arg-type]
    return seeded_init(lambda: build(config, head), seed=seed)


def objective(train: list[Tagged], validation: list[Tagged] | None = None, *, seed: int = 1) -> TagObjective:
    request = TrainRequest.parse("tag", {}, out=Path("not-written"))
    init = EncoderInit(model(seed).eval(), TOKENIZER, HEAD, 20)
    return TagObjective(init, request, Splits(train, validation or train))


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40), st.integers(4, 20))
def test_m156_no_word_is_lost(words: list[str], max_seq_len: int) -> None:
    (windows,) = sentence_windows(TOKENIZER, [words], max_seq_len)
    covered: set[int] = set()
    for window in windows:
        ids = window.example.ids
        assert len(ids) <= max_seq_len
        assert (ids[0], ids[-1]) == (TOKENIZER.start_id, TOKENIZER.end_id)
        covered |= {window.first + number for number in range(len(window.places))}
        for number, place in enumerate(window.places):
            subwords = TOKENIZER.encode(words[window.first + number])
            assert ids[place] == (subwords[0] if subwords else TOKENIZER.unknown_id)
    assert covered == set(range(len(words)))
    starts = [window.first for window in windows]
    assert starts == sorted(set(starts))


def test_m156_windows_overlap_and_the_middle_counts() -> None:
    words = ["is"] * 20
    (windows,) = sentence_windows(TOKENIZER, [words], 10)  # eight words each
    assert [window.first for window in windows] == [0, 4, 8, 12]
    parts = [(window, torch.zeros(10, 3)) for window in windows]
    for number, (_, logits) in enumerate(parts):
        logits[:, number % 2] = 5.0  # windows vote for the first and the second tag in turn
    found = Tagger(model(), TOKENIZER, head=HEAD)._join(words, parts)
    # Word 5 is the second of the second window and the sixth, two before the end, of the first: both are as good.
    assert found.tags[:6] == ("B-loc",) * 6
    assert found.tags[6:10] == ("I-loc",) * 4
    assert found.tags[16:] == ("I-loc",) * 4
    assert len(found.tags) == 20


def test_m156_long_sentences_are_tagged_whole() -> None:
    tagger = Tagger(model(), TOKENIZER, head=HEAD, max_seq_len=9)
    found, nothing = tagger([["paris", "newyorkisbig"] * 500, []])
    assert len(found.tags) == 1000
    assert nothing.tags == ()
    assert len(tagger("yes " * 3000).words) == 3000


def test_split_words() -> None:
    assert split_words("Don't go, it's a well-known (trap)!") == [
        "Don't", "go", ",", "it's", "a", "well-known", "(", "trap", ")", "!",
    ]  # fmt: skip


def test_the_loss_is_that_of_first_tokens() -> None:
    sentences = [Tagged(("newyorkisbig", "is"), ("B-loc", "O")), Tagged(("yes",), ("O",))]
    task = objective(sentences)
    loss = task.loss([0, 1])
    assert loss.num_targets == 3
    wanted = []
    for sentence in sentences:
        ((window,),) = sentence_windows(TOKENIZER, [sentence.words], 20)
        logits = task.model(*collate([window.example], TOKENIZER.pad_id, torch.device("cpu")))[0].log_softmax(-1)
        places = zip(window.places, sentence.tags, strict=True)
        wanted += [-logits[place, HEAD.labels.index(tag)] for place, tag in places]
    assert loss.train.item() == pytest.approx(torch.stack(wanted).mean().item(), rel=1e-5)
    assert task.validation_loss() == pytest.approx(loss.train.item(), rel=1e-5)


def test_validation_targets_are_words() -> None:
    sentences = [Tagged(("paris", "is", "big"), ("B-loc", "O", "O")), Tagged(("yes",), ("O",))]
    assert objective(sentences).num_validation_targets == 4


def test_m156_scores_beside_a_word_list() -> None:
    gold = [["B-loc", "I-loc", "O"], ["O"]]
    assert [score.name for score in tag_scores(gold, gold)] == ["entity F1", "accuracy"]
    assert [score.name for score in tag_scores([["NOUN"]], [["VERB"]])] == ["accuracy"], "parts of speech"
    train = [Tagged(("paris", "is"), ("B-loc", "O")), Tagged(("is",), ("O",))]
    validation = [Tagged(("paris", "york"), ("B-loc", "B-loc"))]
    scores = {score.baseline_of: score.value for score in word_list_baseline(train, validation)}
    assert scores == {"entity F1": pytest.approx(200 / 3), "accuracy": 50}


def test_gold_tags_decide_whether_there_are_entities() -> None:
    assert [score.name for score in tag_scores([["B-loc"]], [["O"]])] == ["accuracy"]
    assert [score.name for score in tag_scores([["O"]], [["B-loc"]])] == ["entity F1", "accuracy"]


def test_m156_the_majority_tag_is_that_of_training_and_not_of_the_test(tmp_path: Path) -> None:
    """No word list of the test file: it would hold all of its answers."""
    (tmp_path / "test.conll").write_text("paris\tB-loc\nyork\tB-loc\n\nis\tO\nyes\tB-loc\n", encoding="utf-8")
    task = objective([Tagged(("paris", "is", "big"), ("B-loc", "O", "O"))])
    task.predictor().save(tmp_path / "m")
    for tagger in (task.predictor(), regard.load(tmp_path / "m", task="tag")):
        scores = regard.evaluate(tagger, tmp_path / "test.conll")
        baselines = {score.baseline_of: score.value for score in scores if score.baseline_of}
        assert baselines == {"entity F1": 0, "accuracy": 25}
    unknown = Tagger(task.model, TOKENIZER, head=HEAD)  # as from a folder that holds nothing of its training
    scores = regard.evaluate(unknown, tmp_path / "test.conll")
    assert {score.baseline_of: score.value for score in scores}["accuracy"] == 75


def test_other_tags_are_other_examples() -> None:
    first = Tagged(("paris", "is", "big"), ("B-loc", "O", "O"))
    other = Tagged(("paris", "is", "big"), ("B-loc", "O", "I-loc"))
    joined = Tagged(("paris", "isbig"), ("B-loc", "O"))
    splits = (([first], [first]), ([other], [first]), ([first], [other]), ([first], [joined]), ([first] * 2, [first]))
    found = [objective(train, validation).fingerprint() for train, validation in splits]
    assert len(set(found)) == len(found)
    assert objective([first]).fingerprint() == found[0]


def test_all_words_are_tokenized_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    encode = Tokenizer.encode_batch
    monkeypatch.setattr(Tokenizer, "encode_batch", lambda self, texts: calls.append(len(texts)) or encode(self, texts))
    task = objective([Tagged(("paris", "is", "big"), ("B-loc", "O", "O")), Tagged(("yes",), ("O",))])
    assert calls == [4, 4], "training and validation"
    calls.clear()
    task.predictor()([["paris", "is"], [], ["newyorkisbig"]])
    assert calls == [3]


def test_tags_are_the_most_probable_ones() -> None:
    tagger = Tagger(model(5), TOKENIZER, head=HEAD)
    for parameter in tagger.model.parameters():
        parameter.data *= 8 if parameter.dim() > 1 else 1
    words = ["paris", "newyorkisbig", "is", "yes"]
    ((window,),) = sentence_windows(TOKENIZER, [words], 29)
    with torch.no_grad():
        logits = tagger.model(*collate([window.example], TOKENIZER.pad_id, torch.device("cpu")))[0]
    (found,) = tagger([words])
    for number, place in enumerate(window.places):
        powers = logits[place].double().exp().tolist()
        assert found.tags[number] == HEAD.labels[powers.index(max(powers))]
        assert found.scores[number] == pytest.approx(max(powers) / sum(powers), rel=1e-5)


def test_results() -> None:
    found = Tagger(model(), TOKENIZER, head=HEAD)("paris is big")
    assert str(found).count("/") == 3
    tagged = dataclasses.replace(
        found, words=("new", "york", "is", "paris"), tags=("B-loc", "I-loc", "O", "B-loc"), scores=(1.0,) * 4
    )
    assert tagged.entities == [("loc", "new york"), ("loc", "paris")]
    assert tagged.record()["entities"] == [{"type": "loc", "text": "new york"}, {"type": "loc", "text": "paris"}]
    assert tagged.rows()[1] == {"word": "york", "tag": "I-loc", "score": 1.0}


def test_saved_is_loaded(tmp_path: Path) -> None:
    tagger = Tagger(model(3), TOKENIZER, head=HEAD, max_seq_len=11, majority_label=("O",))
    tagger.save(tmp_path / "m")
    found = regard.load(tmp_path / "m")
    assert isinstance(found, Tagger)
    assert (found.max_seq_len, found.majority_label, found.head) == (11, ("O",), HEAD)
    assert found("paris is big") == tagger("paris is big")
    assert regard.load(tmp_path / "m", task="embed")(["paris"])[0].vector.shape == (12,)
    Tagger(model(), TOKENIZER, head=HEAD, majority_label=("X",)).save(tmp_path / "wrong")
    with pytest.raises(FolderError) as error:
        regard.load(tmp_path / "wrong")
    assert error.value.value == ["X"]


def test_m157_it_learns() -> None:
    sentences = [
        Tagged((word, "is", "big"), (tag, "O", "O"))
        for word, tag in (("paris", "B-loc"), ("york", "B-loc"), ("yes", "O"))
    ]
    task = objective(sentences, seed=0)
    task.model.train()
    optimizer = torch.optim.Adam(task.model.parameters(), lr=0.01)
    for _ in range(40):
        optimizer.zero_grad()
        task.loss([0, 1, 2]).train.backward()
        optimizer.step()
    scores, samples = task.evaluate()
    assert [score.value for score in scores[:2]] == [100, 100]
    assert samples[0].reference == samples[0].output
    assert task.predictor()("Paris is big").entities == [("loc", "Paris")]


@pytest.mark.parametrize("wrong", [3, [["a", 3]]])
def test_wrong_inputs(wrong: Any) -> None:
    with pytest.raises(UsageError) as error:
        Tagger(model(), TOKENIZER, head=HEAD)(wrong)
    assert error.value.argument == "inputs"


def test_a_model_of_another_task(tmp_path: Path) -> None:
    from regard.tasks.classify.predictor import Classifier

    head = HeadConfig(kind="sequence_classification", labels=("a", "b"))
    Classifier(model(head=head), TOKENIZER, head=head).save(tmp_path / "m")
    with pytest.raises(UsageError) as error:
        regard.load(tmp_path / "m", task="tag")
    assert (error.value.argument, error.value.value) == ("task", "tag")


def test_words_of_conll_files_are_inputs(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("paris\tI-loc\nis\tO\n\nyes\tO\n", encoding="utf-8")
    assert TagReader(TagReading()).read_inputs(path) == [["paris", "is"], ["yes"]]
    (tmp_path / "bad.conll").write_text("paris\tI-loc\nis\n", encoding="utf-8")
    with pytest.raises(DataError) as error:
        TagReader(TagReading()).read_inputs(tmp_path / "bad.conll")
    assert (error.value.path, error.value.line) == (tmp_path / "bad.conll", 2)
