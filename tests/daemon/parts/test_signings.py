"""Signatures of receipts in the worker: each waits for its receipt, and is settled once."""

import hashlib
import json
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import begin, finish

from runward.config.bundle import BundleRules
from runward.daemon import faults
from runward.daemon.disk.receipt_keys import own_public_keys
from runward.daemon.inbox.spool import dump_request, put
from runward.handlers.bundle.signatures import signature_state
from runward.handlers.model.bundle import BundleRulesOf, ReceiptSignRequested

SETTLED = "select settled_at is not null, signature is not null, problem from signings"


def bundled(session: BundleRulesOf) -> BundleRules:
    return BundleRules()


async def settle(running: Daemon) -> None:
    await running.settle()
    await running.supervisor.assembly.bundles.drain()
    await running.supervisor.assembly.signings.drain()


async def ask(running: Daemon, run: str, attempt: int = 1, name: str = "sign") -> None:
    asked = ReceiptSignRequested(f"{name}-{attempt}", 0.0, f"native:runs/{run}", attempt, "ed25519")
    put(running.state, asked.key, dump_request(asked))
    running.supervisor.assembly.worker.inbox_waits = True
    await settle(running)


async def test_a_signature_waits_until_its_receipt_is_made(tmp_path: Path) -> None:
    clock = StillClock()
    async with daemon(tmp_path, clock, ToldProcesses(), bundled=bundled) as running:
        assembly = running.supervisor.assembly
        assembly.bundles.low_disk = lambda: "little is free"
        run = begin(tmp_path, "run")
        finish(run)
        await settle(running)
        await ask(running, "run")
        assert await running.rows(SETTLED) == [(0, 0, None)]
        pause = assembly.signings.pause()
        assert pause is not None
        assert pause < 1, "it looks again soon"
        assembly.bundles.low_disk = lambda: None
        clock.move(3600)
        await settle(running)
        assert await running.rows(SETTLED) == [(1, 1, None)]
        assert assembly.signings.pause() is None
        assert json.loads((run / "RECEIPT.json").read_text())["signature"].startswith("sig:ed25519:")


async def test_where_no_receipt_is_coming_it_is_settled_with_the_reason(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        finish(begin(tmp_path, "run"))
        await settle(running)
        await ask(running, "run", attempt=2)
        assert await running.rows(SETTLED) == [(1, 0, "there is no receipt of attempt 2")]


class Killed(BaseException):
    """The daemon ends here, as by `kill -9`."""


@pytest.mark.parametrize(
    "at",
    [
        "commit.turn.before",
        "commit.turn.after",
        "sign.rename.before",
        "sign.rename.after",
        "commit.sign.before",
        "commit.sign.after",
    ],
)
async def test_a_kill_at_any_point_of_signing_leaves_what_an_undisturbed_daemon_leaves(
    tmp_path: Path, at: str
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        runs = [begin(tmp_path, name) for name in ("disturbed", "undisturbed")]
        for run in runs:
            finish(run)
        await settle(running)
        await ask(running, "undisturbed")
    begun = False

    def kill(point: str) -> None:
        nonlocal begun
        begun = begun or (point == "commit.turn.begin")
        if begun and point == at:
            raise Killed

    faults.install(kill)
    try:
        with pytest.raises((Killed, BaseExceptionGroup)):
            async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
                await ask(running, "disturbed", attempt=1, name="another")
    finally:
        faults.install(lambda name: None)
    async with daemon(tmp_path, StillClock(), ToldProcesses(), bundled=bundled) as running:
        running.supervisor.assembly.worker.inbox_waits = True
        await settle(running)
        assert await running.rows(SETTLED) == [(1, 1, None)] * 2
        recorded = await running.rows("select s.signature, s.part ->> '$[2]' from signings s order by s.id")
    key = own_public_keys(str(tmp_path / "state"), {})
    for run, (signature, digest) in zip(reversed(runs), recorded, strict=True):
        content = (run / "RECEIPT.json").read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        fields = json.loads(content)
        assert fields["signature"] == signature
        assert signature_state(fields, key) == "valid"
        assert not [each.name for each in run.iterdir() if each.name.startswith(".")]
