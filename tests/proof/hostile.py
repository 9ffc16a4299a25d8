"""Run directories that nobody should write, each planted whole; and what a real daemon must make of it."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from tests.daemon.rundir.deep_directories import dig
from tests.proof.place import EXITED

RUN = {"schema": "runward-run-v1", "started_at": "2026-02-03T04:05:06Z"}
REVIEW = {"expected": [{"id": "review", "path": "review.md"}]}
FORGED = "forged"
STEERS = f"\x1b]0;owned\x07\x1b[31m\x9b31m\u202e\r\n\t{FORGED}"
"""What a terminal would obey, were it printed: titles, colours (also by one character), direction, lines.

`FORGED` would stand first in a line of its own.
"""

GIANT = 1 << 30
LARGER_THAN_ANY_DISK = 1 << 42


@dataclass(frozen=True, slots=True)
class Hostile:
    """A way to plant one, and its fate: a problem with these words in it, or this status."""

    plant: Callable[[Path], None]
    kind: Literal["problem", "status"]
    fate: str


def start(directory: Path, **said: object) -> None:
    """An ordinary beginning, which names what is given."""
    (directory / "artifacts").mkdir(parents=True)
    (directory / ".run").write_text(json.dumps(RUN | said))
    (directory / ".run").rename(directory / "run.json")


def finish(directory: Path) -> None:
    """An ordinary, clean end."""
    (directory / ".exit").write_text(json.dumps(EXITED))
    (directory / ".exit").rename(directory / "exit.json")


def _run_is(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """A directory whose `run.json` is made so."""

    def plant(directory: Path) -> None:
        directory.mkdir()
        make(directory / "run.json")
        finish(directory)

    return plant


def _exit_is(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """A run that began well and whose `exit.json` is made so."""

    def plant(directory: Path) -> None:
        start(directory)
        make(directory / "exit.json")

    return plant


def _beside_is(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    """A run without a contract that begins and ends well, beside what is made under this name."""

    def plant(directory: Path) -> None:
        start(directory)
        make(directory / name)
        finish(directory)

    return plant


def _artifacts_are(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """A run that ends well and whose artifacts directory is made so."""

    def plant(directory: Path) -> None:
        start(directory, contract=REVIEW)
        (directory / "artifacts").rmdir()
        make(directory / "artifacts")
        finish(directory)

    return plant


def _ends_with(text: bytes) -> Callable[[Path], None]:
    return _exit_is(lambda path: path.write_bytes(text))


def _delivers(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """A run that ends well and whose one expected artifact, `review.md`, is made so."""

    def plant(directory: Path) -> None:
        start(directory, contract=REVIEW)
        make(directory / "artifacts" / "review.md")
        finish(directory)

    return plant


def _at_the_end_of_mazes(directory: Path) -> None:
    """Artifacts at the end of links that go far down and up again, one after the other: minutes, if anybody followed."""
    mazes, deep = 200, 600
    start(directory, contract={"expected": [{"id": f"a{each}", "path": "way0"} for each in range(mazes)]})
    dig(directory / "artifacts", deep)
    for number in range(40):
        (directory / "artifacts" / f"way{number}").symlink_to("d/" * deep + "../" * deep + f"way{number + 1}")
    finish(directory)


def _below_more_directories_than_a_process_may_open(directory: Path) -> None:
    start(directory, contract=REVIEW)
    depth = 1300
    dig(directory / "artifacts", depth)
    (directory / "artifacts" / "review.md").symlink_to("d/" * depth)
    finish(directory)


def _expects_as_much_as_a_document_holds(directory: Path) -> None:
    far = "d/" * 500
    start(
        directory, contract={"expected": [{"id": f"a{each}", "path": f"{far}{each}"} for each in range(990)]}
    )
    assert 1_000_000 < (directory / "run.json").stat().st_size <= 1 << 20
    finish(directory)


def fill_up(directory: Path) -> None:
    """Undo a deep dig, which is too deep for `rmtree`."""
    while (directory / "d" / "d").exists():
        (directory / "d" / "d").rename(directory / "below")
        (directory / "d").rmdir()
        (directory / "below").rename(directory / "d")


def _artifacts_lie_in(path: str) -> Callable[[Path], None]:
    """A run that ends well and names this as the place of its artifacts."""

    def plant(directory: Path) -> None:
        start(directory, contract=REVIEW, artifacts_path=path)
        finish(directory)

    return plant


def _device(path: Path, major: int, minor: int, kind: int = 0o020000) -> None:
    try:
        os.mknod(path, kind | 0o600, os.makedev(major, minor))
    except PermissionError:
        pytest.skip("only root may make a device node")


def _zeros(path: Path) -> None:
    _device(path, 1, 5)


def _disk(path: Path) -> None:
    _device(path, 7, 0, 0o060000)


def _socket(path: Path) -> None:
    os.mknod(path, 0o140600)


def _sparse(size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.touch()
        os.truncate(path, size)

    return make


def _link_to(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def _pair_of_links(path: Path) -> None:
    path.symlink_to("other")
    path.with_name("other").symlink_to(path.name)


def _hard_link(path: Path) -> None:
    """A second name of a file that is another's."""
    theirs = path.parents[3] / "theirs"
    if not theirs.exists():
        theirs.write_text("a secret")
    os.link(theirs, path)


