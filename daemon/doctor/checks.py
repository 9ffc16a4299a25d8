"""Every check, in the order that is useful to a person; and running one in its own thread, within its time limit."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from runward.daemon.doctor import daemons, findings, fleet, machine, settings, state
from runward.daemon.doctor.findings import Ended, Finding, Installation, OutOfTime, Patience
from runward.daemon.host.report import NAME
from runward.daemon.sandbox.workers import Job, execute
from runward.daemon.store import reading
from runward.daemon.store.tables import session_lists
from runward.daemon.store.tables.receipts import BundleRow, bundle_of
from runward.handlers.bundle.parts import REPLAY

PLAYBOOK: Final = "canary"
PROOF: Final = "proof.txt"
"""What a run has to leave behind by this playbook."""

_SETTINGS: Final = 'state_dir = "state"\nplaybooks = ["playbooks"]\nagents = []\n'
_PLAYBOOK: Final = f"name: {PLAYBOOK}\nartifacts:\n  expected:\n    - {{id: proof, path: {PROOF}}}\n"
_NOT_HANDED_ON: Final = ("RUNWARD_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_", "TRACEPARENT", "GITHUB_")
"""What the names of variables begin with that a command there must not have. With `NOTIFY_SOCKET`, its daemon would tell
systemd that the real one is ready, or stops. With `GITHUB_ACTIONS`, a run would speak to the runner of the doctor's own step."""

_ENTRY: Final = (
    "from runward.daemon.processes.kernel import end_with_parent\nend_with_parent({doctor})\n"
    "from runward.daemon.cli import main\nmain()"
)
"""The command, which doesn't outlive a doctor that is killed."""

_COMMAND_S: Final = 60.0
"""Seconds that one command may take."""


@dataclass(frozen=True, slots=True)
class PrivatePlace:
    """`directory` has the settings; a command finds nothing of the real installation."""

    directory: Path
    environment: Mapping[str, str]
    patience: Patience
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self.directory / "state"

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A `runward` command in the background, killed at the end at the latest. Raises `OSError`."""
        settings = str(self.directory / "runward.toml")
        entry = _ENTRY.format(doctor=os.getpid())
        words = [sys.executable, "-c", entry, *arguments[:1], "--config", settings, *arguments[1:]]
        self.started.append(findings.start(words, self.environment, self.directory))
        return self.started[-1]

    def call(self, *arguments: str) -> Ended:
        """Run a `runward` command to its end. Raises `OSError` and `OutOfTime`."""
        return self.finish(self.start(*arguments))

    def finish(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for the end of a command that was started. Raises `OutOfTime`."""
        return findings.finish(process, self.patience, _COMMAND_S)


@contextmanager
def private_place(environment: Mapping[str, str], patience: Patience) -> Iterator[PrivatePlace]:
    """A temporary place, removed at the end with everything that was started there. Raises `OSError`."""
    directory = Path(tempfile.mkdtemp(prefix="runward-doctor-"))
    handed_on = {
        name: value for name, value in environment.items() if not name.startswith(_NOT_HANDED_ON)
    } | {"PYTHONPATH": os.pathsep.join(filter(None, (_sources(), environment.get("PYTHONPATH"))))}
    place = PrivatePlace(directory, handed_on, patience)
    try:
        (directory / "runward.toml").write_text(_SETTINGS)
        (directory / "playbooks").mkdir()
        (directory / "playbooks" / f"{PLAYBOOK}.playbook.yaml").write_text(_PLAYBOOK)
        yield place
    finally:
        for process in place.started:
            findings.end(process)
        shutil.rmtree(directory, ignore_errors=True)


def _sources() -> str:
    """Where this very program was imported from."""
    import runward.daemon

    return str(Path(runward.daemon.__file__).parents[2])


METHODS: Final = {
    "scope": "run it in a session of `systemd --user` (XDG_RUNTIME_DIR is set there)",
    "cgroup": "run the daemon as a unit with Delegate=yes",
    "pidns": "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces)",
    "subreaper": "this needs Linux 3.4 and /proc",
}
"""Each means, the strongest first, and what lets it work."""

_IDLE: Final = ("sh", "-c", ":")


