"""A launch: the run directory, the command in it, and its record from `run.json` to `exit.json`.

It needs no daemon. Whatever happens once `run.json` exists, `exit.json` is written, unless this process itself is
killed; then `process.json` says who the command is.
"""

from __future__ import annotations

import os
import select
import signal
import time

from runward.daemon.faults import point
from runward.daemon.launch import record
from runward.daemon.launch.cgroup import Held, spawn
from runward.daemon.launch.command import NOT_EXECUTABLE, GatedCommand, fork_command
from runward.daemon.launch.containment import cgroup_ahead, contain
from runward.daemon.launch.output import PassedStream, open_sink
from runward.daemon.launch.record import Announcement
from runward.daemon.launch.supervision import (
    BY_THE_SYSTEM,
    SHUTDOWN,
    Ending,
    Preparation,
    SignalInbox,
    Silence,
    Supervision,
    never_began,
    pass_on_rest,
    with_more,
)
from runward.daemon.processes.cancelling import read_word
from runward.daemon.processes.kernel import hide_memory
from runward.daemon.processes.proc import identity_of, pid_namespace
from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runward.config.json_value import JsonValue
    from runward.daemon.disk.durable import ReservedFile
    from runward.daemon.launch.cgroup import Cgroup
    from runward.daemon.launch.channel import DaemonSpokenTo
    from runward.daemon.launch.containment import Containment
    from runward.daemon.launch.record import RunDirectory
    from runward.daemon.processes.proc import ProcessIdentity


_HEX = frozenset("0123456789abcdef")
_OUR_MISTAKE = 125
"""The exit code of docker(1) and timeout(1) when they themselves fail."""
DEFAULT_LOG_LIMIT = 100 << 20
"""The setting's default, repeated here because importing the settings costs the launcher too much. A test compares them."""
_LOGS = {1: record.LOGS[0], 2: record.LOGS[1]}


class Order(Value):
    """What to launch. `root` is where run directories are, `artifacts` absolute or None for the run's own.

    `state` is the state directory of the daemon that watches the root, which it calls `root_name`; None if no daemon
    watches it. `cwd` is the command's directory, None for the launcher's own. If there is a `worktree`, `cwd` is made
    as a worktree of a git repository at a ref. `metadata` is for `run.json`, `stale_after` are the seconds of silence
    that end the run. `ticket` is what the launcher holds for this run, if it carries out others afterwards. `low_disk` is
    the setting, if there are settings, `log_limit` the bytes of each log.
    """

    command: tuple[str, ...]
    root: str
    name: str | None = None
    playbook: str | None = None
    agent: str | None = None
    contract: JsonValue = None
    artifacts: str | None = None
    timeout: float | None = None
    stale_after: float | None = None
    grace: float = 5.0
    containment: str = "auto"
    kind: str = "agent"
    invocation_id: str | None = None
    cwd: str | None = None
    worktree: tuple[str, str] | None = None
    metadata: Mapping[str, JsonValue] | None = None
    ticket: str | None = None
    low_disk: int | None = None
    log_limit: int = DEFAULT_LOG_LIMIT
    state: str | None = None
    root_name: str = "runs"


class Launched(Value):
    """The result of a launch; `complaints` are for people to read.

    `is_told` says that the daemon recorded it and was told of its end, and that nothing of the run is left alive.
    """

    session_id: str
    path: str
    artifacts: str
    started_at: float
    ending: Ending
    complaints: tuple[str, ...]
    is_told: bool


def launch(
    order: Order,
    environment: Mapping[str, str],
    directory: RunDirectory | None = None,
    before_release: Callable[[bool], None] = lambda is_recorded: None,
    channel: DaemonSpokenTo | None = None,
) -> Launched:
    """Runs the command to its end, in the empty run `directory` or else in a new one.

    `before_release` is called when everything is recorded and the command may be released; it is told whether the
    daemon has recorded the launch. If it raises OSError, the command is not released. Over the `channel` the launch is
    announced to the daemon that ordered it, if it is there.

    Raises FileExistsError if the name is taken, ContainmentUnavailable, and OSError if there can be no run directory.
    In these cases nothing was started, and nothing is left.
    """
    # A caller may have closed 0, 1 or 2. A pipe of ours would then get such a number, and become the
    # command's stream.
    _open_standard_streams()
    # Before anything is made: from here on a signal is read and answered, and doesn't kill the launcher in
    # the middle.
    signals = SignalInbox()
    started_at = time.time()
    if directory is None:
        directory = record.make_run_directory(order.root, order.name or record.new_name(started_at))
    point("launch.directory")
    try:
        return _Launch(
            order=order,
            environment=environment,
            directory=directory,
            signals=signals,
            started_at=started_at,
            before_release=before_release,
            channel=channel,
        ).run()
    finally:
        directory.close()


