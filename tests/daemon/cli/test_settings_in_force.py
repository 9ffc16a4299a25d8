"""What commands go by while a daemon runs: its settings, whatever has become of the file meanwhile."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import SETTINGS, Place, Result
from tests.daemon.cli.drawn import draw
from tests.daemon.cli.everyday import Everyday
from tests.preloaded.forked import Forked
from tests.waiting import wait_for

from runward.config.settings import Settings, settings_from_json, settings_to_json
from runward.config.settings_layers import Source, read_settings
from runward.daemon.cli.shell import context
from runward.daemon.log import LOG


def _write(place: Place, text: str) -> None:
    (place.directory / "runward.toml").write_text(text)


def _told(place: Place) -> dict[str, object]:
    """What status says of the settings once the daemon has told of them."""

    def told() -> dict[str, object] | None:
        found = place.call("status", "--json").object()["settings"]
        assert isinstance(found, dict)
        return dict(found) if found["since"] is not None else None

    return wait_for(told, "a daemon that tells of its settings")


@contextlib.contextmanager
def _frozen(daemon: Forked) -> Iterator[None]:
    os.kill(daemon.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{daemon.pid}/stat")
    wait_for(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "a daemon that stands still")
    try:
        yield
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


def _in_force(place: Place, key: str, value: object, *, reloads: int) -> None:
    """Wait until the daemon uses this value, which its log says before: to look there costs next to nothing."""
    wait_for(lambda: len(_lines(place, "reloaded")) >= reloads, f"reload {reloads}")
    wait_for(lambda: place.call("status", "--json").object()[key] == value or None, f"{key} = {value}")


def _lines(place: Place, event: str) -> list[dict[str, object]]:
    """The whole lines of the daemon's log about this event."""
    whole, _, _ = (place.state / LOG).read_text().rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    return [line for line in lines if line["event"] == event]


def test_status_shows_the_settings_of_the_daemon_and_that_the_file_changed(place: Place) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    _write(place, SETTINGS + 'retention = "30d"\n')
    with place.daemon() as daemon:
        assert _told(place)["changed"] == []
        with _frozen(daemon):
            _write(place, SETTINGS + 'retention = "2d"\n')
            status = place.call("status", "--json").object()
            assert status["retention_s"] == 30 * 86400
            assert _told(place)["changed"] == [str(place.directory / "runward.toml")]
            page = place.call("status").out
            assert "runward.toml changed after the daemon read it" in page
            assert "all is well" not in page
        assert place.call("daemon", "reload").out == "the settings are in force\n"
        assert place.call("status", "--json").object()["retention_s"] == 2 * 86400
        assert "all is well" in place.call("status").out


@pytest.mark.longest
def test_a_valid_change_is_applied_by_itself_and_the_log_says_which_keys_it_changed(place: Place) -> None:
    _write(place, SETTINGS + 'retention = "30d"\n')
    with place.daemon():
        _told(place)
        _write(place, SETTINGS + 'retention = "2d"\n[watch]\nstep = 3\n')
        _in_force(place, "retention_s", 2 * 86400, reloads=1)
        (line,) = _lines(place, "reloaded")
        assert (line["changed"], line["files"]) == (
            ["retention", "watch.step"],
            [str(place.directory / "runward.toml")],
        )
        (place.directory / "runward.toml.d").mkdir()
        (place.directory / "runward.toml.d/more.toml").write_text('retention = "3d"\n')
        _in_force(place, "retention_s", 3 * 86400, reloads=2)
        (place.directory / "runward.toml.d/more.toml").unlink()
        _in_force(place, "retention_s", 2 * 86400, reloads=3)


@pytest.mark.longest
def test_a_first_settings_file_is_shown_and_applied_by_itself(place: Place) -> None:
    (place.directory / "runward.toml").unlink()
    place.environment["RUNWARD_STATE_DIR"] = str(place.state)
    (place.directory / ".config/runward").mkdir(parents=True)
    with place.daemon() as daemon:
        assert _told(place)["files"] == []
        for reloads, file, retention in (
            (1, place.directory / ".config/runward/runward.toml", 2),
            (2, place.directory / "runward.toml", 3),
        ):
            with _frozen(daemon):
                file.write_text(f'retention = "{retention}d"\n')
                assert _told(place)["changed"] == [str(file)]
                assert f"{file} changed after the daemon read it" in " ".join(
                    place.call("status").out.split()
                )
            _in_force(place, "retention_s", retention * 86400, reloads=reloads)
            assert (_told(place)["changed"], _told(place)["files"]) == ([], [str(file)])


