"""Hostile run directories beside a good run that is judged meanwhile, by a real daemon over a real file system.

The good run begins when the hostile one is in place, and its verdict must come as soon as any.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.proof.hostile import FORGED, HOSTILE, REVIEW, STEERS, fill_up, finish, start, start_in
from tests.proof.place import NEVER_SCANNED, Place
from tests.proof.processes import Forks, Process
from tests.waiting import PATIENCE_S, wait_for

MOST_MEMORY = 200 << 20
"""Bytes that the daemon may ever have held at once."""

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def place(in_memory: Path, forks: Forks) -> Iterator[Place]:
    """A place whose one daemon serves most tests here: what they leave behind lies beside the next ones."""
    made = Place(in_memory / "hostile", forks)
    made.set_up(further=NEVER_SCANNED)
    daemon = made.daemon()
    made.wait_ready(daemon)
    yield made
    end(made)


def end(place: Place) -> None:
    """Have the daemon end well, and leave nothing that `rmtree` can't remove."""
    for dug in place.runs.glob("*/artifacts/d"):
        fill_up(dug.parent)
    (daemon,) = place.started
    assert not daemon.ended(), daemon.said()[-3000:]
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.said()[-3000:]
    assert steering(daemon.said()) == set(), "it steers its own terminal"
    place.close()


def steering(text: str) -> set[str]:
    """What a terminal would obey in a text of lines."""
    return {each for each in text if each != "\n" and not each.isprintable()}


def judge_a_good_run(place: Place) -> None:
    """Begin and finish a run that delivers; its verdict comes soon."""
    name = f"good-{next(NUMBERS)}"
    place.finished_run(name)
    wait_for(lambda: place.statuses().get(name) == "completed", f"the verdict on {name}")


def judged(place: Place, directory: Path) -> bool:
    return status(place, directory) in ("completed", "failed")


def problems(place: Place, directory: Path) -> list[str]:
    rows = place.rows("select message from problems where path like ?", f"{directory}/%")
    return [str(message) for (message,) in rows]


def status(place: Place, directory: Path) -> str | None:
    rows = place.rows("select status from sessions where path = ?", str(directory))
    return str(rows[0][0]) if rows else None


def owed_lines(place: Place, directory: Path) -> int:
    ((count,),) = place.rows("select count(*) from outbox where directory = ?", str(directory))
    return int(str(count))


def wait_written(place: Place, directory: Path) -> None:
    """Until the daemon has written its last line into a directory, whose session is over."""
    wait_for(lambda: owed_lines(place, directory) == 0, f"the last line into {directory}")


def bugs_met(place: Place) -> list[object]:
    """What the daemon took for a bug of its own."""
    return [
        *place.rows("select lane, error from jobs where state = 'held'"),
        *place.log("observation.refused"),
    ]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_good_run_is_judged_beside(place: Place, name: str) -> None:
    hostile, directory = HOSTILE[name], place.runs / name
    hostile.plant(directory)
    judge_a_good_run(place)
    if hostile.kind == "problem":
        wait_for(lambda: any(hostile.fate in each for each in problems(place, directory)), hostile.fate)
        assert status(place, directory) in (None, "running")
    else:
        wait_for(lambda: status(place, directory) == hostile.fate, hostile.fate)
    assert bugs_met(place) == []


def test_what_is_delivered_by_a_hard_link_is_counted_as_the_regular_file_that_it_is(place: Place) -> None:
    directory = place.runs / "linked"
    start(directory, contract=REVIEW)
    (place.directory / "elsewhere").write_text("twelve bytes")
    os.link(place.directory / "elsewhere", directory / "artifacts" / "review.md")
    finish(directory)
    judge_a_good_run(place)
    wait_for(lambda: status(place, directory) == "completed", "its verdict")
    ((text,),) = place.rows("select artifact_verification_json from sessions where path = ?", str(directory))
    assert json.loads(str(text))["produced"] == [{"id": "review", "path": "review.md", "size": 12}]


def test_a_journal_that_is_a_link_is_not_written_through(place: Place) -> None:
    directory, foreign = place.runs / "writes elsewhere", place.directory / "foreign.jsonl"
    foreign.write_text("theirs\n")
    directory.mkdir()
    (directory / "events.jsonl").symlink_to(foreign)
    start_in(directory)
    finish(directory)
    judge_a_good_run(place)
    wait_for(lambda: status(place, directory) == "completed", "its verdict")
    assert foreign.read_text() == "theirs\n"


