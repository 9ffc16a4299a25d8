"""What becomes of the exchange where code can't run: `status` says why, and nothing is paid."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place, Result
from tests.waiting import wait_for

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox.workers import Job, execute

CODE = "def run(): return 1"


@pytest.fixture
def programs() -> Iterator[Path]:
    """A directory that every user may reach, for the program that `PATH` finds as bwrap."""
    made = Path(tempfile.mkdtemp(prefix="programs-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def sandbox() -> None:
    """Skips where this machine can't run code."""
    ended = execute(Job("def run(): return 1", ()), Executor())
    if ended.code == "not_configured":
        pytest.skip(f"this machine has no sandbox: {ended.error}")


def exchange(place: Place, *words: str) -> Result:
    return place.call("exchange", *words)


def write_code(place: Place) -> None:
    (place.directory / "code.py").write_text(CODE)
    exchange(place, "principal", "create", "writer")
    exchange(place, "principal", "create", "reader", "--scrip", "1000")
    words = ("artifact", "write", "code", "--as", "writer", "--code-file", "code.py", "--executable")
    assert exchange(place, *words, "--price", "2").code == 0


def shown(place: Place, key: str) -> JsonValue:
    return exchange(place, "principal", "show", "reader", "--json").object()[key]


def test_status_says_why_no_code_runs_and_nothing_is_paid(
    place: Place, programs: Path, sandbox: None
) -> None:
    real = shutil.which("bwrap")
    assert real is not None
    place.environment["PATH"] = str(programs)

    def invoked() -> JsonValue:
        return exchange(place, "invoke", "code", "--as", "reader", "--json").object().get("error_code")

    def problem() -> str | None:
        told = place.call("status", "--json").object()["exchange"]
        assert isinstance(told, dict)
        assert (told["sandbox"] is None) == (told["sandbox_problem"] is not None)
        return None if told["sandbox_problem"] is None else str(told["sandbox_problem"])

    with place.daemon():
        write_code(place)
        assert problem() == "no sandbox: bubblewrap isn't installed; install the package bubblewrap"
        assert "code of the exchange is refused: no sandbox: bubblewrap" in place.call("status").out
        assert invoked() == "not_configured"
        bwrap = programs / "bwrap"
        bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
        bwrap.chmod(0o755)
        assert invoked() == "not_configured"
        wait_for(lambda: "new namespace; allow user namespaces" in str(problem()), "what the daemon found")
        page = place.call("status").out
        assert page.count("new namespace") == 1, page
        assert (shown(place, "scrip"), exchange(place, "ledger", "--check").code) == (1000, 0)
        bwrap.unlink()
        bwrap.symlink_to(real)
        assert invoked() is None
        wait_for(lambda: problem() is None, "that it is well again")
        assert shown(place, "scrip") == 998
