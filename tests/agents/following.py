"""Real agents that a real daemon follows: each case has a home of its own, and one daemon watches all of them."""

import json
import sys
import threading
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from tests.agents.agents import CLAUDE, CODEX_NOW, Agent, Wish
from tests.agents.homes import Home, Run, make_home
from tests.agents.installed import NotToBeHadError, program
from tests.agents.replies import JsonObject
from tests.agents.scenarios import SCRIPTS, Glimpse, Stage
from tests.agents.scripted_model import Model
from tests.proof.place import Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

import runward.daemon

LAYOUTS: Final = {".claude/projects": "claude-code", ".codex/sessions": "codex"}
"""The layout of what an agent keeps where, below its home."""

DELIVERY: Final = "artifacts:\n  expected:\n    - {id: out, path: out.txt}\n"
"""The playbook of the cases that declare a deliverable."""

AT_ONCE: Final = 16
"""Cases that go on at the same time: each mostly waits."""

FRESH_S: Final = 0.05
"""Seconds for which one answer of the store is good enough for all who wait."""

_ENTRY: Final = "from runward.daemon.cli import main; main()"
_SOURCES: Final = Path(runward.daemon.__file__).parents[2]


OK: Final = "run.completed.ok"
API_ERROR: Final = "run.failed.api_error"
LIMIT: Final = "run.failed.limit_reached"
INTERRUPTED: Final = "run.aborted.user"
GONE: Final = "run.aborted.process_gone"
UNDELIVERED: Final = "run.failed.missing_artifact"
STARTED: Final = "run.started.ok"
RESUMED: Final = "run.started.resumed"

EACH_AGENT: Final = pytest.mark.parametrize(
    "agent", [pytest.param(CLAUDE, id="claude"), pytest.param(CODEX_NOW, id="codex")]
)


class Session(NamedTuple):
    """What the store says of one session.

    `history` are the reason codes that its status went through, `attempts` what ended each, and `linked` the keys of
    the sessions that are linked with it. `hooked` is what its hook said last.
    """

    key: str
    session_id: str
    status: str
    history: tuple[str, ...]
    attempts: tuple[str | None, ...]
    contract_basis: str | None
    delivery: str | None
    hooked: str | None
    linked: tuple[str, ...]


_SESSIONS: Final = """
select s.root, s.key, s.session_id, s.status, s.contract_basis, s.delivery,
    (select kind from hooks where session_key = s.key),
    (select json_group_array(reason_code) from
        (select reason_code from status_history where session_key = s.key order by id)),
    (select json_group_array(ended_by) from
        (select ended_by from attempts where session_key = s.key order by attempt)),
    (select json_group_array(other) from (select linked as other from links where launcher = s.key
        union all select launcher from links where linked = s.key))
from sessions s order by s.started_at, s.key
"""


@dataclass(slots=True)
class Watched:
    """Homes of one agent below a directory, and the daemon that watches them. Threads may share it."""

    agent: Agent
    place: Place
    ending: ExitStack
    _roots: list[str] = field(default_factory=list)
    _rules: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _read_at: float = 0.0
    _sessions: dict[str, list[Session]] = field(default_factory=dict)

    def stages(
        self, plain: Iterable[str], hooked: Iterable[str], delivering: Container[str] = frozenset()
    ) -> dict[str, "FollowedStage"]:
        """A stage for each case, and one with the agent's hooks for each of `hooked`; by their roots.

        A rule expects a file of those who are `delivering`. Writes the daemon's settings.
        """
        playbooks = self.place.directory / "playbooks"
        playbooks.mkdir()
        (playbooks / "delivery.playbook.yaml").write_text(DELIVERY)
        stages = [self._stage(case, False, case in delivering) for case in plain]
        stages += [self._stage(case, True, case in delivering) for case in hooked]
        with self.place.settings.open("a") as settings:
            settings.write("".join((*self._roots, *self._rules)))
        return {each.root: each for each in stages}

    def _stage(self, case: str, is_hooked: bool, delivers: bool) -> "FollowedStage":
        root = f"{case}-hooked" if is_hooked else case
        model = self.ending.enter_context(Model(SCRIPTS))
        home = make_home(self.place.directory / "cases" / root)
        self.ending.callback(home.close)
        self.agent.settle(home, model.url)
        sessions = home.home / self.agent.sessions
        sessions.mkdir(parents=True)
        layout = LAYOUTS[self.agent.sessions]
        self._roots.append(f'[[roots]]\nname = "{root}"\npath = "{sessions}"\nlayout = "{layout}"\n')
        if delivers:
            rule = f'match = {{ layout = "{layout}", cwd = "{home.work}" }}\nplaybook = "delivery"\n'
            self._rules.append(f"[[contracts]]\n{rule}")
        if is_hooked:
            self._hook(home, layout)
        return FollowedStage(self.agent, home, model, self, case, root, is_hooked)

    def sessions(self, root: str) -> list[Session]:
        """The sessions of a root, by their start."""
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_S:
                self._sessions = {}
                for name, *row in self.place.rows(_SESSIONS):
                    self._sessions.setdefault(str(name), []).append(_session(row))
                self._read_at = time.monotonic()
            return self._sessions.get(root, [])

    def wait_bundled(self) -> None:
        """Until each attempt that ended has its bundle in place."""
        ended = "select count(*) from attempts where ended_by is not null"
        placed = "select count(*) from receipts where placed_at is not null"
        wait_for(lambda: self.place.rows(ended) == self.place.rows(placed), "a bundle of each session")

    def bundle_of(self, session: Session) -> Path:
        """The directory with the bundle of a session's first attempt."""
        rows = self.place.rows("select session_key, directory from receipts where attempt = 1")
        return next(self.place.state / str(directory) for key, directory in rows if key == session.key)

    def wait_judged(self, root: str, count: int) -> list[Session]:
        """Until so many sessions of a root are there and none of them runs."""

        def judged() -> list[Session] | None:
            found = self.sessions(root)
            time.sleep(FRESH_S)
            is_over = len(found) >= count and all(each.status != "running" for each in found)
            return found if is_over else None

        try:
            return wait_for(judged, f"{count} verdicts of {root}")
        except AssertionError as error:
            raise AssertionError(f"{error}; there is {self.sessions(root)}") from None

    def _hook(self, home: Home, layout: str) -> None:
        done = self.place.forks.start(
            "hook",
            "install",
            layout,
            environment={"HOME": str(home.home), "PATH": "", "RUNWARD_CONFIG": str(self.place.settings)},
            output=home.place / "hook",
        )
        assert done.wait() == 0, done.said()


