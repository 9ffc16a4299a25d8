"""The MCP server, as the SDK's own client and bare processes use it, against a real daemon."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import anyio
import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S, wait_for

from runward.config.intent import FIELDS
from runward.config.json_value import JsonValue
from runward.config.settings import Settings

if TYPE_CHECKING:
    # To import the SDK takes a second of processor time, so a worker does it with the first test that needs it.
    from mcp import Client
    from mcp_types import CallToolResult

    from runward.daemon.cli.mcp.tools import Sender

ACTIONS = {"read_artifact", "write_artifact", "invoke_artifact", "delete_artifact", "transfer_artifact"}
READING = {"list_artifacts", "show_principal", "list_sessions", "show_session", "why"}
OF_RUN = {"show_contract", "submit_outcome"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READ = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "read_artifact", "arguments": {"artifact_id": "note", "reasoning": "to see"}},
}


@contextlib.asynccontextmanager
async def connected(
    place: Place, *words: str, mode: str = "auto", **environment: str
) -> AsyncIterator["Client"]:
    """The SDK's client, connected to a server in a process of its own."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    command, *arguments = place.argv("mcp", *words)
    told = StdioServerParameters(
        command=command, args=arguments, env=place.environment | environment, cwd=place.directory
    )
    async with Client(told, mode=mode) as client:
        yield client


def acting(sender: "Sender") -> "Client":
    """The SDK's client of a server in this process, with the tools of actions."""
    from mcp import Client

    from runward.daemon.cli.mcp.serving import server_of
    from runward.daemon.cli.mcp.tools import action_tools

    return Client(server_of(lambda _: action_tools(sender), ""))


def acting_in_run(directory: Path) -> "Client":
    """The same, for a run that has this directory."""
    from runward.daemon.cli.mcp.tools import ByRun

    return acting(ByRun(str(directory)))


def told(result: "CallToolResult") -> dict[str, JsonValue]:
    """The object that a tool answered, which its text has, too."""
    value = result.structured_content
    assert isinstance(value, dict), result
    (content,) = result.content
    assert content.type == "text"
    assert json.loads(content.text) == value
    return value


def said(result: "CallToolResult") -> str:
    """Why a tool could not answer."""
    assert (result.is_error, result.structured_content) == (True, None), result
    (content,) = result.content
    assert content.type == "text"
    return content.text


def create(place: Place, *words: str) -> None:
    assert place.call("exchange", "principal", "create", *words).code == 0


async def test_the_tools_about_sessions_show_no_secret_that_a_run_wrote(place: Place) -> None:
    run = place.add_run("leaky")
    (run / "exit.json").write_text('{"exit_code": 3, "cause": "exited", "error": "DB_PASS=xyzzy is wrong"}')
    place.daemon_once()
    async with connected(place) as client:
        for tool, arguments in (
            ("why", {"id": "leaky"}),
            ("show_session", {"id": "leaky"}),
            ("list_sessions", {}),
        ):
            answer = json.dumps(told(await client.call_tool(tool, arguments)))
            assert "DB_PASS=[redacted] is wrong" in answer, tool
            assert "xyzzy" not in answer


@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.prove)])
async def test_a_client_acts_as_the_principal_that_the_server_was_started_for(
    place: Place, mode: str
) -> None:
    policy = {"read_price": 4, "allow_read": ["reader"]}
    with place.daemon():
        create(place, "writer", "--scrip", "100")
        create(place, "reader", "--scrip", "5")
        async with connected(place, "--as", "writer", mode=mode) as writer:
            assert {each.name for each in (await writer.list_tools()).tools} == ACTIONS | READING
            paper = {"artifact_id": "paper", "content": "so it is", "policy": policy, "reasoning": "to earn"}
            written = await writer.call_tool("write_artifact", paper)
            assert (written.is_error, told(written)["data"]) == (
                False,
                {"artifact_id": "paper", "version": 1, "created": True},
            )
        async with connected(place, "--as", "reader", mode=mode) as reader:
            wanted = {"artifact_id": "paper", "reasoning": "to learn"}
            read = told(await reader.call_tool("read_artifact", wanted))
            data = read["data"]
            assert isinstance(data, dict)
            assert data["read_price_paid"] == 4
            again = await reader.call_tool("read_artifact", wanted)
            assert (again.is_error, told(again)["error_code"]) == (True, "insufficient_funds")
            assert told(again)["retriable"] is True
            stolen = await reader.call_tool("delete_artifact", wanted)
            assert (stolen.is_error, told(stolen)["error_code"]) == (True, "not_authorized")
            call = {"artifact_id": "genesis_ledger", "method": "balance", "args": ["writer"], "reasoning": ""}
            balance = told(await reader.call_tool("invoke_artifact", call))["data"]
            assert isinstance(balance, dict)
            assert balance["result"] == {"id": "writer", "scrip": 104}
            own = told(await reader.call_tool("show_principal"))
            assert (own["id"], own["scrip"]) == ("reader", 1)
            listed = told(await reader.call_tool("list_artifacts", {"owner": "writer", "limit": 1}))
            assert (len(list_of(listed, "artifacts")), listed["left_out"]) == (1, 1)
            why = told(await reader.call_tool("why", {"id": "artifact:paper"}))
            assert "writer: wrote paper" in json.dumps(why)
            unknown = said(await reader.call_tool("show_session", {"id": "nothing"}))
            assert "there is no session 'nothing'" in unknown
        logged = json.loads(place.call("exchange", "log", "--json").out)
        assert logged[0]["intent"]["reasoning"] == "to earn"
        assert [each["principal_id"] for each in logged] == ["writer"] + ["reader"] * 4


