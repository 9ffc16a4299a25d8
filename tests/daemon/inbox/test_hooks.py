"""What agents' hooks tell, in a whole daemon: a first prompt fixes the session's contract, and who spoke is kept."""

import json
import os
from base64 import b64encode
from pathlib import Path
from uuid import uuid4

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.handlers.layouts.claude_code_lines import Transcript

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.config.root import Root
from runward.daemon.inbox.spool import put
from runward.daemon.store.tables import places
from runward.daemon.store.tables.places import Hook
from runward.handlers.model.contracts import Declarations, Ruled, RuledPlaybook
from runward.handlers.model.processes import RecordedProcess, Whereabouts
from runward.handlers.model.sessions import CoveringRoot, RootOf

KEY = "claude-code:s-1"
BOOT = "5b1c1a06-fb49-4a4e-86f0-e95699571b7a"


class Hooked:
    """A daemon whose root of transcripts is `base/projects`, and in which every session is held to a review."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.transcript = str(base / "projects" / "-src" / "s-1.jsonl")
        self.clock = StillClock()
        self.playbook = "feature"
        (base / "projects" / "-src").mkdir(parents=True)
        self.open = daemon(
            base,
            self.clock,
            ToldProcesses(),
            declared=lambda playbook, agent: Declarations((ExpectedArtifact("review", "review.md"),), None),
            ruled=self._ruled,
            covering=self._covering,
            roots=(Root("claude", str(base / "projects"), "claude-code"),),
        )

    def _ruled(self, question: RuledPlaybook) -> Ruled:
        assert (question.cwd, question.prompt) == ("/src", "fix it")
        return Ruled(self.playbook, None, "/etc/runward.toml:9:1")

    def _covering(self, question: RootOf) -> CoveringRoot | None:
        return CoveringRoot("claude") if question.path.startswith(f"{self.base}/projects/") else None

    async def says(self, running: Daemon, event: str, at: float = 5.0, **more: JsonValue) -> None:
        """The hook of the session speaks, and the daemon takes it up."""
        session = str(more.pop("session", "s-1"))
        payload = {"hook_event_name": event, "session_id": session, "cwd": "/src", "prompt": "fix it"}
        payload |= {"transcript_path": str(more.pop("transcript", self.transcript))}
        note = {
            "hook": "claude-code",
            "version": 1,
            "at": at,
            "boot_id": BOOT,
            "ancestors": [[7, 70]],
            "launcher_session": None,
            "payload": b64encode(json.dumps(payload).encode()).decode(),
            **more,
        }
        put(running.state, str(uuid4()), json.dumps(note).encode())
        running.supervisor.assembly.worker.inbox_waits = True
        while await running.supervisor.assembly.worker.turn():
            pass
        assert list((running.state / "inbox").iterdir()) == []


async def test_what_is_declared_at_a_first_prompt_holds_for_the_session_that_its_files_begin(
    tmp_path: Path,
) -> None:
    hooked = Hooked(tmp_path)
    transcript = Transcript("s-1", now=hooked.clock.wall)
    async with hooked.open as running:
        await hooked.says(running, "SessionStart", 4.0)
        await hooked.says(running, "UserPromptSubmit", 5.0)
        await hooked.says(running, "UserPromptSubmit", 6.0)
        assert await running.rows("select count(*) from sessions") == [(0,)]
        declared = (await places.declarations(running.store, [KEY]))[KEY]
        assert (declared.at, declared.playbook) == (5.0, "feature")
        hooked.playbook = "another"
        transcript.prompt("fix it")
        transcript.text("done")
        Path(hooked.transcript).write_bytes(transcript.content())
        os.utime(hooked.transcript, (hooked.clock.wall, hooked.clock.wall))
        for _ in range(3):
            hooked.clock.move(60.0)
            await running.settle()
        columns = "key, attempt, playbook, contract_basis, ended_by, reason_code"
        assert await running.rows(f"select {columns} from sessions") == [
            (KEY, 1, "feature", "hook", "declared", "run.failed.missing_artifact")
        ]
        assert await running.rows("select state from jobs where state <> 'done'") == []


async def test_where_no_root_watches_it_is_said_and_nothing_opened(tmp_path: Path) -> None:
    hooked = Hooked(tmp_path)
    async with hooked.open as running:
        await hooked.says(running, "UserPromptSubmit", transcript="/elsewhere/s-1.jsonl")
        assert await running.rows("select count(*) from sessions") == [(0,)]
        ((verdict, summary),) = await running.rows("select verdict, summary from decisions")
        assert verdict == "refused"
        assert "no root watches /elsewhere/s-1.jsonl; add one to runward.toml" in str(summary)


@pytest.mark.parametrize(
    ("session", "name", "verdict"),
    [
        (BOOT, f"rollout-2026-11-28T08-30-00-{BOOT}.jsonl", "decided"),
        (BOOT, f"2026-11-28T08-36-36-714Z_{BOOT}.jsonl", "decided"),
        (BOOT, f"{BOOT}.jsonl", "decided"),
        (BOOT, f"a{BOOT}.jsonl", "refused"),
        (BOOT, f"{BOOT}-a.jsonl", "refused"),
        ("b", "a-b.jsonl", "refused"),
        ("s-1", "s-2.jsonl", "refused"),
    ],
)
async def test_a_hook_fixes_something_only_for_the_session_whose_transcript_it_names(
    tmp_path: Path, session: str, name: str, verdict: str
) -> None:
    hooked = Hooked(tmp_path)
    async with hooked.open as running:
        transcript = f"{tmp_path}/projects/-src/{name}"
        await hooked.says(running, "UserPromptSubmit", session=session, transcript=transcript)
        ((found, summary),) = await running.rows("select verdict, summary from decisions")
        assert found == verdict, summary
        assert ("another session's transcript" in str(summary)) == (verdict == "refused")


async def test_what_a_hook_said_last_is_kept_and_its_launcher_for_good(tmp_path: Path) -> None:
    hooked = Hooked(tmp_path)
    async with hooked.open as running:
        await hooked.says(
            running,
            "SessionStart",
            4.0,
            launcher_session="night",
            ancestors=[[7, 70], [1, 3]],
            machine="5" * 32,
            namespace=4_026_532_100,
        )
        await hooked.says(running, "SessionEnd", 9.0, ancestors=[])
        await hooked.says(running, "Stop", 8.0, ancestors=[[9, 90]], launcher_session="another")
        processes = (RecordedProcess(7, 70, BOOT), RecordedProcess(1, 3, BOOT))
        assert await places.last_hooks(running.store, [KEY, "codex:x"]) == {
            KEY: Hook(9.0, "ended", processes, "night", Whereabouts("5" * 32, BOOT, 4_026_532_100))
        }


async def test_what_tells_nothing_is_cleared_and_what_is_nothing_is_kept_aside(tmp_path: Path) -> None:
    hooked = Hooked(tmp_path)
    async with hooked.open as running:
        await hooked.says(running, "SubagentStop")
        assert not (running.state / "rejected").exists()
        await hooked.says(running, "Stop", payload="nonsense")
        assert len(list((running.state / "rejected").iterdir())) == 1
        assert await running.rows("select count(*) from events") == [(0,)]
