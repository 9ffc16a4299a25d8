"""Codex's `hooks.json`: the events that the installed Codex knows, and whether it trusts our hooks.

Codex skips every hook that its person has not trusted, without a word. Its app server lists the hooks of a home, each with the
hash that is trusted. It is asked in a home of its own, because it writes databases; the hash doesn't depend on the home.
"""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.daemon.hooks.claude_code_settings import Form, install
from runward.daemon.hooks.programs import Program, alone, started_alone
from runward.daemon.hooks.settings_file import Refused, is_our_shell_command, read_settings_file
from runward.daemon.hooks.toml_text import read_toml_text

AGENT: Final = "codex"
FILE: Final = "hooks.json"
FORM: Final = Form(
    agent=AGENT,
    title="Codex",
    events=("SessionStart", "UserPromptSubmit", "SessionEnd"),
    timeout=3,  # it gives SessionEnd no more
)
"""`Stop` is not among them: `notify`, which needs no trust, reports the same."""

TRUST: Final = "start codex and trust the hooks: it asks when it starts, and in /hooks"
"""What a person has to do before Codex runs them."""

_ASK_S: Final = 20.0
_MOST: Final = 1 << 22
_LIST: Final = 2
_ASKED: Final = (
    {
        "id": 1,
        "method": "initialize",
        "params": {"clientInfo": {"name": "runward", "title": "Runward", "version": "1"}},
    },
    {"method": "initialized"},
    {"id": _LIST, "method": "hooks/list", "params": {"cwds": ["/"]}},
)


class _Listed(NamedTuple):
    """A hook as Codex lists it. `place` is what its key has behind the file's path."""

    event: str
    place: str
    command: str
    hash: str


def known(program: Program | None) -> tuple[str, ...]:
    """The events that the program knows; without one, all: Codex skips others, and versions without hooks skip the file."""
    if program is None:
        return FORM.events
    text = install(None, FILE, "true", FORM.events, FORM).text
    assert text is not None, "there are events"
    listed = {each.event for each in _listed(program, text)}
    return tuple(event for event in FORM.events if event in listed)


def is_trusted(path: str, text: str, program: Program | None) -> bool | None:
    """Whether Codex runs all of our hooks in the file's `text`; None if it can't be found out."""
    ours = [each for each in _listed(program, text) if is_our_shell_command(each.command, AGENT)]
    if not ours:
        return None
    # Codex may have found its home by way of links.
    paths = {path, os.path.realpath(path)}
    trusted = _trusted(os.path.join(os.path.dirname(path), "config.toml"))
    return all(any(trusted.get(f"{each}:{hook.place}") == hook.hash for each in paths) for hook in ours)


def _trusted(config: str) -> dict[str, JsonValue]:
    """The hashes that are trusted, by their hooks' keys; of those that are switched off, none."""
    try:
        text = read_settings_file(config).text
        hooks = {} if text is None else read_toml_text(text, config).document.get("hooks")
    except (Refused, OSError):
        return {}
    state = hooks.get("state") if isinstance(hooks, dict) else None
    return {
        key: each.get("trusted_hash")
        for key, each in (state.items() if isinstance(state, dict) else ())
        if isinstance(each, dict) and each.get("enabled") is not False
    }


def _listed(program: Program | None, text: str) -> list[_Listed]:
    """What the program lists of a home with this `hooks.json`; empty if it can't be asked."""
    if program is None:
        return []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        variables = alone(os.environ, scratch)
        file = os.path.realpath(os.path.join(variables["CODEX_HOME"], FILE))
        Path(file).write_text(text)
        return list(_hooks_in(_answer(program, scratch, variables), file))


def _hooks_in(answer: JsonValue, file: str) -> Iterator[_Listed]:
    """The hooks of this file among those in an answer."""
    match answer:
        case {"data": [{"hooks": [*hooks]}]}:
            for hook in hooks:
                match hook:
                    case {
                        "key": str(key),
                        "eventName": str(name),
                        "command": str(command),
                        "currentHash": str(hashed),
                    } if key.startswith(f"{file}:"):
                        event = name[:1].upper() + name[1:]
                        yield _Listed(event, key.removeprefix(f"{file}:"), command, hashed)


def _answer(program: Program, scratch: str, variables: Mapping[str, str]) -> JsonValue:
    """What the program's app server answers to `hooks/list`; None if it doesn't."""
    try:
        with started_alone((program.path, "app-server"), scratch, variables, subprocess.PIPE) as process:
            assert process.stdin is not None, "a pipe"
            assert process.stdout is not None, "a pipe"
            # It ends with its input, and may then leave the last question without an answer: so the input stays open.
            process.stdin.write("".join(f"{json.dumps(each)}\n" for each in _ASKED).encode())
            return _result(process.stdout.fileno())
    except OSError:
        return None


def _result(output: int) -> JsonValue:
    """The result of our question among the lines of the output; None if none comes."""
    said, until = b"", time.monotonic() + _ASK_S
    while len(said) < _MOST and (left := until - time.monotonic()) > 0:
        if not select.select([output], [], [], left)[0] or not (piece := os.read(output, 1 << 16)):
            return None
        *lines, said = (said + piece).split(b"\n")
        for line in lines:
            try:
                message: JsonValue = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(message, dict) and message.get("id") == _LIST:
                return message.get("result")
            if isinstance(message, dict) and "error" in message:
                return None  # a version without this question doesn't say which one it refuses
    return None
