"""The program in which a person reads what is longer than the screen."""

import shlex
import shutil
from collections.abc import Mapping
from typing import Final

_DEFAULT: Final = "less"
_NONE: Final = "cat"
_LESS: Final = "FRX"
"""Ends where all fits, shows colours, leaves the text on the screen; chops no line."""


def pager_of(environment: Mapping[str, str]) -> list[str] | None:
    """The words of the pager: `$RUNWARD_PAGER`, `$PAGER`, else less. None if there is none, or none is wanted."""
    named = environment.get("RUNWARD_PAGER", environment.get("PAGER", _DEFAULT))
    try:
        words = shlex.split(named)
    except ValueError:
        return None  # a quote without its end names no program
    if not words or words[0] == _NONE or shutil.which(words[0], path=environment.get("PATH")) is None:
        return None
    return words


def for_pager(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of the pager."""
    return {"LESS": _LESS, **environment}
