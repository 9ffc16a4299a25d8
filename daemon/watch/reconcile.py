"""The reconciling scan: what is on disk, compared with what was seen. It is the truth.

It runs at the start, after anything that may have lost notifications, when a root appears or moves, and at regular
intervals. It only lists. Each difference becomes a hint, so that a look decides as always.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runward.daemon.ports.files import Files, Gone, Listing
from runward.daemon.rundir.run_directories import mark
from runward.daemon.watch.hints import Target
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.model.unreadable import Unreadable


class Replaced(NamedTuple):
    """Another directory is at the root's path."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """The result of a scan of one root: its listing, and what to look at."""

    root: WatchedRoot
    listing: Listing | Unreadable | Gone | Replaced
    targets: tuple[Target, ...]
    began_at: float


def scan(files: Files, root: WatchedRoot, everything: bool, now: float) -> Scanned:
    """Compare a root with what was seen in it; with `everything`, look at all of it again.

    Of other tools' sessions only open ones are looked at without a change: what they say is in the file whose signature
    is compared. Runs in a thread. A root that can't be listed says nothing about the runs inside it.
    """
    if root.is_replaced:
        return Scanned(root, Replaced(), (), now)
    listing = files.list_root(root.path) if root.shape is None else files.list_places(root.path, root.shape)
    if not isinstance(listing, Listing):
        return Scanned(root, listing, (), now)
    seen = root.seen
    found = listing.directories
    anew = everything and root.shape is None
    changed = [
        name
        for name, signature in found.items()
        if (anew or seen.get(name) != mark(signature)) and not root.ignores(name)
    ]
    if everything and not anew:
        changed += [name for name in root.open if name in found and seen.get(name) == mark(found[name])]
    missing = [name for name in list(seen) if name not in found]
    missing += [name for name in list(root.open) if name not in found and name not in seen]
    unlisted = tuple(f"{directory}/" for directory in listing.unlisted)
    changed += [name for name in missing if not name.startswith(unlisted)] if unlisted else missing
    return Scanned(root, listing, tuple((root.name, name) for name in changed), now)


def settle(scanned: Scanned) -> str | None:
    """Record what the scan says about its root; returns the complaint if it is new."""
    root, before = scanned.root, scanned.root.problem
    match scanned.listing:
        case Listing(unusable=unusable, native=native):
            root.health, root.problem = "ok", _unusable(unusable) or _not_followed(native)
            root.listed_at = scanned.began_at
        case Gone():
            root.health, root.problem = "missing", "the directory is not there"
        case Replaced():
            root.health, root.problem = (
                "replaced",
                (
                    "this is not the directory that its runs are in, so nothing in it is judged;"
                    f" mount it or move it back, or `runward root accept {root.name}` to continue with this one"
                ),
            )
        case Unreadable(why=why):
            root.health, root.problem = "unreadable", f"it can't be read: {why}"
    return root.problem if root.problem != before else None


def _not_followed(native: Sequence[str]) -> str | None:
    if not native:
        return None
    return f"{len(native)} native runs, such as {native[0]!r}, are not followed here: give them a root of their own"


def _unusable(names: Sequence[str]) -> str | None:
    if not names:
        return None
    return f"{len(names)} directories have names that are not UTF-8, such as {names[0]!r}: rename them"
