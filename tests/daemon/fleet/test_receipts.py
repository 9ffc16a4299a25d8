"""The receipts of a host, from its store to the database, and what `fleet verify` says of them, without daemons."""

import json
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.cli.calling import Place, Result
from tests.daemon.fleet.attacked import Connection
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place
from tests.waiting import wait_for

from runward.config.settings import FleetSettings
from runward.daemon.fleet import receipts, verifying
from runward.daemon.fleet.connecting import as_host
from runward.daemon.fleet.receipts import Receipts


def digest(number: int, of: str = "") -> str:
    return f"sha256:{of}{number:0{64 - len(of)}x}"


class Host:
    """The host gpu-box, which has a store but no daemon. `add` writes receipts as its daemon would."""

    def __init__(self, server: Server, database: str, place: Place) -> None:
        self.server, self.database, self.place = server, database, place
        self.connections: list[Connection] = []
        directory = place.directory / "runward.toml.d"
        written = tomllib.loads((directory / "fleet.toml").read_text())["fleet"]
        self.settings = FleetSettings(
            host=written["host"],
            database=written["database"],
            password_file=str(directory / written["password_file"]),
            ca_file=str(directory / written["ca_file"]),
        )

    def connected(self) -> tuple[Connection, Receipts]:
        """A connection of the next program, and its receipts."""
        connection = as_host(self.settings)
        self.connections.append(connection)
        ((number,),) = connection.execute("select runward.greet(1, '1.0')").fetchall()
        return connection, Receipts(self.place.state, self.settings, int(number))

    def reported(self) -> tuple[list[int], str | None]:
        """What the next program delivers: the versions, and what is refused."""
        connection, made = self.connected()
        return [version for versions in made.say(connection) for version in versions], made.refused

    def add(self, *numbers: int, of: str = "") -> None:
        """Further receipts. A number that is left out is that of an attempt without one."""
        for number in numbers:
            rows = self.place.rows("select receipt_hash from receipts order by seq desc limit 1")
            self.place.change_store(
                "insert into receipts (seq, session_key, attempt, receipt_hash, prev, directory, parts, facts, recorded_at)"
                " values (?, ?, 1, ?, ?, 'x', '[]', '{}', 1.0)",
                number,
                f"native:runs/{number}",
                digest(number, of),
                rows[0][0] if rows else None,
            )
            self.place.change_store(
                "insert into fleet_outbox (kind, subject) values ('receipt', ?)", str(number)
            )

    def restore(self, after: int) -> None:
        """As from a backup that was made when it had receipts up to this number."""
        self.place.change_store("drop trigger receipts_stay")
        self.place.change_store("delete from receipts where seq > ?", after)
        self.place.change_store("delete from fleet_outbox")

    def admin(self) -> Connection:
        return self.server.admin(self.database)

    def has(self, segment: int = 1) -> list[int]:
        """The numbers of the receipts that the fleet has of it."""
        with self.admin() as admin:
            rows = admin.execute(
                "select number from runward.receipts where host = 'gpu-box' and segment = %s order by 1",
                (segment,),
            ).fetchall()
        return [int(number) for (number,) in rows]

    def tamper(self, statement: str, table: str = "receipts") -> None:
        """Change what nobody can change, as who owns the database could."""
        with self.admin() as admin:
            admin.execute(f"alter table runward.{table} disable trigger all".encode())
            admin.execute(statement.encode())

    def verify(self, *words: str) -> Result:
        return self.place.call("fleet", "verify", *words)


@pytest.fixture
def host(postgresql: Server, database: str, office: Place, tmp_path: Path) -> Iterator[Host]:
    place = new_place(tmp_path / "gpu")
    place.daemon_once()
    joined(office, place, "gpu-box")
    made = Host(postgresql, database, place)
    yield made
    for connection in made.connections:
        connection.close()


@pytest.fixture
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(verifying, "AT_ONCE", 2)


@pytest.mark.usefixtures("_few_at_once")
def test_every_receipt_arrives_once_and_is_owed_until_then(host: Host) -> None:
    host.add(1, 2, 3, 5, 8)
    assert host.reported() == ([1, 2, 3, 4, 5], None)
    assert host.has() == [1, 2, 3, 5, 8]
    with host.admin() as admin:
        assert admin.execute(
            "select session, attempt from runward.receipts order by 1 limit 2"
        ).fetchall() == [
            ("1", 1),
            ("2", 1),
        ]
    # Nothing that was said is said again, and what came since is.
    host.place.change_store("delete from fleet_outbox")
    assert host.reported() == ([], None)
    host.add(9)
    assert host.reported() == ([6], None)
    assert host.has() == [1, 2, 3, 5, 8, 9]


def test_what_is_owed_and_there_already_is_owed_no_longer(host: Host) -> None:
    host.add(1, 2)
    host.reported()
    # The program was killed before it said so.
    assert host.reported() == ([1, 2], None)


