"""Run directories to measure with: native runs that are made, finished and shown as a launcher would, by a process of its own.

It knows nothing of the daemon or of the baseline; both are given the same directories.

    fixtures.py make   --root DIR --count N            runs that have started and written their artifacts
    fixtures.py finish --root DIR --count N --rate R   renames their `exit.json`, R a second (0: as fast as it goes)
    fixtures.py storm  --root DIR --count N            makes and finishes each at once, without a pause
    fixtures.py show   --root DIR --count N --from D   moves runs that are finished in D into DIR, each in one rename

The last three print `{"renamed_at": {run: nanoseconds}}`: when each rename was about to be made.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime

ARTIFACTS = ("report.md", "findings.md", "notes.md")
"""What every contract expects; the last one is optional."""

_EXPECTED = [
    {
        "id": path.removesuffix(".md"),
        "path": path,
        "required": path != "notes.md",
        "description": "",
        "source": "playbook",
    }
    for path in ARTIFACTS
]
# One run in fifty lacks something, so that nobody gets away with a verdict that looked at nothing.
_CYCLE, _LACKS_REQUIRED, _LACKS_OPTIONAL = 50, 49, 24


def run_name(index: int) -> str:
    """The directory, and session id, of the run with this number."""
    return f"run-{index:07d}"


def right_verdict(run: str) -> tuple[str, str]:
    """The status and the reason that the run of this name has to get."""
    if int(run.removeprefix("run-")) % _CYCLE == _LACKS_REQUIRED:
        return "failed", "run.failed.missing_artifact"
    return "completed", "run.completed.ok"


def lacks_nothing(run: str) -> bool:
    """Whether its verdict is due at once. A run that lacks a file is given two seconds for it: it is judged, but not timed."""
    return right_verdict(run)[0] == "completed"


def make(root: str, numbers: range, playbook: str | None = None) -> None:
    """Make started runs under `root` whose artifacts are all written and whose end is prepared, but not declared.

    They have the contract of their own snapshot, or name a playbook for it.
    """
    for index in numbers:
        _make_run(f"{root}/{run_name(index)}", index, playbook)
        _prepare_exit(f"{root}/{run_name(index)}")


def finish(root: str, numbers: range, rate: float = 0.0) -> dict[str, int]:
    """Declare the end of runs that `make` prepared; at a rate (runs a second) each end is written as a launcher writes it."""
    renamed_at = {}
    for index in _paced(numbers, rate):
        run = run_name(index)
        if rate:
            _prepare_exit(f"{root}/{run}")
        renamed_at[run] = _declare_exit(f"{root}/{run}")
    return renamed_at


def storm(root: str, numbers: range) -> dict[str, int]:
    """Make and finish each run at once."""
    renamed_at = {}
    for index in numbers:
        directory = f"{root}/{run_name(index)}"
        _make_run(directory, index)
        _prepare_exit(directory)
        renamed_at[run_name(index)] = _declare_exit(directory)
    return renamed_at


def finished_with_nothing(root: str, numbers: range) -> None:
    """Make finished runs that were asked for nothing and left nothing: sooner recorded than others, and as long looked at."""
    for index in numbers:
        directory = f"{root}/{run_name(index)}"
        os.makedirs(directory + "/artifacts")
        facts = {
            "schema": "runward-run-v1",
            "session_id": run_name(index),
            "kind": "agent",
            "contract": {"expected": []},
            "started_at": _now(),
        }
        _write(directory + "/run.json", json.dumps(facts))
        _prepare_exit(directory)
        _declare_exit(directory)


def show(hidden: str, root: str, numbers: range) -> dict[str, int]:
    """Move finished runs from `hidden` to `root` (one file system): a start and an end that are there in the same instant."""
    renamed_at = {}
    for index in numbers:
        run = run_name(index)
        renamed_at[run] = time.time_ns()
        os.rename(f"{hidden}/{run}", f"{root}/{run}")
    return renamed_at


def make_large(root: str, index: int, file: str) -> None:
    """Make a run like those of `make`, but for an artifact that is a further name of `file`."""
    directory = f"{root}/{run_name(index)}"
    _make_run(directory, index)
    os.unlink(f"{directory}/artifacts/{ARTIFACTS[0]}")
    os.link(file, f"{directory}/artifacts/{ARTIFACTS[0]}")
    _prepare_exit(directory)


def unfinish(root: str, numbers: range) -> None:
    """Take back the ends, so that the baseline can be measured again on the same directories."""
    for index in numbers:
        directory = f"{root}/{run_name(index)}"
        os.rename(f"{directory}/exit.json", f"{directory}/exit.json.tmp")


def playbook_text() -> str:
    """A playbook with the contract that the snapshots have."""
    return "artifacts:\n  expected:\n" + "".join(
        f"    - {{id: {each['id']}, path: {each['path']}, required: {str(each['required']).lower()}}}\n"
        for each in _EXPECTED
    )


def _make_run(directory: str, index: int, playbook: str | None = None) -> None:
    os.makedirs(directory + "/artifacts")
    facts = {
        "schema": "runward-run-v1",
        "session_id": run_name(index),
        "kind": "agent",
        **({"contract": {"expected": _EXPECTED}} if playbook is None else {"playbook": playbook}),
        "started_at": _now(),
    }
    _write(directory + "/run.json.tmp", json.dumps(facts))
    os.rename(directory + "/run.json.tmp", directory + "/run.json")
    lacking = {_LACKS_REQUIRED: "findings.md", _LACKS_OPTIONAL: "notes.md"}.get(index % _CYCLE)
    for path in ARTIFACTS:
        if path != lacking:
            _write(f"{directory}/artifacts/{path}", "x" * 200)


def _prepare_exit(directory: str) -> None:
    _write(
        directory + "/exit.json.tmp",
        '{"exit_code": 0, "signal": null, "cause": "exited", "error": null,'
        f' "finished_at": "{_now()}", "duration_s": 1.5, "survivors_killed": 0}}',
    )


def _declare_exit(directory: str) -> int:
    now = time.time_ns()
    os.rename(directory + "/exit.json.tmp", directory + "/exit.json")
    return now


def _paced(numbers: range, rate: float) -> Iterator[int]:
    """Open loop: who is late does not shift those after him."""
    begin = time.perf_counter()
    for position, index in enumerate(numbers):
        if rate:
            time.sleep(max(0.0, begin + position / rate - time.perf_counter()))
        yield index


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("deed", choices=["make", "finish", "storm", "show"])
    parser.add_argument("--root", required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--from", dest="hidden", default="")
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    renamed_at: dict[str, int] = {}
    match given.deed:
        case "make":
            make(given.root, numbers)
        case "finish":
            renamed_at = finish(given.root, numbers, given.rate)
        case "storm":
            renamed_at = storm(given.root, numbers)
        case "show":
            renamed_at = show(given.hidden, given.root, numbers)
    print(json.dumps({"renamed_at": renamed_at}))


if __name__ == "__main__":
    _main()
