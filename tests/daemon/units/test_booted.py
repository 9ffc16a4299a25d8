"""The units under a real systemd: start, reload, restart, kill and hang, and the run that lives on through all of them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from tests.daemon.units.booted import ALICE, Booted, booted, skip_where_impossible, stage_runward
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

STATE: Final = "/var/lib/runward"
QUICK: Final = "[Service]\nWatchdogSec=20s\nRestartSec=100ms\n"
"""A watchdog of seconds, and many of them: a busy machine must feed it in time."""

RESTART_S: Final = 120.0
"""Seconds that a restart may take, with the watchdog's time before it."""

WAITS: Final = """\
command:
  - sh
  - -c
  - 'echo begun; { sandbox && echo sandboxed || echo refused; }; until [ -e "$0" ]; do sleep 0.05; done; echo over'
  - GO
timeout: 10min
"""
SANDBOX: Final = """\
#!/bin/sh
# What bubblewrap asks of the kernel, and bubblewrap itself where it is installed.
unshare --user --map-root-user --mount --pid --net --ipc --uts --fork --mount-proc true || exit 1
command -v bwrap > /dev/null || exit 0
bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev true || exit 1
# Code of the exchange, by the default means, and the doctor's attempts to get out.
runward exchange execute /opt/runward/code.py >&2 || exit 1
runward doctor --only sandbox | tee /dev/stderr | grep -q '^ok '
"""
CODE: Final = "def run():\n    return 6 * 7\n"

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]


class Service:
    """Runward as a service of a booted machine: `ask` calls systemctl, `call` a command as its user."""

    def __init__(self, unit: str, state: str, ask: Callable[..., str], call: Callable[..., str]) -> None:
        self.unit = unit
        self.state = state
        self.ask = ask
        self._call = call

    def shown(self, name: str) -> str:
        return self.ask("show", "--value", f"--property={name}", self.unit)

    def fails(self, signal: str) -> None:
        """Send the daemon a signal that it doesn't survive, and wait until systemd has restarted it."""
        before = int(self.shown("NRestarts"))
        self.ask("kill", f"--signal={signal}", "--kill-whom=main", self.unit)
        wait_for(
            lambda: int(self.shown("NRestarts")) > before and self.shown("ActiveState") == "active",
            f"a restart after SIG{signal}",
            RESTART_S,
        )

    def session(self, identifier: str) -> dict[str, JsonValue]:
        """What is recorded of a session; empty where it isn't known yet."""
        listed: list[dict[str, JsonValue]] = json.loads(self.runward("session", "list", "--json"))
        return next((each for each in listed if str(each["key"]).endswith(f"/{identifier}")), {})

    def runward(self, *words: str) -> str:
        return self._call("env", f"RUNWARD_STATE_DIR={self.state}", "runward", *words)


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    """What is in the machine: Runward, its settings, and the homes of alice, who lingers, and of bob."""
    skip_where_impossible()
    made = tmp_path / "stage"
    made.mkdir()
    stage_runward(made)
    for directory in (
        "etc/runward/playbooks",
        "etc/systemd/system/runward.service.d",
        "etc/systemd/system/runward@.service.d",
        "etc/systemd/user/runward.service.d",
        "home/alice/projects",
        "home/bob",
        "var/lib/systemd/linger",
    ):
        (made / directory).mkdir(parents=True)
    for kind in ("system/runward", "system/runward@", "user/runward"):
        (made / f"etc/systemd/{kind}.service.d/quick.conf").write_text(QUICK)
    (made / "var/lib/systemd/linger/alice").touch()
    (made / "opt/runward/bin/sandbox").write_text(SANDBOX)
    (made / "opt/runward/bin/sandbox").chmod(0o755)
    (made / "opt/runward/code.py").write_text(CODE)
    (made / "etc/runward/runward.toml").write_text('playbooks = ["playbooks"]\nscan.period = "1h"\n')
    return made


def _write_playbook(stage: Path, go: str) -> None:
    path = "${PATH}"  # a service has a PATH of its own
    text = WAITS.replace("GO", go).replace("begun;", f'begun; PATH="/opt/runward/bin:{path}";')
    (stage / "etc/runward/playbooks/waits.playbook.yaml").write_text(text)


