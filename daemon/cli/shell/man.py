"""`runward man`: the manual page, made from the same source as `--help`."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from inspect import cleandoc

import click

from runward.daemon import __version__
from runward.daemon.cli.exits import MEANINGS
from runward.daemon.cli.run_launch import USAGE
from runward.daemon.configuration.settings import SYSTEM_FILE

_Pairs = Iterable[tuple[str, str]]


@click.command()
@click.pass_context
def man(context: click.Context) -> None:
    """Show the manual page on a terminal, or else print its source.

    After an installation with pipx, man(1) finds the page; after one with uv, it doesn't.

    \b
    Example:
      runward man
      runward man > runward.1
    """
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    page = "\n".join(_page(root.command, root))
    if not (sys.stdout.isatty() and _was_shown(page)):
        click.echo(page)


def _was_shown(page: str) -> bool:
    """Whether man(1) is there and showed the page."""
    program = shutil.which("man")
    if program is None:
        return False
    return subprocess.run([program, "-l", "-"], input=page, text=True, check=False).returncode == 0


def _page(root: click.Group, context: click.Context) -> Iterator[str]:
    yield f'.TH RUNWARD 1 "" "Runward {__version__}" "User Commands"'
    first, *others = _paragraphs(root.help or "")
    yield from _section("NAME", [f"runward \\- {_escaped(first.removeprefix('Runward ').rstrip('.'))}"])
    yield from _section("SYNOPSIS", [f".B runward\n{_escaped(' '.join(root.collect_usage_pieces(context)))}"])
    yield from _section("DESCRIPTION", [_filled(first), *map(_paragraph, others)])
    yield from _section("OPTIONS", _listed([*_options(root, context), ("-h, --help", "Of every command.")]))
    yield from _section("COMMANDS", [])
    for path, command in _leaves(root, ("runward",)):
        yield from _command(path, command)
    yield from _section("EXIT STATUS", _listed((str(code), text) for code, text in MEANINGS.items()))
    yield from _section("FILES", _listed(_FILES))
    see = ["systemctl (1)", "journalctl (1)", "systemd.time (7)"]
    yield from _section("SEE ALSO", [f".BR {word}{',' if word != see[-1] else ''}" for word in see])


_FILES: _Pairs = (
    (
        "./runward.toml, $XDG_CONFIG_HOME/runward/runward.toml, " + SYSTEM_FILE,
        "The settings; the first that exists.",
    ),
    ("FILE.d/*.toml", "Their drop-ins, in the order of their names."),
    ("~/.local/state/runward", "The state directory: the store, native runs, the log."),
)


def _leaves(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not (isinstance(command, click.Group) and not command.params):
            yield (*path, name), command  # a group with options is also a command
        if isinstance(command, click.Group):
            yield from _leaves(command, (*path, name))


def _command(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    name = " ".join(path)
    context = click.Context(command, info_name=name)
    help_text, options = command.help or "", _options(command, context)
    usage = " ".join(command.collect_usage_pieces(context))
    if path == ("runward", "run"):
        usage, help_text, options = _parts_of_run()
    yield f'.SS "{_escaped(name)} {_escaped(usage)}"'
    yield from map(_paragraph, _paragraphs(help_text))
    yield from _listed(options)


def _parts_of_run() -> tuple[str, str, _Pairs]:
    """The launcher's usage, help and options, whose text is its own."""
    head, _, rest = USAGE.partition("\nOptions:\n")
    options, _, end = rest.partition("\n\n")
    usage, _, text = head.partition("\n")
    pairs = re.findall(r"^  (--\S+(?: \S+)?)\s{2,}(.+)$", options, re.MULTILINE)
    documented = [(word, meaning) for word, meaning in pairs if word != "--help"]
    return usage.removeprefix("Usage: runward run "), f"{text}\n\n{end}", documented


def _options(command: click.Command, context: click.Context) -> _Pairs:
    records = (each.get_help_record(context) for each in command.get_params(context))
    return [record for record in records if record is not None and record[1] and "--help" not in record[0]]


def _paragraphs(text: str) -> list[str]:
    return [each for each in re.split(r"\n\s*\n", cleandoc(text)) if each.strip()]


def _paragraph(text: str) -> str:
    """A paragraph; one that click is told to leave as it is (`\\b`), and an example, keep their lines."""
    if not text.startswith(("\b\n", "Example:")):
        return f".PP\n{_filled(text)}"
    lines = "\n".join(map(_escaped, text.removeprefix("\b\n").splitlines()))
    return f".PP\n.nf\n{lines}\n.fi"


def _filled(text: str) -> str:
    return _escaped(" ".join(text.split()))


def _listed(pairs: _Pairs) -> Iterator[str]:
    for word, text in pairs:
        yield f".TP\n.B {_escaped(word)}\n{_filled(text)}"


def _section(title: str, parts: Iterable[str]) -> Iterator[str]:
    yield f".SH {title}"
    yield from parts


def _escaped(text: str) -> str:
    """Text as roff shows it: nothing in it is a command, and a hyphen is one that can be copied."""
    text = (
        text.replace("\\", "\\e")
        .replace("-", "\\-")
        .replace('"', "\\(dq")
        .replace("~", "\\(ti")
        .replace("^", "\\(ha")
    )
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)
