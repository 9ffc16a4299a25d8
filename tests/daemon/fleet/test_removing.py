"""A host that is removed is disconnected at once, and nobody has its name again."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Fleet
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import invited, new_place

from runward.daemon.fleet import administration
from runward.daemon.fleet.invitation import Invitation, invitation_of


def _logged_in(server: Server, invitation: Invitation) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(
        user=invitation.database.user,
        password=invitation.secret,
        host="127.0.0.1",
        port=server.port,
        dbname=invitation.database.name,
        autocommit=True,
    )


@pytest.fixture
def owner(postgresql: Server, tmp_path: Path) -> Iterator[Place]:
    """The machine of an administrator who owns the database and has CREATEROLE, but is not a superuser."""
    with postgresql.admin("postgres") as admin:
        admin.execute("create role owner login createrole password 'of the owner'")
    try:
        with postgresql.database() as name:
            with postgresql.admin("postgres") as admin:
                admin.execute(sql.SQL("alter database {} owner to owner").format(sql.Identifier(name)))
            made = new_place(tmp_path / "owner")
            made.environment["PGPASSWORD"] = "of the owner"
            address = postgresql.address(name).replace("admin@", "owner@")
            told = made.call("fleet", "init", address, "--ca", str(postgresql.ca))
            assert (told.code, told.err) == (0, "")
            yield made
    finally:
        with postgresql.admin("postgres") as admin:
            admin.execute("drop role owner")


def test_who_owns_the_database_and_makes_roles_can_do_all_of_it(
    postgresql: Server, owner: Place, laptop: Place
) -> None:
    assert laptop.call("fleet", "join", invited(owner, "laptop", "--label", "x")).code == 0
    assert laptop.call("session", "list", "--fleet").out == "no sessions\n"
    lost = invitation_of(invited(owner, "lost"))
    with _logged_in(postgresql, lost) as login:
        login.execute("select runward.join_fleet()")
        login.execute("select lo_create(0)")
        told = owner.call("fleet", "remove", "lost")
        assert (told.code, told.err) == (0, "")
        assert told.out == "lost was removed from the fleet; what it reported stays\n"
        with pytest.raises(psycopg.OperationalError):
            login.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        _logged_in(postgresql, lost)
    states = {str(each["host"]): each["state"] for each in owner.call("fleet", "hosts", "--json").objects()}
    assert states == {"laptop": "joined", "lost": "removed"}


def test_a_removed_host_is_disconnected_and_its_reports_stay(
    fleet: Fleet, office: Place, laptop: Place
) -> None:
    assert laptop.call("fleet", "join", invited(office, "laptop")).code == 0
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set labels = array['desk', name]")
        admin.execute(
            "insert into runward.orders (origin, id, wanted_host, wanted_labels, skill, body, state, taken_by) values"
            " ('mallory', 'open', 'victim', '{}', 's', '{}', 'open', null),"
            " ('mallory', 'taken', 'victim', '{}', 's', '{}', 'taken', 'victim'),"
            " ('victim', 'open', 'mallory', '{}', 's', '{}', 'open', null),"
            " ('victim', 'for a label of mallory', null, '{mallory}', 's', '{}', 'open', null),"
            " ('victim', 'for a label that no host has', null, '{gpu}', 's', '{}', 'open', null),"
            " ('victim', 'for a label of both', null, '{desk}', 's', '{}', 'open', null)"
        )
        admin.execute(
            "insert into runward.sessions (host, key, version, started_at, body)"
            ' values (\'mallory\', \'k\', 1, 2.0, \'{"session_id": "k", "status": "running"}\')'
        )
    with fleet.login() as login:
        login.execute("select runward.greet(1, '1.0')")
        login.execute("begin")
        assert office.call("fleet", "remove", "mallory").code == 0
        with pytest.raises(psycopg.OperationalError):
            login.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        fleet.login()
    assert fleet.sessions() == [("mallory", "k", "running"), ("victim", "native:runs/1", "failed")]
    with fleet.admin() as admin:
        orders = admin.execute("select origin, id, state from runward.orders order by 1, 2").fetchall()
        declined = admin.execute("select declined from runward.orders where state = 'declined'").fetchall()
    assert orders == [
        ("mallory", "open", "withdrawn"),
        ("mallory", "taken", "taken"),
        ("victim", "for a label of both", "open"),
        ("victim", "for a label of mallory", "declined"),
        ("victim", "for a label that no host has", "open"),
        ("victim", "open", "declined"),
    ]
    assert declined == [({"mallory": "it was removed from the fleet"},)] * 2
    told = laptop.call("session", "list", "--fleet", "--columns", "STATE,HOST", "--status", "running")
    assert told.out.split()[-2:] == ["unknown", "mallory"]
    assert "mallory was removed: it is not known what still runs there" in told.err


def test_in_a_database_that_is_older_nothing_counts_as_never_begun(fleet: Fleet, office: Place) -> None:
    with fleet.admin() as admin:
        admin.execute(
            "insert into runward.orders (origin, id, wanted_host, wanted_labels, skill, body, state) values"
            " ('victim', 'open', 'mallory', '{}', 's', '{}', 'open')"
        )
        admin.execute("update runward.identity set known = 'another one'")
    assert office.call("fleet", "remove", "mallory").code == 0
    with fleet.admin() as admin:
        assert admin.execute("select state from runward.orders").fetchall() == [("open",)]


def test_it_is_the_command_that_disconnects(
    monkeypatch: pytest.MonkeyPatch, fleet: Fleet, office: Place
) -> None:
    monkeypatch.setattr(administration, "_DISCONNECT", "select %s")
    with fleet.login() as login:
        office.call("fleet", "remove", "mallory")
        login.execute("select 1")


def test_the_name_of_a_removed_host_never_comes_again(office: Place, laptop: Place) -> None:
    invitation = invited(office, "gpu-box")
    assert office.call("fleet", "remove", "gpu-box").code == 0
    assert laptop.call("fleet", "join", invitation).code == 1
    told = office.call("fleet", "invite", "gpu-box")
    assert told.code == 1
    assert "the name gpu-box was that of a host that was removed, 20" in told.err
    # Once more is harmless.
    assert office.call("fleet", "remove", "gpu-box").code == 0


def test_a_removal_that_was_interrupted_is_completed_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch, fleet: Fleet, office: Place
) -> None:
    remove = administration._REMOVE
    monkeypatch.setattr(administration, "_REMOVE", "select 1 / 0 -- %s")
    assert office.call("fleet", "remove", "mallory").code == 1
    with pytest.raises(psycopg.OperationalError, match=r"not permitted to log in|authentication failed"):
        fleet.login()
    monkeypatch.setattr(administration, "_REMOVE", remove)
    assert office.call("fleet", "remove", "mallory").code == 0
    with fleet.admin() as admin:
        assert admin.execute("select 1 from pg_roles where rolname = 'host_mallory'").fetchall() == []


def test_a_host_that_holds_itself_locked_is_removed_all_the_same(fleet: Fleet, office: Place) -> None:
    with fleet.login() as login:
        login.execute("select runward.greet(1, '1.0')")
        login.execute("begin")
        login.execute("select runward.own_name(1)")
        login.execute("alter role host_mallory password 'another'")
        told = office.call("fleet", "remove", "mallory")
        assert (told.code, told.err) == (0, "")
        with pytest.raises(psycopg.OperationalError):
            login.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        fleet.login()


def test_after_a_removal_that_was_interrupted_a_host_that_never_joined_can_be_invited_again(
    monkeypatch: pytest.MonkeyPatch, office: Place, laptop: Place
) -> None:
    invited(office, "laptop")
    with monkeypatch.context() as context:
        context.setattr(administration, "_REMOVE", "select 1 / 0 -- %s")
        assert office.call("fleet", "remove", "laptop").code == 1
    told = laptop.call("fleet", "join", invited(office, "laptop"))
    assert (told.code, told.err) == (0, "")


def test_a_login_that_left_something_elsewhere_can_log_in_nowhere_and_is_named(
    fleet: Fleet, office: Place
) -> None:
    with fleet.server.database() as elsewhere:
        with fleet.server.admin(elsewhere) as admin:
            admin.execute("grant all on schema public to host_mallory")
        told = office.call("fleet", "remove", "mallory")
        assert told.code == 1
        assert "nobody can log in as mallory any more, but its login can't be dropped" in told.err
        with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
            fleet.login()
    assert office.call("fleet", "remove", "mallory").code == 0


def test_a_host_that_there_is_not_can_not_be_removed(office: Place, laptop: Place) -> None:
    told = office.call("fleet", "remove", "nobody\x1b")
    assert (told.code, told.out) == (3, "")
    assert "the fleet has no host 'nobody\\x1b'" in told.err
    assert laptop.call("fleet", "remove", "nobody").code == 1
