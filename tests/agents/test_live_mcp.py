"""The real Claude Code uses the tools of `runward mcp`, outside a run and in one, and those that the daemon serves over HTTP."""

import json
import os
from pathlib import Path
from typing import Final

import pytest
from tests.agents.agents import CLAUDE
from tests.agents.homes import NOWHERE, Home, make_home
from tests.agents.installed import NotToBeHadError, program
from tests.agents.replies import Says, Uses
from tests.agents.scripted_model import Model, Scripts, prompt
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_mcp_http import HTTP
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]

SCRIPTS: Final[Scripts] = {
    "share": [
        Uses("WaitForMcpServers", {}),  # it begins before its servers are there, and has this tool for that
        Uses(
            "mcp__runward__write_artifact",
            {"artifact_id": "note", "content": "from Claude", "reasoning": "to share what I found"},
        ),
        Uses("mcp__runward__read_artifact", {"artifact_id": "nothing", "reasoning": "to see"}),
        Says("It is shared."),
    ]
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    try:
        program(CLAUDE.pinned)
    except NotToBeHadError as error:
        pytest.skip(str(error))
    return make_home(tmp_path / "stage")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    directory = tmp_path / "place"
    directory.mkdir()
    place = Place(directory)
    place.furnish()
    return place


def over_stdio(place: Place, *options: str) -> dict[str, object]:
    """As the documentation has it: the client expands the variable, to nothing outside a run."""
    command, *arguments = place.argv("--config", str(place.directory / "runward.toml"), "mcp", *options)
    environment = {"PYTHONPATH": place.environment["PYTHONPATH"], "RUNWARD_RUN_DIR": "${RUNWARD_RUN_DIR:-}"}
    return {"command": command, "args": arguments, "env": environment}


def over_http(place: Place, home: Home) -> dict[str, object]:
    """As the documentation has it: the client expands the token."""
    home.variables["RUNWARD_TOKEN"] = place.call("exchange", "token", "create", "--as", "writer").out.strip()
    where = place.call("status", "--json").object()["http"]
    assert isinstance(where, dict)
    headers = {"Authorization": "Bearer ${RUNWARD_TOKEN}"}
    return {"type": "http", "url": f"{where['address']}/mcp", "headers": headers}


@pytest.mark.parametrize("where", ["outside", "in a run", "over HTTP"])
def test_claude_code_acts_through_the_tools(home: Home, place: Place, where: str) -> None:
    is_in_run = where == "in a run"
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + HTTP)
    file = home.work / "mcp.json"
    options = ["--mcp-config", str(file), "--allowedTools", "mcp__runward", "--output-format", "stream-json"]
    words = [*program(CLAUDE.pinned), "-p", prompt("share"), *options, "--verbose"]
    with Model(SCRIPTS) as model, place.daemon():
        CLAUDE.settle(home, model.url)
        assert place.call("exchange", "principal", "create", "writer").code == 0
        if where == "over HTTP":
            server = over_http(place, home)
        else:
            server = over_stdio(place, *([] if is_in_run else ["--as", "writer"]))
        file.write_text(json.dumps({"mcpServers": {"runward": server}}))
        if is_in_run:
            proxies = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1"}
            variables = {"HOME": str(home.home), "PATH": os.environ["PATH"], **proxies, **home.variables}
            launch = ["run", "--agent", "writer", "--name", "one", "--", *words]
            said = place.start(*launch, **variables).communicate(timeout=PATIENCE_S)[0]
        else:
            run = home.start(*words)
            assert run.end() == 0, run.said()
            said = run.said()
        assert "It is shared." in said
        logged = json.loads(place.call("exchange", "log", "--json").out)
        done = [(each["intent"]["action_type"], each["result"].get("error_code")) for each in logged]
        assert done == [("write_artifact", None), ("read_artifact", "not_found")], said
        assert {each["session_key"] for each in logged} == {"native:runs/one" if is_in_run else None}
        assert logged[0]["intent"]["reasoning"] == "to share what I found"
        shown = place.call("exchange", "artifact", "show", "note", "--json").object()
        assert (shown["owner_id"], shown["size"]) == ("writer", len("from Claude"))
