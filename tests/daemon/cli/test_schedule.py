"""`runward schedule` and `chain check`: what an expression means, and chains that real daemons fire in time."""

import sqlite3
from types import SimpleNamespace

import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import wait_for

TICK = """\
name: tick
trigger: {schedule: every 1s, timezone: Europe/Riga, max_runs: 2, overlap: queue}
steps: [{skill: touch}]
"""


@pytest.fixture
def ticking(place: Place) -> Place:
    (place.directory / "playbooks/touch.playbook.yaml").write_text("command: [touch, done]\n")
    (place.directory / "tick.yaml").write_text(TICK)
    assert place.call("chain", "define", "tick.yaml").code == 0
    return place


def runs(place: Place) -> list[object]:
    return [each["status"] for each in place.call("chain", "runs", "--json").objects()]


def test_an_expression_is_shown_in_its_zone_with_the_nights_on_which_the_clock_is_set(place: Place) -> None:
    words = ("schedule", "next", "30 3 * * *", "--timezone", "Europe/Riga", "--from", "2026-03-27T12:00:00Z")
    shown = place.call(*words, "--count", "2")
    assert shown.out.splitlines() == [
        "Sat 2026-03-28 03:30:00+02:00 Europe/Riga",
        "Sun 2026-03-29 04:00:00+03:00 Europe/Riga   the clock is set forward that day",
    ]
    assert place.call(*words, "--count", "1", "--json").json() == ["2026-03-28T03:30:00+02:00"]


def test_the_list_marks_a_day_on_which_the_clock_is_set(
    ticking: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sundays = TICK.replace("every 1s", '"30 3 * * sun"')
    (ticking.directory / "chains/tick.yaml").write_text(sundays)
    march_27th_2026 = SimpleNamespace(time=lambda: 1_774_612_800.0)
    monkeypatch.setattr("runward.daemon.cli.schedule.time", march_27th_2026)
    assert "the clock is set forward that day" in ticking.call("schedule", "list").out


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 5-1 * * *", "column 3: '5-1' is a reversed range in the hour"),
        ("at 2001-01-01T00:00", "is never due after"),
        ("0 0 30 2 *", "is never due after"),
        ("every 6", "column 7: '6'"),
    ],
)
def test_an_expression_that_is_wrong_or_never_due_ends_with_2(
    place: Place, expression: str, said: str
) -> None:
    ended = place.call("schedule", "next", expression)
    assert ended.code == 2
    assert said in ended.err


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (("every 36600d", "--from", "2026-01-01", "--count", "90"), 79),
        (("every 1d", "--from", "9998-12-30", "--count", "20"), 1),
    ],
)
def test_times_end_with_the_last_year_that_can_be_written(
    place: Place, arguments: tuple[str, ...], count: int
) -> None:
    ended = place.call("schedule", "next", *arguments, "--json", "--timezone", "UTC")
    assert (ended.code, len(ended.out.split(","))) == (0, count)
    assert place.call("schedule", "next", "every 1d", "--from", "9999-12-31").code == 2


def test_a_chain_is_fired_at_its_times_also_by_the_next_daemon_and_then_no_more(ticking: Place) -> None:
    assert [each["next"] for each in ticking.call("schedule", "list", "--json").objects()] != [[]]
    assert ticking.call("chain", "list", "--json").objects()[0]["next_due"] is not None
    with ticking.daemon():
        wait_for(lambda: "completed" in runs(ticking), "the first run")
    with ticking.daemon():
        wait_for(lambda: runs(ticking) == ["completed"] * 2, "the second run")
        wait_for(lambda: ticking.call("schedule", "list", "--json").objects()[0]["next"] == [], "the end")
    (row,) = ticking.call("schedule", "list", "--json").objects()
    assert row["runs"] == 2
    assert ticking.call("chain", "list", "--json").objects()[0]["next_due"] is None
    assert "never" in ticking.call("schedule", "list").out
    why = ticking.call("why", "chain tick").out
    assert why.count("chains/fire decided: schedule.fired") == 2, "each firing is a line with its run"
    assert runs(ticking) == ["completed"] * 2


def test_without_a_daemon_what_became_due_fires_once_and_a_file_that_goes_is_waited_for_no_more(
    ticking: Place,
) -> None:
    (ticking.directory / "chains/tick.yaml").write_text(TICK.replace(", max_runs: 2", ""))
    assert ticking.call("chain", "check", "--quiet").code == 0
    assert runs(ticking) == []
    with sqlite3.connect(ticking.state / "runward.db") as store:
        ((since,),) = store.execute("select since from schedules").fetchall()
    wait_for(
        lambda: ticking.call("schedule", "next", "every 1s", "--count", "1").code == 0 and _passed(since),
        "its time",
    )
    assert ticking.call("chain", "check", "--quiet").code == 0
    assert runs(ticking) == ["completed"]
    (ticking.directory / "chains/tick.yaml").unlink()
    assert ticking.call("chain", "check", "--quiet").code == 0
    assert ticking.call("schedule", "list").out == "no chain has a schedule\n"
    why = ticking.call("why", "chain tick").out
    assert "it no longer has a schedule" in why


def _passed(since: float) -> bool:
    import time

    return time.time() > since + 2.5


def test_a_run_of_a_key_waits_for_the_one_before_it(ticking: Place) -> None:
    (ticking.directory / "playbooks/wait.playbook.yaml").write_text(
        f"command: [sh, -c, 'until [ -e {ticking.directory}/go ]; do sleep 0.05; done']\n"
    )
    (ticking.directory / "keyed.yaml").write_text(
        'name: keyed\ntrigger: {manual: true}\nconcurrency: "{{ trigger.repo }}"\nsteps: [{skill: wait}]\n'
    )
    (ticking.directory / "chains/tick.yaml").unlink()
    assert ticking.call("chain", "define", "keyed.yaml").code == 0
    with ticking.daemon():
        first, second, other = (
            ticking.call("chain", "fire", "keyed", f"repo={each}").out.strip() for each in ("a", "a", "b")
        )
        wait_for(lambda: runs(ticking) == ["running"] * 3, "the three runs")

        def step(run: str) -> object:
            return ticking.call("chain", "run", "show", run, "--json").items("steps")[0]["status"]

        wait_for(
            lambda: (step(first), step(second), step(other)) == ("running", "waiting", "running"), "turns"
        )
        shown = ticking.call("chain", "run", "show", second).out
        assert f"it waits until {first} is over" in shown
        (ticking.directory / "go").touch()
        wait_for(lambda: runs(ticking) == ["completed"] * 3, "the ends")
