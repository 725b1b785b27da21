"""A real browser without a network. A message on a page's console, or a request to the network, fails the test.

Without Chromium these tests are skipped; where CI is set they fail instead, so that an incomplete installation is
noticed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser(unavailable: Callable[[str], NoReturn]) -> Iterator[Any]:
    """One browser for all tests."""
    executable = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if executable is None:
        unavailable(f"none of {', '.join(BROWSERS)} is on PATH")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("playwright is not installed")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
        yield running
        running.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a saved page in a new offline window; console messages, errors and requests fail the test."""
    complaints: list[str] = []
    contexts = []

    def open_one(path: Path, *, dark: bool = False, width: int = 1280, height: int = 900) -> Any:
        context = browser.new_context(
            offline=True,
            accept_downloads=True,
            color_scheme="dark" if dark else "light",
            viewport={"width": width, "height": height},
        )
        contexts.append(context)
        context.set_default_timeout(60_000)  # enough on a busy machine
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: _note_request(request.url, path, complaints))
        page.goto(path.as_uri())
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


def _note_request(url: str, path: Path, complaints: list[str]) -> None:
    if url != path.as_uri() and not url.startswith(("data:", "blob:")):
        complaints.append(f"request: {url}")
