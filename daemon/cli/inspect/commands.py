"""`runward inspect`: what a run directory or a transcript says, without daemon or store."""

import sys
from collections.abc import Iterator

import click

from runward.config.settings_keys import AUTO
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN
from runward.daemon.cli.inspect.transcript import Found, each_once, inspect_transcript
from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.paths import NamedPath
from runward.daemon.cli.terminal.output import align, coloured, fail, note, print_json, safe
from runward.daemon.cli.terminal.progress import Progress, progress
from runward.daemon.rundir.liveness import Writers
from runward.daemon.rundir.session_places import CannotList, Obstacle, Place, sessions_under
from runward.daemon.views.native_run import InspectedSession, inspect_native, with_file
from runward.daemon.views.text import duration, local
from runward.handlers.layouts import native, registry
from runward.handlers.model.sessions import Complaint


def _layouts() -> tuple[str, ...]:
    return (AUTO, native.LAYOUT, *registry.LAYOUTS.names())


@click.command()
@click.argument("path", metavar="PATH", type=NamedPath(readable=False))
@click.option(
    "--layout",
    default=AUTO,
    show_default=True,
    metavar="NAME",
    shell_complete=completing.layouts,
    help=f"One of {', '.join(_layouts())}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with one object for each session.")
def inspect(path: str, layout: str, as_json: bool) -> None:
    """Read the files of a session (a run directory or a transcript), or of all sessions under a directory.

    It needs no daemon and no store. It reports what the files say and, if they name a process, whether that process is alive.

    Exit code 0: sessions were found. 1: the layout is not known. 3: no such path.

    \b
    Example:
      runward inspect ~/.local/state/runward/runs --json
      runward inspect ~/.claude/projects
    """
    found: list[InspectedSession] = []
    if layout in _layouts():
        found = _sessions(path, layout)
        known = "a known layout" if layout == AUTO else f"the layout {layout}"
        reason = f"{path} has no session in {known}"
    else:
        reason = f"no layout {layout!r} is known; there are {', '.join(_layouts())}"
    if as_json:
        print_json([each.as_json() for each in found])
    else:
        for each in found:
            click.echo("\n".join(_lines_of(each)))
    if not found:
        note(reason)
        sys.exit(NOT_SO)


def _sessions(path: str, layout: str) -> list[InspectedSession]:
    try:
        with progress() as reading:
            found = list(_inspected(path, layout, reading))
    except FileNotFoundError:
        fail(f"there is no {path}", NOT_FOUND)
    except CannotList as error:
        fail(f"{path} {error}; check its permissions", TRY_AGAIN)
    return each_once(found)


def _inspected(path: str, layout: str, reading: Progress) -> Iterator[Found]:
    layouts = registry.LAYOUTS if layout == AUTO else registry.LAYOUTS.only(layout)
    writers = Writers()
    for place in sessions_under(path, layouts):
        if isinstance(place, Obstacle):
            note(f"{place.path} {place.message}")
        elif isinstance(place.layout, str):
            if layout in (AUTO, native.LAYOUT):
                yield from _native(place)
        else:
            inspected = inspect_transcript(place.layout, place.path, writers, reading.read)
            if inspected is not None:
                yield inspected
        reading.session()


def _native(place: Place) -> Iterator[Found]:
    inspected = inspect_native(place.path)
    if isinstance(inspected, InspectedSession):
        yield Found(inspected, place.path)
        return
    for problem in inspected:
        note(f"{place.path} is not a session: {_sentence(problem)}")


def _lines_of(session: InspectedSession) -> list[str]:
    """A session for people."""
    standing, usage = session.standing, session.usage
    tokens = f"{usage.input_tokens} in, {usage.output_tokens} out" if usage is not None else "-"
    counted = [f"{count} {name.replace('_', ' ')}" for name, count in session.counts._asdict().items()]
    facts = [
        ("Session:", safe(str(session.session_id))),
        ("State:", f"{coloured(standing.state)} ({standing.reason_code})"),
        ("Evidence:", standing.evidence or "-"),
        ("Idle:", duration(session.idle_s) if session.idle_s is not None else "-"),
        ("Started:", local(session.started_at)),
        ("Finished:", local(standing.ended_at)),
        ("Activity:", standing.activity or "-"),
        ("Attempt:", str(session.attempt)),
        ("Agent:", safe(session.agent or "-")),
        ("Model:", safe(session.model or "-")),
        ("Layout:", session.layout),
        ("Cwd:", safe(session.cwd or "-")),
        ("Path:", safe(session.path)),
        ("Counted:", ", ".join(counted)),
        ("Tokens:", tokens),
    ]
    problems = [
        f"  {coloured('warning')}: {_sentence(each, session.names_files)}" for each in session.problems
    ]
    return [*align(facts), *problems, ""]


def _sentence(complaint: Complaint, names_file: bool = True) -> str:
    """A complaint in one line for people."""
    place = f"line {complaint.line}, " if complaint.line is not None else ""
    return safe(place + (with_file(complaint) if names_file else complaint.message))
