"""How smooth the attention viewer stays with 512 tokens and 144 heads: seconds of each action in headless Chromium."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from regard.views.attention import AttentionMap, attention_view

TOKENS, LAYERS, HEADS = 512, 12, 12
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def large_page(folder: Path) -> Path:
    random = np.random.default_rng(13)
    powers = np.exp(2 * random.normal(size=(HEADS, TOKENS, TOKENS)).astype(np.float32))
    weights = powers / powers.sum(axis=-1, keepdims=True)
    names = [f"token{index}" for index in range(TOKENS)]
    maps = [
        AttentionMap(
            address=f"encoder.{layer}.self", rows=names, columns=names, weights=np.roll(weights, layer, axis=0)
        )
        for layer in range(LAYERS)
    ]
    return attention_view(maps, title="large").save(folder / "large.html")


def measure(page: Page, path: Path) -> dict[str, float]:
    def timed(action: Callable[[], object]) -> float:
        before = time.perf_counter()
        action()
        page.wait_for_selector('.attention[data-ready="true"]')
        page.evaluate(FRAMES)
        return time.perf_counter() - before

    def choose(group: str, label: str) -> None:
        page.locator(f'[data-choice="{group}"] label').filter(has_text=re.compile(rf"^{label}")).click()

    return {
        "open the page": timed(lambda: page.goto(path.as_uri())),
        "another layer": timed(lambda: choose("layer", "7")),
        "lines": timed(lambda: choose("mode", "Lines")),
        "scroll": timed(lambda: page.locator(".stage").evaluate("(stage) => { stage.scrollTop = 6000; }")),
        "heat map": timed(lambda: choose("mode", "Heat map")),
    }


def main() -> None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    executable = next((found for name in names if (found := shutil.which(name))), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = large_page(Path(folder))
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        rounds = [measure(browser.new_context(offline=True).new_page(), path) for _ in range(5)]
        browser.close()
    print(f"{TOKENS} tokens, {LAYERS * HEADS} heads, {LAYERS} layers; best of {len(rounds)}")
    for action in rounds[0]:
        print(f"{action:<15}{min(found[action] for found in rounds):7.3f} s")


if __name__ == "__main__":
    main()
