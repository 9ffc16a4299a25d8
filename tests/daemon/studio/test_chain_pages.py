"""The pages of chains, their runs and invocations: what they show, and what a person can decide there."""

import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from tests.daemon.cli.calling import Place, Recorded
from tests.daemon.cli.test_chain import runs_of
from tests.daemon.studio.conftest import Studio, _logged_in
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, tags_of
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.config.studio import StudioSettings
from runward.daemon.store import reading
from runward.daemon.studio import chain_pages, invocation_pages
from runward.handlers.left_files import artifacts_in

REVIEW = """\
command: [sh, -c, 'printf "%s" "$0" > outcome.json; echo "$1"', '{{ with.outcome }}', '{{ with.said }}']
"""
MERGE = """\
[actions.merge]
command = ["sh", "-c", 'echo merging; test "$0" != fail', "{{ with.pr }}"]
"""
CHAIN = """\
name: merge
description: "Review <b>it</b>, and merge it."
trigger: {any_of: [{event: pr.opened}, {schedule: "0 2 * * *"}]}
steps:
  - {id: review, skill: judge, with: {outcome: "{{ trigger.outcome }}", said: "{{ trigger.said }}"}}
  - id: merge
    action: merge
    condition: "{{ steps.review.outcome.verdict != '<i>' }}"
    with: {pr: "{{ trigger.pr }}"}
    env: {MODE: "{{ trigger.said }}"}
    requires_approval: true
  - {id: later, action: merge, with: {pr: "fail"}}
"""
ONE = "name: one\ntrigger: {manual: true}\nsteps: [{action: merge, with: {pr: '{{ trigger.pr }}'}}]\n"
HOSTILE = MARKUP + INVISIBLE
OUTCOME = {"outcome_kind": "review_verdict", "summary": HOSTILE, "verdict": "APPROVE"}
WRONG = "name: wrong\ntrigger: {event: pr.opened, colour: red}\nsteps:\n  - {action: merge}\n"