def list_of(value: dict[str, JsonValue], key: str) -> list[JsonValue]:
    found = value[key]
    assert isinstance(found, list)
    return found


async def test_without_a_principal_the_server_only_reads(recorded: Place) -> None:
    async with connected(recorded) as client:
        assert {each.name for each in (await client.list_tools()).tools} == READING
        sessions = told(await client.call_tool("list_sessions", {"failed": True}))
        listed = recorded.call("session", "list", "--failed", "--json").objects()
        assert sessions == {"sessions": listed, "more": False}
        name = str(listed[0]["session_id"])
        shown = told(await client.call_tool("show_session", {"id": name}))
        assert shown == recorded.call("session", "show", name, "--json").json()
        why = told(await client.call_tool("why", {"id": name}))
        assert why == recorded.call("why", name, "--json").json()
        for arguments, problem in (
            ({"since": "soon"}, "since: 'soon' is not a time"),
            ({"limit": 0}, "limit must be a whole number from 1 to 200"),
            ({"failed": "yes"}, "failed must be true or false"),
            ({"agent": 1}, "agent must be a text"),
        ):
            assert said(await client.call_tool("list_sessions", arguments)).startswith(problem)
        assert "needs the argument 'id'" in said(await client.call_tool("why"))
        assert "there is no tool 'fly'" in said(await client.call_tool("fly"))


async def test_without_a_daemon_nothing_is_sent(place: Place) -> None:
    from runward.daemon.cli.mcp.tools import ByInbox

    place.daemon_once()
    async with acting(ByInbox(Settings(str(place.state)), "writer")) as client:
        refused = await client.call_tool("read_artifact", {"artifact_id": "note", "reasoning": "to see"})
        assert said(refused) == "no daemon is running, so nothing was sent: start it and try again"
    assert list((place.state / "inbox").iterdir()) == []


AGENT = """
import asyncio, json, os, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters

async def main():
    words = json.loads(sys.argv[1])
    server = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    async with Client(server) as client:
        for name, arguments in json.loads(sys.argv[2]):
            result = await client.call_tool(name, arguments)
            print(json.dumps([name, result.is_error, result.structured_content]))

asyncio.run(main())
"""


def in_run(place: Place, name: str, server: list[str], *calls: tuple[str, JsonValue]) -> list[Any]:
    """What the tools answer to an agent in a run, which is `writer` there: tool, whether it failed, and the object."""
    (place.directory / "agent.py").write_text(AGENT)
    words = [sys.executable, "agent.py", json.dumps(place.argv("mcp", *server)), json.dumps(calls)]
    process = place.start("run", "--agent", "writer", "--playbook", "review", "--name", name, "--", *words)
    out, err = process.communicate(timeout=PATIENCE_S)
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == len(calls), err
    return lines


