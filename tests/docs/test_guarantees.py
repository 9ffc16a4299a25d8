"""The page of guarantees names tests that exist, and says which of them CI leaves out."""

import ast
import re
from functools import cache

from tests.docs.pages import ROOT

_PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`( \(sweep\))?")


def test_every_promise_names_a_test_that_exists() -> None:
    rows = [line for line in (ROOT / "docs/guarantees.md").read_text().splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "| --"))]
    assert promises
    assert [row for row in promises if all(is_sweep for *_, is_sweep in _PROOF.findall(row))] == []


def test_every_named_test_is_there() -> None:
    named = _PROOF.findall((ROOT / "docs/guarantees.md").read_text())
    assert named
    assert [f"{path}::{name}" for path, name, _ in named if name not in _functions(path)] == []


def test_the_tests_that_only_a_sweep_runs_are_marked_as_such() -> None:
    named = _PROOF.findall((ROOT / "docs/guarantees.md").read_text())
    assert {(path, name) for path, name, is_sweep in named if is_sweep} == {
        (path, name) for path, name, _ in named if "sweep" in _functions(path)[name]
    }


@cache
def _functions(path: str) -> dict[str, set[str]]:
    """The functions of a file, and the marks of each."""
    file = ROOT / path
    if not file.is_file():
        return {}
    return {
        node.name: {each.attr for each in node.decorator_list if isinstance(each, ast.Attribute)}
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