def approvals(place: Place) -> list[dict[str, JsonValue]]:
    return place.call("chain", "approvals", "--json").objects()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A place with a chain whose run waits for a person, after a step that said hostile things."""
    place = Place(tmp_path_factory.mktemp("chains"))
    place.furnish()
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + MERGE)
    (place.directory / "playbooks/judge.playbook.yaml").write_text(REVIEW)
    (place.directory / "merge.yaml").write_text(CHAIN)
    assert place.call("chain", "define", "merge.yaml").code == 0
    (place.directory / "chains/wrong.yaml").write_text(WRONG)
    fields = {"outcome": json.dumps(OUTCOME), "said": HOSTILE, "pr": "7"}
    words = [f"{key}:={json.dumps(value)}" for key, value in fields.items()]
    assert place.call("event", "emit", "pr.opened", *words).code == 0
    with place.daemon():
        wait_for(lambda: len(approvals(place)) == 1, "the approval")
        assert place.call("chain", "pause", "merge", "--note", HOSTILE).code == 0
        assert place.call("event", "emit", "pr.opened", "pr=8").code == 0
        wait_for(lambda: bool(place.rows("select 1 from firings where run is null")), "the skipped firing")
        assert place.call("chain", "resume", "merge").code == 0
    return Recorded(place)


@pytest.fixture
def waits(kept: Recorded) -> Studio:
    """A Studio over that place, as it was then."""
    return _logged_in(kept.anew())


def run_path(studio: Studio) -> str:
    return f"/chain-runs/{runs_of(studio.place)[0]['chain_run_id']}"


def fields_of(page: str) -> dict[str, str]:
    """The hidden fields of the form that decides."""
    form = next(each for each in page.split("<form")[1:] if 'name="approval"' in each)
    return dict(re.findall('type="hidden" name="([^"]+)" value="([^"]*)"', form))


def fire_one(place: Place) -> str:
    """A run of a chain of one step, which fails."""
    (place.directory / "chains/one.yaml").write_text(ONE)
    return place.call("chain", "fire", "one", "pr=fail").out.strip()


def steps_of(place: Place) -> dict[object, object]:
    steps = place.call("chain", "run", "show", "@last", "--json").items("steps")
    return {each["id"]: each["status"] for each in steps}


async def test_a_chain_run_shows_its_steps_with_conditions_values_and_outcomes(waits: Studio) -> None:
    page = (await waits.get(run_path(waits))).text
    assert "step merge waits for a person" in page
    assert '<span class="state completed">completed</span>' in page
    assert "steps.review.outcome.verdict != &#39;&lt;i&gt;&#39;" in page
    assert '<span class="chip green">true</span>' in page
    assert '<span class="state pending">pending</span>' in page
    assert ">APPROVE</span>" in page
    assert "fired by pr.opened" in page
    assert "chains/fire decided: step review is started" in page


async def test_the_page_shows_all_that_an_approval_is_bound_to(waits: Studio) -> None:
    page = (await waits.get(run_path(waits))).text
    (asked,) = approvals(waits.place)
    bound = asked["shown"]
    assert isinstance(bound, dict)
    assert f"<code>{asked['shown_hash']}</code>" in page
    assert "echo merging" in page
    assert "&#34;MODE&#34;" in page
    hashes = [str(each["sha256"]) for each in artifacts_in(bound) if each["sha256"]]
    assert hashes
    assert [each for each in hashes if each not in page] == []
    assert "What it does not cover" in page


async def test_a_chain_shows_its_trigger_times_misses_runs_and_definition(waits: Studio) -> None:
    page = (await waits.get("/chains/merge")).text
    assert "fired by any of these" in page
    times = page[page.index("Next: ") : page.index("</p>", page.index("Next: "))]
    assert times.count("<time ") == 3
    assert "firing.skipped.paused" in page
    assert run_path(waits) in page
    assert "description: &#34;Review &lt;b&gt;it&lt;/b&gt;, and merge it.&#34;" in page


async def test_a_wrong_chain_shows_each_problem_with_its_line_and_fix(waits: Studio) -> None:
    page = (await waits.get("/chains/wrong")).text
    assert "wrong.yaml:2:" in page
    assert "colour" in page
    assert "It can't fire until its file is right." in page
    assert 'value="fire"' not in page
    assert '<span class="state invalid">wrong</span>' in (await waits.get("/chains")).text


async def test_a_chain_whose_file_is_gone_still_shows_what_it_did(waits: Studio) -> None:
    (waits.place.directory / "chains/merge.yaml").unlink()
    page = (await waits.get("/chains/merge")).text
    assert "its file is gone" in page
    assert run_path(waits) in page


@pytest.mark.parametrize(
    "name", ["nothing", "..%2Fmerge.yaml", "%2Fetc%2Fpasswd", "merge.yaml", ".%2Fmerge.yaml", "%00"]
)
async def test_only_names_of_chains_have_pages_and_never_files(waits: Studio, name: str) -> None:
    assert (await waits.get(f"/chains/{name}")).status == 404


@pytest.mark.parametrize("path", ["/chain-runs/cr_", "/chain-runs/x", "/invocations/inv_", "/invocations/x"])
async def test_what_does_not_exist_has_a_page_that_says_so(waits: Studio, path: str) -> None:
    answer = await waits.get(path)
    assert (answer.status, "There is no" in answer.text) == (404, True)


@pytest.mark.parametrize(
    "path", ["/chains?colour=1", "/chains/merge?status=great", "/invocations?after=x,y", "/chain-runs/x?a=b"]
)
async def test_an_unknown_filter_is_refused(waits: Studio, path: str) -> None:
    assert (await waits.get(path)).status == 400


async def test_invocations_show_who_asked_and_the_final_outcome_of_each_step(waits: Studio) -> None:
    listed = json.loads((await waits.get("/invocations?format=json")).text)
    assert listed == waits.place.call("invocation", "list", "--json").json()
    root = next(each for each in listed if each["skill"] == "chain")
    page = (await waits.get(f"/invocations/{root['invocation_id']}")).text
    assert "<dt>Asked by</dt><dd>pr.opened</dd>" in page
    assert "Final outcome of each step" in page
    assert ">APPROVE</span>" in page
    one = next(each for each in listed if each["skill"] == "judge")
    page = (await waits.get(f"/invocations/{one['invocation_id']}")).text
    assert f"/sessions/{quote(one['session_key'])}" in page
    assert 'class="panel card"' in page


async def test_each_page_as_json_is_what_the_commands_print(waits: Studio) -> None:
    def printed(*words: str) -> JsonValue:
        return waits.place.call(*words, "--json").json()

    async def data(path: str) -> dict[str, JsonValue]:
        found = json.loads((await waits.get(f"{path}?format=json")).text)
        assert isinstance(found, dict)
        return found

    run = str(runs_of(waits.place)[0]["chain_run_id"])
    assert await data(f"/chain-runs/{run}") == {
        "chain_run": printed("chain", "run", "show", run),
        "approvals": printed("chain", "approvals"),
        "why": printed("why", run),
    }
    assert await data("/chains") == {
        "chains": printed("chain", "list"),
        "schedules": printed("schedule", "list"),
        "chain_runs": printed("chain", "runs"),
    }
    for name in ("merge", "wrong"):
        assert await data(f"/chains/{name}") == {
            "chain": printed("chain", "show", name),
            "schedules": printed("schedule", "list") if name == "merge" else [],
            "chain_runs": printed("chain", "runs", name),
        }
    for each in waits.place.call("invocation", "list", "--json").objects():
        identifier = str(each["invocation_id"])
        assert await data(f"/invocations/{identifier}") == printed("invocation", "show", identifier)


async def test_nothing_that_a_step_or_an_event_says_becomes_markup_or_stays_invisible(waits: Studio) -> None:
    invocations = waits.place.call("invocation", "list", "--json").objects()
    paths = [run_path(waits), "/chains", "/chains/merge", "/chains/wrong", "/invocations"]
    paths += [f"/invocations/{each['invocation_id']}" for each in invocations]
    for path in (
        *paths,
        f"/invocations?skill={quote(HOSTILE)}",
        f"/chains/{quote(HOSTILE.replace('/', ''))}",
    ):
        page = (await waits.get(path)).text
        tags, attributes = tags_of(page)
        assert not {"script", "img", "iframe", "style", "svg", "b" if path == "/chains/merge" else "i"} & set(
            tags
        )
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert not [char for char in page if not char.isprintable() and char != "\n"]
    assert "\\u202e" in (await waits.get(run_path(waits))).text


async def test_before_the_first_chain_the_pages_say_what_to_do(studio: Studio) -> None:
    assert "<code>runward chain define FILE</code>" in (await studio.get("/chains")).text
    assert "No invocation yet." in (await studio.get("/invocations")).text
    assert 'href="/chains"' not in (await studio.get("/sessions")).text


@pytest.fixture
def acting(waits: Studio) -> Iterator[Studio]:
    """The same, and a daemon that runs."""
    with waits.place.daemon():
        yield waits


async def test_an_approval_from_the_page_starts_the_step_and_a_second_decision_is_refused_in_words(
    acting: Studio,
) -> None:
    path = run_path(acting)
    fields = fields_of((await acting.get(path)).text)
    answer = await acting.send(path, **fields, action="approve", note="looks right")
    assert answer.status == 303
    again = await acting.send(path, **fields, action="approve", note="looks right")
    assert again.headers["location"] == answer.headers["location"]
    wait_for(lambda: runs_of(acting.place)[0]["status"] == "failed", "the end of the chain run")
    assert steps_of(acting.place) == {"review": "completed", "merge": "completed", "later": "failed"}
    page = (await acting.get(answer.headers["location"])).text
    assert "Done" in page
    assert f"{fields['approval']}:</span> approved by" in page
    assert ": looks right" in page
    assert 'name="approval"' not in page
    assert "stdout</a>, without redaction</p><pre>merging</pre>" in page, "of the step that failed"
    other = await acting.send(path, approval=fields["approval"], digest=fields["digest"], action="deny")
    refused = "it is already approved"
    wait_for(lambda: refused in acting.place.call("why", path.rpartition("/")[2]).out, "the refusal")
    assert refused in (await acting.get(other.headers["location"])).text


async def test_of_two_browsers_that_decide_without_a_daemon_the_first_counts_once_there_is_one(
    waits: Studio,
) -> None:
    path = run_path(waits)
    pages = [fields_of((await waits.get(path)).text) for _ in range(2)]
    denied = await waits.send(path, **pages[0], action="deny")
    approved = await waits.send(path, **pages[1], action="approve")
    for each in (denied, approved):
        assert "It is stored, and not decided yet." in (await waits.get(each.headers["location"])).text
    with waits.place.daemon():
        run = path.rpartition("/")[2]
        wait_for(lambda: "it is already denied" in waits.place.call("why", run).out, "the refusal")
    assert runs_of(waits.place)[0]["status"] == "aborted"
    assert "Done" in (await waits.get(denied.headers["location"])).text
    assert "it is already denied" in (await waits.get(approved.headers["location"])).text


async def test_files_that_an_approval_can_not_cover_are_named_and_left_out_with_a_tick(waits: Studio) -> None:
    place, deep = waits.place, "/".join(["d"] * 45)
    (place.directory / "playbooks/deep.playbook.yaml").write_text(
        f"command: [sh, -c, 'mkdir -p {deep}; echo x > {deep}/hidden']\n"
    )
    (place.directory / "chains/one.yaml").write_text(
        "name: one\ntrigger: {manual: true}\nsteps:\n  - {skill: deep}\n"
        "  - {action: merge, with: {pr: '8'}, requires_approval: true}\n"
    )
    with place.daemon():
        run = place.call("chain", "fire", "one").out.strip()
        wait_for(lambda: len(approvals(place)) == 2, "the approval")
        page = (await waits.get(f"/chain-runs/{run}")).text
        assert f"<code>{'/'.join(['d'] * 40)}</code> has too many entries, or too deep ones" in page
        refused = await waits.send(f"/chain-runs/{run}", **fields_of(page), action="approve")
        wait_for(lambda: "approve without: --without" in place.call("why", run).out, "the refusal")
        assert "approve without" in (await waits.get(refused.headers["location"])).text
        await waits.send(f"/chain-runs/{run}", **fields_of(page), action="approve", without="yes")
        wait_for(lambda: runs_of(place)[0]["status"] == "completed", "the end of the chain run")


async def test_a_denial_ends_the_chain_run(acting: Studio) -> None:
    path = run_path(acting)
    fields = fields_of((await acting.get(path)).text)
    await acting.send(path, **fields, action="deny", note=HOSTILE)
    wait_for(lambda: runs_of(acting.place)[0]["status"] == "aborted", "the end of the chain run")
    assert "script" not in tags_of((await acting.get(path)).text)[0]


@pytest.mark.parametrize("is_directory", [False, True], ids=["the log", "its directory"])
async def test_a_link_in_place_of_a_steps_log_is_not_followed(acting: Studio, is_directory: bool) -> None:
    secret = acting.place.directory / "secret"
    secret.mkdir()
    (secret / "stdout.log").write_text("the secret")
    run = fire_one(acting.place)
    wait_for(lambda: runs_of(acting.place)[0]["status"] == "failed", "the end of the chain run")
    assert "<pre>merging</pre>" in (await acting.get(f"/chain-runs/{run}")).text
    (directory,) = acting.place.runs.glob(f"{run}-0-*")
    if is_directory:
        directory.rename(directory.with_name("away"))
        directory.symlink_to(secret)
    else:
        (directory / "stdout.log").unlink()
        (directory / "stdout.log").symlink_to(secret / "stdout.log")
    page = await acting.get(f"/chain-runs/{run}")
    assert (page.status, "the secret" in page.text, "merging" in page.text) == (200, False, False)


async def test_an_approval_counts_only_for_what_the_page_showed(waits: Studio) -> None:
    path = run_path(waits)
    fields = fields_of((await waits.get(path)).text)
    answer = await waits.send(path, **{**fields, "digest": "0" * 64}, action="approve")
    assert (answer.status, "something else than what the page showed" in answer.text) == (409, True)
    answer = await waits.send(path, approval=fields["approval"], action="approve")
    assert (answer.status, "lacks the field digest" in answer.text) == (400, True)
    answer = await waits.send("/chain-runs/cr_other", **fields, action="approve")
    assert answer.status == 404
    assert not list((waits.state / "inbox").glob("*.json"))


async def test_a_chain_run_is_cancelled_with_a_reason(acting: Studio) -> None:
    path = run_path(acting)
    assert (await acting.send(path, action="cancel", reason="the wrong branch")).status == 303
    wait_for(lambda: runs_of(acting.place)[0]["status"] == "cancelled", "the end of the chain run")
    page = (await acting.get(path)).text
    assert "the wrong branch" in page
    assert "Cancel this run" not in page


async def test_a_chain_is_fired_with_values_and_paused_and_resumed(acting: Studio) -> None:
    (acting.place.directory / "chains/one.yaml").write_text(ONE)
    answer = await acting.send("/chains/one", action="fire", values="pr=8\n\nmore:=[1]\n")
    wait_for(lambda: bool(acting.place.call("chain", "runs", "one", "--json").objects()), "the chain run")
    (run,) = acting.place.call("chain", "runs", "one", "--json").objects()
    page = (await acting.get(answer.headers["location"])).text
    assert f'It is chain run <a href="/chain-runs/{run["chain_run_id"]}">' in page
    shown = json.loads((await acting.get(f"/chain-runs/{run['chain_run_id']}?format=json")).text)
    assert shown["chain_run"]["trigger_event"] == {"pr": "8", "more": [1]}
    wait_for(lambda: runs_of(acting.place)[0]["status"] == "completed", "the end of the chain run")
    for action, status in (("pause", "paused"), ("disable", "disabled"), ("resume", "active")):
        answer = await acting.send("/chains/one", action=action, note="a freeze")
        wait_for(
            lambda status=status: (
                acting.place.call("chain", "show", "one", "--json").object()["status"] == status
            ),  # type: ignore[misc] # the loop's value
            status,
        )
        assert "Done" in (await acting.get(answer.headers["location"])).text
        if status == "paused":
            assert ": a freeze</p>" in (await acting.get("/chains/one")).text
            refused = await acting.send("/chains/one", action="fire")
            assert (refused.status, "is paused. Resume it first." in refused.text) == (409, True)


@pytest.mark.parametrize(
    ("path", "fields", "status", "says"),
    [
        ("/chains/merge", {"action": "fire", "values": "pr"}, 400, "write KEY=TEXT or KEY:=JSON"),
        ("/chains/merge", {"action": "fire", "values": "pr:={"}, 400, "Nothing was fired"),
        ("/chains/merge", {"action": "fire", "values": "a=1\na=2"}, 400, "given twice"),
        ("/chains/wrong", {"action": "fire"}, 409, "is not valid"),
        ("/chains/nothing", {"action": "fire"}, 404, "There is no chain"),
        ("/chains/nothing", {"action": "pause"}, 404, "There is no chain"),
        ("/chain-runs/cr_x", {"action": "cancel"}, 404, "There is no chain run"),
    ],
)
async def test_what_can_not_be_asked_for_is_refused_and_nothing_is_stored(
    waits: Studio, path: str, fields: dict[str, str], status: int, says: str
) -> None:
    answer = await waits.send(path, **fields)
    assert (answer.status, says in html.unescape(answer.text)) == (status, True)
    assert not list((waits.state / "inbox").glob("*.json"))


async def test_a_run_that_no_daemon_has_recorded_yet_has_a_page_and_can_be_cancelled(waits: Studio) -> None:
    run = waits.place.call("chain", "fire", "merge", "pr=9").out.strip()
    page = (await waits.get(f"/chain-runs/{run}")).text
    assert "asked for, not begun" in page
    assert "no daemon is running" in page
    assert json.loads((await waits.get(f"/chain-runs/{run}?format=json")).text) == {
        "chain_run": waits.place.call("chain", "run", "show", run, "--json").json(),
        "approvals": [],
        "why": waits.place.call("why", run, "--json").json(),
    }
    assert (await waits.send(f"/chain-runs/{run}", action="cancel")).status == 303


async def test_what_looks_like_a_secret_in_a_trigger_is_not_shown(waits: Studio) -> None:
    run = waits.place.call("chain", "fire", "merge", "password=hunter2hunter2").out.strip()
    page = (await waits.get(f"/chain-runs/{run}")).text
    assert ("hunter2hunter2" in page, "[redacted]" in page) == (False, True)


async def test_a_studio_that_only_shows_has_no_forms(waits: Studio) -> None:
    waits.settings = StudioSettings(read_only=True)
    for path in (run_path(waits), "/chains/merge"):
        assert 'method="post"' not in (await waits.get(path)).text


@pytest.mark.parametrize("most", [1])
@pytest.mark.parametrize(
    ("path", "pattern"),
    [("/invocations?skill=chain", "/invocations/"), ("/chains?status=aborted", "/chain-runs/")],
)
async def test_a_search_looks_at_some_rows_and_offers_to_go_on(
    waits: Studio, monkeypatch: pytest.MonkeyPatch, most: int, path: str, pattern: str
) -> None:
    place = waits.place
    first = runs_of(place)[0]["chain_run_id"]
    with place.daemon():
        fire_one(place)
        wait_for(lambda: runs_of(place)[0]["status"] == "failed", "the end of the chain run")
        assert place.call("chain", "deny", str(first)).code == 0
    monkeypatch.setattr(reading, "MOST_SEARCHED", most)
    address, found, count = path, 0, 0
    while True:
        page = (await waits.get(address)).text
        found += page.count(f'class="main"><a href="{pattern}')
        count += 1
        older = re.search('<a href="([^"]+)" rel="next">search older</a>', page)
        if older is None:
            break
        address = html.unescape(older[1])
    assert found == (2 if pattern == "/invocations/" else 1)
    assert count > 1


@pytest.mark.parametrize("size", [1, 2])
async def test_pages_of_older_runs_and_invocations_have_each_once(
    waits: Studio, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(chain_pages, "PAGE", size)
    monkeypatch.setattr(invocation_pages, "PAGE", size)
    for path, pattern, command in (
        ("/chains", 'class="main"><a href="/chain-runs/([^"]+)"', ("chain", "runs")),
        ("/invocations", 'class="main"><a href="/invocations/([^"]+)"', ("invocation", "list")),
    ):
        address, found = path, []
        while True:
            page = (await waits.get(address)).text
            found += re.findall(pattern, page)
            older = re.search('<a href="([^"]+)" rel="next">older</a>', page)
            if older is None:
                break
            address = html.unescape(older[1])
        key = "chain_run_id" if path == "/chains" else "invocation_id"
        assert found == [each[key] for each in waits.place.call(*command, "--json").objects()]
