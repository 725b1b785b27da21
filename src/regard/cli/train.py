"""`regard train <task>`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from regard.api import TASKS
from regard.cli.output import answer, answer_json
from regard.errors import UsageError, unknown


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Train a translator on pairs of sentences.

    DATA is one table (.tsv, .csv, .jsonl) or two line-aligned text files, each plain or .gz. Without DATA the
    built-in English–French world is used. Settings that are not given follow from --recipe and --size.
    """

    data: tyro.conf.Positional[tuple[Path, ...]] = ()  # a table, or two line-aligned files
    out: Path | None = None  # the folder to write (required)
    validation: tuple[Path, ...] = ()  # pairs to validate on; otherwise some of DATA are held out
    columns: tuple[str, str] | None = None  # names of the source and target columns
    reverse: bool = False  # translate from the second language to the first
    skip_bad_rows: bool = False  # leave out rows that cannot be used, and list them
    size: str = "small"  # tiny, small, base, large
    recipe: str = "default"  # default: learns fastest here; paper: as in 2017
    device: str = "auto"  # auto, cpu, cuda, mps
    save_every: float = 60.0  # seconds between checkpoints
    resume: bool = False  # go on from the last good checkpoint in --out
    force: bool = False  # replace what an earlier run wrote to --out
    json: bool = False  # print the result as JSON


def main(verb: str, arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        answer(f"usage: regard train <task> …\n\ntasks: {', '.join(TASKS)}\n\n`regard train <task> --help` tells more.")
        return 0
    task, *rest = arguments
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    return _translate(rest)


def _translate(arguments: list[str]) -> int:
    import dataclasses

    from regard.cli.flags import parse
    from regard.generation.search import SearchConfig
    from regard.models.transformer import TransformerConfig
    from regard.tasks.translate import TranslateConfig
    from regard.training.progress import for_terminal
    from regard.training.runs import train_translation
    from regard.training.settings import TrainingConfig

    usual, by_size = "(usually {})", "(by --size and --recipe)"
    owners = {TrainingConfig: usual, TranslateConfig: usual, TransformerConfig: by_size, SearchConfig: usual}
    hidden = ("vocab_size", "source_vocab_size", "heads_at", "architecture")
    asked = parse(Translate, arguments, program="regard train translate", owners=owners, without=hidden)
    if asked.out is None:
        raise UsageError("--out is missing: name the folder to write, for example --out runs/mine.")
    own = {field.name for field in dataclasses.fields(Translate)}
    settings = {f.name: getattr(asked, f.name) for f in dataclasses.fields(asked) if f.name not in own}
    progress = for_terminal()
    try:
        run = train_translation(
            asked.data or None,
            asked.out,
            validation=asked.validation or None,
            columns=asked.columns,
            reverse=asked.reverse,
            skip_bad_rows=asked.skip_bad_rows,
            size=asked.size,
            recipe=asked.recipe,
            device=asked.device,
            save_every=asked.save_every,
            resume=asked.resume,
            force=asked.force,
            progress=progress,
            settings={name: value for name, value in settings.items() if value is not None},
        )
    finally:
        progress.close()
    report = run.folder / "report.html"
    if asked.json:
        scores = [{"name": s.name, "value": s.value, "signature": s.signature} for s in run.scores]
        answer_json(
            {
                "folder": str(run.folder),
                "step": run.position.step,
                "scores": scores,
                "scored_on": run.scored_on,
                "report": str(report),
            }
        )
    else:
        for score in run.scores:
            answer(f"{run.scored_on}: {score}")
        answer(f"model: {run.folder}\nreport: {report}")
    return 0
