"""A state directory that was emptied, while the run directories stayed."""

from tests.daemon.cli.calling import CONTRACT, Place


def test_journals_get_no_second_set_of_lines(place: Place) -> None:
    place.add_run("whole", exit_code=0, contract=CONTRACT, files={"review.md": "a", "report.md": "b"})
    place.add_run("lacking", exit_code=0, contract=CONTRACT)
    place.add_run("going", exit_code=None)
    place.daemon_once()
    journals = sorted(place.runs.glob("*/events.jsonl"))
    before = {path: path.read_bytes() for path in journals}
    assert len(before) == 3
    for path in place.state.iterdir():
        if path.is_file():
            path.unlink()
    place.daemon_once()
    assert {path: path.read_bytes() for path in journals} == before
    place.end_run("going", 0)
    place.daemon_once()
    events = (place.runs / "going/events.jsonl").read_bytes()
    assert events.count(b'"event":"session_started"') == events.count(b'"event":"session_finished"') == 1
