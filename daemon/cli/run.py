"""`runward run`: launches a command as a recorded session.

It is dispatched before the rest of the command line is imported, and imports little itself: starting a command
must cost hardly more than a bare interpreter.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from runward.config.json_value import JsonValue

USAGE = """\
Usage: runward run [OPTIONS] -- COMMAND [ARGUMENT]...

  Launch a command as a recorded session: a run directory of its own, its
  output, how it ended, and the contract that it is held to.

  Example: runward run --playbook review --timeout 30m -- claude -p "review it"

Options:
  --playbook NAME|FILE  the playbook whose artifacts, timeout and grace hold
  --agent NAME|FILE     the agent profile whose default artifacts hold
  --name NAME           run directory and session id (default: time and chance)
  --timeout DURATION    after it the whole process tree is ended (30s, 5min, 2h)
  --grace DURATION      between SIGTERM and SIGKILL (default: 5s)
  --artifacts DIR       where the artifacts will lie (default: in the run's own)
  --containment MEANS   auto, none, subreaper, cgroup, scope, pidns
  --no-verify           leave out the verification at the end
  --config FILE         the settings file
  --help                show this and exit

Exit codes: the command's own; 124 at the timeout; 128+n by signal n; 126 or
127 where it could not be started; 1 where it ended 0 without a required
artifact; 2 for wrong usage or a wrong playbook, 3 for one that is not found,
78 for wrong settings.
"""

_WITH_VALUE = frozenset(
    {"playbook", "agent", "name", "timeout", "grace", "artifacts", "containment", "config"}
)
_WITHOUT_VALUE = frozenset({"no-verify", "help"})

WRONG_USAGE = 2
NOT_FOUND = 3
WRONG_SETTINGS = 78
NOT_STARTED = 126
NOT_DELIVERED = 1
DEFAULT_GRACE_S = 5.0


class Refusal(Exception):
    """The launch is refused before anything was started; with the exit code, and the message for people."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Arguments(NamedTuple):
    """The command line, taken apart but not yet understood."""

    options: Mapping[str, str]
    command: tuple[str, ...]


def main(arguments: Sequence[str]) -> int:
    """Runs `runward run` with the words after `run`; returns its exit code."""
    try:
        parsed = parse_arguments(arguments)
        if "help" in parsed.options:
            sys.stdout.write(USAGE)
            return 0
        return _run(parsed)
    except Refusal as refusal:
        print(f"runward run: {refusal}", file=sys.stderr)
        return refusal.exit_code
    except KeyboardInterrupt:
        return 130


def parse_arguments(arguments: Sequence[str]) -> Arguments:
    """Options up to `--` or the first word that is none; the rest is the command. Raises Refusal."""
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.removeprefix("--").partition("=")
        if word == "-h":
            name = "help"
        if not (word.startswith("--") or word == "-h") or name not in _WITH_VALUE | _WITHOUT_VALUE:
            raise Refusal(WRONG_USAGE, _unknown_option(word))
        if name in _WITHOUT_VALUE:
            if equals:
                raise Refusal(WRONG_USAGE, f"--{name} takes no value")
        elif not equals:
            if not rest:
                raise Refusal(WRONG_USAGE, f"--{name} needs a value")
            value = rest.pop(0)
        options[name] = value
    return Arguments(options, tuple(rest))


def _run(arguments: Arguments) -> int:
    options = arguments.options
    if not arguments.command:
        raise Refusal(WRONG_USAGE, "no command given; see runward run --help")
    timeout = _duration(options, "timeout")
    grace = _duration(options, "grace")
    name = _name(options.get("name"))
    artifacts = options.get("artifacts")
    from runward.daemon.processes.containment import ContainmentUnavailable
    from runward.daemon.processes.launch import Order, launch

    order = Order(
        command=arguments.command,
        root=_default_root(os.environ),
        name=name,
        contract=None,
        artifacts=os.path.abspath(artifacts) if artifacts is not None else None,
        timeout=timeout,
        grace=grace if grace is not None else DEFAULT_GRACE_S,
        containment=options.get("containment", "auto"),
    )
    try:
        launched = launch(order, os.environ)
    except ContainmentUnavailable as error:
        raise Refusal(WRONG_USAGE, str(error)) from None
    except FileExistsError:
        raise Refusal(
            WRONG_USAGE, f"the name {order.name} is taken in {order.root}; choose another --name"
        ) from None
    except OSError as error:
        raise Refusal(NOT_STARTED, f"no run directory in {order.root}: {error}") from None
    if launched.ending.error is not None:
        print(f"runward run: {launched.ending.error}", file=sys.stderr)
    return launched.ending.launcher_code


def _default_root(environment: Mapping[str, str]) -> str:
    state = environment.get("RUNWARD_STATE_DIR") or os.path.join(
        environment.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "runward"
    )
    return os.path.join(os.path.abspath(state), "runs")


def _duration(options: Mapping[str, str], name: str) -> float | None:
    if name not in options:
        return None
    from runward.config.duration import DurationError, parse_duration

    try:
        return parse_duration(options[name])
    except DurationError as error:
        raise Refusal(WRONG_USAGE, f"--{name} {error}; {error.mend}") from None


def _name(name: str | None) -> str | None:
    from runward.daemon.processes.record import why_no_name

    if name is not None and (why := why_no_name(name)):
        raise Refusal(WRONG_USAGE, f"--name {why}: {name!r}")
    return name


def _unknown_option(word: str) -> str:
    from runward.config.problem import nearest

    guess = nearest(word, [f"--{name}" for name in sorted(_WITH_VALUE | _WITHOUT_VALUE)])
    return f"unknown option {word!r}" + (f"; did you mean {guess}?" if guess else "; see runward run --help")
