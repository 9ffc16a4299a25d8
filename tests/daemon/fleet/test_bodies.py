"""What a fleet is told of a session: no titles unless they are wanted, and nothing that the database can't store."""

import json
from pathlib import Path

from tests.daemon.cli.calling import CONTRACT, Place

from runward.config.settings import USUAL
from runward.daemon.fleet.bodies import MOST_BODY, bodies
from runward.daemon.store.reading import reading


def _body(place: Place, *, titles: bool = False) -> dict[str, object]:
    settings = USUAL._replace(state_dir=str(place.state))
    with reading(str(place.state)) as store:
        ((key,),) = store.execute("select key from sessions").fetchall()
        found = bodies(store, settings, titles, [str(key), "native:runs/gone"])
    assert set(found) == {key}
    value: dict[str, object] = json.loads(found[str(key)].text)
    return value


def _recorded(tmp_path: Path, summary: str = "") -> Place:
    place = Place(tmp_path)
    place.furnish()
    place.add_run("one", exit_code=0, contract=CONTRACT, files={"review.md": "r", "report.md": "r"})
    place.daemon_once()
    if summary:
        place.change_store("update sessions set reason_summary = ?", summary)
    return place


def test_a_report_is_what_the_list_says_with_the_verification(tmp_path: Path) -> None:
    place = _recorded(tmp_path)
    (listed,) = place.call("session", "list", "--json").objects()
    body = _body(place, titles=True)
    assert body == {**listed, "root": "runs", "verified": "warning"}


def test_titles_are_told_only_if_they_are_wanted(tmp_path: Path) -> None:
    place = _recorded(tmp_path)
    assert _body(place, titles=True)["path"] == str(place.runs / "one")
    body = _body(place)
    assert (body["path"], body["cwd"], body["prompt"]) == (None, None, None)
    assert str(tmp_path) not in json.dumps(body)


def test_characters_that_the_database_refuses_are_replaced(tmp_path: Path) -> None:
    place = _recorded(tmp_path, "a\0b")
    reason = _body(place)["reason"]
    assert isinstance(reason, dict)
    assert reason["summary"] == "a\ufffdb"


def test_a_report_that_is_too_long_is_shortened(tmp_path: Path) -> None:
    place = _recorded(tmp_path, "x" * (2 * MOST_BODY))
    body = _body(place)
    assert len(json.dumps(body)) <= MOST_BODY
    assert body["status"] == "completed"
