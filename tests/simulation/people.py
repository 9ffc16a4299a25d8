"""What people do: requests through the inbox, other settings, and the bugs that they write and fix."""

from collections.abc import Callable
from typing import Final

from tests.simulation.ports import INBOX
from tests.simulation.runs import Scene

from runward.config.json_value import JsonValue
from runward.daemon.backup import MAYBE_BEGUN
from runward.daemon.disk.durable import write_durably
from runward.daemon.inbox.spool import dump_request
from runward.handlers.model.events import Request
from runward.handlers.model.requests import (
    JobDiscardRequested,
    JobRetryRequested,
    PlayRunRequested,
    PruneRequested,
    RootAcceptRequested,
    ScanRequested,
    SessionCancelRequested,
)

FUTURE: Final = "future:"
"""How the lanes of events begin that only a newer version knows: their jobs stay held."""


class People:
    """Everybody who isn't an agent. `later` has something happen in a while."""

    def __init__(self, scene: Scene, later: Callable[[Callable[[], None]], None]) -> None:
        self._scene = scene
        self._later = later
        self._requests = 0

    def held(self, handler: str = "*") -> list[tuple[int, str]]:
        """The jobs that are held now, with their lanes; but for requests that nobody wants carried out a second time."""
        held = (
            "select id, lane from jobs where state = 'held' and handler glob ? and error is not ? order by id"
        )
        rows = self._scene.universe.peek(held, (handler, MAYBE_BEGUN))
        return [(int(row[0]), str(row[1])) for row in rows if not str(row[1]).startswith(FUTURE)]

    def retry_held(self) -> None:
        for number, _ in self.held():
            self.request(JobRetryRequested(self.uuid(), self._scene.universe.clock.now(), number))

    def discard_held(self) -> None:
        held = self.held("journal/repair") or self.held()  # of repairs there are few
        if held:
            number, lane = self._scene.dice.choice(held)
            if lane in self._scene.places.by_key:
                self._scene.places.by_key[lane].free = True
            elif lane in self._scene.universe.foreign_agents.by_key:
                self._scene.universe.foreign_agents.by_key[lane].free = True
            request = JobDiscardRequested(self.uuid(), self._scene.universe.clock.now(), number, "no use")
            self.request(request)

    def accept_roots(self) -> None:
        """Somebody says that the directories which are there now are the roots."""
        universe = self._scene.universe
        for root in universe.settings.roots:
            if universe.kernel.exists(root.path):
                status = universe.kernel.stat(root.path)
                identity = f"{status.st_dev}:{status.st_ino}"
                self.request(RootAcceptRequested(self.uuid(), universe.clock.now(), root.name, identity))

    def ask_for_scan(self) -> None:
        self.request(ScanRequested(self.uuid(), self._scene.universe.clock.now()))

    def ask_to_prune(self) -> None:
        """Somebody wants the record of sessions gone that ended only lately."""
        now, older_than = self._scene.universe.clock.now(), self._scene.universe.pruning.uniform(1.0, 30.0)
        self.request(PruneRequested(self.uuid(), now, older_than))

    def ask_twice(self) -> None:
        """The same request comes again under its name, perhaps after it was done."""
        self._scene.universe.tally.reached["a duplicate request"] += 1
        request = ScanRequested(self.uuid(), self._scene.universe.clock.now())
        self.request(request)
        self._later(lambda: self.request(request))

    def ask_to_play(self) -> None:
        """Somebody wants a playbook's command started; some ask wrongly, and some twice."""
        dice = self._scene.dice
        playbook = dice.choice(("report", "report", "two", "nothing", "no such playbook"))
        given: dict[str, JsonValue] = {"n": self._requests} if dice.random() < 0.9 else {}
        request = PlayRunRequested(self.uuid(), self._scene.universe.clock.now(), playbook, given, "/")
        self.request(request)
        if dice.random() < 0.2:
            self._later(lambda: self.request(request))
        if dice.random() < 0.9:
            self._later(self.cancel_started)

    def cancel_started(self) -> None:
        """Somebody wants a started run ended, if one runs."""
        self._cancel(" where status = 'running' and key in (select session_key from starts)")

    def cancel(self) -> None:
        """Somebody wants a session ended, mostly one that runs."""
        self._cancel(" where status = 'running'" if self._scene.dice.random() < 0.9 else "")

    def _cancel(self, which: str) -> None:
        """Some name what isn't, and some ask twice."""
        scene = self._scene
        found = scene.universe.peek(f"select key, attempt from sessions{which} order by key")
        key, attempt = scene.dice.choice(found) if found else ("native:runs/nobody", 1)
        attempt += scene.dice.random() < 0.05
        request = SessionCancelRequested(self.uuid(), scene.universe.clock.now(), key, attempt, "no use")
        self.request(request)
        if scene.dice.random() < 0.2:
            self._later(lambda: self.request(request))

    def ask_nonsense(self) -> None:
        write_durably(INBOX, f"{self.uuid()}.json", b'{"type":"Nonsense"}')

    def request(self, request: Request) -> None:
        write_durably(INBOX, f"{request.request}.json", dump_request(request))

    def uuid(self) -> str:
        self._requests += 1
        return f"00000000-0000-4000-8000-{self._requests:012d}"

    def break_handler(self) -> None:
        """A bug shows in the handlers of one session."""
        self._scene.universe.bugs[self._some_key()] = "raises"

    def break_repairs(self) -> None:
        """A bug shows in whatever repairs journals."""
        self._scene.universe.bugs["journal/repair"] = "raises"
        if self._scene.dice.random() < 0.9:
            self._later(self.discard_held)

    def poison_handler(self) -> None:
        """A bug makes the handlers of one session order what the store must refuse."""
        self._scene.universe.bugs[self._some_key()] = "poisons"

    def _some_key(self) -> str:
        keys = [key for key, place in sorted(self._scene.places.by_key.items()) if not place.exits]
        return self._scene.dice.choice(keys) if keys else ""

    def mend_handlers(self) -> None:
        self._scene.universe.bugs.clear()

    def reload(self) -> None:
        """SIGHUP, with another batch, and perhaps without one of the roots for a while."""
        universe, all_roots = self._scene.universe, self._scene.universe.all_roots
        roots = (
            all_roots
            if self._scene.dice.random() < 0.6
            else self._scene.dice.choice((all_roots[:1], all_roots[1:]))
        )
        universe.settings = universe.settings._replace(
            batch=self._scene.dice.choice((1, 5, 256)), roots=roots
        )
        universe.reload()
        if roots != all_roots:
            universe.tally.reached["a root taken out of the settings"] += 1
            universe.left_out |= {root.path for root in all_roots if root not in roots}
            self._later(self.take_all_roots)

    def take_all_roots(self) -> None:
        """SIGHUP, with every root."""
        self._scene.universe.settings = self._scene.universe.settings._replace(
            roots=self._scene.universe.all_roots
        )
        self._scene.universe.reload()
