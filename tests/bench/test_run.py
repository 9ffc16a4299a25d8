"""What `make bench` does with figures that are met, missed, wrong or not measured."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.bench import quiet, run
from tests.bench.figure import (
    CannotMeasure,
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    NotMeasured,
    Outcome,
    of_ratio,
    of_samples,
)
from tests.bench.measurements import MEASUREMENTS
from tests.bench.peers import without_peer
from tests.bench.product import DaemonFailed
from tests.bench.report import page_table, table
from tests.bench.results import RECORDED, Load, load_results, merge, result

FAST = Figure("fast", "how fast", "x", Goal("at most", 2.0), "the loop is slow")
PLAIN = Figure("plain", "how much", "MB")
HELD = Figure("held", "against a peer", "x", Goal("at most", 2.0), peer="no-such-distribution")


def measured(value: float, *problems: str) -> list[Measured]:
    return [of_samples(FAST, [value], problems=problems), of_samples(PLAIN, [5.0])]


def measurement(
    outcomes: Sequence[Outcome] | Exception, figures: tuple[Figure, ...] = (FAST, PLAIN)
) -> Measurement:
    def measure(_: Conditions) -> Sequence[Outcome]:
        if isinstance(outcomes, Exception):
            raise outcomes
        return outcomes

    return Measurement("speed", "how fast it is", figures, measure)


@pytest.fixture(autouse=True)
def loads(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What others keep busy, time by time."""
    told = [0.0, 0.0]
    monkeypatch.setattr(run, "busy_processors", lambda: told.pop(0))
    return told


def bench(tmp_path: Path, each: Measurement, *words: str) -> int:
    return run.main(["--json", str(tmp_path / "bench.json"), *words], [each])


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [(measured(1.0), 0), (measured(3.0), 1), (measured(1.0, "a run is lost"), 1)],
    ids=["met", "missed", "wrong"],
)
def test_the_exit_code_tells_whether_all_goals_are_met(
    tmp_path: Path, outcomes: list[Measured], code: int
) -> None:
    assert bench(tmp_path, measurement(outcomes)) == code


def test_a_missed_figure_is_printed_with_its_goal_and_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(tmp_path, measurement(measured(3.0)))
    printed = capsys.readouterr().out
    assert "3 x" in printed
    assert "≤ 2" in printed
    assert "MISSED" in printed
    assert "why it is missed: the loop is slow" in printed


def test_a_figure_that_is_met_says_no_reason() -> None:
    assert "the loop is slow" not in table(measured(1.0), is_judged=True)


@pytest.mark.parametrize(
    ("now", "why"),
    [([1.5], "before it began: others kept 1.5"), ([0.0, 0.9], "when it had ended: others kept 0.9")],
    ids=["before", "after"],
)
def test_on_a_loaded_machine_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loads: list[float], now: list[float], why: str
) -> None:
    loads[:] = now
    assert bench(tmp_path, measurement(measured(1.0))) == run.NOT_MEASURED
    printed = capsys.readouterr().out
    assert "not measured" in printed
    assert why in printed
    assert load_results(tmp_path / "bench.json")["fast"].value is None


def test_a_quick_run_measures_on_a_loaded_machine_and_judges_only_what_is_wrong(
    tmp_path: Path, loads: list[float]
) -> None:
    loads[:] = [9.0, 9.0]
    assert bench(tmp_path, measurement(measured(3.0)), "--quick") == 0
    assert bench(tmp_path, measurement(measured(3.0, "a run is doubled")), "--quick") == 1
    assert not (tmp_path / "bench.json").exists()


def test_a_figure_whose_peer_is_missing_is_not_measured_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    each = measurement(AssertionError("nothing is run"), (HELD,))
    assert bench(tmp_path, each) == run.NOT_MEASURED
    assert "peer missing: no-such-distribution" in capsys.readouterr().out


def test_a_peer_that_is_installed_is_not_missing() -> None:
    assert without_peer(Figure("f", "f", "x", peer="pytest")) is None
    assert without_peer(PLAIN) is None


def test_what_the_machine_lacks_is_told_for_each_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(tmp_path, measurement(CannotMeasure("there is no chromium"))) == run.NOT_MEASURED
    assert capsys.readouterr().out.count("there is no chromium") == 2


def test_a_measurement_that_fails_is_not_a_success_and_the_others_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loads: list[float]
) -> None:
    loads[:] = [0.0] * 4
    other = Measurement("other", "another", (PLAIN,), lambda _: [of_samples(PLAIN, [5.0])])
    failing = Measurement("failing", "what fails", (FAST,), measurement(DaemonFailed("it ended 1")).measure)
    assert run.main(["--json", str(tmp_path / "bench.json")], [failing, other]) == 1
    printed = capsys.readouterr().out
    assert "failing could not be measured: it ended 1" in printed
    assert "5 MB" in printed