def _output(machine: Booted, service: Service, run: str, stream: str = "stdout") -> list[str]:
    log = machine.path(f"{service.state}/runs/{run}/{stream}.log")
    return log.read_text().splitlines() if log.exists() else []


def _live_through_everything(machine: Booted, service: Service, go: str, hangs: bool) -> None:
    """A run that the service starts outlives its restart, a kill -9 and maybe a hang, and is judged then."""
    run = service.runward("play", "run", "waits")
    wait_for(lambda: len(_output(machine, service, run)) > 1, "a sandbox in the run")
    assert _output(machine, service, run) == ["begun", "sandboxed"], _output(machine, service, run, "stderr")
    begun = wait_for(lambda: service.session(run), "the record of the run")
    service.ask("restart", service.unit)
    assert service.shown("ActiveState") == "active"
    service.fails("KILL")
    if hangs:
        service.fails("STOP")  # it stands still, and the watchdog ends it
    assert service.session(run)["status"] == "running"
    assert _output(machine, service, run) == ["begun", "sandboxed"]
    machine.path(go).touch()
    wait_for(lambda: service.session(run)["status"] == "completed", "the verdict")
    assert _output(machine, service, run) == ["begun", "sandboxed", "over"]
    assert service.session(run)["started_at"] == begun["started_at"]
    wait_for(
        lambda: "session.finished" in _journal(machine, run), "the verdict in the journal, by its session"
    )


def _journal(machine: Booted, run: str) -> set[str]:
    """The events that the journal has about a session, by its fields."""
    lines = machine.run("journalctl", "--output=json", "--all", f"RUNWARD_SESSION={run}").splitlines()
    return {json.loads(line).get("RUNWARD_EVENT", "") for line in lines}


def test_the_unit_of_the_machine(stage: Path, tmp_path: Path) -> None:
    go = "/tmp/go"
    _write_playbook(stage, go)
    with booted(stage, tmp_path / "root") as machine:
        installed = machine.run("runward", "daemon", "install")
        assert "watching 1 root" in installed
        as_runward = partial(machine.run, user="runward", home=STATE)
        service = Service("runward.service", STATE, partial(machine.run, "systemctl"), as_runward)
        assert (service.shown("ActiveState"), service.shown("UnitFileState")) == ("active", "enabled")
        _reload_with_a_home(machine, service)
        _live_through_everything(machine, service, go, hangs=True)
        journal = machine.run("journalctl", "--unit=runward", "--output=cat")
        assert "Fatal Python error: Aborted" in journal, "where the daemon hung"
        machine.run("runward", "daemon", "uninstall")
        assert service.shown("ActiveState") == "inactive"
        assert not machine.path("/etc/systemd/system/runward.service").exists()
        assert machine.path(f"{STATE}/runward.db").exists()


def _reload_with_a_home(machine: Booted, service: Service) -> None:
    """New settings name a root in a home; a run that is delivered there is judged without any scan."""
    settings = machine.path("/etc/runward/runward.toml")
    roots = "".join(f'[[roots]]\npath = "{path}"\n' for path in (f"{STATE}/runs", "/home/alice/projects"))
    settings.write_text(settings.read_text() + roots)
    service.ask("reload", service.unit)
    wait_for(lambda: service.shown("StatusText") == "watching 2 roots", "the new root")
    write = 'mkdir "$0" && cd "$0" && echo "$1" > run.json && echo "$2" > exit.tmp && mv exit.tmp exit.json'
    began = '{"schema": "runward-run-v1", "started_at": "2026-01-02T03:04:05Z"}'
    ended = '{"exit_code": 0, "finished_at": "2026-01-02T03:14:05Z"}'
    machine.alice("sh", "-c", write, "/home/alice/projects/delivered", began, ended)
    wait_for(
        lambda: service.session("delivered").get("status") == "completed", "the verdict on a run in a home"
    )


