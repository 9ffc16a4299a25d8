"""The page of the fleet can be followed from its top, on three machines, with a database of their own."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.daemon.fleet.database import Server, server
from tests.docs.pages import Block, page
from tests.docs.scratch import Home, script_of
from tests.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.prove
"""It starts a database and two daemons."""

PAGE = page("docs/fleet.md")
OFFICE, HOSTS = "office", ("laptop", "gpu-box")
DOWN = "the database down"

_JOIN = re.compile(r"runward fleet join 'runward://([a-z-]+):")


@dataclass
class Machines:
    """The machines of the page, by their names, and the database of their fleet."""

    server: Server
    database: str
    homes: dict[str, Home]
    invitations: dict[str, str]

    def carry_out(self, block: Block) -> None:
        """As a reader would on the machine that is named."""
        home = self.homes[block.notes["on"]]
        block = replace(block, text=self._here(block.text))
        if block.file is not None:
            home.write(block)
            return
        with self._down() if block.notes.get("with") == DOWN else nullcontext():
            script = script_of(block)
            ended = home.run(script)
            assert ended.returncode == int(block.notes.get("ends", "0")), (
                f"{block.place} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
            )
        for line in ended.stdout.splitlines():
            if found := _JOIN.match(line):
                self.invitations[found[1]] = line
        if "runward event emit" in script:
            wait_for(self._is_over, "the end of the chain run")

    def _here(self, text: str) -> str:
        """With the address of this database, and the invitation that was printed in place of the one that is shown."""
        address = f"127.0.0.1:{self.server.port}/{self.database}"
        text = re.sub(r"db\.example(?::5432)?/runward", address, text)
        if found := _JOIN.match(text):
            return f"{self.invitations[found[1]]}\n"
        return text

    @contextmanager
    def _down(self) -> Iterator[None]:
        self.server.stop()
        try:
            yield
        finally:
            self.server.start()

    def _is_over(self) -> bool:
        """Whether the laptop's last chain run is completed."""
        ended = self.homes["laptop"].run("runward chain run show @last --json")
        return ended.returncode == 0 and json.loads(ended.stdout)["status"] == "completed"

    def states(self) -> dict[str, str]:
        """Of the hosts, as `fleet hosts` shows them."""
        ended = self.homes[OFFICE].run("runward fleet hosts --json")
        return {str(each["host"]): str(each["state"]) for each in json.loads(ended.stdout)}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with server() as running, running.database() as database:
        path = f"{running.programs}:/usr/local/bin:/usr/bin:/bin"
        homes = {name: Home(tmp_path / name, path) for name in HOSTS}
        homes[OFFICE] = Home(tmp_path / OFFICE, path, **running.environment)
        (homes[OFFICE].work / "ca.pem").write_bytes(running.ca.read_bytes())
        yield Machines(running, database, homes, {})


@contextmanager
def _daemon(home: Home) -> Iterator[None]:
    """One that runs before its host joins, and takes over what `join` writes."""
    # Not preloaded: it is ended by its number.
    process = home.start(
        sys.executable, "-c", "from runward.daemon.cli import main; main()", "daemon", "--quiet"
    )
    try:
        wait_for(lambda: home.run("runward status").returncode == 0, "a daemon")
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_the_page_of_the_fleet_can_be_followed(machines: Machines) -> None:
    blocks = [each for each in PAGE.blocks() if "on" in each.notes]
    assert {each.notes["on"] for each in blocks} == {OFFICE, *HOSTS}
    with _daemon(machines.homes["laptop"]), _daemon(machines.homes["gpu-box"]):
        for block in blocks:
            machines.carry_out(block)
            if "runward fleet join" in block.text:
                _has_written(machines, machines.homes["gpu-box"])
                joined = machines.homes["laptop"].run(machines.invitations["laptop"])
                assert joined.returncode == 0, joined.stderr
                wait_for(lambda: set(machines.states().values()) == {"reporting"}, "two hosts that report")
    assert machines.states() == {"laptop": "reporting", "gpu-box": "removed"}


def _has_written(machines: Machines, home: Home) -> None:
    """Whether `join` writes what the page says that it writes."""
    (shown,) = (each for each in PAGE.blocks() if "written by" in each.notes)
    written = home.path("~/.config/runward/runward.toml.d/fleet.toml").read_text()
    assert [line for line in written.splitlines() if not line.startswith("#")] == machines._here(
        shown.text
    ).splitlines()


def test_each_command_of_the_page_is_run_or_says_which_situation_it_needs() -> None:
    commands = [each for each in PAGE.blocks() if each.language in ("sh", "console")]
    assert [each.place for each in commands if not {"on", "not run"} & set(each.notes)] == []
    assert [each.notes["not run"] for each in commands if "PostgreSQL" in each.notes.get("not run", "")] == []
