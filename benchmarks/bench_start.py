"""Start-up time of `regard --help` and `import regard` in new processes: best and median of ten."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def seconds(command: list[str], times: int = 10) -> list[float]:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found.append(time.perf_counter() - start)
    return found


def main() -> None:
    bare = min(seconds([sys.executable, "-c", "pass"]))
    for name, command, mark in (
        ("regard --help", [sys.executable, "-m", "regard", "--help"], 0.3),
        ("import regard", [sys.executable, "-c", "import regard"], 0.1),
    ):
        taken = seconds(command)
        print(
            f"{name}: best {min(taken):.3f} s, median {statistics.median(taken):.3f} s "
            f"(mark {mark} s; Python alone {bare:.3f} s)"
        )


if __name__ == "__main__":
    main()
