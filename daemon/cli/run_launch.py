"""`runward run`: launches a command as a recorded session.

It is dispatched before the rest of the command line is imported, and imports little itself: starting a command
must cost little more than a bare interpreter.
"""

from __future__ import annotations

import os
import sys

from runward.daemon.cli.exits import (
    GOOD,
    INTERRUPTED,
    NOT_FOUND,
    NOT_SO,
    OWN_BUG,
    TRY_AGAIN,
    WRONG_SETTINGS,
    WRONG_USAGE,
)
from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from runward.config.contract import Contract
    from runward.daemon.launch.launch import Launched, Order
    from runward.daemon.launch.verdict import Held
    from runward.daemon.views.checks import Check
    from runward.handlers.model.files import Unreadable


USAGE = """\
Usage: runward run [OPTIONS] -- COMMAND [ARGUMENT]...

  Launch a command as a recorded session. Its run directory keeps its output,
  how it ended, and whether it fulfilled its contract.

  Example: runward run --playbook review --timeout 30m -- claude -p "review it"

Options:
  --playbook NAME|FILE  the playbook whose artifacts, timeout and grace apply
  --agent NAME|FILE     the agent profile whose default artifacts apply
  --name NAME           run directory and session id (default: time and random)
  --timeout DURATION    end the whole process tree after this (30s, 5min, 2h)
  --grace DURATION      the time between SIGTERM and SIGKILL (default: 5s)
  --artifacts DIR       the directory of the artifacts (default: in the run's)
  --containment METHOD    auto, none, subreaper, cgroup, scope, pidns
  --log-limit SIZE      the most that each log may take (100MB); 0B: no limit
  --no-verify           skip the verification at the end
  --junit FILE          write a JUnit report of the contract
  --ci github           speak to the runner of GitHub Actions (default there)
  --no-ci               don't
  --config FILE         the settings file
  --help                show this and exit

Exit codes: the command's own; 124 at the timeout; 128+n by signal n; 126 or
127 if it could not be started; 1 if it exited 0 without a required
artifact; 75 if it exited 0 and a report could not be written; 2 for wrong
usage or an invalid playbook, 3 for one that is not found, 78 for invalid
settings or another user's state directory.
"""

_WITH_VALUE = frozenset(
    {
        "playbook",
        "agent",
        "name",
        "timeout",
        "grace",
        "artifacts",
        "containment",
        "log-limit",
        "junit",
        "ci",
        "config",
        "color",
    }
)
_WITHOUT_VALUE = frozenset({"no-verify", "no-ci", "help", "debug"})
_BEFORE_RUN = frozenset({"--config", "--color", "--debug"})
"""Options of every command, which people also write before its name."""

DEFAULT_GRACE_S = 5.0

GITHUB = "github"
"""The CI system whose runner is spoken to."""

_PLAN = "flow.json"
_NOT_STARTED = 126
_EXIT_CODES = {"settings": WRONG_SETTINGS, "not_found": NOT_FOUND, "wrong_input": WRONG_USAGE}