@pytest.mark.prove
def test_in_a_run_a_client_acts_as_the_runs_agent_by_its_files(place: Place) -> None:
    note: JsonValue = {"artifact_id": "note", "content": "hello", "reasoning": "to share"}
    outcome: JsonValue = {"outcome_kind": "review_verdict", "summary": "good", "verdict": "APPROVE"}
    with place.daemon():
        create(place, "writer", "--scrip", "7")
        written, shown, contract, wrong, right = in_run(
            place, "one", [],
            ("write_artifact", note), ("show_principal", {}), ("show_contract", {}),
            ("submit_outcome", {"outcome": {"outcome_kind": "review_verdict"}}),
            ("submit_outcome", {"outcome": outcome, "name": "mine"}),
        )  # fmt: skip
        run = place.runs / "one"
        (line,) = [json.loads(each) for each in (run / "results.jsonl").read_text().splitlines()]
        assert written == ["write_artifact", False, line["result"]]
        assert line["intent"]["reasoning"] == "to share"
        assert (line["line"], line["intent"]["id"]) == (1, line["id"])
        assert shown[2]["scrip"] == 7
        assert contract[2]["verification"]["status"] == "failed", "nothing is delivered yet"
        assert {each["id"] for each in contract[2]["contract"]["expected"]} == {"review", "notes"}
        assert (wrong[1], wrong[2]["valid"]) == (True, False)
        assert {each["field"] for each in wrong[2]["problems"]} >= {"summary", "verdict"}
        assert (right[1], right[2]["path"]) == (False, str(run / "outcomes/mine.json"))
        wait_for(lambda: place.call("artifact", "list", "--json").objects(), "the outcome")
        (kept,) = place.call("artifact", "list", "--json").objects()
        assert (kept["kind"] if "kind" in kept else kept["outcome_kind"], kept["name"]) == (
            "review_verdict",
            "mine",
        )
        (refused,) = in_run(place, "two", ["--as", "other"], ("write_artifact", note))
        assert (refused[1], refused[2]["error_code"]) == (True, "not_authorized")


@pytest.fixture
def running_run(place: Place) -> Path:
    """A run whose intents nobody carries out: its calls wait."""
    return place.add_run("one", agent="writer")


@contextlib.contextmanager
def waiting_server(place: Place, run: Path, start: str) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """A server in the middle of a call: its parent as `start` starts it, a pidfd of the server, and its stdin."""
    near, ours = os.pipe()
    words = [sys.executable, "-c", start, json.dumps(place.argv("mcp"))]
    parent = subprocess.Popen(
        words, stdin=near, stdout=subprocess.PIPE, cwd=place.directory,
        env=place.environment | {"RUNWARD_RUN_DIR": str(run)},
    )  # fmt: skip
    os.close(near)
    try:
        assert parent.stdout is not None
        server = os.pidfd_open(int(parent.stdout.readline()))
        for each in (HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, READ):
            os.write(ours, json.dumps(each).encode() + b"\n")
        assert json.loads(parent.stdout.readline())["result"]["serverInfo"]["name"] == "runward"
        wait_for(lambda: (run / "intents.jsonl").exists(), "the intent")
        yield parent, server, ours
        os.close(server)
    finally:
        with contextlib.suppress(OSError):
            os.close(ours)
        parent.kill()
        parent.wait(PATIENCE_S)
        if parent.stdout is not None:
            parent.stdout.close()


BE_THE_SERVER = "import json, os, sys; print(os.getpid(), flush=True); words = json.loads(sys.argv[1]); os.execv(words[0], words)"
HAVE_A_SERVER = (
    "import json, subprocess, sys, time; child = subprocess.Popen(json.loads(sys.argv[1]));"
    "print(child.pid, flush=True); time.sleep(600)"
)


def end_within_a_second(
    place: Place, run: Path, start: str, end: Callable[[subprocess.Popen[bytes], int], None]
) -> None:
    """`end` has a server end within a second: what it takes is the least, the machine's other work only adds to it."""

    def takes() -> float:
        (run / "intents.jsonl").unlink(missing_ok=True)
        with waiting_server(place, run, start) as (parent, server, stdin):
            began = time.monotonic()
            end(parent, stdin)
            assert select.select([server], [], [], PATIENCE_S)[0]
            return time.monotonic() - began

    wait_for(lambda: takes() < 1.0, "an end within a second")


def test_a_server_ends_within_a_second_after_its_client_closed_the_pipe(
    place: Place, running_run: Path
) -> None:
    end_within_a_second(place, running_run, BE_THE_SERVER, lambda _, stdin: os.close(stdin))


@pytest.mark.prove
def test_a_server_ends_within_a_second_after_nobody_reads_its_answers(
    place: Place, running_run: Path
) -> None:
    def end(parent: subprocess.Popen[bytes], _: int) -> None:
        assert parent.stdout is not None
        parent.stdout.close()

    end_within_a_second(place, running_run, BE_THE_SERVER, end)


