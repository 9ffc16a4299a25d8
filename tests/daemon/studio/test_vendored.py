"""What browsers are given beside pages: scripts of others as they were published, and little of our own."""

import hashlib
import json
import re
import tomllib
from pathlib import Path

import pytest
from tests.project.repository import ROOT

from runward.daemon.studio.rendering import static_file

HERE = ROOT / "daemon" / "studio"
VENDORED = tomllib.loads((HERE / "vendored.toml").read_text())
TEMPLATES = sorted((HERE / "templates").rglob("*.html"))
MOST_LINES = 60


def test_scripts_of_others_are_as_they_were_published() -> None:
    declared = {
        name: file["sha256"] for package in VENDORED.values() for name, file in package["files"].items()
    }
    found = {each.name: each.read_bytes() for each in (HERE / "static").glob("*.js")}
    assert declared == {
        name: hashlib.sha256(content).hexdigest() for name, content in found.items() if name != "studio.js"
    }


@pytest.mark.parametrize("name", VENDORED)
def test_what_is_vendored_has_its_licence_and_its_row_among_the_dependencies(name: str) -> None:
    package = VENDORED[name]
    assert "Permission to use, copy, modify" in package["license_text"]
    rows = (ROOT / "docs" / "dependencies.md").read_text()
    assert f"`{package['name']}` {package['version']} ({package['license']})" in rows


def test_our_own_script_is_short() -> None:
    found = static_file("studio.js")
    assert found is not None
    assert len(found[1].decode().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_template_has_a_script_or_a_style_inline_nor_what_needs_eval(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"<style|\sstyle=|\son\w+=|hx-on|hx-vals=.js:|hx-trigger=\"[^\"]*\[", text) == []
    assert [each for each in re.findall(r"<script[^>]*>", text) if " src=" not in each] == []


def test_the_settings_of_htmx_are_real_json_and_keep_what_a_person_opened() -> None:
    frame = (HERE / "templates" / "frame.html").read_text()
    found = re.search(r"<meta name=\"htmx-config\" content='([^']*)'>", frame)
    assert found is not None
    config = json.loads(found[1])
    assert "open" in config["morphIgnore"]
    assert config["extensions"] == "sse"
    assert config["includeIndicatorCSS"] is False


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_update_makes_another_form_of_one(path: Path) -> None:
    """An update matches elements by their ids; a second click must send what the first one sent."""
    text = path.read_text()
    assert [each for each in re.findall(r"<form[^>]*method=\"post\"[^>]*", text) if " id=" not in each] == []
    assert [
        each for each in re.findall(r"<input[^>]*name=\"once\"[^>]*", text) if "hx-morph-skip" not in each
    ] == []
    looped = re.findall(r"{% for (?:(?!{% endfor %}).)*?call form\(([^)]*)\)", text, re.DOTALL)
    assert [each for each in looped if each.count(",") < 2 and "all" not in each] == []
