"""What the operator wrote: whether it is read, and whether the roots, addresses, recipients and hooks in it can be used."""

import http.client
import ipaddress
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from runward.config.listening import Http, TcpAddress, address_of
from runward.config.notification import Recipient
from runward.config.problem import counted, printable
from runward.config.root import Root
from runward.daemon.configuration.agent_homes import agent_home
from runward.daemon.configuration.extras import FIX, why_not_over_http
from runward.daemon.configuration.secret_file import SecretUnusable, first_line, secret_of
from runward.daemon.configuration.settings import home_of, working_directory
from runward.daemon.doctor.daemons import how_to
from runward.daemon.doctor.findings import Finding, Installation, Patience, Result
from runward.daemon.hooks.claude_code_settings import CLAUDE_CODE, events_in
from runward.daemon.hooks.events import known_to
from runward.daemon.hooks.programs import installed
from runward.daemon.hooks.settings_file import Refused, read_settings_file
from runward.daemon.host.report import Report, read_report
from runward.daemon.store import reading
from runward.daemon.store.ownership import UNREAD, holder, how_to_start_runs
from runward.daemon.store.tables.notices import notices_by_state
from runward.daemon.web.sockets import CannotListen, HttpReport, open_sockets
from runward.daemon.world.desktop import PROGRAM, why_no_desktop

_TAKEN_BY_ITSELF: Final = (
    "correct them, and the daemon takes them over by itself; a restart takes what can't change"
)


