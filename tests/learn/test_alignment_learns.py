"""M105: a translator that nobody told what belongs to what finds the reversed order of the French adjectives.

"the European Economic Area" is "la zone économique européenne": read from its cross-attention, the links cross.
Half a minute of training on the built-in world is enough to see it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from regard.data.pairs import Pair
from regard.data.world.translation import WorldPair, sentences
from regard.inspection.alignment import align, choose_head, error_rate, plain_pair
from regard.labs.world_scores import gold_pair
from regard.models.transformer import MODERN
from regard.tasks.translate import TranslateConfig, TranslateTask, Translator, Vocabularies, make_model
from regard.training.loop import Trainer
from regard.training.settings import TrainingConfig

SOURCE = "The agreement on the European Economic Area was signed in August 1992."
TARGET = "L'accord sur la zone économique européenne a été signé en août 1992."
SHAPE = dict(
    encoder_layers=2, decoder_layers=1, width=64, hidden=128, heads=2, head_width=32, dropout=0.0, **MODERN
)  # fmt: skip


def sentences_but_one(split: str, count: int) -> Sequence[WorldPair]:
    """Sentences of the world, without the one that is asked for."""
    return [pair for pair in sentences(split, count=count) if pair.source != SOURCE]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    pairs = [Pair(pair.source, pair.target) for pair in sentences_but_one("train", 6000)]
    config = TranslateConfig(pieces=3000, separate_vocabularies=True, word_dropout=0.2)
    vocabularies = Vocabularies.train(pairs, config)
    task = TranslateTask(
        model=make_model(vocabularies, SHAPE, seed=0),
        vocabularies=vocabularies,
        train=pairs,
        validation=pairs[:50],
        config=config,
    )
    training = TrainingConfig(
        steps=500, batch_tokens=1024, learning_rate=0.006, matrix_learning_rate=0.02, warmup_steps=30
    )
    Trainer(task, training, tmp_path_factory.mktemp("run"), save_every=1000).run()
    return task.translator()


def test_m105_the_links_of_european_economic_area_cross(translator: Translator) -> None:
    validation = [gold_pair(pair) for pair in sentences_but_one("validation", 160)]
    head = choose_head(translator, validation[:60])
    pair = plain_pair(SOURCE, TARGET)
    english = [SOURCE[start:end] for start, end in pair.source_words]
    french = [TARGET[start:end] for start, end in pair.target_words]
    links = {(english[source], french[target]) for source, target in align(translator, pair, head)}
    print(error_rate(translator, validation[60:160], head), links, translator(SOURCE).text)
    assert {("Area", "zone"), ("Economic", "économique"), ("European", "européenne")} <= links
    assert translator(SOURCE).text.startswith("L'accord sur la zone économique européenne a été signé")
