"""The running daemon: exactly one, alive, of this program's version; and whether systemd starts it."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from runward.config.root import NATIVE
from runward.daemon import __version__
from runward.daemon.doctor.findings import Finding, Installation, Patience, end_of, is_there
from runward.daemon.host.report import Report, read_report
from runward.daemon.processes.proc import pid_namespace
from runward.daemon.store.ownership import LOCK, holder, how_to_start_daemon
from runward.daemon.store.reading import STORE
from runward.daemon.units.rendering import SYSTEM_STATE, is_lingering
from runward.daemon.users import as_root, name_of, run_as
from runward.handlers.model.processes import FIRST_NAMESPACE

BOOTED: Final = Path("/run/systemd/system")
"""Where this is, systemd is the init that runs (sd_booted(3))."""

_PROPERTIES: Final = (
    "LoadState",
    "ActiveState",
    "UnitFileState",
    "MainPID",
    "Environment",
    "FragmentPath",
    "LoadError",
    "User",
)
_WITHIN_S: Final = 5.0


class Unit(NamedTuple):
    """A unit as systemd shows it: the words that name it to systemctl, and its properties."""

    words: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.words[-1]

    @property
    def is_users(self) -> bool:
        return "--user" in self.words

    @property
    def is_installed(self) -> bool:
        """Whether it is there and meant to run: systemd knows every instance of a template."""
        state = self.properties.get("UnitFileState", ""), self.properties.get("ActiveState", "inactive")
        is_unused = "@" in self.name and not state[0].startswith("enabled") and state[1] == "inactive"
        return self.properties.get("LoadState") != "not-found" and not is_unused

    def keeps(self, state: str) -> bool:
        """Whether its daemon works in this state directory; also if it doesn't say in which."""
        return self.state_dir is None or os.path.realpath(self.state_dir) == os.path.realpath(state)

    @property
    def state_dir(self) -> str | None:
        """The state directory that the unit sets."""
        for each in shlex.split(self.properties.get("Environment", "")):
            name, _, value = each.partition("=")
            if name == "RUNWARD_STATE_DIR":
                return value
        return None

    def systemctl(self, verb: str) -> str:
        """The command line that does this to the unit."""
        command = " ".join(["systemctl", *self.words[:-1], verb, self.name])
        return command if self.is_users else as_root(command)


