"""What systemd says of our units, by a `systemctl` that says what a test has it say."""

import os
import pwd
import time
from pathlib import Path

import pytest
from tests.daemon.doctor.examined import findings, installation, results

from runward.daemon.doctor import daemons, state
from runward.daemon.doctor.findings import Finding
from runward.daemon.host.report import Report, write_report
from runward.daemon.store.ownership import hold
from runward.daemon.units import rendering
from runward.daemon.users import as_root, name_of
from runward.daemon.watch.hints import Coverage

USER = name_of(os.geteuid())
SYSTEMCTL = """\
#!/bin/sh
for word in "$@"; do last=$word; done
case "$1 $last" in
"--user runward.service") answer={place}/user; [ ! -e {place}/no-user-manager ] || exit 1 ;;
*) answer={place}/$last ;;
esac
if [ -e "$answer" ]; then cat "$answer"; else echo LoadState=not-found; fi
"""
RUNNING = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "MainPID": "7"}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine on which systemd runs, with no unit of ours."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "systemctl"
    program.write_text(SYSTEMCTL.format(place=tmp_path))
    program.chmod(0o755)
    (tmp_path / "linger").mkdir()
    (tmp_path / "state").mkdir()
    monkeypatch.setattr(daemons, "BOOTED", tmp_path)
    monkeypatch.setattr(rendering, "LINGER", str(tmp_path / "linger"))
    return tmp_path


def examined(place: Path) -> list[Finding]:
    environment = {"PATH": f"{place}/bin:/usr/bin:/bin"}
    return findings(daemons.examine_unit, installation(place / "state", environment=environment))


def install(place: Path, name: str = "user", **properties: str) -> None:
    shown = RUNNING | {"Environment": f"RUNWARD_STATE_DIR={place}/state"} | properties
    (place / name).write_text("".join(f"{key}={value}\n" for key, value in shown.items()))


def test_without_systemd_nothing_is_known(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "BOOTED", place / "nowhere")
    (place / "no-user-manager").touch()
    assert results(examined(place)) == ["skipped"]
    (place / "bin" / "systemctl").unlink()
    assert results(
        findings(daemons.examine_unit, installation(place / "state", environment={"PATH": f"{place}/bin"}))
    ) == ["skipped"]


def test_a_users_own_systemd_is_asked_though_the_machines_init_is_another(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "BOOTED", place / "nowhere")
    install(place)
    (place / "linger" / USER).touch()
    assert results(examined(place)) == ["ok", "ok"]


def test_without_a_unit_nothing_starts_the_daemon(place: Path) -> None:
    (found,) = examined(place)
    install_it = "`runward daemon install --user`" if os.geteuid() == 0 else "`runward daemon install`"
    assert (found.result, found.fix) == ("warning", install_it)
    assert "doesn't answer" not in found.message
    (place / "no-user-manager").touch()
    assert "doesn't answer" in examined(place)[0].message


def test_a_unit_that_runs_over_this_state_directory_for_a_user_who_lingers_is_well(place: Path) -> None:
    install(place)
    (place / "linger" / USER).touch()
    assert results(examined(place)) == ["ok", "ok"]


@pytest.mark.parametrize(
    ("properties", "result", "said"),
    [
        ({"LoadState": "bad-setting", "LoadError": "line 3"}, "failed", "can't be loaded: line 3"),
        ({"UnitFileState": "disabled"}, "warning", "isn't enabled"),
        ({"ActiveState": "failed"}, "failed", "failed"),
        ({"ActiveState": "inactive"}, "warning", "is inactive"),
        ({"Environment": "A=b RUNWARD_STATE_DIR=/elsewhere"}, "warning", "keeps its state in /elsewhere"),
    ],
)
def test_what_is_wrong_with_a_unit_is_said(
    place: Path, properties: dict[str, str], result: str, said: str
) -> None:
    install(place, "runward.service", **properties)
    wrong = [each for each in examined(place) if each.result != "ok"]
    assert [each.result for each in wrong] == [result]
    assert said in wrong[0].message
    assert wrong[0].fix


def test_a_user_who_doesnt_linger_is_told_where_their_own_unit_is_installed(place: Path) -> None:
    install(place)
    assert [each.fix for each in examined(place) if each.result == "warning"] == [
        f"loginctl enable-linger {USER}"
    ]


