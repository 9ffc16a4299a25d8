"""Rows stored with a look at another tool's session, in the same transaction as its events: no decisions."""

from pydantic_core import to_json

from runward.daemon.looking.places import Hinted
from runward.daemon.looking.remembered import Remembered, dump_remembered
from runward.daemon.store.tables import places, sessions
from runward.daemon.store.tables.table import Rows
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.layouts.registry import DirectoryLayout
from runward.handlers.model.sessions import Signature

Change = tuple[Rows, ...]


def after_reading(
    hinted: Hinted, key: str, stored: Remembered, after: Remembered, whole: Signature | None, now: float
) -> Change:
    """What changed in the session, and in its place if that is new or was read to its end (`whole`)."""
    found, known = changed(hinted, key, stored, after, now), hinted.known
    if known.is_new or (whole is not None and whole != known.signature):
        found += placed(hinted, key, whole)
        is_told = after.problems != stored.problems
        if known.signature is None and not known.is_new and not is_told:
            found += _problems(hinted, stored, after, now)  # a problem of our own making may be among them
    return found


def changed(hinted: Hinted, key: str, stored: Remembered, after: Remembered, now: float) -> Change:
    """The session's row and its dependent rows, if they changed.

    Each look at a living process gives a later `alive_at`. That alone is not worth a transaction: the `Follower`
    remembers it until something else is stored.
    """
    followed = after.followed._replace(alive_at=stored.followed.alive_at)
    if after._replace(followed=followed) == stored:
        return ()
    phase = after.followed.phase
    activity = after.activity if phase == "open" else None
    row = (key, after.root, after.place, key, phase, dump_remembered(after), activity)
    found: Change = (Rows(places.UPSERT_CURSOR, [row]),)
    if (stored.root, stored.place) != (after.root, after.place):
        found += (Rows(sessions.MOVE, [(after.root, hinted.path, key)]),)
    if after.launcher is not None and after.launcher != stored.launcher:
        found += (Rows(places.INSERT_LINK, [(key, after.launcher)]),)
    if after.problems != stored.problems:
        found += _problems(hinted, stored, after, now)
    return found


def placed(hinted: Hinted, key: str | None, signature: Signature | None) -> Change:
    """Whose place this is, and the state of its file when it was read to its end."""
    root, place = hinted.root.name, hinted.place
    text = None if signature is None else to_json(signature).decode()
    return (Rows(places.UPSERT_PLACE, [(f"{root}/{place}", root, place, key, text)]),)


def forgotten(hinted: Hinted) -> Change:
    """There is nothing at this place now."""
    return (Rows(places.FORGET_PLACE, [(f"{hinted.root.name}/{hinted.place}",)]),)


def mistaken(hinted: Hinted, message: str, fix: str, now: float) -> Change:
    """Our own problem with this place, which the next full reading clears."""
    return (
        *placed(hinted, hinted.known.session_key, None),
        Rows(places.DELETE_PROBLEMS, [(hinted.path,)]),
        Rows(places.INSERT_PROBLEM, [(hinted.path, None, message, fix, now)]),
    )


def shared_home(root: WatchedRoot, now: float) -> Change:
    """A session in this root grew without a process on this machine: others write in the home, too."""
    return () if root.grew_elsewhere else (Rows(places.GREW_ELSEWHERE, [(now, root.name)]),)


def _problems(hinted: Hinted, stored: Remembered, after: Remembered, now: float) -> Change:
    """The problems of the session's files, replacing the earlier ones."""
    path = hinted.path
    within = path if isinstance(hinted.layout, DirectoryLayout) else path.rpartition("/")[0]
    files = {each.file for each in (*stored.problems, *after.problems)}
    cleared = sorted({path, *(f"{within}/{name}" for name in files)})
    rows = [(f"{within}/{each.file}", each.line, each.message, each.fix, now) for each in after.problems]
    return (
        Rows(places.DELETE_PROBLEMS, [(each,) for each in cleared]),
        Rows(places.INSERT_PROBLEM, rows),
    )
