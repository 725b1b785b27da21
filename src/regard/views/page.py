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
from functools import cache
from importlib import resources
from typing import Any

from regard.utils.errors import UsageError, unknown

VIEWERS = ("attention", "causal", "inputs", "ranks", "report", "senses", "spans", "steps", "tokens", "transfer")

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([a-z]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
_LEFTOVER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


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
        '</head>\n<body>\n<main id="view"><noscript>This page needs JavaScript, '
        "which is switched off here.</noscript></main>\n"
        f'<script type="application/json" id="data">{json_for_html(data)}</script>\n'
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
            "Convert arrays with .tolist() and replace NaN by None."
        ) from None
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def readable(text: str) -> str:
    """`text` without what UTF-8 and XML cannot carry: lone surrogates, non-characters, control characters."""
    return "".join(_carried(character) for character in text)


def _carried(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # the picture of the control character
    if code == 0x7F:
        return "\u2421"
    if 0x80 <= code < 0xA0 or 0xD800 <= code <= 0xDFFF or code & 0xFFFE == 0xFFFE:
        return "\ufffd"
    return character


@cache
def link(viewer: str) -> str:
    """The viewer's module and everything it imports as one script that renders into #view."""
    scopes = [_scope(name) for name in _order(viewer)]
    start = (
        f'modules.{viewer}.render(document.getElementById("view"), '
        'JSON.parse(document.getElementById("data").textContent));'
    )
    script = "\n".join(["const modules = {};", *scopes, start, ""])
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise AssertionError(f"the modules of the {viewer} viewer hold text that would end their script element")
    return script


@cache
def style_sheet(viewer: str) -> str:
    """The common theme and the sheets that stand beside the viewer's modules."""
    sheets = ["theme", *_order(viewer)]
    return "\n".join(_source(f"{name}.css") for name in sheets if _exists(f"{name}.css"))


def _order(viewer: str) -> list[str]:
    """The modules that `viewer` needs, imported ones first, each once."""
    order: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            raise AssertionError(f"modules import each other in a circle: {' > '.join((*trail, name))}")
        if name in order:
            return
        for _, imported in _IMPORT.findall(_source(f"{name}.js")):
            visit(imported, (*trail, name))
        order.append(name)

    visit(viewer, ())
    return order


def _scope(name: str) -> str:
    """Module `name` as a function scope that returns its exports."""
    source = _source(f"{name}.js")
    exports = _EXPORT.findall(source)
    body = _IMPORT.sub(lambda found: f"const {{{_renamed(found[1])}}} = modules.{found[2]};", source)
    body = _EXPORT.sub("", body)
    leftover = _LEFTOVER.search(body)
    if leftover:
        raise AssertionError(f"{name}.js has an import or export that a page cannot inline: {leftover[0]}")
    return f"modules.{name} = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _renamed(names: str) -> str:
    """`a, b as c` of an import as `a, b: c` of a destructuring."""
    return re.sub(r"\s+as\s+", ": ", names)


def _source(filename: str) -> str:
    return (resources.files("regard.views") / filename).read_text(encoding="utf-8")


def _exists(filename: str) -> bool:
    return (resources.files("regard.views") / filename).is_file()


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