def test_a_daemon_that_isnt_the_units_is_found(place: Path) -> None:
    install(place, "runward.service")
    held = hold(place / "state")
    try:
        (found,) = examined(place)
    finally:
        held.release()
    assert found.result == "failed"
    assert "is active as process 7" in found.message


def test_two_active_units_are_one_too_many(place: Path) -> None:
    install(place, "runward.service")
    install(place, f"runward@{USER}.service")
    assert "more than one unit of Runward is active" in [each.message for each in examined(place)]


ELSEWHERE = {"Environment": "RUNWARD_STATE_DIR=/var/lib/runward", "User": "runward", "MainPID": "8"}


@pytest.mark.parametrize(
    "machines", [ELSEWHERE, ELSEWHERE | {"ActiveState": "failed", "UnitFileState": "disabled"}]
)
def test_a_unit_of_this_user_beside_that_of_the_machine_is_well(
    place: Path, machines: dict[str, str]
) -> None:
    install(place, f"runward@{USER}.service", MainPID=str(os.getpid()))
    install(place, "runward.service", **machines)
    held = hold(place / "state")
    try:
        found = examined(place)
    finally:
        held.release()
    assert results(found) == ["ok", "ok"]
    assert "keeps its state in /var/lib/runward: that is another installation" in found[0].message


def test_an_instance_of_the_template_that_nobody_enabled_is_not_missed(place: Path) -> None:
    install(place)
    install(place, f"runward@{USER}.service", UnitFileState="disabled", ActiveState="inactive", MainPID="0")
    (place / "linger" / USER).touch()
    assert results(examined(place)) == ["ok", "ok"]


def test_where_only_the_machines_unit_is_installed_its_directory_and_the_commands_for_both_are_said(
    place: Path,
) -> None:
    install(place, "runward.service", **ELSEWHERE)
    (found,) = examined(place)
    assert found.result == "warning"
    assert f"keeps its state in /var/lib/runward, but this command uses {place}/state" in found.message
    assert "`sudo -u runward RUNWARD_STATE_DIR=/var/lib/runward runward doctor`" in str(found.fix)
    assert f"`runward daemon install{' --user' if os.geteuid() == 0 else ''}`" in str(found.fix)


def test_a_fix_names_the_unit_of_the_state_directory(place: Path) -> None:
    def fix() -> str | None:
        examined = installation(place / "state", environment={"PATH": f"{place}/bin:/usr/bin:/bin"})
        return findings(daemons.examine_daemon, examined)[0].fix

    assert fix() == "start `runward daemon`"
    install(place, **ELSEWHERE)
    assert fix() == "start `runward daemon`"
    install(place, "runward.service", ActiveState="inactive")
    assert fix() == f"start the unit: `{as_root('systemctl start runward.service')}`"
    install(place)
    assert fix() == "start the unit: `systemctl --user start runward.service`"


def test_a_daemon_of_another_version_is_restarted_by_its_unit_only_if_it_is_the_units(place: Path) -> None:
    def fix(main_pid: int) -> str:
        install(place, "runward.service", MainPID=str(main_pid))
        examined = installation(place / "state", environment={"PATH": f"{place}/bin:/usr/bin:/bin"})
        return str(findings(daemons.examine_daemon, examined)[-1].fix)

    held = hold(place / "state")
    try:
        now = time.monotonic()
        told = Report(os.getpid(), 1, "0", 0.0, Coverage(), None, None, None, None, 0, 0, [], [], told_at=now)
        write_report(place / "state", told)
        assert fix(os.getpid()) == f"restart it: `{as_root('systemctl restart runward.service')}`"
        assert "systemctl" not in fix(7)
    finally:
        held.release()


def test_root_is_shown_the_state_directory_of_another_user_as_that_user_has_it(place: Path) -> None:
    user = next(each for each in pwd.getpwall() if each.pw_uid not in (0, os.geteuid()))
    try:
        os.chown(place / "state", user.pw_uid, -1)
    except PermissionError:
        pytest.skip("only root may give a directory away")
    (place / "state").chmod(0o700)
    found = findings(state.examine_rights, installation(place / "state"))
    assert results(found) == ["warning", "ok"]
    assert found[0].fix == f"`sudo -u {user.pw_name} RUNWARD_STATE_DIR={place}/state runward doctor`"
    assert found[1].message == f"{place}/state is {user.pw_name}'s alone"
    install(place, f"runward@{user.pw_name}.service")
    assert [each.message for each in examined(place)] == [
        f"unit runward@{user.pw_name}.service (no file) is active"
    ]
