"""`make demo`: real commands through `runward run`, judged by a real daemon in a scratch directory.

Five runs: a git checkout that is tested and delivers its report; one that exits 0 without its
required artifact; one that misses an optional one; one that crashes; one that ran while the daemon
was down. Exits 1 if any verdict is not the expected one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RUNWARD = Path(sys.executable).with_name("runward")
PATIENCE = 60.0

SETTINGS = """\
state_dir = "state"
playbooks = ["playbooks"]

[[roots]]
name = "runs"
path = "runs"
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
        self.config.write_text(SETTINGS)
        (self.place / "runs").mkdir()
        (self.place / "playbooks").mkdir()
        (self.place / "playbooks/report.playbook.yaml").write_text(REPORT)
        (self.place / "playbooks/review.playbook.yaml").write_text(REVIEW)
        repository = self.place / "repository"
        repository.mkdir()
        (repository / "library.py").write_text(LIBRARY)
        (repository / "test_library.py").write_text(TESTS)
        for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "An addition")):
            subprocess.run(["git", *arguments], cwd=repository, env=self.environment, check=True)
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
            stderr=subprocess.PIPE if quiet else None,
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
            time.sleep(0.05)


def check(demo: Demo, told: tuple[Story, ...]) -> list[str]:
    """What differs between the verdicts and the expected ones."""
    wrong, found = [], demo.verdicts()
    for story in told:
        session = found[story.name]
        reason = session["reason"]
        assert isinstance(reason, dict)
        got = (session["status"], reason["code"], session["delivery"])
        wanted = (story.status, story.reason, story.delivery)
        if got != wanted:
            wrong.append(f"{story.name}: {got}, not {wanted}")
    return wrong


def main() -> int:
    place = Path(tempfile.mkdtemp(prefix="runward-demo-"))
    demo = Demo(place)
    told = stories(demo.prepare())
    *while_up, while_down = told
    wrong: list[str] = []

    print(f"A daemon over {place}/runs, and real commands through `runward run`:")
    daemon = demo.start_daemon()
    try:
        for story in while_up:
            wrong += demo.launch(story)
        demo.wait_for_verdicts([story.name for story in while_up])
    finally:
        demo.stop_daemon(daemon)
    wrong += demo.launch(while_down)
    daemon = demo.start_daemon()
    try:
        demo.wait_for_verdicts([story.name for story in told])
        wrong += check(demo, told)
        print("\n$ runward session list", flush=True)
        demo.runward("session", "list")
        print("\n$ runward session show silent-reviewer", flush=True)
        demo.runward("session", "show", "silent-reviewer")
        print("\n$ runward why silent-reviewer", flush=True)
        demo.runward("why", "silent-reviewer")
    finally:
        demo.stop_daemon(daemon)

    print("\nThe journals:")
    for journal in sorted(place.glob("runs/*/*.jsonl")):
        print(f"  {journal}  ({len(journal.read_bytes().splitlines())} lines)")
    print(f"\nKept for you to look at; remove it with: rm -r {place}")
    if wrong:
        print("\nNot the expected verdicts:", *wrong, sep="\n  ", file=sys.stderr)
        return 1
    print("\nAll five verdicts are as expected.")
    return 0


if __name__ == "__main__":
    if shutil.which("git") is None:
        raise SystemExit("missing: git\n    install it with: sudo apt-get install git")
    sys.exit(main())
