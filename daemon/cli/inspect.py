"""`runward inspect`: what a run directory or a transcript says, without daemon or store."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import click

from runward.config.json_value import JsonValue
from runward.config.root import AUTO
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN
from runward.daemon.cli.shell import completing
from runward.daemon.cli.terminal.live import Progress, progress
from runward.daemon.cli.terminal.options import NamedPath, json_option
from runward.daemon.cli.terminal.output import align, coloured, fail, note, print_json, print_text, safe
from runward.daemon.rundir.explaining import explain as explain_path
from runward.daemon.rundir.liveness import NOBODY_KNOWS, Writers
from runward.daemon.rundir.session_places import CannotList, Obstacle, Place, sessions_under
from runward.daemon.rundir.session_reading import SessionRead, read_session
from runward.daemon.views.inspected import InspectedSession, inspect_native, with_file
from runward.daemon.views.text import duration, local
from runward.handlers.layouts import native, registry
from runward.handlers.layouts.layout import DirectoryLayout, Layouts, LogLayout
from runward.handlers.layouts.places import PACKED, unpacked_name
from runward.handlers.layouts.transcript import Told
from runward.handlers.model.sessions import Complaint
from runward.handlers.sessions.over import Writer, judge
from runward.handlers.sessions.standing import Standing


class Found(NamedTuple):
    """A session and its identity. Of two with the same identity the one of greater weight counts."""

    session: InspectedSession
    identity: str
    weight: tuple[bool, float, bool] = (True, 0.0, True)


def inspect_transcript(
    layout: LogLayout | DirectoryLayout, path: str, writers: Writers, was_read: Callable[[int], None]
) -> Found | None:
    """What the session at `path` (absolute) says; None if it belongs to another session, like a sub-agent's log.

    `was_read` gets the number of bytes while they are read.
    """
    # The process is checked first: if it has ended by then, its last line is among the lines that are read.
    named = layout.start(unpacked_name(path.rpartition("/")[2])).tell().session_id
    writer = _writer(layout, path, named, writers)
    read = read_session(layout, path, was_read)
    report = read.told
    if report.is_subagent:
        return None
    if report.session_id != named:
        writer = _writer(layout, path, report.session_id, writers)
    now = time.time()
    quiet_s = max(0.0, now - read.changed_at) if read.changed_at is not None else 0.0
    standing = judge(report, writer.liveness, layout.names_process, quiet_s, status=writer.status)
    session = _inspected_transcript(layout, path, read, standing, quiet_s)
    identity = f"{layout.name}:{report.session_id}" if layout.goes_by_id and report.session_id else path
    return Found(session, identity, (not read.obstacles, report.moved_at or 0.0, not path.endswith(PACKED)))


def each_once(transcripts: Iterable[Found]) -> list[InspectedSession]:
    """The sessions, in the order of their paths. If one is in two places, the one written last counts."""
    kept: dict[str, Found] = {}
    for each in transcripts:
        before = kept.get(each.identity)
        if before is None or each.weight > before.weight:
            kept[each.identity] = each
    return sorted((each.session for each in kept.values()), key=lambda session: session.path)


def _writer(
    layout: LogLayout | DirectoryLayout, path: str, session_id: str | None, writers: Writers
) -> Writer:
    if session_id is None:
        return NOBODY_KNOWS
    writer = writers.writer(layout.name, path, session_id)
    # No one looked before: so only what the machine can say now counts.
    if writer.absence is not None and not writer.absence.proves_death(grew_elsewhere=False):
        return NOBODY_KNOWS
    return writer


def _inspected_transcript(
    layout: LogLayout | DirectoryLayout, path: str, read: SessionRead, standing: Standing, quiet_s: float
) -> InspectedSession:
    report = read.told
    goes_on = standing.state in ("running", "unknown") and read.changed_at is not None
    return InspectedSession(
        layout=layout.name,
        session_id=report.session_id,
        path=path,
        standing=standing,
        idle_s=quiet_s if goes_on else None,
        started_at=read.started_at,
        agent=report.agent,
        model=report.model,
        cwd=report.cwd,
        parent_session_id=report.parent_session_id,
        attempt=max(1, report.attempt),
        counts=report.counts,
        usage=report.usage,
        problems=_problems(report, read.obstacles),
        names_files=isinstance(layout, DirectoryLayout),
    )


def _problems(report: Told, obstacles: tuple[Complaint, ...]) -> tuple[Complaint, ...]:
    problems = (*obstacles, *report.complaints)
    further = report.unreadable - sum(each.line is not None for each in report.complaints)
    if further > 0:
        problems += (Complaint("", None, f"{further} further lines can't be read", None),)
    return problems


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
@click.option(
    "--explain", is_flag=True, help="Say which layout PATH itself is of, and why it is of no other."
)
@json_option("Print JSON: a list with one object for each session; with --explain one object about PATH.")
def inspect(path: str, layout: str, explain: bool, as_json: bool) -> None:
    """Read the files of a session (a run directory or a transcript), or of all sessions under a directory.

    It needs no daemon and no store. It reports what the files say and, if they name a process, whether that process is alive.

    Exit code 0: sessions were found. 1: the layout is not known. 3: no such path.

    With --explain, PATH itself is a session, or a file of one. Nothing under it is looked for.

    \b
    Example:
      runward inspect ~/.local/state/runward/runs --json
      runward inspect ~/.claude/projects
      runward inspect --explain session.jsonl
    """
    if explain and layout in _layouts():
        _explain(path, layout, as_json)
        return
    sessions: list[InspectedSession] = []
    if layout in _layouts():
        sessions = _sessions(path, layout)
        known = "a known layout" if layout == AUTO else f"the layout {layout}"
        reason = f"{path} has no session in {known}"
    else:
        reason = f"no layout {layout!r} is known; there are {', '.join(_layouts())}"
    if as_json:
        print_json([each.as_json() for each in sessions])
    else:
        for each in sessions:
            print_text("\n".join(_lines_of(each)))
    if not sessions:
        note(reason)
        sys.exit(NOT_SO)


def _explain(path: str, layout: str, as_json: bool) -> None:
    """Print what `path` is and why; the exit code says whether its layout is known."""
    layouts, with_native = _considered(layout)
    try:
        explained = explain_path(path, layouts, with_native=with_native)
    except FileNotFoundError:
        fail(f"there is no {path}", NOT_FOUND)
    if as_json:
        considered: list[JsonValue] = [dict(each._asdict()) for each in explained.considered]
        print_json({"path": explained.path, "layout": explained.layout, "considered": considered})
    else:
        print_text(f"{safe(explained.path)}: {explained.layout or 'no session in a known layout'}")
        for each in explained.considered:
            print_text(f"  {each.layout}: {'yes' if each.is_it else 'no'}, {safe(each.reason)}")
    if explained.layout is None:
        sys.exit(NOT_SO)


def _considered(layout: str) -> tuple[Layouts, bool]:
    """The layouts that an option names, and whether `native` is one."""
    layouts = registry.LAYOUTS if layout == AUTO else registry.LAYOUTS.only(layout)
    return layouts, layout in (AUTO, native.LAYOUT)


def _sessions(path: str, layout: str) -> list[InspectedSession]:
    try:
        with progress() as reading:
            inspected = list(_inspected(path, layout, reading))
    except FileNotFoundError:
        fail(f"there is no {path}", NOT_FOUND)
    except CannotList as error:
        fail(f"{path} {error}; check its permissions", TRY_AGAIN)
    return each_once(inspected)


def _inspected(path: str, layout: str, reading: Progress) -> Iterator[Found]:
    layouts, with_native = _considered(layout)
    writers = Writers()
    for place in sessions_under(path, layouts):
        if isinstance(place, Obstacle):
            note(f"{place.path} {place.message}")
        elif isinstance(place.layout, str):
            if with_native:
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
