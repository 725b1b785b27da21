"""The time to read a million sentence pairs from each file format, in seconds."""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
import time
from pathlib import Path

from regard.data.pairs import Pair, read_pairs

PAIRS = 1_000_000


def main() -> None:
    pairs = [Pair(f"The small cat number {i} sleeps.", f"Le petit chat numéro {i} dort.") for i in range(PAIRS)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = "source\ttarget\n" + "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        (folder / "pairs.tsv").write_text(table, encoding="utf-8")
        (folder / "pairs.tsv.gz").write_bytes(gzip.compress(table.encode()))
        with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as cells:
            csv.writer(cells).writerows([("source", "target"), *((pair.source, pair.target) for pair in pairs)])
        with (folder / "pairs.jsonl").open("w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"source": p.source, "target": p.target}) + "\n" for p in pairs)
        (folder / "text.en").write_text("".join(f"{pair.source}\n" for pair in pairs), encoding="utf-8")
        (folder / "text.fr").write_text("".join(f"{pair.target}\n" for pair in pairs), encoding="utf-8")
        for names in (["pairs.tsv"], ["pairs.tsv.gz"], ["pairs.csv"], ["pairs.jsonl"], ["text.en", "text.fr"]):
            start = time.perf_counter()
            found = len(read_pairs([folder / one for one in names]).examples)
            print(f"{' + '.join(names):<20}{found:,} pairs in {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
