"""The demo: train a translator from scratch in two minutes, score it, and show what it attends to.

The synthetic dataset is only an instrument: its gold annotations show that the code works and what attention learns. A
word-for-word dictionary is the baseline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoint.folder import is_model_folder, read_config
from regard.checkpoint.training_state import last_good_checkpoint
from regard.data.synthetic.realizer import char_spans
from regard.data.synthetic.translation import SyntheticPair, pronoun_pairs, sentences, word_for_word
from regard.inspection.alignment import AlignedPair, AligningHead, choose_head, error_rate, word_links
from regard.metrics.score import Score
from regard.metrics.translation import bleu
from regard.tasks.translate.objective import TranslateObjective
from regard.tasks.translate.predictor import Translation, Translator
from regard.training.callbacks import Progress, read_metrics
from regard.training.report import training_curves
from regard.training.run import TrainRequest, train_on_files
from regard.views.attention import attention_view, trace_maps
from regard.views.report import report_view
from regard.views.view import View

NUM_ALIGNED = 200  # number of validation sentences for choosing the head, and of test sentences for evaluating it
REORDERED = "The agreement on the European Economic Area was signed in August 1992."  # zone économique européenne
SENTENCES = (
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too wide.",
    REORDERED,
    "Where did the old man buy the blue car?",
)


@dataclass(frozen=True, kw_only=True)
class SyntheticScores:
    test: Score
    compositional: Score  # combinations of words that are not in the training split
    dictionary_test: Score  # word for word
    dictionary_compositional: Score
    pronouns: float  # share of held-out minimal pairs with the right il or elle; chance is 0.5
    head: AligningHead  # chosen on validation sentences
    alignment_error_rate: float  # of `head` on test sentences

    def rows(self) -> list[tuple[str, str, str]]:
        """(name, score, remark) for tables."""

        def row(name: str, score: Score, dictionary: Score) -> tuple[str, str, str]:
            return name, f"{score.value:.1f}", f"word for word {dictionary.value:.1f}"

        return [
            row("BLEU, test", self.test, self.dictionary_test),
            row("BLEU, unseen combinations", self.compositional, self.dictionary_compositional),
            ("it → il/elle", f"{self.pronouns:.1%}", "held-out pairs of nouns, chance 50 %"),
            ("alignment error rate", f"{self.alignment_error_rate:.3f}", str(self.head)),
        ]


@dataclass(frozen=True)
class Demo:
    scores: SyntheticScores
    translations: Sequence[Translation]
    links: Sequence[tuple[str, str]]  # (English word, French word) for each French word of REORDERED
    report: Path


# The synthetic dataset has no noise and a small vocabulary, so every word can be one token. The model is
# narrower than `tiny`: in two minutes the number of steps matters most.
SETTINGS: dict[str, Any] = {
    "vocab_size": 4000,
    "separate_vocabularies": True,
    "batch_tokens": 1536,
    "dropout": 0.0,
    "word_dropout": 0.25,  # without it, words that the previous word determines ("qu'" after "parce") need no attention
    "d_model": 96,
    "d_ff": 192,
    "num_heads": 3,
    "num_heads_by_layer": {"decoder.1.cross": 1},  # several heads would share the work, and none would align
    "learning_rate": 0.003,
    "muon_learning_rate": 0.012,
    "warmup_steps": 100,
}


def is_demo(folder: Path) -> bool:
    """Return whether the run in `folder` was written by this demo, so that another demo run may replace it."""
    if is_model_folder(folder):
        config = read_config(folder)
        settings = {**config.get("model", {}), **config.get("training", {})}
    elif checkpoint := last_good_checkpoint(folder):
        settings = checkpoint.state["identity"]
    else:
        return True
    # The vocabulary may be smaller than requested.
    return all(settings[name] == value for name, value in SETTINGS.items() if name in settings and name != "vocab_size")


def run_demo(out: Path, *, minutes: float, force: bool = False, progress: Progress) -> Demo:
    """Train on the built-in synthetic dataset, evaluate the model with the gold annotations, and write one page."""
    settings = {**SETTINGS, "size": "tiny", "minutes": minutes, "force": force}
    request = TrainRequest.parse("translate", settings, out=out, progress=progress)
    translator: Translator = train_on_files(request, [], []).predictor
    progress.say("evaluating: test sentences, unseen combinations, pronouns, word alignments")
    scores = measure(translator)
    translations = translator.predict(SENTENCES)
    report = _report(translator, scores, translations, out).save(out / "report.html")
    reordered = translations[SENTENCES.index(REORDERED)].text
    links = word_links(translator, REORDERED, reordered, scores.head)
    return Demo(scores, translations, links, report)


def _report(translator: Translator, scores: SyntheticScores, translations: Sequence[Translation], out: Path) -> View:
    translated = list(zip(SENTENCES, translations, strict=True))

    def attention(source: str, translation: Translation) -> View:
        maps, head = trace_maps(translator.trace(source, translation)), scores.head
        return attention_view(maps, title=source, note=f"→ {translation}", initial=head.address, initial_head=head.head)

    return report_view(
        title="What a small Transformer learned in a few minutes",
        summary="English to French, built-in synthetic dataset; all scores use its gold annotations.",
        curves=training_curves(read_metrics(out), unit=TranslateObjective.loss_unit),
        scores=scores.rows(),
        samples=[(source, "", str(translation)) for source, translation in translated],
        attention=[(source, attention(source, translation)) for source, translation in translated],
    )


def measure(translator: Translator) -> SyntheticScores:
    """Return all scores of a translator on the synthetic dataset."""

    def scores(pairs: Sequence[SyntheticPair]) -> tuple[Score, Score]:
        """BLEU of the translator and of the dictionary."""
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        translations = [translation.text for translation in translator(sources)]
        return bleu(translations, targets), bleu([word_for_word(source) for source in sources], targets)

    test_pairs = sentences("test")
    test, dictionary_test = scores(test_pairs)
    compositional, dictionary_compositional = scores(sentences("compositional"))
    head = choose_head(translator, [gold_pair(pair) for pair in sentences("validation", count=NUM_ALIGNED)])
    return SyntheticScores(
        test=test,
        compositional=compositional,
        dictionary_test=dictionary_test,
        dictionary_compositional=dictionary_compositional,
        pronouns=pronoun_accuracy(translator),
        head=head,
        alignment_error_rate=error_rate(translator, [gold_pair(pair) for pair in test_pairs[:NUM_ALIGNED]], head),
    )


def pronoun_accuracy(translator: Translator) -> float:
    """How often *it* becomes the pronoun that agrees with its antecedent."""
    sides = [side for pair in pronoun_pairs() for side in ((pair.il.source, "il"), (pair.elle.source, "elle"))]
    outputs = translator([source for source, _ in sides])
    last_pronouns = [re.findall(r"\b(?:il|elle)\b", output.text.lower())[-1:] for output in outputs]
    return sum(last == [gold] for last, (_, gold) in zip(last_pronouns, sides, strict=True)) / len(sides)


def gold_pair(pair: SyntheticPair) -> AlignedPair:
    source_words = char_spans(pair.source, pair.source_words)
    target_words = char_spans(pair.target, pair.target_words)
    return AlignedPair(pair.source, pair.target, source_words, target_words, pair.alignment)
