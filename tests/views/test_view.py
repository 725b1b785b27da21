"""A View becomes a page, a picture or a notebook cell without letting any text become markup."""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import re
import struct
import zlib
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.utils.errors import RegardError, UsageError
from regard.views import view as view_module
from regard.views.picture import Picture, png, readable, visible_text
from regard.views.view import VIEWERS, View, find_browser, json_for_html, link, style_sheet

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!--",
    "-->",
    "]]>",
    "\"' onload='",
    "&lt;",
    "שלום עולם",
    "\u202etxet desrever",
    "🙂‍↔️",
    "\u2028\u2029",
    "\x00\x07\x1b",
    "\ud800",
    "",
    " ",
    "\n",
]


class Document(HTMLParser):
    """Collects the elements of a page with their attributes, and the text of scripts, styles and titles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[-1] += data

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        pairs = zip(self.elements, self.texts, strict=True)
        return [(attributes, text) for (name, attributes), text in pairs if name == tag]


def data_of(document: Document) -> object:
    (block,) = [text for attributes, text in document.all("script") if attributes.get("type") == "application/json"]
    return json.loads(block)


def drawn(title: str = "drawn") -> View:
    picture = Picture(101, 53, title)
    picture.text(3, 7, title)
    return View("tokens", {"title": title, "note": "", "columns": []}, title, lambda data: picture)


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text()), max_size=5), st.text())
def test_no_text_becomes_markup(tokens: list[str], title: str) -> None:
    document = Document(View("tokens", {"tokens": tokens}, title).html())
    assert [name for name, _ in document.elements] == [
        *("html", "head", "meta", "meta", "meta", "meta", "title", "style"),
        *("body", "main", "noscript", "script", "script"),
    ]
    assert data_of(document) == {"title": title, "note": "", "tokens": tokens}


@pytest.mark.parametrize("viewer", VIEWERS)
def test_policy_admits_exactly_the_inlined_script_and_style(viewer: str) -> None:
    document = Document(View(viewer, {}, "t").html())
    policy = next(a["content"] for a, _ in document.all("meta") if a.get("http-equiv") == "Content-Security-Policy")
    (module,) = [text for attributes, text in document.all("script") if attributes.get("type") == "module"]
    ((_, style),) = document.all("style")
    for text in (module, style):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in str(policy)
    assert str(policy).startswith("default-src 'none'")
    assert "unsafe" not in str(policy)


@pytest.mark.parametrize("viewer", VIEWERS)
def test_page_names_no_address_outside_itself(viewer: str) -> None:
    addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"'`]*", View(viewer, {}, "t").html()))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, not a place


def test_modules_build_text_nodes_only() -> None:
    modules = [entry for entry in resources.files("regard.views").iterdir() if entry.name.endswith(".js")]
    assert len(modules) > 5
    for module in modules:
        source = module.read_text(encoding="utf-8")
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert forbidden not in source, f"{module.name} uses {forbidden}"
        assert 'setAttribute("style"' not in source, f"{module.name} sets inline style, which a strict policy blocks"


def test_every_module_and_sheet_belongs_to_a_viewer() -> None:
    files = {entry.name for entry in resources.files("regard.views").iterdir()}
    linked = "\n".join(link(viewer) for viewer in VIEWERS)
    sheets = "\n".join(style_sheet(viewer) for viewer in VIEWERS)
    for name in files:
        if name.endswith(".js"):
            assert f"modules.{name[:-3]} = " in linked
        if name.endswith(".css"):
            assert (resources.files("regard.views") / name).read_text(encoding="utf-8") in sheets


def test_linking_refuses_what_it_cannot_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in [
        'import all from "./dom.js";',
        "export default 3;",
        'export const text = "</script>";',
        'import { again } from "./tokens.js";',  # a circular import
    ]:
        monkeypatch.setattr(view_module, "_source", lambda _, text=source: text)
        with pytest.raises(AssertionError):
            link.__wrapped__("tokens")


def test_linking_keeps_renamed_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "tokens.js": 'import { one, two as deux } from "./dom.js";\nexport function render() { return one + deux; }\n',
        "dom.js": "export const one = 1;\nexport const two = 2;\n",
    }
    monkeypatch.setattr(view_module, "_source", sources.__getitem__)
    script = link.__wrapped__("tokens")
    assert "const { one, two: deux } = modules.dom;" in script
    assert "return { one, two };" in script
    assert script.index("modules.dom =") < script.index("modules.tokens =")


def test_notebook_cell_is_a_sandboxed_frame_of_the_page() -> None:
    view = View("tokens", {"tokens": HOSTILE}, 'a "quoted" <title> & \'')
    document = Document(view._repr_html_())
    ((attributes, _),) = document.all("iframe")
    assert [name for name, _ in document.elements] == ["iframe"]
    assert attributes["sandbox"] == "allow-scripts allow-downloads"
    assert attributes["srcdoc"] == view.html()


def test_repr_is_short() -> None:
    assert repr(View("tokens", {"x": "y" * 1000}, "T")) == "<View tokens: 'T'; save it as .html, .svg or .png>"


def test_an_unknown_viewer_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as error:
        View("atention", {}, "t").html()
    assert (error.value.value, error.value.hint) == ("atention", "attention")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.zeros(2), object()])
def test_data_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(UsageError) as error:
        json_for_html({"x": value})
    assert error.value.argument == "data"


def test_save_writes_each_format(tmp_path: Path) -> None:
    view = drawn("a <b> & c")
    html_path = view.save(tmp_path / "deep" / "view.html")
    assert html_path.read_text(encoding="utf-8") == view.html()
    svg_path = view.save(str(tmp_path / "view.SVG"))
    root = ElementTree.fromstring(svg_path.read_text(encoding="utf-8"))
    assert [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")] == ["a <b> & c"]
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["view.SVG", "view.html"]


def test_saved_file_has_the_usual_permissions(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    assert drawn().save(tmp_path / "v.html").stat().st_mode == usual.stat().st_mode


@pytest.mark.skipif(find_browser() is None, reason="no Chromium-type browser on PATH")
def test_png_is_the_drawing_at_twice_its_size(tmp_path: Path) -> None:
    content = drawn().save(tmp_path / "view.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (202, 106)


def test_png_without_a_browser_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RegardError) as error:
        drawn().save(tmp_path / "view.png")
    assert (error.value.hint, error.value.allowed) == ("apt install chromium", (".svg", ".html"))
    assert list(tmp_path.iterdir()) == []


def test_png_reports_the_exit_code_of_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho no display >&2\nexit 3\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    with pytest.raises(RegardError) as error:
        drawn().save(tmp_path / "view.png")
    assert (error.value.path, error.value.value) == (broken, 3)


@pytest.mark.parametrize("name", ["view.pdf", "view", "view.html.gz"])
def test_an_unknown_format_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as error:
        drawn().save(tmp_path / name)
    assert error.value.allowed == (".html", ".svg", ".png")


def test_view_without_drawing_has_no_picture(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        View("tokens", {}, "t").save(tmp_path / "view.svg")
    assert error.value.allowed == (".html",)


def test_folder_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    with pytest.raises(RegardError) as error:
        drawn().save(tmp_path / "taken" / "view.html")
    assert error.value.path == tmp_path / "taken" / "view.html"


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "view.html"
    path.write_text("old", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RegardError) as error:
        drawn().save(path)
    assert error.value.path == path
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


@given(st.text(alphabet=st.characters(), max_size=20))
def test_any_text_makes_a_well_formed_drawing(text: str) -> None:
    picture = Picture(10, 10, text)
    picture.text(1, 2, visible_text(text))
    root = ElementTree.fromstring(picture.svg().encode("utf-8"))
    assert root.find("{http://www.w3.org/2000/svg}title") is not None


def test_readable_replaces_control_characters_by_symbols() -> None:
    assert readable("a\x00\x1b\x7f\ud800\ufffeé🙂") == "a␀␛␡\ufffd\ufffdé🙂"


@pytest.mark.parametrize(
    ("token", "label"), [("", "∅"), (" ", "␣"), ("  ", "␣␣"), ("a\n", "a⏎"), ("\t", "⇥"), ("x" * 30, "x" * 17 + "…")]
)
def test_labels_make_blanks_visible(token: str, label: str) -> None:
    assert visible_text(token) == label


def test_png_bytes_hold_the_pixels() -> None:
    pixels = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    content = png(pixels)
    chunks, at = {}, 8
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        assert struct.unpack(">I", content[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (7, 5)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(5, 22)
    assert (lines[:, 0] == 0).all()
    assert (lines[:, 1:].reshape(5, 7, 3) == pixels).all()