def examine_containment(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """One run per method, in a private place. On its own, each launcher uses the strongest one that works."""
    with private_place(installation.environment, patience) as place:
        there = []
        for means, fix in METHODS.items():
            why = _refusal(place, means)
            if why is None:
                there.append(means)
            elif means == "subreaper":
                yield Finding("failed", f"no containment works, not even {means}: {why}", fix)
            else:
                yield Finding("skipped", f"no {means}: {why}", fix)
    if "scope" in there or "cgroup" in there:
        yield Finding("ok", f"runs are contained by {there[0]}; {', '.join(there)} work")
    elif there:
        message = f"runs are contained by their launcher alone ({', '.join(there)} work)"
        yield Finding(
            "warning",
            f"{message}: a process that escapes while its launcher is killed keeps running",
            METHODS["scope"],
        )


def _refusal(place: PrivatePlace, means: str) -> str | None:
    """Why a run can't be contained by `means`; None if it can."""
    ended = place.call("run", "--containment", means, "--no-verify", "--", *_IDLE)
    if ended.code == 0:
        return None
    lines = ended.err.strip().splitlines() or [f"the run ended with {ended.code}"]
    return lines[-1].removeprefix("runward run: ")


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
_FIX: Final = "fix what the other checks found; then see what `runward --debug daemon` says in the foreground"
_TURN_S: Final = 0.02
_HELD: Final = 75
"""How a daemon ends whose state directory another daemon uses."""


class _Failed(Exception):
    """The path is broken here."""


def examine_canary(installation: Installation, patience: Patience) -> Iterator[Finding]:
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
    # The one end that no program can prepare for. What is lost here would also be lost in a power failure.
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
        raise _Failed(f"a daemon that was asked to stop exited with {_how_it_ended(stopped)}")
    _verified(place)
    return after_s


def _daemon(place: PrivatePlace) -> subprocess.Popen[str]:
    """A daemon that is ready."""
    # The report of a killed predecessor is still there, and would say that this one is ready.
    (place.state / NAME).unlink(missing_ok=True)
    daemon = place.start("daemon", "--quiet")
    while not (place.state / NAME).exists():  # it reports once it is ready
        _lives(place, daemon, "became ready")
    return daemon


def _lives(place: PrivatePlace, daemon: subprocess.Popen[str], until: str) -> None:
    if daemon.poll() is not None:
        raise _Failed(f"the daemon exited before it {until}, with {_how_it_ended(place.finish(daemon))}")
    try:
        place.patience.pause(_TURN_S)
    except OutOfTime:
        raise _Failed(f"the time ran out before the daemon {until}") from None


def _is_turned_away(second: Ended) -> None:
    if second.code != _HELD:
        raise _Failed(f"a second daemon on the same state directory was not refused: {_how_it_ended(second)}")


def _launch(place: PrivatePlace, name: str, code: int, command: tuple[str, ...]) -> None:
    ended = place.call("run", "--playbook", PLAYBOOK, "--name", name, "--", *command)
    if ended.code != code:
        raise _Failed(f"the run that {name} should exit with {code}, but exited with {_how_it_ended(ended)}")


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
        key = next(row.key for row in session_lists.sessions(connection) if row.session_id == name)
        return bundle_of(connection, key, 1)


def _verdict(place: PrivatePlace, name: str) -> tuple[str, str | None] | None:
    with reading.reading(str(place.state)) as connection:
        rows = session_lists.sessions(connection)
    session = next((row for row in rows if row.session_id == name), None)
    return None if session is None or session.finished_at is None else (session.status, session.delivery)


def _verified(place: PrivatePlace) -> None:
    """Verify each run against its contract, its journals and its receipt again."""
    for command, what in ((("session", "verify"), "record"), (("receipt", "verify"), "receipt")):
        started = {name: place.start(*command, name) for name in EXPECTED}
        for name, process in started.items():
            ended = place.finish(process)
            if ended.code != 0:
                raise _Failed(f"the {what} of the run {name} is not valid: {_how_it_ended(ended)}")
    # A check that finds nothing wrong proves little: it must find this.
    _change(place, DELIVERS)
    if place.call("receipt", "verify", DELIVERS).code != 1:
        raise _Failed(f"the replay of the run {DELIVERS} was changed, but its receipt is still valid")


def _change(place: PrivatePlace, name: str) -> None:
    """Change one byte of the run's replay."""
    with reading.reading(str(place.state)) as connection:
        path = next(row.path for row in session_lists.sessions(connection) if row.session_id == name)
    replay = Path(path) / REPLAY
    content = replay.read_bytes()
    replay.write_bytes(content.replace(b"Success", b"success"))


def _how_it_ended(ended: Ended) -> str:
    """How a command ended, with the last line that it printed."""
    lines = (ended.err.strip() or ended.out.strip()).splitlines()
    return f"{ended.code}: {lines[-1]}" if lines else str(ended.code)


_LIVES: Final = "def run(number): return number + 1"

_ATTEMPTS: Final = """
import os, socket
def stopped(act, *words):
    try:
        act(*words)
    except OSError:
        return True
    return False
def run(pid, state):
    return {
        "reading the state directory": stopped(os.listdir, state),
        "reading /etc/passwd": stopped(open, "/etc/passwd"),
        "opening a connection": stopped(socket.socket, socket.AF_INET, socket.SOCK_STREAM),
        "starting a process": stopped(os.fork),
        "ending the doctor": stopped(os.kill, pid, 9),
        "writing outside /tmp": stopped(open, "/mine", "w"),
    }
"""
_SPINS: Final = "def run():\n    while True: pass"
_SPINNING_S: Final = 0.3


def examine_sandbox(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Code must run, must be stopped if it reaches out, and must be cut off if it doesn't end."""
    executor = installation.settings.exchange.executor
    lives = execute(Job(_LIVES, [1]), executor)
    if lives.code == "not_configured":
        yield Finding("warning", f"{lives.error}; code of the exchange is refused", lives.fix)
        return
    if lives.result != 2:
        yield Finding(
            "failed",
            f"code doesn't run in the sandbox: {lives.error}",
            "raise memory or timeout in [exchange.executor]",
        )
        return
    patience.left()
    tried = execute(Job(_ATTEMPTS, [os.getpid(), str(installation.state)]), executor)
    patience.left()
    spins = execute(Job(_SPINS, []), executor._replace(timeout=_SPINNING_S))
    result = tried.result if isinstance(tried.result, dict) else {}
    let_through = [name for name, was_stopped in result.items() if was_stopped is not True]
    if spins.code != "timeout":
        let_through.append("running without end")
    if not result or let_through:
        what = ", ".join(let_through) or str(tried.error)
        yield Finding(
            "failed", f"the sandbox does not stop {what}", "don't run foreign code here, and report this"
        )
        return
    yield Finding(
        "ok",
        f"code runs in the sandbox ({lives.sandbox}), and {len(result) + 1} attempts to escape or to keep running were stopped",
    )


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
    Check("fleet", "the fleet's database is tried", 60, fleet.examine_fleet),
    Check("queue", "the queue is read", 20, state.examine_queue),
    Check("hooks", "Claude Code is asked for its version", 40, settings.examine_hooks),
    Check("containment", "runs are launched in each containment", 90, examine_containment),
    Check("sandbox", "code is run in the sandbox", 60, examine_sandbox),
    Check("canary", "runs are launched and judged from start to end", 120, examine_canary),
)


def carry_out(check: Check, installation: Installation) -> list[Finding]:
    """The finding of the check. Never raises, except for `KeyboardInterrupt`, after which the check tidied up."""
    findings: list[Finding] = []
    patience = Patience(check.limit_s)
    # A file system that doesn't answer blocks a thread forever: such a thread is left behind and ends with the process.
    # An event, because a join that a signal interrupts treats the thread as ended (bpo-45274).
    ended = threading.Event()
    threading.Thread(
        target=_examine, args=(check, installation, patience, findings, ended), name=check.name, daemon=True
    ).start()
    try:
        ended.wait(check.limit_s)
    finally:
        patience.give_up()
        has_ended = ended.wait(AFTERWARDS_S)
    return findings if has_ended else [*findings, _no_answer(check)]


def _examine(
    check: Check,
    installation: Installation,
    patience: Patience,
    findings: list[Finding],
    ended: threading.Event,
) -> None:
    try:
        findings.extend(check.examine(installation, patience))
    except OutOfTime:
        findings.append(_no_answer(check))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fix = "check its path and its permissions"
        if isinstance(error, PermissionError) and installation.is_anothers:
            fix = f"`{installation.as_owner('doctor')}`"
        findings.append(Finding("failed", f"{where}{error.strerror or error}", fix))
    except Exception as error:  # noqa: BLE001  # a mistake in one check must not hide what the others find
        message = f"the check itself failed: {type(error).__name__}: {error}"
        findings.append(Finding("failed", message, "this is a bug in Runward: please report it"))
    finally:
        ended.set()


def _no_answer(check: Check) -> Finding:
    message = f"no answer within {check.limit_s:g} s, while {check.doing}"
    return Finding("failed", message, "see whether disks and network file systems answer, then try again")
