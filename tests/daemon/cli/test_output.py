"""What commands print with: safe for terminals, aligned, and in units that people read."""

import json
import os
import re

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.cli.terminal import output
from runward.daemon.views.text import ago, duration, json_text, size
from runward.handlers.times import iso, moment_of

NOW = 1_800_000_000.0


@given(st.text())
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    assert output.safe(text).isprintable()


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert output.safe(text) == text


@given(st.text(), st.text())
def test_json_is_the_same_value_and_has_nothing_that_a_terminal_obeys(key: str, text: str) -> None:
    for said in (json_text({key: [text]}), json_text({key: [text]}, indent=2)):
        assert json.loads(said) == {key: [text]}
        assert said.replace("\n", "").isprintable()


def test_json_is_for_people_too_and_keeps_their_letters() -> None:
    assert json_text(["é 日本 😀", "\x9b31m\u202e\x7f"]) == r'["é 日本 😀", "\u009b31m\u202e\u007f"]'


def test_json_of_a_path_that_is_no_utf_8_is_read_by_whoever_reads_strictly_and_the_bytes_are_known() -> None:
    path = os.fsdecode(b"/a/caf\xe9\x80.jsonl")
    said = json_text({"path": path, "other": "\ud800"})
    assert said == r'{"path": "/a/caf\u0000e9\u000080.jsonl", "other": "\ufffd"}'
    read = json.loads(said)
    read["path"].encode()
    back = re.sub("\0(..)", lambda byte: os.fsdecode(bytes.fromhex(byte[1])), read["path"])
    assert back == path


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"),
        (4.24, "4.2s"),
        (60, "1m 00s"),
        (200.4, "3m 20s"),
        (3720, "1h 02m"),
        (47 * 3600, "47h 00m"),
        (51 * 3600, "2d 03h"),
        (365 * 86_400, "365d"),
    ],
)
def test_durations_are_short(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (None, "-"),
        (NOW, "now"),
        (NOW - 59, "59s ago"),
        (NOW - 3599, "59m ago"),
        (NOW - 86400 * 3, "3d ago"),
        (NOW + 7200, "in 2h"),
    ],
)
def test_moments_are_told_relative_to_now(at: float | None, shown: str) -> None:
    assert ago(at, NOW) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (1023, "1023 B"), (1229, "1.2 KB"), (5 << 20, "5.0 MB"), (3 << 50, "3072.0 TB")],
)
def test_sizes_are_told_as_in_the_specification(count: int, shown: str) -> None:
    assert size(count) == shown


def test_times_for_programs_are_utc_with_z() -> None:
    assert iso(1767323045.1239) == "2026-01-02T03:04:05.123Z"
    assert iso(None) is None
    assert moment_of("2026-01-02T03:04:05.123Z") == 1767323045.123


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    rows = [("a", "x"), (click.style("bb", fg="red"), "x"), ("漢字", "x"), ("e\u0301", "x")]
    lines = [click.unstyle(line) for line in output.align(rows)]
    assert lines == ["a     x", "bb    x", "漢字  x", "e\u0301     x"]


@pytest.mark.parametrize(
    ("choice", "environment", "wanted"),
    [
        ("auto", {}, None),
        ("auto", {"NO_COLOR": "1"}, False),
        ("auto", {"NO_COLOR": ""}, None),
        ("auto", {"TERM": "dumb"}, False),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {}, False),
    ],
)
def test_who_decides_about_colour(
    monkeypatch: pytest.MonkeyPatch, choice: str, environment: dict[str, str], wanted: bool | None
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.wants_colour(choice) is wanted
