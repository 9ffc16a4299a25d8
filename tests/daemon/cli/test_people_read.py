"""What people read on a terminal, and not only on a screen of its own: short paths, and no line that is wider than it."""

import re
import shlex
import time
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.drawn import draw, widest
from tests.daemon.cli.everyday import Everyday

COMMANDS = (
    "status --all",
    "why silent-reviewer --all",
    "why crashed-reviewer --verbose",
    "why chain:@last --all",
    "session show silent-reviewer --all",
    "session show crashed-reviewer",
    "session verify silent-reviewer",
    "session verify night-shift",
    "chain approvals --all",
    "chain show pr-review",
    "chain run show @last",
    "chain fire pr-review --dry-run head=plus verdict=APPROVE",
    "contract verify silent-reviewer",
    "invocation show @last",
    "queue show @last",
    "play show wrong",
    "play check playbooks/wrong.playbook.yaml",
    "hook status",
    "hook status claude-code codex",
    "doctor --only settings --only roots",
    "daemon --check",
    "inspect --explain .",
    "inspect .claude/projects",
    "receipt verify night-shift",
    "backup no/such/directory/backup.db",
    "restore nothing.db",
    "session show nobody",
)
"""Commands that tell something in texts."""


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_line_is_wider_than_the_terminal_and_paths_at_home_are_short(
    everyday: Everyday, command: str, columns: int
) -> None:
    drawn = draw(everyday, (columns, 24), *command.split())
    assert widest(drawn) <= columns, drawn.text
    assert "Traceback" not in drawn.text
    assert str(everyday.directory) not in "".join(line.strip() for line in drawn.lines), drawn.text


@pytest.mark.parametrize("columns", [40, 80])
def test_the_log_fits_the_terminal_and_has_all_its_words(everyday: Everyday, columns: int) -> None:
    drawn = draw(everyday, (columns, 24), "log", "--event", "started")
    assert widest(drawn) <= columns
    whole = everyday.call("log", "--event", "started").out
    assert "".join("".join(drawn.lines).split())[19:] == "".join(whole.split())[19:], "but for its time"


def test_a_program_gets_whole_paths(everyday: Everyday) -> None:
    for command in ("status", "status --all", "why silent-reviewer --all", "daemon --check"):
        piped = everyday.call(*command.split())
        assert "~" not in piped.out + piped.err
    assert str(everyday.directory) in everyday.call("status").out
    assert str(everyday.directory) in everyday.call("daemon", "--check").err


def test_what_is_wrong_is_told_with_short_paths_and_can_be_opened_with_them(place: Place) -> None:
    (place.directory / "runward.toml").write_text("[[roots]]\npath = 3\n")
    drawn = draw(Everyday(place.directory), (80, 24), "status")
    (file,) = re.findall(r"^(~/runward.toml):2:8: ", drawn.text, re.MULTILINE)
    assert Path(file.replace("~", str(place.directory))).exists()


@pytest.mark.parametrize("command", ["ls", "logs", "sesion", "tail", "session lsit"])
def test_an_unknown_command_is_answered_in_one_line(everyday: Everyday, command: str) -> None:
    drawn = draw(everyday, (80, 24), *command.split())
    assert (drawn.code, len(drawn.lines)) == (2, 1)
    assert "did you mean" in drawn.lines[0]


def test_what_to_do_about_a_hook_is_not_what_a_narrow_terminal_leaves_out(everyday: Everyday) -> None:
    drawn = draw(everyday, (80, 24), "hook", "status", "claude-code")
    assert "runward hook install claude-code" in drawn.lines[1]
    assert "not installed" in drawn.lines[1]


def test_a_single_failure_is_shown_by_a_command_that_can_be_copied(place: Place) -> None:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    place.add_run("it's one", exit_code=3, started_at=now, finished_at=now)
    place.daemon_once()
    screen = Everyday(place.directory)
    screen.now = time.time()
    shown = " ".join(draw(screen, (80, 24), "status").text.split())
    (command,) = re.findall(r"`runward (session show [^`]+)` shows it", shown)
    assert place.call(*shlex.split(command), "--json").object()["session_id"] == "it's one"


def test_a_run_that_delivered_nothing_names_where_it_should_have(place: Place) -> None:
    drawn = draw(
        Everyday(place.directory), (80, 24), "run", "--playbook", "review", "--name", "one", "--", "true"
    )
    assert drawn.code == 1
    assert "Searched ~/state/runs/one/artifacts." in drawn.lines


def test_a_run_that_is_not_judged_yet_exited_and_did_not_end_its_turn(place: Place) -> None:
    with place.start("run", "--playbook", "review", "--name", "one", "--", "true") as launched:
        launched.communicate()
    assert launched.returncode == 1
    told = place.call("why", "one", "--json").items("causes_short")
    assert any(str(each["text"]).startswith("it exited with 0, after ") for each in told)
    shown = draw(Everyday(place.directory), (80, 24), "why", "one").lines
    assert shown[-1] == "All:  runward why one --all", "there are no events yet, and none are counted"
