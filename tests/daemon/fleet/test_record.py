"""What a host says again to a database that was restored: also what its daemon has not decided on. There is no daemon here."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Connection
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place
from tests.daemon.fleet.test_bringing_orders import Both, Host

from runward.daemon.fleet import record
from runward.daemon.fleet.record import Record
from runward.daemon.fleet.telling_orders import Call


@pytest.fixture
def host(postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path) -> Iterator[Host]:
    gpu = new_place(tmp_path / "gpu")
    gpu.daemon_once()
    joined(office, gpu, "gpu-box")
    joined(office, laptop, "laptop")
    made = Host(postgresql, database, gpu)
    yield made
    for connection in made.connections:
        connection.close()


def _connected(host: Host) -> tuple[Connection, Both, Record]:
    connection, orders = host.connected()
    ((number,),) = connection.execute(
        "select connections from runward.hosts where name = 'gpu-box'"
    ).fetchall()
    return connection, orders, Record(host.place.state, host.settings, int(number))


def _owed_again(host: Host, since: str | None) -> None:
    """What the daemon does when the program tells it."""
    assert since is not None
    host.place.change_store(
        "insert or replace into fleet_reporting (id, epoch, reported_as, walked) values (1, 1, ?, '')",
        json.dumps(["gpu-box", "database", False, "what is reported", since]),
    )


def _is_restored_to_before_the_take(host: Host) -> None:
    with host.admin() as admin:
        admin.execute("update runward.orders set state = 'open', taken_by = null, taken_at = null, takes = 0")
        admin.execute("update runward.identity set known = 'of another database'")
        admin.execute("update runward.hosts set accepts = name = 'gpu-box'")


def test_a_take_that_the_daemon_has_not_decided_on_is_said_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.has("1")
    connection, orders, _ = _connected(host)
    orders.look(connection)
    (order,) = host.inbox("RemoteStepOrdered")
    _is_restored_to_before_the_take(host)
    connection, orders, remembered = _connected(host)
    remembered.look(connection)
    assert host.states() == [("1", "open")], "the daemon has yet to owe its reports again"
    with monkeypatch.context() as without:
        # Without the inbox, it would be anybody's.
        without.setattr(Record, "_takes_in_inbox", lambda self: [])
        without.setattr(record, "_call", _all_but_the_last)
        _owed_again(host, remembered.since)
        remembered.look(connection)
        assert host.states() == [("1", "open")]
    remembered.look(connection)
    assert (remembered.since, remembered.refused) == (None, None)
    assert host.states() == [("1", "taken")]
    orders.look(connection)
    again = host.inbox("RemoteStepOrdered")
    # The daemon decides on a take once, however often it is put (test_taking.py).
    assert {(each["origin"], each["id"], each["take"]) for each in again} == {
        (order["origin"], order["id"], order["take"])
    }
    assert order["request"] in {each["request"] for each in again}


_CALL = record._call


def _all_but_the_last(connection: Connection, number: int, calls: Sequence[Call]) -> list[object]:
    """As a program that is killed before it says that this was all."""
    return _CALL(connection, number, [each for each in calls if "said_again" not in each.statement])


def test_what_the_daemon_has_read_and_not_decided_on_is_said_again(host: Host) -> None:
    host.has("1")
    connection, orders, _ = _connected(host)
    orders.look(connection)
    (path,) = (host.place.state / "inbox").glob("fleet-order-*.json")
    payload = json.dumps(json.loads(path.read_bytes())["payload"])
    path.unlink()
    host.place.change_store(
        "insert into events (seq, key, type, version, lane, at, recorded_at, payload, hash)"
        " values (9000, 'k', 'RemoteStepOrdered', 1, 'fleet:fl_1-1', 1.0, 1.0, ?, 'h')",
        payload,
    )
    host.place.change_store(
        "insert into jobs (id, event, handler, lane, state, epoch, updated_at)"
        " values (9000 * 32, 9000, 'begin_taken', 'fleet:fl_1-1', 'held', 1, 1.0)"
    )
    _is_restored_to_before_the_take(host)
    connection, _, remembered = _connected(host)
    remembered.look(connection)
    _owed_again(host, remembered.since)
    remembered.look(connection)
    assert host.states() == [("1", "taken")]


def test_a_host_remembers_only_what_it_knows_of_this_database(host: Host) -> None:
    connection, _, remembered = _connected(host)
    remembered.look(connection)
    path = host.place.state / "fleet/seen.json"
    seen = json.loads(path.read_bytes())
    assert seen["changes"] == {"gpu-box": 0, "laptop": 0}
    path.write_text(json.dumps({**seen, "changes": {"gpu-box": 7}}))
    connection, _, remembered = _connected(host)
    remembered.look(connection)
    assert remembered.since is not None
    assert "the database is older than its hosts know: nobody takes orders until gpu-box" in str(
        remembered.refused
    )
    with host.admin() as admin:
        admin.execute("truncate runward.unheard")
    path.write_text(
        json.dumps({**seen, "database": "postgresql://x@another/runward", "changes": {"gpu-box": 7}})
    )
    connection, _, remembered = _connected(host)
    remembered.look(connection)
    assert remembered.since is None


def test_what_this_host_does_not_know_of_its_takes_is_neither_begun_nor_given_back(host: Host) -> None:
    host.has("1", state="taken", taken_by="gpu-box", takes=1, doubted=True)
    host.has("2", state="taken", taken_by="gpu-box", takes=1, doubted=True, cancelled=True)
    host.has("3", state="taken", taken_by="gpu-box", takes=1)
    connection, orders, _ = _connected(host)
    orders.look(connection)
    assert [each["id"] for each in host.inbox("RemoteStepOrdered")] == ["3"]
    assert host.inbox("RemoteStepCancelled") == []
    assert "laptop/1, laptop/2" in str(orders.refused)
