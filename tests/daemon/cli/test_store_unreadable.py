"""A store that can't be read: it is said what it is, and it is never taken for one that isn't there."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.daemon.cli.calling import Place, Result
from tests.unprivileged import as_unprivileged

_READING = (
    ("status",),
    ("session", "list"),
    ("why", "stuck"),
    ("queue", "list"),
    ("backup", "--force", "copy.db"),
    ("doctor", "--only", "store"),
)
"""Commands that only read the store."""

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else to be refused")


@pytest.fixture
def roots_place(ended: Place) -> Iterator[Place]:
    """A recorded place whose state directory is root's alone, below directories that everybody may search."""
    with TemporaryDirectory() as directory:
        place = ended.copy_to(Path(directory))
        place.directory.chmod(0o755)
        place.state.chmod(0o700)
        yield place


def _as_nobody(place: Place, *arguments: str) -> Result:
    place.call(*arguments)  # imports what it needs, which a stranger may not

    def work() -> list[str]:
        told = place.call(*arguments)
        return [str(told.code), told.out, told.err]

    code, out, err = as_unprivileged(work)
    return Result(int(code), out, err)


@only_root
@pytest.mark.parametrize("arguments", _READING[:-1], ids=" ".join)
def test_somebody_elses_store_is_said_to_be_theirs(roots_place: Place, arguments: tuple[str, ...]) -> None:
    told = _as_nobody(roots_place, *arguments)
    store = roots_place.state / "runward.db"
    assert (told.code, told.out) == (75, "")
    assert told.err == (
        f"runward: {store} can't be read: Permission denied; it belongs to root: run this as that user, or set another"
        " RUNWARD_STATE_DIR\n"
    )


@only_root
def test_the_examination_says_so_too(roots_place: Place) -> None:
    told = _as_nobody(roots_place, "doctor", "--only", "store", "--json")
    (check,) = told.items("checks")
    assert (told.code, check["result"]) == (1, "failed")
    assert "it belongs to root" in str(check["found"])


@pytest.mark.parametrize("arguments", _READING[:-1], ids=" ".join)
def test_a_file_that_is_no_store_is_said_to_be_none_and_how_a_backup_takes_its_place(
    place: Place, arguments: tuple[str, ...]
) -> None:
    place.state.mkdir()
    store = place.state / "runward.db"
    store.write_text("junk " * 1000)
    told = place.call(*arguments)
    assert (told.code, told.out) == (75, "")
    assert told.err == (
        f"runward: {store} is not a Runward store: file is not a database; put a backup in its place with"
        " `runward restore BACKUP`\n"
    )
