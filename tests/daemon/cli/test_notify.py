"""Notices, with a real daemon and real commands."""

import time
from pathlib import Path

from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_chain_approvals import fire, furnished, waits
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript
from tests.waiting import wait_for

TELL = """
[[notify]]
on = ["approval.asked", "chain.*", "session.failed"]
command = ["sh", "-c", 'test ! -e "$0.broken" && echo "$2 $1" >> "$0"', "FILE", "{{ with.title }}", "{{ with.kind }}"]
"""


def telling(place: Place) -> Path:
    """The file to which people are told, by a program that fails while `FILE.broken` is there."""
    told = place.directory / "told"
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + TELL.replace("FILE", str(told)))
    return told


def lines(told: Path) -> list[str]:
    return told.read_text().splitlines() if told.exists() else []


def test_people_are_told_that_a_step_waits_and_how_its_chain_run_ended(place: Place) -> None:
    furnished(place, "{}")
    told = telling(place)
    with place.daemon():
        fire(place)
        asked = waits(place)
        wait_for(lambda: len(lines(told)) == 1, "the notice")
        assert lines(told) == ["approval.asked merge: step step1 waits for a person"]
        assert place.call("chain", "deny", str(asked["approval_id"])).code == 0
        wait_for(lambda: len(lines(told)) == 2, "the second notice")
        assert lines(told)[1] == "chain.aborted merge aborted"
        wait_for(lambda: all(each["state"] == "delivered" for each in listed(place)), "the mark")
    assert [each["kind"] for each in listed(place)] == ["chain.aborted", "approval.asked"]
    assert place.call("status", "--json").object()["notices"] == {"pending": 0, "dead": 0}


def listed(place: Place) -> list[dict[str, object]]:
    return [dict(each) for each in place.call("notify", "list", "--json").objects()]


def test_what_could_not_be_delivered_is_tried_again_by_the_next_daemon(place: Place) -> None:
    furnished(place, "{}")
    told = telling(place)
    broken = Path(f"{told}.broken")
    broken.touch()
    with place.daemon():
        fire(place)
        waits(place)
        wait_for(lambda: [each["tries"] for each in listed(place)] == [1], "the first try")
        (waiting,) = listed(place)
        assert (waiting["state"], waiting["problem"]) == ("pending", "sh exited with 1")
    broken.unlink()
    with place.daemon():
        wait_for(lambda: listed(place)[0]["state"] == "delivered", "the delivery")
    assert len(lines(told)) == 1


def test_what_was_given_up_is_shown_and_a_person_has_it_tried_again(place: Place) -> None:
    furnished(place, "{}")
    told = telling(place)
    broken = Path(f"{told}.broken")
    broken.touch()
    with place.daemon():
        fire(place)
        waits(place)
        wait_for(lambda: [each["tries"] for each in listed(place)] == [1], "the first try")
    place.change_store("update notices set since = since - 86400, next_at = 0")
    with place.daemon():
        wait_for(lambda: listed(place)[0]["state"] == "dead", "the last try")
        (dead,) = listed(place)
        assert dead["problem"] == "sh exited with 1"
        wait_for(
            lambda: place.call("status", "--json").object()["notices"] == {"pending": 0, "dead": 1}, "status"
        )
        assert "1 notice could not be delivered" in place.call("status").out
        assert str(dead["id"]) in place.call("notify", "list", "--state", "dead").out
        broken.unlink()
        assert place.call("notify", "retry", str(dead["id"])).code == 0
        wait_for(lambda: listed(place)[0]["state"] == "delivered", "the delivery")
    assert len(lines(told)) == 1


def test_a_test_tells_everybody_now_and_says_who_could_not_be_told(place: Place) -> None:
    assert place.call("notify", "test").code == 3
    told = telling(place)
    well = place.call("notify", "test")
    assert well.code == 0, well.err
    assert lines(told) == ["test Runward can reach you"]
    Path(f"{told}.broken").touch()
    failed = place.call("notify", "test", "--json")
    assert failed.code == 1
    assert [each["delivered"] for each in failed.objects()] == [False]


def test_only_what_was_given_up_can_be_tried_again(place: Place) -> None:
    telling(place)
    assert place.call("notify", "retry", "nt_1").code == 3
    assert place.call("notify", "retry", "@last").code == 3


def test_people_are_told_of_a_quarantined_chain_and_of_a_held_job_once(place: Place) -> None:
    furnished(place, "{}")
    settings = place.directory / "runward.toml"
    told = telling(place)
    settings.write_text(settings.read_text().replace('"session.failed"', '"job.*"'))
    chains = place.directory / "chains"
    (chains / "broken.yaml").write_text("name: broken\nsteps: 3\n")
    with place.daemon():
        wait_for(lambda: len(lines(told)) == 1, "the notice")
        with place.start("run", "--", "true") as run:
            assert run.wait(60) == 0
        (quarantined,) = listed(place)
        assert (quarantined["kind"], quarantined["subject"]) == ("chain.quarantined", "broken")
    assert lines(told) == ["chain.quarantined chain broken is quarantined"]
    place.change_store("update jobs set state = 'held', error = 'a' where id = (select min(id) from jobs)")
    with place.daemon():
        wait_for(lambda: len(lines(told)) == 2, "the second notice")
        assert lines(told)[1].startswith("job.held job ")
        assert [each["kind"] for each in listed(place)] == ["job.held", "chain.quarantined"]


_AGENT = """
[[roots]]
name = "claude"
path = "claude"
layout = "claude-code"
history = "live"

[[notify]]
on = ["session.completed"]
command = ["sh", "-c", 'echo "$1 | $2" | tr "\\n" " " >> "$0"', "FILE", "{{ with.text }}", "{{ with.cost }}"]
"""


def test_the_notice_of_an_agents_end_says_what_it_cost(place: Place) -> None:
    settings, told = place.directory / "runward.toml", place.directory / "told"
    settings.write_text(settings.read_text() + _AGENT.replace("FILE", str(told)))
    transcript = Transcript(now=time.time() - 60)
    transcript.prompt("look")
    transcript.text("Done.")
    path = place.directory / f"claude/-home/{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript.content())
    place.daemon_once()
    usage = place.call("session", "show", SESSION, "--json").object()["usage"]
    assert isinstance(usage, dict)
    cost = f"~${usage['cost_usd']:.4f} at list prices"
    assert cost != "~$0.0000 at list prices"
    assert told.read_text().strip().endswith(f"runward why {SESSION} cost: {cost} | {cost}")