class _Launch:
    def __init__(
        self,
        order: Order,
        environment: Mapping[str, str],
        directory: RunDirectory,
        signals: SignalInbox,
        started_at: float,
        before_release: Callable[[bool], None],
        channel: DaemonSpokenTo | None,
    ) -> None:
        self._order = order
        self._before_release = before_release
        self._channel = channel
        self._is_recorded = False
        self._is_told = False
        self._directory = directory
        self._signals = signals
        self._started_at = started_at
        self._artifacts = order.artifacts or os.path.join(directory.path, record.ARTIFACTS)
        self._environment = {**environment, **self._session_variables(environment)}
        self._streams: list[PassedStream] = []
        self._complaints: list[str] = []
        self._announcement: Announcement | None = None
        self._launcher = identity_of(os.getpid())
        self._process: ProcessIdentity | None = None
        self._cgroup: Cgroup | None = None
        """The cgroup that was made for the command before it existed."""
        self._is_inside = False
        """Whether the command began in it."""

    def run(self) -> Launched:
        command, containment, room = self._prepare()
        ending, left = self._perform(command, containment)
        # Only now, when the whole tree is dead: closing gives up the hold.
        containment.close()
        ending = _by_whom(ending)
        point("launch.ended")
        complaints = [ending.error] if ending.error is not None else []
        secret = tell = None
        if self._announcement is not None:
            secret = self._announcement.secret
        if self._is_recorded and self._channel is not None:
            tell = self._tell_end
        # Announced once more. The command could remove the first note from the inbox, since it runs as the
        # same user. What the daemon has recorded is not there any more.
        elif self._announcement is not None:
            try:
                self._announcement.put()  # the whole run is dead by now, and can't remove it
            except OSError as error:
                complaints.append(f"the inbox can't be written: {error}")
        point("launch.announced_again")
        try:
            # Last of all: a renamed `exit.json` means that the run is over, and the daemon judges it. The
            # secret in it shows that it is from this launcher, and not from the command.
            self._directory.write_exit(room, ending, secret, tell)
        except OSError as error:
            complaints.append(f"exit.json can't be written: {error}")
        point("launch.exit_json")
        self._make_durable()
        complaints += [*self._complaints, *self._finish(ending)]
        if left:
            complaints.append(f"could not be killed and are still alive: {' '.join(map(str, sorted(left)))}")
        return Launched(
            session_id=self._directory.name,
            path=self._directory.path,
            artifacts=self._artifacts,
            started_at=self._started_at,
            ending=ending,
            complaints=tuple(complaints),
            is_told=self._is_told and not left,
        )

    def _prepare(self) -> tuple[GatedCommand, Containment, ReservedFile]:
        """Everything before `run.json`, and `run.json` itself. If any of it fails, nothing is left of it."""
        command: GatedCommand | None = None
        containment: Containment | None = None
        try:
            os.makedirs(self._artifacts, mode=0o700, exist_ok=True)
            streams = self._open_streams()
            # The command exists before it is recorded, because its identity is part of the record. It waits
            # at its gate meanwhile.
            command = self._fork(streams)
            for descriptor in streams.values():
                os.close(descriptor)
            point("launch.forked")
            containment = self._contain(command)
            point("launch.contained")
            # Reserved while there is some room: a run that filled the disk must still be able to record its
            # end.
            room = self._directory.reserve_exit()
            self._seal(command, containment.cgroup)
            # Before `run.json`: a reader that sees the run can then see that a launcher began it. A daemon that
            # ordered the run looks at it only when it was told, or knows that it won't be.
            if self._announcement is not None and self._channel is None:
                self._announcement.put()
            point("launch.announced")
            self._directory.write_json(record.RUN, self._run_json(containment.name))
        except BaseException:
            if command is not None:
                # The order matters: first the command ends, then its hold is given up, then the directory is
                # removed.
                command.abandon()
            if containment is not None:
                containment.close()
            elif self._cgroup is not None:
                self._cgroup.remove()
            self._directory.discard()  # without run.json nobody took it for a session
            raise
        point("launch.run_json")
        return command, containment, room

    def _seal(self, command: GatedCommand, cgroup: str | None) -> None:
        """Make what the daemon is told, bypassing the run. The command was forked before, so it has no copy of the secret."""
        order = self._order
        if order.state is None:
            return
        # The command runs as the same user, and could read the secret out of our memory.
        self._directory.lock()
        hide_memory()
        self._announcement = Announcement(
            state=order.state,
            session_key=f"native:{order.root_name}/{self._directory.name}",
            at=self._started_at,
            launcher=self._launcher,
            process=self._identity_of(command),
            contract=order.contract,
            timeout=order.timeout,
            grace=order.grace,
            cgroup=cgroup,
            ticket=order.ticket,
        )

    def _identity_of(self, command: GatedCommand) -> ProcessIdentity:
        """Asked once: until the launcher waits for it, its number is nobody else's. Raises ProcessLookupError."""
        if self._process is None:
            self._process = identity_of(command.pid)
        return self._process

    def _tell(self) -> None:
        """Announce the launch over the channel; if the daemon doesn't say that it is recorded, in its inbox. Raises OSError."""
        if self._channel is None or self._announcement is None:
            return
        self._is_recorded = self._channel.announce(self._announcement.content)
        # Once the store has recorded the launch, `process.json` may wait: it is made durable while the command runs, or when
        # it has ended.
        if not self._is_recorded:
            self._directory.make_durable()
            self._announcement.put()

    def _tell_end(self) -> None:
        assert self._channel is not None
        point("launch.renamed")
        self._is_told = self._channel.ended()
        point("launch.told")

    def _perform(self, command: GatedCommand, containment: Containment) -> tuple[Ending, frozenset[int]]:
        """Releases the command, and watches until it and its whole tree have ended."""
        order = self._order
        try:
            # Before the release, so that a daemon can end the command even if the launcher is killed right
            # after it.
            process = record.process_json(self._identity_of(command))
            self._directory.write_json(record.PROCESS, process, is_synced=self._channel is None)
            point("launch.process_json")
            preparation = Preparation(
                self._signals, order.timeout, lambda: read_word(self._directory.descriptor)
            )
            too_soon = self._make_worktree(preparation)
            if too_soon is not None:
                return self._give_up(command, containment, too_soon)
            # The command waits for it: were it released before its launch is durable, it could remove every trace
            # of its launcher, and pass for a run that was written by hand.
            self._tell()
            point("launch.recorded")
            # The start's ticket is marked here. After it no other launcher begins this start, so the release
            # may follow.
            self._before_release(self._is_recorded)
        except OSError as error:
            why = f"{record.as_text(order.command[0])}: it can't be recorded: {error}"
            return self._give_up(command, containment, _not_started(why))
        # The daemon's own deadline counts from the beginning of the launch. So what git took is no extra time.
        timeout = order.timeout if order.worktree is None else preparation.seconds_left()
        command.release()
        point("launch.released")
        silence = None
        if order.stale_after is not None:
            silence = Silence(order.stale_after, self._directory.descriptor)
        supervision = Supervision(
            command,
            program=record.as_text(order.command[0]),
            signals=self._signals,
            streams=self._streams,
            containment=containment,
            timeout=timeout,
            grace=order.grace,
            is_interactive=os.isatty(0) and os.isatty(1),
            read_order=lambda: read_word(self._directory.descriptor),
            silence=silence,
            settle=self._make_durable,
        )
        try:
            return supervision.run()
        except Exception as error:  # noqa: BLE001  # a bug of Runward: the run's record must not miss its end
            # Nothing may go on without being watched, and the record must get its end.
            killed = containment.kill()
            message = f"the launcher failed: {type(error).__name__}: {error}"
            return Ending("exited", _OUR_MISTAKE, None, time.time(), 0.0, error=message), killed.left

    def _make_durable(self) -> None:
        try:
            self._directory.make_durable()
        except OSError as error:
            self._complaints.append(f"its files can't be made durable: {error}")

    def _make_worktree(self, preparation: Preparation) -> Ending | None:
        """Makes the directory in which the command starts, if it is a worktree; returns how the run ends if there is none."""
        order = self._order
        if order.worktree is None or order.cwd is None:
            return None
        from runward.daemon.launch.worktree import CutShort, GitFailed, make  # nothing for those without

        endings: list[Ending] = []

        def must_end() -> bool:
            ending = preparation.ending()
            if ending is not None:
                endings.append(never_began(ending, "its worktree was still being made"))
            return ending is not None

        try:
            make(*order.worktree, order.cwd, must_end)
        except CutShort:
            return endings[0]
        except GitFailed as error:
            return _not_started(f"its worktree can't be made: {error}")
        return None

    def _fork(self, streams: Mapping[int, int]) -> GatedCommand:
        order, mask = self._order, self._signals.caller_mask
        if order.containment == "pidns":
            from runward.daemon.launch.command import fork_namespaced_command

            return fork_namespaced_command(
                order.command, self._environment, streams=streams, signal_mask=mask, cwd=order.cwd
            )
        self._cgroup = cgroup_ahead(order.containment, self._directory.name)
        return fork_command(
            order.command,
            self._environment,
            streams=streams,
            signal_mask=mask,
            cwd=order.cwd,
            fork=self._fork_inside,
        )

    def _fork_inside(self) -> int:
        """fork(2), with the child in its cgroup if there is one, and if the kernel lets it begin there."""
        pid = None if self._cgroup is None else self._cgroup.fork()
        self._is_inside = pid is not None
        return os.fork() if pid is None else pid

    def _contain(self, command: GatedCommand) -> Containment:
        order = self._order
        longest = order.timeout + order.grace if order.timeout is not None else None
        held = Held(
            pid=command.pid,
            own=command.own,
            name=self._directory.name,
            longest=longest,
            cgroup=self._cgroup,
            is_inside=self._is_inside,
        )
        return contain(order.containment, held)

    def _open_streams(self) -> dict[int, int]:
        """What the command writes to, by its descriptor: pipes, or a terminal if ours is one."""
        write_ends: dict[int, int] = {}
        for number, log_name in _LOGS.items():
            if os.isatty(number):
                if 1 in write_ends and os.isatty(1) and os.fstat(1).st_rdev == os.fstat(number).st_rdev:
                    write_ends[number] = os.dup(
                        write_ends[1]
                    )  # one screen: the log has the order that is shown
                else:
                    self._open_terminal(number, log_name, write_ends)
                continue
            source, write_ends[number] = os.pipe()
            # One loop serves all streams, so none may make it wait.
            os.set_blocking(source, False)
            log = self._directory.open_log(log_name, self._order.log_limit)
            self._streams.append(PassedStream(source, log, open_sink(number), self._order.low_disk))
        return write_ends

    def _open_terminal(self, number: int, log_name: str, write_ends: dict[int, int]) -> None:
        from runward.daemon.launch.terminal import TerminalStream, open_terminal  # nothing for those without

        try:
            near, write_ends[number] = open_terminal(number)
        except OSError as error:  # the command gets the terminal as it is
            self._complaints.append(
                f"what it wrote to the terminal is not recorded: no pseudo-terminal: {error}"
            )
            return
        log = self._directory.open_log(log_name, self._order.log_limit)
        self._streams.append(TerminalStream(near, number, log, open_sink(number), self._order.low_disk))

    def _give_up(
        self, command: GatedCommand, containment: Containment, ending: Ending
    ) -> tuple[Ending, frozenset[int]]:
        """Ends the command at its gate, and what git left of a worktree: its filters, its helpers."""
        command.abandon()
        left = frozenset[int]() if containment.is_empty() else containment.kill().left
        for stream in self._streams:
            stream.close_source()
        return ending, left

    def _finish(self, ending: Ending) -> list[str]:
        """Gives readers the rest of the output; returns any problems."""
        is_stopped = ending.cause in ("timed_out", "cancelled")
        pass_on_rest(self._streams, self._signals, self._order.grace if is_stopped else None)
        self._signals.close()
        complaints = []
        is_cut_off = ending.signal is not None or is_stopped
        for stream in self._streams:
            stream.restore(is_cut_off=is_cut_off)
            stream.close_log()
            if stream.log_problem is not None:
                complaints.append(f"the log of the run is incomplete: {stream.log_problem}")
            if stream.log_omitted:
                complaints.append(f"{stream.log_omitted} bytes are left out of the run's log (log_limit)")
            if stream.sink_problem is not None and not isinstance(stream.sink_problem, ConnectionError):
                complaints.append(f"the output could not be passed on: {stream.sink_problem}")
        return complaints

    def _session_variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        return {
            "RUNWARD_SESSION_ID": self._directory.name,
            "RUNWARD_RUN_DIR": self._directory.path,
            "RUNWARD_ARTIFACTS_DIR": self._artifacts,
            "TRACEPARENT": child_traceparent(environment.get("TRACEPARENT")),
        }

    def _run_json(self, containment: str) -> dict[str, JsonValue]:
        order = self._order
        return {
            "schema": record.SCHEMA,
            "session_id": self._directory.name,
            "kind": order.kind,
            "playbook": order.playbook,
            "agent": order.agent,
            "contract": order.contract,
            "invocation_id": order.invocation_id,
            "started_at": record.iso_time(self._started_at),
            "host": os.uname().nodename,
            "launcher": {
                **record.process_json(self._launcher),
                "uid": os.getuid(),
                "pid_namespace": pid_namespace(),
                **({} if order.ticket is None else {"ticket": order.ticket}),
            },
            "containment": containment,
            "command": [record.as_text(argument) for argument in order.command],
            "cwd": _directory(order.cwd),
            "artifacts_path": record.ARTIFACTS
            if order.artifacts is None
            else record.as_text(order.artifacts),
            "timeout": order.timeout,
            "metadata": {**(order.metadata or {}), "traceparent": self._environment["TRACEPARENT"]},
        }