def _journal_is(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def plant(directory: Path) -> None:
        directory.mkdir()
        make(directory / "events.jsonl")
        start_in(directory)
        finish(directory)

    return plant


def start_in(directory: Path) -> None:
    """An ordinary beginning in a directory that is there already."""
    (directory / ".run").write_text(json.dumps(RUN))
    (directory / ".run").rename(directory / "run.json")


def _says_what_steers_terminals(directory: Path) -> None:
    start(
        directory,
        session_id=f"id{STEERS}",
        agent=f"agent{STEERS}",
        playbook=f"book{STEERS}",
        invocation_id=f"inv{STEERS}",
        containment=f"held{STEERS}",
        contract={"expected": [{"id": "a", "path": f"a{STEERS}.md", "description": f"what{STEERS}"}]},
    )
    (directory / "events.jsonl").write_text(f"line{STEERS}\n" + json.dumps({"event": f"e{STEERS}"}) + "\n")
    (directory / ".exit").write_text(json.dumps(EXITED | {"exit_code": 1, "error": f"why{STEERS}"}))
    (directory / ".exit").rename(directory / "exit.json")


HOSTILE = {
    "a pipe as run.json": Hostile(_run_is(os.mkfifo), "problem", "is not a regular file"),
    "a device as run.json": Hostile(_run_is(_zeros), "problem", "is not a regular file"),
    "a disk as run.json": Hostile(_run_is(_disk), "problem", "is not a regular file"),
    "a socket as run.json": Hostile(_run_is(_socket), "problem", "is not a regular file"),
    "endless zeros by a link as run.json": Hostile(
        _run_is(_link_to("/dev/zero")), "problem", "is not a regular file"
    ),
    "a directory as run.json": Hostile(_run_is(Path.mkdir), "problem", "is not a regular file"),
    "a pipe as process.json": Hostile(_beside_is("process.json", os.mkfifo), "status", "completed"),
    "a pipe as flow.json": Hostile(_beside_is("flow.json", os.mkfifo), "status", "completed"),
    "a pipe as exit.json": Hostile(_exit_is(os.mkfifo), "problem", "is not a regular file"),
    "a terminal as exit.json": Hostile(_exit_is(_link_to("/dev/tty")), "problem", "is not a regular file"),
    "a gigabyte as exit.json": Hostile(_exit_is(_sparse(GIANT)), "problem", "is larger than 1048576 bytes"),
    "a sparse giant as exit.json": Hostile(
        _exit_is(_sparse(LARGER_THAN_ANY_DISK)), "problem", "is larger than 1048576 bytes"
    ),
    "a sparse giant as run.json": Hostile(
        _run_is(_sparse(LARGER_THAN_ANY_DISK)), "problem", "is larger than 1048576 bytes"
    ),
    "a mebibyte of nested lists": Hostile(_ends_with(b"[" * (1 << 20)), "problem", "nested too deeply"),
    "deep objects": Hostile(
        _ends_with(b'{"exit_code":' * 70 + b"0" + b"}" * 70), "problem", "nested more than 64 levels"
    ),
    "no number": Hostile(_ends_with(b'{"exit_code": NaN}'), "problem", "NaN is not a JSON number"),
    "a number without end": Hostile(
        _ends_with(b'{"exit_code": ' + b"9" * 5000 + b"}"), "problem", "a number that is too long"
    ),
    "a key twice": Hostile(
        _ends_with(b'{"exit_code": 1, "exit_code": 0}'), "problem", "'exit_code' appears twice"
    ),
    "bytes that are not text": Hostile(
        _ends_with(b'{"exit_code": 0, "error": "\xff\xfe"}'), "problem", "not UTF-8"
    ),
    "half a character": Hostile(
        _ends_with(b'{"exit_code": 0, "error": "\\ud800"}'), "problem", "a lone surrogate"
    ),
    "texts that steer terminals": Hostile(_says_what_steers_terminals, "status", "failed"),
    "a link to itself as exit.json": Hostile(
        _exit_is(_link_to("exit.json")), "problem", "is not a regular file"
    ),
    "two links in a circle as exit.json": Hostile(
        _exit_is(_pair_of_links), "problem", "is not a regular file"
    ),
    "a link to itself as an artifact": Hostile(_delivers(_link_to("review.md")), "status", "failed"),
    "two links in a circle as an artifact": Hostile(_delivers(_pair_of_links), "status", "failed"),
    "a pipe as an artifact": Hostile(_delivers(os.mkfifo), "status", "failed"),
    "a device as an artifact": Hostile(_delivers(_zeros), "status", "failed"),
    "endless zeros by a link as an artifact": Hostile(_delivers(_link_to("/dev/zero")), "status", "failed"),
    "a file of the system by a link as an artifact": Hostile(
        _delivers(_link_to("/etc/hostname")), "status", "failed"
    ),
    "artifacts at the end of mazes of links": Hostile(_at_the_end_of_mazes, "status", "failed"),
    "an artifact below more directories than a process may open": Hostile(
        _below_more_directories_than_a_process_may_open, "status", "failed"
    ),
    "a pipe as the artifacts": Hostile(_artifacts_are(os.mkfifo), "status", "failed"),
    "a link to elsewhere as the artifacts": Hostile(_artifacts_are(_link_to("/etc")), "status", "failed"),
    "artifacts in a place that nothing can be called": Hostile(
        _artifacts_lie_in("a" * 300), "status", "failed"
    ),
    "artifacts in a place farther than any path": Hostile(
        _artifacts_lie_in("/".join(["a" * 200] * 20)), "status", "failed"
    ),
    "a contract as large as a document may be": Hostile(
        _expects_as_much_as_a_document_holds, "status", "failed"
    ),
    "a sparse giant as an artifact": Hostile(_delivers(_sparse(LARGER_THAN_ANY_DISK)), "status", "completed"),
    "a hard link to a foreign file as an artifact": Hostile(_delivers(_hard_link), "status", "completed"),
    "a pipe as a journal": Hostile(_journal_is(os.mkfifo), "status", "completed"),
    "a directory as a journal": Hostile(_journal_is(Path.mkdir), "status", "completed"),
    "a sparse giant as a journal": Hostile(_journal_is(_sparse(LARGER_THAN_ANY_DISK)), "status", "completed"),
    "a link to itself as a journal": Hostile(_journal_is(_link_to("events.jsonl")), "status", "completed"),
}