class Refusal(Exception):
    """The launch is refused before anything was started; with the exit code, and the message for people."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Arguments(Value):
    """The command line, taken apart but not yet understood."""

    options: Mapping[str, str]
    command: tuple[str, ...]


class Reports(Value):
    """Who is told how the run ended: the file of a JUnit report, and the runner of GitHub Actions."""

    junit: str | None
    is_github: bool

    def __bool__(self) -> bool:
        return self.junit is not None or self.is_github


def words_of_run(arguments: Sequence[str]) -> list[str] | None:
    """The words for `main` if a whole command line calls `run`, with any options before its name; else None."""
    before: list[str] = []
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] in _BEFORE_RUN:
        before.append(rest.pop(0))
        if before[-1] in ("--config", "--color") and rest:
            before.append(rest.pop(0))
    return [*before, *rest[1:]] if rest[:1] == ["run"] else None


def run_and_end(arguments: Sequence[str]) -> NoReturn:
    """`main`, then an immediate end of this process: shutting down the interpreter takes as long as a fork."""
    # Taken out, so that the command doesn't inherit it.
    if fault := os.environ.pop("RUNWARD_RUN_FAULT", None):
        from runward.daemon import faults

        faults.from_environment(fault)
    code = main(arguments)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            pass  # the reader went away
        except OSError as error:
            if stream is sys.stdout:  # the usage: a command writes its output itself
                _complain(f"can't write to stdout: {error.strerror}")
                code = TRY_AGAIN
    os._exit(code)


def main(arguments: Sequence[str]) -> int:
    """Runs `runward run` with the words after `run`; returns its exit code."""
    try:
        parsed = parse_arguments(arguments)
        if "help" in parsed.options:
            sys.stdout.write(USAGE)
            return GOOD
        cwd = _working_directory()
        reports = _reports(parsed.options, os.environ)
        order, config = _order(parsed, cwd), parsed.options.get("config")
        _refuse_another_users_state(order.state)
        is_verified = "no-verify" not in parsed.options
        if not reports.is_github:
            code, _ = _launch(order, config, cwd, is_verified=is_verified, reports=reports)
            return code
        return _launch_in_github(order, config, cwd, is_verified=is_verified, reports=reports)
    except Refusal as refusal:
        _complain(str(refusal))
        return refusal.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if "--debug" in arguments:
            raise
        _complain(f"a bug in Runward: {type(error).__name__}: {error} (--debug shows where)")
        return OWN_BUG


def parse_arguments(arguments: Sequence[str]) -> Arguments:
    """Options up to `--` or the first word that isn't one; the rest is the command. Raises Refusal."""
    options: dict[str, str] = {}
    rest = list(arguments)
    # The options end at the first other word: what follows belongs to the command.
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


def _order(arguments: Arguments, cwd: str) -> Order:
    """What to launch, from the command line and from what it names. Raises Refusal."""
    from runward.daemon.launch.terms import TermsRefused, begin_terms

    options = arguments.options
    if not arguments.command:
        raise Refusal(WRONG_USAGE, "no command given: write it after --, as runward run --help shows")
    if not arguments.command[0]:
        raise Refusal(WRONG_USAGE, "the command's first word names no program: it is empty")
    timeout, grace = _duration(options, "timeout"), _duration(options, "grace")
    name, artifacts = _name(options.get("name")), _artifacts(options.get("artifacts"))
    log_limit = _size(options, "log-limit")
    means = _means(options.get("containment", "auto"))
    wait_for_terms = begin_terms(
        options.get("playbook"), options.get("agent"), options.get("config"), os.environ, cwd
    )
    from runward.daemon.launch.launch import DEFAULT_LOG_LIMIT, Order  # while the terms are read

    try:
        terms = wait_for_terms()
    except TermsRefused as refused:
        raise Refusal(_EXIT_CODES[refused.blame], "\n".join(refused.messages)) from None
    for warning in terms.warnings:
        _complain(warning)
    return Order(
        command=arguments.command,
        root=terms.root,
        name=name,
        playbook=terms.playbook,
        agent=terms.agent,
        contract=terms.contract,
        artifacts=artifacts,
        timeout=timeout if timeout is not None else terms.timeout,
        grace=next(each for each in (grace, terms.grace, DEFAULT_GRACE_S) if each is not None),
        containment=means,
        low_disk=terms.low_disk,
        log_limit=next(each for each in (log_limit, terms.log_limit, DEFAULT_LOG_LIMIT) if each is not None),
        state=terms.state,
        root_name=terms.root_name,
    )


def _refuse_another_users_state(state: str | None) -> None:
    """Runs are accessible to the user only who starts them, so another user's daemon would never judge this one."""
    try:
        owner = None if state is None else os.stat(state).st_uid
    except OSError:
        return  # what is in the way is reported when the run directory is created
    if state is None or owner is None or owner == os.geteuid():
        return
    from runward.daemon.users import name_of, run_as

    who = name_of(owner)
    raise Refusal(
        WRONG_SETTINGS,
        f"{state} belongs to {who}, and this is {name_of(os.geteuid())}: the daemon there runs as {who} and could not"
        f" read this run. Only {who} may start runs there: `{run_as(who, state, 'run -- COMMAND')}`; or set another"
        " state_dir (RUNWARD_STATE_DIR)",
    )


