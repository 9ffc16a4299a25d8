"""The timeline of a session: everything in the order of time, in pages of bounded work."""

import html
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.cli.calling import SETTINGS, Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, path_of, tags_of
from tests.handlers.layouts import cline_lines, copilot_lines, opencode_rows
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript, notification

from runward.config.json_value import JsonValue, objects
from runward.daemon.rundir import recorded_files
from runward.daemon.views import timeline
from runward.handlers.secrets import json_without_secrets

KEY = f"claude-code:{SESSION}"
SECRET = "Authorization: Bearer abcdefgh12345678"
ROOT = '[[roots]]\nname = "claude"\npath = "claude"\nlayout = "claude-code"\nhistory = "{}"\n'

Told = Callable[..., Path]


@pytest.fixture
def tell(place: Place) -> Told:
    """Writes a Claude Code session, which a daemon then judges; its reply can be given, and whether it is history."""

    def written(reply: str = "I will.", history: str = "live") -> Path:
        (place.directory / "runward.toml").write_text(SETTINGS + ROOT.format(history))
        transcript = place.directory / f"claude/-app/{SESSION}.jsonl"
        transcript.parent.mkdir(parents=True)
        told = Transcript(now=time.time() - 100)
        told.prompt("Make a file.")
        told.text(reply, "tool_use")
        told.result(told.call(command="ls"), "a file")
        told.user(notification())
        told.text("Done.")
        transcript.write_bytes(told.content())
        os.utime(transcript, (time.time() - 100, time.time() - 100))
        place.daemon_once()
        return transcript

    return written


async def shown(studio: Studio, key: str, query: str = "") -> dict[str, JsonValue]:
    answer = await studio.get(f"{path_of(key)}?format=json{query}")
    assert answer.status == 200, answer.text
    found: dict[str, JsonValue] = json.loads(answer.text)
    return found


async def entries(studio: Studio, key: str) -> list[dict[str, JsonValue]]:
    """The entries of all pages."""
    found: list[dict[str, JsonValue]] = []
    query = ""
    for _ in range(1000):
        page = await shown(studio, key, query)
        some = page["timeline"]
        assert isinstance(some, list)
        found += [each for each in some if isinstance(each, dict)]
        if page["next"] is None:
            return found
        query = f"&after={page['next']}"
    raise AssertionError("the timeline does not end")


async def test_the_page_has_the_tokens_and_the_cost_that_the_command_shows(
    place: Place, studio: Studio, tell: Told
) -> None:
    tell()
    whole = place.call("session", "show", KEY).out
    said = dict(re.findall(r"^(Tokens|Cost): +(.+)$", whole, re.MULTILINE))
    assert "at list prices of" in said["Cost"]
    page = html.unescape((await studio.get(path_of(KEY))).text)
    facts = dict(re.findall(r"<dt>(Tokens|Cost)</dt><dd>([^<]+)</dd>", page))
    assert facts == said


@pytest.mark.parametrize("history", ["live", "record"])
async def test_params_that_are_nested_deeply_harm_nothing(studio: Studio, tell: Told, history: str) -> None:
    transcript = tell(history=history)
    told = Transcript(now=time.time() - 50)
    told.call(command="here")
    deep = told.content().replace(b'"here"', b"[" * 900 + b"]" * 900)
    with transcript.open("ab") as file:
        file.write(deep)
    assert (await studio.get(path_of(KEY))).status == 200


@pytest.mark.parametrize("history", ["live", "record"])
async def test_messages_calls_and_status_changes_are_in_the_order_of_time(
    studio: Studio, tell: Told, history: str
) -> None:
    tell(history=history)
    found = [each for each in await entries(studio, KEY) if each["kind"] != "line"]
    for each in found:
        if each["kind"] == "tool_result":
            assert "a file" in str(each.pop("text"))
    assert [(each["kind"], each.get("text", each.get("status"))) for each in found] == [
        ("status", "running"),
        ("message", "Make a file."),
        ("message", "I will."),
        ("tool_call", '{"command": "ls"}'),
        ("tool_result", None),
        ("message", notification()),
        ("message", "Done."),
        ("status", "completed"),
    ]
    page = (await studio.get(path_of(KEY))).text
    assert ('id="files"' in page) == (history == "live")
    assert '<p class="said">Make a file.</p>' in page
    assert "<b>Bash</b>" in page
    assert "<summary>&lt;task-notification&gt;</summary>" in page


async def test_the_texts_of_a_session_in_a_directory_are_shown(place: Place, studio: Studio) -> None:
    root = '[[roots]]\nname = "copilot"\npath = "copilot"\nlayout = "copilot"\n'
    (place.directory / "runward.toml").write_text(SETTINGS + root)
    log = place.directory / "copilot" / copilot_lines.SESSION / "events.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"\n".join(copilot_lines.Log().prompt().call().result().say().lines()) + b"\n")
    place.daemon_once()
    page = await shown(studio, f"copilot:{copilot_lines.SESSION}")
    found = [each for each in objects(page["timeline"]) if each["kind"] == "message"]
    assert [(each["role"], each["text"]) for each in found] == [
        ("system", "You are Copilot."),
        ("user", "make a file"),
        ("assistant", "Done."),
    ]
    assert page["not_shown"] == []


