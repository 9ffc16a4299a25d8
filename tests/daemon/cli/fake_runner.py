"""A runner of GitHub Actions for tests: it starts a step, and obeys what the step prints and writes, by the runner's own rules.

The rules are those of `ActionCommand`, `ActionCommandManager` and `FileCommandManager` in actions/runner.
"""

import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import PATIENCE_S

KNOWN = frozenset(
    {
        "set-env", "set-output", "save-state", "add-mask", "add-path", "add-matcher", "remove-matcher",
        "warning", "error", "notice", "debug", "group", "endgroup", "echo", "stop-commands",
    }
)  # fmt: skip
"""The commands that a runner obeys."""

FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
_LARGEST_SUMMARY = 1 << 20


@dataclass(frozen=True, slots=True)
class Command:
    """A command that the runner obeyed."""

    name: str
    properties: Mapping[str, str]
    data: str


@dataclass(slots=True)
class Step:
    """What a step did to the runner."""

    code: int
    lines: list[str]
    """What was only shown."""
    commands: list[Command]
    errors_of_runner: list[str]
    outputs: Mapping[str, str]
    variables: Mapping[str, str]
    paths: Sequence[str]
    summary: str
    stderr: list[str]

    def errors(self) -> list[str]:
        """The texts of the errors that it shows."""
        return [each.data for each in self.commands if each.name == "error"]


@dataclass(slots=True)
class _Listening:
    """How the runner reads lines. It may have been told to stop until it sees a word."""

    lines: list[str] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    word: str | None = None

    def hear(self, line: str) -> None:
        known = KNOWN if self.word is None else KNOWN | {self.word}
        command = command_in(line, known)
        if command is None:
            self.lines.append(line)
        elif self.word is not None:
            if command.name.lower() == self.word.lower():
                self.word = None
            else:
                self.lines.append(line)
        elif command.name == "stop-commands":
            if not command.data or command.data in KNOWN:
                self.errors.append(f"the word {command.data!r} can't be used")
            else:
                self.word = command.data
        else:
            self.commands.append(command)


def command_in(line: str, known: frozenset[str] = KNOWN) -> Command | None:
    """The command in a line; None if it is only shown."""
    return _second_form(line, known) or _first_form(line, known)


def _second_form(line: str, known: frozenset[str]) -> Command | None:
    """`::name key=value,key=value::data`, at the beginning of a line."""
    line = line.lstrip()
    if not line.startswith("::") or "::" not in line[2:]:
        return None
    head, _, data = line[2:].partition("::")
    name, _, rest = head.partition(" ")
    if name not in known and name.lower() not in known:
        return None
    pairs = [each.split("=", 1) for each in rest.strip().split(",") if each]
    replaced = (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))
    return Command(
        name,
        {pair[0]: _replace(pair[1], replaced) for pair in pairs if len(pair) == 2 and all(pair)},
        _replace(data, (("%0D", "\r"), ("%0A", "\n"), ("%25", "%"))),
    )


def _first_form(line: str, known: frozenset[str]) -> Command | None:
    """`##[name key=value;key=value]data`, anywhere in a line."""
    _, mark, rest = line.partition("##[")
    head, end, data = rest.partition("]")
    if not mark or not end:
        return None
    name, _, properties = head.partition(" ")
    if name not in known and name.lower() not in known:
        return None
    replaced = (("%3B", ";"), ("%0D", "\r"), ("%0A", "\n"), ("%5D", "]"), ("%25", "%"))
    pairs = [each.split("=", 1) for each in properties.split(";") if each]
    return Command(
        name,
        {pair[0]: _replace(pair[1], replaced) for pair in pairs if len(pair) == 2 and all(pair)},
        _replace(data, replaced),
    )


def _replace(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for written, meant in pairs:
        text = text.replace(written, meant)
    return text


class FakeRunner:
    """It carries out steps in `directory`, each with files of its own for what the step tells it."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = dict(environment)

    def step(self, words: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> Step:
        """Carry out one step, and obey it."""
        files = {name: self.directory / f"{name.lower()}_{uuid.uuid4()}" for name in FILES}
        for file in files.values():
            file.touch()
        named = {name: str(file) for name, file in files.items()}
        ended = self._ended(words, cwd, {**named, **(environment or {})})
        # A runner reads each stream by itself, so what was written to two of them has no order. This is the worst.
        listening, stderr = _Listening(), _lines(ended.stderr)
        for line in (*_lines(ended.stdout), *stderr):
            listening.hear(line)
        said = {name: file.read_text() if file.is_file() else "" for name, file in files.items()}
        return _obeyed(ended.returncode, listening, stderr, said)

    def printed(self, words: Sequence[str], cwd: Path) -> str:
        """What a step prints on stdout."""
        return self._ended(words, cwd, {}).stdout.decode()

    def _ended(
        self, words: Sequence[str], cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            words,
            cwd=cwd,
            env={**self.environment, "GITHUB_ACTIONS": "true", "CI": "true", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )


def _lines(content: bytes) -> list[str]:
    """The lines as .NET's StreamReader has them: ended by CR, LF or both."""
    text = content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n").split("\n") if text else []


def _obeyed(code: int, listening: _Listening, stderr: list[str], files: Mapping[str, str]) -> Step:
    errors = list(listening.errors)
    values = []
    for name in ("GITHUB_OUTPUT", "GITHUB_ENV"):
        try:
            values.append(key_values(files[name]))
        except ValueError as error:
            errors.append(f"{name}: {error}")
            values.append({})
    if len(files["GITHUB_STEP_SUMMARY"].encode()) > _LARGEST_SUMMARY:
        errors.append("the summary is too large")
    if listening.word is not None:
        errors.append("the step ended while the runner was told to stop")
    return Step(
        # A file that can't be read fails the step.
        code=code or int(bool(errors)),
        lines=listening.lines,
        commands=listening.commands,
        errors_of_runner=errors,
        outputs=values[0],
        variables=values[1],
        paths=[line for line in files["GITHUB_PATH"].split("\n") if line],
        summary=files["GITHUB_STEP_SUMMARY"],
        stderr=stderr,
    )


def key_values(text: str) -> dict[str, str]:
    """`NAME=VALUE`, and values of several lines between a word: `NAME<<WORD`, the lines, `WORD`. Raises `ValueError`."""
    values: dict[str, str] = {}
    lines = iter(text.removesuffix("\n").split("\n"))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            name, _, value = line.partition("=")
        elif heredoc >= 0:
            name, _, word = line.partition("<<")
            if not name or not word:
                raise ValueError(f"{line!r} has no name or no word")
            inner = []
            for each in lines:
                if each == word:
                    break
                inner.append(each)
            else:
                raise ValueError(f"there is no {word!r}")
            value = "\n".join(inner)
        else:
            raise ValueError(f"{line!r} is no value")
        if not name:
            raise ValueError(f"{line!r} has no name")
        values[name] = value
    return values
