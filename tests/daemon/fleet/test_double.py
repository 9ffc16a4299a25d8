"""The double of the database is one: the model of the orders, which the database passes, finds no difference."""

from typing import Any

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.daemon.fleet.double import Answer, Database, DoubleConnection
from tests.daemon.fleet.test_orders import LABELS, Host, Orders


class DoubleHost(Host):
    """A host of the model, with a connection to the double."""

    def __init__(self, database: Database, name: str) -> None:
        self.name = name
        self.connection = DoubleConnection(database, name)  # type: ignore[assignment] # as far as it is used
        self.number = self.greet()


class Admin:
    """What the model asks and changes beside the hosts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def execute(self, statement: str, given: tuple[Any, ...] = ()) -> Answer:
        rows = self._database.rows
        if statement.startswith("truncate"):
            rows.clear()
        elif statement.startswith("update runward.orders set begin_by"):
            rows[given].begin_by = self._database.now() - 1.0
        else:
            return Answer(
                [
                    (
                        *(row.origin, row.id, row.wanted_host, row.wanted_labels, row.state, row.takes),
                        *(row.begun_take, row.taken_by, sorted(row.declined), row.cancelled),
                        *(None if row.result is None else row.result["status"], row.settled),
                    )
                    for row in rows.values()
                ]
            )
        return Answer([])

    def close(self) -> None:
        pass


class DoubleFleet:
    """A fleet of the double, as the model uses one."""

    def __init__(self) -> None:
        self._database = Database(LABELS)
        self.hosts = {name: DoubleHost(self._database, name) for name in LABELS}

    def admin(self) -> Admin:
        return Admin(self._database)


def test_the_double_is_as_the_model_says() -> None:
    fleet = DoubleFleet()
    some = settings(settings(), stateful_step_count=50, max_examples=30)
    run_state_machine_as_test(lambda: Orders(fleet), settings=some)  # type: ignore[arg-type] # as far as it is used
    for host in fleet.hosts.values():
        host.connection.close()