@pytest.mark.prove
def test_links_that_are_swapped_during_verification_never_deliver_a_file_outside(place: Place) -> None:
    """A thread swaps a directory for a link to outside, again and again, while run after run ends."""
    (place.directory / "outside").mkdir()
    (place.directory / "outside" / "review.md").write_text("x" * 99)
    swapped = 0

    def swap(artifacts: Path, stop: threading.Event) -> None:
        nonlocal swapped
        while not stop.is_set():
            (artifacts / "way").rename(artifacts / "aside")
            (artifacts / "way").symlink_to(place.directory / "outside")
            (artifacts / "way").unlink()
            (artifacts / "aside").rename(artifacts / "way")
            swapped += 1

    contract = {"expected": [{"id": f"n{number}", "path": "way/review.md"} for number in range(200)]}
    sizes: set[int] = set()
    for number in range(20):
        directory = place.runs / f"swaps-{number}"
        start(directory, contract=contract)
        (directory / "artifacts" / "way").mkdir()
        (directory / "artifacts" / "way" / "review.md").write_text("work")
        with in_a_loop(lambda stop, top=directory / "artifacts": swap(top, stop)):  # type: ignore[misc] # top is a Path
            finish(directory)
            over = partial(judged, place, directory)
            wait_for(over, "its verdict")
        ((text,),) = place.rows(
            "select artifact_verification_json from sessions where path = ?", str(directory)
        )
        sizes |= {each["size"] for each in json.loads(str(text))["produced"]}
    judge_a_good_run(place)
    assert swapped > 20
    assert sizes == {4}
    assert bugs_met(place) == []


def test_a_good_run_is_judged_while_another_directory_changes_under_the_look(place: Place) -> None:
    """Documents come, go, and are now a file, now a pipe, now a link, now a directory, all the while."""
    directory = place.runs / "restless"
    start(directory, contract=REVIEW)
    kinds: list[Callable[[Path], object]] = [
        os.mkfifo,
        Path.mkdir,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.write_text('{"exit_code": 0'),
        lambda path: path.write_text('{"schema": "runward-run-v1"}'),
    ]

    def change(stop: threading.Event) -> None:
        for make, name in itertools.cycle(itertools.product(kinds, ("run.json", "exit.json", "artifacts"))):
            if stop.is_set():
                return
            take_away(directory / name)
            make(directory / name)

    with in_a_loop(change):
        for _ in range(20):
            judge_a_good_run(place)
    assert bugs_met(place) == []


def test_a_good_run_is_judged_while_another_directory_is_made_and_removed(place: Place) -> None:
    directory = place.runs / "now you see me"

    def come_and_go(stop: threading.Event) -> None:
        while not stop.is_set():
            start(directory, contract=REVIEW)
            finish(directory)
            take_away(directory)

    with in_a_loop(come_and_go):
        for _ in range(20):
            judge_a_good_run(place)
    assert bugs_met(place) == []


def test_a_good_run_is_judged_while_artifacts_come_and_go(place: Place) -> None:
    directory = place.runs / "busy"
    start(directory, contract=REVIEW)

    def churn(stop: threading.Event) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            (directory / "artifacts" / f"{number}").write_text("x")
            (directory / "artifacts" / f"{number}").rename(directory / "artifacts" / "review.md")
            (directory / "artifacts" / "review.md").unlink()

    with in_a_loop(churn):
        for _ in range(20):
            judge_a_good_run(place)
        finish(directory)
        judge_a_good_run(place)
    wait_for(lambda: status(place, directory) in ("completed", "failed"), "its verdict")
    assert bugs_met(place) == []


@pytest.mark.prove
def test_a_good_run_is_judged_beside_100_000_artifacts(place: Place) -> None:
    directory = place.runs / "rich"
    start(directory, contract=REVIEW)
    for number in range(100_000):
        os.close(os.open(directory / "artifacts" / f"file-{number}", os.O_WRONLY | os.O_CREAT))
        if number % 25_000 == 0:
            judge_a_good_run(place)
    (directory / "artifacts" / "review.md").write_text("work")
    finish(directory)
    judge_a_good_run(place)
    wait_for(lambda: status(place, directory) == "completed", "its verdict")
    wait_written(place, directory)

    def is_removed() -> bool:
        # It takes long, and the bundle may be written into it meanwhile.
        shutil.rmtree(directory, ignore_errors=True)
        return not directory.exists()

    wait_for(is_removed, "its removal")
    judge_a_good_run(place)


def test_a_run_that_takes_the_daemons_rights_away_fails_itself_alone(tmp_path: Path, forks: Forks) -> None:
    place = Place(tmp_path, forks)
    daemon = place.daemon(unprivileged=True)
    place.wait_ready(daemon)
    closed, hidden = place.runs / "closed", place.runs / "hidden"
    for directory in (closed, hidden):
        start(directory, contract=REVIEW)
        (directory / "artifacts" / "review.md").write_text("work")
    wait_for(lambda: len(place.statuses()) == 2, "two starts")
    finish(closed)
    closed.chmod(0)
    (hidden / "artifacts").chmod(0)
    finish(hidden)
    try:
        judge_a_good_run(place)
        wait_for(lambda: status(place, hidden) == "failed", "the verdict on what is hidden")
        assert bugs_met(place) == []
    finally:
        closed.chmod(0o700)
        (hidden / "artifacts").chmod(0o700)
        place.close()