def examine_settings(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Every complaint, or which file is valid."""
    for problem in installation.problems:
        place = ":".join(
            str(each) for each in (problem.file, problem.line, problem.column) if each is not None
        )
        result: Result = "failed" if problem.severity == "error" else "warning"
        yield Finding(result, printable(f"{place}: {problem.message}"), problem.fix)
    refused = _refused(installation)
    for each, fix in refused:
        yield Finding("failed", f"the running daemon uses older settings: {each}", fix)
    if installation.is_broken:
        message = "the settings can't be used: the other checks use the defaults"
        yield Finding("warning", message, "fix them, then run `runward doctor` again")
    elif not installation.problems and not refused:
        settings = installation.settings
        yield Finding(
            "ok",
            f"no complaints; {counted(len(settings.roots), 'root', 'roots')}, state in {settings.state_dir}",
        )


def _refused(installation: Installation) -> list[tuple[str, str]]:
    """What the running daemon says of newer settings, apart from what is said here anyway, with the fix."""
    report = read_report(installation.state) if holder(installation.state) is not None else None
    if report is None or report.settings is None:
        return []
    known = {problem.render() for problem in installation.problems}
    store_fix = report.settings.store_fix
    fix = _TAKEN_BY_ITSELF if store_fix is None else f"{store_fix}; the daemon then takes them over by itself"
    return [(each, fix) for each in report.settings.refused if each not in known]


def examine_roots(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Each root, by looking and by what the running daemon says of it."""
    report = read_report(installation.state) if holder(installation.state) is not None else None
    reported = _problems_by_path(report)
    if not installation.settings.roots:
        yield Finding("warning", "there are no roots: nothing is watched", "add [[roots]] to the settings")
    for root in installation.settings.roots:
        patience.left()
        finding = _examine(root, installation.settings.state_dir)
        problem = reported.get(root.path)
        if finding.result == "ok" and problem:
            how = how_to_start_runs(installation.settings.state_dir) if problem.startswith(UNREAD) else None
            message = f"root {root.name}: the daemon reports: {problem}"
            finding = Finding("failed" if how else "warning", message, how or "see `runward log`")
        yield finding
    if report is not None:
        known = {root.path for root in report.roots}
        unknown = [root.name for root in installation.settings.roots if root.path not in known]
        if unknown:
            message = f"the running daemon doesn't know {', '.join(unknown)}: it runs under other settings"
            unit = how_to("restart", installation, patience, report.pid)
            restart = f" ({unit})" if unit else ""
            fix = f"restart it with these{restart}, or give this command those of the daemon (RUNWARD_CONFIG)"
            if installation.is_anothers:
                fix = f"`{installation.as_owner('doctor')}` reads the settings of the daemon's user"
            yield Finding("warning", message, fix)


def _problems_by_path(report: Report | None) -> Mapping[str, str | None]:
    return {} if report is None else {root.path: root.problem for root in report.roots}


def _examine(root: Root, state: str) -> Finding:
    if not os.path.lexists(root.path):
        if root.path.startswith(f"{state}/"):
            return Finding(
                "ok", f"root {root.name} ({root.path}) doesn't exist yet; the first daemon creates it"
            )
        fix = "create it, or correct its path; the daemon notices when it appears"
        return Finding("warning", f"root {root.name} ({root.path}) doesn't exist", fix)
    if not os.path.isdir(root.path):
        return Finding("failed", f"root {root.name} ({root.path}) is not a directory", "correct its path")
    try:
        with os.scandir(root.path) as entries:
            next(entries, None)
    except OSError as error:
        message = f"root {root.name} ({root.path}) can't be read: {error.strerror}"
        return Finding("failed", message, "give this user read access, or run the daemon as its owner")
    if root.layout == "native" and not os.access(root.path, os.W_OK | os.X_OK):
        message = f"root {root.name} ({root.path}) can't be written: runs there get no journals"
        return Finding("warning", message, "give this user write access")
    return Finding("ok", f"root {root.name} ({root.path}, {root.layout}) can be read")


_ANSWER_S: Final = 5.0
"""Seconds that a daemon that runs may take to answer."""

_EXPOSED: Final = "listen on 127.0.0.1, and put a proxy with TLS in front of it"


def examine_listener(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Ask the running daemon, or open what one would open."""
    settings = installation.settings
    if settings.http is None:
        yield Finding("ok", "nothing listens: the settings have no [http]")
        if settings.github_secret_file is not None:
            message = "[webhooks.github] is set but nothing listens: no delivery can arrive"
            yield Finding("warning", message, "add [http] to the settings")
        return
    report = read_report(installation.state) if holder(installation.state) is not None else None
    if report is not None and report.http is not None:
        yield _answers(report.http, min(_ANSWER_S, patience.left()))
    elif report is not None:
        message = "the running daemon does not listen: it runs under other settings"
        yield Finding("warning", message, "restart it")
    else:
        yield _can_be_had(settings.http.listen)
    for text in settings.http.listen:
        address = address_of(text)
        if isinstance(address, TcpAddress) and not ipaddress.ip_address(address.host).is_loopback:
            yield Finding(
                "warning", f"{text}: other machines can reach the daemon there, unencrypted", _EXPOSED
            )
    if settings.github_secret_file is not None:
        yield _of_secret(settings.github_secret_file)
    if settings.http.mcp:
        yield _of_tools(settings.http)


def _of_tools(http: Http) -> Finding:
    without = why_not_over_http(http)
    if without is not None:
        return Finding("failed", without, FIX)
    return Finding("ok", "the library that serves tools over HTTP is installed")


def _can_be_had(addresses: Sequence[str]) -> Finding:
    try:
        open_sockets(addresses).close()
    except CannotListen as error:
        return Finding("failed", str(error), "see `runward config show --origin` for where it is written")
    return Finding("ok", f"a daemon can listen on {', '.join(addresses)}")


def _answers(listener: HttpReport, seconds: float) -> Finding:
    where = listener.address or listener.socket
    try:
        # Any status will do: what is asked is whether a process answers behind the open socket.
        status = _status(listener, seconds)
    except (OSError, http.client.HTTPException) as error:
        return Finding("failed", f"the daemon does not answer on {where}: {error}", "see `runward log`")
    return Finding("ok", f"the daemon answers on {where} ({status} for /)")


def _status(listener: HttpReport, seconds: float) -> int:
    """What the daemon answers to a request for `/`. Raises `OSError` and `HTTPException`."""
    with _connected(listener, seconds) as reached:
        connection = http.client.HTTPConnection("runward", timeout=seconds)
        connection.sock = reached
        connection.request("GET", "/")
        with connection.getresponse() as answer:
            return answer.status


def _connected(listener: HttpReport, seconds: float) -> socket.socket:
    if listener.address is not None:
        host, _, port = listener.address.removeprefix("http://").rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), seconds)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(seconds)
        made.connect(listener.socket or "")
    except OSError:
        made.close()
        raise
    return made


def _of_secret(path: str) -> Finding:
    try:
        secret_of(path)
    except SecretUnusable as error:
        return Finding("failed", f"webhooks.github: {error}", "write the secret into a file of mode 0600")
    return Finding("ok", f"the secret of GitHub's webhook ({path}) can be read only by its owner")


def examine_notices(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """What each recipient needs, then what the store says."""
    recipients = installation.settings.notify
    if not recipients:
        yield Finding("ok", "nobody is told of anything: the settings have no [[notify]]")
    for each in recipients:
        why = _why_not(each, installation.environment)
        is_for_desktop = why is None and each.means == "desktop"
        silent = why_no_desktop(installation.environment) if is_for_desktop else None
        if silent is not None:
            fix = "call this where you are logged in to a desktop, or tell somebody else: see docs/notices.md"
            yield Finding("warning", f"{each.name} can't be told now: {silent}", fix)
        elif why is None:
            message = f"{each.name} has what it needs; `runward notify test` sends a notice"
            yield Finding("ok", message)
        else:
            yield Finding("failed", f"{each.name} can't be told: {why[0]}", why[1])
    try:
        with reading.reading(installation.settings.state_dir) as connection:
            dead = notices_by_state(connection)["dead"]
    except reading.StoreUnreadable as error:
        yield Finding("skipped", str(error))
        return
    if isinstance(dead, int) and dead:
        fix = "`runward notify list --state dead` says why, `runward notify retry ID` tries one again"
        yield Finding("warning", f"{counted(dead, 'notice', 'notices')} could not be delivered", fix)


def _why_not(recipient: Recipient, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Why a recipient can't be told, and what to do."""
    program = PROGRAM if recipient.means == "desktop" else recipient.command[0] if recipient.command else None
    is_known = program is not None and "{{" not in program
    if is_known and program is not None and shutil.which(program, path=environment.get("PATH")) is None:
        return f"there is no program {program}", "install it, or give its whole path"
    try:
        if recipient.address_file is not None:
            first_line(recipient.address_file)
        if recipient.secret_file is not None:
            secret_of(recipient.secret_file)
    except SecretUnusable as error:
        return str(error), "write it into a file of mode 0600"
    return None


_AGAIN = "runward hook install claude-code"


def examine_hooks(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Our hooks must be for events that the version knows. A version that meets an unknown event drops all of its
    settings."""
    environment = installation.environment
    home = agent_home(CLAUDE_CODE.agent, environment, home_of(environment), working_directory())
    path = os.path.join(home, "settings.json")
    try:
        text = read_settings_file(path).text
        events = events_in(text, path) if text is not None else ()
    except Refused as refusal:
        yield Finding("warning", refusal.problem.render(), "fix the file: Claude Code can't read it, either")
        return
    if not events:
        yield Finding("ok", f"there are no Runward hooks in {path}")
        return
    patience.left()
    program = installed(CLAUDE_CODE.agent, environment)
    # One event that is unknown to it, and Claude Code ignores the whole file: the person's permissions are gone with it.
    unknown = [event for event in events if event not in known_to(CLAUDE_CODE.agent, program)]
    who = "Claude Code (not found; its version is unknown)" if program is None else program.name
    if not unknown:
        yield Finding("ok", f"{who} knows the events of the {len(events)} hooks in {path}")
    elif program is None or program.version is None:
        message = f"{who} may not know {', '.join(unknown)}, and would then ignore all of {path}"
        yield Finding("warning", message, _AGAIN)
    else:
        message = f"{who} doesn't know {', '.join(unknown)} and therefore ignores all of {path}, including its permissions"
        yield Finding("failed", message, _AGAIN)
