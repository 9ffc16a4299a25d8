"""What runners count, and which commands verify."""

import pytest

from runward.config.bundle import DEFAULT_VERIFICATION
from runward.config.json_value import JsonValue
from runward.handlers.bundle.edits import Edits
from runward.handlers.bundle.replay_view import ToldCall, aligned, first_divergence
from runward.handlers.bundle.verification_runs import CountedTests, command_of, counted_tests, is_verification
from runward.handlers.model.bundle import FileEdit


@pytest.mark.parametrize(
    ("output", "counted"),
    [
        ("===== 24 passed in 0.52s =====", CountedTests("pytest", 24, 0)),
        ("\x1b[31m=== 1 failed, 2 passed, 3 skipped, 1 error in 3.00s ===\x1b[0m", CountedTests("pytest", 2, 2)),
        ("1 passed in 0.1s\n2 failed in 0.2s", CountedTests("pytest", 0, 2)),
        ("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)", CountedTests("unittest", 2, 2)),
        ("Ran 3 tests in 0.001s\n\nOK", CountedTests("unittest", 3, 0)),
        ("test result: ok. 3 passed; 0 failed; 0 ignored;\n\ntest result: FAILED. 1 passed; 2 failed; 0", CountedTests("cargo", 4, 2)),
        ("--- PASS: TestA (0.00s)\n    --- FAIL: TestB/x (0.00s)\n", CountedTests("go", 1, 1)),
        ("Tests:       1 failed, 7 passed, 8 total\nTime: 1s", CountedTests("jest", 7, 1)),
        ('<testsuites tests="5" failures="1" errors="1" skipped="1">', CountedTests("junit", 2, 2)),
        ('<testsuites><testsuite tests="3" failures="1"><testsuite tests="1" errors="1">', CountedTests("junit", 2, 2)),
        ('<testsuites tests="2"><testsuite tests="2" errors="1">', CountedTests("junit", 1, 1)),
        ("all is well", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_runners_print_is_counted(output: str, counted: CountedTests | None) -> None:
    assert counted_tests(output) == counted


@pytest.mark.parametrize(
    ("command", "verifies"),
    [
        ("pytest -q", True),
        ("cd /w && PYTHONPATH=. pytest tests", True),
        ("cargo test 2>&1 | tail", True),
        ("echo pytest", False),
        ("cat test.log", False),
        ("git commit -m 'pytest'", False),
    ],
)
def test_verification_is_told_by_the_command(command: str, verifies: bool) -> None:
    assert is_verification(command, DEFAULT_VERIFICATION) is verifies


@pytest.mark.parametrize(
    ("params", "command"),
    [
        ({"command": "ls  -l\n"}, "ls -l"),
        ({"command": ["bash", "-lc", "make test"]}, "make test"),
        ({"cmd": ["git", "status"]}, "git status"),
        ({"file_path": "x"}, None),
        ("ls", None),
    ],
)
def test_a_command_is_found_in_the_params(params: JsonValue, command: str | None) -> None:
    assert command_of(params) == command


def test_a_patch_tells_its_files() -> None:
    edits = Edits()
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n+z\n*** Add File: b\n+1\n*** End Patch"
    edits.called("1", "apply_patch", {"input": patch})
    edits.called("2", "shell", {"command": ["apply_patch", patch]})
    edits.returned("1", True)
    edits.returned("2", True)
    assert edits.files() == (FileEdit("a.py", 4), FileEdit("b", 2))


def calls(*said: tuple[str, str]) -> list[ToldCall]:
    return [ToldCall(str(number), "t", params, None, output) for number, (params, output) in enumerate(said)]


def test_calls_are_aligned_and_part_at_the_first_that_differs() -> None:
    left, right = calls(("a", "1"), ("b", "2"), ("c", "3")), calls(("a", "1"), ("c", "4"), ("d", "5"))
    assert aligned(left, right) == (1, 1, 1, 1)
    found = first_divergence(left, right)
    assert found is not None
    assert (found.at, found.left, found.right) == (1, left[1], right[1])
    longer = first_divergence(left, left[:2])
    assert longer is not None
    assert (longer.at, longer.right) == (2, None)
    assert first_divergence(left, left) is None
