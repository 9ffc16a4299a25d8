"""The rounds: what is asked for while a scan goes on is not lost with it."""

from pathlib import Path

import structlog

from runward.daemon.clock import SystemClock
from runward.daemon.ports import Gone, Listing
from runward.daemon.processes.starting import StartingProcesses
from runward.daemon.rundir.files import RealFiles
from runward.daemon.watch.coverage import Coverage
from runward.daemon.watch.hints import Hints
from runward.daemon.watch.roots import WatchedRoot
from runward.daemon.watch.rounds import Rounds
from runward.handlers.facts import Unreadable


class ListedJustBefore(RealFiles):
    """Right after the first listing a run appears, and the watch that stands from then on asks for a scan."""

    rounds: Rounds
    listed = 0

    def list_root(self, root: str) -> Listing | Unreadable | Gone:
        listing = super().list_root(root)
        self.listed += 1
        if self.listed == 1:
            Path(root, "late").mkdir()
            self.rounds.request_scan()
        return listing


async def test_a_scan_that_is_requested_during_a_scan_is_made_after_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    clock, files = SystemClock(), ListedJustBefore(tmp_path)
    hints = Hints(lambda: None)
    files.rounds = rounds = Rounds(
        files,
        StartingProcesses(tmp_path),
        clock,
        hints,
        Coverage(),
        structlog.get_logger(),
        {"runs": WatchedRoot("runs", str(runs), "native")},
        period=3600.0,
        watch_again=lambda: None,
        clock_stepped=lambda: None,
        look_in_inbox=lambda: None,
    )
    assert await rounds.scan() == 0
    assert rounds.scan_is_due()
    assert await rounds.scan() == 1
    assert not rounds.scan_is_due()
