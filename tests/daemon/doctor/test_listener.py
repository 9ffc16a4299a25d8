"""What the doctor says of listening: by opening what a daemon would open, or asking one that runs."""

import socket
import sys
from pathlib import Path
from unittest import mock

import pytest
from tests.daemon.web.serving import served as serving

from runward.config.listening import Github, Http, Webhooks
from runward.config.settings import Settings
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.doctor.settings import _answers, examine_listener
from runward.daemon.web.sockets import HttpReport


def examined(settings: Settings) -> list[Finding]:
    return list(examine_listener(Installation(settings, False, (), {}), Patience(20.0)))


def settings(state: Path, *listen: str, secret: Path | None = None) -> Settings:
    http = Http(listen) if listen else None
    return Settings(str(state), http=http, webhooks=Webhooks(Github(str(secret)) if secret else None))


def results(found: list[Finding]) -> list[str]:
    return [each.result for each in found]


def test_nothing_listens(tmp_path: Path) -> None:
    assert results(examined(settings(tmp_path))) == ["ok"]
    found = examined(settings(tmp_path, secret=tmp_path / "s"))
    assert (results(found), found[1].fix) == (["ok", "warning"], "add [http] to the settings")


def test_addresses_that_a_daemon_could_have_and_one_that_it_could_not(tmp_path: Path) -> None:
    assert results(examined(settings(tmp_path, "127.0.0.1:0", f"unix:{tmp_path}/s"))) == ["ok"]
    assert not (tmp_path / "s").exists()
    with socket.create_server(("127.0.0.1", 0)) as other:
        (found,) = examined(settings(tmp_path, f"127.0.0.1:{other.getsockname()[1]}"))
    assert (found.result, "is taken by another program" in found.message) == ("failed", True)


def test_an_address_that_other_machines_reach(tmp_path: Path) -> None:
    assert results(examined(settings(tmp_path, "0.0.0.0:0"))) == ["ok", "warning"]


@pytest.mark.parametrize(("mode", "result"), [(0o600, "ok"), (0o644, "failed")])
def test_a_secret(tmp_path: Path, mode: int, result: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    secret.chmod(mode)
    assert results(examined(settings(tmp_path, "127.0.0.1:0", secret=secret))) == ["ok", result]


def test_tools_over_http_need_their_library(tmp_path: Path) -> None:
    wanted = Settings(str(tmp_path), http=Http(("127.0.0.1:0",), mcp=True))
    assert results(examined(wanted)) == ["ok", "ok"]
    with mock.patch.dict(sys.modules, {"mcp": None}):
        _, found = examined(wanted)
    assert (found.result, "pipx install --force '.[mcp]'" in found.message) == ("failed", True)


def test_a_daemon_that_runs_is_asked(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert _answers(HttpReport(None, served.path), 5.0).message.endswith("(404 for /)")
        gone = _answers(HttpReport(None, f"{served.path}.gone"), 5.0)
        assert gone.result == "failed"
