"""The daemon and the program that reports to its fleet: whatever the program says, the daemon continues."""

import asyncio
import subprocess
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from runward.config.settings import USUAL, FleetSettings
from runward.daemon.host import fleet_reports
from runward.daemon.host.fleet_reports import MOST_SAID, FleetProgram

FLEET = FleetSettings("laptop", "postgresql://host_laptop@db.example/runward", "fleet.secret")


@pytest.mark.parametrize(
    "said",
    [
        '{"delivered": [1',  # a kill cut it
        "no JSON at all\n",
        "[]\n",
        "{}\n",
        '{"delivered": ["one"]}\n',
        '{"delivered": null}\n',
        "x" * (MOST_SAID + 1) + "\n",
    ],
)
async def test_a_program_that_says_nonsense_is_ended_and_the_daemon_is_degraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    (tmp_path / "said").write_text(said)
    started: list[asyncio.subprocess.Process] = []

    async def start(*_: object, **options: int) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", 'cat "$0"; exec cat', str(tmp_path / "said")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            limit=options["longest_line"],
        )
        started.append(process)
        if not said.endswith("\n"):
            assert process.stdin is not None
            process.stdin.close()  # it ends after it has said that
        return process

    monkeypatch.setattr(fleet_reports, "start_program", start)
    settings = USUAL._replace(state_dir=str(tmp_path), fleet=FLEET)
    log = SimpleNamespace(info=lambda *_, **__: None, warning=lambda *_, **__: None)
    program = FleetProgram(tmp_path, lambda: settings, lambda: 1, lambda: None, log)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(program.run)
            while not program.degraded() or started[0].returncode is None:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    assert program.degraded() == ["fleet: its program said what it never should; log/fleet.log may say why"]
    assert program.delivered == []
