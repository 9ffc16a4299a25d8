"""Opening sockets: all or none, for this user alone, and never in another one's place."""

import socket
import stat
from pathlib import Path

import pytest

from runward.daemon.web.sockets import CannotListen, open_sockets


def test_a_free_port_is_told(tmp_path: Path) -> None:
    opened = open_sockets(["127.0.0.1:0", f"unix:{tmp_path}/s"])
    try:
        assert opened.url is not None
        port = opened.sockets[0].getsockname()[1]
        assert (opened.url, opened.path) == (f"http://127.0.0.1:{port}", f"{tmp_path}/s")
        with socket.create_connection(("127.0.0.1", port)):
            pass
    finally:
        opened.close()
    assert not (tmp_path / "s").exists()


def test_a_socket_in_the_file_system_is_of_its_owner_alone(tmp_path: Path) -> None:
    opened = open_sockets([f"unix:{tmp_path}/s"])
    try:
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    finally:
        opened.close()


def test_a_port_that_is_taken_is_said_and_nothing_else_stays_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(CannotListen, match=f"{address} is taken by another program: stop the program"):
            open_sockets([f"unix:{tmp_path}/s", address])
    assert not (tmp_path / "s").exists()


def test_a_socket_that_was_left_behind_is_replaced_and_one_that_is_used_is_not(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(path)
        other.listen()
        with pytest.raises(CannotListen, match="is taken by another program"):
            open_sockets([f"unix:{path}"])
    opened = open_sockets([f"unix:{path}"])
    opened.close()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_socket_is_left_alone(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "s", tmp_path / "precious"
    target.write_text("precious")
    path.symlink_to(target) if kind == "link" else path.write_text("precious")
    with pytest.raises(CannotListen, match="something other than a socket is there"):
        open_sockets([f"unix:{path}"])
    assert path.read_text() == "precious"


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1:0"):
        open_sockets(["192.0.2.1:0"])
