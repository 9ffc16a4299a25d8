"""`make demo`: real commands through `runward run`, and other tools' sessions, judged by a real daemon.

It shows what a person would look at afterwards, in three screens; `DEMO=all` shows every command and its output.
Everything is in a scratch directory. Five runs: a git checkout that is tested and delivers its report;
one that exits 0 without its required artifact; one that misses an optional one; one that crashes; one
that ran while the daemon was down. Four sessions, which `agents.py` writes as Claude Code and Codex do:
one each that is killed, one that delivers what a rule of the settings asks for, one that doesn't. Two more still work at the
end.
The bundle of one of them, and a run of CTCP, are checked (`bundles.py`). An economy of three agents
follows (`economy.py`), and a chain over pull requests (`pull_requests.py`). Exits 1 if anything is not as expected. On a terminal it
then serves the Studio until Ctrl-C (`studio.py`).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.demo import bundles, economy, pull_requests, studio
from tests.demo.telling import Telling

AGENTS = Path(__file__).with_name("agents.py")
RUNWARD = Path(sys.executable).with_name("runward")
PATIENCE = 60.0

SETTINGS = """\
state_dir = "state"
playbooks = ["playbooks"]
chains = ["chains"]

[[roots]]
name = "runs"
path = "runs"

[[roots]]
name = "claude"
path = "home/.claude/projects"
layout = "claude-code"

[[roots]]
name = "codex"
path = "home/.codex"
layout = "codex"

[[contracts]]
match = {cwd = "work/release"}
playbook = "report"

[[contracts]]
match = {cwd = "work/review"}
playbook = "review"
"""

REPORT = """\
name: report
artifacts:
  expected:
    - {id: report, path: report.md, description: What was tested and how it went}
