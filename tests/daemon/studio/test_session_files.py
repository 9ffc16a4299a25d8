"""Files of a session: only what it recorded, below its own root, as text or as a download."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.daemon.cli.calling import CONTRACT, Place, Recorded
from tests.daemon.studio.conftest import Answer, Studio
from tests.daemon.studio.test_session_pages import INVISIBLE, MARKUP, path_of, tags_of

from runward.config.json_value import JsonValue
from runward.daemon.views.session_files import SHOWN

SECRET = "what nobody may see"
KEY = "native:runs/run"
GLOB: JsonValue = {
    "expected": [
        {
            "id": "all",
            "glob": "*.txt",
            "min_count": 1,
            "required": True,
            "description": "",
            "source": "playbook",
        }
    ]
}


@pytest.fixture(scope="module")
def delivered(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A place with a run that delivered a review and a report; a secret is next to its root."""
    place = Place(tmp_path_factory.mktemp("delivered"))
    place.furnish()
    (place.directory / "secret").write_text(SECRET)
    files = {"review.md": "fine <b>\tindeed</b>\r\n", "report.md": "r"}
    place.add_run("run", exit_code=0, contract=CONTRACT, files=files, command=["echo", "hi"])
    (place.runs / "run/stdout.log").write_text("out\x1b[31m\n")
    place.daemon_once()
    return Recorded(place)


@pytest.fixture
def place(delivered: Recorded) -> Place:
    """That place as it was then, for each test."""
    return delivered.anew()


@pytest.fixture
def run(place: Place) -> Path:
    """The artifacts of its run."""
    return place.runs / "run/artifacts"


async def the_file(studio: Studio, query: str, key: str = KEY) -> Answer:
    return await studio.get(f"{path_of(key)}?{query}")


async def test_a_delivered_file_is_shown_as_escaped_text(studio: Studio, run: Path) -> None:
    page = (await studio.get(path_of(KEY))).text
    assert '<a href="?file=review.md"><code>review.md</code></a>' in page
    answer = await the_file(studio, "file=review.md")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "fine &lt;b&gt;\tindeed&lt;/b&gt;\n</pre>" in answer.text
    assert "nothing in it is redacted" in answer.text


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("log=stdout", "out\\u001b[31m"),
        ("part=journal", "contract_snapshotted"),
        ("part=replay", "SessionStart"),
        ("part=receipt", "receipt_hash"),
        ("part=summary", "#"),
    ],
)
async def test_logs_the_journal_and_the_parts_of_the_bundle_are_shown(
    studio: Studio, run: Path, query: str, shown: str
) -> None:
    assert query in (await studio.get(path_of(KEY))).text
    answer = await the_file(studio, query)
    assert (answer.status, shown in answer.text) == (200, True)
    assert (await the_file(studio, f"{query}&download=1")).headers[
        "content-type"
    ] == "application/octet-stream"


async def test_of_a_long_file_the_beginning_and_the_end_are_shown_and_a_download_is_whole(
    studio: Studio, run: Path
) -> None:
    content = "a" + "ü" * SHOWN + "middle" + "ü" * SHOWN + "z"
    (run / "review.md").write_text(content)
    shown = json.loads((await the_file(studio, "file=review.md&format=json")).text)
    assert shown["size"] == len(content.encode())
    assert (shown["text"][0], shown["end"][-1]) == ("a", "z")
    assert "middle" not in shown["text"] + shown["end"]
    assert 0 < len(shown["text"].encode()) <= SHOWN
    assert 0 < len(shown["end"].encode()) <= SHOWN
    assert "are left out here" in (await the_file(studio, "file=review.md")).text
    whole = await the_file(studio, "file=review.md&download=1")
    assert whole.text == content


@pytest.mark.parametrize("name", ["review.md", "page.html"])
async def test_a_download_is_never_anything_that_a_browser_runs(
    place: Place, studio: Studio, name: str
) -> None:
    content = f"<!doctype html>{MARKUP}"
    entry: JsonValue = {"id": "it", "path": name, "required": True, "description": "", "source": "playbook"}
    place.add_run("page", exit_code=0, contract={"expected": [entry]}, files={name: content})
    place.daemon_once()
    answer = await the_file(studio, f"file={name}&download=1", "native:runs/page")
    assert answer.text == content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith(f'attachment; filename="{name}"')
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_what_is_not_text_is_not_shown(studio: Studio, run: Path) -> None:
    (run / "review.md").write_bytes(b"\x89PNG\0\xff")
    assert "This is not UTF-8 text" in (await the_file(studio, "file=review.md")).text
    assert (await the_file(studio, "file=review.md&format=json")).status == 200


@pytest.mark.parametrize(
    "query",
    [
        "file=../run.json",
        "file=../../../../secret",
        "file=/etc/passwd",
        "file=review.md/../../run.json",
        "file=./review.md",
        "file=notes.md",
        "file=review.md%00",
        "outcome=ar_none",
        "outcome=../../secret",
        "log=stderr",
    ],
)
async def test_what_the_session_did_not_record_is_not_found(studio: Studio, run: Path, query: str) -> None:
    answer = await the_file(studio, query)
    assert (answer.status, SECRET in answer.text) == (404, False)


