"""Tables and texts fit any terminal, whatever is in them."""

import os
import shlex
import subprocess

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.cli.terminal.output import align, safe, width, with_tildes
from runward.daemon.cli.terminal.signs import Terminal, shows_utf8
from runward.daemon.cli.terminal.tables import Column, cut_to, flowed, flowed_rows, folded, table_lines
from runward.daemon.views.text import age, short_id

_HOSTILE = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "\x1b[2J\x1b]0;owned\x07",
            "\u202egnp.exe",
            "a\nb\r\nc\td",
            "x" * 10_000,
            "語" * 500,
            "e\u0301" * 80,
            "::error::no",
            "/one/long/path" * 40,
            "",
        ]
    ),
)
_ROOM = st.integers(min_value=20, max_value=300)
_ELLIPSIS = st.sampled_from(["…", "..."])


def _terminal(*, has_utf8: bool = True) -> Terminal:
    return Terminal(columns=80, rows=24, has_utf8=has_utf8, home="/home/me", now=0.0)


@given(
    rows=st.integers(1, 6).flatmap(
        lambda count: st.lists(st.lists(_HOSTILE, min_size=count, max_size=count), min_size=1, max_size=5)
    ),
    orders=st.lists(st.integers(0, 3), min_size=6, max_size=6),
    room=_ROOM,
    ellipsis=_ELLIPSIS,
    has_utf8=st.booleans(),
)
def test_any_table_of_any_text_fits_any_width(
    rows: list[list[str]], orders: list[int], room: int, ellipsis: str, has_utf8: bool
) -> None:
    terminal = _terminal(has_utf8=has_utf8)
    cells = [[click.style(terminal.text(cell), fg="red") for cell in row] for row in rows]
    columns = [
        Column(f"HEAD{number}", [row[number] for row in cells], orders[number])
        for number in range(len(rows[0]))
    ]
    lines = table_lines(columns, room, ellipsis)
    assert len(lines) == len(rows) + 1, "it never wraps"
    assert max(map(width, lines)) <= room
    plain = [click.unstyle(line) for line in lines]
    assert all(line.isprintable() for line in plain)
    assert has_utf8 or ellipsis == "…" or all(line.isascii() for line in plain)


@given(text=_HOSTILE, room=_ROOM)
def test_any_text_is_broken_into_lines_that_fit_and_loses_nothing(text: str, room: int) -> None:
    shown = safe(text)
    lines = list(flowed(shown, "Next:  ", "       ", room))
    assert max(map(width, lines)) <= room
    assert "".join(line[7:] for line in lines).replace(" ", "") == shown.replace(" ", "")


@given(
    words=st.lists(_HOSTILE | st.sampled_from([" ", "  ", "Status:", "\t"]), min_size=1, max_size=6),
    room=_ROOM,
)
def test_any_line_is_folded_into_lines_that_fit_and_loses_nothing(words: list[str], room: int) -> None:
    line = "".join(each if each == "\t" else click.style(safe(each), fg="red") for each in words)
    lines = [click.unstyle(each) for each in folded(line, room)]
    assert max(map(width, lines)) <= room
    assert all(each.isprintable() for each in lines)
    assert "".join("".join(lines).split()) == "".join(click.unstyle(line).split())


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (
            "Status:  failed (run.failed.timed_out), late",
            ["Status:  failed", "         (run.failed.timed_out),", "         late"],
        ),
        ("  a file: what is wrong with it is this", ["  a file: what is wrong with it", "  is this"]),
        ("no column: it begins at the left again", ["no column: it begins at the left", "again"]),
        (f"a column {'far away':>26} is none", [f"a column {'far':>21}", "away is none"]),
    ],
)
def test_a_folded_line_goes_on_below_its_last_column(line: str, lines: list[str]) -> None:
    assert list(folded(line, 32)) == lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/me", "~"),
        ("see /home/me/a.toml:3:1: wrong (/home/me/b)", "see ~/a.toml:3:1: wrong (~/b)"),
        ("/home/me/a\n/home/me/b, not /home/merle/c", "~/a\n~/b, not /home/merle/c"),
        ("x/home/me/y file:///home/me --at=/home/me", "x/home/me/y file:///home/me --at=/home/me"),
        ("`runward show '/home/me/a b'`", "`runward show '/home/me/a b'`"),
        ("sh -c 'cd /home/me/x' /home/me/y", "sh -c 'cd /home/me/x' ~/y"),
        ("it doesn't find /home/me/x; isn't it odd?", "it doesn't find ~/x; isn't it odd?"),
        ("`STATE=/home/me/s runward status`", "`STATE=~/s runward status`"),
        ("sudo STATE=/home/me/s runward", "sudo STATE=/home/me/s runward"),
    ],
)
def test_a_path_at_home_is_short_wherever_a_shell_takes_it_so(text: str, shown: str) -> None:
    assert with_tildes(text, "/home/me") == shown
    assert with_tildes(text, "") == text


