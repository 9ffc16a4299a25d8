"""Modules of JavaScript that are Runward's alone, for agents with extensions: each calls the hook's script without a shell.

The agent waits for the script, so the note is written before the agent goes on or ends. A module never throws.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from runward.config.problem import Problem
from runward.daemon.hooks.events import events_of
from runward.daemon.hooks.settings_file import Edited, Refused, is_ours

_HEAD: Final = """\
// Made by `runward hook install AGENT`, which also replaces it; `runward hook uninstall AGENT` removes it.
import { spawnSync } from "node:child_process";

const command = COMMAND;

function call(payload) {
  const stdio = ["pipe", "ignore", "ignore"];
  spawnSync(command[0], command.slice(1), { input: JSON.stringify(payload), stdio, timeout: 10000 });
}

"""
_COMMAND: Final = re.compile(r"^const command = (\[.*\]);$", re.MULTILINE)

_PI: Final = """\
function tell(name, context, more) {
  try {
    const session = context.sessionManager;
    call({
      hook_event_name: name,
      session_id: session.getSessionId(),
      transcript_path: session.getSessionFile(),
      cwd: context.cwd,
      ...more,
    });
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

_OPENCODE: Final = """\
const delegated = new Set();
const busy = new Set();

function tell(name, session, cwd) {
  if (!delegated.has(session)) call({ hook_event_name: name, session_id: session, cwd });
}

function hear(type, said, cwd) {
  const session = said.sessionID;
  if (type === "session.created") {
    if (said.info.parentID) delegated.add(said.info.id);
    tell("SessionStart", said.info.id, said.info.directory);
  } else if (type === "session.status" && said.status.type === "busy" && !busy.has(session)) {
    busy.add(session);
    tell("UserPromptSubmit", session, cwd);
  } else if (type === "session.idle" && busy.delete(session)) {
    tell("Stop", session, cwd);
  }
}

export const Runward = async ({ directory }) => ({
  event: async ({ event }) => {
    try {
      hear(event.type, event.properties, directory);
    } catch {
      // Runward finds out by itself, later.
    }
  },
});
"""


class Module(NamedTuple):
    """An agent's module, which listens to all of the agent's events: every version knows all of them, or none."""

    agent: str
    body: str

    @property
    def _head(self) -> str:
        return _HEAD.replace("AGENT", self.agent)

    def install(self, text: str | None, name: str, words: Sequence[str], events: Sequence[str]) -> Edited:
        """The module that calls our program, `words`; none without events. Raises `Refused` if the file is another's."""
        if text is not None:
            self._expect_ours(text, name)
        if not events:
            return Edited(None)
        return Edited(self._head.replace("COMMAND", msgspec.json.encode(list(words)).decode()) + self.body)

    def uninstall(self, text: str | None, name: str) -> Edited:
        """No file. Raises `Refused` if it is another's."""
        if text is not None:
            self._expect_ours(text, name)
        return Edited(None)

    def events_in(self, text: str, name: str) -> tuple[str, ...]:
        """The events that the module listens to. Raises `Refused` if it is another's."""
        self._expect_ours(text, name)
        return tuple(event for event in events_of(self.agent) if f'"{event}"' in text)

    def others_in(self, text: str, name: str) -> list[object]:
        """Nothing: the file is ours alone. Raises `Refused` if it is another's."""
        self._expect_ours(text, name)
        return []

    def _expect_ours(self, text: str, name: str) -> None:
        found = _COMMAND.search(text)
        try:
            words = msgspec.json.decode(found[1], type=list[str]) if found is not None else []
        except msgspec.DecodeError:
            words = []
        # It is replaced and removed as a whole, so it must be one that we made.
        if not text.startswith(self._head.partition("\n")[0]) or not is_ours(words, self.agent):
            fix = "move it to a file with another name, and try again"
            raise Refused(Problem(name, None, None, "has something else than Runward's hooks", fix))


PI: Final = Module("pi", _PI)
OPENCODE: Final = Module("opencode", _OPENCODE)
KILO: Final = OPENCODE._replace(agent="kilo")  # a fork of it, with the same plugins
