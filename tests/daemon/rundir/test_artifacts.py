"""What counts as delivered on a real file system: regular files inside the root, however they are reached."""

import errno
import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.daemon.rundir.deep_directories import dig
from tests.unprivileged import as_unprivileged
from tests.waiting import PATIENCE_S

from runward.daemon.rundir.artifacts import artifact_facts
from runward.handlers.model.files import FileFact, RootFacts, Unreadable

ROOT_USER = os.geteuid() == 0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory with an artifacts directory, beside a directory that isn't its own."""
    (tmp_path / "run" / "artifacts" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret").write_text("not this run's work")
    return tmp_path / "run"


def fact(run: Path, path: str) -> FileFact:
    found = artifact_facts(str(run / "artifacts"), str(run), (path,))
    assert isinstance(found, RootFacts)
    assert found.exists
    return found.files[0]


def state(run: Path, path: str) -> str:
    return fact(run, path).state


def put(path: Path, content: str = "work") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_a_regular_file_is_there_with_its_size_and_time(run: Path) -> None:
    path = put(run / "artifacts" / "review.md", "twelve bytes")
    os.utime(path, ns=(5, 7_000_000_001))
    assert fact(run, "review.md") == FileFact("file", 12, 7_000_000_001)


@pytest.mark.parametrize(
    "path", ["sub/report.md", "./sub/report.md", "sub//report.md", "sub/./report.md", "sub/report.md/"]
)
def test_a_path_is_read_as_the_contract_reads_it(run: Path, path: str) -> None:
    put(run / "artifacts" / "sub" / "report.md")
    assert state(run, path) == "file"


@pytest.mark.parametrize(
    "path", ["review.md", "no/such/review.md", "sub/review.md", "x" * 255, "sub/review.md/deeper"]
)
def test_what_is_not_there_is_absent(run: Path, path: str) -> None:
    put(run / "artifacts" / "other.md")
    assert state(run, path) == "absent"


def test_a_file_where_a_directory_should_be_hides_what_would_be_below(run: Path) -> None:
    put(run / "artifacts" / "sub" / "report.md")
    assert state(run, "sub/report.md/summary.md") == "absent"


@pytest.mark.parametrize("path", ["x" * 300, "sub/" + "x" * 300, "/".join(["d"] * 3000)])
def test_a_path_that_is_too_long_for_the_machine_is_absent(run: Path, path: str) -> None:
    assert state(run, path) == "absent"


def test_an_empty_file_is_no_delivery(run: Path) -> None:
    put(run / "artifacts" / "review.md", "")
    assert state(run, "review.md") == "empty"


def test_a_sparse_giant_is_a_file_of_its_size_and_is_not_read(run: Path) -> None:
    path = put(run / "artifacts" / "giant", "")
    os.truncate(path, 1 << 40)
    assert fact(run, "giant").size == 1 << 40


@pytest.mark.parametrize("name", ["new\nline", "\x1b[31mred", "-rf", "ä é 😀", " ", "a'\"b", "\\x"])
def test_any_name_that_a_file_may_have_may_be_delivered(run: Path, name: str) -> None:
    put(run / "artifacts" / name)
    assert state(run, name) == "file"


def test_a_hard_link_is_a_file(run: Path) -> None:
    os.link(run.parent / "other" / "secret", run / "artifacts" / "review.md")
    assert state(run, "review.md") == "file"


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    os.mknod(path, 0o140600)


def make_device(path: Path) -> None:
    try:
        os.mknod(path, 0o020600, os.makedev(5, 0))
    except PermissionError:
        pytest.skip("only root may make a device node")


def make_directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [make_fifo, make_socket, make_device, make_directory])
def test_what_is_no_regular_file_is_no_delivery_and_never_blocks(
    run: Path, make: Callable[[Path], None]
) -> None:
    make(run / "artifacts" / "review.md")
    (run / "artifacts" / "link").symlink_to("review.md")
    found: list[str] = []
    looking = threading.Thread(
        target=lambda: found.extend(state(run, path) for path in ("review.md", "link")), daemon=True
    )
    looking.start()
    looking.join(PATIENCE_S)
    assert found == ["not_regular", "not_regular"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("real.md", "file"),
        ("./real.md", "file"),
        ("sub/../real.md", "file"),
        ("sub/again", "file"),
        ("empty", "empty"),
        ("sub", "not_regular"),
        (".", "not_regular"),
        ("nothing", "absent"),
        ("sub/nothing/x", "absent"),
        ("real.md/", "absent"),
        ("../artifacts/real.md", "outside"),
        ("../secret-of-the-run", "outside"),
        ("../../other/secret", "outside"),
        ("sub/../../../other/secret", "outside"),
        ("../../../../../../../../etc/hostname", "outside"),
        ("/etc/hostname", "outside"),
        ("/proc/self/environ", "outside"),
        ("/", "outside"),
        ("itself", "not_regular"),
        ("pair", "not_regular"),
    ],
)
@pytest.mark.parametrize("place", ["itself", "sub/deep"])
def test_a_link_counts_as_what_it_leads_to_while_it_stays_inside(
    run: Path, target: str, expected: str, place: str
) -> None:
    top = run / "artifacts"
    put(run / "secret-of-the-run")
    put(top / "real.md")
    put(top / "empty", "")
    (top / "sub" / "again").symlink_to("../real.md")
    (top / "pair").symlink_to("riap")
    (top / "riap").symlink_to("pair")
    if target == "itself":
        target = Path(place).name
    elif place == "sub/deep" and not target.startswith("/"):
        target = f"../{target}"
    (top / place).symlink_to(target)
    assert state(run, place) == expected


