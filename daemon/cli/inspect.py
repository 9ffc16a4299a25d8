"""`runward inspect`: what a run directory says, without daemon or store."""

import sys
from typing import Final

import click

from runward.config.json_value import JsonValue
from runward.daemon.cli.exits import NOT_FOUND, NOT_SO, TRY_AGAIN
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

_LAYOUTS: Final = ("auto", "native")


@click.command()
@click.argument("path", metavar="PATH", type=click.Path())
@click.option(
    "--layout", default="auto", show_default=True, metavar="NAME", help=f"One of {', '.join(_LAYOUTS)}."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with one object for each session.")
def inspect(path: str, layout: str, as_json: bool) -> None:
    """What a run directory says, or each one in a directory of them.

    It knows only what the files say, and the process where they name one.

    Exit code 0: sessions were found. 1: nobody here knows the layout. 3: no such path.

    \b
    Example:
      runward inspect ~/.local/state/runward/runs --json
    """
    found: list[dict[str, JsonValue]] = []
    if layout in _LAYOUTS:
        found = _sessions(path)
        reason = f"{path} holds no run in a layout that is known here"
    else:
        reason = f"no layout {layout!r} is known here; there are {', '.join(_LAYOUTS)}"
    if as_json:
        print_json(list(found))
    else:
        for each in found:
            click.echo("\n".join(_lines(each)))
    if not found:
        note(reason)
        sys.exit(NOT_SO)


def _sessions(path: str) -> list[dict[str, JsonValue]]:
    from runward.daemon.cli.inspection import inspect_native
    from runward.daemon.rundir.inspecting import CannotList, run_directories
    from runward.handlers.layouts.native import RUN

    try:
        directories = run_directories(path, RUN)
    except FileNotFoundError:
        fail(f"there is no {path}", NOT_FOUND)
    except CannotList as error:
        fail(f"{error}; check its rights", TRY_AGAIN)
    found = []
    for directory in directories:
        inspected = inspect_native(directory)
        if inspected.session is not None:
            found.append(inspected.session)
        else:
            for problem in inspected.problems:
                note(f"{directory} is no session: {_message(problem)}")
    return found


def _lines(session: dict[str, JsonValue]) -> list[str]:
    state, idle, counts = str(session["state"]), session["idle_s"], session["counts"]
    assert isinstance(counts, dict), "our own JSON"
    facts = [
        ("Session:", safe(str(session["session_id"]))),
        ("State:", f"{coloured(state)} ({session['reason_code']})"),
        ("Evidence:", str(session["evidence"] or "-")),
        ("Idle:", duration(float(idle)) if isinstance(idle, int | float) else "-"),
        ("Started:", local(moment_of(session["started_at"]))),
        ("Finished:", local(moment_of(session["finished_at"]))),
        ("Agent:", safe(str(session["agent"] or "-"))),
        ("Layout:", str(session["layout"])),
        ("Path:", safe(str(session["path"]))),
        ("Journal:", f"{counts['events']} events, {counts['tool_calls']} tool calls"),
    ]
    problems = session["problems"]
    assert isinstance(problems, list), "our own JSON"
    return [*align(facts), *(f"  {coloured('warning')}: {_message(each)}" for each in problems), ""]


def _message(problem: JsonValue) -> str:
    assert isinstance(problem, dict), "our own JSON"
    place = f"line {problem['line']}, " if problem["line"] is not None else ""
    return safe(f"{place}{problem['message']}")
