"""A run that the daemon may not read, such as one that another user started into its root."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.daemon.in_process import StillClock, ToldProcesses, daemon

from runward.daemon.rundir.opening import Gone
from runward.daemon.rundir.run_directories import Sight
from runward.daemon.world.files import Files
from runward.handlers.model.files import Signature, Unreadable


async def test_it_is_a_problem_of_its_root_until_it_can_be_read_or_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, denied = Files.look, {"one", "two"}

    def refused(
        self: Files, root: str, directory: str, documents: Sequence[str], known: Mapping[str, Signature]
    ) -> Sight | Unreadable | Gone:
        seen = look(root, directory, documents, known)
        is_refused = directory in denied and not isinstance(seen, Gone)
        return Unreadable("Permission denied") if is_refused else seen

    monkeypatch.setattr(Files, "look", refused)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:

        async def problem() -> str | None:
            for name in ("one", "two"):
                (running.root / name / "changed").touch() if (running.root / name).exists() else None
            running.supervisor.assembly.rounds.doubt(["runs"])
            await running.settle()
            report = running.supervisor.report()
            assert report.degraded == [f"root runs: {each.problem}" for each in report.roots if each.problem]
            return report.roots[0].problem

        for name in ("one", "two"):
            (running.root / name).mkdir()
            (running.root / name / "run.json").write_text("{}")
        said = "runs in it can't be read, and are not judged"
        assert await problem() == f"{said}: one and 1 more (Permission denied)"
        denied.remove("one")
        assert await problem() == f"{said}: two (Permission denied)"
        (running.root / "two" / "run.json").unlink()
        (running.root / "two" / "changed").unlink()
        (running.root / "two").rmdir()
        assert await problem() is None
