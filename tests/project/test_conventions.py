"""Habits of the house that a machine can watch."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.project.repository import PACKAGES, ROOT, parsed, sources, texts

VAGUE = frozenset(
    {"utils", "util", "helpers", "helper", "common", "manager", "managers", "misc", "base", "core"}
)
UPWARDS = re.compile(r"(?<![\w./])(?:\.\./)+[\w.-]+(?:/[\w.-]+)*")
MAY_IMPORT = re.compile(rf"^\s*(?:from|import)\s.*(?<![\w.])(?:{'|'.join(PACKAGES)})\b", re.MULTILINE)
BEGINS = re.compile(r'(?:#[^\n]*\n|\s)*"""\S')
"""How a module with a docstring begins: to parse it whole would take a hundred times as long."""
PROSE = frozenset({".md", ".toml", ".cfg", ".ini", ".yaml", ".yml", ".sh", ".service", ".sql", ""})


def test_no_file_and_no_directory_has_a_vague_name() -> None:
    tree = [
        path
        for package in (*PACKAGES, "tests")
        for path in (ROOT / package).rglob("*")
        if "__pycache__" not in path.parts
    ]
    assert [str(path) for path in tree if path.stem.lower() in VAGUE] == []
    words = {word for path in tree for word in path.stem.lower().split("_")}
    assert words & {"utils", "helpers", "helper", "manager"} == set()


def readable() -> Iterator[tuple[Path, str]]:
    for path in texts():
        try:
            yield path, path.read_text()
        except UnicodeDecodeError:
            continue


def leading_out(path: Path, text: str) -> list[str]:
    """The relative paths in a text that lead out of the checkout, from where the text lies or from the top."""
    return [
        found
        for found in UPWARDS.findall(text)
        if not any((start / found).resolve().is_relative_to(ROOT) for start in (path.parent, ROOT))
    ]


def test_no_text_names_the_place_where_this_checkout_lies() -> None:
    place = re.compile(rf"(?<![\w.~/-]){re.escape(str(ROOT))}(?![\w-])")
    assert [str(path) for path, text in readable() if place.search(text)] == []


def test_no_prose_leads_to_what_lies_beside_the_checkout() -> None:
    """A clone has nothing beside it."""
    found = {}
    for path, text in readable():
        if "../" not in text:
            continue  # before a tokenizer reads it
        if path.suffix == ".py":
            text = "\n".join(prose_in(path, text))
        elif path.suffix not in PROSE:
            continue
        if out := leading_out(path, text):
            found[str(path.relative_to(ROOT))] = out
    assert found == {}


def prose_in(path: Path, text: str) -> Iterator[str]:
    """The comments and docstrings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


@pytest.mark.parametrize("planted", ["see ../elsewhere/DESIGN.md", "`../x`", "(../../y/z.md)"])
def test_a_planted_way_out_is_caught(planted: str) -> None:
    assert leading_out(ROOT / "README.md", planted)


@pytest.mark.parametrize(
    "innocent", ["[tests](../tests/project)", "../docs/architecture.md", "no `..` and no ../", "a/../b"]
)
def test_an_innocent_path_is_let_through(innocent: str) -> None:
    assert leading_out(ROOT / "docs" / "page.md", innocent) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_is_for(package: str) -> None:
    silent = [str(path.relative_to(ROOT)) for path in sources(package) if not BEGINS.match(path.read_text())]
    assert silent == []


def test_packages_are_imported_by_their_one_name() -> None:
    """From the repository's root `import config` would work by accident, and be another module."""
    wrong = []
    for path in [*sources(), *sources("tests")]:
        if not MAY_IMPORT.search(path.read_text()):
            continue  # before a parser reads it
        for node in ast.walk(parsed(path)):
            modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                modules = [node.module or ""]
            wrong += [f"{path}: {module}" for module in modules if module.partition(".")[0] in PACKAGES]
    assert wrong == []