@pytest.mark.skipif(
    not Path("/usr/lib/systemd/user/dbus.socket").exists(), reason="needs a bus for users (dbus-user-session)"
)
def test_the_unit_of_a_user(stage: Path, tmp_path: Path) -> None:
    go = "/home/alice/go"
    _write_playbook(stage, go)
    with booted(stage, tmp_path / "root") as machine:
        wait_for(lambda: machine.path(f"/run/user/{ALICE}/bus").exists(), "alice's bus")
        installed = machine.alice("runward", "daemon", "install")
        assert "watching 1 root" in installed
        assert "lingering is off" not in installed
        state = "/home/alice/.local/state/runward"
        service = Service(
            "runward.service", state, partial(machine.alice, "systemctl", "--user"), machine.alice
        )
        # The daemon reads its settings once the signal has reached it, so for a moment the unit is "reloading".
        service.ask("reload", service.unit)
        wait_for(lambda: service.shown("ActiveState") == "active", "the end of the reload")
        _live_through_everything(machine, service, go, hangs=True)
        machine.alice("runward", "daemon", "uninstall")
        assert service.shown("ActiveState") == "inactive"
        assert machine.path(f"{state}/runward.db").exists()


_LOOKED_AT: Final = ("--only", "unit", "--only", "daemon", "--only", "rights", "--only", "roots")


def _is_well_beside_the_machines_unit(machine: Booted, service: Service) -> None:
    """No check of the doctor fails for alice, for the machine's user, or for root over their directories."""
    of_machine = partial(machine.run, "env", f"RUNWARD_STATE_DIR={STATE}", "runward")
    of_alice = partial(machine.run, "env", f"RUNWARD_STATE_DIR={service.state}", "runward")
    as_runward = partial(of_machine, user="runward", home=STATE)
    for doctor in (service.runward, as_runward, of_machine, of_alice):
        checks = json.loads(doctor("doctor", "--json", *_LOOKED_AT))["checks"]
        units = [each for each in checks if each["name"] == "unit"]
        assert any(each["found"].endswith("is active") for each in units), checks
        assert not [each for each in checks if "systemctl --user" in str(each["fix"])], checks
    found = machine.run("sh", "-c", "runward status 2>&1")
    assert f"you have no state of your own, so this is the machine's: {STATE}" in found
    assert "is running" in found
    refused = machine.run(
        "sh", "-c", "runward session list 2>&1 || test $? = 75", user="nobody", home="/var/tmp"
    )
    assert "it belongs to runward" in refused
    assert "is running" in of_machine("status")
    refusal = machine.run("sh", "-c", f"RUNWARD_STATE_DIR={STATE} runward run -- true 2>&1 || test $? = 78")
    how = refusal.partition("`")[2].partition("`")[0].replace("-- COMMAND", "--name theirs -- true")
    machine.run("sh", "-c", how.replace("sudo -u runward", "runuser -u runward -- env"))
    theirs = f"{STATE}/runs/theirs"
    wait_for(
        lambda: machine.path(f"{theirs}/RECEIPT.json").exists(),
        "the verdict on the run of the machine's user",
    )
    machine.run("sh", "-c", f"mkdir -m 700 {STATE}/runs/roots && echo '{{}}' > {STATE}/runs/roots/run.json")
    wait_for(lambda: "runs in it can't be read" in of_machine("status"), "the run that it can't read")


def test_the_unit_of_a_named_user(stage: Path, tmp_path: Path) -> None:
    go = "/home/alice/go"
    _write_playbook(stage, go)
    with booted(stage, tmp_path / "root") as machine:
        machine.run("runward", "daemon", "install", "--system")
        state = "/home/alice/.local/state/runward"
        service = Service("runward@alice.service", state, partial(machine.run, "systemctl"), machine.alice)
        service.ask("start", service.unit)
        assert service.shown("StatusText") == "watching 1 root"
        homes = f"/proc/{service.shown('MainPID')}/root/home"
        assert machine.run("ls", homes) == "alice"
        _is_well_beside_the_machines_unit(machine, service)
        _live_through_everything(machine, service, go, hangs=False)
        machine.run("runward", "daemon", "uninstall")
        assert service.shown("ActiveState") == "inactive"