def test_an_absolute_link_to_a_place_inside_counts(run: Path) -> None:
    put(run / "artifacts" / "sub" / "real.md")
    (run / "artifacts" / "review.md").symlink_to(run / "artifacts" / "sub" / "real.md")
    (run / "artifacts" / "top").symlink_to(run / "artifacts")
    assert state(run, "top/sub/real.md") == "file"
    assert state(run, "top") == "not_regular"
    (run / "artifacts" / "winding.md").symlink_to(f"{run}/artifacts/sub/../../artifacts/sub/real.md")
    assert state(run, "review.md") == "file"
    assert state(run, "winding.md") == "outside"


def test_a_neighbour_whose_name_begins_like_the_root_is_outside(run: Path) -> None:
    put(run / "artifacts-of-another" / "review.md")
    (run / "artifacts" / "review.md").symlink_to(run / "artifacts-of-another" / "review.md")
    assert state(run, "review.md") == "outside"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("sub", "file"),
        ("./sub/", "file"),
        ("../../other", "outside"),
        ("/etc", "outside"),
        ("loop", "not_regular"),
    ],
)
def test_a_link_on_the_way_is_judged_like_one_at_the_end(run: Path, target: str, expected: str) -> None:
    put(run / "artifacts" / "sub" / "secret")
    (run / "artifacts" / "loop").symlink_to("loop")
    (run / "artifacts" / "way").symlink_to(target)
    assert state(run, "way/secret") == expected


def test_a_long_chain_of_links_is_followed_as_far_as_the_kernel_would(run: Path) -> None:
    put(run / "artifacts" / "link0")
    for number in range(1, 60):
        (run / "artifacts" / f"link{number}").symlink_to(f"link{number - 1}")
    assert state(run, "link40") == "file"
    assert state(run, "link41") == "not_regular"


def test_a_deep_tree_behind_a_link_takes_no_more_descriptors_than_a_flat_one(run: Path) -> None:
    (run / "artifacts" / "link").symlink_to(dig(run / "artifacts", 400))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each) for each in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, limits[1]))
    try:
        found = artifact_facts(str(run / "artifacts"), str(run), ("link",))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert isinstance(found, RootFacts)
    assert found.files[0].state == "empty"


