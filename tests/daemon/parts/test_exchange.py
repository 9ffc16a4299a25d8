"""The exchange in the worker: intents of runs, each with exactly one result, and one order of all who act."""

import json
import os
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon
from tests.daemon.native_runs import finish

from runward.config.json_value import JsonValue
from runward.daemon import faults
from runward.daemon.engine.part import Reactions
from runward.daemon.inbox.spool import dump_request, put
from runward.daemon.parts.intents import AT_ONCE, Intents
from runward.daemon.store.batch import JobResult, Rows
from runward.daemon.store.hash_chain import lines_off_the_chain
from runward.daemon.store.tables import starts
from runward.daemon.store.tables.actions import WantedActions, actions
from runward.daemon.store.tables.events import event_recorded
from runward.daemon.store.tables.prunings import PROGRESS
from runward.daemon.views.causes import causes_of_session
from runward.handlers import route
from runward.handlers.layouts import native
from runward.handlers.model.exchange import ActionRequested, PrincipalCreateRequested


class Killed(BaseException):
    """The daemon ends here, as by `kill -9`."""


def begin(base: Path, name: str, agent: str | None = "writer", scrip: int = 0) -> Path:
    """A run of an agent that a person made a principal: no launcher started it, so it brings no quotas."""
    if agent is not None:
        (base / "state").mkdir(mode=0o700, exist_ok=True)
        request = PrincipalCreateRequested(f"{agent}-comes", 1.0, agent, scrip=scrip)
        put(base / "state", request.request, dump_request(request))
    directory = base / "runs" / name
    directory.mkdir(parents=True)
    at = "2026-02-03T04:05:06Z"
    run = {"schema": "runward-run-v1", "session_id": name, "started_at": at, "agent": agent}
    (directory / "run.json").write_text(json.dumps(run))
    return directory


def append(run: Path, *intents: dict[str, JsonValue] | str) -> None:
    with (run / "intents.jsonl").open("a") as file:
        for each in intents:
            file.write(each if isinstance(each, str) else json.dumps(each) + "\n")


def write(name: str, content: str, **further: JsonValue) -> dict[str, JsonValue]:
    return {"action_type": "write_artifact", "artifact_id": name, "content": content, **further}


def read(name: str) -> dict[str, JsonValue]:
    return {"action_type": "read_artifact", "artifact_id": name}


def results(run: Path) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in (run / "results.jsonl").read_text().splitlines()]


def told(run: Path) -> list[tuple[JsonValue, JsonValue]]:
    """The numbers of the lines that have results, and whether each was good."""
    return [(each["line"], each["result"]["success"]) for each in results(run)]  # type: ignore[index,call-overload] # an object


async def settle(running: Daemon) -> None:
    running.supervisor.assembly.worker.inbox_waits = True
    while True:
        await running.settle()
        if not await running.supervisor.assembly.intents.drain():
            break
    await running.supervisor.assembly.outbox.sweep()


