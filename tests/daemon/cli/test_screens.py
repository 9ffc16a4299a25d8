"""Every screen as a person sees it, held against its file in `tests/golden/screens`. `make goldens` draws them again."""

import os
import re
from pathlib import Path

import pytest
from tests.daemon.cli.drawn import draw, fixed, widest
from tests.daemon.cli.everyday import Everyday, played, set_activity

from runward.daemon.cli.commands import COMMANDS
from runward.daemon.cli.shell.overview import GROUPS

_GOLDENS = Path(__file__).parents[2] / "golden/screens"

SCREENS: dict[str, tuple[str, ...]] = {
    "home": (),
    "list": ("session", "list"),
    "list-failed": ("session", "list", "--failed"),
    "why-failed": ("why", "silent-reviewer"),
    "why-crashed": ("why", "crashed-reviewer"),
    "why-completed": ("why", "night-shift"),
    "why-agent": ("why", "…000000bb"),
    "why-waits": ("why", "chain:@last"),
    "why-chain": ("why", "chain:pr-review"),
    "show-failed": ("session", "show", "silent-reviewer"),
    "show-completed": ("session", "show", "night-shift"),
    "show-agent": ("session", "show", "000000aa"),
    "runs": ("chain", "runs"),
    "approvals": ("chain", "approvals"),
    "help": ("--help",),
    "list-steps": ("session", "list", "--steps", "--each"),
    "top": ("top",),
    "status": ("status",),
    "roots": ("root", "list"),
    "chains": ("chain", "list"),
    "usage": ("usage",),
    "usage-model": ("usage", "--by", "model"),
    "usage-project": ("usage", "--by", "project", "--since", "today"),
}
LIVE: dict[str, tuple[str, ...]] = {
    "home-live": (),
    "status-live": ("status",),
    "top-live": ("top",),
}
"""Screens that also tell of a daemon, while one works."""

_KEYS = {"top": "q", "top-live": "q"}
"""What is typed there."""
_LANGUAGES: dict[str, dict[str, str]] = {"": {}, "-ascii": {"LANG": "C"}}
_SIZES = ((80, 24), (120, 40))


@pytest.mark.parametrize("size", _SIZES, ids=lambda size: f"{size[0]}")
@pytest.mark.parametrize("language", _LANGUAGES, ids=lambda name: name or "utf8")
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_its_file_has_it(
    everyday: Everyday, name: str, language: str, size: tuple[int, int]
) -> None:
    _expect_golden(everyday, name, SCREENS[name], language, size)


def test_a_screen_over_a_running_daemon_is_as_its_file_has_it(tmp_path: Path) -> None:
    with played(tmp_path, has_mistakes=False) as place:
        set_activity(place)
        for name, command in LIVE.items():
            for language in _LANGUAGES:
                for size in _SIZES:
                    _expect_golden(place, name, command, language, size)


def _expect_golden(
    place: Everyday, name: str, command: tuple[str, ...], language: str, size: tuple[int, int]
) -> None:
    drawn = draw(place, size, *command, keys=_KEYS.get(name, ""), **_LANGUAGES[language])
    shown = fixed(f"$ {' '.join(('runward', *command))}\n{drawn.text}")
    path = _GOLDENS / f"{name}-{size[0]}{language}.txt"
    if os.environ.get("RUNWARD_GOLDENS") == "rewrite":
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text(), (
        f"draw it again with `make goldens`, and read what has changed in {path}"
    )
    assert widest(drawn) <= size[0]
    assert len(drawn.lines) <= size[1]
    assert not language or drawn.text.isascii()


@pytest.mark.parametrize("columns", [20, 40, 63, 500])
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_every_terminal(everyday: Everyday, name: str, columns: int) -> None:
    drawn = draw(everyday, (columns, 24), *SCREENS[name], keys=_KEYS.get(name, ""))
    assert widest(drawn) <= columns
    assert "Traceback" not in drawn.text


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_screen_without_colours_has_no_escapes(everyday: Everyday, variables: dict[str, str]) -> None:
    for name, arguments in SCREENS.items():
        if name in _KEYS:
            continue  # it moves the cursor: `test_top.py`
        raw = draw(everyday, (80, 24), *arguments, **variables).raw
        assert re.search(rb"\x1b", raw) is None


