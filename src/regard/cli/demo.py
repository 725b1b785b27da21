"""`regard demo`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from regard.cli.flags import parse
from regard.cli.output import answer, answer_json

HOME = Path("runs/demo")  # of the demo alone, so that it can be run again and again


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Train a translator on the built-in world, translate with it, and draw what it attended to."""

    out: Path = HOME  # the folder to write
    minutes: float = 1.9  # how long to train
    force: bool = False  # replace what an earlier run wrote to --out; an earlier demo in runs/demo always is replaced
    json: bool = False  # print the scores and translations as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard demo")
    from regard.labs.demo import REORDERED, SENTENCES, is_demo, run_demo
    from regard.training.loop import InterruptedRunError
    from regard.training.progress import for_terminal

    progress = for_terminal()
    try:
        force = asked.force or (asked.out == HOME and is_demo(HOME))
        demo = run_demo(asked.out, minutes=asked.minutes, force=force, progress=progress)
    except InterruptedRunError:
        again = "regard demo" if asked.out == HOME else f"regard demo --out {shlex.quote(str(asked.out))} --force"
        raise InterruptedRunError(f"stopped by Ctrl-C. A demo begins anew: {again}") from None
    finally:
        progress.close()
    pairs = list(zip(SENTENCES, (str(translation) for translation in demo.translations), strict=True))
    if asked.json:
        scores = [{"what": what, "score": score, "remark": remark} for what, score, remark in demo.scores.rows()]
        translations = [{"source": source, "translation": output} for source, output in pairs]
        links = [{"source": source, "target": target} for source, target in demo.links]
        answer_json(
            {
                "scores": scores,
                "translations": translations,
                "links": links,
                "model": str(asked.out),
                "report": str(demo.report),
            }
        )
        return 0
    for what, score, remark in demo.scores.rows():
        answer(f"{what:<27}{score:>7}  ({remark})")
    for source, output in pairs:
        answer(f"\n  {source}\n  {output}")
        if source == REORDERED:
            answer("  looked at: " + ", ".join(f"{target} ← {word}" for word, target in demo.links if word.isalnum()))
    answer(f"\nmodel   {asked.out}\nreport  {demo.report}")
    return 0
