"""Options that several commands have in the same words."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import click

from runward.daemon.cli.terminal.times import Length

_Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

limit_option: Final[_Option] = click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Show at most N; 0: all.",
)
"""How long a list may be."""


def timeout_option(default: str = "30s") -> _Option:
    """How long a command waits for its result."""
    return click.option(
        "--timeout",
        type=Length(),
        default=default,
        show_default=True,
        metavar="DURATION",
        help="Wait at most this long.",
    )