async def test_each_line_has_one_result_in_its_order_and_the_journal_tells_of_it(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"), read("note"), "nonsense\n", "\n")
        await settle(running)
        append(run, read("nothing"), '{"action_type":"noop"}')
        await settle(running)
        assert told(run) == [(1, True), (2, True), (3, False), (4, False), (5, False)]
        finish(run)
        await settle(running)
        await settle(running)
        assert told(run)[5:] == [(6, True)], "the last line has no newline, and the run is over"
        lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        actions = [each for each in lines if each["event"] == "action"]
        assert [each["hash"] for each in actions] == [each["hash"] for each in results(run)]
        hashes = await running.rows("select hash from events where type = 'ActionTaken' order by seq")
        events = [digest for (digest,) in hashes]
        assert events == [*dict.fromkeys(each["hash"] for each in actions)], "each event, in order"
        assert len(events) == 3, "the lines that were carried out together have one"
        assert await running.rows("select told, line, state from intent_files") == [(6, 6, "read")]


async def test_actions_that_are_carried_out_together_have_one_event_that_says_all_of_them(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"), read("nothing"), write("note", "again"), read("note"))
        await settle(running)
        assert told(run) == [(1, True), (2, False), (3, True), (4, True)], "a refusal refuses no other"
        (artifact,) = await running.rows(
            "select result ->> '$.data.artifact.content', result ->> '$.data.artifact.version' from actions where line = 4"
        )
        assert artifact == ("again", 2), "a later line sees the earlier ones"
        ((payload, digest),) = await running.rows(
            "select payload, hash from events where type = 'ActionTaken'"
        )
        event = json.loads(str(payload))
        lines = [each["told"] | {"hash": digest} for each in (event, *event["further"])]
        assert lines == results(run), "the chain of events covers each line as it is written"
        with closing(sqlite3.connect(tmp_path / "state" / "runward.db")) as connection:
            assert [each.hash for each in actions(connection, WantedActions())] == [digest] * 4
            recorded = [event_recorded(connection, f"native:runs/run#intent/{line}") for line in range(1, 5)]
            assert [each.seq for each in actions(connection, WantedActions())] == recorded
            explained = causes_of_session(connection, "native:runs/run")
            assert not list(lines_off_the_chain(connection, "native:runs/run"))
        read_lines = [each.event for each in explained if "of its intents was read" in each.summary]
        assert read_lines == [f"native:runs/run#intent/{line}" for line in range(1, 5)]
        assert "again" not in str([each.as_json() for each in explained]), "others pay for the content"


async def test_a_turn_takes_no_more_lines_than_a_batch_however_many_runs_wrote_some(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        runs = [begin(tmp_path, name, name) for name in ("ann", "bob", "cyd")]
        await settle(running)
        for run in runs:
            append(run, *([write(run.name, "x")] * (AT_ONCE - 100)))
        assembly = running.supervisor.assembly
        for run in runs:
            assembly.intents.look(("runs", run.name))
        assert await assembly.intents.carry_out()
        assert len(assembly.worker.findings) == 3
        left: list[int] = []
        while assembly.worker.findings:
            assert await assembly.worker.turn()
            left.append(len(assembly.worker.findings))
        assert left == [2, 1, 0], "whoever else waits for a turn gets one in between"
        await settle(running)
        assert [len(told(run)) for run in runs] == [AT_ONCE - 100] * 3


async def test_a_claimed_job_is_finished_although_the_store_refused_a_reaction_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        append(run, write("note", "hello"))
        assembly = running.supervisor.assembly
        assembly.intents.look(("runs", "run"))
        assert await assembly.intents.carry_out()
        react, refused = Reactions.react, list[str]()

        async def once_refused(reactions: Reactions, completed: Sequence[JobResult]) -> None:
            if not refused and any(each.job.handler == "exchange/act" for each in completed):
                refused.append("disk I/O error")
                raise sqlite3.OperationalError(refused[0])
            await react(reactions, completed)

        monkeypatch.setattr(Reactions, "react", once_refused)
        assert await assembly.worker.turn()
        assert refused
        jobs = await running.rows(
            "select handler, state from jobs where handler like 'exchange/%' order by id"
        )
        assert jobs[-2:] == [("exchange/act", "done"), ("exchange/tell", "done")]


async def test_each_run_has_its_own_event_of_its_results(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        runs = [begin(tmp_path, name, name) for name in ("ann", "bob")]
        await settle(running)
        for run in runs:
            append(run, write(run.name + "-1", "x"), write(run.name + "-2", "y"))
        await settle(running)
        assert [told(run) for run in runs] == [[(1, True), (2, True)]] * 2
        events = await running.rows(
            "select lane, json_array_length(payload, '$.further') from events where type = 'ActionTaken' order by lane"
        )
        assert events == [("native:runs/ann", 1), ("native:runs/bob", 1)]


async def test_a_deletion_is_a_line_of_its_own_in_the_journal(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        delete: dict[str, JsonValue] = {"action_type": "delete_artifact", "artifact_id": "note"}
        append(run, write("note", "hello"), delete, delete)
        await settle(running)
        assert told(run) == [(1, True), (2, True), (3, False)]
        lines = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
        deleted = [each["artifact_id"] for each in lines if each["event"] == "artifact_deleted"]
        assert deleted == ["note"], "what failed deleted nothing"


async def test_what_a_run_wrote_while_no_daemon_was_there_is_carried_out(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        await settle(running)
        await running.stop()
    append(run, write("note", "hello"))
    finish(run)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await settle(running)
        await settle(running)
    assert told(run) == [(1, True)]


async def a_life(base: Path, run: Path) -> None:
    """A daemon meets a run, and the run ends; then the daemon is killed if it wasn't before."""
    async with daemon(base, StillClock(), ToldProcesses()) as running:
        await settle(running)
        finish(run)
        for _ in range(3):
            await settle(running)
        raise Killed


POINTS = ("commit.turn.before", "commit.turn.after", "commit.finish.before", "commit.finish.after")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("times", [1, 2, 3, 4, 5])
async def test_a_daemon_that_is_killed_anywhere_leaves_each_line_one_result(
    tmp_path: Path, point: str, times: int
) -> None:
    left = times

    def kill(name: str) -> None:
        nonlocal left
        left -= name == point
        if name == point and left == 0:
            raise Killed

    run = begin(tmp_path, "run")
    append(run, write("note", "hello", policy={"read_price": 1}), read("note"), read("gone"))
    faults.install(kill)
    try:
        with pytest.raises((Killed, BaseExceptionGroup)):
            await a_life(tmp_path, run)
    finally:
        faults.install(lambda name: None)
    if not (run / "exit.json").exists():
        finish(run)
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await settle(running)
        await settle(running)
        assert await running.rows("select count(*) from actions") == [(3,)]
        assert await running.rows("select version from shared_artifacts where id = 'note'") == [(1,)]
    assert told(run) == [(1, True), (2, True), (3, False)]


async def two_who_spend(running: Daemon, base: Path) -> list[object]:
    """Two commands spend the nine scrip of one principal, each all of it, in one batch; who got how much."""
    ledger = {"action_type": "invoke_artifact", "artifact_id": "genesis_ledger", "method": "transfer"}
    for name, scrip in (("payer", 9), ("one", 0), ("two", 0)):
        put(
            base / "state",
            f"create-{name}",
            dump_request(PrincipalCreateRequested(f"create-{name}", 1.0, name, None, scrip)),
        )
    running.supervisor.assembly.worker.inbox_waits = True
    await settle(running)
    run = begin(base, "run", "payer")
    append(run, {**ledger, "args": ["payer", "one", 9]})
    text = json.dumps({**ledger, "args": ["payer", "two", 9]})
    put(base / "state", "act", dump_request(ActionRequested("act", 1.0, "payer", text)))
    running.supervisor.assembly.worker.inbox_waits = True
    await settle(running)
    rows = await running.rows(
        "select account, amount from balances where account in ('payer', 'one', 'two') and amount > 0 order by 1"
    )
    return [*rows, *(await running.rows("select count(*) from jobs where state <> 'done'"))]


async def test_one_balance_is_not_spent_twice(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        spent = await two_who_spend(running, tmp_path)
    assert spent in ([("one", 9), (0,)], [("two", 9), (0,)])


async def transferred_by_both(base: Path) -> list[tuple[object, ...]]:
    """A writer gives an artifact away while another principal pays for reading it, in the same batch."""
    async with daemon(base, StillClock(), ToldProcesses()) as running:
        for name in ("writer", "reader", "heir"):
            request = PrincipalCreateRequested(f"create-{name}", 1.0, name, None, 5)
            put(base / "state", f"create-{name}", dump_request(request))
        running.supervisor.assembly.worker.inbox_waits = True
        await settle(running)
        runs = {name: begin(base, name, name) for name in ("writer", "reader")}
        append(runs["writer"], write("paper", "x", policy={"read_price": 5}))
        await settle(running)
        give: dict[str, JsonValue] = {
            "action_type": "transfer_artifact",
            "artifact_id": "paper",
            "to": "heir",
        }
        append(runs["writer"], give)
        append(runs["reader"], read("paper"))
        await settle(running)
        paid = await running.rows("select taker from ledger_entries where giver = 'reader'")
        order = await running.rows(
            "select action_type from actions where artifact_id = 'paper' and action_type <> 'write_artifact' order by seq"
        )
        return [*paid, *order]


WRONG = """
drop trigger ledger_entries_move;
create trigger ledger_entries_move after insert on ledger_entries begin
    update balances set amount = amount - new.amount where account = new.giver and resource = new.resource;
    insert into balances (account, resource, amount) values (new.taker, new.resource, new.amount + 1)
        on conflict do update set amount = amount + excluded.amount;
end;
"""
"""Of each entry, one more arrives than was given."""


async def test_a_wrong_posting_is_refused_in_its_own_transaction(tmp_path: Path) -> None:
    balances, entries = (
        "select account, amount from balances order by account",
        "select count(*) from ledger_entries",
    )
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        owner, reader = (begin(tmp_path, name, name, scrip=10) for name in ("writer", "reader"))
        await settle(running)
        append(owner, write("note", "hello", policy={"read_price": 1}))
        await settle(running)
        append(reader, read("note"))
        await settle(running)
        right = await running.rows(balances)
        assert right == [("mint", -20), ("reader", 9), ("writer", 11)]
        with closing(sqlite3.connect(tmp_path / "state" / "runward.db")) as database:
            database.executescript(WRONG)
        append(reader, read("note"))
        append(owner, read("note"))
        await settle(running)
        assert (await running.rows(balances), await running.rows(entries)) == (right, [(3,)])
        held = await running.rows("select lane, error from jobs where state = 'held'")
        assert [lane for lane, _ in held] == ["exchange:reader"]
        assert "must add up to what was minted" in str(held[0][1])
        assert (told(owner), told(reader)) == ([(1, True), (2, True)], [(1, True)]), "it harms no one else"


async def test_what_one_principal_did_the_next_one_sees_within_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (paid, first, _) = await transferred_by_both(tmp_path / "in-order")
    assert paid == (("heir",) if first == ("transfer_artifact",) else ("writer",))
    assert len([each for each in route.ROUTES if each.handler == "exchange/act"]) == 2


async def test_without_the_guard_on_versions_a_stale_write_would_be_kept(tmp_path: Path) -> None:
    from runward.daemon.store.tables import principals, shared_artifacts

    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"))
        await settle(running)
        database = sqlite3.connect(tmp_path / "state" / "runward.db")
        stale = database.execute(shared_artifacts.KEEP_ARTIFACT.sql, _row(database, 1))
        assert stale.rowcount == 0, "another action came in between"
        assert database.execute(shared_artifacts.KEEP_ARTIFACT.sql, _row(database, 2)).rowcount == 1
        values = ("writer", 1.0, "[]", 1, 0, None)
        assert database.execute(principals.KEEP_PRINCIPAL.sql, (*values, 1, 0, 0.0)).rowcount == 0
        database.rollback()
        database.close()


def _row(database: object, version: int) -> tuple[object, ...]:
    (content,) = database.execute("select content from shared_artifacts").fetchone()  # type: ignore[attr-defined] # a connection
    return (
        "note",
        "t",
        content,
        content,
        "w",
        1.0,
        1.0,
        0,
        0,
        None,
        None,
        None,
        None,
        "[]",
        0,
        0,
        None,
        None,
        version,
        "w",
        None,
    )


async def test_only_so_many_intents_of_a_run_wait_and_others_get_their_turn(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses(), batch=32) as running:
        intents = running.supervisor.assembly.intents
        intents.most_waiting = lambda: 10
        busy, other = begin(tmp_path, "busy", "busy"), begin(tmp_path, "other", "other")
        append(busy, *[read("x")] * 300)
        append(other, write("x", "y"))
        await settle(running)
        assert await running.rows("select max(waiting) from (select count(*) as waiting from actions)") != []
        for _ in range(40):
            for each in intents._reading.values():
                each.retry_at = 0.0
            await settle(running)
        assert len(told(busy)) == 300
        assert told(other) == [(1, True)]
        (first,) = await running.rows(
            "select rank from (select principal, row_number() over (order by seq) as rank from actions) where principal = 'other'"
        )
        assert int(str(first[0])) <= 22, "it did not wait for all of the other's"


@pytest.mark.prove
@pytest.mark.timeout(400)
async def test_ten_thousand_intents_have_their_results(tmp_path: Path) -> None:
    await _have_their_results(tmp_path, 10_000)


@pytest.mark.sweep
@pytest.mark.timeout(900)
async def test_a_hundred_thousand_intents_have_their_results(tmp_path: Path) -> None:
    await _have_their_results(tmp_path, 100_000)


async def _have_their_results(tmp_path: Path, count: int) -> None:
    """Many more than wait at a time, and in order, beside another run's."""
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        busy, other = begin(tmp_path, "busy", "busy"), begin(tmp_path, "other", "other")
        append(busy, *['{"action_type":"noop"}\n'] * count)
        append(other, write("x", "y"))
        await settle(running)
        while (await running.rows("select count(*) from actions"))[0] != (count + 1,):
            for each in running.supervisor.assembly.intents._reading.values():
                each.retry_at = 0.0
            await settle(running)
        assert [number for number, _ in told(busy)] == list(range(1, count + 1))
        assert told(other) == [(1, True)]


async def test_a_file_that_was_rewritten_is_a_problem_and_read_no_further(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"))
        await settle(running)
        (run / "intents.jsonl").write_text(
            json.dumps(write("note", "other")) + "\n" + json.dumps(read("note")) + "\n"
        )
        await settle(running)
        append(run, read("note"))
        finish(run)
        await settle(running)
        await settle(running)
        assert told(run) == [(1, True)]
        ((message,),) = await running.rows("select message from problems where path like '%intents.jsonl'")
        assert "rewritten" in str(message)
        assert await running.rows("select state from intent_files") == [("read",)]


async def test_a_run_directory_of_another_user_acts_only_as_who_lets_it(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        os.chown(run, 65534, 65534)
        append(run, write("note", "hello"))
        await settle(running)
        (result,) = results(run)
        assert result["result"]["error_code"] == "not_authorized"  # type: ignore[index,call-overload] # an object


async def test_a_session_is_not_packed_or_pruned_while_intents_of_it_wait(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, read("x"))
        finish(run)
        await running.settle()
        from runward.daemon.store.tables.prunings import NOTHING_OWED

        owed = f"select {NOTHING_OWED.replace('?2', '0')} from sessions s"
        assert await running.rows(owed) == [(0,)]
        await settle(running)
        await settle(running)
        assert told(run) == [(1, False)]
        assert AT_ONCE > 1
        assert isinstance(running.supervisor.assembly.intents, Intents)


async def test_a_directory_that_is_copied_or_moved_carries_nothing_out_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        name_itself(run, "the-one")
        append(run, write("note", "hello"), read("note"))
        await settle(running)
        finish(run)
        await settle(running)
        await settle(running)
        shutil.copytree(run, runs / "copy")
        await settle(running)
        run.rename(runs / "moved")
        await settle(running)
        await settle(running)
        assert await running.rows("select key from actions order by key") == [
            ("native:runs/run#intent/1",),
            ("native:runs/run#intent/2",),
        ]
        assert told(runs / "copy") == told(runs / "moved") == [(1, True), (2, True)]
        files = "select session_key, line, state, run from intent_files order by 1"
        assert await running.rows(files) == [
            ("native:runs/copy", 2, "read", "native:runs/run"),
            ("native:runs/moved", 2, "read", "native:runs/run"),
            ("native:runs/run", 2, "read", None),
        ]
        assert await running.rows(f"select done from {PROGRESS}") == [(2,)] * 3, "no bundle waits for more"
        assert await running.rows("select lane, error from jobs where state <> 'done'") == []


async def test_a_run_that_goes_on_where_it_was_moved_to_has_its_new_lines_carried_out(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"))
        await settle(running)
        run.rename(runs / "moved")
        append(runs / "moved", write("note", "again"), read("note"))
        finish(runs / "moved")
        await settle(running)
        await settle(running)
        assert told(runs / "moved") == [(1, True), (2, True), (3, True)]
        assert await running.rows("select version from shared_artifacts where id = 'note'") == [(2,)]
        assert await running.rows("select lane, error from jobs where state <> 'done'") == []


async def test_the_bundle_of_a_run_waits_for_no_line_whose_result_is_in_a_copy_of_its_directory(
    tmp_path: Path,
) -> None:
    runs = tmp_path / "runs"
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        name_itself(run, "the-one")
        append(run, write("note", "hello"))
        await settle(running)
        shutil.copytree(run, runs / "copy")
        append(runs / "copy", read("note"))
        await settle(running)
        append(run, read("note"))
        finish(run)
        await settle(running)
        await settle(running)
        assert len(await running.rows("select 1 from actions")) == 2
        assert await running.rows(f"select session_key, line, done from {PROGRESS} order by 1") == [
            ("native:runs/copy", 2, 2),
            ("native:runs/run", 2, 2),
        ]


async def test_a_run_whose_directory_is_gone_is_not_waited_for_by_the_next_daemon(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"))
        await settle(running)
        shutil.rmtree(run)
        await running.settle()  # it is over, and this daemon ends before it asks for the rest of the file
        assert await running.rows("select state from intent_files") == [("over",)]
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await settle(running)
        await settle(running)
        files = await running.rows(f"select line, done, state from {PROGRESS}")
        assert files == [(1, 1, "read")], "its bundle waits for nothing more"


async def test_while_the_root_of_a_run_is_missing_its_intents_wait(tmp_path: Path) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        append(run, write("note", "hello"))
        (run / "exit.json").write_text('{"exit_code": 0}')
        await running.settle()  # it is over, and this daemon ends before it asks for the file
        assert await running.rows("select state from intent_files") == [("over",)]
        (tmp_path / "runs").rename(tmp_path / "elsewhere")
        await settle(running)
        assert await running.rows("select line, state from intent_files") == [(0, "over")]
        assert "root can't be reached" in str(running.supervisor.assembly.intents.trouble)
    (tmp_path / "elsewhere").rename(tmp_path / "runs")
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        await settle(running)
        assert told(run) == [(1, True)]


@pytest.mark.parametrize("is_seen_before", [True, False])
async def test_a_copy_that_is_found_with_its_run_carries_nothing_out_either(
    tmp_path: Path, is_seen_before: bool
) -> None:
    runs = tmp_path / "runs"
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        name_itself(run, "the-one")
        append(run, write("note", "hello"))
        if is_seen_before:
            await settle(running)
        again = {**json.loads((run / "run.json").read_text()), "started_at": "2026-02-04T04:05:06Z"}
        finish(run)
        await settle(running) if is_seen_before else None
        if is_seen_before:  # its next attempt begins, and the copy is of that one
            (run / "exit.json").unlink()
            (run / "run.json").write_text(json.dumps(again))
            await settle(running)
            finish(run)
            await settle(running)
        shutil.copytree(run, runs / "copy")
        for _ in range(3):
            await settle(running)
        assert len(await running.rows("select 1 from actions")) == 1
        assert len(await running.rows("select 1 from sessions where status <> 'running'")) == 2
        assert await running.rows("select told, line, state from intent_files where run is null") == [
            (1, 1, "read")
        ]


@pytest.mark.parametrize("lacking", ["session_id", "started_at"])
async def test_a_run_that_does_not_say_who_it_is_is_asked_for_that_and_its_copies_repeat_nothing(
    tmp_path: Path, lacking: str
) -> None:
    runs = tmp_path / "runs"
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        rewrite(run, **{lacking: None})
        append(run, write("note", "hello"))
        await settle(running)
        (result,) = results(run)
        assert result["result"]["error_code"] == "not_authorized"  # type: ignore[index,call-overload] # an object
        assert "write session_id and started_at into run.json" in json.dumps(result)
        shutil.copytree(run, runs / "copy")
        await settle(running)
        rewrite(run, session_id="the-one", started_at="2026-02-03T04:05:06Z")
        append(run, write("note", "again"))
        finish(run)
        for _ in range(3):
            await settle(running)
        shutil.copytree(run, runs / "another")
        rewrite(run, **{lacking: None})
        shutil.copytree(run, runs / "third")
        for _ in range(3):
            await settle(running)
        assert told(run) == [(1, False), (2, True)], "it said who it is before its second line"
        assert await running.rows("select version from shared_artifacts where id = 'note'") == [(1,)]


@pytest.mark.parametrize("when", ["before its lines", "between its lines", "after its lines"])
@pytest.mark.parametrize("launched", [True, False])
async def test_a_run_that_changes_who_it_is_is_known_in_its_copies_all_the_same(
    tmp_path: Path, launched: bool, when: str
) -> None:
    runs = tmp_path / "runs"
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        if launched:
            await running.settle()
            await launch(running, run)
        if when == "before its lines":
            rewrite(run, session_id="another", started_at="2027-02-03T04:05:06Z")
        append(run, write("note", "hello"))
        await settle(running)
        shutil.copytree(run, runs / "early")
        if when == "between its lines":
            rewrite(run, session_id="another")
        append(run, write("note", "again"))
        await settle(running)
        if when == "after its lines":
            rewrite(run, started_at="2027-02-03T04:05:06Z")
        finish(run)
        await settle(running)
        await settle(running)
        shutil.copytree(run, runs / "late")
        for _ in range(3):
            await settle(running)
        assert await running.rows("select key from actions order by key") == [
            ("native:runs/run#intent/1",),
            ("native:runs/run#intent/2",),
        ]
        assert told(runs / "late") == [(1, True), (2, True)]
        assert await running.rows("select version from shared_artifacts where id = 'note'") == [(2,)]


async def test_a_copy_of_a_launched_run_is_known_by_its_launcher_if_its_name_is_changed_in_the_copy(
    tmp_path: Path,
) -> None:
    async with daemon(tmp_path, StillClock(), ToldProcesses()) as running:
        run = begin(tmp_path, "run")
        await running.settle()
        await launch(running, run)
        append(run, write("note", "hello"))
        finish(run)
        await settle(running)
        await settle(running)
        hidden = tmp_path / "copy"
        shutil.copytree(run, hidden)
        rewrite(hidden, session_id="another", started_at="2027-02-03T04:05:06Z", launcher=LAUNCHER)
        hidden.rename(tmp_path / "runs/copy")
        for _ in range(3):
            await settle(running)
        assert await running.rows("select version from shared_artifacts where id = 'note'") == [(1,)]


LAUNCHER: dict[str, JsonValue] = {"pid": 7, "start_ticks": 70, "boot_id": "boot"}


async def launch(running: Daemon, run: Path) -> None:
    """Its launcher records it."""
    process = json.dumps([7, 70, "boot"])
    row = (
        "launch",
        native.session_key("runs", run.name),
        1770091506.0,
        "seal",
        None,
        None,
        1.0,
        process,
        process,
        None,
    )
    running.supervisor.assembly.intents.record("launch", (), (Rows(starts.INSERT_LAUNCH, [row]),))
    await running.settle()


def rewrite(run: Path, **changed: JsonValue) -> None:
    """Change the `run.json` of a run, in place."""
    said = {**json.loads((run / "run.json").read_text()), **changed}
    (run / "run.json").write_text(
        json.dumps({key: value for key, value in said.items() if value is not None})
    )


def name_itself(run: Path, session_id: str) -> None:
    """The run says who it is."""
    said = {**json.loads((run / "run.json").read_text()), "session_id": session_id}
    (run / "run.json").write_text(json.dumps(said))
