"""`runward doctor --only fleet`: it tries what works in the fleet's database, and what must not."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import without
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined

from runward.config.json_value import JsonValue


@pytest.fixture
def host(office: Place, laptop: Place) -> Place:
    """A host that has joined."""
    return joined(office, laptop, "laptop")


def _found(place: Place) -> list[dict[str, JsonValue]]:
    return place.call("doctor", "--only", "fleet", "--json").items("checks")


def _bad(place: Place) -> list[tuple[str, str]]:
    return [(str(each["result"]), str(each["found"])) for each in _found(place) if each["result"] != "ok"]


def _change(server: Server, database: str, statement: str) -> None:
    with server.admin(database) as admin:
        admin.execute(statement.encode())


def test_where_all_is_well_it_says_what_it_tried(host: Place, postgresql: Server) -> None:
    found = _found(host)
    assert [each["result"] for each in found] == ["ok"] * 6, found
    said = [str(each["found"]) for each in found]
    assert said[0].startswith("laptop logs in to the database fleet_")
    assert said[0].endswith("with TLS, its certificate checked, which has not heard of it yet")
    assert "attempts at what the login of a host must not do were refused" in said[3]
    assert int(said[3].split()[0]) > 30
    assert said[2] == "a connection without TLS is refused"
    assert said[4:] == ["a change is told at once", "nothing is owed: no daemon has run here yet"]


def test_a_host_of_no_fleet_has_nothing_to_try(laptop: Place) -> None:
    (found,) = _found(laptop)
    assert (found["result"], "belongs to no fleet" in str(found["found"])) == ("ok", True)


LEFT_OPEN = {
    "change runward.hosts": "grant update on runward.hosts to host_laptop",
    "add to runward.sessions": "grant insert on runward.sessions to public",
    "delete from runward.orders": "grant delete on runward.orders to host_laptop",
    "empty runward.format": "grant truncate on runward.format to host_laptop",
    "read the orders of others": "alter table runward.orders disable row level security",
    "make a table among the fleet's": "grant create on schema runward to host_laptop",
    "make a function among the fleet's": "grant create on schema runward to host_laptop",
    "make a table that an administrator could mistake": "grant create on schema public to public",
    "make a login": "alter role host_laptop createrole",
    "become admin": "grant admin to host_laptop",
    "put a temporary table in the place of a table": "alter function runward.own_name reset search_path",
}


@pytest.mark.parametrize(("attempt", "opened"), LEFT_OPEN.items(), ids=LEFT_OPEN)
def test_what_somebody_left_open_fails(
    host: Place, postgresql: Server, database: str, attempt: str, opened: str
) -> None:
    _change(postgresql, database, opened)
    found = [(result, said) for result, said in _bad(host) if "the login of this host may" in said]
    assert [result for result, _ in found] == ["failed"]
    assert attempt in found[0][1]
    # All of it was taken back.
    with postgresql.admin(database) as admin:
        assert admin.execute("select count(*) from runward.hosts").fetchone() == (1,)
        assert admin.execute("select from pg_class where relname = 'of_doctor'").fetchall() == []
        assert admin.execute("select from pg_roles where rolname = 'runward_of_doctor'").fetchall() == []


def test_a_function_that_any_program_may_call_fails(host: Place, postgresql: Server, database: str) -> None:
    class Opened:
        def admin(self) -> object:
            return postgresql.admin(database)

    without(Opened(), "own_name(number)", "cancel_order", "'laptop'")  # type: ignore[arg-type]  # all that it asks for
    ((_, said),) = _bad(host)
    assert "call cancel_order without being the program that reports" in said


def test_a_function_whose_tables_a_host_could_shadow_fails(
    host: Place, postgresql: Server, database: str
) -> None:
    _change(postgresql, database, "alter function runward.report_sessions reset search_path")
    assert _bad(host) == [
        ("failed", "tables of a host could stand in for those of the fleet in report_sessions")
    ]


def test_trying_disturbs_no_program_that_reports(host: Place, postgresql: Server, database: str) -> None:
    def row() -> list[tuple[object, ...]]:
        with postgresql.admin(database) as admin:
            return admin.execute("select * from runward.hosts").fetchall()

    before = row()
    assert _bad(host) == []
    assert row() == before


def test_a_server_that_takes_logins_without_tls_is_warned_of(host: Place, postgresql: Server) -> None:
    rules = postgresql.directory / "data/pg_hba.conf"
    before = rules.read_text()
    # Where it asks for the password itself, it gets none.
    for method in ("scram-sha-256", "password"):
        rules.write_text(
            before.replace(
                "hostssl all all 127.0.0.1/32 scram-sha-256", f"host all all 127.0.0.1/32 {method}"
            )
        )
        _reload(postgresql)
        try:
            ((result, said),) = _bad(host)
        finally:
            rules.write_text(before)
            _reload(postgresql)
        assert (result, said.endswith("talks to logins without TLS, too")) == ("warning", True)


def _reload(server: Server) -> None:
    with server.admin("postgres") as admin:
        before = admin.execute("select pg_conf_load_time()").fetchone()
        admin.execute("select pg_reload_conf()")
        # A new connection is by the new rules.
        while before == admin.execute("select pg_conf_load_time()").fetchone():
            pass


def test_a_database_that_is_not_there_a_lost_login_and_an_open_secret_each_have_a_fix(
    host: Place, office: Place, postgresql: Server
) -> None:
    secret = host.directory / "runward.toml.d/fleet.secret"
    secret.chmod(0o644)
    assert _first(host) == ("failed", "fleet.password_file")
    secret.chmod(0o600)
    assert office.call("fleet", "remove", "laptop").code == 0
    assert _first(host, "refuses the login host_laptop") == ("failed", "refuses the login host_laptop")
    postgresql.stop()
    try:
        found = _found(host)
        assert _first(host, "can't be reached") == ("failed", "can't be reached")
        assert "what is owed is delivered later" in str(found[0]["fix"])
    finally:
        postgresql.start()


def _first(place: Place, words: str = "fleet.password_file") -> tuple[str, str]:
    """The first finding's result, and the words if it has them."""
    first = _found(place)[0]
    return str(first["result"]), words if words in str(first["found"]) else str(first["found"])


