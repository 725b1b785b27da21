"""Folders of regard 0.1 (format 1) can be loaded and give the same outputs, bit for bit.

`tests/fixtures/format1` holds such folders, and beside each the outputs of the old code. Bits depend on the processor:
on another processor, texts must be equal and numbers close.
"""

from __future__ import annotations

import base64
import json
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.utils.errors import FolderError

FIXTURES = Path(__file__).parents[1] / "fixtures" / "format1"
NAMES = sorted(path.name.removesuffix(".expected.json") for path in FIXTURES.glob("*.expected.json"))
# Fields of results that have other names now.
FIELDS = {
    "probabilities": "scores",
    "probability": "score",
    "place": "choice_index",
    "first": "context",
    "no_answer": "null_score_diff",
    "words": "mlm",
    "follows": "nsp",
}


def tensors(inputs: dict[str, Any]) -> list[torch.Tensor]:
    return [torch.tensor(value) for value in inputs.values()]


# Old name of a recorded output → how to compute it now. Each function takes the model, the inputs and the folder.
CALLS: dict[str, Callable[[Any, dict[str, Any], Path], Any]] = {
    "model.model(ids)": lambda m, x, _: m.model(*tensors(x)),
    "model.model(ids, lengths, segments)": lambda m, x, _: m.model(*tensors(x)),
    "model.model(source, target)": lambda m, x, _: m.model(*tensors(x)),
    "regard.load(path, precision='int8').model(ids)": lambda m, x, p: regard.load(p, precision="int8").model(
        *tensors(x)
    ),
    "regard.load(path, precision='int8').model(ids, lengths, segments)": lambda m, x, p: regard.load(
        p, precision="int8"
    ).model(*tensors(x)),
    "regard.load(path, precision='int8').model(source, target)": lambda m, x, p: regard.load(p, precision="int8").model(
        *tensors(x)
    ),
    "model(prompt, temperature=0, max_new_tokens=12)": lambda m, x, _: m(x["prompt"], temperature=0, max_new_tokens=12),
    "model(prompts, seed=3, max_new_tokens=10)": lambda m, x, _: m(x["prompts"], seed=3, max_new_tokens=10),
    "model(prompt, seed=7)": lambda m, x, _: m(x["prompt"], seed=7),
    "model.score(text)": lambda m, x, p: {"log_probs": regard.load(p, task="score")(x["text"]).log_probs},
    "model.embed(texts)": lambda m, x, _: m.embed(x["texts"]),
    "model.embed(text, pooling='max', normalise=False)": lambda m, x, _: m.embed(
        x["text"], pooling="max", normalize=False
    ),
    "model.similarity(texts)": lambda m, x, p: regard.load(p, task="embed").similarity(x["texts"]),
    "model(question, passage)": lambda m, x, _: m(x["question"], x["passage"]),
    "model(question, passage, threshold=-100.0, n_best=3)": lambda m, x, _: m(
        x["question"], x["passage"], no_answer_threshold=-100.0, n_best=3
    ),
    "model(first, endings)": lambda m, x, _: m(x["first"], x["endings"]),
    "model(text)": lambda m, x, _: m(x["text"]),
    "model(text).label": lambda m, x, _: m(x["text"]).label,
    "model(texts)": lambda m, x, _: m(x["texts"]),
    "model(texts, max_new_tokens=12)": lambda m, x, _: m(x["texts"], max_new_tokens=12),
    "model(text, beams=2, n_best=2, max_new_tokens=8)": lambda m, x, _: m(
        x["text"], num_beams=2, n_best=2, max_new_tokens=8
    ),
    "model.loss(text, target)": lambda m, x, _: m.loss(x["text"], x["target"]),
    "model(first, second)": lambda m, x, _: m(x["first"], x["second"]),
    "model(pairs)": lambda m, x, _: regard.predict(pair_model(m), [tuple(pair) for pair in x["pairs"]]),
    "model(sentences)": lambda m, x, _: m(x["sentences"]),
    "model.trace(text, target).weights(address)": lambda m, x, _: m.trace(x["text"], x["target"]).weights(x["address"]),
    "model.trace(text).weights(address)": lambda m, x, _: m.trace(x["text"]).weights(x["address"]),
}


def pair_model(model: Any) -> Any:
    from regard.tasks.pair.predictor import PairClassifier

    return PairClassifier.adapt(model) or model


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("REGARD_BACKEND", "torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def is_same_machine(environment: dict[str, str]) -> bool:
    info = Path("/proc/cpuinfo")
    cpu = info.read_text(encoding="utf-8") if info.is_file() else platform.processor()
    capability = torch.backends.cpu.get_cpu_capability()
    recorded = environment["torch"], environment["cpu_capability"]
    return recorded == (torch.__version__, capability) and environment["cpu"] in cpu


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_of_format_1_gives_the_same_bits(name: str) -> None:
    expected = json.loads((FIXTURES / f"{name}.expected.json").read_text(encoding="utf-8"))
    model, exact = regard.load(FIXTURES / name), is_same_machine(expected["environment"])
    asked = 0
    for entry in expected["calls"]:
        if call := CALLS.get(entry["call"]):
            with torch.no_grad():
                compare(entry["output"], call(model, entry["inputs"], FIXTURES / name), exact=exact)
            asked += 1
    assert asked > 2


def compare(recorded: Any, now: Any, *, exact: bool) -> None:
    """Compare bit for bit, or approximately on another processor; fields of records have their present names."""
    if isinstance(recorded, dict) and "float32" in recorded:
        array = np.frombuffer(base64.b64decode(recorded["float32"]), "<f4").reshape(recorded["shape"])
        found = now.numpy() if isinstance(now, torch.Tensor) else np.asarray(now)
        if exact:
            assert np.array_equal(array, found)
        np.testing.assert_allclose(array, found, rtol=2e-4, atol=1e-5)
    elif isinstance(recorded, dict) and "float" in recorded:
        assert now == (
            float.fromhex(recorded["float"]) if exact else pytest.approx(float.fromhex(recorded["float"]), 1e-5)
        )
    elif isinstance(recorded, dict):
        for field, value in recorded.items():
            if field == "score" and "probability" in recorded:  # a sum of logits, which a span no longer has
                continue
            found = now.get(field) if isinstance(now, dict) else getattr(now, field, None)
            renamed = getattr(now, FIELDS.get(field, field), None) if found is None else found
            if value is not None and renamed is not None:
                compare(value, renamed, exact=exact)
    elif isinstance(recorded, list):
        assert len(recorded) == len(now)
        for one, other in zip(recorded, now, strict=True):
            compare(one, other, exact=exact)
    else:
        assert recorded == now


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(FIXTURES / "classify", copy)
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    config["regard"]["format"] = 99
    (copy / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (copy / "regard-manifest.json").unlink()
    with pytest.raises(FolderError) as error:
        regard.load(copy)
    assert (error.value.argument, error.value.value, error.value.allowed) == ("format", 99, (1, 2))
