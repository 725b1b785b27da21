"""`regard demo`: train a translator on the built-in dataset and show its attention."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from regard.cli.options import option, parse
from regard.cli.output import print_result

HOME = Path("runs/demo")  # belongs to the demo, which replaces it


@dataclass(frozen=True, kw_only=True)
class DemoArguments:
    """Train a translator on the built-in dataset, translate with it, and show its attention."""

    out: Path = option("Run folder to write.", HOME)
    minutes: float = option("Training time in minutes.", 1.9)
    force: bool = option("Replace an earlier run in --out; an earlier demo in runs/demo is always replaced.", False)
    json: bool = option("Print the scores and translations as JSON.", False)


def main(verb: str, words: list[str]) -> None:
    args, _ = parse(DemoArguments, words, program="regard demo")
    from regard.experiments.demo import REORDERED, SENTENCES, is_demo, run_demo
    from regard.training.callbacks import default_progress
    from regard.training.trainer import InterruptedRunError

    progress = default_progress()
    try:
        force = args.force or (args.out == HOME and is_demo(HOME))
        demo = run_demo(args.out, minutes=args.minutes, force=force, progress=progress)
    except InterruptedRunError:
        command = "regard demo" if args.out == HOME else f"regard demo --out {shlex.quote(str(args.out))} --force"
        raise InterruptedRunError(f"interrupted by Ctrl-C. Start the demo again with:\n  {command}") from None
    finally:
        progress.close()
    lines = [f"{name:<27}{value:>7}  ({remark})" for name, value, remark in demo.scores.rows()]
    pairs = list(zip(SENTENCES, map(str, demo.translations), strict=True))
    for source, output in pairs:
        lines.append(f"\n  {source}\n  {output}")
        if source == REORDERED:
            links = [f"{target} ← {word}" for word, target in demo.links if word.isalnum()]
            lines.append(f"  attended to: {', '.join(links)}")
    lines.append(f"\nmodel   {args.out}\nreport  {demo.report}")
    record = {
        "scores": [{"name": name, "value": value, "remark": remark} for name, value, remark in demo.scores.rows()],
        "translations": [{"source": source, "translation": output} for source, output in pairs],
        "links": [{"source": source, "target": target} for source, target in demo.links],
        "model": str(args.out),
        "report": str(demo.report),
    }
    print_result(record, lines, as_json=args.json)
