"""A restored database, a promoted replica and a restored store of a host begin no step twice, and lose none."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from psycopg import sql
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.database import Server
from tests.daemon.fleet.places import joined, new_place
from tests.daemon.fleet.test_remote_steps import ACCEPT, CHAIN, COMPLETED, PUBLISH, TRAIN, degraded
from tests.waiting import wait_for

pytestmark = pytest.mark.prove
"""Each starts several daemons with programs, which takes several seconds."""


class Three:
    """`laptop` has the chain, `gpu` and `farm` can run its step."""

    def __init__(self, server: Server, database: str, laptop: Place, gpu: Place, farm: Place) -> None:
        self.server, self.database = server, database
        self.laptop, self.gpu, self.farm = laptop, gpu, farm

    def fire(self) -> None:
        told = self.laptop.call("chain", "fire", "show", "data=one")
        assert told.code == 0, told.err

    def did(self, place: Place) -> list[str]:
        path = place.directory / "did"
        return path.read_text().splitlines() if path.exists() else []

    def orders(self) -> list[tuple[object, ...]]:
        with self.server.admin(self.database) as admin:
            return admin.execute(
                "select state, taken_by, settled_at is not null from runward.orders"
            ).fetchall()

    def runs(self) -> list[tuple[object, ...]]:
        return self.laptop.rows("select status, reason_code from chain_runs")

    def owes(self, *places: Place) -> bool:
        return any(place.rows("select 1 from fleet_outbox") for place in places)

    def place_order(self) -> None:
        """The order is in the database, and no taker has run yet."""
        with self.laptop.daemon():
            self.fire()
            wait_for(lambda: self.orders() == [("open", None, False)], "an open order")
            wait_for(lambda: not self.owes(self.laptop), "that nothing is owed")

    def let_gpu_take_and_run(self) -> None:
        """Gpu's daemon takes it and runs it to its end."""
        with self.gpu.daemon():
            wait_for(lambda: self.orders() == [("ended", "gpu-box", False)], "a step that ended there")
            wait_for(lambda: not self.owes(self.gpu), "that nothing is owed")

    def others_wait_for_gpu(self) -> None:
        """While gpu is away, farm and laptop are up, and nobody begins anything."""
        with self.laptop.daemon(), self.farm.daemon():
            wait_for(
                lambda: any("until gpu-box have said again" in each for each in degraded(self.farm)),
                "that status says for whom it waits",
            )
            assert self.orders() == [("open", None, False)]
            with self.gpu.daemon():
                wait_for(lambda: self.runs() == [COMPLETED], "the end of the chain run")
                wait_for(
                    lambda: not self.owes(self.laptop, self.gpu, self.farm), "that everything was said again"
                )
                wait_for(
                    lambda: degraded(self.gpu) == degraded(self.farm) == [], "that nothing is wrong any more"
                )

    def ran_once(self) -> None:
        assert self.did(self.gpu) == ["one"]
        assert self.did(self.farm) == []
        assert self.did(self.laptop) == ["published"]
        assert self.orders() == [("ended", "gpu-box", True)]


@pytest.fixture
def three(postgresql: Server, database: str, office: Place, laptop: Place, tmp_path: Path) -> Three:
    gpu, farm = new_place(tmp_path / "gpu"), new_place(tmp_path / "farm")
    joined(office, laptop, "laptop")
    for place, name in ((gpu, "gpu-box"), (farm, "farm")):
        joined(office, place, name)
        with (place.directory / "runward.toml.d/fleet.toml").open("a") as file:
            file.write(ACCEPT)
        text = TRAIN.replace("PLACE", str(place.directory))
        (place.directory / "playbooks/train.playbook.yaml").write_text(text)
        (place.directory / "did.go").touch()
    with postgresql.admin(database) as admin:
        admin.execute("update runward.hosts set labels = '{gpu}' where name in ('gpu-box', 'farm')")
    settings = laptop.directory / "runward.toml"
    settings.write_text(settings.read_text() + 'chains = ["chains"]\n')
    (laptop.directory / "chains").mkdir()
    (laptop.directory / "chains/show.yaml").write_text(CHAIN.replace("host: gpu-box", "host: {label: gpu}"))
    (laptop.directory / "playbooks/publish.playbook.yaml").write_text(
        PUBLISH.replace("PLACE", str(laptop.directory))
    )
    return Three(postgresql, database, laptop, gpu, farm)


def _rename(three: Three, name: str, to: str) -> None:
    statement = sql.SQL("alter database {} rename to {}").format(sql.Identifier(name), sql.Identifier(to))
    with three.server.admin("postgres") as admin:
        admin.execute(statement)


