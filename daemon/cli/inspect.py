"""`runward inspect`: what a run directory or a transcript says, without daemon or store."""

import sys
from collections.abc import Iterator
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN
from runward.daemon.cli.inspection import inspect_native
from runward.daemon.cli.output import (
    align,
    coloured,
    duration,
    fail,
    local,
    moment_of,
    note,
    print_json,
    safe,
)
from runward.daemon.cli.progress import Progress, progress
from runward.daemon.cli.transcript_inspection import Found, each_once, inspect_transcript
from runward.daemon.rundir.liveness import Writers
from runward.daemon.rundir.sessions_under import CannotList, Hindrance, Place, sessions_under
from runward.handlers.layouts import native, registry

AUTO: Final = "auto"


def _layouts() -> tuple[str, ...]:
    return (AUTO, native.LAYOUT, *registry.LAYOUTS.names())


@click.command()
@click.argument("path", metavar="PATH", type=click.Path())
@click.option(
    "--layout", default=AUTO, show_default=True, metavar="NAME", help=f"One of {', '.join(_layouts())}."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with one object for each session.")
def inspect(path: str, layout: str, as_json: bool) -> None:
    """What a session's files say: a run directory's, a transcript's, or those of all sessions under a directory.

    It knows only what the files say, and the process where they name one.

    Exit code 0: sessions were found. 1: nobody here knows the layout. 3: no such path.

    \b
    Example:
      runward inspect ~/.local/state/runward/runs --json
      runward inspect ~/.claude/projects
    """
    found: list[dict[str, JsonValue]] = []
    if layout in _layouts():
        found = _sessions(path, layout)
        known = "a layout that is known here" if layout == AUTO else f"the layout {layout}"
        reason = f"{path} holds no session in {known}"
    else:
        reason = f"no layout {layout!r} is known here; there are {', '.join(_layouts())}"
    if as_json:
        print_json(list(found))
    else:
        for each in found:
            click.echo("\n".join(_lines(each)))
    if not found:
        note(reason)
        sys.exit(NOT_SO)


def _sessions(path: str, layout: str) -> list[dict[str, JsonValue]]:
    try:
        with progress() as reading:
            found = list(_inspected(path, layout, reading))
    except FileNotFoundError:
        fail(f"there is no {path}", NOT_FOUND)
    except CannotList as error:
        fail(f"{path} {error}; check its rights", TRY_AGAIN)
    return each_once(found)


def _inspected(path: str, layout: str, reading: Progress) -> Iterator[Found]:
    layouts = registry.LAYOUTS if layout == AUTO else registry.LAYOUTS.only(layout)
    writers = Writers()
    for place in sessions_under(path, layouts):
        if isinstance(place, Hindrance):
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
    if inspected.session is not None:
        yield Found(inspected.session, place.path)
        return
    for problem in inspected.problems:
        note(f"{place.path} is no session: {_message(problem)}")


def _lines(session: dict[str, JsonValue]) -> list[str]:
    state, idle, counts = str(session["state"]), session["idle_s"], session["counts"]
    assert isinstance(counts, dict), "our own JSON"
    usage = session["usage"]
    tokens = f"{usage['input_tokens']} in, {usage['output_tokens']} out" if isinstance(usage, dict) else "-"
    facts = [
        ("Session:", safe(str(session["session_id"]))),
        ("State:", f"{coloured(state)} ({session['reason_code']})"),
        ("Evidence:", str(session["evidence"] or "-")),
        ("Idle:", duration(float(idle)) if isinstance(idle, int | float) else "-"),
        ("Started:", local(moment_of(session["started_at"]))),
        ("Finished:", local(moment_of(session["finished_at"]))),
        ("Activity:", str(session["activity"] or "-")),
        ("Attempt:", str(session["attempt"])),
        ("Agent:", safe(str(session["agent"] or "-"))),
        ("Model:", safe(str(session["model"] or "-"))),
        ("Layout:", str(session["layout"])),
        ("Cwd:", safe(str(session["cwd"] or "-"))),
        ("Path:", safe(str(session["path"]))),
        ("Counted:", ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())),
        ("Tokens:", tokens),
    ]
    problems = session["problems"]
    assert isinstance(problems, list), "our own JSON"
    return [*align(facts), *(f"  {coloured('warning')}: {_message(each)}" for each in problems), ""]


def _message(problem: JsonValue) -> str:
    assert isinstance(problem, dict), "our own JSON"
    place = f"line {problem['line']}, " if problem["line"] is not None else ""
    return safe(f"{place}{problem['message']}")