def test_a_new_drop_in_is_a_change(place: Place) -> None:
    with place.daemon() as daemon:
        _told(place)
        with _frozen(daemon):
            (place.directory / "runward.toml.d").mkdir()
            (place.directory / "runward.toml.d/more.toml").write_text("batch = 7\n")
            assert _told(place)["changed"] == [str(place.directory / "runward.toml.d/more.toml")]


@pytest.mark.longest
def test_an_invalid_change_is_shown_until_the_file_is_repaired(place: Place) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with place.daemon():
        _told(place)
        _write(place, SETTINGS + 'batch = "many"\n')
        wait_for(lambda: _lines(place, "settings.refused"), "a refusal that nobody asked for, in the log")
        wait_for(lambda: _told(place)["refused"] or None, "the refusal in the status")
        page = place.call("status").out
        assert "new settings were refused, the old ones are in force" in page
        assert "runward.toml:4:" in page
        screen = Everyday(place.directory)
        screen.now = time.time()
        for command in ((), ("status",)):
            drawn = draw(screen, (80, 24), *command)
            assert "Runward" in drawn.lines[0], "the answer is in the first line"
            assert drawn.text.count("~/runward.toml:4:") == 1
        _write(place, SETTINGS + "batch = 9\n")
        wait_for(lambda: _lines(place, "reloaded"), "the repaired file in the log")
        wait_for(lambda: "all is well" in place.call("status").out or None, "the repaired file")


def test_a_reload_that_was_refused_is_told_until_one_is_taken(place: Place) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with place.daemon():
        _told(place)
        _write(place, SETTINGS + 'batch = "many"\n')
        refused = place.call("daemon", "reload")
        assert refused.code == 1
        assert "runward.toml:4:" in refused.err
        assert "the settings were refused; the previous ones stay in force" in refused.err
        page = place.call("status")
        assert page.code == 0
        assert "new settings were refused, the old ones are in force" in page.out
        _write(place, SETTINGS + "batch = 9\n")
        assert place.call("daemon", "reload").code == 0
        assert "all is well" in place.call("status").out


def test_settings_that_need_a_restart_are_named_by_status_and_doctor(place: Place) -> None:
    with place.daemon():
        _told(place)
        _write(place, SETTINGS + '[http]\nlisten = "unix:s"\n')
        wait_for(lambda: _told(place)["refused"] or None, "a refusal")
        said = "http.listen can't change while the daemon runs (restart it)"
        assert said in " ".join(place.call("status").out.split())
        checks = place.call("doctor", "--only", "settings", "--json").items("checks")
        assert f"the running daemon uses older settings: {said}" in [each["found"] for each in checks]
        (line,) = wait_for(lambda: _lines(place, "settings.refused") or None, "a line of the log")
        assert line["problems"] == [said]


@pytest.mark.parametrize("broken", ['state_dir = "state"\n[[roots\n', 'state_dir = "state"\nbatch = -1\n'])
def test_commands_go_by_the_daemon_s_settings_where_the_file_is_broken(place: Place, broken: str) -> None:
    place.add_run("one", exit_code=0)
    with place.daemon():
        _told(place)
        wait_for(lambda: len(place.call("session", "list", "--json").objects()) == 1 or None, "a session")
        _write(place, broken)
        for arguments in (
            ("status",),
            ("session", "list"),
            ("session", "show", "one"),
            ("log",),
            ("why", "one"),
            ("queue",),
            ("root", "list"),
        ):
            told = place.call(*arguments)
            assert (arguments, told.code) == (arguments, 0)
            assert "the settings are invalid, so this command uses those of the daemon" in told.err
            assert "runward.toml:2" in told.err
        assert place.call("config", "show").code == 78
        assert place.call("daemon", "--check").code == 78
    assert place.call("status").code == 78


