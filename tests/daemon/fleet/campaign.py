"""A campaign against a fleet: real daemons with their programs, a real database, and what kills, freezes and silences them at random.

Every host orders steps of any. Each command appends the word of its order to one file. At the end nothing fails any more, and
the laws are held against what became of it all.
"""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import invited, new_place
from tests.daemon.launching import is_alive, members
from tests.demo.cable import Cable
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.host.fleet_reports import PROGRAM
from runward.daemon.launch import detached

HOSTS: Final = ("laptop", "gpu-box", "farm")
CHAIN: Final = """\
name: show
trigger: {manual: true}
steps:
  - {id: there, skill: there, host: {label: any}, with: {word: "{{ trigger.word }}", seconds: "{{ trigger.seconds }}"}}
  - {id: here, skill: here, with: {word: "{{ trigger.word }}"}, condition: "{{ steps.there.outcome.passed }}"}
"""
THERE: Final = """\
name: there
command:
  - sh
  - -c
  - 'echo "there $1" >> "$0"; sleep "$2";
     echo "{\\"outcome_kind\\": \\"ci_result\\", \\"summary\\": \\"did $1\\", \\"passed\\": true}" > "$RUNWARD_ARTIFACTS_DIR/outcome.json"'
  - DID
  - "{{ with.word }}"
  - "{{ with.seconds }}"
"""
HERE: Final = 'name: here\ncommand: [sh, -c, \'echo "here $1" >> "$0"\', DID, "{{ with.word }}"]\n'
ACCEPT: Final = '\n[[fleet.accept]]\nfrom = ["*"]\nskills = ["there"]\n'

MOST_TO_HEAL_S: Final = 240.0
"""Seconds after the last fault in which everything must be over."""


class Extent(NamedTuple):
    """How much happens. `freeze` and `silence` are seconds, at most."""

    kills: int
    orders: int
    freeze: float
    silence: float


class Machine:
    """A host, whose daemon and program may be dead or frozen, and whose cable may be pulled."""

    def __init__(self, place: Place, name: str, cable: Cable) -> None:
        self.place, self.name, self.cable = place, name, cable
        self._daemon: subprocess.Popen[bytes] | None = None
        self.later: list[tuple[float, Callable[[], None]]] = []
        """What ends again, and when (monotonic)."""

    def start(self) -> None:
        """A daemon, if none runs."""
        if self.pid_of_daemon() is None:
            with (self.place.directory / "said").open("ab") as said:
                self._daemon = subprocess.Popen(
                    self.place.argv("daemon"),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    cwd=self.place.directory,
                    env=self.place.environment,
                )

    def pid_of_daemon(self) -> int | None:
        return None if self._daemon is None or self._daemon.poll() is not None else self._daemon.pid

    def pid_of_program(self) -> int | None:
        """Of one that runs, though its daemon may be dead."""
        for entry in os.listdir("/proc"):
            if entry.isdigit() and is_alive(int(entry)):
                words = _words(int(entry))
                if os.fsencode(PROGRAM) in words and os.fsencode(self.place.state) in words:
                    return int(entry)
        return None

    def stop(self, ending: signal.Signals) -> None:
        """Its daemon, and wait for its end."""
        if self._daemon is not None:
            self._daemon.send_signal(ending)
            self._daemon.wait(PATIENCE_S)
            self._daemon = None

    def end_what_is_due(self, now: float) -> None:
        """What was frozen or silent until now."""
        due = [what for until, what in self.later if until <= now]
        self.later = [each for each in self.later if each[0] > now]
        for what in due:
            what()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return self.place.rows(query)


