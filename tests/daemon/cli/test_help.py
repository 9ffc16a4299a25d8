"""Every command has help with an example, and `docs/commands.md` names every command and option."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.daemon.cli.calling import Place
from tests.handlers.bundle.bundles import bundle
from tests.preloaded import commands as preloaded
from tests.preloaded import reaching
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.cli.commands import COMMANDS, runward
from runward.daemon.cli.exits import MEANINGS
from runward.daemon.cli.run_launch import USAGE

_PAGE = Path(__file__).parents[3] / "docs/commands.md"
_WITHOUT_JSON = {
    "run",
    "daemon",
    "completion",
    "man",
    "hook",
    "help",
    "mcp",
    "studio",
    "top",
    "metrics",
    "fleet",
}
"""Commands that print no data of their own, and one whose text is for another program."""
_FOR_TERMINALS = {("top",)}
"""Refused here; `test_top.py` has them on a terminal."""

_ON_A_DATABASE = {
    ("fleet", "init"),
    ("fleet", "invite"),
    ("fleet", "join"),
    ("fleet", "hosts"),
    ("fleet", "orders"),
    ("fleet", "remove"),
    ("fleet", "verify"),
    ("fleet", "upgrade"),
    ("fleet", "resume"),
    ("fleet", "order", "give-up"),
}
"""Their examples need a PostgreSQL server: `tests/daemon/fleet` has one."""

_LIKE_A_DAEMON = {("chain", "check")}
_WITH_JSON = {
    ("fleet", "hosts"),
    ("fleet", "orders"),
    ("fleet", "verify"),
    ("daemon", "install"),
    ("daemon", "uninstall"),
    ("hook", "status"),
}
_SILENT = {("claude-code",), ("codex",)}
"""The hooks that agents call."""


def _walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _walk(inner, (*path, name))


_ALL = dict(_walk(runward, ()))
_LEAVES = {
    path: command
    for path, command in _ALL.items()
    if not isinstance(command, click.Group) or path == ("daemon",)  # which does something by itself, too
}
_SECTIONS = {
    tuple(title.split()): text
    for title, text in re.findall(
        r"^## `runward ([^`]+)`\n(.*?)(?=^## |\Z)", _PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
}


def _options(path: tuple[str, ...]) -> set[str]:
    """The long names of a command's options."""
    if path == ("run",):
        return set(re.findall(r"^  (--[a-z-]+)", USAGE, re.MULTILINE)) - {"--help", "--config"}
    return {
        name
        for parameter in _LEAVES[path].params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
        if name.startswith("--")
    }


def test_every_command_of_the_table_is_a_command_of_its_name() -> None:
    assert [path[0] for path in _ALL if len(path) == 1] == list(COMMANDS)


def test_help_is_shown_and_has_an_example(place: Place) -> None:
    for path in _ALL:
        shown = place.call(*path, "--help")
        assert (shown.code, shown.err) == (0, ""), path
        assert "Example:" in shown.out, path
        assert f"runward {' '.join(path)}".strip() in shown.out, path


def test_the_examples_of_the_help_are_right_usage() -> None:
    examples: list[str] = []
    for path, documented in _ALL.items():
        text = USAGE if path == ("run",) else documented.help or ""
        of_this = re.findall(r"^ *(?:Example: )?(?:source <\()?runward ([^&|>)\n]+)", text, re.MULTILINE)
        assert of_this, path
        examples += of_this
    for example in examples:
        words = shlex.split(example)
        command: click.Command = runward
        name: list[str] = []
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name.append(words.pop(0))
            found = command.get_command(click.Context(command), name[-1])
            assert found is not None, example
            command = found
        command.make_context(" ".join(name), words)


def test_every_option_is_explained() -> None:
    options = [
        (path, parameter)
        for path, command in _LEAVES.items()
        for parameter in command.params
        if isinstance(parameter, click.Option)
    ]
    assert options
    assert [(path, option.name) for path, option in options if not option.help] == []


