"""The whole path, end to end: a daemon of the doctor's own launches, notices, judges and verifies runs.

One run delivers and one doesn't, because a verdict that is always good proves nothing. A second daemon is refused.
The first is killed, and its successor judges the run that ended meanwhile. All their receipts are verified. So is the
fact that a changed one is no longer valid."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from runward.daemon.doctor.commands import Ended
from runward.daemon.doctor.findings import Finding, Installation, OutOfTime, Patience
from runward.daemon.doctor.private_place import PLAYBOOK, PROOF, PrivatePlace, private_place
from runward.daemon.host.report import NAME
from runward.daemon.store import reading, reading_sessions
from runward.daemon.store.reading_bundles import BundleRow, bundle_of
from runward.handlers.bundle.parts import REPLAY

DELIVERS: Final = "delivers"
LACKS: Final = "lacks"
MEANWHILE: Final = "meanwhile"

EXPECTED: Final = {
    DELIVERS: ("completed", "passed"),
    LACKS: ("failed", "missing"),
    MEANWHILE: ("completed", "passed"),
}
"""Each run's right status and delivery."""

_DELIVER: Final = ("sh", "-c", f'echo done > "$RUNWARD_ARTIFACTS_DIR/{PROOF}"')
_IDLE: Final = ("sh", "-c", ":")
_FIX: Final = "fix what the other checks found; then see what `runward --debug daemon` says in the foreground"
_TURN_S: Final = 0.02
_HELD: Final = 75
"""How a daemon ends whose state directory another daemon uses."""


class _Failed(Exception):
    """The path is broken here."""


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Test the path in a private place, which is removed at the end."""
    began = time.monotonic()
    with private_place(installation.environment, patience) as place:
        try:
            after_s = _walk(place)
        except _Failed as failure:
            yield Finding(
                "failed", str(failure), "run `runward daemon --debug` in the foreground and try again"
            )
        else:
            took = time.monotonic() - began
            yield Finding(
                "ok",
                "3 runs were launched, judged correctly and verified with their receipts; a second daemon was refused, and the"
                f" successor of a killed one continued (verdict {after_s:.2f} s after the end, {took:.1f} s in all)",
            )


def _walk(place: PrivatePlace) -> float:
    """Run all of it; returns the seconds from the end of a run to its verdict. Raises `_Failed`."""
    daemon = _daemon(place)
    _is_turned_away(place.call("daemon", "--quiet"))
    _launch(place, LACKS, 1, _IDLE)
    _launch(place, DELIVERS, 0, _DELIVER)
    ended = time.monotonic()
    _judged(place, daemon, DELIVERS)
    after_s = time.monotonic() - ended
    _judged(place, daemon, LACKS)
    daemon.send_signal(signal.SIGKILL)
    place.finish(daemon)
    _launch(place, MEANWHILE, 0, _DELIVER)
    successor = _daemon(place)
    _judged(place, successor, MEANWHILE)
    for name in EXPECTED:
        _receipted(place, successor, name)
    successor.send_signal(signal.SIGTERM)
    stopped = place.finish(successor)
    if stopped.code != 0:
        raise _Failed(f"a daemon that was asked to stop exited with {_said(stopped)}")
    _verified(place)
    return after_s


def _daemon(place: PrivatePlace) -> subprocess.Popen[str]:
    """A daemon that is ready."""
    (place.state / NAME).unlink(missing_ok=True)
    daemon = place.start("daemon", "--quiet")
    while not (place.state / NAME).exists():  # it reports once it is ready
        _lives(place, daemon, "became ready")
    return daemon


def _lives(place: PrivatePlace, daemon: subprocess.Popen[str], until: str) -> None:
    if daemon.poll() is not None:
        raise _Failed(f"the daemon exited before it {until}, with {_said(place.finish(daemon))}")
    try:
        place.patience.pause(_TURN_S)
    except OutOfTime:
        raise _Failed(f"the time ran out before the daemon {until}") from None


def _is_turned_away(second: Ended) -> None:
    if second.code != _HELD:
        raise _Failed(f"a second daemon on the same state directory was not refused: {_said(second)}")


def _launch(place: PrivatePlace, name: str, code: int, command: tuple[str, ...]) -> None:
    ended = place.call("run", "--playbook", PLAYBOOK, "--name", name, "--", *command)
    if ended.code != code:
        raise _Failed(f"the run that {name} should exit with {code}, but exited with {_said(ended)}")


def _judged(place: PrivatePlace, daemon: subprocess.Popen[str], name: str) -> None:
    """Wait for the verdict, which must be the right one."""
    while (verdict := _verdict(place, name)) is None:
        _lives(place, daemon, f"judged the run {name}")
    if verdict != EXPECTED[name]:
        raise _Failed(f"the run {name} was judged {verdict}, but {EXPECTED[name]} is right")


def _receipted(place: PrivatePlace, daemon: subprocess.Popen[str], name: str) -> None:
    """Wait for the run's receipt."""
    while (row := _receipt(place, name)) is None or row.placed_at is None:
        _lives(place, daemon, f"wrote the receipt of the run {name}")
    problem = row.problem or row.place_problem
    if problem is not None:
        raise _Failed(f"the run {name} has no receipt: {problem}")


def _receipt(place: PrivatePlace, name: str) -> BundleRow | None:
    with reading.reading(str(place.state)) as connection:
        key = next(row.key for row in reading_sessions.sessions(connection) if row.session_id == name)
        return bundle_of(connection, key, 1)


def _verdict(place: PrivatePlace, name: str) -> tuple[str, str | None] | None:
    with reading.reading(str(place.state)) as connection:
        rows = reading_sessions.sessions(connection)
    found = next((row for row in rows if row.session_id == name), None)
    return None if found is None or found.finished_at is None else (found.status, found.delivery)


def _verified(place: PrivatePlace) -> None:
    """Verify each run against its contract, its journals and its receipt again."""
    for command, what in ((("session", "verify"), "record"), (("receipt", "verify"), "receipt")):
        started = {name: place.start(*command, name) for name in EXPECTED}
        for name, process in started.items():
            ended = place.finish(process)
            if ended.code != 0:
                raise _Failed(f"the {what} of the run {name} is not valid: {_said(ended)}")
    _change(place, DELIVERS)
    if place.call("receipt", "verify", DELIVERS).code != 1:
        raise _Failed(f"the replay of the run {DELIVERS} was changed, but its receipt is still valid")


def _change(place: PrivatePlace, name: str) -> None:
    """Change one byte of the run's replay."""
    with reading.reading(str(place.state)) as connection:
        path = next(row.path for row in reading_sessions.sessions(connection) if row.session_id == name)
    replay = Path(path) / REPLAY
    content = replay.read_bytes()
    replay.write_bytes(content.replace(b"Success", b"success"))


def _said(ended: Ended) -> str:
    """How a command ended, with the last line that it printed."""
    lines = (ended.err.strip() or ended.out.strip()).splitlines()
    return f"{ended.code}: {lines[-1]}" if lines else str(ended.code)
