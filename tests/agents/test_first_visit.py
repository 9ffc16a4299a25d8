"""Somebody who has never seen Runward follows the first page, in an empty home, and a real agent is judged."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from tests.agents.agents import CLAUDE
from tests.agents.homes import make_home
from tests.agents.installed import CLAUDE_CODE, NotToBeHadError, program
from tests.agents.replies import Says
from tests.agents.scripted_model import Model, prompt
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import StartedScreen
from tests.docs.pages import Block, page
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

pytestmark = [pytest.mark.agents, pytest.mark.timeout(400)]


class Visitor(Place):
    """A home with nothing in it but an agent on the PATH, and a terminal."""

    def __init__(self, directory: Path, programs: Path, variables: dict[str, str]) -> None:
        super().__init__(directory)
        self.environment = {
            **variables, "HOME": str(directory), "PATH": f"{programs}:/usr/bin:/bin", "LANG": "C.UTF-8", "NO_COLOR": "1",
        }  # fmt: skip

    def argv(self, *arguments: str) -> list[str]:
        return ["/bin/sh", "-c", *arguments]

    def type(self, line: str, answer: bytes = b"") -> str:
        """Type a line into a shell in a terminal of 80 columns; all that is shown until the shell ends."""
        screen = StartedScreen(self, 24, 80, f"{line}; echo [$?]")
        screen.press(answer)
        shown = screen.until("]\r\n")
        screen.end()
        screen.close()
        return shown.replace("\r\n", "\n")

    def files_in_force(self) -> list[JsonValue]:
        """The files that the daemon has its settings from."""
        settings = self.call("status", "--json").object()["settings"]
        assert isinstance(settings, dict)
        files = settings["files"]
        assert isinstance(files, list)
        return files


def commands(contains: str) -> list[str]:
    """The lines of the one block of commands on the first page that has this in it."""
    (block,) = [
        each for each in page("README.md").blocks() if each.language == "sh" and contains in each.text
    ]
    return _lines(block)


def _lines(block: Block) -> list[str]:
    return [line.partition("  #")[0] for line in block.text.replace("\\\n", "").splitlines()]


@contextmanager
def daemon_of(visitor: Visitor) -> Iterator[None]:
    """Where systemd starts none, as `runward init` says."""
    with subprocess.Popen(
        ["runward", "daemon", "--quiet"],
        env=visitor.environment,
        cwd=visitor.directory,
        start_new_session=True,
    ) as process:
        try:
            wait_for(lambda: "[0]" in visitor.type("runward status > /dev/null"), "the daemon")
            yield
        finally:
            process.terminate()


def test_the_first_page_leads_to_the_verdict_on_a_session_and_back(tmp_path: Path) -> None:
    try:
        start = program(CLAUDE_CODE)
    except NotToBeHadError as error:
        pytest.skip(str(error))
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, argv in (("claude", start), ("runward", (str(Path(sys.executable).with_name("runward")),))):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(argv)} "$@"\n')
        (programs / name).chmod(0o755)
    home = make_home(tmp_path)
    with Model({"answer": [Says("All done.")] * 3}) as model:
        CLAUDE.settle(home, model.url)
        visitor = Visitor(home.home, programs, home.variables)
        (home.home / ".claude").mkdir()
        install, init = commands("uv tool install")
        assert install.startswith("uv tool install ."), "the tests of the packages do that"
        shown = visitor.type(init, b"y\n")
        assert "Claude Code" in shown
        assert "Undo it all: runward init --undo" in shown
        has_systemd = "[75]" not in shown
        assert has_systemd or "runward daemon" in shown
        with nullcontext() if has_systemd else daemon_of(visitor):
            for line in commands("--deliver report.md"):
                assert "[0]" in visitor.type(line), line
            wait_for(lambda: len(visitor.files_in_force()) == 2, "the daemon to take up the rule")
            asked = shlex.quote(prompt("answer"))
            assert "[0]" in visitor.type(f"cd ~/work/app && claude -p {asked}")
            wait_for(lambda: "without report.md" in visitor.type("runward why @last"), "the verdict")
            why = " ".join(visitor.type("runward why @last").split())
            assert re.match(r"✗ \S+ failed because it ended without report\.md\.", why), why
            assert "missing report.md" in visitor.type("runward")
            assert "[0]" in visitor.type("runward init --undo")
    assert not (home.home / ".config").exists()
    settings = home.home / ".claude/settings.json"
    assert not settings.exists() or "runward" not in settings.read_text()
    assert (home.home / ".local/state/runward/runward.db").exists(), "the record of the sessions stays"