"""

REVIEW = """\
name: review
artifacts:
  expected:
    - {id: review, path: review.md, description: The reviewer's verdict and findings}
    - {id: notes, path: notes.md, required: false, description: Further observations}
"""

LIBRARY = "def add(a, b):\n    return a + b\n"
TESTS = """\
import unittest
from library import add

class Addition(unittest.TestCase):
    def test_two_numbers(self):
        self.assertEqual(add(2, 3), 5)
"""

TEST_A_CHECKOUT = """\
set -e
git clone --quiet "$1" checkout
cd checkout
python3 -m unittest -v > ../tests.log 2>&1
{
    echo "# Tests of $(git log -1 --format=%h)"
    grep -c '\\.\\.\\. ok$' ../tests.log | sed 's/$/ passed/'
} > "$RUNWARD_ARTIFACTS_DIR/report.md"
"""

WRITE_A_REVIEW = "echo 'APPROVE: the addition adds' > \"$RUNWARD_ARTIFACTS_DIR/review.md\""


@dataclass(frozen=True)
class Story:
    """A run of the demo, and the verdict that it must get."""

    name: str
    says: str
    playbook: str
    command: tuple[str, ...]
    status: str
    reason: str
    delivery: str | None
    exit_code: int


@dataclass(frozen=True)
class SessionStory:
    """A foreign session, and the verdict that it must get. Without an `artifact` it is killed."""

    session_id: str
    says: str
    layout: str
    home: str
    directory: str
    artifact: str | None
    status: str
    reason: str
    delivery: str | None


SESSION_STORIES = (
    SessionStory(
        "c1a0de00-0000-4000-8000-000000000001",
        "Claude Code, delivers the report that a rule asks for",
        "claude-code",
        "home/.claude",
        "work/release",
        "report.md",
        "completed",
        "run.completed.ok",
        "passed",
    ),
    SessionStory(
        "c1a0de00-0000-4000-8000-000000000002",
        "Claude Code, killed while it runs a tool",
        "claude-code",
        "home/.claude",
        "work/elsewhere",
        None,
        "aborted",
        "run.aborted.process_gone",
        None,
    ),
    SessionStory(
        "01a1fd0a-0000-7000-8000-000000000001",
        "Codex, says that it is done, without the review that a rule asks for",
        "codex",
        "home/.codex",
        "work/review",
        "-",
        "failed",
        "run.failed.missing_artifact",
        "missing",
    ),
    SessionStory(
        "01a1fd0a-0000-7000-8000-000000000002",
        "Codex, killed while it runs a tool",
        "codex",
        "home/.codex",
        "work/elsewhere",
        None,
        "aborted",
        "run.aborted.process_gone",
        None,
    ),
)


KILLED = SESSION_STORIES[1].session_id

WORKING = (
    SessionStory(
        "c1a0de00-0000-4000-8000-0000000000aa",
        "Claude Code, still works at the end",
        "claude-code",
        "home/.claude",
        "work/api",
        None,
        "running",
        "run.started.ok",
        None,
    ),
    SessionStory(
        "01a1fd0a-0000-7000-8000-0000000000bb",
        "Codex, still works at the end",
        "codex",
        "home/.codex",
        "work/web",
        None,
        "running",
        "run.started.ok",
        None,
    ),
)
SCREENS = ((), ("why", "silent-reviewer"), ("usage", "--by", "model"))
"""What a person would look at."""


def stories(repository: Path) -> tuple[Story, ...]:
    """The runs that happen while the daemon is up; the last one happens while it is down."""
    return (
        Story(
            "tested-checkout",
            "clones a repository, runs its tests, writes a report",
            "report",
            ("sh", "-c", TEST_A_CHECKOUT, "sh", str(repository)),
            "completed",
            "run.completed.ok",
            "passed",
            0,
        ),
        Story(
            "silent-reviewer",
            "reads the code, exits 0, and never writes its review",
            "review",
            ("git", "-C", str(repository), "log", "--stat"),
            "failed",
            "run.failed.missing_artifact",
            "missing",
            1,
        ),
        Story(
            "brief-reviewer",
            "writes its review, but not the optional notes",
            "review",
            ("sh", "-c", WRITE_A_REVIEW),
            "completed",
            "run.completed.ok",
            "passed",
            0,
        ),
        Story(
            "crashed-reviewer",
            "dies of an exception before it has written anything",
            "review",
            ("python3", "-c", "import library_that_is_not_there"),
            "failed",
            "run.failed.exit_nonzero",
            "missing",
            1,
        ),
        Story(
            "night-shift",
            "runs while the daemon is down",
            "review",
            ("sh", "-c", WRITE_A_REVIEW),
            "completed",
            "run.completed.ok",
            "passed",
            0,
        ),
    )


class Demo:
    """A scratch directory with settings, playbooks and a repository, and a daemon over it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.config = place / "runward.toml"
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("RUNWARD_", "GIT_"))},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "demo",
            "GIT_AUTHOR_EMAIL": "demo@localhost",
            "GIT_COMMITTER_NAME": "demo",
            "GIT_COMMITTER_EMAIL": "demo@localhost",
        }

    def prepare(self) -> Path:
        """Write what a person would write; returns the repository."""
        self.config.write_text(SETTINGS + pull_requests.SETTINGS + economy.SETTINGS + studio.SETTINGS)
        for directory in ("runs", "home/.claude/projects", "home/.codex"):
            (self.place / directory).mkdir(parents=True)
        for story in (*SESSION_STORIES, *WORKING):
            (self.place / story.directory).mkdir(parents=True, exist_ok=True)
        (self.place / "playbooks").mkdir()
        (self.place / "playbooks/report.playbook.yaml").write_text(REPORT)
        (self.place / "playbooks/review.playbook.yaml").write_text(REVIEW)
        repository = self.place / "repository"
        repository.mkdir()
        (repository / "library.py").write_text(LIBRARY)
        (repository / "test_library.py").write_text(TESTS)
        created = ("init", "--quiet", "--initial-branch=main")
        for arguments in (created, ("add", "."), ("commit", "--quiet", "-m", "An addition")):
            subprocess.run(["git", *arguments], cwd=repository, env=self.environment, check=True)
        pull_requests.prepare(self, repository)
        economy.prepare(self)
        return repository

    def start_daemon(self) -> subprocess.Popen[str]:
        daemon = subprocess.Popen(
            [str(RUNWARD), "daemon", "--quiet", "--config", str(self.config)],
            cwd=self.place,
            env=self.environment,
            text=True,
        )
        self.wait(lambda: self.runward("status", quiet=True).returncode == 0, "the daemon to be up")
        return daemon

    def stop_daemon(self, daemon: subprocess.Popen[str]) -> None:
        daemon.send_signal(signal.SIGTERM)
        if daemon.wait(PATIENCE) != 0:
            raise SystemExit(f"the daemon ended {daemon.returncode} on SIGTERM")

    def runward(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(RUNWARD), *arguments, "--config", str(self.config)],
            cwd=self.place,
            env=self.environment,
            text=True,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.PIPE if quiet else 1,
            check=False,
        )

    def launch(self, story: Story) -> list[str]:
        """Run the story's command as a person would; returns what is wrong with how it ended."""
        order = [
            "run",
            "--playbook",
            story.playbook,
            "--name",
            story.name,
            "--config",
            str(self.config),
            "--",
        ]
        print(f"  {story.name:17} {story.says}", flush=True)
        ended = subprocess.run(
            [str(RUNWARD), *order, *story.command],
            cwd=self.place,
            env=self.environment,
            text=True,
            capture_output=True,
            check=False,
        )
        if ended.returncode == story.exit_code:
            return []
        return [f"{story.name}: runward run ended {ended.returncode}, not {story.exit_code}: {ended.stderr}"]

    def begin(self, story: SessionStory) -> None:
        """Start an agent, and wait until its transcript is there."""
        print(f"  {story.session_id}  {story.says}", flush=True)
        home = self.place / story.home
        given = [str(home), story.session_id, str(self.place / story.directory)]
        artifact = [] if story.artifact is None else [story.artifact]
        command = [sys.executable, str(AGENTS), story.layout, *given, *artifact]
        self.agents[story.session_id] = subprocess.Popen(command)
        self.wait(lambda: any(home.rglob(f"*{story.session_id}.jsonl")), f"{story.session_id} to begin")

    def wait_for_followed(self, stories: Iterable[SessionStory]) -> None:
        """Until the daemon knows of each of these sessions, and of its first call."""

        def followed() -> bool:
            found = self.verdicts()
            return all(_has_called(found.get(story.session_id, {})) for story in stories)

        self.wait(followed, "the sessions to be followed")

    def verdicts(self) -> dict[str, dict[str, object]]:
        listed = self.runward("session", "list", "--json", quiet=True)
        return {each["session_id"]: each for each in json.loads(listed.stdout or "[]")}

    def wait_for_verdicts(self, names: list[str]) -> None:
        def judged() -> bool:
            found = self.verdicts()
            return all(name in found and found[name]["status"] != "running" for name in names)

        self.wait(judged, "the verdicts")

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise SystemExit(
                    f"waited {PATIENCE:.0f} s for {what} in vain; the log is in {self.place}/state/log"
                )
            time.sleep(0.1)