def test_stop_ends_the_daemon_and_says_so(place: Place) -> None:
    with place.daemon() as daemon:
        told = place.call("daemon", "stop")
        assert (told.code, told.out) == (0, f"daemon {daemon.pid} has stopped\n")
        assert daemon.wait(10) == 0
    for word in ("stop", "reload"):
        assert place.call("daemon", word).code == 3


def test_stop_gives_up_where_the_daemon_does_not_answer(place: Place) -> None:
    with place.daemon() as daemon:
        os.kill(daemon.pid, signal.SIGSTOP)
        told: Result = place.call("daemon", "stop", "--timeout", "1s")
        os.kill(daemon.pid, signal.SIGCONT)
        assert told.code == 124
        assert f"daemon {daemon.pid} has been asked to end, but has not ended yet" in told.err


def test_status_counts_the_watches_that_the_daemon_holds(place: Place) -> None:
    place.runs.mkdir(parents=True)

    def watched() -> int:
        coverage = place.call("status", "--json").object()["coverage"]
        assert isinstance(coverage, dict)
        count = coverage["watched"]
        assert isinstance(count, int)
        return count

    with place.daemon():
        before = watched()
        for number in range(30):
            (place.runs / f"run-{number}").mkdir()
        wait_for(lambda: watched() >= before + 30 or None, "a watch for each new directory")


def test_settings_survive_their_json(tmp_path: Path) -> None:
    text = (
        'state_dir = "s"\nretention = "never"\n[[roots]]\npath = "r"\nignore = ["x*"]\n'
        '[[roots]]\nname = "c"\npath = "c"\nlayout = "codex"\nstale_after = "2h"\n'
        '[[contracts]]\nmatch = { layout = "codex", cwd = "/a/**" }\nplaybook = "p"\n'
    )
    source = Source(str(tmp_path / "f.toml"), text, str(tmp_path))
    settings = read_settings([source], {}, home="/h", working_directory="/w").value
    assert settings is not None
    again = settings_from_json(settings_to_json(settings))
    assert again is not None
    assert settings_to_json(again) == settings_to_json(settings)
    assert _plain(again) == _plain(settings)
    assert settings_from_json({"state_dir": "s"}) is None
    assert settings_from_json(None) is None


def _plain(settings: Settings) -> Settings:
    """Without where all of it is written."""
    rules = tuple(rule._replace(named_at=settings.contracts[0].named_at) for rule in settings.contracts)
    return settings._replace(origin={}, contracts=rules)._replace(contracts=())


@pytest.fixture
def machines(recorded: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the machine's unit names its state: that of a place with records."""
    path = tmp_path / "run-state"
    path.write_text(f"{recorded.state}\n")
    monkeypatch.setattr(context, "MACHINES_STATE", str(path))
    return path


def test_who_has_no_state_sees_the_machines_and_is_told(machines: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    somebody = Place(home)
    listed = somebody.call("session", "list", "--json")
    assert "silent" in {each["session_id"] for each in listed.objects()}
    assert f"so this is the machine's: {machines.read_text().strip()}" in listed.err
    own = str(home / "mine")
    assert somebody.call("session", "list", "--json", RUNWARD_STATE_DIR=own).objects() == []
    (home / "runward.toml").write_text(f'state_dir = "{own}"\n')
    assert somebody.call("session", "list", "--json").objects() == []
    (home / "runward.toml").unlink()
    with somebody.daemon():
        shown = somebody.call("session", "list", "--json")
    assert (shown.objects(), shown.err) == ([], "")
    assert somebody.call("session", "list", "--json").objects() == [], "a state that is there is one's own"


@pytest.mark.parametrize("content", ["", "relative\n", "/a\n/b\n", "/\x1b[31m\n", None])
def test_what_names_no_state_is_passed_over(machines: Path, tmp_path: Path, content: str | None) -> None:
    machines.unlink()
    if content is None:
        os.mkfifo(machines)
    else:
        machines.write_text(content)
    somebody = Place(tmp_path)
    listed = somebody.call("session", "list", "--json")
    assert (listed.code, listed.objects()) == (0, [])
    assert "machine" not in listed.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_who_may_not_read_the_machines_state_is_told(machines: Path, tmp_path: Path) -> None:
    machines.write_text("/root/state\n")
    refused = Place(tmp_path).call("session", "list")
    assert refused.code == 75
    assert "belongs to root" in refused.err
