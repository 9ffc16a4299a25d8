"""What every test may count on: one event loop, Hypothesis's profiles, and the fact sheets' material where there is any."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings
from tests.scheduling import dealt

# The same examples each time, so that a landing depends on the change alone; `make explore` plays new ones.
settings.register_profile("fixed", max_examples=60, deadline=None, print_blob=True, derandomize=True)
settings.register_profile("long", settings.get_profile("fixed"), max_examples=200)
settings.register_profile("explore", settings.get_profile("long"), derandomize=False)
settings.load_profile("fixed")


def pytest_configure() -> None:
    """Take signals as a person's shell hands them on, also where nohup or a job runner has them ignored."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Count what has a target of its own among the proofs, so that `make test` leaves out one mark."""
    if item.get_closest_marker("sweep") or item.get_closest_marker("agents"):
        item.add_marker("prove")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The daemon runs on asyncio: aiosqlite and the alarm need it."""
    return "asyncio"


@pytest.fixture(scope="session")
def material() -> Path:
    """The directory of recorded samples and reference programs that some tests compare with."""
    named = os.environ.get("RUNWARD_TEST_MATERIAL")
    if not named:
        pytest.skip("RUNWARD_TEST_MATERIAL is not set: there is no recorded material to compare with")
    path = Path(named)
    if not path.is_dir():
        pytest.skip(f"RUNWARD_TEST_MATERIAL names {named}, which is not a directory")
    return path


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have the long tests begun first, whatever order chance has put them in."""
    kinds: dict[str, list[pytest.Item]] = {"longest": [], "prove": [], "": []}
    for item in items:
        kinds[next((kind for kind in ("longest", "prove") if item.get_closest_marker(kind)), "")].append(item)
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = dealt(kinds["longest"], kinds["prove"], kinds[""], workers)
