"""What systemd says of our units, by a `systemctl` that says what a test has it say."""

import os
from pathlib import Path

import pytest
from tests.daemon.doctor.examined import findings, installation, results

from runward.daemon.doctor import unit
from runward.daemon.doctor.findings import Finding
from runward.daemon.store.ownership import hold
from runward.daemon.units import placing
from runward.daemon.users import name_of

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
    monkeypatch.setattr(unit, "BOOTED", tmp_path)
    monkeypatch.setattr(placing, "LINGER", str(tmp_path / "linger"))
    return tmp_path


def examined(place: Path) -> list[Finding]:
    environment = {"PATH": f"{place}/bin:/usr/bin:/bin"}
    return findings(unit.examine, installation(place / "state", environment=environment))


def install(place: Path, name: str = "user", **properties: str) -> None:
    shown = RUNNING | {"Environment": f"RUNWARD_STATE_DIR={place}/state"} | properties
    (place / name).write_text("".join(f"{key}={value}\n" for key, value in shown.items()))


def test_without_systemd_nothing_is_known(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit, "BOOTED", place / "nowhere")
    (place / "no-user-manager").touch()
    assert results(examined(place)) == ["skipped"]
    (place / "bin" / "systemctl").unlink()
    assert results(
        findings(unit.examine, installation(place / "state", environment={"PATH": f"{place}/bin"}))
    ) == ["skipped"]


def test_a_users_own_systemd_is_asked_though_the_machines_init_is_another(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit, "BOOTED", place / "nowhere")
    install(place)
    (place / "linger" / USER).touch()
    assert results(examined(place)) == ["ok", "ok"]


def test_without_a_unit_nothing_starts_the_daemon(place: Path) -> None:
    (found,) = examined(place)
    assert (found.result, found.fix) == ("warning", "`runward daemon install`")
    assert "doesn't answer" not in found.found
    (place / "no-user-manager").touch()
    assert "doesn't answer" in examined(place)[0].found


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
    assert said in wrong[0].found
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
    assert "is active as process 7" in found.found


def test_two_active_units_are_one_too_many(place: Path) -> None:
    install(place, "runward.service")
    install(place, f"runward@{USER}.service")
    assert "more than one unit of Runward is active" in [each.found for each in examined(place)]
