"""Large reports: read as a stream in a process of their own, which nobody waits for."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.waiting import wait_for

from runward.daemon.rundir import report_reading
from runward.daemon.rundir.outcomes import MOST_AT_ONCE, outcomes_in
from runward.daemon.rundir.report_reading import (
    LARGEST_REPORT,
    SMALL,
    LargeReport,
    Read,
    Reports,
    read_apart,
    read_here,
)
from runward.handlers.model.files import Unreadable
from runward.handlers.model.outcomes import BeingRead, OutcomeFile, ReadOutcome
from runward.handlers.outcomes.reading import read_outcome

CASE = '<testcase classname="com.example.Module" name="does_the_right_thing" time="0.001"/>'
FAILED = '<testcase name="last"><failure message="no"/></testcase>'
LARGE = f"<testsuite>{CASE * 3500}{FAILED}</testsuite>"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run/outcomes").mkdir(parents=True)
    return tmp_path / "run"


def files_in(run: Path, read: report_reading.Reader = read_here) -> tuple[OutcomeFile, ...]:
    found = outcomes_in(str(run), str(run / "artifacts"), (), read)
    assert not isinstance(found, BeingRead | Unreadable), found
    return found


def test_a_report_may_be_larger_than_the_outcome_that_is_made_of_it(run: Path) -> None:
    assert len(LARGE) > 280_000
    (run / "outcomes/unit.xml").write_text(LARGE)
    (run / "outcomes/lint.sarif").write_text('{"runs": []}' + " " * MOST_AT_ONCE)
    read = {each.path: read_outcome(each) for each in files_in(run)}
    lint, unit = read["outcomes/lint.sarif"], read["outcomes/unit.xml"]
    assert isinstance(lint, ReadOutcome)
    assert isinstance(unit, ReadOutcome)
    assert (lint.outcome.kind, lint.outcome.passed) == ("lint_result", None)
    assert (unit.outcome.passed, unit.outcome.value["test_count"]) == (False, 3501)


def test_small_reports_are_read_at_once_and_all_together_are_small(run: Path) -> None:
    half = " " * (MOST_AT_ONCE // 2)
    for number in range(4):
        (run / f"outcomes/{number}.xml").write_text(f"<testsuite>{CASE}</testsuite>{half}")
    found = files_in(run)
    assert [each.content is None for each in found] == [False, True, True, True]
    assert [isinstance(each, ReadOutcome) for each in map(read_outcome, found)] == [True] * 4


def test_a_report_of_more_than_64_mebibytes_is_refused_in_words(run: Path) -> None:
    with (run / "outcomes/a.xml").open("wb") as file:
        file.truncate(LARGEST_REPORT + 1)
    (found,) = files_in(run)
    refused = read_outcome(found)
    assert not isinstance(refused, ReadOutcome)
    assert refused.problems[0].message == "is larger than a report may be (64 MiB)"


class Slow:
    """Reads reports when it may."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.count = 0

    def __call__(self, reports: Sequence[LargeReport]) -> list[Read]:
        assert self.may.wait(60)
        self.count += 1
        return read_here("", reports)


class Opened(NamedTuple):
    """A report that is open."""

    report: LargeReport

    def again(self, **changed: object) -> LargeReport:
        return self.report._replace(**changed)  # type: ignore[arg-type] # the names of fields


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    (tmp_path / "a.xml").write_text(LARGE)
    descriptor = os.open(tmp_path / "a.xml", os.O_RDONLY)
    yield Opened(LargeReport("a.xml", descriptor, (1,), 100))
    os.close(descriptor)


def settled(reports: Reports, run: str, report: LargeReport) -> list[Read]:
    """What is answered in the end."""
    answers: list[list[Read]] = []

    def is_over() -> bool:
        answer = reports(run, [report])
        answers.extend([answer] if isinstance(answer, list) else [])
        return bool(answers)

    wait_for(is_over, "the reports are read")
    return answers[0]


def test_nobody_waits_while_reports_are_read_and_small_ones_are_not_held_up(opened: Opened) -> None:
    slow, quick = Slow(), Slow()
    quick.may.set()
    large = opened.again(size=SMALL + 1)
    reports = Reports(lambda asked: slow(asked) if asked[0].size > SMALL else quick(asked))
    for _ in range(3):
        assert isinstance(reports("/large", [large]), float)
    assert len(settled(reports, "/small", opened.report)) == 1
    assert isinstance(reports("/large", [large]), float)
    slow.may.set()
    assert len(settled(reports, "/large", large)) == 1
    assert (slow.count, quick.count) == (1, 1)


