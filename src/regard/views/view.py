"""A View: data plus the name of the viewer module that shows it.

A view is a value. It is rendered as a page, a picture or a notebook cell on demand. It depends neither on the source
of its data nor on what the viewer does with them.
"""

from __future__ import annotations

import html
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.utils.errors import RegardError, UsageError
from regard.views.page import page, readable
from regard.views.picture import Picture

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
BROWSER_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
FORMATS = (".html", ".svg", ".png")

_NOTEBOOK_HEIGHT = {
    "attention": 940,
    "causal": 700,
    "inputs": 700,
    "ranks": 760,
    "report": 900,
    "spans": 620,
    "senses": 900,
    "steps": 900,
    "tokens": 420,
    "transfer": 700,
}
_PNG_SCALE = 2  # two pixels of the file for one of the drawing: sharp on dense screens and in print
_PNG_SECONDS = 60


@dataclass(frozen=True, eq=False)
class View:
    """Something to look at; `save` it, or let a notebook show it."""

    viewer: str  # the module that renders it: one of VIEWERS in page.py
    data: dict[str, Any] = field(repr=False)  # what the module gets: JSON values only
    title: str
    draw: Callable[[], Picture] | None = field(default=None, repr=False)  # the still picture of its first state
    lines: tuple[str, ...] = field(default=(), repr=False)  # a summary for a terminal
    numbers: Callable[[], Any] = field(default=dict, repr=False)  # what the view shows, as JSON values

    def html(self) -> str:
        """One self-contained page that works offline."""
        return page(self.viewer, self.data, self.title)

    def svg(self) -> str:
        """The first state of the view as a drawing without scripts."""
        return self._picture().svg()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write .html (the whole view), .svg or .png (its first state). The write is atomic."""
        target = Path(path)
        suffix = check_format(target)
        if suffix == ".html":
            write_whole(target, self.html().encode("utf-8"))
        elif suffix == ".svg":
            write_whole(target, self.svg().encode("utf-8"))
        else:
            write_whole(target, rasterize(self._picture()))
        return target

    def _picture(self) -> Picture:
        if self.draw is None:
            raise UsageError(
                f"this {self.viewer} view has no still picture, so it cannot become .svg or .png; save it as .html."
            )
        return self.draw()

    def _repr_html_(self) -> str:
        # Without allow-same-origin the frame has an origin of its own: it can run scripts and offer downloads, but it
        # cannot access the notebook's page or its cookies.
        height = _NOTEBOOK_HEIGHT.get(self.viewer, 600)
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="{html.escape(readable(self.title))}" '
            f'style="width:100%;height:{height}px;border:0;resize:vertical" '
            f'srcdoc="{html.escape(self.html())}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<View {self.viewer}: {self.title!r}; save it as .html, .svg or .png>"


def check_format(path: Path) -> str:
    """The ending of a file that a view can be saved as."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(
            f"cannot save a view as {path.name!r}: the name must end in {', '.join(FORMATS)}. "
            "Choose .html for the whole view, .svg or .png for a picture of it."
        )
    return suffix


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` under a temporary name and rename it, so that `path` never holds half a file."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes files private; a picture is meant to be shared
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise RegardError(
            f"cannot write {path}: {reason}. Choose a folder that exists, is writable and has room."
        ) from error


def _umask() -> int:
    mask = os.umask(0)  # the only way to read it is to set it
    os.umask(mask)
    return mask


def find_browser() -> str | None:
    """The path of a Chromium-type browser, on PATH or where macOS and Windows put it; None if there is none."""
    on_path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    return on_path or next((place for place in BROWSER_PLACES if Path(place).is_file()), None)


def rasterize(picture: Picture) -> bytes:
    """A still picture as PNG bytes, painted by a headless browser."""
    browser = find_browser()
    if browser is None:
        raise RegardError(
            f"a .png needs a browser to paint it, and none of {', '.join(BROWSERS)} is on PATH. "
            "Install one (Debian and Ubuntu: apt install chromium), or save the view as .svg or .html."
        )
    with tempfile.TemporaryDirectory(prefix="regard-png-") as folder:
        source, target = Path(folder, "picture.svg"), Path(folder, "picture.png")
        source.write_text(picture.svg(), encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--no-sandbox",  # containers often forbid it; the drawing is ours and holds no script
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            f"--user-data-dir={Path(folder, 'profile')}",
            f"--force-device-scale-factor={_PNG_SCALE}",
            f"--window-size={picture.width},{picture.height}",
            f"--screenshot={target}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PNG_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RegardError(f"{browser} could not paint the picture ({error}); save it as .svg instead.") from error
        if not target.is_file():
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            raise RegardError(
                f"{browser} ended with code {done.returncode} and no picture ({said[0]}); save it as .svg instead."
            )
        return target.read_bytes()
