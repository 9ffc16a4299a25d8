"""The list of sessions over very many of them: the next page, a search and a filter, by keyboard and without a script."""

from collections.abc import Iterator

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.browser.conftest import PHONE, WIDE, Person, serve_studio
from tests.daemon.studio.browser.test_story import by_keyboard

SESSIONS = 100_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with a failed run, and copies of its row, each one second older than the one before, and its daemon: for all who read."""
    place = Place(tmp_path_factory.mktemp("many"))
    place.furnish()
    place.add_run("seed", exit_code=3)
    place.daemon_once()
    names = [str(name) for (name,) in place.rows("select name from pragma_table_info('sessions')")]
    changed = {
        "key": "'native:runs/run-' || n",
        "session_id": "'run-' || n",
        "path": "path || '-' || n",
        "started_at": "started_at - n",
        "finished_at": "finished_at - n",
    }
    assert changed.keys() <= set(names)
    values = ", ".join(changed.get(name, name) for name in names)
    place.change_store(
        f"with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < {SESSIONS})"
        f" insert into sessions ({', '.join(names)}) select {values} from sessions, numbers"
    )
    serve_studio(place)
    with place.daemon():
        yield place


@pytest.fixture
def served(many: Place) -> Place:
    """The place of the person."""
    return many


@pytest.mark.prove
@pytest.mark.parametrize(("width", "has_script"), [(WIDE, True), (PHONE, False)])
def test_a_person_finds_one_of_very_many_sessions(person: Person, width: int, has_script: bool) -> None:
    page = person.logged_in(width, has_script=has_script)
    main = page.locator("main")
    person.open(page, "/sessions")
    assert main.locator("tbody tr").count() == 100
    by_keyboard(page, main.get_by_role("link", name="older"))
    assert main.get_by_role("link", name="run-100", exact=True).count() == 1
    assert main.locator("tbody tr").count() == 100
    page.get_by_label("Search ids").fill("run-2345")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert main.get_by_role("link", name="run-2345", exact=True).count() == 1
    assert main.locator("tbody tr").count() == 11
    by_keyboard(page, main.get_by_role("link", name="run-2345", exact=True))
    page.get_by_role("heading", name="run-2345").wait_for()
    person.open(page, "/sessions?status=completed")
    assert "No session matches" in main.inner_text()
