"""`runward studio` as a person uses it: over a daemon that serves the Studio, and without one."""

import http.client
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.daemon.cli.calling import Place, sockets_of
from tests.preloaded.forked import Forked
from tests.waiting import PATIENCE_S, wait_for

from runward.config.json_value import JsonValue
from runward.daemon.cli import studio
from runward.daemon.views.daemon_report import report_of
from runward.daemon.web import child_server


class Browser:
    """What a browser does at an address: it resolves every name below localhost to this machine."""

    def __init__(self) -> None:
        self.cookie = ""

    def get(self, url: str) -> tuple[int, str]:
        """The status and the page; follows the login."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=PATIENCE_S)
        try:
            target = parts.path + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers={"host": parts.netloc, "cookie": self.cookie})
            answer = connection.getresponse()
            self.cookie = (answer.getheader("set-cookie") or self.cookie).partition(";")[0]
            return answer.status, answer.read().decode()
        finally:
            connection.close()


def base_of(link: str) -> str:
    return link.partition("/login")[0]


@pytest.fixture
def served(place: Place) -> Iterator[tuple[Place, Forked]]:
    """A place whose daemon serves the Studio, with a run that has failed."""
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write("[studio]\n")
    place.add_run("silent", exit_code=0, contract={"expected": [EXPECTED]})
    with place.daemon() as daemon:
        yield place, daemon


EXPECTED: JsonValue = {
    "id": "review",
    "path": "review.md",
    "required": True,
    "description": "",
    "source": "playbook",
}


def program_of(daemon: Forked) -> list[int]:
    """The Studio's processes that this daemon has started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
            parent = (each / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if child_server.PROGRAM.encode() in words and int(parent) == daemon.pid:
            found.append(int(each.name))
    return found


def link_of(place: Place) -> str:
    result = place.call("studio", "--print")
    assert (result.code, result.err) == (0, "")
    return result.out.strip()


def test_a_person_logs_in_and_sees_what_failed(served: tuple[Place, Forked]) -> None:
    place, daemon = served
    assert program_of(daemon) == []
    link, browser = link_of(place), Browser()
    assert place.call("status", "--json").object()["studio"] == {"address": base_of(link)}
    assert browser.get(link)[0] == 303
    wait_for(lambda: "silent" in browser.get(f"{base_of(link)}/sessions")[1], "the run")
    status, page = browser.get(f"{base_of(link)}/sessions/native:runs/silent")
    assert (status, "Expected artifacts" in page) == (200, True)
    assert Browser().get(f"{base_of(link)}/sessions")[0] == 401


def test_a_daemon_that_has_only_just_begun_is_waited_for(
    served: tuple[Place, Forked], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = served
    nothing: list[dict[str, JsonValue]] = [{}, {}]
    monkeypatch.setattr(studio, "report_of", lambda *given: nothing.pop() if nothing else report_of(*given))
    link = link_of(place)
    assert nothing == []
    assert place.call("status", "--json").object()["studio"] == {"address": base_of(link)}


def test_a_studio_that_is_about_to_begin_after_a_reload_is_waited_for(
    served: tuple[Place, Forked], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = served
    looks = [1, 2]

    def report(*given: Any) -> Mapping[str, JsonValue]:
        told = report_of(*given)
        return (
            {name: each for name, each in told.items() if name != "studio"} if looks and looks.pop() else told
        )

    monkeypatch.setattr(studio, "report_of", report)
    link = link_of(place)
    assert looks == []
    assert place.call("status", "--json").object()["studio"] == {"address": base_of(link)}


def test_without_the_table_the_daemon_listens_on_nothing(place: Place) -> None:
    with place.daemon() as daemon:
        assert listening(daemon) == []
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write("[studio]\n")
    with place.daemon() as daemon:
        assert len(listening(daemon)) == 1


def listening(daemon: Forked) -> list[str]:
    """The TCP sockets on which this process listens, by their inodes."""
    tables = [Path(f"/proc/{daemon.pid}/net/{name}") for name in ("tcp", "tcp6")]
    rows = [row.split() for each in tables if each.exists() for row in each.read_text().splitlines()[1:]]
    listen = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
    return sorted(sockets_of(daemon.pid) & listen)


@pytest.mark.prove
def test_a_program_that_is_killed_is_reported_and_started_again(
    served: tuple[Place, Forked],
) -> None:
    place, daemon = served
    link = link_of(place)
    healthy = f"{base_of(link)}/healthz"
    assert Browser().get(healthy) == (200, "ok\n")
    (first,) = program_of(daemon)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: "studio: its program ended with -9" in degraded(place), "it is reported")
    assert Browser().get(healthy) == (200, "ok\n")
    assert program_of(daemon) != [first]


def test_the_program_ends_with_a_daemon_that_was_killed(served: tuple[Place, Forked]) -> None:
    place, daemon = served
    assert Browser().get(f"{base_of(link_of(place))}/healthz")[0] == 200
    (program,) = program_of(daemon)
    daemon.kill()
    daemon.wait()
    wait_for(lambda: not Path(f"/proc/{program}").exists(), "its end")


def degraded(place: Place) -> str:
    return str(place.call("status", "--json").object()["degraded"])


def test_an_address_that_is_taken_is_reported_and_verdicts_continue(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with (place.directory / "runward.toml").open("a") as settings:
            settings.write(f'[studio]\nlisten = "127.0.0.1:{other.getsockname()[1]}"\n')
        with place.daemon():
            wait_for(lambda: "is taken by another program" in degraded(place), "it is reported")
            assert place.call("status", "--json").object()["studio"] is None
            place.add_run("beside", exit_code=0)
            wait_for(lambda: place.call("session", "show", "beside").out.find("completed") > 0, "a verdict")


def test_without_the_table_the_daemon_serves_nothing(place: Place) -> None:
    with place.daemon():
        assert place.call("status", "--json").object()["studio"] is None
    assert not (place.state / "studio").exists()


def test_a_free_port_is_used_again_after_a_restart(place: Place) -> None:
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write("[studio]\n")
    links = []
    for _ in range(2):
        with place.daemon():
            links.append(base_of(link_of(place)))
    assert links[0] == links[1]


def test_a_logout_is_for_every_browser(served: tuple[Place, Forked]) -> None:
    place, _ = served
    link, browser = link_of(place), Browser()
    browser.get(link)
    sessions = f"{base_of(link)}/sessions"
    assert browser.get(sessions)[0] == 200
    assert place.call("studio", "--logout").code == 0
    assert browser.get(sessions)[0] == 421  # the name is derived from the key
    again = link_of(place)
    browser.get(again)
    assert browser.get(f"{base_of(again)}/sessions")[0] == 200


def test_without_a_daemon_the_command_serves_the_studio_itself(place: Place) -> None:
    place.add_run("silent", exit_code=0)
    process = place.start_process("studio", "--print")
    try:
        assert process.stdout is not None
        link, browser = process.stdout.readline().strip(), Browser()
        assert browser.get(link)[0] == 303
        assert "silent" in browser.get(f"{base_of(link)}/sessions")[1]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_command_that_cannot_have_its_address_says_so(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with (place.directory / "runward.toml").open("a") as settings:
            settings.write(f'[studio]\nlisten = "127.0.0.1:{other.getsockname()[1]}"\n')
        result = place.call("studio", "--print")
    assert result.code == 1
    assert "studio.listen: 127.0.0.1:" in result.err
    assert "is taken by another program" in result.err


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ('listen = "0.0.0.0:8461"', "can be reached from other machines"),
        ('listen = "unix:studio.sock"', "is not an address to listen on"),
        ('url = "https://studio.example/path"', "is not the address of a site"),
        ("read_only = 1", "must be true or false"),
    ],
)
def test_settings_that_cannot_be_are_refused(place: Place, written: str, complaint: str) -> None:
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write(f"[studio]\n{written}\n")
    result = place.call("daemon", "--check")
    assert (result.code, complaint in result.err) == (78, True)


def test_the_studio_follows_the_settings_without_a_restart(place: Place) -> None:
    settings = place.directory / "runward.toml"
    written = settings.read_text()
    with place.daemon():
        settings.write_text(f"{written}[studio]\n")
        assert place.call("daemon", "reload").code == 0
        link, browser = link_of(place), Browser()
        browser.get(link)
        assert browser.get(f"{base_of(link)}/sessions")[0] == 200
        settings.write_text(written)
        assert place.call("daemon", "reload").code == 0
        wait_for(lambda: is_refused(browser, f"{base_of(link)}/sessions"), "that nobody listens there")


def is_refused(browser: Browser, url: str) -> bool:
    """Whether nobody listens at this address; who stops listening may have taken a connection before."""
    try:
        browser.get(url)
    except ConnectionRefusedError:
        return True
    except (OSError, http.client.HTTPException):
        pass
    return False