@pytest.mark.parametrize("history", ["live", "record"])
async def test_the_texts_and_calls_of_a_session_in_a_document_are_shown(
    place: Place, studio: Studio, history: str
) -> None:
    root = f'[[roots]]\nname = "cline"\npath = "cline"\nlayout = "cline"\nhistory = "{history}"\n'
    (place.directory / "runward.toml").write_text(SETTINGS + root)
    directory = place.directory / "cline" / cline_lines.SESSION
    directory.mkdir(parents=True)
    for each in cline_lines.Log().prompt().call().result().say("x" * 5000).documents("completed"):
        (directory / each.name).write_bytes(each.content)
    place.daemon_once()
    key = f"cline:{cline_lines.SESSION}"
    page = await shown(studio, key)
    assert page["not_shown"] == []
    found = [each for each in objects(page["timeline"]) if each["kind"] not in ("status", "line")]
    assert [each["kind"] for each in found] == ["message", "tool_call", "tool_result", "message"]
    text = await studio.get(f"{path_of(key)}?text={found[3]['full_text']}")
    assert "x" * 5000 in text.text


@pytest.mark.parametrize("history", ["live", "record"])
async def test_the_texts_and_calls_of_a_session_in_a_database_are_shown(
    place: Place, studio: Studio, history: str
) -> None:
    root = f'[[roots]]\nname = "a"\npath = "home"\nlayout = "opencode"\nhistory = "{history}"\n'
    (place.directory / "runward.toml").write_text(SETTINGS + root)
    (place.directory / "home").mkdir()
    database = opencode_rows.made(place.directory / "home/opencode.db")
    opencode_rows.Sessions(database).session().prompt().call().result().say("x" * 5000)
    place.daemon_once()
    page = await shown(studio, f"opencode:{opencode_rows.SESSION}")
    assert page["not_shown"] == []
    found = [each for each in objects(page["timeline"]) if each["kind"] not in ("status", "line")]
    assert [each["kind"] for each in found] == ["message", "tool_call", "tool_result", "message"]
    assert (found[0]["text"], found[1]["tool"]) == ("make a file", "bash")
    text = await studio.get(f"{path_of(f'opencode:{opencode_rows.SESSION}')}?text={found[3]['full_text']}")
    assert "x" * 5000 in text.text
    database.close()