def test_a_login_of_another_host_is_not_this_one(host: Place) -> None:
    settings = host.directory / "runward.toml.d/fleet.toml"
    settings.write_text(settings.read_text().replace('host = "laptop"', 'host = "build"'))
    assert ("failed", "the login host_laptop is that of laptop, but fleet.host is build") in _bad(host)


def test_an_older_fleet_is_to_be_upgraded(host: Place, postgresql: Server, database: str) -> None:
    _change(postgresql, database, "update runward.format set version = 1")
    ((result, said),) = _bad(host)
    assert (result, "run `runward fleet upgrade` where the fleet was made" in said) == ("failed", True)


def test_a_database_that_takes_no_changes_fails(host: Place, postgresql: Server, database: str) -> None:
    _change(postgresql, "postgres", f"alter database {database} set default_transaction_read_only = on")
    assert [result for result, _ in _bad(host)] == ["failed"]


def test_what_is_owed_without_a_daemon_is_warned_of(host: Place) -> None:
    with host.daemon():
        pass
    host.change_store("insert into fleet_outbox (kind, subject) values ('session', 'native:runs/1')")
    assert _bad(host) == [("warning", "1 report is owed to the fleet, and no daemon runs")]


def test_where_no_notice_arrives_it_says_that_each_change_is_late(
    host: Place, postgresql: Server, tmp_path: Path
) -> None:
    settings = host.directory / "runward.toml.d/fleet.toml"
    with _without_notices(postgresql) as directory:
        text = settings.read_text()
        settings.write_text(
            text.replace(f"127.0.0.1:{postgresql.port}/", f":{postgresql.port}/").replace(
                '"\npassword_file', f'?host={directory}"\npassword_file'
            )
        )
        ((result, said),) = _bad(host)
    assert (result, said.startswith("the database tells no changes")) == ("warning", True)


@contextmanager
def _without_notices(server: Server) -> Iterator[Path]:
    """A way to the server on which notices are lost, as behind a transaction pooler; the directory of its socket."""
    directory = server.directory / "pooler"
    directory.mkdir()
    name = f".s.PGSQL.{server.port}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(directory / name))
        listening.listen()
        threading.Thread(target=_accept, args=(listening, server.directory / name), daemon=True).start()
        try:
            yield directory
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            (directory / name).unlink()
            directory.rmdir()


def _accept(listening: socket.socket, server: Path) -> None:
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        end = socket.socket(socket.AF_UNIX)
        end.connect(str(server))
        threading.Thread(target=_bring, args=(client, end), daemon=True).start()
        threading.Thread(target=_bring_answers, args=(end, client), daemon=True).start()


def _bring(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):  # the other direction has ended
        while piece := client.recv(1 << 16):
            server.sendall(piece)
        server.shutdown(socket.SHUT_RDWR)


def _bring_answers(server: socket.socket, client: socket.socket) -> None:
    with server, client, server.makefile("rb") as answers:
        while len(head := answers.read(5)) == 5:
            body = answers.read(struct.unpack("!I", head[1:])[0] - 4)
            if head[:1] != b"A":
                client.sendall(head + body)
