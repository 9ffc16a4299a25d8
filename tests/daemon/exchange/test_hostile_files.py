"""Agents that put something else in the place of their intents or results: they harm nobody, and gain nothing."""

import json
import os
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import finish
from tests.daemon.parts.test_exchange import append, begin, read, results, settle, told, write

from runward.config.json_value import JsonValue

NOOP = b'{"action_type":"noop"}\n'
FORGED: dict[str, JsonValue] = {"line": 1, "id": None, "result": {"success": True}, "hash": "sha256:0"}


def put_in_place(path: Path, what: str, outside: Path) -> None:
    """Something stands at `path` that is not a regular file with the daemon's or the agent's lines."""
    outside.write_bytes(NOOP * 3)
    if what == "link":
        path.symlink_to(outside)
    elif what == "link to nothing":
        path.symlink_to(outside.with_name("nothing"))
    elif what == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()


async def until_over(running: Daemon, *runs: Path) -> None:
    for run in runs:
        finish(run)
    for _ in range(3):
        await settle(running)


SPECIAL = pytest.mark.parametrize("what", ["link", "link to nothing", "fifo", "directory"])


@SPECIAL
async def test_what_is_not_a_file_of_intents_is_a_problem_of_its_run_and_nobody_elses(
    tmp_path: Path, what: str
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        hostile, good = begin(tmp_path, "hostile", "hostile"), begin(tmp_path, "good", "good")
        put_in_place(hostile / "intents.jsonl", what, tmp_path / "outside")
        append(good, write("note", "hello"), read("note"))
        await settle(running)
        await until_over(running, hostile, good)
        assert told(good) == [(1, True), (2, True)]
        assert await running.rows("select distinct principal from actions") == [("good",)]
        ((path, message),) = await running.rows("select path, message from problems")
        assert path == str(hostile / "intents.jsonl")
        assert ("link" if what.startswith("link") else "regular file") in str(message)
        statuses = await running.rows("select distinct status from sessions")
        assert statuses == [("completed",)]
        assert (tmp_path / "outside").read_bytes() == NOOP * 3


LINES: list[tuple[str, bytes, str | None]] = [
    ("ten MB", b'{"action_type":"noop","reasoning":"' + b"x" * 10_000_000 + b'"}', "invalid_argument"),
    ("a NUL", b'{"action_type":"noop"\0}', "invalid_argument"),
    ("NULs only", b"\0" * 100, "invalid_argument"),
    ("a NUL in an id", b'{"action_type":"read_artifact","artifact_id":"a\\u0000"}', "invalid_argument"),
    (
        "a NUL in a content",
        b'{"action_type":"write_artifact","artifact_id":"nul","content":"a\\u0000b"}',
        None,
    ),
    (
        "a lone surrogate",
        b'{"action_type":"write_artifact","artifact_id":"s","content":"\\ud800"}',
        "invalid_argument",
    ),
    (
        "a lone surrogate in the reasoning",
        b'{"action_type":"noop","reasoning":"\\udfff"}',
        "invalid_argument",
    ),
    ("a surrogate in bytes", b'{"action_type":"noop","reasoning":"\xed\xa0\x80"}', "invalid_argument"),
    ("a pair of surrogates", b'{"action_type":"noop","reasoning":"\\ud83d\\ude00"}', None),
    ("a carriage return", b'{"action_type":"noop"}\r', None),
    ("steering a terminal", b'{"action_type":"noop","reasoning":"\\u001b[2J\\u202e"}', None),
    ("nothing", b"", "invalid_argument"),
    ("a thousand brackets", b"[" * 1000, "invalid_argument"),
    (
        "a huge number",
        b'{"action_type":"write_artifact","artifact_id":"h","price":' + b"9" * 5000 + b"}",
        "invalid_argument",
    ),
]
"""Hostile lines, and what comes of each: the code of its error, or None for success."""


async def test_each_hostile_line_has_its_answer_and_the_lines_behind_it_have_theirs(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        with (run / "intents.jsonl").open("ab") as file:
            for _, line, _ in LINES:
                file.write(line + b"\n" + NOOP)
        await settle(running)
        await until_over(running, run)
        found = results(run)
        assert [each["line"] for each in found] == list(range(1, 2 * len(LINES) + 1))
        came = {
            name: result.get("error_code")
            for (name, _, _), each in zip(LINES, found[::2], strict=True)
            if isinstance(result := each["result"], dict)
        }
        assert came == {name: code for name, _, code in LINES}
        assert {json.dumps(each["result"]["success"]) for each in found[1::2]} == {"true"}  # type: ignore[index,call-overload] # an object
        contents = "select c.content from shared_artifacts a join contents c on c.hash = a.content"
        assert await running.rows(f"{contents} where a.id = 'nul'") == [("a\0b",)]
        assert await running.rows("select id from jobs where state <> 'done'") == []
        assert max(map(len, (run / "results.jsonl").read_bytes().splitlines())) < 1000


async def test_a_forged_result_changes_nothing_that_the_daemon_says(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        forged = json.dumps(FORGED) + "\n"
        (run / "results.jsonl").write_text(forged)
        append(run, read("nothing"), write("note", "hello"))
        await settle(running)
        with (run / "results.jsonl").open("a") as file:
            file.write(forged + '{"line": 2, "torn')
        append(run, read("note"))
        await until_over(running, run)
        hashes = await running.rows("select hash from events where type = 'ActionTaken' order by seq")
        lines = (run / "results.jsonl").read_text().splitlines()
        ours = [each for line in lines if (each := _parsed(line)).get("hash") in {row[0] for row in hashes}]
        assert [*dict.fromkeys(each["hash"] for each in ours)] == [row[0] for row in hashes]
        assert [each["line"] for each in ours] == [1, 2, 3]
        recorded = await running.rows("select line, is_success from actions order by line")
        assert recorded == [(1, 0), (2, 1), (3, 1)]
        assert lines.count(forged.strip()) == 2, "what the agent wrote is its own"


async def test_half_a_line_among_the_results_keeps_no_result_back(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        (run / "results.jsonl").write_text('{"line": 1, "torn')
        append(run, read("nothing"))
        await settle(running)
        assert await running.rows("select status from sessions") == [("running",)]
        (torn, ours) = (run / "results.jsonl").read_text().splitlines()
        assert (torn.rstrip(), _parsed(ours)["line"]) == ('{"line": 1, "torn', 1)
        assert await running.rows("select id from outbox") == []


def _parsed(line: str) -> dict[str, JsonValue]:
    try:
        found: dict[str, JsonValue] = json.loads(line)
    except ValueError:
        return {}
    return found


@pytest.mark.parametrize("how", ["truncated", "rewritten", "removed"])
async def test_results_that_the_agent_takes_away_are_no_second_action(tmp_path: Path, how: str) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"), read("note"))
        await settle(running)
        if how == "truncated":
            os.truncate(run / "results.jsonl", 10)
        elif how == "rewritten":
            (run / "results.jsonl").write_text(json.dumps(FORGED) + "\n")
        else:
            (run / "results.jsonl").unlink()
        append(run, read("note"), write("note", "again"))
        await until_over(running, run)
        await running.stop()
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await settle(running)
        assert await running.rows("select line, is_success from actions order by line") == [
            (number, 1) for number in (1, 2, 3, 4)
        ]
        assert await running.rows("select version from shared_artifacts where id = 'note'") == [(2,)]
        ours = [
            each
            for line in (run / "results.jsonl").read_text().splitlines()
            if "ts" in (each := _parsed(line))
        ]
        assert [each["line"] for each in ours][-2:] == [3, 4], "later results stand there"


@SPECIAL
async def test_what_stands_where_results_should_is_not_written_to(tmp_path: Path, what: str) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        hostile, good = begin(tmp_path, "hostile", "hostile"), begin(tmp_path, "good", "good")
        put_in_place(hostile / "results.jsonl", what, tmp_path / "outside")
        append(hostile, write("note", "hello"))
        append(good, read("note"))
        await settle(running)
        await until_over(running, hostile, good)
        assert (tmp_path / "outside").read_bytes() == NOOP * 3
        assert not (tmp_path / "nothing").exists()
        assert len(told(good)) == 1
        assert await running.rows("select count(*) from actions") == [(2,)]
        assert await running.rows("select distinct status from sessions") == [("completed",)]