SAYING = (
    ("session", "list"),
    ("session", "list", "--json"),
    ("session", "show", "{key}"),
    ("session", "show", "{key}", "--json"),
    ("session", "tail", "{key}"),
    ("session", "tail", "{key}", "--json"),
    ("why", "{key}"),
    ("why", "{key}", "--json"),
    ("why", "{broken}"),
    ("log",),
    ("log", "--json"),
    ("status",),
    ("status", "--json"),
    ("queue", "list", "--state", "done"),
    ("root", "list"),
    ("inspect", "{runs}"),
    ("inspect", "{runs}", "--json"),
    ("session", "show", "native:runs/steers"),
    ("why", "steers"),
)
AMBIGUOUS = ("native:runs/steers", "steers")


def test_nothing_that_steers_a_terminal_gets_out_of_any_command(place: Place, forks: Forks) -> None:
    names = [f"steers{number}{STEERS}" for number in range(3)]
    for name in names[:2]:
        HOSTILE["texts that steer terminals"].plant(place.runs / name)
    (place.runs / names[2]).mkdir()
    (place.runs / names[2] / "run.json").write_text('{"schema": "\x1b[31m')
    judge_a_good_run(place)
    for name in names[:2]:
        wait_for(lambda name=name: status(place, place.runs / name) == "failed", "its verdict")  # type: ignore[misc] # bound now
        wait_written(place, place.runs / name)
    wait_for(lambda: problems(place, place.runs / names[2]), "its problem")
    named = {"key": f"native:runs/{names[0]}", "broken": names[2], "runs": str(place.runs)}
    for number, words in enumerate(SAYING):
        arguments = [word.format_map(named) for word in words]
        said = call(place, forks, arguments, place.directory / f"said-{number}")
        assert said, arguments
        assert steering(said) == set(), arguments
        if "tail" not in words:  # the journal's own lines are lines
            assert not [line for line in said.splitlines() if line.strip().startswith(FORGED)], arguments
        if "--json" in words:
            answers = [line for line in said.splitlines() if not line.startswith("runward: ")]
            assert json.loads(answers[-1])
        elif words[-1] in AMBIGUOUS:
            assert "steers0" in said, "the candidates are named"


def call(place: Place, forks: Forks, arguments: list[str], output: Path) -> str:
    """What a command says, wherever it says it."""
    environment = {
        "HOME": str(place.directory),
        "PATH": os.environ["PATH"],
        "RUNWARD_CONFIG": str(place.settings),
    }
    process: Process = forks.start(*arguments, environment=environment, output=output)
    code = process.wait()
    assert code in (0, 1, 2), (arguments, process.said())
    return output.read_text()


@pytest.mark.prove
def test_a_daemon_that_begins_among_all_of_it_judges_a_good_run_and_every_command_answers(
    in_memory: Path, forks: Forks
) -> None:
    place = Place(in_memory / "all", forks)
    for name, hostile in HOSTILE.items():
        with contextlib.suppress(pytest.skip.Exception):
            hostile.plant(place.runs / name)
    daemon = place.daemon()
    place.wait_ready(daemon)
    judge_a_good_run(place)
    assert bugs_met(place) == []
    peak = next(
        line for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines() if "VmHWM" in line
    )
    assert int(peak.split()[1]) << 10 < MOST_MEMORY
    large, giant = "a contract as large as a document may be", "a sparse giant as a journal"
    for name in (large, giant):
        wait_for(lambda name=name: status(place, place.runs / name) == HOSTILE[name].fate, "its verdict")  # type: ignore[misc] # bound now
    for number, words in enumerate(
        (
            ("inspect", str(place.runs)),
            ("session", "list"),
            ("session", "show", f"native:runs/{large}"),
            ("why", f"native:runs/{large}"),
            ("session", "tail", f"native:runs/{giant}"),
        )
    ):
        assert call(place, forks, list(words), place.directory / f"answered-{number}"), words
    end(place)


@contextlib.contextmanager
def in_a_loop(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Have a thread do something again and again until the body is through."""
    stop, failed = threading.Event(), []

    def loop() -> None:
        try:
            work(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    time.sleep(0.05)  # the subject is what happens meanwhile: let it get going
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert failed == []
    assert not thread.is_alive()


def take_away(path: Path) -> None:
    """Remove whatever stands there, and what the daemon writes into it meanwhile."""
    while os.path.lexists(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
