"""The daemon's fences, each with the way to take it out: a proof that can't fail proves nothing."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.proof import struck

from runward.daemon.disk.epoch import HeldEpoch
from runward.daemon.rundir import journals
from runward.daemon.rundir.journals import Appended, JournalLine, NotAppended, NotFirst
from runward.daemon.store.batch import Write
from runward.daemon.store.store import Store
from runward.daemon.store.tables import all as tables
from runward.daemon.store.tables import jobs
from runward.daemon.world import starting
from runward.daemon.world.files import Files


def _epoch_of_the_store() -> None:
    """Transactions don't look whose time it is."""

    def unchecked(self: Store, current: int) -> None:
        return None

    Store._check_epoch = unchecked  # type: ignore[method-assign] # to take it out is the purpose


def _token_of_the_job() -> None:
    """A job may be completed by anybody, also twice."""
    guarded = " where id = ? and token = ? and state = 'running'"
    assert guarded in jobs.FINISH.sql
    unguarded = Write(jobs.FINISH.sql.replace(guarded, " where id = ? and (token = ? or true)"))
    tables.WRITES = tuple(unguarded if each is jobs.FINISH else each for each in tables.WRITES)  # type: ignore[misc] # to take it out is the purpose
    jobs.FINISH = unguarded  # type: ignore[misc] # likewise


def _epoch_of_the_journal() -> None:
    """Lines are appended without reading the epoch inside the lock."""

    def append(
        self: Files, lines: Sequence[JournalLine], epoch: int
    ) -> list[Appended | NotAppended | NotFirst]:
        return journals.append(lines, epoch, lambda: epoch)

    Files.append = append  # type: ignore[method-assign] # to take it out is the purpose


def _look_for_lines() -> None:
    """What an earlier daemon owed is written without looking whether it stands already."""
    looked = Files.append

    def append(
        self: Files, lines: Sequence[JournalLine], epoch: int
    ) -> list[Appended | NotAppended | NotFirst]:
        return looked(
            self, [line._replace(check=False, known=None, only_first=False) for line in lines], epoch
        )

    Files.append = append  # type: ignore[method-assign] # to take it out is the purpose


def _look_at_the_epoch() -> None:
    """A daemon doesn't look now and then, and at its end, whether its time is over."""

    def unlooked(self: HeldEpoch) -> None:
        return None

    HeldEpoch.check = unlooked  # type: ignore[method-assign] # to take it out is the purpose


def _epoch_of_the_files() -> None:
    """Parts of bundles get their names, and what is left of runs goes, without reading the epoch."""

    def unchecked(self: Files, epoch: int) -> None:
        return None

    Files.check_epoch = unchecked  # type: ignore[method-assign] # to take it out is the purpose


def _of_the_launcher(name: str) -> Callable[[], None]:
    """A fence of the launchers that the daemon starts: it starts others, without it."""

    def take_out() -> None:
        already = starting.LAUNCHER[2:] if starting.LAUNCHER[1] == str(_UNFENCED) else ()
        starting.LAUNCHER = (sys.executable, str(_UNFENCED), ",".join((*already, name)))  # type: ignore[misc,assignment] # to take it out is the purpose

    return take_out


def _spared() -> None:
    """The daemon and its launchers are struck where a file says."""
    struck.strike("daemon")
    starting.LAUNCHER = (sys.executable, struck.__file__)  # type: ignore[misc,assignment] # to take it out is the purpose


_UNFENCED: Final = Path(__file__).with_name("unfenced_launcher.py")

FENCES: Final[Mapping[str, Callable[[], None]]] = {
    "epoch of the store": _epoch_of_the_store,
    "epoch of the files": _epoch_of_the_files,
    "look for lines": _look_for_lines,
    "look at the epoch": _look_at_the_epoch,
    "token of the job": _token_of_the_job,
    "epoch of the journal": _epoch_of_the_journal,
    **{f"{name} of the start": _of_the_launcher(name) for name in ("epoch", "lock", "mark", "run.json")},
    "spared": _spared,
    "no hooks in a worktree": _of_the_launcher("hooks"),
}