def _reports(options: Mapping[str, str], environment: Mapping[str, str]) -> Reports:
    if options.get("ci", GITHUB) != GITHUB:
        raise Refusal(WRONG_USAGE, f"--ci {options['ci']!r}: write {GITHUB}, the only one that is known")
    if "ci" in options and "no-ci" in options:
        raise Refusal(WRONG_USAGE, "--ci and --no-ci exclude each other")
    is_there = "ci" in options or environment.get("GITHUB_ACTIONS") == "true"
    return Reports(options.get("junit"), is_there and "no-ci" not in options)


def _launch_in_github(
    order: Order, config: str | None, cwd: str, *, is_verified: bool, reports: Reports
) -> int:
    from runward.daemon.cli.github import Runner

    runner = Runner()
    with runner.deaf_to_others():
        code, checks = _launch(
            order, config, cwd, is_verified=is_verified, reports=reports, before_release=runner.stop
        )
    runner.annotate(checks)
    return code


def _launch(
    order: Order,
    config: str | None,
    cwd: str,
    *,
    is_verified: bool,
    reports: Reports,
    before_release: Callable[[bool], None] = lambda is_recorded: None,
) -> tuple[int, list[Check]]:
    """Carries it out, and says how it ended; returns the exit code, and the checks for the reports."""
    from runward.daemon.launch.supervision import what_ended_it

    launched = _carry_out(order, before_release)
    ending = launched.ending
    for complaint in launched.complaints:
        _complain(complaint)
    code, held = ending.launcher_code, None
    is_good = ending.cause == "exited" and ending.exit_code == 0
    if is_verified and (is_good or reports):
        held = _held(order, launched, config, cwd)
    if is_good:
        code = GOOD if held is None else _say_what_is_missing(held, launched)
    # A command that failed has said so itself: a missing artifact would only hide the reason.
    elif (ended_by := what_ended_it(ending)) is not None:
        _say(f"{ended_by} Inspect with:\n  runward session show {launched.session_id}")
    return _report(order, launched, held, code, reports) if reports else (code, [])


def _carry_out(order: Order, before_release: Callable[[bool], None]) -> Launched:
    from runward.daemon.launch.cgroup import ContainmentUnavailable
    from runward.daemon.launch.launch import launch

    try:
        return launch(order, os.environ, before_release=before_release)
    except ContainmentUnavailable as error:
        raise Refusal(WRONG_USAGE, str(error)) from None
    except FileExistsError:
        raise Refusal(
            WRONG_USAGE, f"the name {order.name} is already used in {order.root}: choose another --name"
        ) from None
    except OSError as error:
        raise Refusal(_NOT_STARTED, f"no run directory can be created in {order.root}: {error}") from None


def _held(order: Order, launched: Launched, config: str | None, cwd: str) -> Held | Unreadable | None:
    """What became of the run's contract; None if it has none."""
    is_planned = os.path.lexists(os.path.join(launched.path, _PLAN))
    if order.contract is None and not is_planned:
        return None
    from runward.daemon.launch.verdict import contract_of, held_to

    within = launched.path if order.artifacts is None else ""
    contract = contract_of(order.contract)
    if is_planned:
        contract = _with_legs(
            order=order, contract=contract, launched=launched, within=within, config=config, cwd=cwd
        )
    if contract is None:
        return None
    return held_to(
        contract=contract,
        artifacts=launched.artifacts,
        within=within,
        run=launched.path,
        started_at=launched.started_at,
    )


def _say_what_is_missing(held: Held | Unreadable, launched: Launched) -> int:
    from runward.daemon.launch.verdict import why_not_delivered

    summary = why_not_delivered(held, launched.artifacts, launched.session_id)
    if summary is None:
        return GOOD
    if sys.stderr is not None and sys.stderr.isatty():
        from runward.daemon.cli.terminal.output import at_home  # only who reads it needs it

        summary = at_home(summary, sys.stderr)
    _say(summary)
    return NOT_SO


