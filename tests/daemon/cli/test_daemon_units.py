"""`runward daemon install` and `uninstall`, against a systemctl that only notes what it is asked."""

import os
import sys
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place, Result

from runward.daemon.units import rendering

UNIT = ".config/systemd/user/runward.service"


class Service:
    """A place with `systemctl` and its friends on the PATH, and nothing else there; `refused` are calls that fail."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.unit = place.directory / UNIT
        self._calls = place.directory / "calls"
        self.tools = place.directory / "tools"
        self.tools.mkdir()

    def answers(self, refused: str = "nothing", answer: bool = True) -> None:
        for name in ("systemctl", "systemd-sysusers"):
            program = self.tools / name
            program.write_text(
                "#!/bin/sh\n"
                f'echo "{name} $*" >> {self._calls}\n'
                f'case " $* " in *" {refused} "*) echo "refused: $*" >&2; exit 1;;\n'
                f'*" --property=Version "*) {"exit 0" if answer else "echo No medium found >&2; exit 1"};;\n'
                '*" --property=StatusText "*) echo "watching 1 root";; esac\n'
            )
            program.chmod(0o755)

    def call(self, *arguments: str) -> Result:
        return self.place.call("daemon", *arguments, PATH=str(self.tools))

    def calls(self) -> list[str]:
        """What systemd was asked to change since the last time."""
        text = self._calls.read_text() if self._calls.exists() else ""
        self._calls.unlink(missing_ok=True)
        return [line for line in text.splitlines() if " show " not in line]


@pytest.fixture
def service(place: Place, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The place, called by a `runward` of its own."""
    made = Service(place)
    program = made.tools / "runward"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    return made


def test_the_unit_is_written_enabled_and_started(service: Service) -> None:
    service.answers()
    done = service.call("install", "--user")
    assert done.code == 0, done.err
    text = service.unit.read_text()
    assert f'Environment="RUNWARD_STATE_DIR={service.place.state}"' in text
    assert (
        f"ExecStart={service.tools}/runward --config={service.place.directory}/runward.toml daemon\n" in text
    )
    assert service.calls() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable runward.service",
        "systemctl --user restart runward.service",
    ]
    assert "watching 1 root" in done.out
    assert "undo it with: runward daemon uninstall --user" in done.out


def test_again_it_restarts_and_leaves_the_same_unit(service: Service) -> None:
    service.answers()
    service.call("install", "--user")
    before = service.unit.read_bytes()
    service.calls()
    assert "unchanged" in service.call("install", "--user").out
    assert service.unit.read_bytes() == before
    assert "systemctl --user restart runward.service" in service.calls()


def test_a_unit_that_was_changed_by_hand_is_kept(service: Service) -> None:
    service.answers()
    service.call("install", "--user")
    changed = service.unit.read_text().replace("RestartSec=5", "RestartSec=50")
    service.unit.write_text(changed)
    done = service.call("install", "--user")
    kept = service.unit.with_name("runward.service.kept")
    assert kept.read_text() == changed
    assert str(kept) in done.out
    assert "RestartSec=5\n" in service.unit.read_text()


def test_uninstall_undoes_it_and_leaves_the_state(service: Service) -> None:
    service.answers()
    service.call("install", "--user")
    service.calls()
    service.place.add_run("one", exit_code=0)
    service.place.daemon_once()
    before = sorted(str(path) for path in service.place.state.rglob("*"))
    assert service.call("uninstall", "--user").code == 0
    assert service.calls() == [
        "systemctl --user disable --now runward.service",
        "systemctl --user daemon-reload",
    ]
    assert not service.unit.exists()
    assert sorted(str(path) for path in service.place.state.rglob("*")) == before
    assert service.call("uninstall", "--user").code == 0
    assert service.calls() == []


@pytest.mark.parametrize("has_systemctl", [True, False])
def test_where_no_systemd_answers_the_unit_is_written_and_nothing_else(
    service: Service, has_systemctl: bool
) -> None:
    if has_systemctl:
        service.answers(answer=False)
    done = service.call("install", "--user")
    assert done.code == 75
    assert "nothing was enabled or started" in done.err
    assert ("No medium found" if has_systemctl else "systemctl is not installed") in done.err
    assert service.unit.exists()
    assert service.calls() == []
    undone = service.call("uninstall", "--user")
    assert undone.code == 75
    assert not service.unit.exists()
    assert service.call("uninstall", "--user").code == 0


