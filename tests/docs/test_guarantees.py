"""The page of guarantees names tests that exist."""

import ast
import re

from tests.docs.pages import ROOT

_PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_promise_names_a_test_that_exists() -> None:
    rows = [line for line in (ROOT / "docs/guarantees.md").read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "| --"))]
    assert promises
    assert [row for row in promises if not _PROOF.search(row)] == []


def test_every_named_test_is_there() -> None:
    named = _PROOF.findall((ROOT / "docs/guarantees.md").read_text())
    assert named
    assert [f"{path}::{name}" for path, name in named if name not in _functions(path)] == []


def _functions(path: str) -> set[str]:
    file = ROOT / path
    if not file.is_file():
        return set()
    nodes = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
