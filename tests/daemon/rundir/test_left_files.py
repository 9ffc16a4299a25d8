"""What a run left is listed whole: each file with its hash, or with what else binds it, or named as what nothing binds."""

import os
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.waiting import wait_for

from runward.daemon.rundir import hashes
from runward.daemon.rundir.left_files import DEEPEST, left_files_in
from runward.daemon.rundir.opening import Halted
from runward.handlers import left_files
from runward.handlers.model.approvals import LeftFile, LeftFiles, LeftPlace, WorkPlace


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run/artifacts").mkdir(parents=True)
    return tmp_path / "run"


def write(path: Path, content: bytes = b"content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def left(run: Path, *named: str, go_on: Callable[[int], bool] = lambda read: True) -> dict[str, LeftFile]:
    (found,) = left_files_in([LeftPlace(str(run), f"{run}/artifacts", named)], go_on)
    assert isinstance(found, LeftFiles)
    return {each.path: each for each in found.files}


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def test_every_file_is_there_also_what_no_contract_names_and_what_is_beside_the_artifacts(run: Path) -> None:
    write(run / "artifacts/a.md", b"a")
    write(run / "artifacts/sub/undeclared", b"b")
    write(run / "beside", b"c")
    write(run / "artifacts/empty", b"")
    found = left(run)
    assert {path: (each.state, each.sha256) for path, each in found.items()} == {
        "../beside": ("hashed", digest(b"c")),
        "a.md": ("hashed", digest(b"a")),
        "empty": ("empty", None),
        "sub/undeclared": ("hashed", digest(b"b")),
    }


def test_what_runward_writes_after_the_run_is_not_among_it_unless_it_is_elsewhere(run: Path) -> None:
    for name in ("events.jsonl", "results.jsonl", "REPLAY.jsonl", "RECEIPT.2.json", ".PR_SUMMARY.md.tmp"):
        write(run / name)
        write(run / "artifacts" / name)
    assert set(left(run)) == {
        *("events.jsonl", "results.jsonl", "REPLAY.jsonl", "RECEIPT.2.json", ".PR_SUMMARY.md.tmp")
    }


def test_artifacts_in_another_place_are_there_too(run: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/a.md")
    write(run / "b")
    (found,) = left_files_in([LeftPlace(str(run), str(tmp_path / "elsewhere"))], lambda read: True)
    assert isinstance(found, LeftFiles)
    assert {each.path for each in found.files} == {"a.md", f"{run}/b"}


def test_a_link_is_bound_by_its_target_and_not_followed(run: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret")
    (run / "artifacts/link").symlink_to(tmp_path / "secret")
    (run / "artifacts/away").symlink_to(tmp_path)
    os.mkfifo(run / "artifacts/pipe")
    found = left(run)
    assert (found["link"].state, found["link"].target) == ("link", str(tmp_path / "secret"))
    assert found["away"].state == "link"
    assert found["pipe"].state == "not_regular"
    assert len(found) == 3


def test_a_giant_is_known_by_its_identity_and_takes_no_hash_from_smaller_files(run: Path) -> None:
    giant = write(run / "artifacts/a-giant", b"")
    os.truncate(giant, hashes.MOST + 1)
    write(run / "artifacts/small", b"x")
    read: list[int] = []

    def count(number: int) -> bool:
        read.append(number)
        return True

    found = left(run, go_on=count)
    status = giant.stat()
    assert found["a-giant"].state == "too_large"
    assert found["a-giant"].identity == (
        *(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns),
    )
    assert (found["small"].state, sum(read)) == ("hashed", 1)
    os.utime(giant, ns=(0, status.st_mtime_ns))
    assert left(run)["a-giant"] != found["a-giant"], "a change that keeps size and time is seen"


def test_listing_can_be_halted_where_there_is_nothing_to_read(run: Path) -> None:
    for number in range(10):
        (run / f"empty-{number}").touch()
    calls: list[int] = []

    def go_on(read: int) -> bool:
        calls.append(read)
        return len(calls) < 4

    with pytest.raises(Halted):
        left(run, go_on=go_on)
    assert calls == [0] * 4


def test_the_bound_of_bytes_holds_for_all_places_together(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashes, "MOST", 100)
    for each in (run, tmp_path / "other"):
        write(each / "artifacts/a", b"x" * 40)
        write(each / "artifacts/b", b"x" * 40)
    places = [LeftPlace(str(each), f"{each}/artifacts") for each in (run, tmp_path / "other")]
    found = left_files_in(places, lambda read: True)
    states = [file.state for each in found if isinstance(each, LeftFiles) for file in each.files]
    assert sorted(states) == ["hashed", "hashed", "too_large", "too_large"]


def test_files_beyond_those_that_are_listed_are_counted_and_bound_together(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_files, "MOST_LISTED", 3)
    for number in range(10):
        write(run / f"artifacts/{number}")
    found = left(run)
    assert [*found] == ["0", "1", "2", "."]
    assert (found["."].state, found["."].number) == ("many", 7)
    assert left(run) == found
    write(run / "artifacts/9", b"another")
    assert left(run)["."].sha256 != found["."].sha256


def test_what_is_too_much_or_too_deep_to_be_listed_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = "/".join(["d"] * (DEEPEST + 2))
    (run / "artifacts" / deep).mkdir(parents=True)
    write(run / "artifacts" / deep / "file")
    (named,) = left(run).values()
    assert (named.path, named.state) == ("/".join(["d"] * DEEPEST), "not_listed")
    monkeypatch.setattr(left_files, "MOST_SEEN", 3)
    for number in range(5):
        write(run / f"artifacts/{number}")
    assert left(run)["."].state == "not_listed"


@pytest.mark.parametrize("state", ["denied", "unreadable", "changing"])
def test_a_file_that_can_not_be_hashed_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    path = write(run / "artifacts/file")
    real = os.open

    def refusing(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if name == "file":
            raise PermissionError if state == "denied" else OSError(5, "Input/output error")
        return real(name, flags, mode, dir_fd=dir_fd)

    def touch(read: int) -> bool:
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
        return True

    if state == "changing":
        assert left(run, go_on=touch)["file"].state == "changing"
        return
    monkeypatch.setattr(os, "open", refusing)
    assert left(run)["file"].state == state


def test_a_name_that_is_no_utf_8_is_there_as_text(run: Path) -> None:
    write(Path(os.fsdecode(os.fsencode(run / "artifacts") + b"/a\xff")))
    ((path, file),) = left(run).items()
    assert (path, file.state) == ("a\\xff", "hashed")


def test_a_named_file_that_is_gone_or_behind_a_link_is_there_under_its_name(run: Path) -> None:
    write(run / "artifacts/real/a.md", b"a")
    (run / "artifacts/link").symlink_to("real")
    found = left(run, "link/a.md", "gone.md", "real/a.md")
    assert (found["link/a.md"].state, found["link/a.md"].sha256) == ("hashed", digest(b"a"))
    assert found["gone.md"].state == "absent"
    assert len(found) == 4


def test_a_run_whose_directory_is_gone_left_nothing(run: Path) -> None:
    assert left(run / "nowhere") == {}
    assert left(run / "nowhere", "a.md")["a.md"].state == "absent"


def elsewhere(place: WorkPlace, *ours: str) -> dict[str, LeftFile]:
    (found,) = left_files_in([], lambda read: True, [place], ours)
    assert isinstance(found, LeftFiles)
    return {each.path.removeprefix(f"{place.path}/"): each for each in found.files}


def changed_at(path: Path) -> float:
    return path.stat().st_ctime


@pytest.fixture
def after() -> Callable[[Path], float]:
    """Waits until the kernel's clock for files has gone on since a file was written; returns its time."""

    def wait(path: Path) -> float:
        probe = path.with_name(f"{path.name}.probe")

        def ticked() -> bool:
            probe.touch()
            return changed_at(probe) > changed_at(path)

        wait_for(ticked, "the kernel's next tick")
        found = changed_at(probe)
        probe.unlink()
        return found

    return wait


def test_where_others_work_what_changed_in_the_time_of_steps_counts(
    tmp_path: Path, after: Callable[[Path], float]
) -> None:
    since = after(write(tmp_path / "sub/before"))
    (tmp_path / "closed").mkdir()
    until = after(write(tmp_path / "sub/made", b"a"))
    (tmp_path / "sub/old").symlink_to("before")
    os.utime(write(tmp_path / "later"), (since, since))
    later = changed_at(tmp_path / "later")
    assert set(elsewhere(WorkPlace(str(tmp_path), since))) == {"sub/made", "sub/old", "later"}
    assert set(elsewhere(WorkPlace(str(tmp_path), since, min(until, later - 1e-5)))) == {"sub/made"}
    file = elsewhere(WorkPlace(str(tmp_path), since))["sub/made"]
    assert (file.state, file.sha256) == ("hashed", digest(b"a"))
    assert file.changed_at == pytest.approx(changed_at(tmp_path / "sub/made"))
    os.utime(tmp_path / "sub/before", (since - 9, since - 9))
    assert "sub/before" in elsewhere(WorkPlace(str(tmp_path), since)), "a time that was set hides nothing"


def test_what_runward_writes_is_left_out_where_it_lies_in_a_steps_directory(tmp_path: Path) -> None:
    write(tmp_path / "state/runward.db")
    write(tmp_path / "state/worktrees/a/file")
    write(tmp_path / "file")
    assert set(elsewhere(WorkPlace(str(tmp_path), 0.0), f"{tmp_path}/state")) == {"file"}
    inside = f"{tmp_path}/state/worktrees/a"
    assert set(elsewhere(WorkPlace(inside, 0.0), f"{tmp_path}/state")) == {"file"}
    assert elsewhere(WorkPlace(f"{tmp_path}/state", 0.0), f"{tmp_path}/state")["."].state == "not_listed"


def test_a_directory_of_a_step_that_is_gone_is_named(tmp_path: Path) -> None:
    ((path, file),) = elsewhere(WorkPlace(f"{tmp_path}/nowhere", 0.0)).items()
    assert (path, file.state) == (f"{tmp_path}/nowhere", "absent")


def git(place: Path, *words: str) -> str:
    command = ["git", "-C", str(place), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    repo, made = tmp_path / "repo", tmp_path / "worktrees/run-0-1"
    git(tmp_path, "init", "--quiet", "repo")
    for name in ("a", "b"):
        write(repo / name)
    git(repo, "add", ".")
    git(repo, "commit", "--quiet", "-m", "first")
    git(repo, "worktree", "add", "--quiet", "--detach", str(made))
    return made


def test_a_worktree_is_bound_by_its_commit_what_is_staged_and_every_file(
    worktree: Path, after: Callable[[Path], float]
) -> None:
    place = WorkPlace(str(worktree), after(worktree / "b"), is_worktree=True)
    commit = git(worktree, "rev-parse", "HEAD").strip()
    untouched = elsewhere(place)
    assert untouched[str(worktree)] == LeftFile(str(worktree), "commit", target=commit)
    assert untouched["."].state == "many"
    assert (set(untouched), untouched["."].number) == ({str(worktree), "."}, 3)
    write(worktree / "a", b"changed")
    changed = elsewhere(place)
    assert (changed["a"].sha256, changed["."].number) == (digest(b"changed"), 2)
    git(worktree, "add", "a")
    staged = elsewhere(place)
    assert staged[str(worktree)].target == commit
    assert staged[str(worktree)].sha256 is not None
    git(worktree, "commit", "--quiet", "-m", "second")
    assert elsewhere(place)[str(worktree)].target != commit
    before = elsewhere(place._replace(since=place.since + 1e6))
    write(worktree / "b", b"another")
    assert elsewhere(place._replace(since=place.since + 1e6))["."].sha256 != before["."].sha256


def test_a_worktree_whose_repository_does_not_answer_is_named_and_none_above_it_answers(
    worktree: Path,
) -> None:
    git(worktree.parent, "init", "--quiet")
    git(worktree.parent, "commit", "--quiet", "--allow-empty", "-m", "of another")
    (worktree / ".git").unlink()
    found = elsewhere(WorkPlace(str(worktree), 0.0, is_worktree=True))
    assert found[str(worktree)].state == "unreadable"


def test_git_runs_nothing_that_the_worktree_configures(worktree: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hook = write(tmp_path / "hook", f"#!/bin/sh\ntouch {mark}\n".encode())
    hook.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "core.pager"):
        git(worktree, "config", key, str(hook))
    git(worktree, "config", "filter.x.clean", str(hook))
    write(worktree / ".gitattributes", b"* filter=x diff=x\n")
    write(worktree / "a", b"changed")
    assert elsewhere(WorkPlace(str(worktree), 0.0, is_worktree=True))[str(worktree)].state == "commit"
    assert not mark.exists()
