"""What every test may count on: one event loop, Hypothesis's profiles, and the fact sheets' material where there is any."""

import contextlib
import gc
import os
import signal
from collections.abc import Generator
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from tests.scheduling import dealt, is_found

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


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without looking for garbage: what is collected stays until the end, and to look took two fifths of the time."""
    gc.disable()
    try:
        _compile_a_share(session.config)
        return (yield)
    finally:
        gc.freeze()  # from here on, only what the tests themselves make is searched for garbage
        gc.enable()


def _compile_a_share(config: pytest.Config) -> None:
    """Have the workers share the compiling of the tests, where none are compiled yet.

    Each worker collects every test. In the same order, all would compile the same file at the same time, so each
    begins with another share of the files, and finds those of the others compiled when it comes to them.
    """
    given: dict[str, str | int] = getattr(config, "workerinput", {})
    if not given or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    begin = len(files) * int(str(given["workerid"]).removeprefix("gw")) // int(given["workercount"])
    for file in files[begin:] + files[:begin]:
        # What can't be imported, or asks to be skipped, is reported when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Count what has a target of its own among the proofs, so that `make test` leaves out one mark."""
    for mark in ("prove", "agents"):
        if item.get_closest_marker(mark) and not is_found(mark, item.path):
            raise pytest.UsageError(
                f"{item.nodeid}: the Makefile's targets don't look for a test with `{mark}` there"
            )
    if item.get_closest_marker("sweep") or item.get_closest_marker("agents"):
        item.add_marker("prove")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The daemon runs on asyncio: the store gives its results to futures of its loop."""
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