def _report(
    order: Order, launched: Launched, held: Held | Unreadable | None, code: int, reports: Reports
) -> tuple[int, list[Check]]:
    """Writes the reports. Who asked for one must not take a missing one for a good result."""
    from runward.daemon.cli.run_report import as_recorded, report_of

    report = report_of(launched, held)
    if reports.is_github and order.state is not None:
        report = as_recorded(report, order.state, f"native:{order.root_name}/{launched.session_id}")
    if reports.junit is not None:
        from runward.daemon.views.junit import write_junit

        try:
            write_junit(reports.junit, report.session_id, report.checks, report.started_at, report.took_s)
        except OSError as error:
            _complain(f"the report can't be written: {reports.junit}: {error.strerror}")
            code = code or TRY_AGAIN
    if reports.is_github:
        from runward.daemon.cli.github import tell

        for problem in tell(report, os.environ):
            _complain(problem)
            code = code or TRY_AGAIN
    return code, report.checks


def _with_legs(
    order: Order, contract: Contract | None, launched: Launched, within: str, config: str | None, cwd: str
) -> Contract | None:
    """The contract with the legs of the run's plan: of the first plan, if a daemon already saw it."""
    from runward.daemon.launch.flow import NotFolded, Place, declarer_of, folded_by_the_daemon, with_legs

    if order.state is not None:
        folded = folded_by_the_daemon(order.state, f"native:{order.root_name}/{launched.session_id}")
        if folded is not None:
            return folded
    try:
        place = Place(launched.path, launched.artifacts, within)
        return with_legs(contract, place, lambda: declarer_of(config, os.environ, cwd))
    except NotFolded as error:
        _complain(f"{_PLAN}: its legs are not in the contract: {error}")
        return contract


def _working_directory() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise Refusal(WRONG_USAGE, "the working directory is gone: cd to one that exists") from None


def _duration(options: Mapping[str, str], name: str) -> float | None:
    if name not in options:
        return None
    from runward.config.duration import DurationError, parse_duration

    try:
        return parse_duration(options[name])
    except DurationError as error:
        raise Refusal(WRONG_USAGE, f"--{name} {error}; {error.fix}") from None


def _size(options: Mapping[str, str], name: str) -> int | None:
    if name not in options:
        return None
    from runward.config.shape import size_of

    size = size_of(options[name])
    if size is None:
        raise Refusal(
            WRONG_USAGE,
            f"--{name} is not a size: {options[name]!r}; write a whole number with its unit, as in 512KB, 256MB or 2GB",
        )
    return size


def _name(name: str | None) -> str | None:
    from runward.daemon.launch.record import why_no_name

    if name is not None and (why := why_no_name(name)):
        raise Refusal(WRONG_USAGE, f"--name {why}: {name!r}")
    return name


def _artifacts(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        path.encode()
    except UnicodeEncodeError:
        raise Refusal(WRONG_USAGE, f"--artifacts is not valid UTF-8: {path!r}") from None
    absolute = os.path.abspath(path)
    if os.path.exists(absolute) and not os.path.isdir(absolute):
        raise Refusal(WRONG_USAGE, f"--artifacts is not a directory: {absolute}")
    return absolute


def _means(word: str) -> str:
    from runward.daemon.launch.containment import METHODS

    if word not in METHODS:
        raise Refusal(WRONG_USAGE, f"--containment {word!r}: write one of {', '.join(METHODS)}")
    return word


def _unknown_option(word: str) -> str:
    from runward.config.problem import nearest

    guess = nearest(word, [f"--{name}" for name in sorted(_WITH_VALUE | _WITHOUT_VALUE)])
    return f"unknown option {word!r}" + (f"; did you mean {guess}?" if guess else "; see runward run --help")


def _complain(message: str) -> None:
    """On stderr, and safe for a terminal."""
    if not message.isprintable():
        from runward.config.problem import printable

        message = "\n".join(map(printable, message.split("\n")))
    _say(f"runward run: {message}")


def _say(text: str) -> None:
    if sys.stderr is None:
        return  # the caller closed it
    try:
        print(text, file=sys.stderr)
    except OSError:
        pass  # nobody can read it; what counts is in the run directory and in the exit code
