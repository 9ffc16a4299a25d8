"""Modules in agents with extensions: what they say to the script is what the daemon reads."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from runward.daemon.hooks.events import SINCE, events_of
from runward.daemon.hooks.modules import KILO, OPENCODE, PI, Module
from runward.daemon.hooks.settings_file import Refused, words_of

NAME = "runward.js"

_OF_PI = """\
const listeners = {};
module.default({ on: (event, listener) => (listeners[event] = listener) });
const session = { getSessionId: () => "s-1", getSessionFile: () => "/log.jsonl" };
const context = { cwd: "/work", sessionManager: session };
const events = { session_start: { reason: "startup" }, before_agent_start: { prompt: "fix it" } };
for (const name in listeners) await listeners[name](events[name] ?? {}, context);
await listeners.agent_end({}, {});
"""
_OF_OPENCODE = """\
const { event } = await module.Runward({ directory: "/work" });
const say = (type, properties) => event({ event: { type, properties } });
const status = (sessionID, type) => say("session.status", { sessionID, status: { type } });
await say("session.created", { sessionID: "s-1", info: { id: "s-1", directory: "/work" } });
await status("s-1", "busy");
await say("session.created", { sessionID: "s-2", info: { id: "s-2", parentID: "s-1", directory: "/work" } });
for (const session of ["s-1", "s-2"]) await status(session, "busy");
await say("session.idle", { sessionID: "s-2" });
await say("session.idle", { sessionID: "s-1" });
await say("session.idle", { sessionID: "s-1" });
await say("session.status", {});
await say("message.updated", null);
"""
OF_PI = {"session_id": "s-1", "transcript_path": "/log.jsonl", "cwd": "/work"}
OF_OPENCODE = {"session_id": "s-1", "cwd": "/work"}
SAID: list[tuple[Module, str, list[dict[str, Any]]]] = [
    (
        PI,
        _OF_PI,
        [
            {"hook_event_name": "SessionStart", **OF_PI, "source": "startup"},
            {"hook_event_name": "UserPromptSubmit", **OF_PI, "prompt": "fix it"},
            {"hook_event_name": "Stop", **OF_PI},
            {"hook_event_name": "SessionEnd", **OF_PI},
        ],
    ),
    (
        OPENCODE,
        _OF_OPENCODE,
        [{"hook_event_name": name, **OF_OPENCODE} for name in ("SessionStart", "UserPromptSubmit", "Stop")],
    ),
]
EACH = pytest.mark.parametrize(("module", "calls", "expected"), SAID, ids=[each[0].agent for each in SAID])


def installed(module: Module, words: list[str]) -> str:
    text = module.install(None, NAME, words, events_of(module.agent)).text
    assert text is not None
    return text


@pytest.mark.parametrize("module", [PI, OPENCODE, KILO], ids=lambda module: module.agent)
def test_an_older_one_is_known_and_replaced_and_another_is_left_alone(module: Module) -> None:
    words = words_of(module.agent, '/state of "mine" ä')
    older = installed(
        module, ["/old/python", "-S", "-E", "/old/runward_hook.py", module.agent, "--state", "/s"]
    )
    assert module.events_in(older, NAME) == events_of(module.agent)
    assert module.install(older, NAME, words, events_of(module.agent)).text == installed(module, words)
    assert module.install(older, NAME, words, ()).text is None, "without an event it is removed"
    assert len({*SINCE[module.agent].values()}) == 1, (
        "it listens to all of them, so each version knows all or none"
    )
    assert module.uninstall(older, NAME).text is None
    broken = older.replace(f'"{module.agent}"', module.agent)
    for other in ("", "// mine\n" + older, older.replace("runward_hook.py", "mine.py"), broken):
        with pytest.raises(Refused, match="something else than Runward's hooks"):
            module.uninstall(other, NAME)


@EACH
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
def test_each_event_is_told_to_the_script(
    module: Module, calls: str, expected: list[dict[str, Any]], tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ncat >> {tmp_path}/said; echo >> {tmp_path}/said; exit 1\n")
    script.chmod(0o700)
    file = tmp_path / "runward.mjs"
    file.write_text(installed(module, [str(script), "-S", "-E"]))
    calling = tmp_path / "calls.mjs"
    calling.write_text(f'import * as module from "{file}";\n{calls}')
    subprocess.run(["node", str(calling)], check=True, timeout=PATIENCE_S)
    assert [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()] == expected
