"""What doctor says of settings that the running daemon did not take."""

from types import SimpleNamespace

import pytest

from runward.config.settings_layers import read_settings
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.doctor.settings import examine_settings


def _examined(monkeypatch: pytest.MonkeyPatch, why: str, store_fix: str | None) -> list[Finding]:
    settings = read_settings((), {}, home="/h", working_directory="/w").value
    assert settings is not None
    told = SimpleNamespace(settings=SimpleNamespace(refused=(why,), store_fix=store_fix))
    monkeypatch.setattr("runward.daemon.doctor.settings.holder", lambda state: 1)
    monkeypatch.setattr("runward.daemon.doctor.settings.read_report", lambda state: told)
    return list(examine_settings(Installation(settings, False, (), {}), Patience(20.0)))


def test_settings_that_the_store_could_not_take_need_no_correction(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = _examined(monkeypatch, "the store can't be written: database is locked", "end the program")
    assert found.fix == "end the program; the daemon then takes them over by itself"
    (found,) = _examined(monkeypatch, "scan.period is wrong", None)
    assert str(found.fix).startswith("correct them")
