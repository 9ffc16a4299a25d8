"""A chain that is named on the command line, or its file."""

import sys

from runward.config.chain import Chain
from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_FOUND, WRONG_USAGE
from runward.daemon.cli.terminal.output import (
    complain,
    fail,
)
from runward.daemon.configuration.settings import NotFound, find_chain


def found_chain(settings: Settings, name: str) -> Parsed[Chain]:
    try:
        return find_chain(settings, name)
    except NotFound as error:
        fail(str(error), NOT_FOUND)


def right_chain(settings: Settings, name: str, code: int = WRONG_USAGE) -> Chain:
    """The chain of this name. Names everything that is wrong with it, and exits with `code` if it can't be used."""
    parsed = found_chain(settings, name)
    complain(parsed.problems)
    if parsed.value is None:
        sys.exit(code)
    return parsed.value
