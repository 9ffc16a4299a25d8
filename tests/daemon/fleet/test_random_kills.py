"""Whatever is killed, frozen or silenced at random: each order has one result, each command ran at most once, and all that is owed arrived."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.campaign import Extent, campaign
from tests.daemon.fleet.database import Server, server

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

SAMPLE = Extent(kills=14, orders=8, freeze=2.0, silence=7.0)
WHOLE = Extent(kills=50, orders=40, freeze=60.0, silence=20.0)
"""Of each of four: 200 kills."""


@pytest.fixture(scope="module")
def postgresql() -> Iterator[Server]:
    """One that is killed: it writes to the disk what it commits."""
    with server(is_durable=True) as running:
        yield running


def _play(postgresql: Server, database: str, office: Place, base: Path, seed: int, extent: Extent) -> None:
    with campaign(postgresql, database, office, base, seed) as played:
        played.play(extent)
        assert played.kills() >= extent.kills
        played.hold_laws()


def test_a_fleet_survives_random_kills_freezes_and_silence(
    postgresql: Server, database: str, office: Place, tmp_path: Path
) -> None:
    _play(postgresql, database, office, tmp_path, 1, SAMPLE)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
def test_a_fleet_survives_two_hundred_random_kills_and_long_freezes(
    postgresql: Server, database: str, office: Place, tmp_path: Path, seed: int
) -> None:
    _play(postgresql, database, office, tmp_path, seed, WHOLE)
