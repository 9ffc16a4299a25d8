"""`artifact list --fleet` and `chain approvals --fleet`: what hosts of a fleet reported, as the lists of one host show its own."""

import shlex
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from runward.config.settings import Settings
from runward.daemon.cli.shell.fleet_database import fleet_to_read
from runward.daemon.cli.terminal.options import valid_text
from runward.daemon.cli.terminal.output import Columns, note, print_list, safe
from runward.daemon.store.tables.artifacts import ArtifactRow, Wanted
from runward.daemon.views.text import ago

if TYPE_CHECKING:
    from runward.daemon.fleet.other_lists import FleetApproval, FleetOutcome

_WHAT_TO_DO: Final = (
    "; try again later, or leave out --fleet: the list of what this host has itself needs no database"
)


def print_outcomes(
    settings: Settings,
    wanted: Wanted,
    hosts: Sequence[str],
    columns: Columns[ArtifactRow],
    *,
    as_json: bool,
) -> None:
    """The outcomes that hosts reported. `wanted` has texts that the ids of a session and a chain run begin with."""
    for word in (*hosts, *(each for each in (wanted.kind, wanted.session, wanted.chain_run) if each)):
        valid_text(word, "a filter")
    limit = wanted.limit if wanted.limit > 0 else None
    with fleet_to_read(settings, _WHAT_TO_DO) as connection:
        from runward.daemon.fleet import other_lists

        found = other_lists.outcomes(connection, wanted, hosts, limit)

    def of_row(cell: Callable[[ArtifactRow], str]) -> "Callable[[FleetOutcome], str]":
        return lambda each: cell(each.row)

    shown: Columns[FleetOutcome] = {
        "HOST": lambda each: safe(each.host),
        **{head: of_row(cell) for head, cell in columns.items()},
    }
    print_list(found, shown, as_json, value=lambda each: each.as_json(), nothing="no artifacts")


_APPROVALS: "Final[Columns[FleetApproval]]" = {
    "HOST": lambda each: safe(each.host),
    "APPROVAL": lambda each: safe(each.id),
    "CHAIN": lambda each: safe(each.chain),
    "STEP": lambda each: safe(each.step),
    "COMMAND": lambda each: "-" if each.command is None else safe(shlex.join(each.command)),
    "ASKED": lambda each: ago(each.asked_at, time.time()),
}


def print_approvals(settings: Settings, hosts: Sequence[str], *, as_json: bool) -> None:
    """The steps of all hosts that wait for a person. Each is answered on its host."""
    for word in hosts:
        valid_text(word, "a filter")
    with fleet_to_read(settings, _WHAT_TO_DO) as connection:
        from runward.daemon.fleet import other_lists

        found = other_lists.approvals(connection, hosts)
    nothing = "nothing waits for a person"
    print_list(found, _APPROVALS, as_json, value=lambda each: each.as_json(), nothing=nothing)
    if found and not as_json:
        note("each is approved or denied on its host")