def test_whatever_prints_data_has_json() -> None:
    assert {path for path in _LEAVES if "--json" in _options(path)} == {
        path
        for path in _LEAVES
        if path in _WITH_JSON or (path[0] not in _WITHOUT_JSON and path not in _LIKE_A_DAEMON)
    }


def test_the_page_has_a_section_for_each_command_and_for_nothing_else() -> None:
    assert sorted(_SECTIONS) == sorted(_LEAVES)


def test_the_page_names_every_option_and_none_that_there_is_not() -> None:
    """Options that say how a list or JSON is printed are explained once, in the rules for all commands."""
    rules = re.findall(r"^\| (?:lists|`--jq EXPR`) \|.*$", _PAGE.read_text(), re.MULTILINE)
    of_all = {name for rule in rules for name in re.findall(r"--[a-z][a-z-]*", rule)}
    assert of_all == {"--jq", "--json", "--wide", "--columns", "--watch", "--no-pager"}
    for path in _LEAVES:
        text = _SECTIONS[path].replace(" --quiet", " `--quiet`")
        if path[0] != "run":
            text = re.sub(
                r"^runward run .*$", "", text, flags=re.MULTILINE
            )  # a run that the example is about
        named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", text))
        assert _options(path) - of_all <= named, path
        assert named <= _options(path) | {"--json", "--config"}, path


def test_the_page_has_the_table_of_exit_codes() -> None:
    before_the_commands = _PAGE.read_text().partition("## `runward ")[0]
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", before_the_commands, re.MULTILINE))
    assert rows == {str(code): meaning for code, meaning in MEANINGS.items()}


_GIVEN_UP = (
    "insert into notices (id, kind, subject, recipient, title, text, created_at, state, next_at, since, settled_at)"
    " values ('no_1', 'chain.aborted', 'cr_1', 'gone', 'title', 'text', 1, 'dead', 1, 1, 2)"
)


_EXCHANGED = (
    ("principal", "create", "writer", "--scrip", "50"),
    ("principal", "create", "reader", "--scrip", "50"),
    *(("artifact", "write", name, "--as", "writer", "--content", "text") for name in ("note", "old", "gift")),
    ("token", "create", "--as", "writer"),
)


_TESTS = Path(__file__).parents[3]
_REACHED = "reached"
"""The file with each attempt to reach for the network."""


