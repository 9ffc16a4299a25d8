"""A scripted history of two chain runs, in four chapters with a daemon after each.

The first chain run waits for a person, builds in a worktree, and publishes if the outcome says so. The second waits
for a person who never comes, until its timer rings. People are told of both.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.proof.history import BATCH
from tests.proof.place import Place, write
from tests.waiting import wait_for

SETTINGS: Final = f"""\
batch = {BATCH}
chains = ["chains"]
[[notify]]
on = ["approval.asked", "chain.*"]
command = ["sh", "-c", 'echo "$1" >> "$0"', "PLACE/told", "{{{{ with.kind }}}} {{{{ with.id }}}}"]
"""
RELEASE: Final = """\
name: release
trigger: {event: asked, filter: {wanted: true}}
timeout: 1h
steps:
  - {id: build, skill: build, requires_approval: true, worktree: {repo: PLACE/repo, ref: main}}
  - {id: publish, skill: publish, condition: "{{ outcome.passed }}"}
  - {id: never, skill: publish, condition: "{{ not steps.build.outcome.passed }}"}
"""
FORGOTTEN: Final = """\
name: forgotten
trigger: {event: asked}
steps:
  - {id: forgotten, skill: publish, requires_approval: true, approval: {expires: 100ms}}
"""
BUILD: Final = """\
command: [sh, -c, 'cat tracked >> "$0"; until [ -e "$RUNWARD_RUN_DIR/../../go" ]; do sleep 0.02; done; echo "{\\"outcome_kind\\": \\"ci_result\\", \\"summary\\": \\"s\\", \\"passed\\": true}" > "$RUNWARD_ARTIFACTS_DIR/outcome.json"', PLACE/did]
timeout: 10min
"""
PUBLISH: Final = """\
command: [sh, -c, 'echo published >> "$0"; until [ -e "$RUNWARD_RUN_DIR/../../go-on" ]; do sleep 0.02; done', PLACE/did]
"""
FILES: Final = {
    "playbooks/build.playbook.yaml": BUILD,
    "playbooks/publish.playbook.yaml": PUBLISH,
    "chains/release.yaml": RELEASE,
    "chains/forgotten.yaml": FORGOTTEN,
}


def report(place: Place) -> None:
    """An event fires both chains."""
    place.set_up(further=SETTINGS.replace("PLACE", str(place.directory)))
    _make_repository(place.directory / "repo")
    for name, text in FILES.items():
        (place.directory / name).parent.mkdir(exist_ok=True)
        write(place.directory / name, text.replace("PLACE", str(place.directory)))
    _report_event(place)


def approve(place: Place) -> None:
    """A person approves, and the time for the forgotten approval is over. The event is reported again."""
    _approve(place, "looks right")
    _report_event(place)
    over = "select 1 from approvals where status = 'asked' and expires_at > unixepoch('now', 'subsec')"
    wait_for(lambda: place.rows(over) == [], "the end of the time for the forgotten approval")


def build(place: Place) -> None:
    """The build ends, and a person approves it once more."""
    _let_go(place, "go")
    _approve(place, "once more")


def publish(place: Place) -> None:
    """What was published ends."""
    _let_go(place, "go-on")


CHAPTERS: Final[tuple[Callable[[Place], None], ...]] = (report, approve, build, publish)


def check(place: Place) -> None:
    """After all chapters: each step ran once, each chain run ended as it should, and nothing of them is left."""
    assert place.rows("select chain, status, reason_code from chain_runs order by chain") == [
        ("forgotten", "aborted", "chain.aborted.approval_expired"),
        ("release", "completed", "chain.completed.ok"),
    ]
    assert (place.directory / "did").read_text() == "tracked\npublished\n"
    assert place.rows("select count(*), sum(removed_at is null) from worktrees") == [(1, 0)]
    assert list((place.state / "worktrees").iterdir()) == []
    assert not hooked(place.directory).exists()
    told = set((place.directory / "told").read_text().splitlines())
    kinds = sorted(line.split()[0] for line in told)
    assert kinds == ["approval.asked", "approval.asked", "chain.aborted", "chain.completed"], (
        "each under one id"
    )
    waits = place.rows("select distinct lane from jobs where state <> 'done'")
    assert [str(lane).rpartition("/")[2] for (lane,) in waits] == ["deadline"], (
        "the timer of the run's timeout"
    )


def let_go(place: Place) -> None:
    """Let everything that was started so far end."""
    for gate in ("go", "go-on"):
        _let_go(place, gate)


def _let_go(place: Place, gate: str) -> None:
    write(place.directory / gate, "")
    for (directory,) in place.rows("select directory from starts where state = 'begun'"):
        wait_for(Path(str(directory), "exit.json").exists, f"the end of {directory}")


def _report_event(place: Place) -> None:
    said = {"at": 1.0, "name": "asked", "id": "one", "fields": {"wanted": True}}
    place.put_request({"type": "EventOccurred", "version": 1, "payload": said})


def _approve(place: Place, note: str) -> None:
    query = "select a.id, run from approvals a join chain_runs r on r.id = a.run where chain = 'release'"
    ((approval, run),) = place.rows(query)
    said = {"at": 5.0, "approval": approval, "run": run, "decision": "approved", "note": note}
    request = {"type": "ApprovalRequested", "version": 1, "payload": {"said_by": "a person", **said}}
    place.put_request(request, named=note)


def _make_repository(directory: Path) -> None:
    directory.mkdir()
    git = ("git", "-C", str(directory), "-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run([*git, "init", "--quiet", "--initial-branch=main"], check=True)
    (directory / "tracked").write_text("tracked\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "one"], check=True)
    hook = directory / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {hooked(directory.parent)}\n")
    hook.chmod(0o755)


def hooked(directory: Path) -> Path:
    """What the repository's hook leaves behind, if git runs it when a worktree is made."""
    return directory / "hooked"
