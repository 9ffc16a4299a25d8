"""`make demo-fleet`: three hosts on this machine share a list and their steps over a PostgreSQL server of the demo's own.

Each host has a home of its own, with its settings, store and daemon. The laptop invites two others. A session that finishes on build
fires a chain of the laptop, which has a step for a host with the label gpu. While it runs there, the cable of the database is pulled: gpu-box judges the step all the same. When the cable is back, the
result arrives once, and the chain continues. Exits 1 if anything is not as expected. Needs no root, and no PostgreSQL that runs.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.fleet.database import Server, server
from tests.demo.cable import Cable
from tests.demo.demo import RUNWARD
from tests.demo.telling import Telling

PATIENCE_S: Final = 60.0

CHAIN: Final = """\
name: release
trigger:
  event: session.finished
  host: build
  filter: {playbook: nightly, status: completed}
steps:
  - id: train
    skill: train
    host: {label: gpu}
    with: {data: "{{ trigger.session_id }}"}
  - id: publish
    skill: publish
    condition: "{{ steps.train.outcome.passed }}"
"""
TRAIN: Final = """\
name: train
command:
  - sh
  - -c
  - |
    echo "$0" >> ~/trained
    until [ -e ~/go ]; do sleep 0.1; done
    echo '{"outcome_kind": "ci_result", "summary": "trained", "passed": true}' > "$RUNWARD_ARTIFACTS_DIR/outcome.json"
  - "{{ with.data }}"
