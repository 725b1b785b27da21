"""Builds one offline page from a viewer's modules, its style sheets and its data.

The viewers are ES modules in files. A page that is opened from a mail attachment cannot import files, so the modules
are linked into one inline script: each becomes a function scope, its imports become constants and its exports a
returned object. Only the forms of import and export that these modules use are supported; anything else raises.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from functools import cache
from importlib import resources
from typing import Any

import numpy.typing as npt

from regard.utils.errors import UsageError, unknown

VIEWERS = ("attention", "causal", "inputs", "ranks", "report", "senses", "spans", "steps", "tokens", "transfer")

_FILES = resources.files("regard.views")
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_UNSUPPORTED = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def page(viewer: str, data: dict[str, Any], title: str) -> str:
    """The whole document: nothing in it needs, or is allowed to use, the network."""
    if viewer not in VIEWERS:
        raise unknown("viewer", viewer, VIEWERS)
    script, style = link(viewer), style_sheet(viewer)
    # The policy names the only script and the only style that may run: even markup that slipped past the
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
    """JSON that can stand inside a <script> element: pure ASCII, without <, > and &."""
    try:
        text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the data of a view must be finite numbers, strings, lists and dictionaries: {error}. "
            "Convert arrays with .tolist() and replace NaN by None.",
            argument="data",
        ) from None
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def pack_integers(integers: npt.NDArray[Any]) -> str:
    """Little-endian integers as base64 text of their zlib-compressed bytes; `packing.js` unpacks them."""
    level = 6 if integers.nbytes < 1_000_000 else 3  # for large arrays, speed matters more than a few percent of size
    return base64.b64encode(zlib.compress(integers.tobytes(), level)).decode("ascii")


def readable(text: str) -> str:
    """`text` without characters that UTF-8 or XML cannot represent: lone surrogates, non-characters, controls."""

    def visible(character: str) -> str:
        code = ord(character)
        if code < 0x20:
            return chr(0x2400 + code)  # the symbol for the control character
        if code == 0x7F:
            return "\u2421"
        is_invalid = 0x80 <= code < 0xA0 or 0xD800 <= code <= 0xDFFF or code & 0xFFFE == 0xFFFE
        return "\ufffd" if is_invalid else character

    return "".join(map(visible, text))


@cache
def link(viewer: str) -> str:
    """The viewer's module and everything it imports as one script that renders into #view."""
    start = (
        f'modules.{viewer}.render(document.getElementById("view"), '
        'JSON.parse(document.getElementById("data").textContent));'
    )
    script = "\n".join(["const modules = {};", *map(_scope, _modules(viewer)), start, ""])
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise AssertionError(f"the modules of the {viewer} viewer hold text that would end their script element")
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
