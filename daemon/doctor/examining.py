"""Running checks: each in its own thread, within its time limit, whatever happens to it.

A file system that doesn't answer blocks a thread forever; such a thread is left behind and ends with the process.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

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


def carry_out(check: Check, installation: Installation) -> list[Finding]:
    """The finding of the check. Never raises, except for `KeyboardInterrupt`, after which the check tidied up."""
    found: list[Finding] = []
    patience = Patience(check.limit_s)
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
