"""A notice of the terminal itself: what it shows although its window is not the one in front.

What an agent wrote may be in it, so nothing is left that would end the sequence, begin another one, or look like something
else: no control or invisible character, and no `;`, which separates the parts of a sequence.
"""

from collections.abc import Mapping
from typing import Final

from runward.config.problem import one_line, shortened

_LONGEST: Final = 140
_END: Final = "\x1b\\"
_BELL: Final = "\a"

_WITH_777: Final = {"TERM_PROGRAM": ("ghostty", "WezTerm"), "KONSOLE_VERSION": (), "VTE_VERSION": ()}
"""Variables by which terminals that know OSC 777 are known, with the values that count; any, if none is named."""

_TERMS_WITH_777: Final = ("foot", "rxvt", "xterm-ghostty")
"""How `TERM` begins in others that do."""


def notice(text: str, environment: Mapping[str, str]) -> str:
    """What a terminal with these variables is sent, so that it shows this text and rings its bell."""
    body = notice_text(text)
    term = environment.get("TERM", "")
    if term == "xterm-kitty" or "KITTY_WINDOW_ID" in environment:
        sequence = f"\x1b]99;;{body}{_END}"
    elif term.startswith(_TERMS_WITH_777) or any(
        name in environment and (not values or environment[name] in values)
        for name, values in _WITH_777.items()
    ):
        sequence = f"\x1b]777;notify;Runward;{body}{_END}"
    else:
        sequence = f"\x1b]9;{body}{_END}"
    if "TMUX" in environment:
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        sequence = f"\x1bPtmux;{doubled}{_END}"
    return f"{sequence}{_BELL}"


def notice_text(text: str) -> str:
    """The text as a notice has it. It begins with our name: a number would be a command of OSC 9."""
    return shortened(f"Runward: {one_line(text).replace(';', '')}", _LONGEST)
