"""Whether a desktop would show a notice is asked of it, and shows nothing; whatever the bus does, that takes no longer than the patience."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.daemon.session_bus import session_bus

from runward.daemon.world.desktop import why_no_desktop


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """Variables of an environment that has notify-send."""
    program = tmp_path / "tools" / "notify-send"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    return {"PATH": str(program.parent)}


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("returns", None),
        ("fails", "there is none"),
        ("refuses", "the bus refuses the connection"),
        ("nonsense", "the bus refuses the connection"),
        ("silent", "it takes too long"),
    ],
)
def test_a_notification_service_is_asked_who_it_is(
    tmp_path: Path, tools: dict[str, str], does: str, why: str | None
) -> None:
    with session_bus(tmp_path / "bus", does) as variables:
        begin = time.monotonic()
        said = why_no_desktop({**tools, **variables}, patience_s=10.0 if does != "silent" else 0.2)
        assert said == (None if why is None else f"no notification service answers: {why}")
        assert time.monotonic() < begin + 9


def test_where_nothing_is_there_that_is_said(tmp_path: Path, tools: dict[str, str]) -> None:
    none = "no notification service answers: "
    assert why_no_desktop({"PATH": str(tmp_path)}) == "there is no program notify-send"
    assert why_no_desktop(tools) == f"{none}the environment names no bus"
    gone = {**tools, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/gone"}
    assert why_no_desktop(gone) == f"{none}No such file or directory"
    far = {**tools, "DBUS_SESSION_BUS_ADDRESS": "tcp:host=example.org,port=1"}
    assert why_no_desktop(far) == f"{none}the environment names no bus"


def test_the_bus_is_found_as_notify_send_finds_it(tmp_path: Path, tools: dict[str, str]) -> None:
    with session_bus(tmp_path / "bus"):
        assert why_no_desktop({**tools, "XDG_RUNTIME_DIR": str(tmp_path)}) is None
        others = f"unix:path={tmp_path}/gone;unix:path={tmp_path}/%62us,guid=1234"
        assert why_no_desktop({**tools, "DBUS_SESSION_BUS_ADDRESS": others}) is None


def test_a_real_bus_understands_the_question(tmp_path: Path, tools: dict[str, str]) -> None:
    program = shutil.which("dbus-daemon")
    if program is None:
        pytest.skip("this machine has no dbus-daemon")
    address = f"unix:path={tmp_path}/bus"
    command = [program, "--session", "--nofork", "--nopidfile", f"--address={address}", "--print-address"]
    # Without directories of services, nothing is started for the question.
    nothing = {"XDG_DATA_DIRS": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    bus = subprocess.Popen(command, stdout=subprocess.PIPE, env=nothing)
    try:
        assert bus.stdout is not None
        assert bus.stdout.readline()
        asked = {**tools, "DBUS_SESSION_BUS_ADDRESS": address}
        assert why_no_desktop(asked, patience_s=10.0) == "no notification service answers: there is none"
    finally:
        bus.kill()
        bus.wait()
        bus.stdout.close()  # type: ignore[union-attr] # it is a pipe