def _not_started(why: str) -> Ending:
    return Ending("not_started", NOT_EXECUTABLE, None, time.time(), 0.0, error=why)


def _by_whom(ending: Ending) -> Ending:
    """The ending, with the system's shutdown as cause if it sent the signal to the launcher or the command."""
    # systemd is asked only where a shutdown is possible, because asking takes time.
    if ending.cause not in ("cancelled", "signalled") or ending.signal not in BY_THE_SYSTEM:
        return ending

    if not is_system_stopping(os.environ):
        return ending
    return with_more(ending._replace(cause="cancelled", signal=None, error=SHUTDOWN), ending.error)


def _directory(named: str | None) -> str | None:
    """The directory that the command starts in; None if the launcher's own was deleted."""
    try:
        return record.as_text(os.path.join(os.getcwd(), named or "").rstrip("/") or "/")
    except FileNotFoundError:
        return None if named is None else record.as_text(named)


def child_traceparent(parent: str | None) -> str:
    """A W3C trace context for the command: in the caller's trace if there is one, as a span of its own."""
    span = os.urandom(8).hex()
    fields = (parent or "").split("-")
    is_well_formed = [len(field) for field in fields] == [2, 32, 16, 2] and set("".join(fields)) <= _HEX
    if is_well_formed and fields[0] == "00" and fields[1].strip("0") and fields[2].strip("0"):
        return f"00-{fields[1]}-{span}-{fields[3]}"
    return f"00-{os.urandom(16).hex()}-{span}-01"


def _open_standard_streams() -> None:
    """Makes sure that 0, 1 and 2 are open: otherwise a pipe of the launcher could get such a number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


_PATIENCE_MS = 2000
_QUESTION = ("systemctl", "is-system-running")
_YES = b"stopping"


# systemd is asked with its own tool, once, after the run has ended. Without systemd, or without an answer in
# time, only the signal itself is known.
def is_system_stopping(environment: Mapping[str, str]) -> bool:
    """Whether systemd is shutting down; False if it can't be asked."""
    try:
        return _ask(environment) == _YES
    except OSError:
        return False


def _ask(environment: Mapping[str, str]) -> bytes:
    pid, answer = spawn(_QUESTION, environment, 1)
    try:
        return _read(answer).strip()
    finally:
        os.close(answer)
        os.kill(pid, signal.SIGKILL)  # it is not waited for yet, so its number can't have been reused
        os.waitpid(pid, 0)


def _read(descriptor: int) -> bytes:
    """The answer's one line; empty if it takes too long."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return os.read(descriptor, 100) if poll.poll(_PATIENCE_MS) else b""
