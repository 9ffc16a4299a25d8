"""`session list --fleet`: the sessions that all hosts of a fleet reported, as the list of one host shows its own."""

import time
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from runward.config.notification import ENDED
from runward.config.settings import Settings
from runward.daemon.cli.session.listing import ABOUT_HEADS, HEADS, about_cells, say_that_there_are_more
from runward.daemon.cli.session.table import columns_of, has_estimates, that_say_something
from runward.daemon.cli.shell.fleet_database import fleet_to_read
from runward.daemon.cli.terminal.lists import print_screen
from runward.daemon.cli.terminal.options import valid_text
from runward.daemon.cli.terminal.output import (
    coloured,
    is_screen,
    note,
    print_json,
    print_table,
    print_text,
    printing,
    safe,
)
from runward.daemon.cli.terminal.signs import Terminal, terminal_here
from runward.daemon.cli.terminal.tables import Column
from runward.daemon.store.tables.session_lists import Wanted
from runward.daemon.views.rows import OPEN_STATES, Row
from runward.daemon.views.text import ago, duration

if TYPE_CHECKING:
    from runward.daemon.fleet.connecting import Connection
    from runward.daemon.fleet.lists import Host
    from runward.daemon.fleet.reported import Reported

_WHAT_TO_DO: Final = (
    "; try again later, or leave out --fleet: the list of this host's own sessions needs no database"
)


def print_fleet(settings: Settings, wanted: Wanted, hosts: Sequence[str], limit: int, as_json: bool) -> None:
    """Print the list, and what else to know below it, on stderr."""
    _check(wanted, hosts)
    is_for_people = not as_json and is_screen()
    with fleet_to_read(settings, _WHAT_TO_DO) as connection:
        from runward.daemon.fleet import lists

        if is_for_people:
            found, is_cut = _open_and_ended(connection, wanted, hosts, limit)
        else:
            found, is_cut = _cut(lists.sessions(connection, wanted, hosts, _most(limit)), limit)
        known = lists.hosts(connection, None, sorted({each.host for each in found}))
    silent = {each.name: each for each in known if each.state in ("silent", "removed")}
    read = [each for each in found if each.body is not None]
    if as_json:
        print_json([each.as_json() for each in read])
    elif not read:
        print_text("no sessions")
    elif is_for_people:
        _print_screen(read, silent)
    else:
        _print_table(read)
    if len(read) < len(found):
        lost = next(each for each in found if each.body is None)
        note(f"{len(found) - len(read)} of them can't be read, such as {lost.key} of {lost.host}")
    if not as_json:
        _tell_silent(read, silent)
    if is_cut:
        say_that_there_are_more(limit)


def _check(wanted: Wanted, hosts: Sequence[str]) -> None:
    """Exits 2 if something that is looked for can't be in a database."""
    words = (*hosts, *wanted.playbooks, *wanted.agents, *wanted.layouts, *wanted.roots)
    for word in (*words, wanted.text or "", wanted.cwd or ""):
        valid_text(word, "a filter")


def _open_and_ended(
    connection: "Connection", wanted: Wanted, hosts: Sequence[str], limit: int
) -> "tuple[list[Reported], bool]":
    """The newest that have not ended, and the newest that have; and whether there are more of either."""
    from runward.daemon.fleet import lists

    found, is_cut = [], False
    for statuses, has_ended in ((("running",), False), (ENDED, True)):
        chosen = tuple(each for each in statuses if not wanted.statuses or each in wanted.statuses)
        if not chosen:
            continue
        # Without a filter, whatever else a newer host may call the end of a session is one, too.
        those = wanted._replace(statuses=() if has_ended and not wanted.statuses else chosen)
        part, is_part = _cut(
            lists.sessions(connection, those, hosts, _most(limit), has_ended=has_ended), limit
        )
        found += part
        is_cut = is_cut or is_part
    return found, is_cut


def _most(limit: int) -> int | None:
    """One more than are shown tells that there are more."""
    return limit + 1 if limit else None


def _cut(found: "list[Reported]", limit: int) -> "tuple[list[Reported], bool]":
    is_cut = bool(limit) and len(found) > limit
    return (found[:limit] if is_cut else found), is_cut


def _print_screen(found: "Sequence[Reported]", silent: Container[str]) -> None:
    terminal = terminal_here()
    rows = [(each.row(terminal.now, is_silent=each.host in silent), each.host) for each in found]
    still = [each for each in rows if each[0].is_open]
    still.sort(key=lambda each: OPEN_STATES.index(each[0].state))
    rows = [*still, *(each for each in rows if not each[0].is_open)]
    is_chosen = bool(printing("is_wide") or printing("heads"))
    columns = _columns(rows, terminal, has_all=is_chosen)
    heads = print_screen(columns if is_chosen else that_say_something(columns))
    if has_estimates(columns, heads):
        note("~: an estimate at list prices, or at those of the settings of its host")


def _columns(rows: Sequence[tuple[Row, str]], terminal: Terminal, *, has_all: bool) -> list[Column]:
    columns = columns_of([row for row, _ in rows], terminal, has_all=has_all)
    at = next(number for number, each in enumerate(columns) if each.head == "SESSION")
    return [*columns[:at], Column("HOST", [terminal.text(host) for _, host in rows]), *columns[at:]]


def _print_table(found: "Sequence[Reported]") -> None:
    now = time.time()
    rows = [_cells(each, now) for each in found]
    if any(any(each.about) for each in found):
        rows = [(*cells, *about_cells(each.about)) for cells, each in zip(rows, found, strict=True)]
        print_table(("HOST", *HEADS, *ABOUT_HEADS), rows)
    else:
        print_table(("HOST", *HEADS), rows)


def _cells(row: "Reported", now: float) -> tuple[str, ...]:
    activity = row.activity
    word = coloured(row.status)
    if row.status == "running":
        word += "?" if activity is None else "" if activity == "active" else f", {activity}"
    return (
        safe(row.host),
        safe(row.id),
        word,
        safe(row.text("code", "reason") or "-"),
        coloured(row.text("verified") or "-"),
        coloured(row.text("delivery") or "-"),
        safe(row.text("ended_by") or "-"),
        ago(row.started_at, now),
        duration(row.took(now)),
    )


def _tell_silent(found: "Sequence[Reported]", silent: "Mapping[str, Host]") -> None:
    """Name the silent and the removed hosts that have running sessions here: it is not known what those do."""
    for name in sorted({each.host for each in found if each.status == "running" and each.host in silent}):
        host = silent[name]
        what = "was removed" if host.state == "removed" else f"is silent for {duration(host.unheard_s)}"
        note(f"{name} {what}: it is not known what still runs there")
