"""A daemon that listens: what `status` says, what keeps it from starting, and deliveries that fire chains."""

import http.client
import json
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.daemon.cli.calling import Place, sockets_of
from tests.daemon.cli.test_chain import over, runs_of
from tests.daemon.notified import NotifySocket
from tests.daemon.web.serving import SECRET, signature
from tests.waiting import PATIENCE_S, wait_for

from runward.config.json_value import JsonValue

HTTP = """
[http]
listen = ["127.0.0.1:0", "unix:http.sock"]

[webhooks.github]
secret_file = "github.secret"
"""
CHAIN = """\
name: on-pr
trigger: {event: pr.opened, filter: {base: main}}
steps:
  - {skill: look, with: {pr: "{{ trigger.pr_number }}"}}
"""
OPENED: JsonValue = {"action": "opened", "pull_request": {"number": 7, "base": {"ref": "main"}}}


@pytest.fixture
def listening(place: Place) -> Place:
    """A place whose daemon listens, with a secret and a chain that a pull request fires."""
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + HTTP)
    write_secret(place.directory / "github.secret")
    (place.directory / "playbooks/look.playbook.yaml").write_text('command: ["true", "{{ with.pr }}"]\n')
    (place.directory / "on-pr.yaml").write_text(CHAIN)
    assert place.call("chain", "define", "on-pr.yaml").code == 0
    return place


def write_secret(path: Path) -> None:
    path.write_text(SECRET)
    path.chmod(0o600)


def listens(place: Place) -> dict[str, JsonValue]:
    found = place.call("status", "--json").object()["http"]
    assert isinstance(found, dict)
    return found


def post(place: Place, target: str, body: bytes, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(
        urlsplit(str(listens(place)["address"])).netloc, timeout=PATIENCE_S
    )
    try:
        connection.request("POST", target, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def deliver(place: Place, delivery: str) -> int:
    body = json.dumps(OPENED).encode()
    told = {
        "X-Hub-Signature-256": signature(body),
        "X-GitHub-Event": "pull_request",
        "X-GitHub-Delivery": delivery,
        "Content-Type": "application/json",
    }
    return post(place, "/webhooks/github", body, told)


@pytest.mark.prove
def test_a_delivery_fires_a_chain_once_also_across_restarts(listening: Place) -> None:
    with listening.daemon():
        assert deliver(listening, "d-1") == 202
        wait_for(lambda: over(listening, 1), "the chain run")
        assert deliver(listening, "d-1") == 202
    with listening.daemon():
        assert deliver(listening, "d-1") == 202
        same = ("event", "emit", "pr.opened", "base=main", "pr_number:=9", "--id", "d-1")
        assert listening.call(*same).code == 0
        assert deliver(listening, "d-2") == 202
        wait_for(lambda: over(listening, 2), "the other chain run")
    assert len(runs_of(listening)) == 2
    assert listening.rows("select payload ->> 'id' from events where type = 'EventOccurred'") == [
        ("d-1",),
        ("d-2",),
    ]


@pytest.mark.prove
def test_what_was_accepted_survives_a_daemon_that_is_killed(listening: Place) -> None:
    with listening.daemon_process() as daemon:
        assert [deliver(listening, f"d-{number}") for number in range(5)] == [202] * 5
        daemon.kill()
        daemon.wait(PATIENCE_S)
    assert (listening.directory / "http.sock").exists(), "it was killed"
    with listening.daemon():
        assert deliver(listening, "d-3") == 202
        wait_for(lambda: over(listening, 5), "the chain runs")
    assert len(runs_of(listening)) == 5


@pytest.mark.prove
def test_status_says_where_it_listens_from_ready_on(listening: Place) -> None:
    notified = NotifySocket()
    daemon = listening.start_process("daemon", "--quiet", NOTIFY_SOCKET=notified.address)
    try:
        notified.until("READY")
        told = listens(listening)
        assert told["socket"] == str(listening.directory / "http.sock")
        where = urlsplit(str(told["address"]))
        with socket.create_connection((where.hostname, where.port), PATIENCE_S):
            pass
    finally:
        daemon.terminate()
        daemon.communicate(timeout=PATIENCE_S)
        notified.close()
    assert listening.call("status", "--json").object()["http"] is None
    assert not (listening.directory / "http.sock").exists()


@pytest.mark.prove
def test_without_the_table_nothing_listens_and_no_server_is_imported(place: Place) -> None:
    with place.daemon_process() as daemon:
        assert place.call("status", "--json").object()["http"] is None
        assert not _listening_inodes() & sockets_of(daemon.pid)
    code = "import runward.daemon.host.service, sys; sys.exit(bool({'uvicorn', 'starlette', 'h11'} & set(sys.modules)))"
    assert subprocess.run([place.argv()[0], "-c", code], env=place.environment, check=False).returncode == 0


def _listening_inodes() -> set[str]:
    """The TCP sockets of this machine that listen."""
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.add(f"socket:[{fields[9]}]")
    return found


def test_a_port_that_is_taken_ends_the_start_and_is_said(listening: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        settings = listening.directory / "runward.toml"
        settings.write_text(settings.read_text().replace("127.0.0.1:0", address))
        refused = listening.call("daemon", "--quiet")
    assert refused.code == 78
    assert f"http.listen: {address} is taken by another program: stop the program" in refused.err


def test_a_secret_that_others_may_read_ends_the_start(listening: Place) -> None:
    (listening.directory / "github.secret").chmod(0o644)
    checked = listening.call("daemon", "--check")
    assert (checked.code, "runward.toml:8" in checked.err) == (2, True), checked.err
    assert "chmod 600" in checked.err
    refused = listening.call("daemon", "--quiet")
    assert refused.code == 78
    assert f"others may read {listening.directory}/github.secret: chmod 600" in refused.err


@pytest.mark.prove
def test_other_addresses_want_a_restart_and_a_new_secret_does_not(listening: Place) -> None:
    settings = listening.directory / "runward.toml"
    right = settings.read_text()
    with listening.daemon():
        settings.write_text(right.replace("127.0.0.1:0", "127.0.0.2:0"))
        assert listening.call("daemon", "reload").code != 0
        told = listening.call("status", "--json").object()["settings"]
        assert isinstance(told, dict)
        assert told["refused"] == ["http.listen can't change while the daemon runs (restart it)"]
        settings.write_text(right.replace("github.secret", "other.secret"))
        assert listening.call("daemon", "reload").code == 0
        assert deliver(listening, "d-1") == 503
        write_secret(listening.directory / "other.secret")
        assert deliver(listening, "d-1") == 202


@pytest.mark.prove
def test_runs_are_judged_and_a_stop_is_quick_while_clients_do_their_worst(listening: Place) -> None:
    with listening.daemon_process() as daemon:
        where = urlsplit(str(listens(listening)["address"]))
        assert where.port is not None
        held = [socket.create_connection((str(where.hostname), where.port), PATIENCE_S) for _ in range(40)]
        for number, connection in enumerate(held):
            head = b"POST /webhooks/github HTTP/1.1\r\nhost: a\r\n"
            said = [b"", head, head + b"content-length: 5000000\r\n\r\n" + b"[" * 200_000]
            connection.sendall(said[number % 3])
        listening.add_run("meanwhile", exit_code=0)
        sql = "select status from sessions where key like '%meanwhile'"
        wait_for(lambda: listening.rows(sql) == [("completed",)], "the verdict", 10.0)
        began = time.monotonic()
        daemon.terminate()
        assert daemon.wait(PATIENCE_S) == 0
        assert time.monotonic() - began < 10.0
        for connection in held:
            connection.close()
