"""The registry: scanners of any kind of state, behind one face."""

from itertools import count

import pytest
from tests.handlers.layouts.tiny import layouts

from runward.config.root import FOREIGN_LAYOUTS
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import LogLine


def _lines(*contents: bytes) -> list[LogLine]:
    return list(map(LogLine, count(1), contents))


def test_a_scan_is_a_value_that_can_be_stored_and_taken_up_again() -> None:
    (layout,) = layouts().logs
    fresh = layout.start("a.jsonl")
    open_scan, _ = fresh.feed("a.jsonl", _lines(b'{"begin": true}'))
    closed, _ = layout.load(open_scan.dump()).feed("a.jsonl", _lines(b'{"end": "ok"}'))
    assert (fresh.tell().turn, open_scan.tell().turn, closed.tell().turn) == ("none", "open", "closed")
    with pytest.raises(ValueError, match=r".+"):
        layout.load("no state")


def test_one_layout_can_be_taken_alone() -> None:
    both = layouts()
    assert both.names() == ("claude-code", "ctcp")
    assert both.only("ctcp").names() == ("ctcp",)
    assert both.only("native").names() == ()


def test_the_layouts_that_are_read_are_among_those_that_rules_may_name() -> None:
    assert set(LAYOUTS.names()) <= set(FOREIGN_LAYOUTS)
    assert len(set(LAYOUTS.names())) == len(LAYOUTS.names())
