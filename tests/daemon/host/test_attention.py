"""`<state>/attention`: it says what "Needs you" says, costs nothing where nothing is new, and prompts show it."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.conftest import place
from tests.docs.pages import Block, page
from tests.waiting import PATIENCE_S, wait_for

from runward.config.settings import Settings
from runward.daemon.host import attention
from runward.daemon.host.attention import Attention, write_attention
from runward.daemon.log import log_into
from runward.handlers.times import iso

__all__ = ["place"]


def _line(state: Path) -> str:
    return (state / "attention").read_text()


def _told(state: Path) -> dict[str, int]:
    """How many things need somebody, by their kinds."""
    path = state / "attention.json"
    found: dict[str, int] = json.loads(path.read_text())["needs"] if path.exists() else {}
    return found


def test_it_counts_what_needs_you(place: Place) -> None:
    at = str(iso(time.time() - 60))
    for number in range(3):
        place.add_run(f"failed-{number}", exit_code=1, started_at=at, finished_at=at)
    place.daemon_once()
    with place.daemon():
        wait_for(lambda: _told(place.state).get("file"), "that a playbook is wrong")
        needs = place.call("status", "--json").items("needs")
        kinds = [(each["kind"], each["count"]) for each in needs]
    assert kinds == [("failure", 1), ("failure", 1), ("failure", 1), ("file", 1)]
    assert _line(place.state) == "!1 ✗3\n"
    told = json.loads((place.state / "attention.json").read_text())
    assert told == {"waiting": 1, "failed": 3, "needs": {"failure": 3, "file": 1}}
    for name in ("attention", "attention.json"):
        assert stat.S_IMODE((place.state / name).stat().st_mode) == 0o600


def test_a_file_that_says_it_already_is_left_alone(place: Place) -> None:
    place.daemon_once()
    settings = Settings(state_dir=str(place.state))
    write_attention(place.state, settings)
    before = os.stat(place.state / "attention")
    assert (before.st_size, json.loads((place.state / "attention.json").read_text())["needs"]) == (0, {})
    write_attention(place.state, settings)
    assert os.stat(place.state / "attention").st_ino == before.st_ino
    (place.state / "attention").write_text("!9\n")  # as a daemon that was frozen may leave it
    write_attention(place.state, settings)
    assert _line(place.state) == ""


def test_a_daemon_keeps_it_current(place: Place) -> None:
    state = place.state
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with place.daemon():
        wait_for((state / "attention").exists, "the first line")
        assert _line(state) == ""
        started = place.start("run", "--", "false")
        started.communicate(timeout=PATIENCE_S)
        assert started.returncode == 1
        wait_for(lambda: _line(state) == "✗1\n", "the failure")
        assert place.call("session", "seen", "--all").code == 0
        wait_for(lambda: _line(state) == "", "that it was seen")


@dataclass
class Commits:
    """A store of which only the number of commits is asked."""

    commits: int = 0


@dataclass
class Kept:
    """The task over stand-ins; `news` counts the daemon's own reports."""

    state: Path
    news: int = 1
    store: Commits = field(default_factory=Commits)
    said: list[dict[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = Settings(state_dir=str(self.state))
        log = log_into(self.said.append)
        self.task = Attention(self.state, lambda: settings, self.store, lambda: self.news, log)  # type: ignore[arg-type] # a stand-in


async def test_it_looks_only_if_something_was_committed_or_told_or_time_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path, news=0)
    assert await kept.task.step() == 0.0, "the daemon has not said yet how it is"
    kept.news = 1
    assert await kept.task.step() > 0.0
    assert await kept.task.step() == 0.0
    kept.store.commits += 1
    assert await kept.task.step() > 0.0
    kept.news += 1
    assert await kept.task.step() > 0.0
    assert await kept.task.step() == 0.0
    monkeypatch.setattr(attention, "BEAT", -1.0)
    assert await kept.task.step() > 0.0


async def test_trouble_is_told_once_and_ends_by_itself(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    (tmp_path / "attention").mkdir()
    for _ in range(3):
        kept.store.commits += 1
        await kept.task.step()
    assert [each["event"] for each in kept.said] == ["attention.not_written"]
    (tmp_path / "attention").rmdir()
    kept.store.commits += 1
    await kept.task.step()
    assert _line(tmp_path) == ""


async def test_a_mistake_of_ours_stops_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(tmp_path)

    def mistaken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(attention, "write_attention", mistaken)
    await kept.task.step()
    assert [each["why"] for each in kept.said] == ["ValueError('a bug')"]


# What people copy from the page, in the programs that it is for.


def _snippet(first: str) -> str:
    """The block of the page that has this."""
    (found,) = [each.text for each in _blocks() if first in each.text]
    return found


def _blocks() -> list[Block]:
    return page("docs/terminal.md").blocks()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in whose state one thing waits."""
    state = tmp_path / ".local/state/runward"
    state.mkdir(parents=True)
    (state / "attention").write_text("!1 ✗4\n")
    return tmp_path


def _said(home: Path, *command: str, given: str = "") -> str:
    ended = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={"HOME": str(home), "ZDOTDIR": str(home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        check=False,
    )
    return ended.stdout + ended.stderr


def _only_with(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"there is no {program} here")


@pytest.mark.parametrize(
    ("program", "file", "arguments", "ask"),
    [
        pytest.param(
            "bash",
            ".bashrc",
            ("--norc", "-i"),
            "PS1='$ '; . ~/.bashrc\nrm {}\ntrue\n",
            marks=_only_with("bash"),
        ),
        pytest.param(
            "zsh", ".zshrc", ("-f", "-i"), "PROMPT='$ '; . ~/.zshrc\nrm {}\ntrue\n", marks=_only_with("zsh")
        ),
    ],
)
def test_a_prompt_shows_it_and_nothing_if_nothing_needs_you(
    home: Path, program: str, file: str, arguments: tuple[str, ...], ask: str
) -> None:
    (home / file).write_text(_snippet(f"# ~/{file}"))
    path = home / ".local/state/runward/attention"
    said = _said(home, program, *arguments, given=ask.format(shlex.quote(str(path))))
    first, shown, rest = said.partition("!1 ✗4 $ ")
    assert shown, said
    assert "!1" not in first + rest
    assert "No such file" not in rest


@_only_with("fish")
def test_the_prompt_of_fish_shows_it(home: Path) -> None:
    path = home / ".config/fish/functions/fish_right_prompt.fish"
    path.parent.mkdir(parents=True)
    path.write_text(_snippet("fish_right_prompt"))
    assert _said(home, "fish", "-c", "fish_right_prompt").strip() == "!1 ✗4"


@_only_with("tmux")
def test_the_status_line_of_tmux_shows_it(home: Path) -> None:
    (home / ".tmux.conf").write_text(_snippet("# ~/.tmux.conf"))

    def tmux(socket: str, *arguments: str) -> str:
        return _said(home, "tmux", "-S", str(home / socket), *arguments)

    # Only for somebody who looks at it does it draw the line: so it runs in a window of another one.
    inner = "env -u TMUX tmux -f .tmux.conf -S inner new-session 'sleep 600'"
    assert (
        tmux("outer", "-f", os.devnull, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(home), inner)
        == ""
    )
    try:
        wait_for(lambda: "!1 ✗4" in tmux("outer", "capture-pane", "-p"), "the line")
    finally:
        for socket in ("inner", "outer"):
            tmux(socket, "kill-server")


def test_claude_code_runs_a_command_that_prints_it(home: Path) -> None:
    line = json.loads(_snippet("statusLine"))["statusLine"]
    assert line["type"] == "command"
    assert _said(home, "sh", "-c", line["command"]) == "!1 ✗4\n"
