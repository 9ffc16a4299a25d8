"""The filters of lists about sessions, as options."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Final

import click

from runward.daemon.cli.shell import completing
from runward.daemon.cli.terminal.options import NamedPath, filter_option
from runward.daemon.store.tables.session_lists import Wanted
from runward.daemon.views.sessions import SESSION_STATUSES
from runward.handlers.model.reasons import FAILURES

_OPTIONS: Final = (
    click.option(
        "--status",
        "statuses",
        multiple=True,
        type=click.Choice(SESSION_STATUSES),
        help="Show only those with this status.",
    ),
    click.option("--failed", is_flag=True, help="Show only those that failed, timed out or were aborted."),
    filter_option("--layout", "NAME", completing.layouts, "those of this layout", "layouts", multiple=True),
    filter_option("--root", "NAME", completing.roots, "those of this root", "roots", multiple=True),
    filter_option(
        "--playbook", "NAME", completing.playbooks, "those with this playbook", "playbooks", multiple=True
    ),
    filter_option("--agent", "NAME", completing.agents, "those of this agent", "agents", multiple=True),
    click.option(
        "--search",
        "text",
        metavar="TEXT",
        help="Show only those with this text in their id, playbook, agent, path or reason.",
    ),
    click.option(
        "--cwd",
        is_flag=False,
        flag_value=".",
        metavar="[DIR]",
        type=NamedPath(),
        shell_complete=completing.directories,
        help="Show only those that worked in this directory (default: the current one) or below it.",
    ),
)


def session_filters(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options, and what they choose as its argument `wanted`."""

    @wraps(command)
    def with_wanted(
        *args: object,
        statuses: tuple[str, ...],
        failed: bool,
        layouts: tuple[str, ...],
        roots: tuple[str, ...],
        playbooks: tuple[str, ...],
        agents: tuple[str, ...],
        text: str | None,
        cwd: str | None,
        **given: object,
    ) -> None:
        wanted = Wanted(
            statuses=(*statuses, *(FAILURES if failed else ())),
            layouts=layouts,
            roots=roots,
            playbooks=playbooks,
            agents=agents,
            text=text,
            cwd=None if cwd is None else os.path.abspath(cwd),
        )
        command(*args, wanted=wanted, **given)

    filtered: Callable[..., None] = with_wanted
    for option in reversed(_OPTIONS):
        filtered = option(filtered)
    return filtered
