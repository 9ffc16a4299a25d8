"""The program that reports to the fleet, which the daemon starts: `program STATE`.

Its first line on stdin has the settings and the daemon's epoch, and each further one is a hint that there may be more to
report. On stdout it says, as lines of JSON, which versions of the outbox the database has, and what is wrong. It ends with the
daemon. It writes nothing but the database, and requests into the inbox: killed at any point, it loses nothing.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg

from runward.config.json_value import JsonValue
from runward.config.settings import FleetSettings, Settings, settings_from_json
from runward.daemon.faults import from_environment
from runward.daemon.fleet.connecting import DatabaseRefuses, DatabaseUnreachable, as_host, in_one_line
from runward.daemon.fleet.serving import MOST_TROUBLE, Serving
from runward.daemon.processes.client_gone import end_with_client
from runward.daemon.processes.giving_way import GivingWay
from runward.daemon.store import reading
from runward.daemon.store.tables.fleet_outbox import how_many_owed

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""Seconds until the next connection after a failure, and at most: the pause doubles."""


def main(state: Path) -> None:
    """Report until the daemon has ended."""
    from_environment(os.environ.get("RUNWARD_FAULT"))
    told = json.loads(_first_line())
    end_with_client()
    reading.keep_open()
    settings = settings_from_json(told["settings"])
    assert settings is not None, "the daemon is of the same version"
    assert settings.fleet is not None, "without a fleet the daemon starts no program"
    Program(state, settings, settings.fleet, int(told["epoch"]), GivingWay().give_way).run()


def _first_line() -> bytes:
    content = b""
    while b"\n" not in content:
        piece = os.read(0, 1 << 16)
        if not piece:
            sys.exit(0)
        content += piece
    # What is behind it are hints, which the first look doesn't need.
    return content.partition(b"\n")[0]


class Program:
    """One connection at a time, over which everything goes."""

    def __init__(
        self,
        state: Path,
        settings: Settings,
        fleet: FleetSettings,
        epoch: int,
        give_way: Callable[[bool], None],
    ) -> None:
        self._state = state
        self._settings = settings
        self._fleet = fleet
        self._epoch = epoch
        self._give_way = give_way
        self._pause = FIRST_PAUSE_S

    def run(self) -> None:
        """For ever."""
        while True:
            try:
                connection = as_host(self._fleet)
                try:
                    facts = (self._state, self._settings, self._fleet, self._epoch)
                    Serving(*facts, connection, _say, self._give_way).serve(self._went_well)
                finally:
                    connection.close()
            except (DatabaseUnreachable, DatabaseRefuses, reading.StoreUnreadable) as error:
                why = str(error)
            except psycopg.Error as error:
                why = in_one_line(error)
            except OSError as error:
                why = f"{error.filename} can't be written: {error.strerror}"
            _say({"trouble": f"{why[:MOST_TROUBLE]}; {self._in_words()}"})
            time.sleep(self._pause)
            self._pause = min(LONGEST_PAUSE_S, 2 * self._pause)

    def _in_words(self) -> str:
        """How much is owed."""
        try:
            with reading.reading(str(self._state)) as store:
                count = how_many_owed(store)
        except reading.StoreUnreadable as error:
            return str(error)
        return f"{count} {'report is' if count == 1 else 'reports are'} owed to the fleet"

    def _went_well(self) -> None:
        self._pause = FIRST_PAUSE_S


def _say(said: JsonValue) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
