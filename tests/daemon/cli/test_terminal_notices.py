"""Notices of the terminal: which sequence each terminal gets, and that nothing in a text is one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.cli.terminal.notices import notice

_9 = "\x1b]9;Runward: done\x1b\\\a"
_777 = "\x1b]777;notify;Runward;Runward: done\x1b\\\a"
_99 = "\x1b]99;;Runward: done\x1b\\\a"


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, _9),
        ({"TERM": "xterm-256color"}, _9),
        ({"TERM_PROGRAM": "iTerm.app"}, _9),
        ({"TERM": "xterm-kitty"}, _99),
        ({"KITTY_WINDOW_ID": "1"}, _99),
        ({"TERM_PROGRAM": "ghostty"}, _777),
        ({"TERM": "xterm-ghostty"}, _777),
        ({"TERM_PROGRAM": "WezTerm"}, _777),
        ({"TERM": "foot-extra"}, _777),
        ({"TERM": "rxvt-unicode-256color"}, _777),
        ({"KONSOLE_VERSION": "220401"}, _777),
        ({"VTE_VERSION": "7003"}, _777),
        (
            {"TMUX": "/tmp/tmux-0/default,1,0", "TERM": "tmux-256color"},  # a value, no file
            "\x1bPtmux;\x1b\x1b]9;Runward: done\x1b\x1b\\\x1b\\\a",
        ),
    ],
)
def test_each_terminal_gets_its_sequence(environment: dict[str, str], sent: str) -> None:
    assert notice("done", environment) == sent


_HOSTILE = st.one_of(
    st.text(max_size=300),
    st.sampled_from(
        [
            "\x1b]52;c;ZXZpbA==\x07",
            "\x07\x1b]9;owned\x1b\\",
            "\x9d9;owned\x9c",
            "\u202egnp.exe\nsecond line\r\x00",
            "4;3;100",
            "\x1bPtmux;\x1b\x1b]9;x\x1b\\",
            "x" * 10_000,
        ]
    ),
)


@given(
    text=_HOSTILE, environment=st.sampled_from([{}, {"TERM": "xterm-kitty"}, {"TERM": "foot"}, {"TMUX": "1"}])
)
def test_no_text_is_a_sequence(text: str, environment: dict[str, str]) -> None:
    sent = notice(text, environment)
    frame = re.escape(notice("", environment)).replace("Runward:\\ ", "(Runward: .*)")
    match = re.fullmatch(frame, sent)
    assert match is not None
    assert match[1].isprintable()
    assert ";" not in match[1]
    assert len(match[1]) <= 140
