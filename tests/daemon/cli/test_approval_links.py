"""Approvals that are answered by the links of their notices, with a real daemon."""

import http.client
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_chain import over, runs_of
from tests.daemon.cli.test_chain_approvals import fire, furnished, out, waits
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.inbox.approval_answers import answer_request
from runward.daemon.inbox.spool import leave_request
from runward.daemon.store.reading import reading
from runward.daemon.store.tables.approvals import open_approvals

LISTEN = """
[http]
listen = "127.0.0.1:0"

[[notify]]
on = ["approval.asked"]
command = ["sh", "-c", 'echo "$1" >> "$0"', "FILE", "{{ with.url }}"]
"""


class Page(NamedTuple):
    """What a browser was given."""

    status: int
    headers: dict[str, str]
    text: str


@pytest.fixture
def linking(place: Place) -> Place:
    """A place whose daemon listens, and whose notices leave their links in a file."""
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + LISTEN.replace("FILE", str(links_file(place))))
    return furnished(place, "{}")


def links_file(place: Place) -> Path:
    return place.directory / "links"


def links(place: Place) -> list[str]:
    return links_file(place).read_text().splitlines() if links_file(place).exists() else []


def link(place: Place, number: int = 1) -> str:
    """The link of the notice of this number."""
    wait_for(lambda: len(links(place)) >= number, "the notice")
    return links(place)[number - 1]


def browse(url: str, method: str = "GET", **form: str) -> Page:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=PATIENCE_S)
    headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
    try:
        connection.request(method, f"{where.path}?{where.query}", urlencode(form) if form else None, headers)
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Page(answer.status, told, answer.read().decode())
    finally:
        connection.close()


@pytest.mark.prove
def test_a_link_shows_what_will_run_and_only_a_post_decides_once(linking: Place) -> None:
    with linking.daemon():
        fired = fire(linking)
        asked = waits(linking)
        url = link(linking)
        page = browse(url)
        assert page.status == 200
        assert "echo $WITH_PR-$MODE-$(pwd) &gt;&gt; $OUT" in page.text
        assert str(asked["shown_hash"]) in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert page.headers["referrer-policy"] == "no-referrer"
        assert browse(url, "HEAD").status == 200
        assert waits(linking)["approval_id"] == asked["approval_id"], "looking decides nothing"
        assert browse(url, "POST", decision="perhaps").status == 400
        assert browse(url, "POST").status == 400
        for wrong in (
            url[:-1],
            url[:-1] + ("0" if url[-1] != "0" else "1"),
            url.partition("?")[0],
            url + "é",
        ):
            assert browse(wrong.encode("ascii", "ignore").decode()[: len(url) - 1]).status == 403
            assert browse(url[:-1] + "x", "POST", decision="approve").status == 403
        assert waits(linking)["approval_id"] == asked["approval_id"]
        done = browse(url, "POST", decision="approve", note="looks <right>")
        assert (done.status, "The step is approved" in done.text) == (200, True)
        wait_for(lambda: over(linking, 1), "the end of the chain run")
        for method, form in (("GET", {}), ("POST", {"decision": "approve"}), ("POST", {"decision": "deny"})):
            used = browse(url, method, **form)
            assert (used.status, "was already approved, by link" in used.text) == (410, True)
    assert runs_of(linking)[0]["status"] == "completed"
    assert out(linking).read_text().splitlines() == [f"7-fast-{linking.directory}"]
    assert "is approved by link: looks <right>" in linking.call("why", fired).out
    assert linking.rows("select decided_by, note from approvals") == [("link", "looks <right>")]
    assert (linking.state / "links.key").stat().st_mode & 0o777 == 0o600


@pytest.mark.prove
def test_a_link_that_is_used_many_times_at_once_decides_once(linking: Place) -> None:
    with linking.daemon():
        fire(linking)
        waits(linking)
        url = link(linking)
        with ThreadPoolExecutor(6) as people:
            pages = list(people.map(lambda _: browse(url, "POST", decision="approve"), range(6)))
        assert {page.status for page in pages} <= {200, 409, 410}
        assert 200 in {page.status for page in pages}
        wait_for(lambda: over(linking, 1), "the end of the chain run")
    assert out(linking).read_text().splitlines() == [f"7-fast-{linking.directory}"]


@pytest.mark.prove
def test_what_has_changed_is_refused_and_its_next_link_holds(linking: Place) -> None:
    with linking.daemon():
        fire(linking)
        waits(linking)
        first = link(linking)
        outcome = next(linking.runs.glob("cr_*-0-1/**/outcome.json"))
        outcome.write_text('{"outcome_kind": "review_verdict", "verdict": "APPROVE", "by": "somebody"}')
        refused = browse(first, "POST", decision="approve")
        assert (refused.status, "has changed" in refused.text) == (409, True)
        second = link(linking, 2)
        assert second != first
        void = browse(first)
        assert (void.status, "a newer notice has its link" in void.text) == (410, True)
        assert browse(second, "POST", decision="deny", note="no").status == 200
        wait_for(lambda: over(linking, 1), "the end of the chain run")
    assert runs_of(linking)[0]["status"] == "aborted"


@pytest.mark.prove
def test_a_link_holds_across_restarts_until_its_time_is_over(linking: Place) -> None:
    furnished(linking, "{expires: 1h}")
    settings = linking.directory / "runward.toml"
    with linking.daemon():
        fire(linking)
        waits(linking)
        before = link(linking)
    settings.write_text(settings.read_text().replace("[http]", '[http]\nurl = "https://runward.example/at/"'))
    with linking.daemon():
        told = linking.call("status", "--json").object()["http"]
        assert isinstance(told, dict)
        here = f"{told['address']}/approvals/{before.rpartition('/')[2]}"
        assert browse(here).status == 200
        linking.change_store("update approvals set expires_at = asked_at")
        over_now = browse(here, "POST", decision="approve")
        assert (over_now.status, "The time to decide is over" in over_now.text) == (410, True)
        fire(linking)
        assert link(linking, 2).startswith("https://runward.example/at/approvals/ap_")


@pytest.mark.prove
def test_where_it_matters_who_approves_there_is_no_link(linking: Place) -> None:
    furnished(linking, "{not_by_launcher: true}")
    with linking.daemon():
        fire(linking)
        waits(linking)
        assert link(linking) == ""
        with reading(str(linking.state)) as connection:
            (row,) = open_approvals(connection)
        asked = leave_request(linking.state, answer_request(row, "approved", "", by_link=True))
        sql = f"select d.summary from decisions d join events e on e.seq = d.event where e.key = '{asked}'"
        ((why,),) = wait_for(lambda: linking.rows(sql), "the refusal")
        assert "a link does not say who uses it" in str(why)
        assert waits(linking)["approval_id"] == row.id
