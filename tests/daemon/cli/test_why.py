"""`runward why`: the causes in their order, and why something did not happen."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.daemon.cli.calling import CONTRACT, Place

from runward.daemon.processes.proc import identity_of


def test_a_verdict_has_its_events_decisions_statuses_and_lines_in_order(recorded: Place) -> None:
    told = recorded.call("why", "silent", "--json")
    assert told.object()["subject"] == {"noun": "session", "id": "native:runs/silent"}
    assert told.object()["status"] == "failed"
    assert [(each["kind"], each["event"]) for each in told.items("causes")] == [
        ("event", "native:runs/silent#1/started"),
        ("decision", "native:runs/silent#1/started"),
        ("status", "native:runs/silent#1/started"),
        ("journal", "native:runs/silent#1/started"),
        ("event", "native:runs/silent#1/ended"),
        ("decision", "native:runs/silent#1/ended"),
        ("status", "native:runs/silent#1/ended"),
        ("journal", "native:runs/silent#1/ended"),
        ("event", "native:runs/silent#1/finished"),
    ]
    verdict = told.items("causes")[-1]
    assert verdict["cause"] == "native:runs/silent#1/ended"
    assert told.object()["not_done"] == []


def test_people_read_the_evidence_below_what_rests_on_it(recorded: Place) -> None:
    shown = recorded.call("why", "silent").out
    lines = [line.strip() for line in shown.splitlines()]
    assert lines[0] == (
        "session native:runs/silent: failed: run.failed.missing_artifact, "
        "required artifacts were not delivered: review (review.md): empty"
    )
    assert lines[1] == f"delivered in {recorded.runs}/silent/artifacts: report (report.md)"
    assert not any(" bytes are at " in line for line in lines)
    assert " bytes are at " in recorded.call("why", "silent", "--verbose").out
    decided = next(number for number, line in enumerate(lines) if "sessions/ended decided" in line)
    assert lines[decided + 1 : decided + 3] == ["review.md: empty", "notes.md: absent"]
    assert "evidence: expected_artifact review (review.md)" in lines


def test_last_is_the_session_that_it_is_for_every_command(recorded: Place) -> None:
    told = recorded.call("why", "@last", "--json").object()
    shown = recorded.call("session", "show", "@last", "--json").object()
    assert told["subject"] == {"noun": "session", "id": shown["key"]}


def test_a_file_that_is_nearly_the_missing_one_is_named_and_does_not_count(place: Place) -> None:
    place.add_run("near", exit_code=0, contract=CONTRACT, files={"Review.md": "r", "report.md": "r"})
    place.daemon_once()
    shown = place.call("session", "show", "near", "--json").object()
    reason = {"code": "run.failed.missing_artifact"}
    summary = "missing required artifacts: review (review.md): there is 'Review.md'"
    assert isinstance(shown["reason"], dict)
    assert shown["reason"].items() >= {**reason, "summary": summary}.items()
    assert (shown["status"], shown["delivery"]) == ("failed", "partial")
    assert "MISSING (there is 'Review.md')" in place.call("session", "show", "near").out
    lines = [line.strip() for line in place.call("why", "near").out.splitlines()]
    assert lines[0].endswith(summary)
    assert {"review.md: absent; there is 'Review.md'", "notes.md: absent"} <= {*lines}


def test_the_next_daemon_once_corrects_a_verdict_that_lacked_a_file_which_came_soon_after(
    place: Place,
) -> None:
    run = place.add_run("copied", exit_code=0, contract=CONTRACT, files={"report.md": "r", "notes.md": "n"})
    place.daemon_once()
    assert place.call("session", "show", "copied", "--json").object()["status"] == "failed"
    (run / "artifacts/review.md").write_text("it came late")
    place.daemon_once()
    shown = place.call("session", "show", "copied", "--json").object()
    assert (shown["status"], shown["attempt"]) == ("completed", 2)


def test_a_running_session_is_not_over_and_it_is_said_why(recorded: Place) -> None:
    (obstacle,) = recorded.call("why", "open", "--json").items("not_done")
    assert obstacle["what"] == "it is not over"
    said, _, silent = str(obstacle["why"]).partition("; it has been silent for ")
    assert said == "no end was written, and no process is named that could be checked"
    assert silent


def test_the_processes_of_a_running_session_are_asked_for(place: Place) -> None:
    launcher = subprocess.Popen(["sleep", "60"])
    identity = identity_of(launcher.pid)
    place.add_run("left", launcher=dict(identity._asdict()))
    place.daemon_once()
    (alive,) = place.call("why", "left", "--json").items("not_done")
    launcher.kill()
    launcher.wait()
    (gone,) = place.call("why", "left", "--json").items("not_done")
    assert alive["why"] == f"no end was written, and its launcher {launcher.pid} is alive"
    assert gone["why"] == f"no end was written, and its launcher {launcher.pid} is gone"
    assert gone["fix"] == "start `runward daemon`"


def test_a_directory_that_is_no_session_says_what_is_wrong_with_its_files(recorded: Place) -> None:
    told = recorded.call("why", "broken", "--json")
    assert told.object()["subject"] == {"noun": "directory", "id": str(recorded.runs / "broken")}
    (obstacle,) = told.items("not_done")
    assert obstacle["what"] == f"{recorded.runs}/broken/run.json:1"
    assert "not JSON" in str(obstacle["why"])
    assert obstacle["fix"] == "write it whole, then rename it into place"


def test_a_run_directory_whose_session_calls_itself_otherwise_means_that_session(place: Place) -> None:
    place.add_run("second-look", exit_code=0, session_id="first")
    place.daemon_once()
    told = place.call("why", "second-look", "--json").object()
    assert told["subject"] == {"noun": "session", "id": "native:runs/second-look"}
    assert (told["status"], told["not_done"]) == ("completed", [])


def test_an_unknown_id_is_not_found_and_an_ambiguous_one_is_refused(recorded: Place) -> None:
    assert recorded.call("why", "slient").code == 3
    assert "did you mean 'silent'?" in recorded.call("why", "slient").err
    assert recorded.call("why", "c").code == 2


def test_a_refused_decision_and_its_reason_are_named(place: Place) -> None:
    run = place.add_run("held", exit_code=0)
    said = json.loads((run / "run.json").read_text())
    del said["contract"]
    (run / "run.json").write_text(json.dumps(said | {"playbook": "nowhere"}))
    place.daemon_once()
    told = place.call("why", "held", "--json")
    refused = [each for each in told.items("causes") if each.get("verdict") == "refused"]
    assert len(refused) == 1
    assert "no contract: there is no playbook 'nowhere'" in str(refused[0]["summary"])
    (obstacle,) = told.items("not_done")
    assert obstacle["what"] == "it has no contract"


@pytest.fixture
def stuck(ended: Place, tmp_path: Path) -> Place:
    """A session whose last job is held, with another behind it."""
    place = ended.copy_to(tmp_path)
    place.change_store("update jobs set state = 'waiting' where handler = 'sessions/ended'")
    place.change_store(
        "update jobs set state = 'held', error = 'no space left', updated_at = 4e9"
        " where handler = 'sessions/opened'"
    )
    return place


def test_a_held_job_explains_itself_and_what_waits_behind_it(stuck: Place) -> None:
    told = stuck.call("why", "stuck", "--json").items("not_done")
    assert told[0]["what"] == "job 32 (sessions/opened) is held and stops its lane"
    assert told[0]["why"] == "no space left"
    assert "runward queue retry 32" in str(told[0]["fix"])
    assert told[1]["why"] == "job 32 before it is held"
    assert told[1]["fix"] == "`runward why job:32` says why"


def test_a_job_is_named_by_its_number_or_by_last(stuck: Place) -> None:
    newest = stuck.call("queue", "show", "@last", "--json").object()["id"]
    assert stuck.call("why", "job:@last", "--json").object()["subject"] == {"noun": "job", "id": str(newest)}
    for text in ("32", "job:32"):
        told = stuck.call("why", text, "--json").object()
        assert told["subject"] == {"noun": "job", "id": "32"}
        assert told["status"] == "held"


def test_a_number_that_is_a_session_id_means_the_session(stuck: Place) -> None:
    stuck.add_run("32", exit_code=0)
    stuck.daemon_once()
    assert stuck.call("why", "32", "--json").object()["subject"] == {
        "noun": "session",
        "id": "native:runs/32",
    }


def test_an_unknown_job_is_not_found(stuck: Place) -> None:
    for number in ("job:31", "job:x", "job:" + "9" * 40):
        assert stuck.call("why", number).code == 3


def test_a_job_that_waits_for_its_time_says_until_when_and_for_what(stuck: Place) -> None:
    stuck.change_store(
        "update jobs set state = 'waiting', run_after = 4102444800, error = 'busy' where id = 32"
    )
    (obstacle, behind) = stuck.call("why", "stuck", "--json").items("not_done")
    assert obstacle["why"] == "busy; it is tried again at 2100-01-01 00:00:00 UTC"
    assert behind["why"] == "job 32 before it is waiting"


def test_without_a_daemon_what_waits_says_so(stuck: Place) -> None:
    stuck.change_store("update jobs set state = 'waiting', error = null where id = 32")
    (obstacle, _) = stuck.call("why", "stuck", "--json").items("not_done")
    assert (obstacle["why"], obstacle["fix"]) == ("no daemon is running", "start `runward daemon`")


@pytest.mark.parametrize("kind", ["artifact", "principal"])
def test_what_the_exchange_does_not_have_is_named_as_such(place: Place, kind: str) -> None:
    place.daemon_once()
    why = place.call("why", f"{kind}:nosuch")
    assert why.code == 3
    assert f"the exchange has no {kind} 'nosuch'" in why.err


def test_a_chain_says_what_its_newest_run_does_or_why_there_is_none(place: Place) -> None:
    (place.directory / "quick.yaml").write_text(
        "name: quick\ntrigger: {manual: true}\nsteps: [{skill: plain}]\n"
    )
    assert place.call("chain", "define", "quick.yaml").code == 0

    def told() -> tuple[str, list[str]]:
        why = place.call("why", "chain:quick", "--json").object()
        return str(why["answer"]), [str(each) for each in why["next"]]  # type: ignore[union-attr]  # a list

    waits = "nothing has fired it yet: it waits for a person (`runward chain fire`)"
    assert told() == (f"Chain quick is active: {waits}.", ["runward chain show quick"])
    assert place.call("chain", "fire", "quick").code == 0
    place.daemon_once()
    (run,) = place.call("chain", "runs", "--json").objects()
    sentence, following = told()
    assert sentence.startswith(f"Chain quick is active: its newest run, {run['chain_run_id']}, ")
    assert following == ["runward chain runs quick"]
    assert place.call("chain", "pause", "quick").code == 0
    place.daemon_once()
    sentence, following = told()
    assert sentence.startswith("Chain quick is paused: as ")
    assert sentence.endswith(" asked.")
    assert following == ["runward chain resume quick"]