def _reached(place: Place) -> str:
    file = place.directory / _REACHED
    return file.read_text() if file.exists() else ""


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with a running daemon, a delivered directory `out`, a bundle in `bundle`, two held jobs, a playbook `greet` with a command, a chain,
    somebody to tell, a notice that was given up, two principals with artifacts, and `runward` on the PATH.
    """
    place = Place(tmp_path_factory.mktemp("lived_in"))
    place.furnish()
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    greet = 'command: [echo, "hello {{ with.name }}"]\n'
    (place.directory / "playbooks/greet.playbook.yaml").write_text(greet)
    (place.directory / "chains").mkdir()
    after = "name: after-review\ntrigger: {event: review.asked}\nsteps:\n  - {id: review, skill: review}\n"
    (place.directory / "chains/after-review.yaml").write_text(after)
    release = "name: release\ntrigger: {manual: true}\nsteps:\n  - {skill: review, requires_approval: true}\n"
    (place.directory / "chains/release.yaml").write_text(release)
    (place.directory / "out").mkdir()
    for name in ("review.md", "report.md"):
        (place.directory / "out" / name).write_text("text")
    # The examples act on the newest session, and compare these two.
    for name in ("one", "two"):
        run = place.add_run(name, exit_code=0)
        (run / "trace.jsonl").write_text('{"event": "ToolCall", "id": "c1", "tool": "Bash", "params": {}}\n')
    place.add_run("newest", exit_code=0, started_at="2026-01-02T03:10:00Z")
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write('\n[[notify]]\non = ["chain.aborted"]\ncommand = ["true"]\n')
    place.daemon_once()
    place.change_store(_GIVEN_UP)
    (place.directory / "bundle").mkdir()
    for name, content in bundle(1).parts().items():
        (place.directory / "bundle" / name).write_bytes(content)
    (place.directory / "bin").mkdir()
    program = place.directory / "bin/runward"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(preloaded.argv())} "$@"\n')
    program.chmod(0o700)
    place.environment["PATH"] = f"{place.directory}/bin:{place.environment['PATH']}"
    place.environment[reaching.VARIABLE] = str(place.directory / _REACHED)
    place.environment["PYTHONPATH"] = f"{reaching.SITE}:{_TESTS}:{place.environment['PYTHONPATH']}"
    with place.daemon():
        for words in _EXCHANGED:
            assert place.call("exchange", *words).code == 0, words
        yield place


@pytest.mark.parametrize("path", [each for each in _LEAVES if each not in _ON_A_DATABASE], ids=" ".join)
def test_the_examples_of_the_page_run_and_reach_for_no_network(
    lived_in: Place, path: tuple[str, ...]
) -> None:
    place = lived_in
    (block,) = re.findall(r"^```sh\n(.*?)^```$", _SECTIONS[path], re.MULTILINE | re.DOTALL)
    place.change_store(
        "update jobs set state = 'held', error = 'busy' where handler = 'sessions/ended' and state = 'done'"
    )
    ran = subprocess.run(
        ["bash", "-e", "-c", block],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=place.directory,
        env=place.environment,
        check=False,
    )
    assert _reached(place) == "", "neither does the daemon, nor what both start"
    if path in _FOR_TERMINALS:
        assert (ran.returncode, ran.stdout) == (2, ""), ran.stdout
        assert "it needs a terminal" in ran.stderr
        return
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (
        ran.stdout
        or path[0] in ("run", "daemon", "completion", "mcp", "studio")
        or path[1:] in _SILENT
        or path in _LIKE_A_DAEMON
    )
    if path[0] in ("chain", "event"):
        running = ("chain", "runs", "--status", "running", "--json")
        wait_for(lambda: place.call(*running).objects() == [], "the end of its chain runs")


_REACHES = """\
import socket, sys
address = ("127.0.0.1", 9)
with socket.socket(type=socket.SOCK_DGRAM) as ours:
    ours.sendto(b"one", address)
    ours.connect(address)
try:
    socket.getaddrinfo("runward.invalid", 80)
except OSError:
    pass
"""


def test_whoever_reaches_for_the_network_is_noted(lived_in: Place) -> None:
    elsewhere = str(lived_in.directory / "reached by a test")
    program = (sys.executable, "-P", "-c", _REACHES)
    environment = lived_in.environment | {reaching.VARIABLE: elsewhere}
    subprocess.run(program, env=environment, check=True)
    noted = [line.split(" by ")[0] for line in Path(elsewhere).read_text().splitlines()]
    to = "('127.0.0.1', 9)"
    assert noted == [f"socket.sendto {to}", f"socket.connect {to}", "socket.getaddrinfo runward.invalid"]
    webhook = '\n[[notify]]\non = ["chain.aborted"]\nwebhook = "http://127.0.0.1:9/"\n'
    settings = lived_in.directory / "reaching.toml"
    settings.write_text((lived_in.directory / "runward.toml").read_text() + webhook)
    sent = subprocess.run(
        preloaded.argv("notify", "test", "--config", str(settings)),
        env=environment,
        cwd=lived_in.directory,
        capture_output=True,
        check=False,
    )
    assert sent.returncode != 0
    assert len(Path(elsewhere).read_text().splitlines()) > len(noted), "a notice is what a person asked for"


@pytest.mark.parametrize("command", [("schema",), ("completion",)])
def test_a_missing_argument_is_said_in_one_line_with_the_choices(
    place: Place, command: tuple[str, ...]
) -> None:
    refused = place.call(*command)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "Choose from: " in refused.err
    assert "\\" not in refused.err
