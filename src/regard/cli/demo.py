"""`regard demo`: from nothing to a trained translator and its report."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from regard.cli.options import option, parse
from regard.cli.output import print_json, print_line

HOME = Path("runs/demo")  # belongs to the demo, which replaces it


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train a translator on the built-in dataset, translate with it, and draw its attention."""

    out: Path = option("Run folder to write.", HOME)
    minutes: float = option("Training time.", 1.9)
    force: bool = option("Replace an earlier run in --out; an earlier demo in runs/demo is always replaced.", False)
    json: bool = option("Print the scores and translations as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    asked, _ = parse(Arguments, arguments, program="regard demo")
    from regard.experiments.demo import REORDERED, SENTENCES, is_demo, run_demo
    from regard.training.interrupts import InterruptedRunError
    from regard.training.progress import for_terminal

    progress = for_terminal()
    try:
        force = asked.force or (asked.out == HOME and is_demo(HOME))
        demo = run_demo(asked.out, minutes=asked.minutes, force=force, progress=progress)
    except InterruptedRunError:
        again = "regard demo" if asked.out == HOME else f"regard demo --out {shlex.quote(str(asked.out))} --force"
        raise InterruptedRunError(f"stopped by Ctrl-C. Start the demo again with:\n  {again}") from None
    finally:
        progress.close()
    pairs = list(zip(SENTENCES, (str(translation) for translation in demo.translations), strict=True))
    if asked.json:
        scores = [{"name": name, "value": value, "remark": remark} for name, value, remark in demo.scores.rows()]
        translations = [{"source": source, "translation": output} for source, output in pairs]
        links = [{"source": source, "target": target} for source, target in demo.links]
        print_json(
            {
                "scores": scores,
                "translations": translations,
                "links": links,
                "model": str(asked.out),
                "report": str(demo.report),
            }
        )
        return 0
    for name, value, remark in demo.scores.rows():
        print_line(f"{name:<27}{value:>7}  ({remark})")
    for source, output in pairs:
        print_line(f"\n  {source}\n  {output}")
        if source == REORDERED:
            print_line(
                "  looked at: " + ", ".join(f"{target} ← {word}" for word, target in demo.links if word.isalnum())
            )
    print_line(f"\nmodel   {asked.out}\nreport  {demo.report}")
    return 0
