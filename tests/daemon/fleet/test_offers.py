"""What hosts accept from each other: reported to the database, and written down for those whom it concerns."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.attacked import Connection, Fleet, without
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place

from runward.config.settings import Accept, FleetSettings, Settings
from runward.daemon.configuration.offers import HostKnown, hosts_known, offers_of, write_offers
from runward.daemon.configuration.settings import load_settings
from runward.daemon.fleet.connecting import as_host
from runward.daemon.fleet.offers import Offers

ACCEPT = (Accept(("laptop",), ("train*",), ("tidy",)), Accept(("*",), ("render",)))


class Time:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


class Host:
    """A host that has a store but no daemon, and one connection of its program."""

    def __init__(self, place: Place, accept: tuple[Accept, ...] = ()) -> None:
        self.place = place
        directory = place.directory / "runward.toml.d"
        written = tomllib.loads((directory / "fleet.toml").read_text())["fleet"]
        self.fleet = FleetSettings(
            host=written["host"],
            database=written["database"],
            password_file=str(directory / written["password_file"]),
            ca_file=str(directory / written["ca_file"]),
            slots=3,
            accept=accept,
        )
        settings = load_settings(str(place.directory / "runward.toml"), {}, str(place.directory)).value
        assert settings is not None
        self.settings: Settings = settings
        self.time = Time()
        self.is_told = False
        self.connect()

    def connect(self) -> None:
        self.connection: Connection = as_host(self.fleet)
        ((number,),) = self.connection.execute("select runward.greet(1, '1.0')").fetchall()
        self.offers = Offers(
            self.place.state, self.settings, self.fleet, int(number), lambda: self.is_told, self.time
        )

    def report(self) -> None:
        self.time.at += 100.0
        list(self.offers.say(self.connection))

    def known(self) -> dict[str, HostKnown]:
        """What the program writes down of the others."""
        self.time.at += 1000.0
        self.offers.look(self.connection)
        return hosts_known(self.place.state)

    def has(self, name: str, command: str) -> None:
        (self.place.directory / f"playbooks/{name}.playbook.yaml").write_text(
            f"name: {name}\ncommand: [{command}]\n"
        )


@pytest.fixture
def hosts(
    postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path
) -> Iterator[dict[str, Host]]:
    made = {}
    places = {
        "gpu-box": new_place(tmp_path / "gpu"),
        "laptop": laptop,
        "build": new_place(tmp_path / "build"),
    }
    for name, place in places.items():
        place.daemon_once()
        joined(office, place, name)
        made[name] = Host(place, ACCEPT if name == "gpu-box" else ())
    for name in ("train", "render", "secret"):
        made["gpu-box"].has(name, "'true'")
    yield made
    for host in made.values():
        host.connection.close()


def _reported(server: Server, database: str) -> list[tuple[Any, ...]]:
    with server.admin(database) as admin:
        return admin.execute(
            "select host, kind, name, accepted_from from runward.skills order by 1, 2, 3"
        ).fetchall()


def test_each_host_knows_what_others_accept_from_it_and_nothing_else(
    hosts: dict[str, Host], postgresql: Server, database: str
) -> None:
    hosts["gpu-box"].report()
    assert _reported(postgresql, database) == [
        ("gpu-box", "skill", "render", ["*"]),
        ("gpu-box", "skill", "train", ["laptop"]),
    ]
    known = hosts["laptop"].known()
    assert sorted(known) == ["build", "gpu-box"]
    assert (sorted(known["gpu-box"].skills), known["gpu-box"].slots) == (["render", "train"], 3)
    assert known["build"].slots is None
    assert sorted(hosts["build"].known()["gpu-box"].skills) == ["render"]
    (offer,) = offers_of(hosts["laptop"].place.state, "skill", "train")
    assert (offer.host, offer.hash) == ("gpu-box", known["gpu-box"].skills["train"])
    assert offers_of(hosts["build"].place.state, "skill", "train") == ()


def test_a_playbook_that_changes_is_reported_with_another_hash_and_one_that_goes_no_longer(
    hosts: dict[str, Host],
) -> None:
    gpu, laptop = hosts["gpu-box"], hosts["laptop"]
    gpu.report()
    before = laptop.known()["gpu-box"].skills
    gpu.has("train", "'false'")
    (gpu.place.directory / "playbooks/render.playbook.yaml").unlink()
    gpu.report()
    after = laptop.known()["gpu-box"].skills
    assert list(after) == ["train"]
    assert after["train"] != before["train"]


def test_what_has_not_changed_is_not_reported_again_and_all_is_after_a_new_connection(
    hosts: dict[str, Host], postgresql: Server, database: str
) -> None:
    gpu = hosts["gpu-box"]
    gpu.report()
    with postgresql.admin(database) as admin:
        admin.execute("delete from runward.skills")
    gpu.report()
    assert _reported(postgresql, database) == []
    gpu.connection.close()
    gpu.connect()
    gpu.report()
    assert len(_reported(postgresql, database)) == 2


def test_without_a_notice_the_others_are_looked_at_often_only_while_a_step_is_ordered(
    hosts: dict[str, Host],
) -> None:
    gpu, laptop = hosts["gpu-box"], hosts["laptop"]
    laptop.known()
    gpu.report()
    laptop.time.at += 60.0
    laptop.offers.look(laptop.connection)
    assert hosts_known(laptop.place.state)["gpu-box"].skills == {}
    laptop.place.change_store(
        "insert into remote_steps (id, run, step, attempt, host, skill, body, placed_at, wanted)"
        " values ('cr_1-0-1', 'cr_1', 0, 1, 'gpu-box', 'train', '{}', 1.0, 'placed')"
    )
    laptop.offers.look(laptop.connection)
    assert sorted(hosts_known(laptop.place.state)["gpu-box"].skills) == ["render", "train"]


def test_a_notice_has_the_others_looked_at(hosts: dict[str, Host]) -> None:
    laptop = hosts["laptop"]
    laptop.known()
    hosts["gpu-box"].report()
    laptop.is_told = True
    laptop.offers.look(laptop.connection)
    assert sorted(hosts_known(laptop.place.state)["gpu-box"].skills) == ["render", "train"]


def test_a_host_that_is_not_there_any_more_offers_nothing(
    hosts: dict[str, Host], postgresql: Server, database: str
) -> None:
    hosts["gpu-box"].report()
    with postgresql.admin(database) as admin:
        admin.execute("update runward.hosts set removed_at = now() where name = 'gpu-box'")
    assert "gpu-box" not in hosts["laptop"].known()


OFFER = [{"kind": "skill", "name": "train", "hash": "0" * 64, "accepted_from": ["*"]}]


def _offers_of_all(fleet: Fleet) -> list[tuple[Any, ...]]:
    with fleet.admin() as admin:
        return admin.execute("select host, name from runward.skills order by 1, 2").fetchall()


def test_a_host_offers_in_no_other_name_and_only_by_its_last_program(fleet: Fleet) -> None:
    with fleet.admin() as admin:
        admin.execute(
            "insert into runward.skills (host, kind, name, hash, accepted_from) values ('victim', 'skill', 'own', %s, '{*}')",
            ("1" * 64,),
        )
    with fleet.login() as login:
        ((number,),) = login.execute("select runward.greet(1, '1.0')").fetchall()
        login.execute("select runward.report_offers(%s, 1, %s)", (number, json.dumps(OFFER)))
        assert _offers_of_all(fleet) == [("mallory", "train"), ("victim", "own")]
        with pytest.raises(psycopg.Error, match="another program"):
            login.execute("select runward.report_offers(%s, 1, '[]')", (number - 1,))
        for statement in ("delete from runward.skills", "update runward.hosts set slots = 9"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(statement)
        # It is the name of its login, and the fence, that stop it.
        without(fleet, "where host = own", "report_offers", "")
        login.execute("select runward.report_offers(%s, 1, '[]')", (number,))
        assert _offers_of_all(fleet) == []
        without(fleet, "own_name(number)", "report_offers", "'victim'")
        login.execute("select runward.report_offers(%s, 1, %s)", (number - 1, json.dumps(OFFER)))
        assert _offers_of_all(fleet) == [("victim", "train")]


@pytest.mark.parametrize(
    "offered",
    [
        [{**OFFER[0], "kind": "event"}],
        [{**OFFER[0], "name": "n" * 201}],
        [{**OFFER[0], "hash": "x"}],
        [{**OFFER[0], "accepted_from": []}],
        [{**OFFER[0], "name": str(number)} for number in range(2001)],
    ],
)
def test_the_database_bounds_what_a_host_offers(fleet: Fleet, offered: list[dict[str, object]]) -> None:
    with fleet.login() as login:
        ((number,),) = login.execute("select runward.greet(1, '1.0')").fetchall()
        with pytest.raises((psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded)):
            login.execute("select runward.report_offers(%s, 1, %s)", (number, json.dumps(offered)))
    assert _offers_of_all(fleet) == []


KNOWN = HostKnown(("gpu",), 12.5, 2, {"train": "a" * 64}, {"tidy": "b" * 64})


def test_what_is_written_down_is_read_again(tmp_path: Path) -> None:
    assert hosts_known(tmp_path) == {}
    assert write_offers(tmp_path, {"gpu-box": KNOWN, "build": KNOWN._replace(last_seen=None)})
    assert hosts_known(tmp_path) == {"gpu-box": KNOWN, "build": KNOWN._replace(last_seen=None)}


def test_what_does_not_fit_into_the_file_is_left_out(tmp_path: Path) -> None:
    much = KNOWN._replace(skills={f"{number}": "a" * 64 for number in range(10_000)})
    assert not write_offers(tmp_path, {"gpu-box": KNOWN, "a": much, "b": much})
    assert list(hosts_known(tmp_path)) == ["gpu-box", "a"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"hosts": []}',
        b'{"hosts": {"../x": {}}}',
        b'{"hosts": {"gpu": []}}',
        b'{"hosts": {"gpu": {"skills": ',
        b'{"hosts": {"gpu": 1}} ' + b" " * (1 << 20),
    ],
)
def test_a_file_that_is_not_what_the_program_writes_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet/offers.json").write_bytes(content)
    assert hosts_known(tmp_path) == {}


def test_fields_that_are_not_what_the_program_writes_are_missing(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    wrong = {
        "labels": [1, "gpu\u001b"],
        "last_seen": 1e20,
        "slots": True,
        "skills": {"a": "short"},
        "actions": [],
    }
    (tmp_path / "fleet/offers.json").write_text(json.dumps({"hosts": {"gpu": wrong}}))
    assert hosts_known(tmp_path) == {"gpu": HostKnown((), None, None, {}, {})}
