"""Room on the disk of the state directory: when nothing new is taken in, and when it is again."""

from pathlib import Path

import pytest

from runward.daemon.disk.file_systems import Space, space_of
from runward.daemon.host.upkeep import Room
from runward.daemon.log import log_into

MB = 1 << 20
pytestmark = pytest.mark.anyio


class Disk:
    """A disk whose space a test says, and what was told of it."""

    def __init__(self, total: int, free: int, limit: int) -> None:
        self.space: Space | OSError = Space(free, total)
        self.told: list[str | None] = []
        self.lines: list[dict[str, object]] = []
        self.room = Room(
            Path("/state"), lambda: limit, self.told.append, log_into(self.lines.append), self._space
        )

    def _space(self, directory: Path) -> Space:
        assert directory == Path("/state")
        if isinstance(self.space, OSError):
            raise self.space
        return self.space

    def events(self) -> list[str]:
        return [str(line["event"]) for line in self.lines]


@pytest.mark.parametrize(
    ("total", "free", "limit", "is_low"),
    [
        (100_000 * MB, 256 * MB, 256 * MB, False),
        (100_000 * MB, 256 * MB - 1, 256 * MB, True),
        (1000 * MB, 150 * MB, 256 * MB, False),
        (1000 * MB, 99 * MB, 256 * MB, True),
        (1000 * MB, 0, 0, False),
    ],
    ids=["just enough", "too little", "a small disk", "a small disk with little", "never asked"],
)
async def test_less_than_the_limit_is_low_and_of_a_small_disk_less_than_a_tenth(
    total: int, free: int, limit: int, is_low: bool
) -> None:
    disk = Disk(total, free, limit)
    await disk.room.look()
    assert disk.room.is_low is is_low
    assert bool(disk.told) is is_low


async def test_it_is_said_once_and_goes_on_only_when_there_is_clearly_more() -> None:
    disk = Disk(1000 * MB, 50 * MB, 80 * MB)
    for free in (50, 40, 80, 89):
        disk.space = Space(free * MB, 1000 * MB)
        await disk.room.look()
        assert disk.told[-1] == (
            "low disk: less than 80 MB free in /state (low_disk); no run is looked at until there is more"
        )
    disk.space = Space(90 * MB, 1000 * MB)
    await disk.room.look()
    assert disk.told[-1] is None
    assert disk.events() == ["disk.low", "disk.recovered"]
    disk.space = Space(80 * MB, 1000 * MB)
    await disk.room.look()
    assert not disk.room.is_low


async def test_a_disk_without_inodes_is_as_full_as_one_without_bytes() -> None:
    disk = Disk(1000 * MB, 900 * MB, 80 * MB)
    disk.space = Space(900 * MB, 1000 * MB, no_files=True)
    await disk.room.look()
    assert "no inodes left" in str(disk.told[-1])
    disk.space = Space(900 * MB, 1000 * MB)
    await disk.room.look()
    assert disk.told[-1] is None


async def test_a_disk_that_says_nothing_changes_nothing() -> None:
    disk = Disk(1000 * MB, 10 * MB, 80 * MB)
    await disk.room.look()
    disk.space = OSError(5, "Input/output error")
    await disk.room.look()
    await disk.room.look()
    assert disk.room.is_low
    assert disk.events() == ["disk.low", "disk.unknown"]


def test_the_space_of_a_real_directory_is_asked(tmp_path: Path) -> None:
    found = space_of(tmp_path)
    assert 0 < found.free <= found.total
    assert not found.no_files
