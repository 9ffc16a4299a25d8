"""What many rows cost a fleet: those that are owed after an outage, the list of a large fleet; and what an idle program takes."""

import json
import os
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import psycopg
from tests.bench.copied_rows import copy_sessions
from tests.bench.figure import Conditions, Figure, Goal, Measured, Measurement, of_ratio, of_samples
from tests.bench.fleet_hosts import FleetOfBench, fleet_of_bench
from tests.bench.large_store import FEW, fill, pack, state_of
from tests.bench.launcher import clean_environment, runward
from tests.bench.product import Daemon, DaemonFailed, daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.usage import exact_cpu_s

from runward.daemon.fleet.verifying import AT_ONCE, verified

_OWED: Final = Figure(
    "fleet-owed",
    "10,000 owed sessions after an outage, rows a second",
    "x bare pipelined inserts",
    Goal("at least", 0.3),
    "each row's body is read and made from the store; the bare inserts have theirs ready",
)
_LIST: Final = Figure(
    "fleet-list",
    "`session list --fleet`, 10 hosts, 1,000,000 sessions",
    f"x {FEW:,}",
    Goal("at most", 2.0),
)
_VERIFY: Final = Figure(
    "fleet-verify", "`fleet verify`, 100,000 receipts", "x reading them", Goal("at most", 2.0)
)
_PROCESSOR: Final = Figure(
    "fleet-idle", "idle program of a fleet, processor", "% of a core", Goal("at most", 0.1)
)
_STATEMENTS: Final = Figure(
    "fleet-idle-statements", "idle program of a fleet", "statements a minute", Goal("at most", 4.0)
)
_HOSTS: Final = 10
_WITHIN_S: Final = 120.0
_BATCH: Final = 100


def _owed(conditions: Conditions) -> list[Measured]:
    """From the moment when the database has the first of them until it has all; it was away while they became owed."""
    count, seeds = conditions.size(10_000, 1_000), conditions.size(1_000, 200)
    ours, bare = [], []
    with scratch(conditions.disk) as place:
        fill(place, range(seeds))
        _grow(place, count)
        for number in range(conditions.repeats):
            with fleet_of_bench(place.fresh(f"server-{number}")) as fleet:
                ours.append(_delivered_a_second(place, fleet, count))
                bare.append(_bare_a_second(fleet, count))
    beside = f"{statistics.median(ours):,.0f} rows/s against {statistics.median(bare):,.0f}"
    return [of_ratio(_OWED, ours, bare, beside)]


def _grow(place: Scratch, count: int) -> None:
    import asyncio

    asyncio.run(pack(place))
    copy_sessions(state_of(place) / "runward.db", count)


def _delivered_a_second(place: Scratch, fleet: FleetOfBench, count: int) -> float:
    settings = fleet.joined("laptop")
    fleet.server.stop()
    with daemon(place, settings) as running:
        _wait(lambda: _owes(running, count), f"{count} owed rows")
        fleet.server.start()
        with fleet.admin() as admin:
            first, begin = _wait(lambda: _rows(admin), "the first rows"), time.monotonic()
            _wait(lambda: _rows(admin) == count, f"{count} rows")
            taken = time.monotonic() - begin
    if first == count:
        raise DaemonFailed(f"all {count} rows arrived at once: there is nothing to measure")
    return (count - first) / taken


def _owes(running: Daemon, count: int) -> bool:
    return running.record.owed_to_fleet() >= count


def _rows(admin: "psycopg.Connection[tuple[object, ...]]") -> int:
    ((count,),) = admin.execute("select count(*) from runward.sessions").fetchall()
    return int(str(count))


def _wait(fact: Callable[[], int], what: str) -> int:
    give_up = time.monotonic() + _WITHIN_S
    while not (found := fact()):
        if time.monotonic() > give_up:
            raise DaemonFailed(f"no {what} within {_WITHIN_S:.0f} s")
        time.sleep(0.01)
    return found


