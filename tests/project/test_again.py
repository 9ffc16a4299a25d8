"""A failed test has one more try: given what failed, is it a stumble or a fault?"""

import os
import subprocess
import sys
from pathlib import Path

AGAIN = Path(__file__).with_name("again.py")
STUMBLES = """\
from pathlib import Path

def test_that_stumbles_once():
    met = Path(__file__).with_name("met")
    known = met.exists()
    met.touch()
    assert known
"""
FAILS = "def test_that_fails():\n    assert False\n"
PASSES = "from pathlib import Path\n\ndef test_that_passes():\n    Path(__file__).with_name('ran').open('a').write('x')\n"


def run(place: Path, *arguments: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins take most of the start
    done = subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def given(place: Path, **texts: str) -> None:
    for name, text in texts.items():
        (place / f"test_{name}.py").write_text(text)
    run(place, "-m", "pytest", "-q", f"--rootdir={place}", str(place))


def test_a_test_that_stumbled_is_tried_again_by_itself_and_told_of(tmp_path: Path) -> None:
    given(tmp_path, stumbles=STUMBLES, passes=PASSES)
    code, said = run(tmp_path, str(AGAIN))
    assert code == 0, said
    assert "passed at the second try" in said
    assert said.count("test_stumbles.py::test_that_stumbles_once") >= 2
    assert (tmp_path / "ran").read_text() == "x"


def test_a_test_that_fails_twice_is_a_fault(tmp_path: Path) -> None:
    given(tmp_path, stumbles=STUMBLES, fails=FAILS)
    code, said = run(tmp_path, str(AGAIN))
    assert code == 1
    assert "passed at the second try" not in said


def test_many_failures_are_no_stumble(tmp_path: Path) -> None:
    given(tmp_path, **{name: STUMBLES.replace("met", name) for name in ("a", "b", "c", "d")})
    code, said = run(tmp_path, str(AGAIN))
    assert (code, said.strip()) == (1, "4 tests failed: a second try is for one to 3 of them")


def test_where_no_test_failed_something_else_did(tmp_path: Path) -> None:
    given(tmp_path, passes=PASSES)
    code, _said = run(tmp_path, str(AGAIN))
    assert code == 1
    assert (tmp_path / "ran").read_text() == "x"
