"""A View: data plus the name of the viewer module that shows it.

A view is a value. It becomes a page, a picture or a notebook cell on demand.
"""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.utils.atomic_files import storage_errors, write_file
from regard.utils.errors import RegardError, UsageError
from regard.views.page import page, readable
from regard.views.picture import Picture

FORMATS = (".html", ".svg", ".png")
DATA_FORMATS = (".csv", ".json", ".npy")  # of views that export their numbers
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
BROWSER_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
# Containers often forbid the browser's sandbox. The drawing comes from regard and holds no script.
_BROWSER_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --no-first-run --hide-scrollbars"
)
_PNG_SCALE = 2  # pixels of the file per pixel of the drawing: sharp on dense screens and in print
_PNG_TIMEOUT = 60  # seconds
_NOTEBOOK_HEIGHTS = {
    "attention": 940,
    "ranks": 760,
    "report": 900,
    "senses": 900,
    "spans": 620,
    "steps": 900,
    "tokens": 420,
}


@dataclass(frozen=True, eq=False)
class View:
    """Something to look at; `save` it, or let a notebook show it."""

    viewer: str  # the module that renders it: one of VIEWERS in page.py
    data: dict[str, Any] = field(repr=False)  # input of the module: JSON values only
    title: str  # on every page, as is the note
    draw: Callable[[Any], Picture] | None = field(default=None, repr=False)  # data → still picture of the first state
    lines: Sequence[str] = field(default=(), repr=False)  # a summary for a terminal
    numbers: Callable[[], Any] = field(default=dict, repr=False)  # the numbers of the view, as JSON values
    note: str = field(default="", repr=False)  # a sentence under the title
    exports: Mapping[str, Callable[[Path], object]] = field(default_factory=dict, repr=False)  # suffix → writer

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", {"title": self.title, "note": self.note, **self.data})

    def html(self) -> str:
        """One self-contained page that works offline."""
        return page(self.viewer, self.data, self.title)

    def svg(self) -> str:
        """The first state of the view as a drawing without scripts."""
        return self._picture().svg()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write .html (the whole view), .svg or .png (its first state), or one of its exports. The write is atomic."""
        target = Path(path)
        suffix = check_format(target, also=self.exports)
        if suffix in self.exports:
            self.exports[suffix](target)
        elif suffix == ".html":
            write_output(target, self.html())
        else:
            write_output(target, self.svg() if suffix == ".svg" else rasterize(self._picture()))
        return target

    def _picture(self) -> Picture:
        if self.draw is None:
            message = f"this {self.viewer} view has no still picture. Save it as .html."
            raise UsageError(message, argument="path", allowed=[".html"])
        return self.draw(self.data)

    def _repr_html_(self) -> str:
        # Without allow-same-origin the frame has an origin of its own: it can run scripts and offer downloads, but it
        # cannot access the notebook's page or its cookies.
        height = _NOTEBOOK_HEIGHTS.get(self.viewer, 700)
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="{html.escape(readable(self.title))}" '
            f'style="width:100%;height:{height}px;border:0;resize:vertical" '
            f'srcdoc="{html.escape(self.html())}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<View {self.viewer}: {self.title!r}; save it as .html, .svg or .png>"


def check_format(path: Path, *, also: Iterable[str] = ()) -> str:
    """The suffix of `path`, if a view can be saved as such a file. `also` names more formats than FORMATS."""
    suffix, allowed = path.suffix.lower(), (*FORMATS, *also)
    if suffix not in allowed:
        message = f"cannot save a view as {path.name!r}: the name must end in {', '.join(allowed)}."
        raise UsageError(message, argument="path", value=suffix, allowed=allowed, path=path)
    return suffix


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file atomically; create its folder if necessary."""
    with storage_errors(path, len(content)):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content)


def find_browser() -> str | None:
    """The path of a Chromium-type browser, on PATH or where macOS and Windows install it; None if there is none."""
    on_path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    return on_path or next((path for path in BROWSER_PATHS if Path(path).is_file()), None)


def rasterize(picture: Picture) -> bytes:
    """A still picture as PNG bytes, painted by a headless browser."""
    browser = find_browser()
    if browser is None:
        message = (
            f"a .png needs a browser to paint it, and none of {', '.join(BROWSERS)} is on PATH. "
            "Install one (Debian and Ubuntu: apt install chromium), or save the view as .svg or .html."
        )
        raise RegardError(message, argument="path", allowed=[".svg", ".html"], hint="apt install chromium")
    with tempfile.TemporaryDirectory(prefix="regard-png-") as folder:
        source, target = Path(folder, "picture.svg"), Path(folder, "picture.png")
        source.write_text(picture.svg(), encoding="utf-8")
        command = [
            browser,
            *_BROWSER_FLAGS.split(),
            f"--user-data-dir={Path(folder, 'profile')}",
            f"--force-device-scale-factor={_PNG_SCALE}",
            f"--window-size={picture.width},{picture.height}",
            f"--screenshot={target}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PNG_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            message = f"{browser} could not paint the picture ({error}). Save it as .svg instead."
            raise RegardError(message, path=browser) from error
        if not target.is_file():
            log = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no error message"]
            message = f"{browser} painted no picture (exit code {done.returncode}: {log[0]}). Save it as .svg instead."
            raise RegardError(message, path=browser, value=done.returncode)
        return target.read_bytes()
