"""`regard doctor`: what was found on this machine and what was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from regard.cli.flags import parse
from regard.cli.output import answer, answer_json


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Say what was found on this machine and what regard chooses there, with reasons."""

    json: bool = False  # print the findings as JSON


def main(verb: str, arguments: list[str]) -> int:
    asked = parse(Arguments, arguments, program="regard doctor")
    from regard.training.choices import survey

    findings = survey()
    if asked.json:
        answer_json([{"what": f.what, "value": f.value, "why": f.why} for f in findings])
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            answer(f"{finding.what:<{width}}  {finding.value}  ({finding.why})")
    return 0