@pytest.mark.parametrize("name", ["a", "a b", "it's", '"', "a;b", "$HOME", "*"])
def test_what_is_copied_from_a_screen_names_the_same_file(name: str) -> None:
    path = f"/home/me/{name}"
    shown = with_tildes(f"printf %s {shlex.quote(path)} | cat", "/home/me")
    said = subprocess.run(
        ["sh", "-c", shown], check=True, env={"HOME": "/home/me", "PATH": os.defpath}, stdout=-1
    )
    assert said.stdout.decode() == path


@given(text=_HOSTILE, room=st.integers(3, 300), ellipsis=_ELLIPSIS)
def test_a_cut_text_fits_and_says_that_it_is_cut(text: str, room: int, ellipsis: str) -> None:
    shown = safe(text)
    cut = cut_to(shown, room, ellipsis)
    assert width(cut) <= room
    assert cut == shown or cut.endswith(ellipsis)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a word that is short", ["> a word that is", "  short"]),
        ("see /home/me/work/app/one.md", ["> see", "  /home/me/work/", "  app/one.md"]),
        ("no" * 12, ["> nononononononono", "  nononono"]),
        ("", ["> "]),
    ],
)
def test_text_is_broken_between_words_and_a_path_at_a_slash(text: str, lines: list[str]) -> None:
    assert list(flowed(text, "> ", "  ", 18)) == lines


def test_columns_go_by_their_order_before_the_last_one_is_cut_short() -> None:
    columns = [
        Column("STATE", ["failed"]),
        Column("AGE", ["11m"], 2),
        Column("TOOK", ["4.2s"], 3),
        Column("WHAT", ["a reason that is rather long"]),
    ]
    assert [table_lines(columns, room, "…")[1] for room in (60, 30, 26, 20)] == [
        "failed  11m  4.2s  a reason that is rather long",
        "failed  11m  a reason that is…"[:30],
        "failed  11m  a reason tha…",
        "failed  a reason th…",
    ]
    assert table_lines(columns, 20, "…", is_wide=True)[1] == "failed  11m  4.2s  a reason that is rather long"


@pytest.mark.parametrize(
    ("variables", "encoding", "shows"),
    [
        ({"LANG": "en_GB.UTF-8", "TERM": "xterm"}, "utf-8", True),
        ({"LANG": "C", "TERM": "xterm"}, "utf-8", False),
        ({"TERM": "xterm"}, "utf-8", False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8", "TERM": "xterm"}, "utf-8", False),
        ({"LANG": "C.UTF-8", "LC_CTYPE": "C.UTF-8", "TERM": "xterm"}, "utf-8", True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C", "TERM": "xterm"}, "utf-8", True),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8", "TERM": "xterm"}, "utf-8", False),
        ({"LANG": "en_GB.UTF-8", "TERM": "dumb"}, "utf-8", False),
        ({"LANG": "en_GB.UTF-8", "TERM": "linux"}, "utf-8", False),
        ({"LANG": "en_GB", "TERM": "xterm"}, "iso8859-1", False),
    ],
)
def test_signs_are_those_that_the_terminal_shows(
    variables: dict[str, str], encoding: str, shows: bool
) -> None:
    assert shows_utf8(variables, encoding) is shows


def test_signs_ids_and_paths() -> None:
    pretty, plain = _terminal(), _terminal(has_utf8=False)
    states = ("working", "idle", "waiting", "unknown", "completed", "failed", "cancelled", "pending")
    assert click.unstyle("".join(map(pretty.sign, states))) == "●○!?✓✗–·"  # noqa: RUF001  # it is meant
    assert click.unstyle("".join(map(plain.sign, states))) == "*o!?+x-."
    assert pretty.id("0190a000-1111-4222-8333-4444000000aa") == "…000000aa"
    assert plain.id("0190a000-1111-4222-8333-4444000000aa") == "...000000aa"
    assert pretty.id("silent-reviewer") == "silent-reviewer"
    assert [pretty.path(each) for each in ("/home/me/app", "/home/me", "/home/merle")] == [
        "~/app",
        "~",
        "/home/merle",
    ]
    assert plain.text("caf\u00e9 \u202e") == "caf\\xe9 \\u202e"
    assert short_id("0190a000-1111-4222-8333-4444000000a") == "0190a000-1111-4222-8333-4444000000a"
    assert [age(0.0, at) for at in (10.4, 11 * 60.0, 3 * 3600.0, 2.5 * 86400, -5.0)] == [
        "10s",
        "11m",
        "3h",
        "2d",
        "0s",
    ]


@given(
    rows=st.integers(2, 4).flatmap(
        lambda count: st.lists(st.lists(_HOSTILE, min_size=count, max_size=count), min_size=1, max_size=5)
    ),
    room=_ROOM,
)
def test_rows_whose_last_column_is_broken_fit_any_width_and_lose_nothing(
    rows: list[list[str]], room: int
) -> None:
    terminal = _terminal()
    cells = [[terminal.text(cell) for cell in row] for row in rows]
    lines = list(flowed_rows(cells, room))
    assert max(map(width, lines)) <= room
    assert "".join("".join(lines).split()) == "".join("".join(map("".join, cells)).split())
    assert list(flowed_rows(cells, 1 << 20)) == align(cells), "where there is room, they are aligned"
