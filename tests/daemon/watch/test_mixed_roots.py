"""A whole daemon over a root with the layout `auto`: sessions of every tool in one tree, told apart by what they hold."""

import json
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.handlers.layouts import adjutant_lines, codex_lines, ctcp_lines, lionagi_lines
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript, headless_run, subagent_file

from runward.config.root import Root
from runward.daemon.watch.remembered import load_remembered
from runward.daemon.world.files import Files
from runward.handlers.layouts.registry import LAYOUTS

RECORDED = Path(__file__).parents[1] / "rundir" / "delegated"
QWEN = "05bd1672-14ed-451c-b722-76f59e93bfc6"
CLAUDE = "laptop/projects/-home-dev-app"
CODEX = f"laptop/sessions/2026/11/21/{codex_lines.NAME}"


class Tree:
    """The root `base/agents`, and the daemon that watches it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "agents"
        self.root.mkdir()
        self.clock = StillClock()
        self.processes = ToldProcesses()

    def open(self, layout: str = "auto"):  # type: ignore[no-untyped-def] # the context manager of `daemon`
        root = Root("agents", str(self.root), layout, "live")
        return daemon(self.base, self.clock, self.processes, roots=(root,))

    def put(self, path: str, *lines: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(line + b"\n" for line in lines))

    def put_json(self, path: str, content: object) -> None:
        self.put(path, json.dumps(content).encode())

    def claude(self, within: str = CLAUDE) -> None:
        self.put(f"{within}/{SESSION}.jsonl", *headless_run().lines)

    def codex(self, log: codex_lines.Log | None = None) -> None:
        self.put(CODEX, *(line.content for line in (log or codex_lines.ok()).lines()))

    def ctcp(self, place: str, status: str = "pass") -> None:
        self.put(f"{place}/events.jsonl", *ctcp_lines.passed_run())
        self.put_json(f"{place}/RUN.json", ctcp_lines.run_json(status))

    async def rest(self, running: Daemon) -> None:
        for _ in range(4):
            await running.settle()
            self.clock.move(6)
            running.supervisor.assembly.queue.may_be_due = True  # as when a wait for it ends
        await running.settle()

    async def scan(self, running: Daemon) -> None:
        """A scan finds what no notification told."""
        await running.supervisor.assembly.rounds.scan()
        await self.rest(running)


async def told(running: Daemon) -> dict[str, tuple[object, ...]]:
    rows = await running.rows("select key, layout, status from sessions order by key")
    return {str(key): tuple(rest) for key, *rest in rows}


async def test_sessions_of_every_tool_are_told_apart_wherever_they_lie_in_the_tree(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.claude()
    tree.codex()
    tree.ctcp("ci/nightly/7")
    tree.put("ci/nightly/8/REPLAY.jsonl", *adjutant_lines.session("a"))
    tree.put_json("flows/a/run.json", lionagi_lines.run_json("completed"))
    tree.put("notes/readme.jsonl", b'{"nothing": "known"}')
    async with tree.open() as running:
        await tree.rest(running)
        assert await told(running) == {
            "adjutant:agents/ci/nightly/8": ("adjutant", "completed"),
            f"claude-code:{SESSION}": ("claude-code", "completed"),
            f"codex:{codex_lines.THREAD}": ("codex", "completed"),
            "ctcp:agents/ci/nightly/7": ("ctcp", "completed"),
            f"lionagi:{lionagi_lines.RUN_ID}": ("lionagi", "completed"),
        }


async def test_what_lies_in_a_sessions_directory_is_that_sessions(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.ctcp("run")
    tree.claude("run/artifacts")
    tree.ctcp("run/artifacts/inner")
    async with tree.open() as running:
        await tree.rest(running)
        running.supervisor.assembly.hints.add(
            [("agents", f"run/artifacts/{SESSION}.jsonl"), ("agents", "run/artifacts/inner")], 1
        )
        await tree.rest(running)
        assert list(await told(running)) == ["ctcp:agents/run"]


@pytest.mark.parametrize("is_there", [True, False])
async def test_sub_agents_of_qwen_code_are_sessions_beside_those_of_claude_code_that_are_none(
    tmp_path: Path, is_there: bool
) -> None:
    """Both are in directories of the same name."""
    tree = Tree(tmp_path)
    recorded = RECORDED / "qwen"
    files = sorted(str(each.relative_to(recorded)) for each in recorded.rglob("*") if each.is_file())

    def put() -> None:
        tree.claude()
        tree.put(f"{CLAUDE}/{SESSION}/subagents/agent-0f2d6c1e.jsonl", *subagent_file().lines)
        tree.put(f"{CLAUDE}/{SESSION}/subagents/workflows/r/agent-1f2d6c1e.jsonl", *subagent_file().lines)
        for file in files:
            tree.put(f"laptop/qwen/{file}", *(recorded / file).read_bytes().splitlines())

    if is_there:
        put()
    async with tree.open() as running:
        if not is_there:
            put()
            await tree.scan(running)
        await tree.rest(running)
        sub_agent = f"qwen:{QWEN}-general-purpose-call_c2c53d89555c4b889025"
        assert await told(running) == {
            f"claude-code:{SESSION}": ("claude-code", "completed"),
            f"qwen:{QWEN}": ("qwen", "completed"),
            sub_agent: ("qwen", "completed"),
        }
        assert await running.rows("select linked, launcher from links") == [(sub_agent, f"qwen:{QWEN}")]


@pytest.mark.parametrize("layout", ["auto", "claude-code"])
async def test_sub_agents_that_lie_flat_beside_their_session_are_counted_in_it_and_listed_nowhere(
    tmp_path: Path, layout: str
) -> None:
    """As Claude Code 2.0 writes them, warm-ups among them."""
    tree = Tree(tmp_path)
    session = Transcript(version="2.0.30", entrypoint=None)
    session.prompt("fix it")
    session.result(session.call("Task", prompt="look around"))
    session.text("fixed")
    tree.put(f"{CLAUDE}/{SESSION}.jsonl", *session.lines)
    tree.put(f"{CLAUDE}/agent-0f2d6c1e.jsonl", *subagent_file().lines)
    tree.put(f"{CLAUDE}/agent-1f2d6c1e.jsonl", *subagent_file("Warmup").lines)
    async with tree.open(layout) as running:
        await tree.rest(running)
        assert list(await told(running)) == [f"claude-code:{SESSION}"]
        ((text,),) = await running.rows("select state from cursors")
    scan = load_remembered(str(text)).scan
    assert scan is not None
    assert LAYOUTS.named("claude-code").load(scan).tell().counts.subagents == 1


@pytest.mark.parametrize("layout", ["auto", "codex"])
async def test_a_bare_rollout_goes_on_in_its_file_as_its_next_attempt(tmp_path: Path, layout: str) -> None:
    """As Codex up to 0.28 does; no record has a time, so the file's own tells when an attempt ended."""
    tree = Tree(tmp_path)
    tree.codex(codex_lines.bare_ok())
    async with tree.open(layout) as running:
        await tree.rest(running)
        assert await told(running) == {f"codex:{codex_lines.THREAD}": ("codex", "completed")}
        tree.codex(codex_lines.bare_resumed())
        await tree.scan(running)
        rows = await running.rows("select ended_by, ended_at from attempts order by attempt")
        assert [ended_by for ended_by, _ in rows] == ["declared", "declared"]
        changed_at = (tree.root / CODEX).stat().st_mtime
        assert rows[1][1] == pytest.approx(changed_at, abs=0.001)


