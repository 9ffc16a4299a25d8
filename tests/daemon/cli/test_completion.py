"""Shell completion: the scripts, and what they complete; ids come from the store, read-only."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

import click
import pytest
from tests.daemon.cli.calling import Place
from tests.preloaded import commands as preloaded
from tests.waiting import PATIENCE_S

from runward.daemon.cli.commands import runward


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_runward(place: Place, shell: str) -> None:
    told = place.call("completion", shell)
    assert told.code == 0
    assert f"_RUNWARD_COMPLETE={shell}_complete" in told.out


_IN_BASH = """
source <(runward completion bash)
COMP_WORDS=(runward "$@")
COMP_CWORD=$#
_runward_completion runward
printf '%s\\n' "${COMPREPLY[@]}"
"""
_IN_ZSH = """
compdef() { }
compadd() { print -l -- $completions }
_describe() { print -l -- $completions_with_descriptions }
source <(runward completion zsh)
words=(runward "$@")
CURRENT=$#words
_runward_completion
"""
_IN_FISH = """
runward completion fish | source
complete --do-complete "runward $argv"
"""


def _in_shell(place: Place, shell: str, *words: str) -> list[str]:
    """What this shell itself offers for the last of the words, once it has read the script."""
    commands = {
        "bash": ["bash", "--norc", "-c", _IN_BASH, "bash"],
        "zsh": ["zsh", "-f", "-c", _IN_ZSH, "zsh"],
        "fish": ["fish", "--no-config", "-c", _IN_FISH],
    }
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")
    programs = place.directory / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "runward").write_text(f'#!/bin/sh\nexec {shlex.join(preloaded.argv())} "$@"\n')
    (programs / "runward").chmod(0o755)
    told = subprocess.run(
        [*commands[shell], *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=place.directory,
        env={**place.environment, "PATH": f"{programs}:{place.environment['PATH']}", "TERM": "dumb"},
        check=False,
    )
    assert (told.returncode, told.stderr) == (0, "")
    return [re.split("[:\t]", line)[0] for line in told.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_itself_offers_commands_options_and_ids(recorded: Place, shell: str) -> None:
    assert _in_shell(recorded, shell, "session", "sh") == ["show"]
    assert _in_shell(recorded, shell, "log", "--le") == ["--level"]
    assert sorted(_in_shell(recorded, shell, "session", "show", "c")) == ["careless", "crashed"]


def test_another_shell_is_wrong_usage(place: Place) -> None:
    assert place.call("completion", "tcsh").code == 2


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("sess",), ["session"]),
        (("session", "sh"), ["show"]),
        (("session", "list", "--sta"), ["--status"]),
        (("session", "list", "--status", "f"), ["failed"]),
        (("session", "show", "c"), ["careless", "crashed"]),
        (("session", "tail", "native:runs/s"), ["native:runs/silent"]),
        (("why", "de"), ["delivered"]),
        (("log", "--session", "si"), ["silent"]),
        (("play", "check", "re"), ["review"]),
        (("contract", "verify", "--playbook", "p"), ["plain"]),
        (("run", "--play"), ["--playbook"]),
        (("run", "--playbook", "r"), ["review"]),
        (("run", "--agent", "r"), ["reviewer"]),
        (("run", "--containment", "sc"), ["scope"]),
        (("run", "--timeout", "30"), ["30s"]),
        (("session", "list", "--root", "r"), ["runs"]),
        (("session", "list", "--layout", "cla"), ["claude-code"]),
        (("session", "list", "--agent", "r"), ["reviewer"]),
        (("session", "list", "--since", "to"), ["today"]),
        (("inspect", ".", "--layout", "na"), ["native"]),
        (("log", "--event", "session"), ["session.finished"]),
        (("prune", "--older-than", "9"), ["90d"]),
        (("ctcp", "check", "--only", "a,"), [f"a,{letter}" for letter in "BCDEFGHIJ"]),
    ],
)
def test_commands_options_ids_and_names_are_completed(
    recorded: Place, words: tuple[str, ...], offered: list[str]
) -> None:
    assert recorded.completed(*words) == offered


_FREE = {
    *(
        "--reason",
        "--search",
        "--id",
        "--note",
        "--name",
        "--authorized-key",
        "--content",
        "--policy",
        "--interface",
    ),
    "--jq",
    "--moved",
    *("--label", "--access-contract", "--resource", "--disk", "--cpu", "--user", "--method", "--context"),
}
"""Options whose value is whatever somebody has to say."""

_IN_A_DATABASE = {
    ("session", "list", "--host"),
    ("artifact", "list", "--host"),
    ("chain", "approvals", "--host"),
    ("fleet", "resume", "--without"),
}
"""Options whose values only the fleet's database knows: a shell doesn't wait for a network."""


def test_the_value_of_every_option_is_completed() -> None:
    for path, command in _commands(runward, ()):
        for each in command.params:
            if not isinstance(each, click.Option) or each.is_flag or set(each.opts) & _FREE:
                continue
            if {(*path, name) for name in each.opts} & _IN_A_DATABASE:
                continue
            is_number = isinstance(
                each.type, click.types.IntParamType | click.types.IntRange | click.types.FloatParamType
            )
            has_words = type(each.type).shell_complete is not click.ParamType.shell_complete
            assert is_number or has_words or each._custom_shell_complete is not None, (*path, each.opts)


def _commands(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    yield path, group
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_an_id_that_a_shell_would_not_take_as_it_stands_is_not_offered(place: Place) -> None:
    for name in ("evil;sh", "evil$(sh)", "evil\x1b[31m", "evil\nls", "evil two", "evil-é"):
        place.add_run(name, exit_code=0)
    place.daemon_once()
    assert place.completed("session", "show", "evil") == ["evil-é"]


def test_open_jobs_are_completed(recorded: Place, place: Place) -> None:
    assert recorded.completed("queue", "retry", "") == []


def test_nothing_is_offered_and_nothing_said_where_nothing_can_be_read(place: Place) -> None:
    assert place.completed("session", "show", "") == []
    (place.directory / "runward.toml").write_text("batch = 'many'\n")
    assert place.completed("session", "show", "") == []


@pytest.mark.parametrize(
    "words",
    [
        ("session", "show"),
        ("queue", "retry"),
        ("chain", "run", "show"),
        ("chain", "approve"),
        ("invocation", "show"),
        ("artifact", "show"),
        ("show", "show"),
        ("notify", "retry"),
        ("exchange", "principal", "show"),
        ("exchange", "artifact", "list", "--type"),
    ],
)
def test_nothing_is_offered_and_nothing_said_where_the_store_is_no_store(
    place: Place, words: tuple[str, ...]
) -> None:
    place.state.mkdir()
    (place.state / "runward.db").write_bytes(b"no store" * 1000)
    assert place.completed(*words, "") == []


def test_completing_makes_no_state_directory(place: Place) -> None:
    place.completed("session", "show", "")
    assert not place.state.exists()
