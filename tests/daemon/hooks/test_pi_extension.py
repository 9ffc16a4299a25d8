"""Pi's extension: what it says to the script is what the daemon reads."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from runward.daemon.hooks.pi_extension import EVENTS, events_in, install, uninstall
from runward.daemon.hooks.settings_file import Refused, words_of

NAME = "runward.js"
OURS = words_of("pi", '/state of "mine"\u2028')

_CALLS = """\
import extension from %s;
const listeners = {};
extension({ on: (event, listener) => (listeners[event] = listener) });
const session = { getSessionId: () => "s-1", getSessionFile: () => "/log.jsonl" };
const context = { cwd: "/work", sessionManager: session };
const events = { session_start: { reason: "startup" }, before_agent_start: { prompt: "fix it" } };
for (const name in listeners) await listeners[name](events[name] ?? {}, context);
await listeners.agent_end({}, {});
"""


def installed(words: list[str]) -> str:
    text = install(None, NAME, words).text
    assert text is not None
    return text


def test_an_older_one_is_known_and_replaced_and_a_changed_one_left_alone() -> None:
    older = installed(["/old/python", "-S", "-E", "/old/runward_hook.py", "pi", "--state", "/s"])
    assert events_in(older, NAME) == EVENTS
    assert install(older, NAME, OURS).text == installed(OURS)
    assert uninstall(older, NAME).text is None
    for other in (
        "",
        "// mine\n" + older,
        older.replace("runward_hook.py", "mine.py"),
        older.replace('"pi"', "pi"),
    ):
        with pytest.raises(Refused, match="something else than Runward's hooks"):
            uninstall(other, NAME)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed here")
def test_each_event_is_told_to_the_script(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ncat >> {tmp_path}/said; echo >> {tmp_path}/said; exit 1\n")
    script.chmod(0o700)
    extension = tmp_path / "runward.mjs"
    text = installed(OURS)
    extension.write_text(text.replace(json.dumps(OURS), json.dumps([str(script), *OURS[1:]])))
    calls = tmp_path / "calls.mjs"
    calls.write_text(_CALLS % json.dumps(str(extension)))
    subprocess.run(["node", str(calls)], check=True, timeout=PATIENCE_S)
    said = [json.loads(line) for line in (tmp_path / "said").read_text().splitlines()]
    common = {"session_id": "s-1", "transcript_path": "/log.jsonl", "cwd": "/work"}
    assert said == [
        {"hook_event_name": "SessionStart", **common, "source": "startup"},
        {"hook_event_name": "UserPromptSubmit", **common, "prompt": "fix it"},
        {"hook_event_name": "Stop", **common},
        {"hook_event_name": "SessionEnd", **common},
    ]