"""
"""It does its work once it may: after the cable was pulled."""

PUBLISH: Final = 'name: publish\ncommand: [sh, -c, "echo published >> ~/published"]\n'
REPORT: Final = "name: nightly\nartifacts:\n  expected:\n    - {id: report, path: report.md}\n"
ACCEPT: Final = {
    "gpu-box": '\n[[fleet.accept]]\nfrom = ["laptop"]\nskills = ["train"]\n',
    "laptop": '\n[[fleet.accept]]\nfrom = ["build"]\nevents = ["session.finished"]\n',
}
DELIVERS: Final = 'echo fine > "$RUNWARD_ARTIFACTS_DIR/report.md"'

SCREENS: Final = (
    ("chain", "run", "show", "@last"),
    ("session", "list", "--fleet"),
    ("session", "list", "--fleet", "--failed", "--since", "7d"),
    ("fleet", "orders"),
    ("fleet", "hosts"),
    ("fleet", "verify"),
)
"""What a person on the laptop would look at."""


class Host:
    """A machine with a home of its own."""

    def __init__(self, place: Path, name: str, telling: Telling) -> None:
        self.name = name
        self.home = place / name
        self.telling = telling
        self.config = self.home / ".config/runward/runward.toml"
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("RUNWARD_", "XDG_", "PG", "GIT_"))
        }
        self.environment = {**kept, "HOME": str(self.home)}

    def prepare(self, chains: Mapping[str, str], playbooks: Mapping[str, str]) -> None:
        """Write what a person would write."""
        for directory, suffix, files in (
            ("chains", ".yaml", chains),
            ("playbooks", ".playbook.yaml", playbooks),
        ):
            (self.config.parent / directory).mkdir(parents=True)
            for name, text in files.items():
                (self.config.parent / directory / f"{name}{suffix}").write_text(text)
        self.config.write_text('playbooks = ["playbooks"]\nchains = ["chains"]\n')

    def runward(self, *words: str, **variables: str) -> str:
        """What a command prints. Raises `SystemExit` if it fails."""
        told = self.ended(*words, **variables)
        if told.returncode != 0:
            raise SystemExit(f"{self.name}$ runward {words[0]}: {told.stderr}")
        return told.stdout

    def ended(self, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        """How a command ended. It is printed with its output."""
        told = subprocess.run(
            [str(RUNWARD), *words],
            cwd=self.home,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        shown = " ".join(word if len(word) < 60 else f"{word[:40]}…" for word in map(shlex.quote, words))
        print(f"\n{self.name}$ runward {shown}\n{told.stdout}{told.stderr}", end="", flush=True)
        return told

    def asked(self, *words: str) -> object:
        """What a command says as JSON, unseen."""
        told = subprocess.run(
            [str(RUNWARD), *words, "--json"],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(told.stdout or "null")

    def lines(self, name: str) -> list[str]:
        """What commands left in a file of its home."""
        path = self.home / name
        return path.read_text().splitlines() if path.exists() else []

    def statuses(self) -> list[str]:
        """Of its sessions, by its own store alone."""
        listed = self.asked("session", "list")
        return [str(each["status"]) for each in listed] if isinstance(listed, list) else []

    def troubles(self) -> list[str]:
        """What its daemon says of the fleet."""
        status = self.asked("status")
        degraded = status.get("degraded") if isinstance(status, dict) else None
        return [str(each) for each in degraded or () if str(each).startswith("fleet: ")]

    def owes_nothing(self) -> bool:
        """Whether all that it has to report arrived."""
        found = self.asked("doctor", "--only", "fleet")
        return isinstance(found, dict) and found["checks"][-1]["found"] == "nothing is owed to the fleet"

    def show(self, *words: str) -> None:
        """The screen of a command."""
        self.telling.screen(words, [str(RUNWARD), *words], self.environment, self.name)

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Its daemon, which may not be ready yet."""
        process = subprocess.Popen([str(RUNWARD), "daemon", "--quiet"], cwd=self.home, env=self.environment)
        try:
            yield
            process.send_signal(signal.SIGTERM)
            if process.wait(PATIENCE_S) != 0:
                raise SystemExit(f"the daemon of {self.name} ended {process.returncode} on SIGTERM")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def wait(holds: Callable[[], bool], what: str) -> None:
    """Raises `SystemExit`."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"waited {PATIENCE_S:.0f} s for {what} in vain")
        time.sleep(0.3)


class Demo:
    """The three hosts, the database, and the cable between them."""

    def __init__(self, place: Path, running: Server, database: str, cable: Cable, telling: Telling) -> None:
        self.running, self.database, self.cable = running, database, cable
        self.laptop, self.build, self.gpu = (
            Host(place, name, telling) for name in ("laptop", "build", "gpu-box")
        )
        self.hosts = (self.laptop, self.build, self.gpu)

    def set_up(self) -> None:
        """The laptop makes the fleet and invites the others; each joins."""
        self.laptop.prepare({"release": CHAIN}, {"publish": PUBLISH})
        self.build.prepare({}, {"nightly": REPORT})
        self.gpu.prepare({}, {"train": TRAIN})
        address = self.running.address(self.database).replace(
            f":{self.running.port}/", f":{self.cable.port}/"
        )
        as_admin = dict(self.running.environment)
        self.laptop.runward("fleet", "init", address, "--ca", str(self.running.ca), **as_admin)
        for host, labels in ((self.laptop, ()), (self.build, ()), (self.gpu, ("--label", "gpu"))):
            command = self.laptop.runward("fleet", "invite", host.name, *labels, **as_admin)
            host.runward(*shlex.split(command)[1:])
        for host in (self.laptop, self.gpu):
            with (host.config.parent / "runward.toml.d/fleet.toml").open("a") as file:
                file.write(ACCEPT[host.name])

    def two_runs(self) -> None:
        """One fails. The other one delivers its report, which fires the chain of the laptop."""
        delivers = ("sh", "-c", DELIVERS)
        for count, (name, command) in enumerate((("nightly-1", ("true",)), ("nightly-2", delivers)), 1):
            self.build.ended("run", "--playbook", "nightly", "--name", name, "--", *command)
            wait(partial(self.lists, count), f"{name} in the list of the fleet")

    def fired(self) -> None:
        """Until the laptop knows that its step runs on the other host."""
        wait(lambda: self.gpu.lines("trained") != [], "the step on gpu-box")
        wait(lambda: self.step() == ("running", "step.running.remote"), "the news that it runs there")

    def without_cable(self) -> None:
        """The step ends, is judged, and nobody else hears of it."""
        self.cable.pull()
        (self.gpu.home / "go").touch()
        wait(lambda: self.gpu.statuses() == ["completed"], "the verdict of gpu-box")
        wait(lambda: self.gpu.troubles() != [], "gpu-box to miss the database")
        if self.step() != ("running", "step.running.remote"):
            raise SystemExit("the laptop knows what it can't know")

    def with_cable(self) -> None:
        """All that is owed arrives, and the chain is over."""
        self.cable.plug_in()
        wait(lambda: self.run() != "running", "the end of the chain run")
        wait(lambda: all(host.owes_nothing() for host in self.hosts), "all that was owed")
        wait(partial(self.lists, 4), "four sessions in the list of the fleet")
        wait(lambda: self.orders() == [("ended", 1)], "an order that is settled")

    def hears_of(self, hosts: Sequence[Host]) -> bool:
        """Whether the database does, as the laptop sees it."""
        found = self.laptop.asked("fleet", "hosts")
        rows = found if isinstance(found, list) else []
        reporting = {str(each["host"]) for each in rows if each["state"] == "reporting"}
        return reporting >= {host.name for host in hosts}

    def lists(self, count: int) -> bool:
        """Whether the list of the fleet has so many sessions."""
        return len(self.listed()) >= count

    def listed(self) -> list[dict[str, object]]:
        """The list of the fleet, as the laptop sees it."""
        found = self.laptop.asked("session", "list", "--fleet")
        return found if isinstance(found, list) else []

    def run(self) -> str:
        """The status of the chain run."""
        shown = self.laptop.asked("chain", "run", "show", "@last")
        return str(shown["status"]) if isinstance(shown, dict) else ""

    def step(self) -> tuple[str, str]:
        """The status and the reason of the step on the other host."""
        shown = self.laptop.asked("chain", "run", "show", "@last")
        if not isinstance(shown, dict):
            return "", ""
        step = shown["steps"][0]
        return str(step["status"]), str(step["reason"]["code"])

    def orders(self) -> list[tuple[object, ...]]:
        """The orders of the database that are settled: their state, and how often they were taken."""
        with self.running.admin(self.database) as admin:
            return admin.execute(
                "select state, takes from runward.orders where settled_at is not null"
            ).fetchall()

    def wrong(self) -> list[str]:
        """What is not as expected."""
        facts = {
            "the chain run": (self.run(), "completed"),
            "the order of its step": (self.orders(), [("ended", 1)]),
            "what gpu-box did": (self.gpu.lines("trained"), ["nightly-2"]),
            "what the laptop did then": (self.laptop.lines("published"), ["published"]),
            "the list of the fleet": (
                sorted(str(each["status"]) for each in self.listed()),
                ["completed", "completed", "completed", "failed"],
            ),
        }
        return [
            f"{what}: {found}, not {wanted}" for what, (found, wanted) in facts.items() if found != wanted
        ]


def main() -> int:
    place = Path(tempfile.mkdtemp(prefix="runward-fleet-"))
    telling = Telling(place)
    telling.say("Three hosts of one fleet, each with a home and a daemon of its own:")
    try:
        with ExitStack() as stack:
            with telling.chapter("a PostgreSQL server"):
                running = stack.enter_context(server())
                database = stack.enter_context(running.database())
                cable = stack.enter_context(Cable(running.port))
            return played(Demo(place, running, database, cable, telling), telling, stack, place)
    except pytest.skip.Exception as missing:
        telling.say(f"missing: {missing}\n    install it with: sudo apt-get install postgresql")
        return 1


def played(demo: Demo, telling: Telling, stack: ExitStack, place: Path) -> int:
    """Everything happens, and is shown; returns the exit code."""
    with telling.chapter("laptop makes the fleet, and invites build and gpu-box"):
        demo.set_up()
    with telling.chapter("their daemons start"):
        # Events are told to who accepts them, which build learns when it connects.
        for hosts in ((demo.laptop, demo.gpu), (demo.build,)):
            for host in hosts:
                stack.enter_context(host.daemon())
            wait(partial(demo.hears_of, hosts), "daemons that report")
    with telling.chapter("two runs on build; laptop sees both"):
        demo.two_runs()
    with telling.chapter("one fires a chain of laptop, whose first step runs on gpu-box"):
        demo.fired()
    with telling.chapter("the database's cable is pulled; gpu-box judges the step"):
        demo.without_cable()
    with telling.chapter("the cable is back; the chain continues with the outcome"):
        demo.with_cable()
    for words in SCREENS:
        demo.laptop.show(*words)
    wrong = demo.wrong()
    everything = "" if telling.record is None else f" ({telling.record.name} has every command)"
    telling.say(f"\nKept in {place}{everything}")
    if wrong:
        print("\nNot as expected:", *wrong, sep="\n  ", file=sys.stderr)
        return 1
    telling.say("The step ran once, on gpu-box. All that was owed arrived once, after the outage.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