@pytest.mark.parametrize("there_and_back", [[600, 1], [1, 600]])
def test_a_maze_of_links_is_left_off_before_it_costs_time(
    run: Path, there_and_back: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    top, (times, deep) = run / "artifacts", there_and_back
    dig(top, deep)
    for number in range(30):
        (top / f"link{number}").symlink_to(("d/" * deep + "../" * deep) * times + f"link{number + 1}")
    taken, open_one = 0, os.open

    def counted(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        nonlocal taken
        taken += 1
        return open_one(path, flags, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", counted)
    assert state(run, "link0") == "not_regular"
    assert taken < 2_000


def test_a_missing_root_is_a_value(run: Path) -> None:
    assert artifact_facts(str(run / "gone"), str(run), ("a",)) == RootFacts(exists=False)
    assert artifact_facts(str(run / "gone"), "", ("a",)) == RootFacts(exists=False)
    assert artifact_facts(f"{run}-gone/artifacts", f"{run}-gone", ("a",)) == RootFacts(exists=False)


@pytest.mark.parametrize("name", ["a" * 256, "/".join(["a" * 200] * 20)])
def test_a_root_under_a_name_that_nothing_can_have_is_missing(run: Path, name: str) -> None:
    assert artifact_facts(f"{run}/{name}", str(run), ("a",)) == RootFacts(exists=False)
    assert artifact_facts(f"/{name}", "", ("a",)) == RootFacts(exists=False)


def test_a_bare_name_is_not_searched_for_elsewhere(run: Path) -> None:
    """Neither beside the root, nor below it, nor where the daemon was started, nor under another case."""
    for place in (
        run / "review.md",
        run / "artifacts" / "sub" / "review.md",
        run / "artifacts" / "Review.md",
    ):
        put(place)
    assert state(run, "review.md") == "absent"
    assert state(run, "sub/review.md") == "file"


def test_while_the_root_of_all_runs_is_away_nothing_is_known_of_their_artifacts(run: Path) -> None:
    away = run.parent / "away" / "run"
    assert isinstance(artifact_facts(str(away / "artifacts"), str(away), ("a",)), Unreadable)


@pytest.mark.parametrize("kind", ["file", "fifo", "link outside", "link inside"])
def test_a_root_that_is_no_directory_of_the_runs_own_is_missing(run: Path, kind: str) -> None:
    root = run / "out"
    if kind == "file":
        put(root)
    elif kind == "fifo":
        os.mkfifo(root)
    else:
        put(run / "artifacts" / "secret")
        root.symlink_to("../other" if kind == "link outside" else "artifacts")
    found = artifact_facts(str(root), str(run), ("secret",))
    assert isinstance(found, RootFacts)
    assert not found.exists
    assert all(each == FileFact("absent", near="../artifacts/secret") for each in found.files)


def test_a_root_below_a_link_is_missing_and_one_that_the_launcher_named_may_lie_behind_links(
    run: Path,
) -> None:
    (run / "way").symlink_to("../other")
    assert artifact_facts(str(run / "way" / "deep"), str(run), ("secret",)) == RootFacts(exists=False)
    named = artifact_facts(str(run / "way"), "", ("secret",))
    assert isinstance(named, RootFacts)
    assert [each.state for each in named.files] == ["file"]


def test_a_run_directory_that_became_a_link_has_no_artifacts(run: Path) -> None:
    link = run.parent / "link"
    link.symlink_to(run)
    assert artifact_facts(str(link / "artifacts"), str(link), ("a",)) == RootFacts(exists=False)


def test_facts_answer_the_paths_in_order(run: Path) -> None:
    put(run / "artifacts" / "b")
    found = artifact_facts(str(run / "artifacts"), str(run), ("a", "b", "sub", "b"))
    assert isinstance(found, RootFacts)
    assert [each.state for each in found.files] == ["absent", "file", "not_regular", "file"]


def test_no_descriptor_stays_open(run: Path) -> None:
    put(run / "artifacts" / "sub" / "real")
    (run / "artifacts" / "way").symlink_to("sub/../sub")
    (run / "artifacts" / "out").symlink_to("../..")
    before = os.listdir("/proc/self/fd")
    for path in ("sub/real", "way/real", "out/x", "nothing/x", "sub", "way/nothing/x", "sub/real/x"):
        fact(run, path)
    artifact_facts(str(run / "gone"), str(run), ("a",))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_machine_in_trouble_is_unreadable_and_not_absent(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **named: object) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "stat", broken)
    found = artifact_facts(str(run / "artifacts"), str(run), ("a",))
    assert found == Unreadable("Input/output error")


def test_files_under_a_link_that_is_swapped_meanwhile_are_never_those_outside(run: Path) -> None:
    """One thread swaps a directory for a link to outside, again and again; the other never gets there."""
    top, stop = run / "artifacts", threading.Event()
    put(run.parent / "other" / "review.md", "x" * 99)
    put(top / "way" / "review.md")

    def swap() -> None:
        while not stop.is_set():
            (top / "way").rename(top / "aside")
            (top / "way").symlink_to("../../other")
            (top / "way").unlink()
            (top / "aside").rename(top / "way")
            time.sleep(
                0.0002
            )  # or the two threads may take turns so that one never sees what the other restored

    tries, states, sizes = 0, set[str](), set[int | None]()

    def tried() -> bool:
        """Looks once more; true when it was tried often, and got to the file at least once."""
        nonlocal tries
        tries += 1
        found = artifact_facts(str(top), str(run), ("way/review.md",))
        if isinstance(found, RootFacts):
            states.add(found.files[0].state)
            sizes.update(each.size for each in found.files if each.state == "file")
        return tries >= 3000 and "file" in states

    swapping = threading.Thread(target=swap, daemon=True)
    swapping.start()
    try:
        while not tried():
            pass
    finally:
        stop.set()
        swapping.join()
    assert states <= {"file", "absent", "outside"}
    assert sizes == {4}


@pytest.mark.skipif(not ROOT_USER, reason="only root can become somebody else to be refused")
def test_what_an_ordinary_user_may_not_search_is_denied_and_what_it_may_not_read_counts() -> None:
    """ADR-0029 asks whether the file is there and how large it is, which needs no right to read it."""
    with TemporaryDirectory() as directory:
        run = Path(directory)
        run.chmod(0o755)
        put(run / "artifacts" / "unreadable.md").chmod(0)
        put(run / "artifacts" / "closed" / "review.md")
        (run / "artifacts" / "closed").chmod(0)
        (run / "artifacts" / "into").symlink_to("closed/review.md")
        put(run / "locked" / "review.md")
        (run / "locked").chmod(0)

        def look() -> list[str]:
            paths = ("unreadable.md", "closed/review.md", "into")
            found = artifact_facts(str(run / "artifacts"), str(run), paths)
            locked = artifact_facts(str(run / "locked"), str(run), ("review.md",))
            assert isinstance(found, RootFacts)
            assert isinstance(locked, RootFacts)
            return [each.state for each in (*found.files, *locked.files)]

        assert as_unprivileged(look) == ["file", "denied", "denied", "denied"]