def test_a_server_ends_within_a_second_after_its_parent_was_killed(place: Place, running_run: Path) -> None:
    # The pipe to the server's stdin stays open: it is ours.
    end_within_a_second(place, running_run, HAVE_A_SERVER, lambda parent, _: parent.kill())


@pytest.mark.prove
def test_a_server_ends_at_the_first_interrupt(place: Place, running_run: Path) -> None:
    def end(parent: subprocess.Popen[bytes], _: int) -> None:
        parent.send_signal(signal.SIGINT)
        assert parent.wait(PATIENCE_S) == 130

    end_within_a_second(place, running_run, BE_THE_SERVER, end)


def test_a_server_without_its_library_says_what_to_install(place: Place) -> None:
    with mock.patch.dict(sys.modules, {"mcp": None}):
        ended = place.call("mcp", "--as", "writer")
    assert ended.code == 2
    assert "needs one more library: in Runward's checkout, run pipx install --force '.[mcp]'" in ended.err


@pytest.mark.parametrize(
    ("words", "environment", "code"),
    [(("--as", ""), {}, 2), (("--as", "a\nb"), {}, 2), ((), {"RUNWARD_RUN_DIR": "/nowhere"}, 3)],
)
def test_a_server_that_can_not_know_who_acts_does_not_start(
    place: Place, words: tuple[str, ...], environment: dict[str, str], code: int
) -> None:
    ended = place.call("mcp", *words, **environment)
    assert (ended.code, ended.out) == (code, "")


def test_each_action_has_a_tool_with_the_fields_of_its_intent() -> None:
    from runward.daemon.cli.mcp.tools import ByRun, action_tools

    tools = {each.name: each for each in action_tools(ByRun("/nowhere"))}
    assert set(tools) == set(FIELDS) - {"noop"} == ACTIONS
    for name, tool in tools.items():
        assert set(tool.keys) == {*FIELDS[name], "reasoning"}
        assert "reasoning" in tool.needed


DEEP: JsonValue = []
for _ in range(70):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("read_artifact", {"artifact_id": "a"}, "needs the argument 'reasoning'"),
        ("read_artifact", {"artifact_id": "a", "reasoning": 1}, "reasoning must be a text"),
        ("read_artifact", {"artifact_id": "a", "reasoning": "", "principal_id": "b"}, "no argument 'principal_id'"),
        ("read_artifact", {"artifact_id": "", "reasoning": ""}, "artifact_id must have 1 to 128 characters"),
        ("read_artifact", {"artifact_id": "\ud800", "reasoning": ""}, "not UTF-8"),
        ("write_artifact", {"artifact_id": "a", "reasoning": "", "content": "x" * (1 << 20)}, "longer than 1 MiB"),
        ("write_artifact", {"artifact_id": "a", "reasoning": "", "executable": True}, "needs code"),
        ("invoke_artifact", {"artifact_id": "a", "reasoning": "", "method": "m", "args": DEEP}, "nested more than"),
    ],
)  # fmt: skip
async def test_a_wrong_call_is_refused_before_anything_is_sent(
    tmp_path: Path, name: str, arguments: dict[str, object], problem: str
) -> None:
    async with acting_in_run(tmp_path) as client:
        result = await client.call_tool(name, arguments)
    assert result.is_error
    (content,) = result.content
    assert content.type == "text"
    assert problem in content.text
    if isinstance(result.structured_content, dict):
        assert result.structured_content["error_code"] == "invalid_argument"
    assert list(tmp_path.iterdir()) == []


async def test_calls_at_the_same_time_get_their_own_results_in_whatever_order(tmp_path: Path) -> None:
    async def carry_out(count: int) -> None:
        """As a daemon would, but backwards."""
        intents: list[dict[str, JsonValue]] = []
        while len(intents) < count:
            await anyio.sleep(0.01)
            file = tmp_path / "intents.jsonl"
            intents = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        for each in reversed(intents):
            line = {"id": each["id"], "result": {"success": True, "message": each["content"], "data": None}}
            with (tmp_path / "results.jsonl").open("a") as results:
                results.write(json.dumps(line) + "\n")

    async def write(client: "Client", name: str) -> None:
        arguments = {"artifact_id": "note", "content": name, "reasoning": ""}
        assert told(await client.call_tool("write_artifact", arguments))["message"] == name

    async with (
        acting_in_run(tmp_path) as client,
        anyio.create_task_group() as group,
    ):
        for number in range(12):
            group.start_soon(write, client, f"content {number}")
        group.start_soon(carry_out, 12)
