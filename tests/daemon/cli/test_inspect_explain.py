"""`runward inspect --explain`: which layout a file or a directory is of, and why it is of no other."""

import os
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.recordings import HOMES

from runward.handlers.layouts import native
from runward.handlers.layouts.registry import LAYOUTS

OF_THEIR_OWN = {
    "claude-code/ok.jsonl": "claude-code",
    "codex/rollout-tool.jsonl": "codex",
    "reports/qwen-chat.jsonl": "qwen",
    "ctcp-run-pass": "ctcp",
    "ctcp-run-pass/RUN.json": "ctcp",
    "lionagi/run_completed": "lionagi",
    "lionagi/run_completed/run.json": "lionagi",
}
IN_HOMES = {home.format("ok"): layout for layout, home in HOMES.items()}
"""A directory with one session somewhere under it, and its layout."""

NAMES = [*LAYOUTS.names(), native.LAYOUT]
SHOWN_BY = {each.name: each.shown_by for each in (*LAYOUTS.logs, *LAYOUTS.directories)}
HOSTILE: dict[str, bytes] = {
    "empty.jsonl": b"",
    "binary.jsonl": bytes(range(256)) * 300,
    "packed.jsonl.zst": b"no zstandard",
    "nested.jsonl": b'{"a":' * 50_000,
    "escape.jsonl": b'{"type": "\x1b[2J"}\n',
    "one-line.jsonl": b'{"text": "' + b"x" * 3_000_000 + b'"}\n',
    "text": b"no JSON at all\n",
}


def explained(
    place: Place, path: Path, code: int, *options: str
) -> tuple[object, dict[str, tuple[bool, str]]]:
    """The layout, and what is said of each layout."""
    told = place.call("inspect", "--explain", "--json", *options, str(path))
    assert (told.code, told.err) == (code, "")
    answer = told.json()
    assert isinstance(answer, dict)
    assert list(answer) == ["path", "layout", "considered"]
    assert answer["path"] == os.path.realpath(path)
    considered = answer["considered"]
    assert isinstance(considered, list)
    of_each = {}
    for each in considered:
        assert isinstance(each, dict)
        of_each[str(each["layout"])] = (each["is_it"] is True, str(each["reason"]))
    assert [name for name, (is_it, _) in of_each.items() if is_it] == (
        [answer["layout"]] if code == 0 else []
    )
    return answer["layout"], of_each


@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_a_recording_is_explained_as_its_own(place: Place, material: Path, name: str) -> None:
    layout, of_each = explained(place, material / "samples" / name, 0)
    assert layout == OF_THEIR_OWN[name]
    assert sorted(of_each) == sorted(NAMES)
    assert of_each[str(layout)][1].endswith(f" has {SHOWN_BY[str(layout)]}")


@pytest.mark.parametrize("name", IN_HOMES)
def test_a_recording_in_a_home_is_explained_as_inspect_reads_it(
    place: Place, material: Path, name: str
) -> None:
    (session,) = place.call("inspect", str(material / "samples" / name), "--json").objects()
    layout, _ = explained(place, Path(str(session["path"])), 0)
    assert layout == session["layout"] == IN_HOMES[name]


def test_a_log_deep_in_a_session_s_directory_is_explained_as_the_session_s(
    place: Place, material: Path
) -> None:
    (log,) = (material / "samples/kimi-code/ok").rglob("wire.jsonl")
    layout, of_each = explained(place, log, 0)
    assert layout == "kimi"
    assert of_each["kimi"][1] == f"the directory above it has {SHOWN_BY['kimi']}"
    assert explained(place, log.with_name("elsewhere.jsonl").parent, 1)[0] is None


def test_every_layout_is_explained_as_its_own(place: Place) -> None:
    """Those of which there is no recording, by the least that shows them."""
    for name, file, content in (
        ("adjutant", "REPLAY.jsonl", '{"event": "ReplayHeader"}\n'),
        ("show", "_verdict.json", '{"gate_passed": true}'),
        ("native", "run.json", "{}"),
    ):
        directory = place.directory / name
        directory.mkdir()
        (directory / file).write_text(content)
        for path in (directory, directory / file):
            assert explained(place, path, 0)[0] == name


def test_each_other_layout_has_its_reason(place: Place) -> None:
    path = place.directory / "a.jsonl"
    path.write_text('{"type": "session", "version": 3, "cwd": "/work"}\n')
    layout, of_each = explained(place, path, 0)
    assert layout == "pi"
    for name, (_, reason) in of_each.items():
        if name in (each.name for each in LAYOUTS.logs) and name != "pi":
            assert reason == f"it doesn't have {SHOWN_BY[name]}"
        elif name in SHOWN_BY and name != "pi":
            assert reason == f"its directory doesn't have {SHOWN_BY[name]}"
    assert of_each["native"] == (False, "its directory doesn't have a `run.json`")


def test_of_two_that_fit_the_second_one_says_so(place: Place) -> None:
    directory = place.directory / "run"
    (directory / "artifacts").mkdir(parents=True)
    (directory / "run.json").write_text('{"run_id": "a", "state_root": "b"}')
    layout, of_each = explained(place, directory, 0)
    assert layout == "lionagi"
    assert of_each["native"] == (False, "it has a `run.json`, but lionagi is tried first")
    (directory / "run.json").write_text('{"schema": "runward-run-v1", "run_id": "a", "state_root": "b"}')
    layout, of_each = explained(place, directory, 0)
    assert layout == "native"
    assert of_each["lionagi"] == (False, "it has a `run.json` that says it is a native run")


def test_a_directory_is_no_log(place: Place) -> None:
    _, of_each = explained(place, place.directory, 1)
    assert of_each["codex"] == (False, "it is a directory; a session of this layout is a file")


def test_only_a_layout_that_is_named_is_considered(place: Place) -> None:
    path = place.directory / "a.jsonl"
    path.write_text('{"type": "session", "version": 3, "cwd": "/work"}\n')
    assert list(explained(place, path, 1, "--layout", "codex")[1]) == ["codex"]
    assert list(explained(place, path, 1, "--layout", "native")[1]) == ["native"]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_session_is_explained_without_an_error(place: Place, name: str) -> None:
    path = place.directory / name
    path.write_bytes(HOSTILE[name])
    layout, of_each = explained(place, path, 1)
    assert layout is None
    assert sorted(of_each) == sorted(NAMES)
    assert all(reason for _, reason in of_each.values())


def test_what_is_no_file_is_explained_and_not_waited_for(place: Place) -> None:
    path = place.directory / "a.jsonl"
    os.mkfifo(path)
    _, of_each = explained(place, path, 1)
    assert of_each["codex"] == (False, "it is not a regular file")


def test_a_huge_file_is_explained_by_its_beginning(place: Place) -> None:
    path = place.directory / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert explained(place, path, 1)[0] is None


def test_a_person_reads_it_line_by_line(place: Place) -> None:
    path = place.directory / "a\x1b[2J.jsonl"
    path.write_text('{"type": "session", "version": 3, "cwd": "/work"}\n')
    told = place.call("inspect", "--explain", str(path))
    first, *lines = told.out.splitlines()
    assert first.endswith(".jsonl: pi")
    assert "\x1b" not in told.out
    assert [line.partition(":")[0].strip() for line in lines] == NAMES
    assert f"  pi: yes, it has {SHOWN_BY['pi']}" in lines


def test_what_does_not_exist_is_not_found(place: Place) -> None:
    told = place.call("inspect", "--explain", str(place.directory / "nothing"))
    assert (told.code, told.out) == (3, "")
    assert told.err.startswith("runward: there is no ")
