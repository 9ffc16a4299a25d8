"""Places of other tools' sessions that hints name: whose they are, and what is remembered of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import anyio.to_thread

from runward.config.root import AUTO
from runward.daemon.store.store import Store
from runward.daemon.store.tables import cursors, places
from runward.daemon.watch.hints import Target
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.world.files import Files
from runward.handlers.layouts.layout import DirectoryLayout, LogLayout
from runward.handlers.model.files import Signature, Unreadable


class Known(NamedTuple):
    """What is known of a place: its session, what is remembered of that, and its file's state at its last full reading.

    `hook` is what the session's own hook said last, or that of the session in whose process it works. A place that holds no session has no key; `unreadable` says why
    that is not known."""

    session_key: str | None
    session_id: str | None = None
    state: str | None = None
    signature: Signature | None = None
    is_new: bool = True
    hook: places.Hook | None = None
    unreadable: str | None = None


class Hinted(NamedTuple):
    """A place that somebody hinted at."""

    root: WatchedRoot
    place: str
    why: int
    known: Known

    @property
    def path(self) -> str:
        """The session's log, as if it weren't packed, or its directory; absolute."""
        return f"{self.root.path}/{self.place}"

    @property
    def layout(self) -> LogLayout | DirectoryLayout:
        """The layout of the session that is known to be here."""
        assert self.known.session_key is not None, "only sessions have one"
        from runward.handlers.layouts.registry import LAYOUTS  # all layouts: a daemon may have none

        return LAYOUTS.named(self.known.session_key.partition(":")[0])


async def known_places(
    store: Store, files: Files, targets: Sequence[Target], roots: Mapping[str, WatchedRoot]
) -> dict[Target, Known]:
    """What is known of these places. Those without a known session are examined again."""
    asked = {f"{name}/{place}": (name, place) for name, place in targets}
    known: dict[Target, Known] = {}
    for key, place_row in (await places.known_places(store, asked)).items():
        name, place = asked[key]
        if place_row.session_key is not None and roots[name].may_hold(
            place_row.session_key.partition(":")[0]
        ):
            known[name, place] = Known(place_row.session_key, signature=place_row.signature, is_new=False)
    new = [target for target in targets if target not in known]
    if new:
        known |= await anyio.to_thread.run_sync(_identify, files, new, roots)
    keys = {each.session_key for each in known.values() if each.session_key is not None}
    if not keys:
        return known
    states, spoken = await cursors.remembered(store, keys), await places.last_hooks(store, keys)
    hosted = {each for each in keys - spoken.keys() if _is_hosted(each)}
    if hosted:
        spoken |= await places.hooks_of_origins(store, hosted)
    return {
        target: each._replace(
            state=states.get(each.session_key or ""), hook=spoken.get(each.session_key or "")
        )
        for target, each in known.items()
    }


def _is_hosted(key: str) -> bool:
    """Whether this session works in the process of another one, if it is a part of it."""
    from runward.handlers.layouts.registry import LAYOUTS

    return LAYOUTS.named(key.partition(":")[0]).hosts_subagents


def _identify(
    files: Files, targets: Sequence[Target], roots: Mapping[str, WatchedRoot]
) -> dict[Target, Known]:
    """Which sessions are at these places. Runs in a thread."""
    return {(name, place): _identity(files, roots[name], place) for name, place in targets}


def _identity(files: Files, root: WatchedRoot, place: str) -> Known:
    from runward.handlers.layouts.registry import LAYOUTS

    session = files.identify(root.path, place, LAYOUTS if root.layout == AUTO else LAYOUTS.only(root.layout))
    if isinstance(session, Unreadable):
        return Known(None, unreadable=session.why)
    if session is None or session.is_subagent:
        return Known(None)
    # By the tool's id or, if that is only a directory's name, by its place.
    own = session.session_id if session.layout.goes_by_id else f"{root.name}/{place}"
    return Known(f"{session.layout.name}:{own}", session.session_id)
