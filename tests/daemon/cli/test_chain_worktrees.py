"""Steps of chains in a git worktree of their own: made before the command, removed after the end unless it is kept."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import wait_for

from runward.daemon.launch import worktree

WORK = """\
command: [sh, -c, 'git log --format=%s -1 > "$RUNWARD_ARTIFACTS_DIR/head"; pwd > "$RUNWARD_ARTIFACTS_DIR/cwd"; mkdir -p deep; chmod 0 deep; exit "$0"', "{{ with.code }}"]
"""
CHAIN = """\
name: work
trigger: {manual: true}
steps:
  - id: one
    skill: work
    with: {code: "{{ trigger.code }}"}
    worktree: {repo: "{{ trigger.repo }}", ref: "{{ trigger.ref }}", keep: KEEP}
"""


def git(repo: Path, *words: str) -> str:
    said = subprocess.run(
        ["git", "-C", str(repo), "-c", "user.name=a", "-c", "user.email=a@b", *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return said.stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with two commits, whose hooks leave a mark."""
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "--quiet", "--initial-branch=main")
    for message in ("first", "second"):
        git(made, "commit", "--quiet", "--allow-empty", "-m", message)
    hook = made / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    git(made, "config", "core.fsmonitor", str(hook))
    return made


@pytest.fixture
def working(place: Place) -> Place:
    (place.directory / "playbooks/work.playbook.yaml").write_text(WORK)
    return place


def define(place: Place, keep: str = "on_failure") -> None:
    (place.directory / "c.yaml").write_text(CHAIN.replace("KEEP", keep))
    assert place.call("chain", "define", "c.yaml").code == 0


def run(place: Place, repo: Path, code: int = 0, ref: str = "main~1") -> str:
    """Fire the chain and wait for its end; the name of its step's run."""
    fired = place.call("chain", "fire", "work", f"repo={repo}", f"ref={ref}", f"code:={code}", "--wait")
    return f"{fired.out.strip()}-0-1"


def worktrees(repo: Path) -> list[str]:
    return [line for line in git(repo, "worktree", "list", "--porcelain").splitlines() if "worktree" in line]


def is_removed(place: Place, repo: Path, name: str) -> bool:
    return not (place.state / "worktrees" / name).exists() and len(worktrees(repo)) == 1


def test_a_step_starts_in_a_fresh_worktree_that_is_removed_after_it(
    working: Place, repo: Path, tmp_path: Path
) -> None:
    define(working)
    (tmp_path / "hooked").unlink(missing_ok=True)
    with working.daemon():
        name = run(working, repo)
        made = working.state / "worktrees" / name
        artifacts = working.runs / name / "artifacts"
        assert (artifacts / "head").read_text() == "first\n"
        assert (artifacts / "cwd").read_text() == f"{made}\n"
        wait_for(lambda: is_removed(working, repo, name), "the removal")
    assert not (tmp_path / "hooked").exists(), "no hook of the repository ran"
    assert '"ref": "main~1"' in working.call("why", name.rpartition("-0-1")[0], "--json").out


@pytest.mark.prove
@pytest.mark.parametrize(("keep", "code", "is_kept"), [
    ("on_failure", 3, True), ("always", 0, True), ("never", 3, False),
])  # fmt: skip
def test_a_worktree_is_kept_as_its_step_says(
    working: Place, repo: Path, keep: str, code: int, is_kept: bool
) -> None:
    define(working, keep)
    with working.daemon():
        name = run(working, repo, code)
        if not is_kept:
            wait_for(lambda: is_removed(working, repo, name), "the removal")
    if is_kept:
        assert (working.state / "worktrees" / name / "deep").exists()
        assert len(worktrees(repo)) == 2
        assert f"is kept: worktrees/{name}" in working.call("why", name.rpartition("-0-1")[0]).out


def test_a_worktree_that_can_not_be_made_fails_its_step_in_the_words_of_git(
    working: Place, repo: Path
) -> None:
    define(working)
    with working.daemon():
        name = run(working, repo, ref="nowhere")
    (step,) = working.call("chain", "run", "show", "@last", "--json").items("steps")
    assert isinstance(step["reason"], dict)
    assert (step["status"], step["reason"]["code"]) == ("failed", "run.failed.not_started")
    shown = working.call("session", "show", name).out
    assert "its worktree can't be made: fatal: invalid reference: nowhere" in shown
    assert len(worktrees(repo)) == 1


