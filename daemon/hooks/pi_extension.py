"""Pi's `extensions/runward.js`: an extension that is Runward's alone. It calls the hook's script without a shell."""

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from runward.config.problem import Problem
from runward.daemon.hooks.settings_file import Edited, Refused, is_ours

AGENT: Final = "pi"
EVENTS: Final = ("session_start", "before_agent_start", "agent_end", "session_shutdown")
"""What it listens to. Pi never calls a listener for an event that it doesn't know."""

_HEAD: Final = (
    "// Made by `runward hook install pi`, which also replaces it; `runward hook uninstall pi` removes it.\n"
)
_COMMAND: Final = re.compile(r"^const command = (\[.*\]);$", re.MULTILINE)
_BODY: Final = """\
import { spawnSync } from "node:child_process";

const command = %s;

function tell(name, context, more) {
  try {
    const session = context.sessionManager;
    const payload = {
      hook_event_name: name,
      session_id: session.getSessionId(),
      transcript_path: session.getSessionFile(),
      cwd: context.cwd,
      ...more,
    };
    const stdio = ["pipe", "ignore", "ignore"];
    spawnSync(command[0], command.slice(1), { input: JSON.stringify(payload), stdio, timeout: 10000 });
  } catch {
    // Runward finds out by itself, later.
  }
}

export default function (pi) {
  pi.on("session_start", (event, context) => tell("SessionStart", context, { source: event.reason }));
  pi.on("before_agent_start", (event, context) => tell("UserPromptSubmit", context, { prompt: event.prompt }));
  pi.on("agent_end", (event, context) => tell("Stop", context));
  pi.on("session_shutdown", (event, context) => tell("SessionEnd", context));
}
"""


def install(text: str | None, name: str, words: Sequence[str]) -> Edited:
    """The extension that calls our program, `words`. Raises `Refused` if the file is another's."""
    if text is not None:
        _expect_ours(text, name)
    return Edited(_HEAD + _BODY % json.dumps(list(words)))


def uninstall(text: str | None, name: str) -> Edited:
    """No file. Raises `Refused` if it is another's."""
    if text is not None:
        _expect_ours(text, name)
    return Edited(None)


def events_in(text: str, name: str) -> tuple[str, ...]:
    """The events that the extension listens to. Raises `Refused` if it is another's."""
    _expect_ours(text, name)
    return tuple(event for event in EVENTS if f'pi.on("{event}"' in text)


def _expect_ours(text: str, name: str) -> None:
    found = _COMMAND.search(text)
    try:
        words = msgspec.json.decode(found[1], type=list[str]) if found is not None else []
    except msgspec.DecodeError:
        words = []
    # It is replaced and removed as a whole, so it must be the one that we made.
    if not text.startswith(_HEAD) or not is_ours(words, AGENT):
        fix = "move it to a file with another name, and try again"
        raise Refused(Problem(name, None, None, "has something else than Runward's hooks", fix))
