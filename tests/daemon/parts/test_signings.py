"""Signatures of receipts in the worker: each waits for its receipt, and is settled once."""

import json
from pathlib import Path

from tests.daemon.worker.damaged_journals import begin, finish
from tests.daemon.worker.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.config.bundle import BundleRules
from runward.daemon.inbox.requests import dump_request
from runward.daemon.inbox.spool import put
from runward.handlers.bundle.events import ReceiptSignRequested
from runward.handlers.bundle.facts import BundleRulesOf

SETTLED = "select settled_at is not null, signature is not null, problem from signings"


def bundled(session: BundleRulesOf) -> BundleRules:
    return BundleRules()


async def settle(running: Daemon) -> None:
    await running.settle()
    await running.supervisor.assembly.bundles.drain()
    await running.supervisor.assembly.signings.drain()


async def ask(running: Daemon, run: str, attempt: int = 1) -> None:
    asked = ReceiptSignRequested(f"sign-{attempt}", 0.0, f"native:runs/{run}", attempt, "ed25519")
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