async def test_the_journal_and_an_outcome_are_at_their_time(place: Place, studio: Studio) -> None:
    outcome = {"outcome_kind": "ci_result", "summary": "all well", "tests_passed": True}
    place.add_run("run", exit_code=0, files={"outcome.json": json.dumps(outcome)})
    place.daemon_once()
    found = await entries(studio, "native:runs/run")
    assert [each["kind"] for each in found if each["kind"] != "line"] == ["status", "outcome", "status"]
    lines = [each["event"] for each in found if each["kind"] == "line"]
    assert lines[0] == "session_started"
    assert lines[-1] == "session_finished"
    assert "all well" in (await studio.get(path_of("native:runs/run"))).text


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_pages_have_each_entry_once(
    studio: Studio, tell: Told, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    tell()
    whole = await entries(studio, KEY)
    monkeypatch.setattr(timeline, "ENTRIES", size)
    assert await entries(studio, KEY) == whole
    first = (await studio.get(path_of(KEY))).text
    if size < len(whole):
        link = re.search(r'<a href="([^"#]+)#timeline" rel="next">later</a>', first)
        assert link is not None
        assert "from the beginning" in (await studio.get(html.unescape(link[1]))).text


@pytest.mark.parametrize("budget", [6000, 20_000])
async def test_the_work_of_a_page_is_bounded_whatever_is_in_the_transcript(
    studio: Studio, tell: Told, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    transcript = tell()
    whole = await entries(studio, KEY)
    junk = b"x" * 3000 + b"\n" + b"\n" * 500 + b"[" * 2000 + b"\n" + b"\xff\0" * 100 + b"\n"
    content = transcript.read_bytes()
    transcript.write_bytes(junk.join(each + b"\n" for each in content.splitlines()) + junk)
    monkeypatch.setattr(timeline, "MOST_BYTES", budget)
    monkeypatch.setattr(recorded_files, "LONGEST_LINE", 1500)
    monkeypatch.setattr(recorded_files, "_CHUNK", 100)
    reads: list[int] = []

    class Counted(recorded_files.Budget):
        def __init__(self, left: int) -> None:
            super().__init__(left)
            reads.append(left)

    monkeypatch.setattr(timeline, "Budget", Counted)
    found = await entries(studio, KEY)
    messages = [each for each in whole if each["kind"] == "message"]
    assert [each for each in found if each["kind"] == "message"] == messages
    assert set(reads) == {budget}


async def test_a_page_ends_early_if_its_texts_are_long_and_searches_a_bounded_part_of_each_for_secrets(
    place: Place, studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.add_run("run", exit_code=0)
    place.daemon_once()
    with (place.runs / "run/events.jsonl").open("a") as journal:
        for number in range(9):
            note = f"{number} " + "password=aaaaaaaa " * 10_000
            journal.write(json.dumps({"ts": "2026-02-02T03:04:05Z", "event": "note", "note": note}) + "\n")
    searched: list[int] = []

    def counted(value: JsonValue, patterns: tuple[str, ...] = ()) -> JsonValue:
        searched.append(len(json.dumps(value)))
        return json_without_secrets(value, patterns)

    monkeypatch.setattr(timeline, "json_without_secrets", counted)
    monkeypatch.setattr(timeline, "MOST_TOLD", 400_000)
    page = await shown(studio, "native:runs/run")
    assert page["next"] is not None
    assert max(searched) < 70_000
    assert (
        len([each for each in await entries(studio, "native:runs/run") if each.get("event") == "note"]) == 9
    )


async def test_a_long_text_is_cut_and_opens_as_a_page_of_its_own(studio: Studio, tell: Told) -> None:
    reply = f"{MARKUP}{INVISIBLE}" + "ü" * 5000 + f" {SECRET}\nso it ends"
    tell(reply)
    page = (await studio.get(path_of(KEY))).text
    assert "so it ends" not in page
    (link,) = re.findall(r'<a href="(\?text=[^"]+)">the whole text</a>', page)
    (cut,) = [each for each in await entries(studio, KEY) if each.get("is_cut")]
    assert len(str(cut["text"]).encode()) <= 4096
    whole = (await studio.get(path_of(KEY) + html.unescape(link))).text
    assert "so it ends" in whole
    for text in (page, whole):
        assert "abcdefgh12345678" not in text
        assert "\\u202e" in text
        assert not {"img", "iframe"} & set(tags_of(text)[0])
        assert "alert(1)&lt;/script&gt;" in text


@pytest.mark.parametrize("text", ["x", "messages.0.7", "messages.0.99999999", "replay.9.0", "messages.5.0"])
async def test_a_text_that_is_not_there_is_said_so(studio: Studio, tell: Told, text: str) -> None:
    tell()
    assert (await studio.get(f"{path_of(KEY)}?text={text}")).status == (400 if text == "x" else 404)


@pytest.mark.parametrize("after", ["x", "1", "0.0-0.0-0.0-0.0-0.0-0.0-" + "9" * 40, "../../x"])
async def test_a_place_that_no_page_links_to_is_refused(studio: Studio, tell: Told, after: str) -> None:
    tell()
    assert (await studio.get(f"{path_of(KEY)}?after={after}")).status == 400


def _gone(transcript: Path, secret: Path) -> None:
    transcript.unlink()


def _a_link(transcript: Path, secret: Path) -> None:
    transcript.unlink()
    transcript.symlink_to(secret)


def _in_a_linked_directory(transcript: Path, secret: Path) -> None:
    transcript.parent.rename(transcript.parent.with_name("moved"))
    transcript.parent.symlink_to(secret.parent)


@pytest.mark.parametrize("change", [_gone, _a_link, _in_a_linked_directory])
async def test_if_the_transcript_is_gone_the_rest_is_shown_and_no_link_is_followed(
    place: Place, studio: Studio, tell: Told, change: Callable[[Path, Path], None]
) -> None:
    transcript = tell()
    secret = place.directory / "elsewhere" / transcript.name
    secret.parent.mkdir()
    told = Transcript(now=time.time() - 100)
    told.text("what nobody may see")
    secret.write_bytes(told.content())
    change(transcript, secret)
    page = (await studio.get(path_of(KEY))).text
    assert "so its messages are not shown" in page
    assert '<span class="state completed">completed</span>' in page
    assert "what nobody may see" not in page


async def test_a_journal_that_a_run_fills_with_anything_is_shown_as_text(
    place: Place, studio: Studio
) -> None:
    place.add_run("run", exit_code=0)
    place.daemon_once()
    said = {"ts": "2026-02-02T03:04:05Z", "role": MARKUP, "event": f"{MARKUP}{INVISIBLE}", "note": SECRET}
    with (place.runs / "run/events.jsonl").open("a") as journal:
        journal.write(json.dumps(said) + "\n" + MARKUP + "\n" + "[" * 100_000 + "\n")
    page = (await studio.get(path_of("native:runs/run"))).text
    tags, attributes = tags_of(page)
    assert not {"img", "iframe", "svg"} & set(tags)
    assert not [each for each in attributes if each.startswith("on")]
    assert "alert(1)&lt;/script&gt;" in page
    assert "abcdefgh12345678" not in page