def test_receipts_from_before_the_host_joined_and_those_that_an_older_database_lacks_arrive(
    host: Host,
) -> None:
    host.add(1, 2, 3)
    host.place.change_store("delete from fleet_outbox")
    assert host.reported() == ([], None)
    assert host.has() == [1, 2, 3]
    host.tamper("delete from runward.receipts where number > 1")
    host.reported()
    assert host.has() == [1, 2, 3]


def test_a_head_of_the_chain_of_events_is_reported_at_the_first_connection(host: Host) -> None:
    host.place.add_run("a", exit_code=0)
    host.place.daemon_once()
    host.reported()
    host.reported()
    ((seq, of_event),) = host.place.rows("select seq, hash from events order by seq desc limit 1")
    with host.admin() as admin:
        rows = admin.execute("select host, segment, number, hash from runward.heads").fetchall()
    assert rows == [("gpu-box", 1, seq, of_event)]


def test_the_next_head_is_due_after_an_hour(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.place.add_run("a", exit_code=0)
    host.place.daemon_once()
    connection, made = host.connected()
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for passed, expected in ((0.0, 1), (3599.0, 1), (2.0, 2)):
        now[0] += passed
        [*made.say(connection)]
        with host.admin() as admin:
            assert admin.execute("select count(*) from runward.heads").fetchall() == [(expected,)]
        host.place.add_run(f"b{expected}{passed}", exit_code=0)
        host.place.daemon_once()


def test_a_restored_store_is_told_and_another_segment_keeps_the_earlier_one(host: Host) -> None:
    host.add(1, 2, 3)
    host.reported()
    host.restore(after=1)
    host.add(2, of="f")
    done, refused = host.reported()
    assert done == []
    assert refused is not None
    assert "the fleet has receipt 3 of this host, which its store does not have" in refused
    assert "`runward fleet join --new-segment`" in refused
    assert host.has() == [1, 2, 3]
    told = host.verify()
    assert told.code == 1
    assert (
        f"the fleet has receipt 2, {digest(2)}, and the store here has receipt 2, {digest(2, 'f')}"
        in told.out
    )
    told = host.place.call("fleet", "join", "--new-segment")
    assert (told.code, told.err) == (0, "")
    assert "segment 2 of gpu-box begins" in told.out
    ((owed,),) = host.place.rows("select version from fleet_outbox")
    assert host.reported() == ([owed], None)
    assert (host.has(), host.has(segment=2)) == ([1, 2, 3], [1, 2])
    told = host.verify()
    assert told.code == 0, told.out
    assert f"valid: gpu-box: 2 receipts, head {digest(2, 'f')}, as in the store here\n" in told.out
    assert "  segment 2 is another chain than segment 1 behind receipt 1\n" in told.out
    again = host.place.call("fleet", "join", "--new-segment")
    assert again.code == 1
    assert "no other segment is needed: the store here goes on where the fleet is" in again.err


def test_a_store_that_went_back_before_its_last_head_is_told(host: Host) -> None:
    for name in ("a", "b"):
        host.place.add_run(name, exit_code=0)
    host.place.daemon_once()
    host.reported()
    with host.admin() as admin:
        ((number,),) = admin.execute("select number from runward.heads").fetchall()
        admin.execute(
            "insert into runward.heads (host, segment, number, hash) values ('gpu-box', 1, %s, %s)",
            (int(number) + 7, "b" * 64),
        )
    _, refused = host.reported()
    assert refused is not None
    assert f"the fleet has event {int(number) + 7} of this host" in refused
    told = host.verify()
    assert told.code == 1
    assert f"the fleet has event {int(number) + 7}, {'b' * 64}, and the store here ends before it" in told.out
    assert host.place.call("fleet", "join", "--new-segment").code == 0
    assert host.reported()[1] is None


def test_a_running_program_goes_on_with_the_segment_that_a_person_began(host: Host) -> None:
    host.add(1, 2)
    host.reported()
    host.restore(after=1)
    host.add(2, of="f")
    connection, made = host.connected()
    assert [*made.say(connection)] == []
    assert host.place.call("fleet", "join", "--new-segment").code == 0
    assert [*made.say(connection)] != []
    assert made.refused is None
    assert host.has(segment=2) == [1, 2]
    # And if the segment ends while it reports.
    host.add(3)
    with host.admin() as admin:
        admin.execute("update runward.hosts set segment = 3")
    assert [*made.say(connection)] == []
    [*made.say(connection)]
    assert host.has(segment=3) == [1, 2, 3]


TAMPERED: dict[str, tuple[str, str]] = {
    "a receipt is exchanged": (
        f"update runward.receipts set hash = '{digest(2, 'f')}' where number = 2",
        f"receipt 3 of segment 1 names {digest(2)} before it, and {digest(2, 'f')} is",
    ),
    "a receipt is gone": (
        "delete from runward.receipts where number = 2",
        f"receipt 3 of segment 1 names {digest(2)} before it, and {digest(1)} is",
    ),
    "the first one is gone": (
        "delete from runward.receipts where number = 1",
        f"receipt 2 of segment 1 names {digest(1)} before it, and None is",
    ),
}


@pytest.mark.usefixtures("_few_at_once")
@pytest.mark.parametrize(("statement", "said"), TAMPERED.values(), ids=TAMPERED)
def test_a_chain_that_was_changed_in_the_database_is_found_by_every_host(
    host: Host, office: Place, laptop: Place, statement: str, said: str
) -> None:
    joined(office, laptop, "laptop")
    host.add(1, 2, 3, 4, 5)
    host.reported()
    assert host.verify().code == 0
    host.tamper(statement)
    for place in (host.place, laptop, office):
        told = place.call("fleet", "verify")
        assert told.code == 1
        assert "invalid: gpu-box: " in told.out
        assert f"  {said}\n" in told.out


@pytest.mark.usefixtures("_few_at_once")
def test_a_whole_chain_that_was_exchanged_is_found_by_its_host(host: Host, office: Place) -> None:
    host.add(1, 2, 3)
    host.reported()
    host.tamper(
        "update runward.receipts set hash = overlay(hash placing 'f' from 8), prev = overlay(prev placing 'f' from 8)"
    )
    assert office.call("fleet", "verify").code == 0, "it is a chain"
    told = host.verify()
    assert told.code == 1
    assert told.out.count("the fleet has receipt") == 1, "the first difference says it"
    assert (
        f"the fleet has receipt 1, {digest(1, 'f')}, and the store here has receipt 1, {digest(1)}"
        in told.out
    )


def test_what_the_fleet_lacks_is_owed_and_no_difference(host: Host) -> None:
    host.add(1, 2)
    host.reported()
    host.add(3, 4, 5)
    told = host.verify()
    assert told.code == 0
    assert (
        told.out
        == f"valid: gpu-box: 2 receipts, head {digest(2)}, as in the store here; 3 more owed to the fleet\n"
    )


def test_verify_answers_for_one_host_and_in_json(host: Host, office: Place, laptop: Place) -> None:
    joined(office, laptop, "laptop")
    host.add(1)
    host.reported()
    expected: dict[str, Any] = {
        "host": "gpu-box",
        "valid": True,
        "segment": 1,
        "receipts": 1,
        "head": digest(1),
        "heads": 0,
        "forks": [],
        "is_compared": True,
        "owed": 0,
        "problems": [],
    }
    assert host.verify("gpu-box", "--json").json() == {"valid": True, "hosts": [expected]}
    answer = laptop.call("fleet", "verify", "--json").items("hosts")
    found = {each["host"]: (each["receipts"], each["is_compared"]) for each in answer}
    assert found == {"gpu-box": (1, False), "laptop": (0, True)}
    told = host.verify("nobody")
    assert told.code == 3
    assert "the fleet has no host 'nobody'" in told.err


def test_verify_without_the_database_says_to_try_again(host: Host) -> None:
    host.server.stop()
    try:
        told = host.verify()
    finally:
        host.server.start()
    assert told.code == 75
    assert "`runward receipt chain` verifies this host's own" in told.err


def test_join_takes_an_invitation_or_begins_a_segment_and_not_both(host: Host, laptop: Place) -> None:
    for words in ((), ("--new-segment", "runward://a:b@c/d")):
        told = host.place.call("fleet", "join", *words)
        assert told.code == 2
        assert "give either an invitation, or --new-segment" in told.err
    told = laptop.call("fleet", "join", "--new-segment")
    assert told.code == 1
    assert "this host belongs to no fleet" in told.err


POINTS = ("fleet.chains.read", "fleet.chains.committed")


@pytest.mark.prove
@pytest.mark.parametrize("point", POINTS)
def test_a_program_that_is_killed_loses_no_receipt(host: Host, point: str) -> None:
    host.add(1, 2, 3)

    def owed() -> int:
        return len(host.place.rows("select 1 from fleet_outbox where kind = 'receipt'"))

    def said() -> list[str]:
        return [str(each) for each in json.loads((host.place.state / "status.json").read_bytes())["degraded"]]

    host.place.environment["RUNWARD_FLEET_FAULT"] = f"kill@{point}"
    with host.place.daemon():
        wait_for(lambda: any("ended with -9" in each for each in said()), "a killed program")
        if point == "fleet.chains.read":
            assert (host.has(), owed()) == ([], 3)
        else:
            # The next program, which commits nothing and so is not killed, finds them there and says so: soon, or already.
            assert host.has() == [1, 2, 3]
            assert owed() in (0, 3)
    del host.place.environment["RUNWARD_FLEET_FAULT"]
    with host.place.daemon():
        wait_for(lambda: host.has() == [1, 2, 3] and owed() == 0, "each receipt")
        host.place.add_run("later", exit_code=0)
        wait_for(
            lambda: (
                len(host.has())
                == len(host.place.rows("select 1 from receipts where receipt_hash is not null"))
                > 3
            ),
            "the receipt of a run",
        )
    assert host.verify().code == 0
