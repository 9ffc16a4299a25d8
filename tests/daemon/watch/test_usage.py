"""A whole daemon counts what replies used once, however their transcripts grow, are replaced, and are read again."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.in_process import Daemon
from tests.daemon.watch.test_following import KEY, Home
from tests.daemon.watch.test_mixed_roots import Tree
from tests.handlers.layouts import droid_lines
from tests.handlers.layouts.claude_code_lines import MODEL, SESSION, Transcript
from tests.handlers.usage.naive import claude_code_replies
from tests.handlers.usage.test_counting import Sums, of_replies, summed

from runward.daemon.store.schema import make_empty
from runward.daemon.store.tables import usage
from runward.daemon.store.transaction import Row
from runward.handlers.usage.counting import Counted

FIELDS = ", ".join(Counted._fields)


async def stored(running: Daemon) -> Sums:
    rows = await running.rows(f"select {FIELDS} from usage where session_key = '{KEY}'")
    return summed(Counted(*row) for row in rows)  # type: ignore[arg-type] # the columns are its fields


def in_files(home: Home) -> Sums:
    return of_replies(claude_code_replies(SESSION, home.transcript.lines))


async def missing(running: Daemon) -> list[Row]:
    return await running.rows("select count(*) from usage_read where looks = 0")


async def test_replies_are_counted_as_a_transcript_grows_and_after_a_restart(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("First,", stop=None, reply="a")
    home.write()
    async with home.open() as running:
        await running.settle()
        assert await stored(running) == in_files(home) != {}
        home.transcript.text("I look.", stop=None, reply="a")
        home.transcript.result(home.transcript.call())
        home.write()
        await running.settle()
        assert await stored(running) == in_files(home)
    home.transcript.text("Done.")
    home.write()
    async with home.open() as running:
        await home.rest(running)
        assert await stored(running) == in_files(home)
        assert sum(values[0] for values in in_files(home).values()) == 3


@pytest.mark.parametrize("seconds", [0.0, 100_000.0])
async def test_of_a_transcript_that_was_replaced_the_new_one_counts(tmp_path: Path, seconds: float) -> None:
    home = Home(tmp_path)
    for _ in range(3):
        home.transcript.prompt("fix it")
        home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running)
        home.transcript = Transcript(now=home.clock.wall + seconds)
        home.transcript.prompt("again")
        home.transcript.text("fixed again")
        home.place.unlink()
        home.write()
        await home.rest(running)
        assert await stored(running) == in_files(home)
        assert sum(values[0] for values in in_files(home).values()) == 1


async def test_what_an_older_version_read_is_counted_in_the_background(tmp_path: Path) -> None:
    """The state of a scanner that counted nothing, and a place that was read to its end: as the upgrade leaves them."""
    home = Home(tmp_path)
    home.transcript.prompt("fix it")
    home.transcript.text("fixed")
    home.write()
    async with home.open() as running:
        await home.rest(running)
        before = await running.rows("select key, status, attempt from sessions")
        events = await running.rows("select count(*) from events")
    with closing(sqlite3.connect(home.base / "state" / "runward.db")) as store, store:
        store.executescript(
            """
            delete from usage;
            update usage_read set looks = 0;
            update cursors set state = replace(state, '"[5,', '"[4,');
            update places set signature = null;
            """
        )
        assert usage.sessions_missing(store) == 1
    async with home.open() as running:
        await home.rest(running)
        assert await missing(running) == [(0,)]
        assert await stored(running) == in_files(home) != {}
        assert await running.rows("select key, status, attempt from sessions") == before
        assert await running.rows("select count(*) from events") == events


async def test_replies_of_sub_agents_are_counted_as_their_files_grow_and_after_a_restart(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    agents = [Transcript(now=home.clock.wall - 90 + number) for number in range(2)]

    def write() -> None:
        for number, agent in enumerate(agents):
            place = home.place.with_suffix("") / f"subagents/agent-{number}.jsonl"
            home.write_as(agent.content(), place)
        home.write()

    def in_all() -> Sums:
        files = (home.transcript, *agents)
        return of_replies(reply for each in files for reply in claude_code_replies(SESSION, each.lines))

    home.transcript.prompt("fix it")
    calls = [home.transcript.call("Agent"), home.transcript.call("Agent")]
    for agent in agents:
        agent.user("look around", isSidechain=True)
        agent.said([{"type": "text", "text": "I look."}], None, "msg_own", isSidechain=True)
    write()
    async with home.open() as running:
        await running.settle()
        assert await stored(running) == in_all() != in_files(home)
        for agent in agents:
            agent.said([{"type": "text", "text": "Seen."}], "end_turn", "msg_own", isSidechain=True)
            agent.said([{"type": "text", "text": "Done."}], "end_turn", isSidechain=True)
        home.transcript.result(calls[0])
        write()
        await running.settle()
        assert await stored(running) == in_all()
        ((told,),) = await running.rows("select json_extract(state, '$[10][3]') from cursors")
    agents[1].said([{"type": "text", "text": "And done."}], "end_turn", isSidechain=True)
    home.transcript.result(calls[1])
    home.transcript.text("Done.")
    write()
    async with home.open() as running:
        await home.rest(running)
        assert await stored(running) == in_all()
        assert await running.rows("select status from sessions") == [("completed",)]
        assert sum(values[0] for values in in_all().values()) == 8
        assert told == 2 * 111, "the session's own replies"


async def test_totals_beside_a_log_are_counted_once_as_they_grow_after_a_restart_and_a_resume(
    tmp_path: Path,
) -> None:
    tree, log = Tree(tmp_path), droid_lines.Log().prompt()

    def write(*totals: int) -> None:
        tree.put(f"app/{droid_lines.SETTINGS}", droid_lines.settings(*totals))
        tree.put(f"app/{droid_lines.NAME}", *log.lines())

    async def used(running: Daemon) -> list[Row]:
        await tree.scan(running)
        total = "sum(fresh_input), sum(cache_read), sum(output), sum(replies)"
        return await running.rows(f"select session_key, model, {total} from usage group by 1, 2")

    key = f"droid:{droid_lines.SESSION}"
    write(60, 40, 10)
    async with tree.open() as running:
        assert await used(running) == [(key, "mock-model", 60, 40, 10, 0)]
        log.say()
        write(120, 80, 20)
        assert await used(running) == [(key, "mock-model", 120, 80, 20, 0)]
        tree.put(f"app/{droid_lines.SETTINGS}", b'{"tokenUsage": {"inpu')
        await tree.scan(running)
    log.prompt("go on").say()
    write(180, 120, 30)
    async with tree.open() as running:
        assert await used(running) == [(key, "mock-model", 180, 120, 30, 0)]
        assert await running.rows("select status, attempt from sessions") == [("completed", 2)]
        # Another log of the same name: its session is read from the beginning, and what was counted is taken back.
        (tree.root / "app" / droid_lines.NAME).unlink()
        log.records[1:3] = []
        write(7, 0, 1)
        assert await used(running) == [(key, "mock-model", 7, 0, 1, 0)]


LOOKS = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.sampled_from([None, 0, 5])), max_size=3),
    ),
    max_size=8,
)


@given(LOOKS, st.data())
def test_a_look_that_is_written_again_adds_nothing(
    looks: list[tuple[bool, list[tuple[int, int, int | None]]]], data: st.DataObject
) -> None:
    """Looks are written in order. The last one may be written again, since nobody knows if a commit succeeded.

    Replies with a reported cost and those without have sums of their own.
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        make_empty(connection)
        number, counted = 0, list[Counted]()
        for anew, replies in looks:
            rows = [
                Counted(hour, MODEL, "standard", 0, 1, tokens, 0, 0, 0, 1, cost)
                for hour, tokens, cost in replies
            ]
            number = 1 if anew or not number else number + 1
            counted = rows if number == 1 else counted + rows
            for _ in range(data.draw(st.integers(1, 2))):
                for each in usage.told(KEY, rows, number):
                    connection.executemany(each.write.sql, each.rows)
            found = connection.execute(f"select {FIELDS} from usage").fetchall()
            assert {Counted(*row) for row in found} == added_up(counted)


def added_up(replies: list[Counted]) -> set[Counted]:
    """One sum for each hour, with and without a reported cost."""
    sums: dict[tuple[int, bool], list[int]] = {}
    for each in replies:
        values = sums.setdefault((each.hour, each.reported_nanousd is not None), [0] * 4)
        for place, more in enumerate(
            (each.replies, each.fresh_input, each.output, each.reported_nanousd or 0)
        ):
            values[place] += more
    return {
        Counted(hour, MODEL, "standard", 0, count, given, 0, 0, 0, made, cost if is_reported else None)
        for (hour, is_reported), (count, given, made, cost) in sums.items()
    }