def _bare_a_second(fleet: FleetOfBench, count: int) -> float:
    """The same rows into a table of the same form, as many in a transaction."""
    insert = (
        "insert into bare (host, key, version, started_at, body) values (%s, %s, %s, %s, %s)"
        " on conflict (host, key) do nothing"
    )
    with fleet.admin() as admin:
        admin.execute("create table bare (like runward.sessions including all)")
        rows = admin.execute(
            "select host, key, version, started_at, body::text from runward.sessions"
        ).fetchall()
    with psycopg.connect(
        fleet.server.conninfo(fleet.name) + _TLS.format(fleet.server.port), autocommit=True
    ) as own:
        begin = time.monotonic()
        for first in range(0, count, _BATCH):
            with own.pipeline(), own.transaction():
                for row in rows[first : first + _BATCH]:
                    own.execute(insert, row)
        return count / (time.monotonic() - begin)


_TLS: Final = " host=127.0.0.1 port={} sslmode=require"
"""As the program connects."""


def _list(conditions: Conditions) -> list[Measured]:
    """Milliseconds of the command in a fleet of so many rows, and in one of few, in turn."""
    many = conditions.size(1_000_000, 20_000)
    times: dict[int, list[float]] = {FEW: [], many: []}
    with scratch(conditions.disk) as place:
        for count, taken in times.items():
            with fleet_of_bench(place.fresh(f"server-{count}")) as fleet:
                home = place.fresh(f"home-{count}")
                (home / "runward.toml").write_text(f'state_dir = "{home}/state"\n{fleet.joined("laptop")}')
                _fill(fleet, count)
                _listed(home)
                taken += [_listed(home) for _ in range(5 * conditions.repeats)]
    beside = f"{statistics.median(times[many]):.0f} ms against {statistics.median(times[FEW]):.0f} ms"
    return [of_ratio(_LIST, times[many], times[FEW], beside)]


def _add_hosts(fleet: FleetOfBench) -> None:
    with fleet.admin() as admin:
        admin.execute(
            "insert into runward.hosts (name, login, labels, joined_at, last_seen)"
            " select 'host-' || n, 'host_' || n, '{}', now(), now() from generate_series(1, %s) n",
            (_HOSTS,),
        )


def _fill(fleet: FleetOfBench, count: int) -> None:
    """Sessions of ten hosts, without asking the hosts. The indexes are those of the fleet, made after the rows."""
    _add_hosts(fleet)
    with fleet.admin() as admin:
        indexes = admin.execute(
            "select indexname, indexdef from pg_indexes where schemaname = 'runward' and tablename = 'sessions'"
            " and indexname <> 'sessions_pkey'"
        ).fetchall()
        for name, _ in indexes:
            admin.execute(f"drop index runward.{name}".encode())
        admin.execute("set maintenance_work_mem = '256MB'")
        admin.execute("set synchronous_commit = off")
        admin.execute(
            "insert into runward.sessions (host, key, version, started_at, body)"
            " select 'host-' || 1 + n %% %s, 'native:runs/' || n, n, started, jsonb_build_object('key', 'native:runs/' || n,"
            " 'session_id', 'run-' || n, 'root', 'runs', 'layout', 'native', 'status',"
            " case n %% 20 when 0 then 'failed' else 'completed' end, 'playbook', 'nightly-' || n %% 40, 'agent', 'agent-'"
            " || n %% 7, 'started_at', started, 'finished_at', started + 60, 'delivery', 'passed')"
            " from generate_series(1, %s) n, lateral (select extract(epoch from now())::float8 - n * 30.0 + 0.5) each(started)",
            (_HOSTS, count),
        )
        for _, definition in indexes:
            admin.execute(str(definition).encode())
        admin.execute("vacuum analyze runward.sessions")