async def test_a_directory_that_only_looks_like_a_sessions_hides_nothing(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put_json("app/run.json", {"scripts": "of somebody's own"})
    tree.claude("app/transcripts")
    async with tree.open() as running:
        await tree.rest(running)
        assert list(await told(running)) == [f"claude-code:{SESSION}"]


async def test_what_comes_later_is_found_and_what_becomes_a_session_later(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("run/RUN.json", b'{"schema_ver')
    tree.put(f"{CLAUDE}/{SESSION}.jsonl", b"")
    async with tree.open() as running:
        await tree.rest(running)
        assert await told(running) == {}
        tree.ctcp("run", "running")
        tree.claude()
        tree.codex()
        await tree.scan(running)
        assert await told(running) == {
            f"claude-code:{SESSION}": ("claude-code", "completed"),
            f"codex:{codex_lines.THREAD}": ("codex", "completed"),
            "ctcp:agents/run": ("ctcp", "running"),
        }
        tree.ctcp("run")
        await tree.scan(running)
        assert (await told(running))["ctcp:agents/run"] == ("ctcp", "completed")


async def test_runs_of_our_own_are_none_of_another_tools(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put_json("own/run.json", {"schema": "runward-run-v1", "session_id": "own"})
    tree.put_json("own/exit.json", {"exit_code": 0})
    tree.claude("own/artifacts")
    async with tree.open() as running:
        await tree.scan(running)
        assert await told(running) == {}
        problem = running.supervisor.assembly.roots["agents"].problem
        assert problem == "1 native runs, such as 'own', are not followed here: give them a root of their own"


@pytest.mark.parametrize("layout", ["auto", "claude-code"])
async def test_what_is_known_of_a_root_is_known_when_its_layout_is_changed_to_auto_or_back(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path)
    tree.claude()
    async with tree.open(layout) as running:
        await tree.rest(running)
    monkeypatch.setattr(Files, "look_at_session", _unexpected)
    async with tree.open({"auto": "claude-code", "claude-code": "auto"}[layout]) as running:
        await tree.scan(running)
        assert await told(running) == {f"claude-code:{SESSION}": ("claude-code", "completed")}
        assert await running.rows("select * from problems") == []


async def test_a_restart_and_a_scan_look_at_nothing_that_stayed_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path)
    tree.claude()
    tree.ctcp("run")
    tree.put_json("app/run.json", {"no": "session"})
    async with tree.open() as running:
        await tree.rest(running)
    monkeypatch.setattr(Files, "look_at_session", _unexpected)
    monkeypatch.setattr(Files, "identify", _unexpected)
    async with tree.open() as running:
        await tree.scan(running)
        assert len(await told(running)) == 2
        assert await running.rows("select * from problems") == []


def _unexpected(*given: object) -> None:
    raise AssertionError("nothing changed")