def check(demo: Demo, told: tuple[Story, ...]) -> list[str]:
    """What differs between the verdicts and the expected ones."""
    wrong, found = [], demo.verdicts()
    expected: list[tuple[str, Story | SessionStory]] = [
        *((story.name, story) for story in told),
        *((story.session_id, story) for story in SESSION_STORIES),
    ]
    for name, story in expected:
        session = found[name]
        reason = session["reason"]
        assert isinstance(reason, dict)
        got = (session["status"], reason["code"], session["delivery"])
        wanted = (story.status, story.reason, story.delivery)
        if got != wanted:
            wrong.append(f"{name}: {got}, not {wanted}")
    return wrong


def _has_called(listed: dict[str, object]) -> bool:
    """Whether the model of this session was called: only then is it worth killing."""
    usage = listed.get("usage")
    return isinstance(usage, dict) and bool(usage.get("output_tokens"))


@contextmanager
def played(demo: Demo, telling: Telling) -> Iterator[list[str]]:
    """Everything happens, and is shown. What is not as expected, while the daemon still runs."""
    repository = demo.prepare()
    told = stories(repository)
    *while_up, while_down = told
    wrong: list[str] = []
    daemon = demo.start_daemon()
    try:
        with telling.chapter("four sessions of Claude Code and Codex; two are killed"):
            print(f"A daemon over {demo.place}, and agents' sessions that it finds and follows:")
            for session in SESSION_STORIES:
                demo.begin(session)
            demo.wait_for_followed(SESSION_STORIES)
            for session in SESSION_STORIES:
                if session.artifact is None:
                    demo.agents[session.session_id].kill()
        with telling.chapter("five commands under `runward run`; one while the daemon is down"):
            print("\nReal commands through `runward run`:")
            for story in while_up:
                wrong += demo.launch(story)
            named = [story.name for story in while_up] + [session.session_id for session in SESSION_STORIES]
            demo.wait_for_verdicts(named)
            demo.stop_daemon(daemon)
            wrong += demo.launch(while_down)
            daemon = demo.start_daemon()
            demo.wait_for_verdicts([story.name for story in told])
        wrong += check(demo, told)
        for words in (
            ("session", "list"),
            ("session", "show", "silent-reviewer"),
            ("why", "silent-reviewer"),
            ("why", KILLED),
        ):
            print(f"\n$ runward {' '.join(words)}", flush=True)
            demo.runward(*words)
        with telling.chapter("the receipt of a session; one byte is changed, and it no longer holds"):
            wrong += bundles.show(demo, SESSION_STORIES[0].session_id)
        with telling.chapter("an economy of three agents that share code and pay for it"):
            wrong += economy.show(demo)
        with telling.chapter("a chain over pull requests: review, tests, a person's word, merge"):
            wrong += pull_requests.show(demo, repository)
        with telling.chapter("two agents that still work, and a merge that waits for you"):
            for session in WORKING:
                demo.begin(session)
            demo.wait_for_followed(WORKING)
            pull_requests.leave_one_waiting(demo)
        yield wrong
    finally:
        for agent in demo.agents.values():
            agent.kill()
            agent.wait()
        demo.stop_daemon(daemon)


def main() -> int:
    demo = Demo(Path(tempfile.mkdtemp(prefix="runward-demo-")))
    telling = Telling(demo.place)
    if telling.is_short:
        telling.say("A real daemon over a scratch directory, and what it gets to judge:")
    with played(demo, telling) as wrong:
        for words in SCREENS:
            telling.screen(words, [str(RUNWARD), *words, "--config", str(demo.config)], demo.environment)
        _say_result(telling, demo.place, wrong)
        studio.say_where(demo, telling)
    return 1 if wrong else 0


def _say_result(telling: Telling, place: Path, wrong: list[str]) -> None:
    everything = "" if telling.record is None else f" ({telling.record.name} has every command)"
    telling.say(f"\nKept in {place}{everything}")
    if wrong:
        print("\nNot as expected:", *wrong, sep="\n  ", file=sys.stderr)
    else:
        telling.say("All nine verdicts, the bundle, both chain runs and the economy are as expected.")


if __name__ == "__main__":
    if shutil.which("git") is None:
        raise SystemExit("missing: git\n    install it with: sudo apt-get install git")
    sys.exit(main())
