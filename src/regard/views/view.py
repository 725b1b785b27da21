"""A View: data plus the name of the viewer module that shows it.

A view is a value. It becomes a page, a picture or a notebook cell on demand.

The viewers are ES modules in files. A page that is opened from a mail attachment cannot import files, so the modules
are linked into one inline script: each becomes a function scope, its imports become constants and its exports a
returned object. Only the forms of import and export that these modules use are supported; other forms raise an error.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy.typing as npt

from regard.utils.atomic_files import write_file
from regard.utils.errors import RegardError, UsageError, unknown
from regard.views.picture import Picture, readable

VIEWERS = ("attention", "causal", "inputs", "ranks", "report", "senses", "spans", "steps", "tokens", "transfer")
FORMATS = (".html", ".svg", ".png")
DATA_FORMATS = (".csv", ".json", ".npy")  # for views that can export their numbers
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
BROWSER_PATHS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
# Containers often forbid the browser's sandbox. The drawing comes from regard and contains no script.
_BROWSER_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --no-first-run --hide-scrollbars"
)
_PNG_SCALE = 2  # pixels of the file per pixel of the drawing: sharp on dense screens and in print
_PNG_TIMEOUT = 60  # seconds
_HEIGHTS = {"attention": 940, "ranks": 760, "report": 900, "senses": 900, "spans": 620, "steps": 900, "tokens": 420}

_FILES = resources.files("regard.views")
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_UNSUPPORTED = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class View:
    """A visualization: `save` it, or display it in a notebook."""

    viewer: str  # the module that renders it: one of VIEWERS
    data: dict[str, Any] = field(repr=False)  # input of the module: JSON values only
    title: str  # on every page, like the note
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
        """Write .html (the whole view), .svg or .png (its first state), or one of its exports; create its folder."""
        target = Path(path)
        suffix = check_format(target, also=self.exports)
        if suffix in self.exports:
            self.exports[suffix](target)
        elif suffix == ".html":
            write_file(target, self.html(), parents=True)
        else:
            write_file(target, self.svg() if suffix == ".svg" else rasterize(self._picture()), parents=True)
        return target

    def _picture(self) -> Picture:
        if self.draw is None:
            message = f"this {self.viewer} view has no still picture. Save it as .html."
            raise UsageError(message, argument="path", allowed=[".html"])
        return self.draw(self.data)

    def _repr_html_(self) -> str:
        # Without allow-same-origin the frame has a separate origin: it can run scripts and offer downloads, but it
        # cannot access the notebook's page or its cookies.
        height = _HEIGHTS.get(self.viewer, 700)
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="{html.escape(readable(self.title))}" '
            f'style="width:100%;height:{height}px;border:0;resize:vertical" '
            f'srcdoc="{html.escape(self.html())}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<View {self.viewer}: {self.title!r}; save it as .html, .svg or .png>"


def check_format(path: Path, *, also: Iterable[str] = ()) -> str:
    """Return the suffix of `path`; raise an error if it is not one of FORMATS and `also`."""
    suffix, allowed = path.suffix.lower(), (*FORMATS, *also)
    if suffix not in allowed:
        message = f"cannot save a view as {path.name!r}: the name must end in {', '.join(allowed)}."
        raise UsageError(message, argument="path", value=suffix, allowed=allowed, path=path)
    return suffix


# --- Pages --------------------------------------------------------------------------------------------------


def page(viewer: str, data: dict[str, Any], title: str) -> str:
    """Return the HTML document, which neither needs nor may use the network."""
    if viewer not in VIEWERS:
        raise unknown("viewer", viewer, VIEWERS)
    script, style = link(viewer), style_sheet(viewer)
    # The policy allows only this script and this style: even markup that slipped past the
    # escaping could neither run nor send requests.
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(readable(title))}</title>\n"
        f"<style>{style}</style>\n"
        '</head>\n<body>\n<main id="view"><noscript>This page needs JavaScript. Enable it in the browser.</noscript>'
        f'</main>\n<script type="application/json" id="data">{json_for_html(data)}</script>\n'
        f'<script type="module">{script}</script>\n'
        "</body>\n</html>\n"
    )


def json_for_html(data: Any) -> str:
    """JSON for the content of a <script> element: pure ASCII, without <, > and &."""
    try:
        text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the data of a view must be finite numbers, strings, lists and dictionaries: {error}. "
            "Convert arrays with .tolist() and replace NaN with None.",
            argument="data",
        ) from None
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def pack_integers(integers: npt.NDArray[Any]) -> str:
    """Little-endian integers as base64 text of their zlib-compressed bytes; `packing.js` unpacks them."""
    level = 6 if integers.nbytes < 1_000_000 else 3  # for large arrays, speed matters more than a few percent of size
    return base64.b64encode(zlib.compress(integers.tobytes(), level)).decode("ascii")


@cache
def link(viewer: str) -> str:
    """The viewer's module and everything it imports as one script that renders into #view."""
    start = (
        f'modules.{viewer}.render(document.getElementById("view"), '
        'JSON.parse(document.getElementById("data").textContent));'
    )
    script = "\n".join(["const modules = {};", *map(_scope, _modules(viewer)), start, ""])
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise AssertionError(f"the modules of the {viewer} viewer contain text that would end their script element")
    return script


@cache
def style_sheet(viewer: str) -> str:
    """The theme and the style sheets of the viewer's modules."""
    sheets = [f"{name}.css" for name in ("theme", *_modules(viewer))]
    return "\n".join(_source(sheet) for sheet in sheets if (_FILES / sheet).is_file())


def _modules(viewer: str) -> list[str]:
    """The modules that `viewer` needs, each once, after those it imports."""
    modules: list[str] = []

    def visit(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise AssertionError(f"circular import between modules: {' > '.join((*importers, name))}")
        if name not in modules:
            for _, imported in _IMPORT.findall(_source(f"{name}.js")):
                visit(imported, (*importers, name))
            modules.append(name)

    visit(viewer, ())
    return modules


def _scope(name: str) -> str:
    """Module `name` as a function scope that returns its exports."""

    def constants(imports: re.Match[str]) -> str:
        names = re.sub(r"\s+as\s+", ": ", imports[1])  # `b as c` of an import is `b: c` of a destructuring
        return f"const {{{names}}} = modules.{imports[2]};"

    source = _source(f"{name}.js")
    body = _EXPORT.sub("", _IMPORT.sub(constants, source))
    if unsupported := _UNSUPPORTED.search(body):
        raise AssertionError(f"{name}.js has an import or export that a page cannot inline: {unsupported[0]}")
    return f"modules.{name} = (() => {{\n{body}\nreturn {{ {', '.join(_EXPORT.findall(source))} }};\n}})();"


def _source(filename: str) -> str:
    return (_FILES / filename).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


# --- PNG files ----------------------------------------------------------------------------------------------


def find_browser() -> str | None:
    """Return the path of Chromium, Chrome or Edge, or None if none is installed."""
    on_path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    return on_path or next((path for path in BROWSER_PATHS if Path(path).is_file()), None)


def rasterize(picture: Picture) -> bytes:
    """A still picture as PNG bytes, painted by a headless browser."""
    browser = find_browser()
    if browser is None:
        message = (
            f"writing a .png needs a browser, and none of {', '.join(BROWSERS)} is on PATH. "
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