@pytest.mark.parametrize("refused", ["daemon-reload", "enable", "restart"])
def test_what_systemd_refuses_is_said(service: Service, refused: str) -> None:
    service.answers(refused)
    done = service.call("install", "--user")
    assert done.code == 1
    assert f"refused: --user {refused}" in done.out
    assert "journalctl --user -u runward" in done.err
    assert refused in service.calls()[-1]


def test_a_dry_run_of_taking_away_what_is_not_there_says_that_it_is_absent(service: Service) -> None:
    done = service.call("uninstall", "--user", "--dry-run")
    assert done.code == 0, done.err
    assert done.out.startswith(f"absent    {service.unit}\n")


def test_a_dry_run_shows_all_and_changes_nothing(service: Service) -> None:
    service.answers()
    done = service.call("install", "--user", "--dry-run")
    assert done.code == 0
    assert f"would have written   {service.unit}" in done.out
    assert "    KillMode=process" in done.out
    assert "would have run       systemctl --user restart runward.service" in done.out
    assert not service.unit.exists()
    assert service.calls() == []


@pytest.mark.parametrize("is_lingering", [True, False])
def test_it_says_so_when_lingering_is_off(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_lingering: bool
) -> None:
    linger = tmp_path / "linger"
    linger.mkdir()
    monkeypatch.setattr(rendering, "LINGER", str(linger))
    if is_lingering:
        (linger / rendering.user_name()).touch()
    service.answers()
    assert ("loginctl enable-linger" in service.call("install", "--user").out) == (not is_lingering)
    assert service.call("install", "--user", "--json").object()["lingering"] is is_lingering


def test_json_says_all_that_was_done(service: Service) -> None:
    service.answers()
    done = service.call("install", "--user", "--json").object()
    assert done["files"] == [{"path": str(service.unit), "deed": "written", "kept": None}]
    assert (done["scope"], done["systemd"], done["done"], done["dry_run"]) == ("user", "answers", True, False)
    ran = done["ran"]
    assert isinstance(ran, list)
    assert ran[0] == {"words": ["systemctl", "--user", "daemon-reload"], "code": 0, "said": ""}


def test_settings_that_are_wrong_are_not_installed(service: Service) -> None:
    (service.place.directory / "runward.toml").write_text("batch = 0\n")
    service.answers()
    assert service.call("install", "--user").code == 78
    assert not service.unit.exists()


@pytest.fixture
def machine(service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Service:
    """A machine of its own whose root one is, with a program outside of homes."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(rendering, "SYSTEM_UNITS", str(tmp_path / "etc/systemd/system"))
    monkeypatch.setattr(rendering, "SYSTEM_USERS", str(tmp_path / "etc/sysusers.d"))
    monkeypatch.setattr(rendering, "unseen", lambda program, also=(): None)
    (service.place.directory / "runward.toml").unlink()
    service.answers()
    return service


def test_root_installs_the_machines_units_and_their_user(machine: Service, tmp_path: Path) -> None:
    done = machine.call("install")
    assert done.code == 0, done.err
    there = sorted(
        str(path.relative_to(tmp_path)) for path in (tmp_path / "etc").rglob("*") if path.is_file()
    )
    assert there == [
        "etc/systemd/system/runward.service",
        "etc/systemd/system/runward@.service",
        "etc/sysusers.d/runward.conf",
    ]
    assert machine.calls() == [
        f"systemd-sysusers {tmp_path}/etc/sysusers.d/runward.conf",
        "systemctl daemon-reload",
        "systemctl enable runward.service",
        "systemctl restart runward.service",
        "systemctl try-restart runward@*.service",
    ]
    assert machine.call("uninstall").code == 0
    assert [path for path in (tmp_path / "etc").rglob("*") if path.is_file()] == []
    assert machine.calls() == [
        "systemctl disable --now runward.service",
        "systemctl stop runward@*.service",
        "systemctl disable runward@.service",
        "systemctl daemon-reload",
    ]


def test_the_machines_units_are_not_for_everybody_to_change(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(rendering, "unseen", lambda program, also=(): None)
    for verb in ("install", "uninstall"):
        refused = service.call(verb, "--system")
        assert refused.code == 2
        assert "only root" in refused.err


def test_a_program_in_a_home_is_no_program_for_the_machine(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answers()
    program = service.place.directory / "bin/runward"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert rendering.unseen("/usr/bin/env", ["/home/somebody/runward.toml"]) is not None
    assert rendering.unseen("/root/.local/bin/runward") == "/root/.local/bin/runward"
    monkeypatch.setenv("HOME", str(service.place.directory))
    assert rendering.unseen(str(program)) == str(program)


def test_the_options_of_the_daemon_are_not_those_of_installing_it(service: Service) -> None:
    assert service.call("--once", "install").code == 2
