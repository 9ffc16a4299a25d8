"""The manual page: made from what `--help` is made from, kept up to date, and shown by man without a complaint."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import screen
from tests.daemon.cli.test_help import _ALL, _LEAVES, _options
from tests.waiting import PATIENCE_S

_PAGE = Path(__file__).parents[3] / "man/runward.1"


def _shown(*command: str) -> str:
    """What a formatter shows of the page. It complains of nothing."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"this machine has no {command[0]}")
    ended = subprocess.run(
        [*command, str(_PAGE)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": "200", "MANPAGER": "cat"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return re.sub(".\b", "", ended.stdout)


def test_the_page_in_the_repository_is_up_to_date(place: Place) -> None:
    made = place.call("man").out
    assert made == _PAGE.read_text(), "call: runward man > man/runward.1"


def test_every_command_and_option_is_in_it() -> None:
    text = _PAGE.read_text().replace("\\-", "-")
    sections = dict(
        re.findall(
            r'^\.SS "runward ([^"]*?)(?: [\[{A-Z(-][^"]*)?"\n(.*?)(?=^\.S[SH])',
            text,
            re.MULTILINE | re.DOTALL,
        )
    )
    assert {" ".join(path) for path in _LEAVES} <= set(sections) <= {" ".join(path) for path in _ALL}
    for path, command in _LEAVES.items():
        section = sections[" ".join(path)]
        assert all(option in section for option in _options(path)), path
        if path != ("run",) and command.help is not None:
            assert (
                " ".join(click.formatting.wrap_text(command.get_short_help_str(40), 1000).split()[:3])
                in section
            )


def test_an_example_keeps_its_lines_and_nothing_in_a_text_is_a_command_of_roff() -> None:
    lines = _PAGE.read_text().splitlines()
    assert "  runward daemon &" in lines
    known = re.compile(r"\.(TH|SH|SS|PP|TP|B|BR|nf|fi)\b")
    assert [line for line in lines if line.startswith((".", "'")) and not known.match(line)] == []


def test_man_shows_it_and_complains_of_nothing() -> None:
    shown = _shown("man", "--warnings", "-l")
    assert "runward - knows whether an agent run really delivered" in shown
    assert "runward session show [OPTIONS] ID" in shown


def test_groff_complains_of_nothing() -> None:
    _shown("groff", "-man", "-ww", "-z", "-K", "utf8")


def test_on_a_terminal_man_shows_it(place: Place) -> None:
    programs = place.directory / "bin"
    programs.mkdir()
    (programs / "man").write_text('#!/bin/sh\necho "shown with $*"; head -n 1\n')
    (programs / "man").chmod(0o755)
    place.environment["PATH"] = f"{programs}:{place.environment['PATH']}"
    with screen(place, 24, 120, "man") as terminal:
        shown = terminal.until(".TH RUNWARD 1")
        assert "shown with -l -" in shown
        assert terminal.end() == 0


def test_without_man_a_terminal_gets_the_source(place: Place) -> None:
    place.environment["PATH"] = "/nowhere"
    with screen(place, 24, 120, "man") as terminal:
        terminal.until(".SH SEE ALSO")
        assert terminal.end() == 0
