"""`regard doctor`: what was found on this machine and what was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from regard.cli.options import option, parse
from regard.cli.output import print_json, print_line


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Say what was found on this machine and what regard chooses there, with reasons."""

    json: bool = option("Print the findings as JSON.", False)


def main(verb: str, arguments: list[str]) -> int:
    asked, _ = parse(Arguments, arguments, program="regard doctor")
    from regard.training.environment import survey

    findings = survey()
    if asked.json:
        print_json([{"what": f.what, "value": f.value, "why": f.why} for f in findings])
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            print_line(f"{finding.what:<{width}}  {finding.value}  ({finding.why})")
    return 0