def test_only_names_measurements_or_figures_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert [each.name for each in run.chosen("latency-50,burst-1000-two-stages", MEASUREMENTS)] == [
        "burst-1000",
        "latency-50",
    ]
    with pytest.raises(SystemExit) as ended:
        run.main(["--only", "latency-50,lattency"], MEASUREMENTS)
    assert ended.value.code == 2
    assert "there is nothing named lattency" in capsys.readouterr().err


def test_the_list_has_every_figure_with_its_goal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--list"]) == 0
    printed = capsys.readouterr().out
    for each in MEASUREMENTS:
        for figure in each.figures:
            assert f"    {figure.name}: {figure.what}, {figure.unit}" in printed


def test_each_name_and_each_figure_is_declared_once() -> None:
    figures = [figure for each in MEASUREMENTS for figure in each.figures]
    for names in (
        [each.name for each in MEASUREMENTS],
        [figure.name for figure in figures],
        [figure.what for figure in figures],
    ):
        assert len(set(names)) == len(names)


def test_each_recorded_figure_is_declared_and_says_why_it_is_missed() -> None:
    figures = {figure.name: figure for each in MEASUREMENTS for figure in each.figures}
    recorded = load_results(RECORDED)
    assert recorded.keys() <= figures.keys()
    missed = [
        name
        for name, known in recorded.items()
        if (goal := figures[name].goal) is not None
        and known.value is not None
        and not goal.kept_by(known.value)
    ]
    assert [name for name in missed if not figures[name].missed] == []


def test_results_keep_what_else_was_measured(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    load = Load(before=0.1, after=0.2)
    ratio = of_ratio(FAST, [4.0, 5.0, 6.0], [2.0, 2.0, 2.0], "beside")
    merge(file, [result(of_samples(PLAIN, [5.0]), load, 1.0)], ["fast", "plain"])
    merge(file, [result(ratio, load, 3.04)], ["fast", "plain"])

    results = load_results(file)
    assert list(results) == ["fast", "plain"]
    kept = json.loads(file.read_text())["results"][0]
    assert kept["value"] == 2.5
    assert kept["spread"] == [2.0, 3.0]
    assert kept["values"] == {"measured": [4.0, 5.0, 6.0], "yardstick": [2.0, 2.0, 2.0]}
    assert kept["goal"] == "≤ 2"
    assert kept["met"] is False
    assert kept["load"] == {"before": 0.1, "after": 0.2}
    assert kept["seconds"] == 3.0
    assert kept["commit"]
    assert kept["date"]
    assert "Python" in kept["machine"]


def test_a_figure_that_could_not_be_measured_keeps_the_value_it_had(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    merge(file, [result(of_samples(PLAIN, [5.0]), None, 1.0)], ["plain"])
    merge(file, [result(NotMeasured(PLAIN, "the machine was loaded"), None, 0.0)], ["plain"])
    assert load_results(file)["plain"].value == 5.0


def test_the_page_shows_values_goals_and_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures.json"
    merge(file, [result(each, Load(before=0.1, after=0.2), 1.0) for each in measured(3.0)], ["fast", "plain"])
    monkeypatch.setattr("tests.bench.report.RECORDED", file)
    shown = page_table([measurement(measured(3.0), (FAST, PLAIN, HELD))])
    assert "| how fast | 3 x | ≤ 2 | **missed** | one sample | 0.1, 0.2 |" in shown
    assert "| how much | 5 MB | - | - | one sample | 0.1, 0.2 |" in shown
    assert "| against a peer | not measured yet | ≤ 2 | - | - | - | - |" in shown
    assert "- **how fast:** the loop is slow." in shown


def test_idle_processors_and_waits_for_a_disk_are_no_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(quiet, "_STAT", stat)
    monkeypatch.setattr(quiet, "_TICKS_A_SECOND", 100)
    stat.write_text("cpu  100 200 300 99999 88888 10 20 70 5 5\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    assert quiet._busy_s() == 7.0


@pytest.mark.parametrize(
    ("samples", "patience_s", "busy"),
    [([0.9, 0.1], 60.0, 0.1), ([0.9, 0.8], 0.0, 0.9)],
    ids=["what was left behind ends", "it stays loaded"],
)
def test_the_load_is_that_of_the_first_quiet_second(
    monkeypatch: pytest.MonkeyPatch, samples: list[float], patience_s: float, busy: float
) -> None:
    monkeypatch.setattr(quiet, "_sample", lambda: samples.pop(0))
    monkeypatch.setattr(quiet, "_PATIENCE_S", patience_s)
    assert quiet.busy_processors() == busy