def examine_unit(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Every unit of Runward's that systemd knows, and lingering for the user's own."""
    user = name_of(installation.owner)
    units = list(_asked(installation, patience))
    if not units:
        fix = "have the service manager of this machine run `runward daemon`"
        yield Finding("skipped", "systemd does not answer here: nothing starts the daemon automatically", fix)
        return
    installed = [each for each in units if each.is_installed]
    ours = [each for each in installed if each.keeps(installation.settings.state_dir)]
    if not installed:
        message = "no unit is installed: nothing starts the daemon automatically"
        if not any(unit.is_users for unit in units):
            message = f"{message}; systemd --user of {user} doesn't answer"
        yield Finding("warning", message, _install(installation))
    for unit in installed:
        yield from _of_unit(unit, installation) if unit in ours else [_of_other(unit, installation, ours)]
    if any(unit.is_users for unit in ours):
        yield _lingering(user)
    # They fight for one lock: systemd restarts the loser for ever, and which one wins changes with each boot.
    if sum(unit.properties.get("ActiveState") == "active" for unit in ours) > 1:
        names = ", ".join(f"`{unit.systemctl('disable --now')}`" for unit in ours)
        yield Finding(
            "warning",
            "more than one unit of Runward is active",
            f"keep one, stop the others: {names}",
        )


def how_to(verb: str, installation: Installation, patience: Patience, pid: int | None = None) -> str | None:
    """The command by which the unit of this state directory does this; None if there is none, or `pid` isn't its daemon."""
    for unit in _asked(installation, patience):
        is_its = pid is None or unit.properties.get("MainPID") == str(pid)
        if unit.is_installed and unit.keeps(installation.settings.state_dir) and is_its:
            return f"`{unit.systemctl(verb)}`"
    return None


def _install(installation: Installation) -> str:
    """The command that installs a unit over this state directory."""
    if installation.settings.state_dir == SYSTEM_STATE:
        return f"`{as_root('runward daemon install --system')}`"
    if installation.is_anothers:
        return f"`{installation.as_owner('daemon install --user')}`"
    return "`runward daemon install --user`" if os.geteuid() == 0 else "`runward daemon install`"


def _asked(installation: Installation, patience: Patience) -> Iterator[Unit]:
    """Our units, as far as systemd answers: those of the state directory's user, and the machine's.

    The user's own manager is asked, and the machine's if systemd is the init there.
    """
    environment, user = installation.environment, name_of(installation.owner)
    if not is_there("systemctl", environment):
        return
    manager = ("--user", f"--machine={user}@") if installation.is_anothers else ("--user",)
    of_machine = (("runward.service",), (f"runward@{user}.service",)) if BOOTED.is_dir() else ()
    for words in ((*manager, "runward.service"), *of_machine):
        unit = _shown(words, environment, patience)
        if unit is not None:
            yield unit


def _shown(words: tuple[str, ...], environment: Mapping[str, str], patience: Patience) -> Unit | None:
    """What systemd says about a unit; None if it doesn't answer."""
    flags = [word for name in _PROPERTIES for word in ("--property", name)]
    ended = end_of(["systemctl", *words[:-1], "show", *flags, words[-1]], environment, patience, _WITHIN_S)
    if ended.code != 0:
        return None
    lines = (line.partition("=") for line in ended.out.splitlines())
    return Unit(words, {name: value for name, _, value in lines})


def _of_unit(unit: Unit, installation: Installation) -> Iterator[Finding]:
    message = f"unit {' '.join(unit.words)} ({unit.properties.get('FragmentPath') or 'no file'})"
    load, active = unit.properties.get("LoadState"), unit.properties.get("ActiveState")
    if load != "loaded":
        why = unit.properties.get("LoadError") or load
        yield Finding("failed", f"{message} can't be loaded: {why}", f"fix it, or {_install(installation)}")
        return
    if not unit.properties.get("UnitFileState", "").startswith("enabled"):
        yield Finding(
            "warning",
            f"{message} isn't enabled: it isn't started automatically",
            unit.systemctl("enable --now"),
        )
    if active == "failed":
        why = unit.systemctl("status")
        yield Finding("failed", f"{message} failed", f"`{why}` says why; then `{unit.systemctl('restart')}`")
    elif active == "active":
        yield _of_active(unit, message, installation)
    else:
        yield Finding("warning", f"{message} is {active}", unit.systemctl("start"))


def _of_active(unit: Unit, message: str, installation: Installation) -> Finding:
    main, pid = unit.properties.get("MainPID", "0"), holder(installation.state)
    if pid is not None and pid and str(pid) != main:
        return Finding(
            "failed",
            f"{message} is active as process {main}, but process {pid} has {installation.state} locked",
            f"stop that one, then `{unit.systemctl('restart')}`",
        )
    return Finding("ok", f"{message} is active")


def _of_other(unit: Unit, installation: Installation, ours: Sequence[Unit]) -> Finding:
    """A unit over another state directory. That matters only if no unit has this one."""
    message = f"unit {' '.join(unit.words)} ({unit.properties.get('FragmentPath') or 'no file'})"
    theirs, state = unit.state_dir or "", installation.settings.state_dir
    if ours:
        return Finding("ok", f"{message} keeps its state in {theirs}: that is another installation")
    user = unit.properties.get("User") or name_of(os.geteuid())
    if unit.is_users or user == name_of(os.geteuid()):
        fix = f"set RUNWARD_STATE_DIR={shlex.quote(theirs)} for the command, or state_dir in the settings of both"
    else:
        fix = f"`{run_as(user, theirs, 'doctor')}` examines that one; {_install(installation)} installs one over {state}"
    return Finding("warning", f"{message} keeps its state in {theirs}, but this command uses {state}", fix)


def _lingering(user: str) -> Finding:
    if is_lingering(user):
        return Finding("ok", f"{user} lingers: the daemon also runs while no one is logged in")
    message = f"{user} doesn't linger: the daemon ends with the last login, and doesn't start after a reboot"
    return Finding("warning", message, f"loginctl enable-linger {user}")


_WRITING: Final = os.O_WRONLY | os.O_RDWR
_TWICE_S: Final = 1.0


class Opened(NamedTuple):
    """A process that has a state directory's files open: the lock, the store to write to it."""

    pid: int
    has_lock: bool
    writes: bool


def examine_daemon(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Who has the lock, who has the store open, and when the daemon last gave a sign of life."""
    state = installation.state
    pid = holder(state)
    # The lock keeps out other daemons, but no other program that opens the store.
    for other in _others(state, pid, patience):
        yield _second(other, pid)
    yield from _of_namespace(installation)
    if pid is None:
        unit = how_to("start", installation, patience)
        alone = how_to_start_daemon(installation.settings.state_dir)
        fix = f"start the unit: {unit}" if unit else f"start `{alone}`"
        yield Finding("warning", f"no daemon runs over {state}", fix)
        return
    yield _of_running(pid, read_report(state), installation, patience)


def _of_namespace(installation: Installation) -> Iterator[Finding]:
    """Whether a daemon here could see the processes of the sessions that it follows."""
    followed = sorted({root.layout for root in installation.settings.roots if root.layout != NATIVE})
    if followed and pid_namespace() not in (None, FIRST_NAMESPACE):
        yield Finding(
            "warning",
            f"this is a PID namespace of its own, as in a container: agents outside of it can't be seen, so sessions"
            f" ({', '.join(followed)}) whose process is missing stay unknown",
            "if agents run outside of it, start the container with --pid=host",
        )


def _others(state: Path, pid: int | None, patience: Patience) -> list[Opened]:
    """Who else could write. Checked twice, because a process that can't get the lock has it open for a moment."""
    seen = [_writers(state, pid, patience)]
    if seen[0]:
        patience.pause(_TWICE_S)
        seen.append(_writers(state, pid, patience))
    return [each for each in seen[-1] if each in seen[0]]


def _writers(state: Path, pid: int | None, patience: Patience) -> list[Opened]:
    writers = [each for each in _openers(state, patience) if each.pid not in (pid, os.getpid())]
    return [each for each in writers if each.writes or each.has_lock]


def _second(other: Opened, pid: int | None) -> Finding:
    how = f"alongside daemon {pid}" if pid else "without the lock"
    return Finding(
        "failed",
        f"process {other.pid} has the store open to write to it, {how}",
        f"see what it is (`ps -p {other.pid} -f`) and end it; the epoch keeps an older daemon from writing",
    )


def _of_running(pid: int, report: Report | None, installation: Installation, patience: Patience) -> Finding:
    who = f"daemon {pid}" if pid else "a daemon"
    if report is None or report.pid != pid:
        return Finding("warning", f"{who} has the lock but has not reported yet", "wait, then try again")
    stalled = report.stalled_s()
    if stalled is None and report.version == __version__:
        message = f"{who} is the only one running, with epoch {report.epoch} and this program's version {__version__}"
        return Finding("ok", message)
    unit = how_to("restart", installation, patience, pid)
    restart = f"restart it: {unit}" if unit else "end it and start it again, by what started it"
    if stalled is not None:
        message = f"{who} has the lock but has not responded for {stalled:.0f} s: it is stopped, or stuck"
        return Finding("failed", message, f"see `runward log`; {restart}")
    return Finding("warning", f"{who} is Runward {report.version}, this program is {__version__}", restart)


def _openers(state: Path, patience: Patience) -> list[Opened]:
    """The processes that have the lock or the store open, as far as they may be looked into."""
    wanted = (str(state.resolve() / LOCK), str(state.resolve() / STORE))
    openers = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        patience.left()
        lock, store = _flags(pid, wanted)
        if lock is not None or store is not None:
            openers.append(Opened(int(pid), (lock or 0) & _WRITING != 0, (store or 0) & _WRITING != 0))
    return openers


def _flags(pid: str, wanted: Sequence[str]) -> list[int | None]:
    """The open(2) flags with which a process has each of these files open; None if it hasn't."""
    access: dict[str, int] = {}
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = os.readlink(f"/proc/{pid}/fd/{name}")
            if path in wanted:
                access[path] = access.get(path, 0) | _flags_of(f"/proc/{pid}/fdinfo/{name}")
    except OSError:
        pass  # gone or closed meanwhile, or another user's: what was seen until then counts
    return [access.get(path) for path in wanted]


def _flags_of(path: str) -> int:
    with open(path, encoding="ascii") as file:
        line = next((each for each in file if each.startswith("flags:")), "flags: 0")
    return int(line.split()[1], 8)
