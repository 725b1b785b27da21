"""The demo: learn to translate from nothing in two minutes, and show what was attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoint.atomic import write_file
from regard.checkpoint.folder import is_model_folder, read_config
from regard.checkpoint.training_state import last_good_checkpoint
from regard.inspection.alignment import word_links
from regard.labs.world_scores import WorldScores, measure
from regard.tasks.translate import Translation, Translator
from regard.training.metrics_log import read_metrics
from regard.training.options import RunOptions
from regard.training.progress import Progress
from regard.training.report import CURVES
from regard.training.translation import train_translation
from regard.views.attention import attention_view
from regard.views.report import report_view
from regard.views.traces import trace_maps
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
    scores: WorldScores
    translations: Sequence[Translation]
    links: Sequence[tuple[str, str]]  # (English word, French word) for each French word of REORDERED
    report: Path


# The world has no noise to be robust against, and its words are few enough to be pieces of their own. Narrower than
# `tiny`: what counts in two minutes is the number of steps.
SETTINGS: dict[str, Any] = {
    "pieces": 4000,
    "separate_vocabularies": True,
    "batch_tokens": 1536,
    "dropout": 0.0,
    "word_dropout": 0.25,  # without it words that follow from the one before, as "qu'" from "parce", look nowhere
    "width": 96,
    "hidden": 192,
    "heads": 3,
    "heads_at": {"decoder.1.cross": 1},  # several would share the work, and none of them be an alignment
    "learning_rate": 0.003,
    "matrix_learning_rate": 0.012,
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
    return all(settings[name] == value for name, value in SETTINGS.items() if name in settings)


def run_demo(out: Path, *, minutes: float, force: bool = False, progress: Progress) -> Demo:
    """Train on the built-in world, score it against the world's truth, and write one page about it."""
    options = RunOptions(force=force, progress=progress)
    run = train_translation(None, out, size="tiny", settings=SETTINGS | {"minutes": minutes}, options=options)
    progress.say("measuring: test sentences, unseen combinations, pronouns, word alignments")
    scores = measure(run.result)
    translations = run.result(list(SENTENCES))
    report = out / "report.html"
    write_file(report, _report(run.result, scores, translations, out).html())
    reordered = translations[SENTENCES.index(REORDERED)].text
    links = word_links(run.result, REORDERED, reordered, scores.head)
    return Demo(run.result, scores, translations, links, report)


def _report(translator: Translator, scores: WorldScores, translations: Sequence[Translation], out: Path) -> View:
    rows = read_metrics(out)
    attention = [
        (source, _attention(translator, source, translation, scores))
        for source, translation in zip(SENTENCES, translations, strict=True)
    ]
    return report_view(
        title="What a small Transformer learned in a few minutes",
        summary="English to French, from the built-in world; every number is measured against the world's own truth.",
        curves={name: [(row["step"], row[key]) for row in rows if key in row] for name, key in CURVES.items()},
        scores=scores.rows(),
        samples=[(source, "", str(t)) for source, t in zip(SENTENCES, translations, strict=True)],
        attention=attention,
    )


def _attention(translator: Translator, source: str, translation: Translation, scores: WorldScores) -> View:
    maps = trace_maps(translator.trace(source, translation))
    return attention_view(
        maps, title=source, note=f"→ {translation}", initial=scores.head.address, initial_head=scores.head.head
    )