def test_chosen_columns_come_in_their_order_and_an_unknown_one_names_all(everyday: Everyday) -> None:
    lines = draw(everyday, (80, 24), "session", "list", "--columns", "session,state").lines
    assert lines[0].split() == ["SESSION", "STATE"]
    refused = everyday.call("session", "list", "--columns", "STAT")
    assert refused.code == 2
    known = "STATE, AGE, TOOK, HOST, SESSION, FOR, DIRECTORY, MODEL, TOKENS, COST, WHAT"
    assert f"there is no column 'STAT'; there are {known}" in refused.err
    for command, head in (("session list", "SESSION"), ("chain runs", "STEPS")):
        words = command.split()
        offered = everyday.completed(*words, "--columns", "")
        assert head in offered
        shown = everyday.call(*words, "--columns", ",".join(offered)).out
        assert shown.splitlines()[0].split() == offered, "each name that is offered is a column"
        assert everyday.completed(*words, "--columns", "state,a") == ["state,age"]
        assert everyday.completed(*words, "--columns", "STATE,A") == ["STATE,AGE"]


def test_a_wide_list_cuts_nothing_and_leaves_out_no_column(everyday: Everyday) -> None:
    shown = everyday.call("session", "list", "--wide").out
    assert "Look at what changed since the last release, and write down what you find." in shown
    heads = ["STATE", "AGE", "TOOK", "SESSION", "FOR", "DIRECTORY", "MODEL", "TOKENS", "COST", "WHAT"]
    assert shown.split("\n")[0].split() == heads


def test_a_pipe_gets_what_it_always_got(everyday: Everyday) -> None:
    shown = everyday.call("session", "list").out
    assert shown.split("\n")[0].split()[:4] == ["SESSION", "STATUS", "REASON", "VERIFIED"]


def test_a_chain_run_is_one_row_and_a_launched_run_one_with_its_agent(everyday: Everyday) -> None:
    shown = everyday.call("session", "list", "--wide").out
    assert len(re.findall(r"\bcr_[0-9a-f]{12} ", shown)) == 3
    (nightly,) = [line for line in shown.split("\n") if " nightly " in line]
    assert nightly.startswith("* working"), "no locale is set, so these are the signs"
    assert "Look at what changed" in nightly
    assert "000000cc" not in shown
    apart = everyday.call("session", "list", "--wide", "--each", "--steps").out
    assert "000000cc" in apart
    assert len(re.findall(r"\bcr_[0-9a-f]{12}-[0-9]-1 ", apart)) == 7


def test_the_limit_counts_what_ended_and_what_goes_on_is_always_there(everyday: Everyday) -> None:
    shown = everyday.call("session", "list", "--wide", "--limit", "1")
    states = [line.split()[1] for line in shown.out.splitlines()[1:]]
    assert states.count("completed") == 1
    assert sorted(states) == ["completed", "waiting", "waiting", "working", "working"]
    assert "`--limit 0` shows all" in shown.err


def test_the_first_screen_has_24_rows_at_most_and_exits_as_status_does(everyday: Everyday) -> None:
    drawn = draw(everyday, (80, 24))
    assert len(drawn.lines) < 24
    assert drawn.code == everyday.call("status").code == 3
    assert everyday.call().code == 2, "a program gets the help, as before"
    assert everyday.call().err.startswith("Usage: runward [OPTIONS] COMMAND [ARGS]...\n")


def test_the_first_screen_of_a_new_machine_says_what_to_do(tmp_path: Path) -> None:
    place = Everyday(tmp_path)
    place.furnish()
    drawn = draw(place, (80, 24))
    assert drawn.lines[0] == "Runward is not running: set it up with `runward init`."
    assert drawn.lines[-1] == "Next: runward init · runward --help"
    assert "Needs you" not in drawn.text
    listed = draw(place, (80, 24), "session", "list").lines
    assert listed[0].startswith("runward: no daemon has run in ~/state yet: begin with `runward init`")
    assert place.call("session", "list").err == f"runward: no daemon has run in {place.state} yet\n"


def test_the_help_names_every_command_in_24_rows_and_the_whole_one_is_what_a_pipe_gets(
    everyday: Everyday,
) -> None:
    drawn = draw(everyday, (80, 24), "--help")
    assert len(drawn.lines) < 24
    named = [word for entries in GROUPS.values() for names, _ in entries for word in names.split()]
    assert sorted(named) == sorted(["(nothing)", *COMMANDS])
    assert all(name in drawn.text for name in COMMANDS)
    whole = [line.rstrip() for line in everyday.call("help").out.splitlines()]
    assert draw(everyday, (80, 24), "help", "--all").lines == whole
    assert everyday.call("--help").out == everyday.call("help").out == everyday.call("help", "--all").out
