"""`runward play run`: asking the daemon for a playbook's command, and watching the run."""

import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import click

from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook, fill_command
from runward.config.settings import PLAYBOOK_SUFFIX, Settings
from runward.config.template import WrongValue, given_values
from runward.daemon.cli.exits import NOT_FOUND, TRY_AGAIN, WRONG_SETTINGS, WRONG_USAGE
from runward.daemon.cli.play.declared import declared
from runward.daemon.cli.terminal.output import complain, fail, note, print_json
from runward.daemon.configuration.declared_files import NotFound
from runward.daemon.inbox.spool import MAXIMUM_REQUEST, dump_request, put
from runward.daemon.store.ownership import holder, prepare
from runward.handlers.layouts.native import session_key
from runward.handlers.model.requests import PlayRunRequested
from runward.handlers.requests import run_name


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was put into the inbox, and the session that it will be."""

    request: str
    session_id: str
    key: str

    def as_json(self, status: str, problem: str | None = None, **further: JsonValue) -> JsonValue:
        """What `--json` prints of it."""
        said = {"request": self.request, "session_id": self.session_id, "key": self.key}
        return {**said, "status": status, "problem": problem, **further}


def ask(settings: Settings, name: str, words: Sequence[str]) -> Asked:
    """Check everything that can be checked now and put the request; exits if something is wrong."""
    given = values_of(words)
    playbook = _playbook(settings, name)
    filled = fill_command(playbook, given)
    if filled.value is None:
        complain(filled.problems)
        sys.exit(WRONG_USAGE)
    root = settings.launch_root
    if root is None:
        fail("no root of the settings has the layout 'native': add one for new runs to go to", WRONG_SETTINGS)
    now, request = time.time(), str(uuid.uuid4())
    event = PlayRunRequested(
        request, now, name, given, _working_directory(), _trace(os.environ), by_run=own_chain_run()
    )
    content = dump_request(event)
    if len(content) > MAXIMUM_REQUEST:
        _refuse("the values are too long for a request (1 MiB): write them into a file, and give its name")
    prepare(Path(settings.state_dir))
    put(Path(settings.state_dir), request, content)
    run = run_name(name, now, request)
    return Asked(request, run, session_key(root.name, run))


def _working_directory() -> str:
    """The directory that the command will run in: the caller's."""
    try:
        return _text(os.getcwd(), "the working directory")
    except FileNotFoundError:
        _refuse("the working directory is gone: cd to one that exists")


def run_and_end(
    settings: Settings, name: str, words: Sequence[str], wait: bool, follow: bool, as_json: bool
) -> None:
    """Ask for the run and say what it will be; if wanted, wait for it and exit by its result."""
    state = Path(settings.state_dir)
    if (wait or follow) and holder(state) is None:
        fail(
            "no daemon is running, so nothing was requested: start it, or leave out --wait and --follow",
            TRY_AGAIN,
        )
    asked = ask(settings, name, words)
    if not as_json:
        click.echo(asked.session_id)
    if not (wait or follow):
        if as_json:
            print_json(asked.as_json("asked"))
        if holder(state) is None:
            note("no daemon is running: it will start when a daemon does")
        return
    from runward.daemon.cli.play.watching import watch

    try:
        sys.exit(watch(settings.state_dir, asked, follow, as_json))
    except KeyboardInterrupt:
        note(f"it continues: `runward session show {asked.session_id}` says what became of it")
        raise


def own_chain_run() -> str | None:
    """The chain run whose step this command is called in."""
    from runward.handlers.model.chains import chain_run_of

    return chain_run_of(os.environ.get("RUNWARD_SESSION_ID", ""))


def values_of(words: Sequence[str]) -> dict[str, JsonValue]:
    """`KEY=VALUE` as text, `KEY:=JSON` as JSON; exits 2 for anything else."""
    try:
        return given_values([_text(word, "a value") for word in words])
    except WrongValue as error:
        if error.problems:
            complain(error.problems)
            sys.exit(WRONG_USAGE)
        _refuse(str(error))


def _playbook(settings: Settings, name: str) -> Playbook:
    if "/" in name or name.endswith(PLAYBOOK_SUFFIX):
        _refuse(f"{name!r} is a file: name a playbook of the settings, where the daemon finds it too")
    try:
        found = declared(settings, name, None)
    except NotFound as error:
        fail(str(error), NOT_FOUND)
    complain(found.problems)
    if found.playbook is None or not found.is_right:
        sys.exit(WRONG_USAGE)
    return found.playbook


def _text(word: str, what: str) -> str:
    try:
        word.encode()
    except UnicodeEncodeError:
        _refuse(f"{what} is not valid UTF-8: {word!r}")
    return word


def _trace(environment: Mapping[str, str]) -> str:
    """The caller's trace; if it is not text, there is none."""
    trace = environment.get("TRACEPARENT", "")
    return trace if trace.isascii() else ""


def _refuse(message: str) -> NoReturn:
    raise click.UsageError(message)
