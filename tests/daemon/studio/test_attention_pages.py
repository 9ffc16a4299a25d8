"""The first page: what needs a person, what it is about, and what can be done there."""

import errno
import html
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.test_chain_approvals import fire, waits
from tests.daemon.cli.test_chain_approvals import furnished as chain
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, path_of, tags_of
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.config.studio import StudioSettings
from runward.daemon.inbox import spool
from runward.daemon.inbox.spool import put
from runward.daemon.store import reading
from runward.daemon.studio.attention_pages import AttentionPages

CLAUDE = '\n[[roots]]\nname = "claude"\npath = ".claude/projects"\nlayout = "claude-code"\nhistory = "live"\n'

_KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"


def before_now(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


def entry(name: str) -> dict[str, JsonValue]:
    return {"id": name, "path": f"{name}.md", "required": True, "source": "playbook"}


def fail(
    place: Place,
    name: str,
    ago: float = 50,
    exit_code: int = 3,
    contract: JsonValue = None,
    playbook: str = "",
    agent: str = "",
) -> str:
    """A run that failed so many seconds ago; its key."""
    place.add_run(
        name,
        exit_code=exit_code,
        contract=contract,
        started_at=before_now(ago + 10),
        finished_at=before_now(ago),
        playbook=playbook or None,
        agent=agent or None,
    )
    return f"native:runs/{name}"


def headings(page: str) -> list[str]:
    return re.findall(r"<h[12][^>]*>([^<]*)<", page)


@pytest.fixture
def furnished(place: Place) -> Place:
    """A place in which nothing is wrong."""
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    return place


async def test_where_nothing_is_wrong_nothing_needs_you(furnished: Place, studio: Studio) -> None:
    furnished.add_run("fine", exit_code=0)
    furnished.daemon_once()
    page = (await studio.get("/")).text
    assert headings(page) == ["Nothing needs you"]
    assert 'class="count"' not in page
    assert "No daemon is running" in page


async def test_before_the_first_daemon_the_page_says_how_to_start_it(
    furnished: Place, studio: Studio
) -> None:
    page = (await studio.get("/")).text
    assert headings(page) == ["Nothing needs you"]
    assert "<code>runward daemon</code>" in page


async def test_failures_are_named_with_what_is_missing_and_the_menu_counts_them(
    furnished: Place, studio: Studio
) -> None:
    key = fail(furnished, "silent", exit_code=0, contract={"expected": [entry("review")]})
    fail(furnished, "crashed", ago=100, playbook="deploy")
    furnished.add_run("open", agent="writer")
    furnished.daemon_once()
    page = (await studio.get("/")).text
    assert headings(page) == ["2 things need you", "Failed, and not seen yet", "Running"]
    silent, crashed = (
        next(line for line in page.splitlines() if f">{name}</a>" in line) for name in ("silent", "crashed")
    )
    assert f'<a href="/sessions/{quote(key)}">silent</a>' in silent
    assert '<span class="state critical">' in silent
    assert "review (review.md)" in silent
    assert '<span class="state failed">failed: ' in crashed
    assert "deploy · ended" in crashed
    assert "writer · started" in page
    assert '>Attention <span class="count">2</span></a>' in page
    assert '>Attention <span class="count">2</span></a>' in (await studio.get("/sessions")).text


async def test_the_page_as_json_is_what_the_commands_print(
    filled: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", filled.place.environment["HOME"])  # where the agents are
    found = json.loads((await filled.get("/?format=json")).text)
    assert found == {
        "status": filled.place.call("status", "--json").json(),
        "sessions": filled.place.call("session", "list", "--status", "running", "--json").json(),
    }
    assert [each["session_id"] for each in found["sessions"]] == ["open"]


async def test_what_was_seen_is_gone_from_the_page(furnished: Place, studio: Studio) -> None:
    key = fail(furnished, "crashed")
    fail(furnished, "other", ago=60)
    furnished.daemon_once()
    answer = await studio.send("/", action="seen", session=key)
    assert answer.status == 303
    furnished.daemon_once()
    page = (await studio.get(answer.headers["location"])).text
    assert "Done" in page
    assert headings(page) == ["One thing needs you", "Failed, and not seen yet"]
    again = await studio.send("/", action="seen", session=key)
    assert "had been done before" in (await studio.get(again.headers["location"])).text
    assert (await studio.send("/", action="seen", session="native:runs/nobody")).status == 404


async def test_all_that_were_on_the_page_are_seen_and_no_later_one(furnished: Place, studio: Studio) -> None:
    for number in range(12):
        fail(furnished, f"bad-{number}", ago=100 + number)
    furnished.daemon_once()
    page = (await studio.get("/")).text
    assert headings(page) == ["12 things need you", "Failed, and not seen yet"]
    assert '<a href="/sessions?failed=true">and 2 sessions more</a>' in page
    until = re.search(r'name="until" value="([^"]*)"', page)
    assert until is not None
    fail(furnished, "later", ago=500)  # it ended before the others, but nobody knew
    furnished.daemon_once()
    answer = await studio.send("/", action="seen-all", until=html.unescape(until[1]))
    furnished.daemon_once()
    page = (await studio.get(answer.headers["location"])).text
    assert headings(page) == ["One thing needs you", "Failed, and not seen yet"]
    assert ">later</a>" in page
    assert "Done" in page
    assert (await studio.send("/", action="seen-all", until=MARKUP)).status == 400


async def test_a_disk_that_fills_up_midway_leaves_a_page_that_says_that_a_part_was_stored(
    furnished: Place, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        fail(furnished, name)
    furnished.daemon_once()
    room = iter([1])

    def put_while_there_is_room(state: Path, name: str, content: bytes, **how: bool) -> None:
        if next(room, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(state / "inbox"))
        put(state, name, content, **how)

    monkeypatch.setattr(spool, "put", put_while_there_is_room)
    answer = await studio.send("/", action="seen-all", until="1000000")
    assert (answer.status, "Only a part was stored" in answer.text) == (503, True)
    assert "Nothing was changed" not in answer.text
    again = await studio.send("/", action="seen-all", until="1000000")
    assert (again.status, "Nothing was changed" in again.text) == (503, True)
    furnished.daemon_once()
    assert headings((await studio.get("/")).text) == ["One thing needs you", "Failed, and not seen yet"]


async def test_a_held_job_is_tried_again_from_the_first_page(furnished: Place, studio: Studio) -> None:
    furnished.add_run("one", exit_code=0)
    furnished.daemon_once()
    furnished.change_store(
        "update jobs set state = 'held', error = 'disk full' where handler = 'sessions/opened'"
    )
    page = (await studio.get("/")).text
    assert '<a href="/daemon#queue">1 held: disk full</a>' in page
    assert "<code>runward queue retry --all</code>" in page
    answer = await studio.send("/", action="retry", job="all")
    furnished.daemon_once()
    page = (await studio.get(answer.headers["location"])).text
    assert "Done" in page
    assert headings(page)[0] == "Nothing needs you"


async def test_who_waits_for_an_answer_comes_first_with_what_is_asked(
    furnished: Place, studio: Studio
) -> None:
    chain(furnished, "{}")
    with furnished.daemon():
        run = fire(furnished)
        waits(furnished)
    settings = furnished.directory / "runward.toml"
    settings.write_text(settings.read_text() + CLAUDE)
    path: Path = furnished.directory / f".claude/projects/-app/{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    transcript = Transcript(now=time.time())
    transcript.prompt(f"Deploy {MARKUP}")
    path.write_bytes(transcript.content())
    furnished.daemon_once()
    furnished.change_store("update cursors set activity = 'waiting'")
    page = (await studio.get("/")).text
    assert headings(page)[:2] == ["2 things need you", "Waiting for you"]
    assert f'<a class="button primary" href="/chain-runs/{run}">Review and decide</a>' in page
    assert "<code>sh -c &#39;echo $WITH_PR-$MODE-$(pwd) &gt;&gt; $OUT&#39;</code>" in page
    waiting = next(line for line in page.splitlines() if "waits for an answer" in line)
    assert f'<a href="/sessions/claude-code%3A{SESSION}">Deploy &lt;script&gt;' in waiting


async def test_the_number_in_the_menu_is_of_the_last_commit(furnished: Place, studio: Studio) -> None:
    count = AttentionPages.entry.waiting
    settings = studio.in_force()
    with furnished.daemon():
        for number in range(3):
            fail(furnished, f"bad-{number}", ago=50 + number)
            furnished.call("session", "wait", f"bad-{number}")
            with reading.reading(str(studio.state)) as connection:
                assert count(connection, settings) == number + 1


_WHO_READS = """
import fcntl, struct, sys
with open(sys.argv[1], "rb+") as index:
    marks = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 123, 5, 0)
    print(struct.unpack("hhqqi4x", fcntl.fcntl(index, fcntl.F_GETLK, marks))[4])
"""
"""The bytes of SQLite's index (`-shm`) that readers lock, asked of the kernel by another process."""


def reads(index: Path) -> bool:
    """Whether this process has a reader's lock. The daemon may have one for a moment, and only one holder is named."""
    asked = subprocess.run([sys.executable, "-c", _WHO_READS, index], capture_output=True, check=True)
    return int(asked.stdout) == os.getpid()


async def test_counting_takes_no_lock_from_others_who_read_the_store(
    furnished: Place, studio: Studio
) -> None:
    """A file of SQLite's that the process itself opens and closes costs all its readers their locks."""
    index = studio.state / f"{reading.STORE}-shm"
    with furnished.daemon(), reading.reading(str(studio.state)) as connection:
        reading.epoch(connection)
        wait_for(lambda: reads(index), "a lock of this reader")
        AttentionPages.entry.waiting(connection, studio.in_force())
        wait_for(lambda: reads(index), "a lock of this reader")


async def test_a_studio_that_only_shows_has_no_button_here(furnished: Place, studio: Studio) -> None:
    fail(furnished, "crashed")
    furnished.daemon_once()
    studio.settings = StudioSettings(read_only=True)
    assert "<button" not in (await studio.get("/")).text


async def test_an_unknown_filter_of_the_first_page_is_named(studio: Studio) -> None:
    answer = await studio.get("/?color=red")
    assert (answer.status, "color" in answer.text) == (400, True)


async def test_what_failing_runs_say_becomes_no_markup_and_shows_no_secret(
    furnished: Place, studio: Studio
) -> None:
    name = f"{MARKUP.replace('/', '')}{INVISIBLE}"
    fail(furnished, name, playbook=MARKUP, agent=INVISIBLE)
    entries: JsonValue = [entry("review") | {"description": MARKUP}]
    fail(furnished, "silent", exit_code=0, contract={"expected": entries}, agent=f"use {_KEY}")
    furnished.add_run(f"open{name}", agent=MARKUP)
    run: Path = furnished.add_run("broken", exit_code=0)
    (run / "run.json").write_text(MARKUP)
    furnished.daemon_once()
    page = (await studio.get("/")).text
    tags, attributes = tags_of(page)
    assert not {"script", "img", "iframe", "style", "svg"} & set(tags)
    assert not [each for each in attributes if each.startswith("on") or each == "style"]
    assert not [char for char in page if not char.isprintable() and char != "\n"]
    assert "\\u202e" in page
    assert _KEY not in page
    assert path_of(f"native:runs/{name}") in page
