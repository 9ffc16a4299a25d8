"""`runward exchange execute`: a trial of code, without daemon, store or identity."""

import pytest
from tests.daemon.cli.calling import Place

from runward.config.executor import Executor
from runward.daemon.sandbox.workers import NoSandbox, Worker


@pytest.fixture
def trial(place: Place) -> Place:
    """A place with code to try; skips where this machine has no sandbox."""
    try:
        Worker(Executor()).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")
    (place.directory / "try.py").write_text(
        "def run(*words):\n    return [1 / 0 if word == 'x' else word for word in words]\n"
    )
    return place


def test_an_argument_is_text_and_json_where_it_says_so(trial: Place) -> None:
    told = trial.call("exchange", "execute", "try.py", "1", ":=2", ':={"a": [null]}', "--json")
    assert told.code == 0
    said = told.object()
    assert list(said) == ["success", "result", "error", "execution_time_ms", "resources_consumed"]
    assert (said["success"], said["result"], said["error"]) == (True, ["1", 2, {"a": [None]}], None)


def test_code_that_fails_ends_with_1(trial: Place) -> None:
    told = trial.call("exchange", "execute", "try.py", "x")
    said = told.object()
    assert told.code == 1
    assert (said["success"], said["error"]) == (False, "ZeroDivisionError: division by zero (line 2)")
    assert said["error_code"] == "runtime_error"


def test_a_trial_keeps_to_the_time_that_it_is_given(trial: Place) -> None:
    (trial.directory / "spin.py").write_text("def run():\n    while True: pass\n")
    told = trial.call("exchange", "execute", "spin.py", "--timeout", "200ms")
    assert (told.code, told.object()["error_code"]) == (1, "timeout")
    given = trial.call(
        "exchange", "execute", "spin.py", RUNWARD_EXCHANGE='{"executor": {"timeout": "150ms"}}'
    )
    assert given.object()["error"] == "the code took longer than 0.15 s"


def test_a_trial_leaves_no_state_directory(trial: Place) -> None:
    state = trial.directory / "untouched"
    assert trial.call("exchange", "execute", "try.py", RUNWARD_STATE_DIR=str(state)).code == 0
    assert not state.exists()


def test_what_is_wrongly_asked_is_wrong_usage(place: Place) -> None:
    (place.directory / "bytes.py").write_bytes(b"\xff")
    (place.directory / "ok.py").write_text("def run(): pass")
    assert place.call("exchange", "execute").code == 2
    assert place.call("exchange", "execute", "bytes.py").code == 2
    assert place.call("exchange", "execute", "ok.py", ":={").code == 2
    assert place.call("exchange", "execute", "ok.py", "--timeout", "5").code == 2
    assert place.call("exchange", "execute", "missing.py").code in (2, 3)


def test_without_a_sandbox_nothing_runs_and_the_fix_is_said(place: Place) -> None:
    (place.directory / "ok.py").write_text("def run(): return 1")
    told = place.call("exchange", "execute", "ok.py", PATH="/nowhere")
    assert (told.code, told.object()["error_code"]) == (1, "not_configured")
    assert "install the package bubblewrap" in told.err
    found = place.call("doctor", "--only", "sandbox", "--json", PATH="/nowhere").items("checks")
    assert [each["result"] for each in found] == ["warning"]
    assert "bubblewrap isn't installed" in str(found)


def test_the_doctor_tries_to_get_out(trial: Place) -> None:
    found = trial.call("doctor", "--only", "sandbox", "--json").items("checks")
    assert [(each["result"], "7 attempts" in str(each["found"])) for each in found] == [("ok", True)]
