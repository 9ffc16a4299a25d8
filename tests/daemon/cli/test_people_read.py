"""What people read on a terminal, and not only on a screen of its own: short paths, and no line that is wider than it."""

import re
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
