"""Agents inside launched runs: which foreign sessions a run's end has to wait for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runward.daemon.store.store import Store
from runward.daemon.store.tables import places
from runward.daemon.store.tables.jobs import Job
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.model.sessions import HookSpoke, LinkedSessions, LinkedSessionsOf


@dataclass(slots=True)
class AgentsInRuns:
    """What is known of agents that were started in launched runs. `roots` is by name."""

    store: Store
    roots: Mapping[str, WatchedRoot]
    known: bool = False
    """Whether any agent's session is known to have been started in a launcher's run."""
    inbox_is_long: bool = False
    """Whether there was more in the inbox than could be taken up at once, so a hook's note may be there."""

    async def begin(self) -> None:
        """Find out whether an earlier daemon knew of any."""
        self.known = await places.has_links(self.store)

    async def linked(
        self, questions: Sequence[LinkedSessionsOf], jobs: Sequence[Job]
    ) -> dict[LinkedSessionsOf, LinkedSessions]:
        """The agents' sessions in these runs, including those that only a hook reported, even in this very batch."""
        spoke = [job.event for job in jobs if isinstance(job.event, HookSpoke)]
        self.known = self.known or any(each.launcher_session is not None for each in spoke)
        if not (self.known or self.inbox_is_long):
            return dict.fromkeys(questions, LinkedSessions())
        names = {asked: asked.launcher.rpartition("/")[2] for asked in questions}
        linked = await places.linked_sessions(self.store, {asked.launcher for asked in questions})
        announced = await places.announced_sessions(self.store, set(names.values()))
        announced += [(each.launcher_session or "", each.session_key) for each in spoke]
        known = {each.key for sessions in linked.values() for each in sessions.sessions}
        awaited = [(name, key) for name, key in announced if key not in known and self._may_come(key)]
        return {
            asked: linked.get(asked.launcher, LinkedSessions())._replace(
                announced=tuple(key for name, key in awaited if name == names[asked]),
                may_be_more=self.inbox_is_long,
            )
            for asked in questions
        }

    def _may_come(self, key: str) -> bool:
        """Whether any root could hold this session."""
        return any(root.may_hold(key.partition(":")[0]) for root in self.roots.values())