def _words(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def _wake(pid: int, is_it: Callable[[], bool]) -> None:
    """Let a process go on, if its number still means it."""
    if is_it():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


class Campaign:
    """One campaign, under a seed. `struck` counts what was done to whom."""

    def __init__(
        self, server: Server, database: str, machines: Mapping[str, Machine], base: Path, seed: int
    ) -> None:
        self.server, self.database, self.machines, self.base = server, database, machines, base
        self.dice = random.Random(seed)
        self.struck: Counter[str] = Counter()
        self.fired: Counter[str] = Counter()
        """How many chains each host fired."""
        self._strikes: Mapping[str, tuple[int, Callable[[Machine], bool]]] = {
            "daemon": (3, self._kill_daemon),
            "program": (3, self._kill_program),
            "run": (3, self._kill_run),
            "backend": (2, self._kill_backend),
            "server": (1, self._kill_server),
            "frozen daemon": (1, self._freeze_daemon),
            "frozen program": (1, self._freeze_program),
            "silent network": (1, self._silence),
            "silent answers": (1, self._hold_answers),
        }
        """By name: how often it comes in so many, and what it does to a host; which returns whether there was anything to strike."""

    def play(self, extent: Extent) -> None:
        """Until so many were killed. Then let all come to rest."""
        self.extent = extent
        for machine in self.machines.values():
            machine.start()
        dice = self.dice
        while self.kills() < extent.kills:
            if self.fired.total() <= extent.orders * self.kills() / extent.kills:
                self._fire(dice.choice([*self.machines.values()]))
            shares = [share for share, _ in self._strikes.values()]
            (what,) = dice.choices([*self._strikes], shares)
            if self._strikes[what][1](dice.choice([*self.machines.values()])):
                self.struck[what] += 1
            # Not to wait for anything: whatever goes on now is what the next one strikes.
            time.sleep(dice.choice((0.0, 0.1, 0.3, 1.0)))
            for each in self.machines.values():
                each.end_what_is_due(time.monotonic())
                if dice.random() < 0.5:
                    each.start()
        self._heal()

    def kills(self) -> int:
        return sum(self.struck[what] for what in ("daemon", "program", "run", "backend", "server"))

    def _fire(self, machine: Machine) -> None:
        word = f"{machine.name}-{self.fired[machine.name]}"
        told = machine.place.call(
            "chain", "fire", "show", f"word={word}", f"seconds={self.dice.choice((0, 0.5, 2))}"
        )
        assert told.code == 0, told.err
        self.fired[machine.name] += 1

    def _kill_daemon(self, machine: Machine) -> bool:
        if machine.pid_of_daemon() is None:
            return False
        # Most of them had the time to begin, however slow the machine is.
        if machine.pid_of_program() is None and self.dice.random() < 0.7:
            return False
        machine.stop(signal.SIGKILL)
        return True

    def _kill_program(self, machine: Machine) -> bool:
        pid = machine.pid_of_program()
        return pid is not None and _sent(pid, signal.SIGKILL)

    def _kill_run(self, machine: Machine) -> bool:
        """A launcher, or a process of a step."""
        found = [*members(str(machine.place.runs)), *_launchers(machine)]
        return bool(found) and _sent(self.dice.choice(found), signal.SIGKILL)

    def _kill_backend(self, machine: Machine) -> bool:
        """The database's process that serves this host: the server drops all connections, and recovers."""
        login = f"host_{machine.name.replace('-', '_')}"
        try:
            with self.server.admin(self.database) as admin:
                rows = admin.execute(
                    "select pid from pg_stat_activity where usename = %s", (login,)
                ).fetchall()
        except psycopg.OperationalError:
            return False
        return bool(rows) and _sent(int(str(rows[0][0])), signal.SIGKILL)

    def _kill_server(self, machine: Machine) -> bool:
        self.server.kill()
        self.server.start()
        return True

    def _freeze_daemon(self, machine: Machine) -> bool:
        pid = machine.pid_of_daemon()
        if pid is None or not _sent(pid, signal.SIGSTOP):
            return False
        self._until(machine, self.extent.freeze, lambda: _wake(pid, lambda: machine.pid_of_daemon() == pid))
        return True

    def _freeze_program(self, machine: Machine) -> bool:
        pid = machine.pid_of_program()
        if pid is None or not _sent(pid, signal.SIGSTOP):
            return False
        words = _words(pid)
        self._until(machine, self.extent.freeze, lambda: _wake(pid, lambda: _words(pid) == words))
        return True

    def _silence(self, machine: Machine) -> bool:
        machine.cable.pull()
        self._until(machine, self.extent.silence, machine.cable.plug_in)
        return True

    def _hold_answers(self, machine: Machine) -> bool:
        machine.cable.hold_answers()
        self._until(machine, self.extent.silence, machine.cable.plug_in)
        return True

    def _until(self, machine: Machine, longest: float, what: Callable[[], None]) -> None:
        # Most are short, so that not all stands still most of the time.
        lasts = longest * self.dice.choice((0.05, 0.1, 0.2, 1.0))
        machine.later.append((time.monotonic() + lasts, what))

    def _heal(self) -> None:
        for machine in self.machines.values():
            machine.end_what_is_due(float("inf"))
            machine.cable.plug_in()
            machine.start()
        try:
            wait_for(lambda: not self.open_ends(), "that all is over", within=MOST_TO_HEAL_S)
        except AssertionError as error:
            error.add_note(str(self))
            raise

    def open_ends(self) -> list[str]:
        """What is not over yet."""
        found = []
        for name, machine in self.machines.items():
            runs = machine.rows("select status from chain_runs")
            if len(runs) != self.fired[name] or ("running",) in runs:
                found.append(f"{name} has fired {self.fired[name]}: {Counter(runs)}")
            owed = machine.rows("select kind, subject from fleet_outbox")
            if owed:
                found.append(f"{name} owes {owed}")
            steps = machine.rows("select 1 from invocations where status = 'running'")
            if steps:
                found.append(f"{name} runs {len(steps)} steps")
            # Each attempt that ended gets a receipt, after its verdict.
            bare = machine.rows(
                "select key from sessions s where not exists (select 1 from receipts r where r.session_key = s.key)"
            )
            if bare:
                found.append(f"{name} has no receipt of {bare}")
        found += [f"not settled: {each}" for each in self.orders() if each[-1] is not True]
        return found

    def orders(self) -> list[tuple[object, ...]]:
        with self.server.admin(self.database) as admin:
            return admin.execute(
                "select origin, id, state, taken_by, result ->> 'status', body -> 'with' ->> 'word', settled_at is not null"
                " from runward.orders order by origin, id"
            ).fetchall()

    def did(self) -> Counter[str]:
        """How often each command ran."""
        path = self.base / "did"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    def hold_laws(self) -> None:
        """Of what became of it all."""
        did = self.did()
        assert [word for word, count in did.items() if count > 1] == [], "it ran more than once"
        orders = self.orders()
        assert Counter(str(each[0]) for each in orders) == self.fired, "each step was ordered once"
        # All accept all: what nobody had would be `declined`, and what nobody wanted `withdrawn`.
        assert [each for each in orders if each[2] != "ended"] == []
        for *_, status, word, _ in orders:
            if status == "completed":
                assert did[f"there {word}"] == 1, word
                assert did[f"here {word}"] <= 1, word
        for name, machine in self.machines.items():
            self._holds_of(name, machine, orders)
            told = machine.place.call("fleet", "verify")
            assert told.code == 0, told.out + told.err

    def _holds_of(self, name: str, machine: Machine, orders: list[tuple[object, ...]]) -> None:
        """Each of its steps ended as its order did, and all that it owed arrived."""
        steps = machine.rows("select status from chain_steps where step = 0")
        results = Counter((each[4],) for each in orders if each[0] == name)
        assert Counter(steps) == results
        with self.server.admin(self.database) as admin:
            sessions = admin.execute(
                "select key, status from runward.sessions where host = %s", (name,)
            ).fetchall()
            receipts = admin.execute(
                "select number, hash from runward.receipts where host = %s", (name,)
            ).fetchall()
        assert sorted(sessions) == sorted(machine.rows("select key, status from sessions"))
        assert sorted(receipts) == sorted(
            machine.rows("select seq, receipt_hash from receipts where receipt_hash is not null")
        )

    def left(self) -> list[str]:
        """The processes of this campaign that live."""
        mark = os.fsencode(self.base)
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdigit() and is_alive(int(entry)):
                words = b" ".join(_words(int(entry)))
                with suppress(OSError):
                    if mark in words or mark in os.fsencode(os.readlink(f"/proc/{entry}/cwd")):
                        found.append(f"{entry}: {words!r}")
        return found

    def __str__(self) -> str:
        return f"struck {dict(self.struck)}, fired {dict(self.fired)}, open {self.open_ends()}"


def _launchers(machine: Machine) -> list[int]:
    """Those of steps, and those that are kept for further ones."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            words = _words(int(entry))
            if os.fsencode(detached.__name__) in words and os.fsencode(machine.place.state) in words:
                found.append(int(entry))
    return found


def _sent(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def campaign(server: Server, database: str, office: Place, base: Path, seed: int) -> Iterator[Campaign]:
    """Three hosts, none of which runs yet. Whatever happens, nothing of them runs at the end."""
    with ExitStack() as stack:
        machines = {}
        for name in HOSTS:
            place = new_place(base / name)
            told = place.call("fleet", "join", invited(office, name, "--label", "any"))
            assert told.code == 0, told.err
            cable = stack.enter_context(Cable(server.port))
            _furnish(place, server, cable, base / "did")
            place.daemon_once()  # from here on it has a store to look at
            machines[name] = Machine(place, name, cable)
        made = Campaign(server, database, machines, base, seed)
        try:
            yield made
            for machine in machines.values():
                machine.stop(signal.SIGTERM)
            wait_for(lambda: not made.left(), "that nothing is left running")
        finally:
            for machine in machines.values():
                machine.end_what_is_due(float("inf"))
                machine.stop(signal.SIGKILL)
                for pid in members(str(machine.place.runs)):
                    _sent(pid, signal.SIGKILL)


def _furnish(place: Place, server: Server, cable: Cable, did: Path) -> None:
    fleet = place.directory / "runward.toml.d/fleet.toml"
    text = fleet.read_text()
    assert f":{server.port}/" in text
    fleet.write_text(text.replace(f":{server.port}/", f":{cable.port}/") + ACCEPT)
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + 'chains = ["chains"]\n')
    (place.directory / "chains").mkdir()
    (place.directory / "chains/show.yaml").write_text(CHAIN)
    for name, words in (("there", THERE), ("here", HERE)):
        (place.directory / f"playbooks/{name}.playbook.yaml").write_text(words.replace("DID", str(did)))
