"""docs/cli.md is what scripts/cli_docs.py writes, and the script does not need torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_up_to_date() -> None:
    environment = {**os.environ, "COLUMNS": "40"}  # the width of the terminal does not matter
    command = [sys.executable, str(ROOT / "scripts" / "cli_docs.py"), "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr
