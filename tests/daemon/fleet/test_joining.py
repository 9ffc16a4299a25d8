"""A fleet is made once, hosts are invited by name, and each joins by the one command that its invitation is."""

import os
import re
from pathlib import Path

import psycopg
import pytest
from tests.daemon.cli.calling import Place, Result
from tests.daemon.fleet.database import Server, free_port
from tests.daemon.fleet.places import invited, new_place

from runward.daemon import faults
from runward.daemon.fleet.connecting import FORMAT
from runward.daemon.fleet.invitation import Invitation, invitation_of
from runward.daemon.fleet.schema import tables_after


def _hosts(server: Server, database: str) -> list[tuple[object, ...]]:
    with server.admin(database) as admin:
        return admin.execute(
            "select name, labels, joined_at is not null from runward.hosts order by name"
        ).fetchall()


def _files(place: Place) -> dict[str, str]:
    directory = place.directory / "runward.toml.d"
    return {path.name: path.read_text() for path in directory.iterdir()} if directory.exists() else {}


def test_an_empty_database_becomes_a_fleet_that_hosts_join(
    postgresql: Server, laptop: Place, tmp_path: Path
) -> None:
    with postgresql.database() as name:
        office = new_place(tmp_path / "office")
        office.environment |= postgresql.environment
        told = office.call("fleet", "init", postgresql.address(name), "--ca", str(postgresql.ca))
        assert (told.code, told.err) == (0, "")
        assert f"the database {name} at 127.0.0.1:{postgresql.port} has a fleet" in told.out
        assert laptop.call("fleet", "join", invited(office, "laptop")).code == 0
        assert _hosts(postgresql, name) == [("laptop", [], True)]


def test_a_host_joins_by_the_command_that_was_printed(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    told = laptop.call("fleet", "join", invited(office, "gpu-box", "--label", "gpu", "--label", "big"))
    assert (told.code, told.err) == (0, "")
    assert _hosts(postgresql, database) == [("gpu-box", ["big", "gpu"], True)]
    files = _files(laptop)
    assert sorted(files) == ["fleet.ca.pem", "fleet.secret", "fleet.toml"]
    assert (laptop.directory / "runward.toml.d/fleet.secret").stat().st_mode & 0o777 == 0o600
    assert files["fleet.ca.pem"] == postgresql.ca.read_text()
    assert files["fleet.secret"].strip() not in files["fleet.toml"]
    shown = laptop.call("config", "show", "--json").object()["fleet"]
    assert shown == {
        "host": "gpu-box",
        "database": f"postgresql://host_gpu_box@127.0.0.1:{postgresql.port}/{database}",
        "password_file": str(laptop.directory / "runward.toml.d/fleet.secret"),
        "ca_file": str(laptop.directory / "runward.toml.d/fleet.ca.pem"),
        "titles": False,
        "slots": 2,
        "accept": [],
    }


def test_an_invitation_works_once(office: Place, laptop: Place, tmp_path: Path) -> None:
    invitation = invited(office, "gpu-box")
    assert laptop.call("fleet", "join", invitation).code == 0
    another = new_place(tmp_path / "another")
    _refused(another.call("fleet", "join", invitation), "the invitation of gpu-box was used")
    assert _files(another) == {}


def test_an_invitation_that_another_replaced_is_void(
    postgresql: Server, database: str, office: Place, laptop: Place
) -> None:
    first = invited(office, "gpu-box", "--label", "old")
    second = invited(office, "gpu-box", "--label", "new")
    _refused(laptop.call("fleet", "join", first), "the invitation of gpu-box was used, replaced")
    assert laptop.call("fleet", "join", second).code == 0
    assert _hosts(postgresql, database) == [("gpu-box", ["new"], True)]


def test_of_two_hosts_with_the_same_invitation_at_the_same_time_one_joins(
    postgresql: Server, database: str, office: Place
) -> None:
    invitation = invitation_of(invited(office, "gpu-box"))
    with _logged_in(postgresql, invitation) as one, _logged_in(postgresql, invitation) as other:
        one.execute("select runward.join_fleet()")
        with pytest.raises(psycopg.Error, match="the invitation was used"):
            other.execute("select runward.join_fleet()")


def _logged_in(server: Server, invitation: Invitation) -> "psycopg.Connection[tuple[object, ...]]":
    return psycopg.connect(
        user=invitation.database.user,
        password=invitation.secret,
        host="127.0.0.1",
        port=server.port,
        dbname=invitation.database.name,
        autocommit=True,
    )


def test_a_host_that_has_joined_keeps_its_name(office: Place, laptop: Place) -> None:
    assert laptop.call("fleet", "join", invited(office, "gpu-box")).code == 0
    _refused(office.call("fleet", "invite", "gpu-box"), "the name gpu-box is taken, since 2")


def test_a_login_that_is_none_of_the_fleets_is_left_alone(
    postgresql: Server, database: str, office: Place
) -> None:
    with postgresql.admin(database) as admin:
        admin.execute("create role host_gpu_box")
    _refused(
        office.call("fleet", "invite", "gpu-box"),
        "has a login host_gpu_box that does not belong to this fleet",
    )


def test_a_host_of_a_fleet_does_not_join_another(office: Place, laptop: Place) -> None:
    assert laptop.call("fleet", "join", invited(office, "gpu-box")).code == 0
    told = laptop.call("fleet", "join", invited(office, "other"))
    _refused(told, "this host is gpu-box of a fleet already")
    assert "runward.toml.d/fleet.toml:2" in told.err


@pytest.mark.parametrize("name", ["GPU", "../x", "gpu box", "-gpu", "", "x" * 33, "gpü", "a\nb"])
def test_names_that_no_host_can_have_are_refused_before_anything_is_asked(laptop: Place, name: str) -> None:
    told = laptop.call("fleet", "invite", "--", name)
    assert told.code == 2
    assert "is not the name of a host" in told.err


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://x@localhost/runward",
        "runward://gpu-box@localhost/runward",
        "runward://gpu_box:secret@localhost/runward",
        "runward://gpu-box:secret@localhost/runward?ca=AAAA",
        "runward://gpu-box:secret@localhost/runward?host=elsewhere",
        "runward://gpu-box:secret@/runward",
        "nonsense",
    ],
)
def test_a_text_that_is_no_invitation_is_refused_without_its_secret(laptop: Place, text: str) -> None:
    told = laptop.call("fleet", "join", text)
    assert told.code == 2
    assert "secret@" not in told.err
    assert _files(laptop) == {}


def test_an_unreachable_database_is_worth_another_try(laptop: Place) -> None:
    told = laptop.call("fleet", "join", f"runward://gpu-box:secret@127.0.0.1:{free_port()}/runward")
    assert told.code == 75
    assert "can't be reached" in told.err
    assert _files(laptop) == {}


def test_a_database_with_a_foreign_certificate_is_not_trusted(
    postgresql: Server, office: Place, laptop: Place
) -> None:
    invitation = invitation_of(invited(office, "gpu-box"))._replace(ca=postgresql.foreign_ca.read_text())
    _refused(laptop.call("fleet", "join", invitation.text), "can't be trusted")
    assert _files(laptop) == {}


def test_an_invitation_of_another_fleet_does_not_open_this_one(
    postgresql: Server, office: Place, laptop: Place
) -> None:
    invitation = invitation_of(invited(office, "gpu-box"))
    with postgresql.database() as other:
        elsewhere = invitation._replace(database=invitation.database._replace(name=other))
        _refused(laptop.call("fleet", "join", elsewhere.text), "has no fleet")
        with postgresql.admin(other) as admin:
            admin.execute(tables_after(0)[0].read_bytes())
        _refused(laptop.call("fleet", "join", elsewhere.text), "does not belong to the fleet")


def test_a_newer_fleet_is_left_alone(postgresql: Server, database: str, office: Place, laptop: Place) -> None:
    invitation = invited(office, "gpu-box")
    with postgresql.admin(database) as admin:
        admin.execute("update runward.format set version = 9, oldest_writer = 8")
    _refused(
        laptop.call("fleet", "join", invitation), f"the fleet has format 9, and this Runward knows {FORMAT}"
    )
    told = office.call("fleet", "init", postgresql.address(database), "--ca", str(postgresql.ca))
    _refused(told, f"the fleet has format 9, and this Runward knows {FORMAT}")


def test_a_fleet_that_is_there_is_only_remembered(
    postgresql: Server, database: str, office: Place, tmp_path: Path
) -> None:
    invited(office, "gpu-box")
    another = new_place(tmp_path / "another")
    another.environment |= postgresql.environment
    told = another.call("fleet", "init", postgresql.address(database), "--ca", str(postgresql.ca))
    assert told.code == 0
    assert "already had a fleet" in told.out
    invited(another, "build")
    assert [name for name, *_ in _hosts(postgresql, database)] == ["build", "gpu-box"]


def test_a_login_without_rights_makes_no_fleet(postgresql: Server, laptop: Place) -> None:
    with postgresql.database() as name:
        with postgresql.admin(name) as admin:
            admin.execute("create role host_without_rights login password 'x'")
        address = postgresql.address(name).replace("admin@", "host_without_rights@")
        told = laptop.call("fleet", "init", address, "--ca", str(postgresql.ca), PGPASSWORD="x")
        _refused(told, "the login host_without_rights may not create a schema")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("postgresql://admin:secret@db.example/runward", "has a password in it"),
        ("postgresql://admin@db.example/runward?sslmode=require", "sslmode"),
        ("postgresql://admin@db.example/runward?passfile=/x", "has the option"),
        ("postgresql://db.example/runward", "doesn't say who logs in"),
        ("https://admin@db.example/runward", "is not the address of a database"),
    ],
)
def test_an_address_that_is_not_safe_or_not_clear_is_refused(laptop: Place, address: str, why: str) -> None:
    told = laptop.call("fleet", "init", address)
    assert told.code == 2
    assert why in told.err
    assert "secret" not in told.err.replace("the file of a secret", "")


def test_a_machine_that_knows_no_fleet_invites_nobody(laptop: Place) -> None:
    _refused(laptop.call("fleet", "invite", "gpu-box"), "this machine knows no fleet")


POINTS = ("join.secret", "join.changed")


@pytest.mark.parametrize("where", POINTS)
def test_a_join_that_was_killed_is_completed_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch,
    postgresql: Server,
    database: str,
    office: Place,
    laptop: Place,
    where: str,
) -> None:
    class Killed(BaseException):
        pass

    def strike(name: str) -> None:
        if name == where:
            raise Killed

    invitation = invited(office, "gpu-box")
    monkeypatch.setattr(faults, "_hook", strike)
    with pytest.raises(Killed):
        laptop.call("fleet", "join", invitation)
    assert "fleet.toml" not in _files(laptop)
    monkeypatch.undo()
    assert laptop.call("fleet", "join", invitation).code == 0
    assert _hosts(postgresql, database) == [("gpu-box", [], True)]
    assert sorted(_files(laptop)) == ["fleet.ca.pem", "fleet.secret", "fleet.toml"]


def test_without_the_library_every_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, laptop: Place
) -> None:
    monkeypatch.setattr("runward.daemon.cli.shell.fleet_database.has_fleet", lambda: False)
    for words in (["init", "postgresql://x@y/z"], ["invite", "x"], ["join", "x"]):
        _refused(laptop.call("fleet", *words), "a fleet's database needs one more library")


def test_the_secret_of_an_invitation_is_not_the_logins_any_more(
    postgresql: Server, office: Place, laptop: Place
) -> None:
    text = invited(office, "gpu-box")
    assert laptop.call("fleet", "join", text).code == 0
    with pytest.raises(psycopg.OperationalError, match="authentication failed"):
        _logged_in(postgresql, invitation_of(text))


def _refused(told: Result, why: str) -> None:
    assert told.code == 1, told
    assert why in told.err, told.err
    assert len(re.findall("^runward: ", told.err, re.MULTILINE)) == 1, told.err


def test_nothing_of_a_fleet_is_readable_by_others(office: Place, laptop: Place) -> None:
    assert laptop.call("fleet", "join", invited(office, "gpu-box")).code == 0
    for place, below in ((office, office.state / "fleet"), (laptop, laptop.directory / "runward.toml.d")):
        modes = {path.name: path.stat().st_mode & 0o077 for path in below.iterdir()}
        assert modes
        assert set(modes.values()) == {0}, (place, modes)
        assert os.stat(below).st_mode & 0o077 == 0
