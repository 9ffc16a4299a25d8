"""The steps of `runward init` are done: recorded first, then one after the other, each file whole or not at all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from runward.daemon.cli.init.finding import Agent
from runward.daemon.cli.init.planning import Step, entries_of, made_for
from runward.daemon.cli.init.record import (
    Directory,
    hash_of,
    read_record,
    temporary_of,
    with_new,
    write_record,
)
from runward.daemon.disk.durable import sync_directory
from runward.daemon.disk.state_rights import check
from runward.daemon.hooks.accepting import accepts
from runward.daemon.hooks.agents import files_of
from runward.daemon.hooks.claude_code_settings import CLAUDE_CODE
from runward.daemon.hooks.events import known_to
from runward.daemon.hooks.programs import Program
from runward.daemon.hooks.settings_file import Refused, SettingsFile, read_settings_file
from runward.daemon.units.installing import Systemctl

State: TypeAlias = Literal["planned", "done", "unchanged", "failed", "left out"]


class Outcome(NamedTuple):
    """What became of a step."""

    step: Step
    state: State
    words: str


class _Failed(Exception):
    """A step can't be done; the message says why, and what to do."""


def carry_out(steps: Sequence[Step], state: str) -> Iterator[Outcome]:
    """Do the steps. One that fails stops only those that need it. Raises `OSError` if nothing can be recorded."""
    # The record says what will be made, and what was there, before any of it is made. So whatever a crash leaves, `undo`
    # knows it. Only directories above the state, which hold the record, come before it.
    if any(step.is_needed and step.problem is None for step in steps):
        _record(steps, state)
    failed: set[str] = set()
    for step in steps:
        outcome = _outcome(step, failed)
        if outcome.state in ("failed", "left out"):
            failed.add(step.name)
        yield outcome


def _record(steps: Sequence[Step], state: str) -> None:
    made = made_for(state)
    for each in made:
        make_directory(each)
    check(Path(state))
    write_record(state, with_new(read_record(state), [*made, *entries_of(steps)]))


def _outcome(step: Step, failed: set[str]) -> Outcome:
    if step.problem is not None:
        return Outcome(step, "failed", step.problem)
    lacking = [each for each in step.needs if each in failed]
    if lacking:
        return Outcome(step, "left out", f"it needs the {lacking[0]}")
    if not step.is_needed:
        return Outcome(step, "unchanged", "unchanged")
    try:
        return Outcome(step, "done", _do(step))
    except (_Failed, Refused) as failure:
        return Outcome(step, "failed", str(failure))
    except OSError as error:
        return Outcome(step, "failed", f"{error.filename or step.path}: {error.strerror}")


def _do(step: Step) -> str:
    words = []
    if step.file is not None and step.text is not None:
        for entry in step.entries():
            if isinstance(entry, Directory):
                make_directory(entry)
        words.append("written" if step.file.text is None else "changed")
        put(step.file, step.text)
        if step.agent is not None:
            _read_back(step, step.agent, step.file)
    # Of the agents, Claude Code alone ignores settings that name an event that it doesn't know.
    program = None if step.name != CLAUDE_CODE.agent or step.agent is None else step.agent.program
    if program is not None and step.file is not None:
        words.append(_accepted(step, step.file, program))
    if step.service is not None:
        systemctl = Systemctl(is_user=True)
        for call in step.service.calls:
            ran = systemctl.change(*call)
            if ran.code != 0:
                raise _Failed(f"systemd refused `{' '.join(ran.words)}`: {ran.printed}")
        words.append("started")
    return "; ".join(each for each in words if each)


def _read_back(step: Step, agent: Agent, file: SettingsFile) -> None:
    """See that an agent's file has its hooks and what was there before; else put that back. Raises `_Failed`."""
    hooked = files_of(agent.layout, os.environ)[step.path]
    wrong = hooked.differs(file, hooked.known(agent.program))
    if wrong is not None:
        _put_back(file, step.text)
        raise _Failed(f"{file.path} was put back as it was: read back, it {wrong}")


def _accepted(step: Step, file: SettingsFile, program: Program) -> str:
    """Whether the installed program takes settings with these hooks; else they are taken out again. Raises `_Failed`."""
    match accepts(program, known_to(CLAUDE_CODE.agent, program), os.environ):
        case True:
            return f"{program.title} called a hook"
        case None:
            return f"{program.name} could not be asked whether it accepts them"
        case False:
            _put_back(file, step.text)
            raise _Failed(
                f"{program.name} does not accept the hooks: the settings were put back as they were"
            )


def _put_back(file: SettingsFile, text: str | None) -> None:
    """Give a file what it held before `text`. Raises `_Failed` if somebody else wrote it since."""
    now = read_settings_file(file.path)
    if now.text != text:
        raise _Failed(f"{file.path} was changed while it was checked: see `runward hook status`")
    put(now, file.text)


def make_directory(entry: Directory) -> None:
    """Make a directory that was recorded, durably. Raises `OSError`."""
    with suppress(FileExistsError):
        os.mkdir(entry.path, 0o700)
        sync_directory(os.path.dirname(entry.path))


def put(file: SettingsFile, text: str | None) -> None:
    """Give a file its content, by way of a name that `clear` knows. Raises `Refused` and `OSError`."""
    if text is None:
        file.remove()
        return
    temporary = temporary_of(file.path, hash_of(text))
    clear(temporary)
    file.replace(text, temporary)


def clear(temporary: str) -> None:
    """Remove what a crash left of a file. Raises `OSError`."""
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(temporary)
