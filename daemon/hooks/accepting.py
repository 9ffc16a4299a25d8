"""Whether the installed Claude Code accepts settings with certain hooks: it is started, and must call one."""

import json
import shlex
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from runward.daemon.hooks.programs import Program, alone, started_alone

_ACCEPTS_S: Final = 30.0
_TURN_S: Final = 0.05
_ASKED: Final = ("-p", "hello")
_EARLIEST: Final = "UserPromptSubmit"
"""The first event that a start reports and that every version knows that knows either of them."""


def accepts(program: Program, events: Sequence[str], environment: Mapping[str, str]) -> bool | None:
    """Whether the program accepts settings with hooks for these events; None if it can't be found out.

    It is started in a home of its own, where it reaches no model and needs no account: it calls its first hook before
    it asks for anything. None of the person's files are read or written.
    """
    if _calls(program, events, environment):
        return True
    # If even the oldest event calls nothing, something else is wrong with the trial, and it proves nothing.
    return False if _calls(program, (_EARLIEST,), environment) else None


def _calls(program: Program, events: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether it calls a hook from settings that have exactly these."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        called = Path(scratch, "called")
        hook = {"type": "command", "command": f"touch {shlex.quote(str(called))}", "timeout": 10}
        hooks = {event: [{"hooks": [hook]}] for event in events}
        variables = alone(environment, scratch)
        Path(variables["CLAUDE_CONFIG_DIR"], "settings.json").write_text(json.dumps({"hooks": hooks}))
        try:
            with started_alone((program.path, *_ASKED), scratch, variables) as process:
                until = time.monotonic() + _ACCEPTS_S
                while not called.exists() and process.poll() is None and time.monotonic() < until:
                    time.sleep(_TURN_S)
                return called.exists()
        except OSError:
            return False
