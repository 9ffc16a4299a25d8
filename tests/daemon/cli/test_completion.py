"""Shell completion: the scripts, and what they complete; ids come from the store, read-only."""

import subprocess

import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S


def _completed(place: Place, *words: str) -> list[str]:
    """What the shell is offered for the last of the words."""
    told = place.call(
        _RUNWARD_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(("runward", *words)),
        COMP_CWORD=str(len(words)),
    )
    assert (told.code, told.err) == (0, "")
    return [line.split(",", 1)[1] for line in told.out.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_runward(place: Place, shell: str) -> None:
    told = place.call("completion", shell)
    assert told.code == 0
    assert f"_RUNWARD_COMPLETE={shell}_complete" in told.out


def test_the_script_is_right_for_bash(place: Place) -> None:
    script = place.call("completion", "bash").out
    checked = subprocess.run(["bash", "-n"], input=script, text=True, timeout=PATIENCE_S, check=False)
    assert checked.returncode == 0


def test_another_shell_is_wrong_usage(place: Place) -> None:
    assert place.call("completion", "tcsh").code == 2


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("sess",), ["session"]),
        (("session", "s"), ["show"]),
        (("session", "list", "--st"), ["--status"]),
        (("session", "list", "--status", "f"), ["failed"]),
        (("session", "show", "c"), ["careless", "crashed"]),
        (("session", "tail", "native:runs/s"), ["native:runs/silent"]),
        (("why", "de"), ["delivered"]),
        (("log", "--session", "si"), ["silent"]),
        (("play", "check", "re"), ["review"]),
        (("contract", "verify", "--playbook", "p"), ["plain"]),
        (("run", "--play"), ["--playbook"]),
        (("run", "--playbook", "r"), ["review"]),
    ],
)
def test_commands_options_ids_and_names_are_completed(
    recorded: Place, words: tuple[str, ...], offered: list[str]
) -> None:
    assert _completed(recorded, *words) == offered


def test_an_id_that_a_shell_would_not_take_as_it_stands_is_not_offered(place: Place) -> None:
    for name in ("evil;sh", "evil$(sh)", "evil\x1b[31m", "evil\nls", "evil two", "evil-é"):
        place.add_run(name, exit_code=0)
    place.daemon_once()
    assert _completed(place, "session", "show", "evil") == ["evil-é"]


def test_open_jobs_are_completed(recorded: Place, place: Place) -> None:
    assert _completed(recorded, "queue", "retry", "") == []


def test_nothing_is_offered_and_nothing_said_where_nothing_can_be_read(place: Place) -> None:
    assert _completed(place, "session", "show", "") == []
    (place.directory / "runward.toml").write_text("batch = 'many'\n")
    assert _completed(place, "session", "show", "") == []


def test_completing_makes_no_state_directory(place: Place) -> None:
    _completed(place, "session", "show", "")
    assert not place.state.exists()