@pytest.mark.prove
def test_what_a_daemon_that_was_killed_owed_is_removed_by_the_next(working: Place, repo: Path) -> None:
    define(working)
    with working.daemon() as daemon:
        (working.directory / "playbooks/work.playbook.yaml").write_text(
            WORK.replace(
                "exit", "touch ../../../begun; while [ ! -e ../../../go ]; do sleep 0.02; done; exit"
            )
        )
        fired = working.call("chain", "fire", "work", f"repo={repo}", "ref=main", "code:=0")
        wait_for((working.directory / "begun").exists, "the step")
        daemon.kill()
    name = f"{fired.out.strip()}-0-1"
    (working.directory / "go").touch()
    wait_for((working.runs / name / "exit.json").exists, "its end")
    assert os.path.isdir(working.state / "worktrees" / name)
    working.daemon_once()
    assert is_removed(working, repo, name)


def test_a_commit_that_the_repository_lacks_is_refused_with_the_fetch_that_brings_it(
    repo: Path, tmp_path: Path
) -> None:
    made = str(tmp_path / "trees/one")
    git(repo, "remote", "add", "upstream", str(tmp_path / "other"))
    for lacking in ("1" * 40, "1" * 64):
        with pytest.raises(worktree.GitFailed) as failure:
            worktree.make(str(repo), lacking, made)
        wanted = (
            f"{repo} does not have the commit {lacking}: `git -C {repo} fetch upstream {lacking}` brings it"
        )
        assert str(failure.value) == wanted
    git(repo, "remote", "add", "origin", str(tmp_path / "fork"))
    with pytest.raises(worktree.GitFailed, match="fetch origin 1111"):
        worktree.make(str(repo), "1" * 40, made)
    with pytest.raises(worktree.GitFailed, match="invalid reference: nowhere"):
        worktree.make(str(repo), "nowhere", made)
    with pytest.raises(worktree.GitFailed, match=r"not a git repository|cannot change to"):
        worktree.make(str(tmp_path), "1" * 40, made)
    worktree.make(str(repo), git(repo, "rev-parse", "main").strip(), made)
    assert (tmp_path / "trees/one/.git").exists()


def test_what_git_forgot_before_a_kill_needs_nothing_and_what_it_keeps_listed_says_what_to_do(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = str(tmp_path / "trees/one")
    worktree.make(str(repo), "main", made)
    assert worktree.remove(str(repo), made) is None
    assert worktree.remove(str(repo), made) is None, "as the next daemon does after a kill"
    assert str(worktree.remove(str(tmp_path / "gone"), made)).startswith(
        f"its repository {tmp_path}/gone can't be asked to forget it; if that still exists, run `git -C {tmp_path}/gone worktree prune`"
    )
    fails = f'case "$*" in *list*) echo "worktree {made}";; *) echo "fatal: locked" >&2; exit 1;; esac'
    monkeypatch.setattr(worktree, "_GIT", ("sh", "-c", fails, "git"))
    assert worktree.remove(str(repo), made) == (
        f"its directory is removed, and its repository {repo} still lists it:"
        f" run `git -C {repo} worktree prune` (git: fatal: locked)"
    )


def test_a_dry_run_shows_the_worktree_and_makes_none(working: Place, repo: Path) -> None:
    define(working)
    fire = ("chain", "fire", "work", f"repo={repo}", "ref=main", "code:=0", "--dry-run")
    (step,) = working.call(*fire, "--json").items("steps")
    assert step["worktree"] == {"repo": str(repo), "ref": "main"}
    assert f"worktree   main of {repo}" in working.call(*fire).out
    assert len(worktrees(repo)) == 1


def test_a_cancelled_chain_ends_a_step_whose_worktree_is_still_being_made(
    working: Place, repo: Path, tmp_path: Path
) -> None:
    (repo / ".gitattributes").write_text("slow filter=slow\n")
    (repo / "slow").write_text("x")
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "slow")
    git(repo, "config", "filter.slow.smudge", f"touch {tmp_path}/asked; sleep 1000")
    define(working)
    with working.daemon():
        fired = working.call("chain", "fire", "work", f"repo={repo}", "ref=main", "code:=0").out.strip()
        wait_for((tmp_path / "asked").exists, "git")
        assert working.call("chain", "run", "cancel", fired).code == 0
        name = f"{fired}-0-1"
        wait_for((working.runs / name / "exit.json").exists, "its end")
        shown = working.call("why", name).out
    assert "cancelled" in shown
    assert "its worktree was still being made" in shown
