"""Runs alone, one after the other, what failed in the last run of the tests: `make again`.

A machine that others use may stumble for longer than the patience of a test with real processes. What fails by
itself, without anything beside it, is a fault, as is everything that has no luck in it: the simulation's histories
are seeded, and Hypothesis plays a counterexample again. More than a few failures are no stumble.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

MOST: Final = 3
"""So many failures may be a stumble."""


def failed(rootdir: Path) -> list[str]:
    """The tests that failed last, by their ids: none where there were none, or where no tests ran."""
    kept = rootdir / ".pytest_cache/v/cache/lastfailed"
    if not kept.exists():
        return []
    return sorted(json.loads(kept.read_text()))


def main(rootdir: Path) -> int:
    """The exit code of the second try; 1 where there is nothing that a second try could tell."""
    names = failed(rootdir)
    if not names or len(names) > MOST:
        print(f"{len(names)} tests failed: a second try is for one to {MOST} of them", file=sys.stderr)
        return 1
    print("once more, and alone:", *names, sep="\n  ", flush=True)
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "--last-failed", "--last-failed-no-failures=none"],
        cwd=rootdir,
        check=False,
    ).returncode
    if code == 0:
        print("these passed at the second try, alone; their first failure stands above:", *names, sep="\n  ")
    return code


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
