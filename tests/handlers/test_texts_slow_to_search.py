"""Texts that runs wrote to be slow to search: Python's expressions hold up the whole daemon while they search."""

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import pytest

from runward.handlers.bundle.canonical import NotCanonical, parse
from runward.handlers.bundle.summary import names_session
from runward.handlers.bundle.verification_runs import CountedTests, counted_tests, is_verification
from runward.handlers.ctcp.diff_sections import read_diff
from runward.handlers.ctcp.documents import key_lines
from runward.handlers.outcomes.reading import outcome_in

MOST_SECONDS = 0.5

SLOW: dict[str, Callable[[], object]] = {
    "vitest, split in each way": lambda: counted_tests("Tests  1 " + "111 " * 40 + "x"),
    "jest, split in each way": lambda: counted_tests("Tests: 1 " + "1a1, " * 10_000),
    "empty lines": lambda: counted_tests("\n" * 65_536),
    "blank lines": lambda: counted_tests(" \n" * 32_768),
    "blanks": lambda: counted_tests(" " * 65_536),
    "tags that never close": lambda: counted_tests("<testsuite " * 6000),
    "counts of pytest": lambda: counted_tests("1 passed" * 8000),
    "a summary of empty lines": lambda: names_session("\n" * 1_000_000, "x"),
    "a summary of blanks": lambda: names_session("- ID: a" + " " * 200_000 + "b", "x"),
    "blocks that never close": lambda: outcome_in("```json\n" * 130_000, "x"),
    "a key of blanks": lambda: key_lines(b"a" + b" " * 1_000_000),
    "bullets of blanks": lambda: key_lines(b"- " + b" " * 1_000_000 + b"\r"),
    "binary files": lambda: list(read_diff(b"diff --git a/x b/x\nBinary files " + b" and " * 200_000 + b"\n")),
    "paths": lambda: list(read_diff(b"diff --git a/x" + b" b/" * 300_000 + b"\n")),
    "strings that never close": lambda: parse('"\\' + '"\\' * 500_000),
    "variables before a command": lambda: is_verification("A=1 " * 250_000, ("pytest*", "*a*b*c*d*")),
}  # fmt: skip


def too_slow(number: int, frame: FrameType | None) -> NoReturn:
    pytest.fail("it takes seconds")


@pytest.mark.parametrize("name", SLOW)
def test_a_text_that_is_made_to_be_slow_to_search_is_not(name: str) -> None:
    before = signal.signal(signal.SIGALRM, too_slow)
    signal.alarm(20)
    try:
        began = time.thread_time()
        with suppress(NotCanonical):
            SLOW[name]()
        assert time.thread_time() - began < MOST_SECONDS
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "output",
    [
        "=== {} passed in 1s",
        "Ran {} tests in 1s\n\nOK",
        "test result: ok. {} passed; 0 failed;",
        "Tests: {} total",
        "Tests  1 passed ({})",
    ],
)
def test_a_count_of_thousands_of_digits_is_not_a_count(output: str) -> None:
    found = counted_tests(output.format("9" * 5000))
    assert found is None or isinstance(found, CountedTests)
    assert found is None or found.passed < 10**9


@pytest.mark.parametrize(
    ("line", "is_binary"),
    [
        ("Binary files a/x and b/x differ", True),
        ("Binary files a and b and c differ", True),
        ("Binary files  and b differ", False),
        ("Binary files a and  differ", False),
        ("Binary files a or b differ", False),
    ],
)
def test_a_line_about_binary_files_names_two(line: str, is_binary: bool) -> None:
    (found,) = read_diff(f"diff --git a/x b/x\n{line}\n".encode())
    assert getattr(found, "is_binary", False) is is_binary
