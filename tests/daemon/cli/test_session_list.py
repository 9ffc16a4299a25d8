"""`runward session list`: which sessions, in which order and shape."""

import click
import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import screen


def _ids(place: Place, *arguments: str) -> list[object]:
    return [each["session_id"] for each in place.call("session", "list", "--json", *arguments).objects()]


def test_the_newest_session_comes_first(recorded: Place) -> None:
    assert _ids(recorded) == ["plain", "open", "careless", "crashed", "delivered", "silent"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--status", "failed"), ["crashed", "silent"]),
        (("--status", "timed_out"), []),
        (("--layout", "native", "--limit", "2"), ["plain", "open"]),
        (("--layout", "codex"), []),
        (("--playbook", "plain"), ["open"]),
        (("--since", "2026-02-01"), ["plain", "open"]),
        (("--since", "2026-02-02T03:04:05Z"), ["plain", "open"]),
        (("--since", "2026-02-02T03:04:06Z"), ["plain"]),
        (("--since", "1min"), []),
        (("--status", "failed", "--status", "running"), ["open", "crashed", "silent"]),
        (("--failed",), ["crashed", "silent"]),
        (("--failed", "--status", "running"), ["open", "crashed", "silent"]),
        (("--layout", "codex", "--layout", "native", "--limit", "1"), ["plain"]),
        (("--root", "runs", "--root", "other", "--limit", "1"), ["plain"]),
        (("--root", "other"), []),
        (("--agent", "reviewer"), []),
        (("--search", "CRASH"), ["crashed"]),
        (("--search", "exited with 3"), ["crashed"]),
        (("--search", "100%"), []),
        (("--limit", "0"), ["plain", "open", "careless", "crashed", "delivered", "silent"]),
    ],
)
def test_options_choose_sessions(recorded: Place, options: tuple[str, ...], expected: list[str]) -> None:
    assert _ids(recorded, *options) == expected


def test_a_directory_chooses_those_that_worked_in_it_or_below(place: Place) -> None:
    for name, cwd in (
        ("above", "/src"),
        ("here", "/src/app"),
        ("below", "/src/app/x"),
        ("beside", "/src/apps"),
    ):
        place.add_run(name, exit_code=0, cwd=cwd)
    place.add_run("nowhere", exit_code=0)
    expected = ["below", "here"]
    assert _ids(place, "--cwd", "/src/app") == expected
    place.daemon_once()
    assert _ids(place, "--cwd", "/src/app") == expected
    assert _ids(place, "--cwd", "/src/app/", "--limit", "1") == ["below"]
    assert _ids(place, "--cwd") == []


def test_what_was_launched_here_worked_here(place: Place) -> None:
    launched = place.start("run", "--name", "r", "--", "true")
    launched.communicate()
    assert launched.returncode == 0
    place.daemon_once()
    assert _ids(place, "--cwd") == ["r"]
    assert _ids(place, "--cwd", "playbooks") == []


def test_fifty_are_listed_and_it_is_said_that_there_are_more(place: Place) -> None:
    for number in range(51):
        place.add_run(f"run-{number:02}", exit_code=0)
    listed = place.call("session", "list", "--json")
    assert len(listed.objects()) == 50
    assert "there are more than these 50, the newest: `--limit 0` shows all" in listed.err
    every = place.call("session", "list", "--json", "--limit", "0")
    assert len(every.objects()) == 51
    assert "there are more" not in every.err
    assert "there are more than these 2" in place.call("session", "list", "--limit", "2").err


def test_the_json_has_exactly_the_promised_keys(recorded: Place) -> None:
    (session,) = recorded.call("session", "list", "--json", "--limit", "1", "--status", "failed").objects()
    assert list(session) == [
        "session_id",
        "key",
        "attempt",
        "layout",
        "path",
        "status",
        "activity",
        "ended_by",
        "reason",
        "started_at",
        "finished_at",
        "duration_s",
        "playbook",
        "agent",
        "invocation_id",
        "contract_basis",
        "contract_problem",
        "delivery",
        "origin",
        "linked",
        "cwd",
        "prompt",
        "model",
        "usage",
        "containment",
        "files",
        "not_judged_yet",
        "chain",
    ]
    assert session["key"] == "native:runs/crashed"
    assert session["started_at"] == "2026-01-02T03:04:05.000Z"
    assert session["duration_s"] == 600
    assert session["ended_by"] == "declared"


def test_people_see_an_aligned_table_with_status_verification_and_evidence(recorded: Place) -> None:
    head, *rows = recorded.call("session", "list").out.splitlines()
    assert head.split() == [
        "SESSION",
        "STATUS",
        "REASON",
        "VERIFIED",
        "DELIVERY",
        "EVIDENCE",
        "STARTED",
        "TOOK",
    ]
    column = head.index("STATUS")
    assert {row[column - 2 : column] for row in rows} == {"  "}
    silent = next(row for row in rows if row.startswith("silent"))
    assert silent.split()[1:6] == ["failed", "run.failed.missing_artifact", "failed", "invalid", "declared"]


def test_before_the_first_daemon_there_are_no_sessions_and_it_is_said(place: Place) -> None:
    listed = place.call("session", "list", "--json")
    assert (listed.code, listed.json()) == (0, [])
    assert "no daemon has run" in listed.err


def test_a_session_id_cannot_steer_the_terminal(place: Place) -> None:
    place.add_run("odd", exit_code=0, session_id="\x1b[31mred\u202e\n")
    place.daemon_once()
    shown = place.call("session", "list").out
    assert "\\x1b[31mred\\u202e\\n" in shown
    assert "\x1b" not in shown
    assert place.call("session", "list", "--json").objects()[0]["session_id"] == "\x1b[31mred\u202e\n"


def test_colour_comes_only_where_it_is_wanted(recorded: Place) -> None:
    assert "\x1b[" not in recorded.call("session", "list").out
    assert "\x1b[31mfailed" in recorded.call("session", "list", "--color", "always").out
    assert "\x1b[31mfailed" in recorded.call("--color=always", "session", "list", NO_COLOR="1").out
    assert "\x1b[" not in recorded.call("session", "list", "--color", "never").out


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (200, "STATE AGE TOOK SESSION FOR WHAT"),
        (90, "STATE AGE SESSION FOR WHAT"),
        (50, "STATE AGE SESSION FOR WHAT"),
        (40, "STATE SESSION WHAT"),
        (20, "STATE SE... WHAT"),
    ],
)
def test_a_narrow_terminal_is_shown_fewer_columns(recorded: Place, columns: int, expected: str) -> None:
    with screen(recorded, 24, columns, "session", "list") as terminal:
        shown = click.unstyle(terminal.until("runward: ")).splitlines()
        assert terminal.end() == 0
    assert shown[0].split() == expected.split()
    assert all(len(line.rstrip()) <= columns for line in shown)
