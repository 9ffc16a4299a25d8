"""Every check, in the order that is useful to a person; and running one in its own thread, within its time limit."""

import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from runward.daemon.doctor import daemons, machine, settings, state, trials
from runward.daemon.doctor.findings import Finding, Installation, OutOfTime, Patience

AFTERWARDS_S: Final = 10.0
"""Seconds that a check may take to tidy up once its time is over."""

Examine = Callable[[Installation, Patience], Iterator[Finding]]


class Check(NamedTuple):
    """One subject: its name, what is being done (for anyone who waits), and the seconds that it may take."""

    name: str
    doing: str
    limit_s: float
    examine: Examine


CHECKS: Final = (
    Check("settings", "settings, playbooks and agent profiles are read", 10, settings.examine_settings),
    Check("rights", "permissions are checked", 10, state.examine_rights),
    Check("file_systems", "file systems are checked", 10, machine.examine_file_systems),
    Check("lock", "a lock is tried against another process", 20, machine.examine_lock),
    Check("fsync", "files are written durably", 20, machine.examine_durability),
    Check("clocks", "clocks are compared", 10, machine.examine_clocks),
    Check("sqlite", "a database is made", 20, machine.examine_database),
    Check("store", "every page of the store is checked", 60, state.examine_store),
    Check("roots", "the roots are read", 20, settings.examine_roots),
    Check("notifications", "the directories of the roots are counted", 60, machine.examine_notifications),
    Check("unit", "systemd is asked", 20, daemons.examine_unit),
    Check("daemon", "processes are looked at", 20, daemons.examine_daemon),
    Check("listener", "what listens is asked, or opened", 20, settings.examine_listener),
    Check("notices", "recipients of notices are checked", 10, settings.examine_notices),
    Check("queue", "the queue is read", 20, state.examine_queue),
    Check("hooks", "Claude Code is asked for its version", 40, settings.examine_hooks),
    Check("containment", "runs are launched in each containment", 90, trials.examine_containment),
    Check("sandbox", "code is run in the sandbox", 60, trials.examine_sandbox),
    Check("canary", "runs are launched and judged from start to end", 120, trials.examine_canary),
)


def carry_out(check: Check, installation: Installation) -> list[Finding]:
    """The finding of the check. Never raises, except for `KeyboardInterrupt`, after which the check tidied up."""
    found: list[Finding] = []
    patience = Patience(check.limit_s)
    # A file system that doesn't answer blocks a thread forever: such a thread is left behind and ends with the process.
    # An event, because a join that a signal interrupts treats the thread as ended (bpo-45274).
    ended = threading.Event()
    threading.Thread(
        target=_examine, args=(check, installation, patience, found, ended), name=check.name, daemon=True
    ).start()
    try:
        ended.wait(check.limit_s)
    finally:
        patience.give_up()
        has_ended = ended.wait(AFTERWARDS_S)
    return found if has_ended else [*found, _no_answer(check)]


def _examine(
    check: Check, installation: Installation, patience: Patience, found: list[Finding], ended: threading.Event
) -> None:
    try:
        found.extend(check.examine(installation, patience))
    except OutOfTime:
        found.append(_no_answer(check))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fix = "check its path and its permissions"
        if isinstance(error, PermissionError) and installation.is_anothers:
            fix = f"`{installation.as_owner('doctor')}`"
        found.append(Finding("failed", f"{where}{error.strerror or error}", fix))
    except Exception as error:  # noqa: BLE001  # a mistake in one check must not hide what the others find
        said = f"the check itself failed: {type(error).__name__}: {error}"
        found.append(Finding("failed", said, "this is a bug in Runward: please report it"))
    finally:
        ended.set()


def _no_answer(check: Check) -> Finding:
    said = f"no answer within {check.limit_s:g} s, while {check.doing}"
    return Finding("failed", said, "see whether disks and network file systems answer, then try again")