def test_what_was_read_holds_until_the_report_changes(opened: Opened) -> None:
    reading = Slow()
    reading.may.set()
    reports = Reports(reading)
    assert settled(reports, "/run", opened.report) == settled(reports, "/run", opened.report)
    assert reading.count == 1
    assert settled(reports, "/run", opened.again(state=(2,)))
    assert reading.count == 2


def test_a_run_that_changes_its_reports_again_and_again_holds_up_only_its_first_tries(opened: Opened) -> None:
    reading = Slow()
    reading.may.set()
    reports = Reports(reading)
    states = iter(range(1000))

    def answer() -> object:
        return reports("/run", [opened.again(state=(next(states),))])

    wait_for(lambda: answer() == ["changes again and again while it is read"], "the run is given up")
    assert reading.count == report_reading.MOST_TRIES


def test_a_failing_disk_makes_reports_unreadable_and_not_invalid(run: Path) -> None:
    (run / "outcomes/a.xml").write_text(LARGE)

    def fail(reports: Sequence[LargeReport]) -> list[Read]:
        raise OSError(errno.EIO, "Input/output error")

    reports = Reports(fail)
    assert outcomes_in(str(run), str(run), (), reports) == BeingRead(0.0)
    unreadable = Unreadable("Input/output error")
    wait_for(lambda: outcomes_in(str(run), str(run), (), reports) == unreadable, "the disk failed")
    assert outcomes_in(str(run), str(run), (), reports) == BeingRead(0.0)


def test_reports_are_read_in_a_process_of_their_own(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "b.sarif").write_text("[]")
    with (tmp_path / "b.sarif").open("rb") as file:
        good, bad = read_apart([opened.report, LargeReport("b.sarif", file.fileno(), (), 2)])
    assert isinstance(good, dict)
    assert good["test_result"]["failed_count"] == 1
    assert bad == "is not a SARIF log: it must be an object"


def test_a_report_that_ends_its_process_is_refused_in_words_and_those_before_it_are_read(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.run

    def ended_early(words: list[str], **how: object) -> object:
        cut = [*words[:-2], "not a descriptor", words[-1]]
        return real(cut, **how)  # type: ignore[call-overload] # as it is called

    monkeypatch.setattr(subprocess, "run", ended_early)
    first, second = read_apart([opened.report, opened.report])
    assert isinstance(first, dict)
    assert second == "could not be read within 120 s of processor time and 1 GiB of memory"


def test_no_descriptor_stays_open(run: Path) -> None:
    (run / "outcomes/a.xml").write_text(LARGE)
    before = len(os.listdir("/proc/self/fd"))
    reports = Reports(lambda asked: read_here("", asked))
    wait_for(
        lambda: not isinstance(outcomes_in(str(run), str(run), (), reports), BeingRead), "the report is read"
    )
    files_in(run)
    assert len(os.listdir("/proc/self/fd")) == before


# At low priority, as in the daemon: beside other work it takes several times its processor time.
@pytest.mark.timeout(report_reading.PATIENCE_S)
@pytest.mark.prove
@pytest.mark.parametrize("name", ["large.xml", "large.sarif", "hostile.xml", "hostile.sarif"])
def test_sixty_mebibytes_are_read_in_bounded_memory(tmp_path: Path, name: str) -> None:
    result = json.dumps({"ruleId": "r", "level": "error", "message": {"text": "x" * 300}})
    written = {
        "large.xml": ("<testsuite>", CASE, FAILED + "</testsuite>"),
        "large.sarif": ('{"runs": [{"results": [', result + ",", result + "]}]}"),
        "hostile.xml": ("<testsuite>", "<a>&#10;</a>", "</testsuite>"),
        "hostile.sarif": ('{"runs": [], "x": [', "[{}],", "0]}"),
    }
    begin, repeated, end = written[name]
    path = tmp_path / name
    path.write_text(begin + repeated * ((60 << 20) // len(repeated)) + end)
    program = (
        "import resource, sys\n"
        f"from {report_reading.__name__} import main\n"
        "main(['0', sys.argv[1]])\n"
        "[most] = [line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')]\n"
        "print(most, resource.getrusage(resource.RUSAGE_SELF).ru_utime)\n"
    )
    words = [sys.executable, "-P", "-c", program, name]
    with path.open("rb") as file:
        ran = subprocess.run(words, stdin=file, capture_output=True, check=True, text=True)
    told, used = ran.stdout.splitlines()
    kibibytes, seconds = used.split()
    assert int(kibibytes) < 100 << 10
    assert float(seconds) < report_reading.CPU_S
    read = json.loads(told)
    if name == "large.xml":
        assert (read["test_result"]["failed_count"], read["test_result"]["passed"]) == (1, False)
    elif name == "large.sarif":
        assert read["lint_result"]["errors"] == read["lint_result"]["finding_count"] > 100_000
        assert len(read["lint_result"]["findings"]) > 500
    else:
        assert "more than" in read
