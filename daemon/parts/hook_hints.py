"""What agents' hooks speed up: a look at the session that a hook named, which may exist by now."""

from collections.abc import Mapping
from dataclasses import dataclass

from runward.daemon.looking.looks import AgentsInRuns
from runward.daemon.store.store import Store
from runward.daemon.store.tables import places
from runward.daemon.watch.hints import Hints, Why
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.worker.part import Done
from runward.handlers.model.sessions import HookSpoke, NoteHook


@dataclass(slots=True)
class HookHints:
    """Hints at places that hooks named. `roots` is by name."""

    store: Store
    hints: Hints
    roots: Mapping[str, WatchedRoot]
    agents: AgentsInRuns

    def look(self, done: Done[NoteHook]) -> None:
        """Look at what these hooks named, because it may exist by now."""
        for job, _ in done:
            path = job.event.transcript_path if isinstance(job.event, HookSpoke) else None
            for root in self.roots.values() if path is not None else ():
                if root.shape is not None and path is not None and path.startswith(f"{root.path}/"):
                    place = root.shape.place_of(path.removeprefix(f"{root.path}/"))
                    self.hints.add([(root.name, place)] if place is not None else [], Why.PROCESS)

    async def look_again(self, done: Done[NoteHook]) -> None:
        """Look again at a session whose hook named its launched run: it may have been read before that was known."""
        told = [effect.key for _, effect in done if effect.launcher_session is not None]
        if told:
            self.agents.known = True
            self.hints.add(await places.places_of_sessions(self.store, told), Why.PROCESS)
