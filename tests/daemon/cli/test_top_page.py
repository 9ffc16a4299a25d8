"""The page of `runward top` fits any terminal, whatever is in it, and its selection stays on its session."""

import re

import click
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.cli.terminal.output import width
from runward.daemon.cli.terminal.signs import Terminal
from runward.daemon.cli.top.choice import Choice
from runward.daemon.cli.top.looking import Seen
from runward.daemon.cli.top.page import Key, Shown, headline, page
from runward.daemon.cli.top.screen import Waiting
from runward.daemon.cli.top.sheet import Sheet
from runward.daemon.views.answers import Answer, Cause
from runward.daemon.views.rows import Row

_TEXT = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["\x1b[2J\x1b]9;owned\x07", "\u202egnp.exe", "a\nb\r\nc\td", "x" * 10_000, "語" * 300, ""]
    ),
)
_STATES = st.sampled_from(["waiting", "working", "unknown", "completed", "failed"])
_KEYS = (Key("↑↓", "j k", "move", "one row"), Key("q", "q", "", "end"))


def _row(key: str, state: str = "working", text: str = "what") -> Row:
    return Row("session", state, text, key, text, 0.0, 1.0, text, directory=text)


def _terminal(columns: int, rows: int, *, has_utf8: bool = True) -> Terminal:
    return Terminal(columns=columns, rows=rows, has_utf8=has_utf8, home="/home/me", now=100.0)


@given(
    texts=st.lists(st.tuples(_STATES, _TEXT), max_size=40),
    place=st.integers(0, 60),
    columns=st.integers(20, 300),
    rows=st.integers(1, 60),
    has_utf8=st.booleans(),
    line=st.none() | _TEXT,
    trouble=st.none() | _TEXT,
)
def test_any_page_fits_any_terminal(
    texts: list[tuple[str, str]],
    place: int,
    columns: int,
    rows: int,
    has_utf8: bool,
    line: str | None,
    trouble: str | None,
) -> None:
    terminal = _terminal(columns, rows, has_utf8=has_utf8)
    listed = [_row(str(number), state, text) for number, (state, text) in enumerate(texts)]
    choice = Choice(place=place).settled(listed)
    answer = Answer(
        "working", "".join(text for _, text in texts), [Cause(1.0, text) for _, text in texts], [], ""
    )
    shown = Shown(
        Seen(0.0, listed, trouble=trouble), listed, choice, None if line is None else terminal.text(line)
    )
    lines = [
        click.unstyle(each) for each in page(shown, lambda row: answer, lambda text: text, _KEYS, terminal)
    ]
    assert len(lines) == rows
    assert max(map(width, lines)) <= columns
    assert all(each.isprintable() for each in lines)
    assert has_utf8 or all(each.isascii() for each in lines)
    if listed and trouble is None and rows > 3:
        assert sum(each.startswith("> ") for each in lines) >= 1, "the selected row is always shown"


@given(
    causes=st.integers(0, 12), rows=st.integers(14, 40), has_utf8=st.booleans(), columns=st.integers(20, 120)
)
def test_why_that_is_cut_ends_with_a_sign(causes: int, rows: int, has_utf8: bool, columns: int) -> None:
    terminal = _terminal(columns, rows, has_utf8=has_utf8)
    listed = [_row("one")]
    answer = Answer("working", "Sentence.", [Cause(1.0, f"c{number}") for number in range(causes)], [], "")
    shown = Shown(Seen(0.0, listed), listed, Choice(), None)
    lines = page(shown, lambda row: answer, lambda text: text, _KEYS, terminal)
    told = [each for each in map(click.unstyle, lines[4:-2]) if each]
    is_whole = len(told) == 1 + causes
    assert told[-1].endswith(terminal.ellipsis) != is_whole, lines


@given(
    waiting=st.integers(0, 40), others=st.integers(0, 40), place=st.integers(0, 80), rows=st.integers(16, 60)
)
def test_what_waits_stays_in_sight_however_far_down_the_selection_is(
    waiting: int, others: int, place: int, rows: int
) -> None:
    listed = [_row(name, "waiting", name) for name in (f"w{number}" for number in range(waiting))]
    listed += [_row(name, "completed", name) for name in (f"o{number}" for number in range(others))]
    choice = Choice(place=place).settled(listed)
    terminal = _terminal(100, rows)
    lines = page(Shown(Seen(0.0, listed), listed, choice, None), lambda row: None, str, _KEYS, terminal)
    shown = [line.split()[-3] for line in map(click.unstyle, lines) if re.search(r" [wo]\d+$", line)]
    assert shown == list(dict.fromkeys(shown)), "none twice"
    assert not listed or choice.key in shown
    assert [f"w{number}" for number in range(min(waiting, 3))] == shown[: min(waiting, 3)]


def test_the_cost_of_today_is_at_the_right_and_gives_way() -> None:
    seen = Seen(0.0, [_row("one")], is_up=True, since=40.0, used_today="~$0.0053 today at list prices")
    (line,) = [click.unstyle(headline(seen, _terminal(80, 24)))]
    assert line.startswith("Runward  up 1m   1 working ")
    assert line.endswith(" ~$0.0053 today at list prices")
    assert width(line) == 80
    assert click.unstyle(headline(seen, _terminal(30, 24))) == "Runward  up 1m   1 working"


@given(
    before=st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1),
    after=st.lists(st.sampled_from("abcdefgh"), unique=True),
    by=st.integers(-10, 10),
)
def test_the_selection_stays_on_its_session(before: list[str], after: list[str], by: int) -> None:
    chosen = Choice().moved([_row(key) for key in before], by)
    assert chosen.key in before
    settled = chosen.settled([_row(key) for key in after])
    if chosen.key in after:
        assert settled.key == chosen.key
    else:
        assert settled.key == (after[min(chosen.place, len(after) - 1)] if after else None)


def test_each_wait_is_told_once() -> None:
    waiting = Waiting()
    one, two = _row("one", "waiting"), _row("two", "waiting")
    assert waiting.began([one]) == [], "it is on the screen from the beginning"
    assert waiting.began([one, _row("two")]) == []
    assert waiting.began([one, two]) == [two]
    assert waiting.began([one, two]) == []
    assert waiting.began([_row("one"), two]) == []
    assert waiting.began([one, two]) == [one], "it worked in between"
    another = one._replace(approval="ap_2")
    assert waiting.began([another, two]) == [another]


@given(
    count=st.integers(1, 80),
    rows=st.integers(3, 40),
    keys=st.lists(st.sampled_from(["j", "k", " ", "page up"])),
)
def test_a_question_counts_as_read_when_its_last_line_was_shown(
    count: int, rows: int, keys: list[str]
) -> None:
    terminal = _terminal(80, rows)
    sheet: Sheet | None = Sheet(lambda _: [f"line {number}" for number in range(count)], "Really?").placed(
        terminal
    )
    seen: set[str] = set()
    for key in [*keys, None]:
        assert sheet is not None
        lines = sheet.page(terminal)
        assert len(lines) == rows
        seen |= set(lines)
        assert sheet.was_read == (f"line {count - 1}" in seen)
        if key is not None:
            sheet = sheet.scrolled(key, terminal)
