"""M105: a translator finds the order of French adjectives without gold alignments.

"the European Economic Area" is "la zone économique européenne": word links read off its cross-attention cross. Model
and sentences are those of the demo; a minute or two of training suffices.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.data.synthetic.translation import sentences
from regard.experiments.demo import REORDERED, SETTINGS, gold_pair
from regard.inspection.alignment import choose_head, error_rate, word_links

CROSSING = [("Area", "zone"), ("Economic", "économique"), ("European", "européenne")]


@pytest.mark.timeout(1800)  # two minutes on a free core, several times that on a busy machine
def test_m105_the_links_of_european_economic_area_cross(tmp_path: Path) -> None:
    assert all(pair.source != REORDERED for pair in sentences("train")), "the sentence is new to the model"
    translator = regard.train("translate", out=tmp_path / "run", size="tiny", steps=900, **SETTINGS)
    head = choose_head(translator, [gold_pair(pair) for pair in sentences("validation", count=50)])
    translation = translator(REORDERED).text
    assert translation.startswith("L'accord sur la zone économique européenne a été signé")
    links = word_links(translator, REORDERED, translation, head)
    assert [link for link in links if link in CROSSING] == CROSSING
    assert error_rate(translator, [gold_pair(pair) for pair in sentences("test", count=50)], head) < 0.25