def _session(row: list[object]) -> Session:
    key, session_id, status, basis, delivery, hooked, history, attempts, linked = row
    return Session(
        str(key),
        str(session_id),
        str(status),
        tuple(json.loads(str(history))),
        tuple(json.loads(str(attempts))),
        None if basis is None else str(basis),
        None if delivery is None else str(delivery),
        None if hooked is None else str(hooked),
        tuple(json.loads(str(linked))),
    )


@dataclass(slots=True)
class FollowedStage(Stage):
    """A stage for a case at which the daemon looks: what is `inspected` is what its store says of the root `root`."""

    watched: Watched
    case: str
    root: str
    is_hooked: bool

    def inspect(self) -> tuple[JsonObject, ...]:
        """The store's sessions of this root, as far as they tell where a session stands."""
        return tuple(
            {"session_id": each.session_id, "state": each.status, "reason_code": each.history[-1]}
            for each in self.sessions()
        )

    def look(self) -> Glimpse:
        """All that there is to see, once the daemon knows each session that has a log."""
        logs = len(self.logs())
        wait_for(lambda: len(self.watched.sessions(self.root)) >= logs, f"{logs} sessions of {self.root}")
        return Stage.look(self)

    def _look_at_rest(self) -> Glimpse | None:
        """What the daemon makes of it in the end."""
        printed = {self.agent.session_of(run.said()) for run in self.home.runs}
        self.watched.wait_judged(self.root, len(printed))
        return Stage.look(self)

    def sessions(self) -> list[Session]:
        """The store's sessions of this root, by their start."""
        return self.watched.sessions(self.root)

    def wait_judged(self, count: int) -> list[Session]:
        """Until so many sessions are there and none of them runs."""
        return self.watched.wait_judged(self.root, count)

    def start_in_launcher(self, options: Sequence[str], command: Sequence[str]) -> Run:
        """Start a command under `runward run`."""
        self.home.variables |= {
            "PYTHONPATH": str(_SOURCES),
            "RUNWARD_CONFIG": str(self.watched.place.settings),
        }
        return self.home.start(sys.executable, "-c", _ENTRY, "run", *options, "--", *command)

    def command(self, wish: Wish) -> tuple[str, ...]:
        """The words that start the agent for this."""
        return (*program(self.agent.pinned), *self.agent.arguments(wish))


@contextmanager
def homes(agent: Agent, directory: Path) -> Iterator[Watched]:
    """An agent's homes, without a daemon yet; all that is started is ended afterwards.

    Skips the test where the agent's program can't be had.
    """
    try:
        program(agent.pinned)
    except NotToBeHadError as error:
        pytest.skip(str(error))
    with ExitStack() as ending:
        forks = Forks()
        ending.callback(forks.close)
        place = Place(directory, forks)
        ending.callback(place.close)
        yield Watched(agent, place, ending)