@pytest.mark.parametrize(
    "query", ["log=../run.json", "part=exit", "file=review.md&log=stdout", "path=review.md"]
)
async def test_an_address_that_cannot_be_right_is_refused(studio: Studio, run: Path, query: str) -> None:
    assert (await the_file(studio, query)).status == 400


async def test_the_file_of_another_session_needs_that_sessions_own_address(
    place: Place, studio: Studio, run: Path
) -> None:
    outcome = {"outcome_kind": "ci_result", "summary": SECRET, "tests_passed": True}
    place.add_run("other", exit_code=0, files={"outcome.json": json.dumps(outcome)})
    place.daemon_once()
    (row,) = place.call("artifact", "list", "--json").objects()
    query = f"outcome={row['id']}"
    assert SECRET in (await the_file(studio, query, "native:runs/other")).text
    (run / "outcome.json").write_text(f"{SECRET}, and not recorded")
    answer = await the_file(studio, query)
    assert (answer.status, SECRET in answer.text) == (404, False)


def _file_is_a_link(place: Place, artifacts: Path) -> None:
    (artifacts / "review.md").unlink()
    (artifacts / "review.md").symlink_to(place.directory / "secret")


def _artifacts_are_a_link(place: Place, artifacts: Path) -> None:
    _elsewhere(place)
    artifacts.rename(artifacts.with_name("before"))
    artifacts.symlink_to(place.directory / "elsewhere")


def _run_is_a_link(place: Place, artifacts: Path) -> None:
    elsewhere = place.directory / "elsewhere"
    (elsewhere / "artifacts").mkdir(parents=True)
    for each in (elsewhere / "artifacts/review.md", elsewhere / "stdout.log", elsewhere / "events.jsonl"):
        each.write_text(SECRET)
    artifacts.parent.rename(place.directory / "before")
    (place.runs / "run").symlink_to(elsewhere)


def _file_is_a_pipe(place: Place, artifacts: Path) -> None:
    (artifacts / "review.md").unlink()
    os.mkfifo(artifacts / "review.md")


def _file_is_a_directory(place: Place, artifacts: Path) -> None:
    (artifacts / "review.md").unlink()
    (artifacts / "review.md").mkdir()


def _elsewhere(place: Place) -> None:
    (place.directory / "elsewhere").mkdir()
    (place.directory / "elsewhere/review.md").write_text(SECRET)


@pytest.mark.parametrize(
    "query", ["file=review.md", "file=review.md&download=1", "log=stdout", "part=journal"]
)
@pytest.mark.parametrize(
    "change", [_file_is_a_link, _artifacts_are_a_link, _run_is_a_link, _file_is_a_pipe, _file_is_a_directory]
)
async def test_a_link_a_pipe_or_a_directory_in_the_place_of_a_file_is_refused(
    place: Place, studio: Studio, run: Path, change: Callable[[Place, Path], None], query: str
) -> None:
    change(place, run)
    answer = await the_file(studio, query)
    assert SECRET not in answer.text
    if query.startswith("file") or change is _run_is_a_link:
        assert answer.status == 404


@pytest.mark.parametrize("name", ["run", "artifacts", "review.md"])
async def test_a_link_that_is_put_in_place_while_the_file_is_opened_is_not_followed(
    place: Place, studio: Studio, run: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    change = {"run": _run_is_a_link, "artifacts": _artifacts_are_a_link, "review.md": _file_is_a_link}[name]
    real = os.open
    changed: list[str] = []

    def open_after_a_swap(path: str, flags: int, *more: int, dir_fd: int | None = None) -> int:
        if not changed and os.path.basename(path) == name:
            changed.append(path)
            change(place, run)
        return real(path, flags, *more, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_after_a_swap)
    answer = await the_file(studio, "file=review.md")
    assert changed
    assert (answer.status, SECRET in answer.text) == (404, False)


async def test_file_names_are_shown_and_linked_whatever_is_in_them(place: Place, studio: Studio) -> None:
    names = [f"{MARKUP.replace('/', '')}.txt", f"{INVISIBLE}.txt", "a b&c=d#?%2e.txt", "\"quoted'.txt"]
    place.add_run("named", exit_code=0, contract=GLOB, files=dict.fromkeys(names, "content"))
    place.daemon_once()
    key = "native:runs/named"
    page = (await studio.get(path_of(key))).text
    tags, attributes = tags_of(page)
    assert not {"script", "img"} & set(tags)
    assert not [each for each in attributes if each.startswith("on")]
    shown = json.loads((await studio.get(f"{path_of(key)}?format=json")).text)
    assert {each["path"] for each in shown["session"]["files"]} == set(names)
    for name in names:
        assert f'href="?file={quote(name)}"' in page
        answer = await the_file(studio, f"file={quote(name, safe='')}", key)
        assert (answer.status, "content" in answer.text) == (200, True)
        assert not [char for char in answer.text if not char.isprintable() and char != "\n"]
        download = await the_file(studio, f"file={quote(name, safe='')}&download=1", key)
        assert download.headers["content-disposition"].isascii()


async def test_a_session_whose_root_is_gone_from_the_settings_shows_no_files(
    place: Place, studio: Studio, run: Path
) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(
        f"{settings.read_text()}\n[[roots]]\nname = 'others'\npath = 'others'\nlayout = 'native'\n"
    )
    answer = await the_file(studio, "file=review.md")
    assert (answer.status, "no longer in the settings" in answer.text) == (404, True)
