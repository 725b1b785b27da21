"""The demo: train a translator from scratch in two minutes, and show what it attends to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoint.folder import is_model_folder, read_config
from regard.checkpoint.training_state import last_good_checkpoint
from regard.experiments.synthetic_scores import SyntheticScores, measure
from regard.inspection.alignment import word_links
from regard.tasks.translate.objective import TranslateObjective
from regard.tasks.translate.predictor import Translation, Translator
from regard.training.callbacks import Progress, read_metrics
from regard.training.report import training_curves
from regard.training.run import TrainRequest, run_request
from regard.views.attention import attention_view, trace_maps
from regard.views.report import report_view
from regard.views.view import View

REORDERED = "The agreement on the European Economic Area was signed in August 1992."  # zone économique européenne
SENTENCES = (
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too wide.",
    REORDERED,
    "Where did the old man buy the blue car?",
)


@dataclass(frozen=True)
class Demo:
    translator: Translator
    scores: SyntheticScores
    translations: Sequence[Translation]
    links: Sequence[tuple[str, str]]  # (English word, French word) for each French word of REORDERED
    report: Path


# The synthetic dataset has no noise and a small vocabulary, so every word can be a token of its own. The model is
# narrower than `tiny`: in two minutes the number of steps matters most.
SETTINGS: dict[str, Any] = {
    "vocab_size": 4000,
    "separate_vocabularies": True,
    "batch_tokens": 1536,
    "dropout": 0.0,
    "word_dropout": 0.25,  # without it, words that follow from the one before ("qu'" from "parce") attend to nothing
    "d_model": 96,
    "d_ff": 192,
    "num_heads": 3,
    "num_heads_by_layer": {"decoder.1.cross": 1},  # several heads would share the work, and none would align
    "learning_rate": 0.003,
    "muon_learning_rate": 0.012,
    "warmup_steps": 100,
}


def is_demo(folder: Path) -> bool:
    """Whether a run in `folder` is one of this demo, so that nothing is lost when another demo replaces it."""
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
    """Train on the built-in synthetic dataset, score the model against the gold annotations, and write one page."""
    settings = {**SETTINGS, "size": "tiny", "minutes": minutes, "force": force}
    request = TrainRequest.parse("translate", settings, out=out, progress=progress)
    translator: Translator = run_request(request, [], []).predictor
    progress.say("evaluating: test sentences, unseen combinations, pronouns, word alignments")
    scores = measure(translator)
    translations = translator.predict(SENTENCES)
    report = _report(translator, scores, translations, out).save(out / "report.html")
    reordered = translations[SENTENCES.index(REORDERED)].text
    links = word_links(translator, REORDERED, reordered, scores.head)
    return Demo(translator, scores, translations, links, report)


def _report(translator: Translator, scores: SyntheticScores, translations: Sequence[Translation], out: Path) -> View:
    translated = list(zip(SENTENCES, translations, strict=True))

    def attention(source: str, translation: Translation) -> View:
        maps, head = trace_maps(translator.trace(source, translation)), scores.head
        return attention_view(maps, title=source, note=f"→ {translation}", initial=head.address, initial_head=head.head)

    return report_view(
        title="What a small Transformer learned in a few minutes",
        summary="English to French, built-in synthetic dataset; all scores are computed against its gold annotations.",
        curves=training_curves(read_metrics(out), unit=TranslateObjective.loss_unit),
        scores=scores.rows(),
        samples=[(source, "", str(translation)) for source, translation in translated],
        attention=[(source, attention(source, translation)) for source, translation in translated],
    )