def _listed(home: Path) -> float:
    begin = time.perf_counter()
    done = subprocess.run(
        [*runward(), "--config", str(home / "runward.toml"), "session", "list", "--fleet"],
        env=clean_environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    taken = time.perf_counter() - begin
    assert "run-1" in done.stdout, done
    return taken * 1e3


def _verify(conditions: Conditions) -> list[Measured]:
    """Seconds that the chains of ten hosts take, against a plain read of the same rows in pages of the same size, in turn."""
    count = conditions.size(100_000, 5_000)
    ours, bare = [], []
    with scratch(conditions.disk) as place, fleet_of_bench(place.directory) as fleet:
        fleet.joined("laptop")
        _add_hosts(fleet)
        with fleet.admin() as admin:
            admin.execute("alter table runward.receipts disable trigger user")
            admin.execute(
                "insert into runward.receipts (host, segment, number, hash, prev) select 'host-' || h, 1, n,"
                " 'sha256:' || encode(sha256((h || '/' || n)::bytea), 'hex'),"
                " case when n > 1 then 'sha256:' || encode(sha256((h || '/' || n - 1)::bytea), 'hex') end"
                " from generate_series(1, %s) h, generate_series(1, %s) n",
                (_HOSTS, count // _HOSTS),
            )
            admin.execute("vacuum analyze runward.receipts")
        with psycopg.connect(fleet.conninfo("laptop"), autocommit=True) as host:
            for _ in range(3 * conditions.repeats):
                begin = time.perf_counter()
                read = _read(host)
                bare.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                chains = [*verified(host, None, None, _no_store)]
                ours.append(time.perf_counter() - begin)
                told = sum(each.receipts for each in chains)
                if (read, told) != (count, count) or any(each.problems for each in chains):
                    raise DaemonFailed(f"{told} receipts were verified of {read}: {chains}")
    beside = f"{statistics.median(ours):.2f} s against {statistics.median(bare):.2f} s"
    return [of_ratio(_VERIFY, ours, bare, beside)]


def _no_store() -> "AbstractContextManager[sqlite3.Connection]":
    raise AssertionError("no chain is that of this host")


def _read(host: "psycopg.Connection[tuple[object, ...]]") -> int:
    """Every receipt; returns how many there are."""
    query = (
        "select number, hash, prev from runward.receipts where host = %s and segment = 1 and number > %s"
        " order by number limit %s"
    )
    count = 0
    for number in range(1, _HOSTS + 1):
        last = 0
        while rows := host.execute(query, (f"host-{number}", last, AT_ONCE)).fetchall():
            count, last = count + len(rows), int(str(rows[-1][0]))
    return count


def _idle(conditions: Conditions) -> list[Measured]:
    """What the program takes, and what the database was asked, over two minutes in which nothing happens."""
    seconds = conditions.size(120, 6)
    with scratch(conditions.disk) as place, fleet_of_bench(place.directory) as fleet:
        settings = fleet.joined("laptop", 'slots = 2\n[[fleet.accept]]\nfrom = ["*"]\nskills = ["*"]\n')
        with fleet.admin() as admin:
            admin.execute("alter role host_laptop set log_statement = 'all'")
        with daemon(place, settings) as running:
            running.wait_scanned()
            running.settle()
            pid = _program(state_of(place))
            _wait(lambda: _statements(fleet) > 0, "statements of the program")
            time.sleep(conditions.size(35, 1))  # what a connection begins with is not idle
            asked, used, begin = _statements(fleet), exact_cpu_s(pid), time.monotonic()
            time.sleep(seconds)
            taken = time.monotonic() - begin
            share = (exact_cpu_s(pid) - used) / taken * 100
            statements = (_statements(fleet) - asked) / taken * 60
    return [of_samples(_PROCESSOR, [share]), of_samples(_STATEMENTS, [statements], f"over {taken:.0f} s")]


def _statements(fleet: FleetOfBench) -> int:
    """How many the server has logged."""
    log = (fleet.server.directory / "log").read_text()
    return sum(
        any(word in line for word in ("statement:", "execute <", "execute _")) for line in log.splitlines()
    )


def _program(state: Path) -> int:
    lines = (state / "log/runward.jsonl").read_text().splitlines()
    pids = [int(line["pid"]) for line in map(json.loads, lines) if line["event"] == "fleet.started"]
    os.kill(pids[-1], 0)
    return pids[-1]


MEASUREMENTS: Final = (
    Measurement(
        "fleet-owed",
        "sessions that became owed while the database was down, from the first that arrives to the last",
        (_OWED,),
        _owed,
    ),
    Measurement("fleet-list", "the first page of the list of a fleet of ten hosts", (_LIST,), _list),
    Measurement(
        "fleet-verify",
        "the chains of receipts of ten hosts are recomputed, without the start of the command",
        (_VERIFY,),
        _verify,
    ),
    Measurement(
        "fleet-idle",
        "the program of a host of a fleet that accepts steps and has nothing to do",
        (_PROCESSOR, _STATEMENTS),
        _idle,
    ),
)