@contextmanager
def _as_copied(three: Three) -> Iterator[None]:
    """In here, the database is what it was at the beginning of `meanwhile`: as a dump of then, restored into a database of its own."""
    copy, newer = f"{three.database}_copy", f"{three.database}_newer"
    create = sql.SQL("create database {} template {}").format(
        sql.Identifier(copy), sql.Identifier(three.database)
    )
    with three.server.admin("postgres") as admin:
        admin.execute(create)
    three.let_gpu_take_and_run()
    _rename(three, three.database, newer)
    _rename(three, copy, three.database)
    try:
        yield
    finally:
        with three.server.admin("postgres") as admin:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(newer)))


@contextmanager
def _as_replicated(three: Three) -> Iterator[None]:
    """In here, the server is a replica that was promoted, and lacks what was written last."""
    backup = three.server.back_up()
    three.let_gpu_take_and_run()
    with three.server.as_of(backup):
        yield


@pytest.mark.parametrize("older", [_as_copied, _as_replicated], ids=["a restored dump", "a promoted replica"])
def test_a_step_that_an_older_database_has_forgotten_is_not_begun_again(
    three: Three, older: Callable[[Three], AbstractContextManager[None]]
) -> None:
    three.place_order()
    with older(three):
        assert three.orders() == [("open", None, False)]
        three.others_wait_for_gpu()
        three.ran_once()


def test_a_host_whose_store_was_restored_begins_nothing_again_and_says_so(three: Three) -> None:
    three.place_order()
    go = three.gpu.directory / "did.go"
    go.unlink()
    three.gpu.daemon_once()
    assert three.gpu.call("backup", "copy.db").code == 0
    try:
        with three.gpu.daemon():
            wait_for(lambda: three.did(three.gpu) == ["one"], "a step that runs")
            wait_for(lambda: three.orders() == [("taken", "gpu-box", False)], "that it is taken")
        told = three.gpu.call("restore", "copy.db")
        assert told.code == 0, told.err
        with three.gpu.daemon():
            wait_for(
                lambda: any(
                    "never begins it, and gives it to nobody" in each for each in degraded(three.gpu)
                ),
                "that status says what this host does not know",
            )
            assert three.gpu.rows("select 1 from orders_taken") == []
            assert three.orders() == [("taken", "gpu-box", False)]
            # What is ordered from now on is taken as ever.
            go.touch()
            three.fire()
            with three.laptop.daemon():
                wait_for(
                    lambda: ("ended", "gpu-box", True) in three.orders(),
                    "the end of a step that is ordered now",
                )
            assert ("taken", "gpu-box", False) in three.orders()
        assert three.did(three.gpu) == ["one", "one"], "once for each of two chain runs"
    finally:
        go.touch()


def test_an_origin_whose_store_was_restored_learns_again_how_its_step_ended(three: Three) -> None:
    three.place_order()
    assert three.laptop.call("backup", "copy.db").code == 0
    three.let_gpu_take_and_run()
    with three.laptop.daemon():
        wait_for(lambda: three.runs() == [COMPLETED], "the end of the chain run")
        wait_for(lambda: not three.owes(three.laptop), "that nothing is owed")
    told = three.laptop.call("restore", "copy.db")
    assert told.code == 0, told.err
    step = "select status from chain_steps where step = 0"
    assert three.laptop.rows(step) == [("waiting",)]
    with three.laptop.daemon(), three.gpu.daemon():
        wait_for(lambda: three.laptop.rows(step) == [("completed",)], "the end of the step once more")
        wait_for(lambda: three.orders() == [("ended", "gpu-box", True)], "a settled order")
    assert three.did(three.gpu) == ["one"]


POINTS = ("fleet.record.compared", "fleet.record.said")


@pytest.mark.parametrize("at", [pytest.param(POINTS[0], marks=pytest.mark.sweep), POINTS[1]])
def test_a_program_that_is_killed_while_it_says_all_again_says_it_once_more(three: Three, at: str) -> None:
    three.place_order()
    with _as_copied(three):
        three.gpu.environment["RUNWARD_FLEET_FAULT"] = f"kill@{at}"
        with three.gpu.daemon():
            wait_for(lambda: any("ended with -9" in each for each in degraded(three.gpu)), f"a kill at {at}")
        del three.gpu.environment["RUNWARD_FLEET_FAULT"]
        with three.laptop.daemon(), three.farm.daemon(), three.gpu.daemon():
            wait_for(lambda: three.runs() == [COMPLETED], "the end of the chain run")
            wait_for(lambda: not three.owes(three.laptop, three.gpu, three.farm), "that nothing is owed")
        three.ran_once()
