"""Playbooks: `NAME.playbook.yaml`, what to run and what it must leave behind (ADR-0029).

A playbook may belong to other tools too: keys that Runward doesn't know cause a warning, not a refusal.
"""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

from runward.config.contract import ExpectedArtifact, declaration_schema, declared_artifacts
from runward.config.document import PLAYBOOK_SUFFIX, Document, name_from_file
from runward.config.duration import DURATION_FIX, DURATION_PATTERN, DurationError, parse_duration
from runward.config.json_value import JsonValue
from runward.config.keys import Key, known_keys, optional, read_keys, shared_table_schema, text
from runward.config.problem import (
    Complaint,
    Location,
    Parsed,
    extra_key,
    nearest,
    quoted,
    wrong_kind,
)
from runward.config.shape import Complain
from runward.config.template import TemplateError, names_used, parse_template

FOREIGN_KEYS: Final = ("model", "prompt", "description")
"""Keys of ADR-0029's playbooks and of the tools that share them: those tools read them, they are ignored here."""

_TEXT: Final[Mapping[str, JsonValue]] = {"type": "string"}
_DURATION: Final[Mapping[str, JsonValue]] = {
    "type": "string",
    "pattern": DURATION_PATTERN,
    "examples": ["30s", "5min", "1h30m", "2d"],
}


def _name(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    name = text(value, loc, complain)
    if name is not None and (not name or "/" in name or "\0" in name):
        complain(Complaint(loc, "is not a name", "write a name without '/'"))
    return name


def _command(value: JsonValue, loc: Location, complain: Complain) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        complain(wrong_kind(loc, value, "a list", "make it a list"))
        return None
    words = tuple(_word(each, (*loc, index), complain) for index, each in enumerate(value))
    valid = tuple(word for word in words if word is not None)
    if len(valid) == len(words) and (not valid or not valid[0]):
        fix = 'write the program and its arguments: ["python3", "review.py"]'
        complain(Complaint(loc, "names no program", fix))
    return valid


def _word(value: JsonValue, loc: Location, complain: Complain) -> str | None:
    if not isinstance(value, str):
        complain(wrong_kind(loc, value, "a text", "put it in quotes"))
        return None
    try:
        parse_template(value)
    except TemplateError as error:
        complain(Complaint(loc, str(error), error.fix))
        return None
    if "\0" in value:
        complain(Complaint(loc, "has a NUL character in it", "remove it"))
        return None
    return value


def _duration(value: JsonValue, loc: Location, complain: Complain) -> float | None:
    if value is None:
        return None
    if not isinstance(value, str):
        complain(Complaint(loc, "must be a duration", DURATION_FIX))
        return None
    try:
        return parse_duration(value)
    except DurationError as error:
        complain(Complaint(loc, str(error), error.fix))
        return None


class Playbook(NamedTuple):
    """A playbook: a command, and the artifacts that its runs must leave behind.

    Durations are seconds; None means that the playbook says nothing about it. `command` still holds its templates
    (`{{ with.pr }}`), which `fill_command` fills in. `artifacts` is what its contract adds to the agent's defaults: None
    if nothing is declared, empty if the declaration lists nothing. `document` is the text that it was read from, so that
    complaints can name their places.
    """

    name: Annotated[
        str,
        optional(
            "Name", _TEXT, "The playbook's name. Default: the file's name without .playbook.yaml.", _name
        ),
    ]
    command: Annotated[
        tuple[str, ...] | None,
        optional(
            "Command",
            {"type": "array", "items": _TEXT},
            "The program and its arguments, one text each, started without a shell. "
            "'{{ with.KEY }}' is replaced by a value given to 'runward play run'.",
            _command,
        ),
    ] = None
    timeout: Annotated[
        float | None,
        optional(
            "Timeout",
            _DURATION,
            "The longest time that the command may run, as in 30m; then its whole process tree is killed.",
            _duration,
        ),
    ] = None
    grace: Annotated[
        float | None,
        optional(
            "Grace",
            _DURATION,
            "The time between SIGTERM and SIGKILL at the timeout, as in 5s. Default: 5s.",
            _duration,
        ),
    ] = None
    agent: Annotated[
        str | None,
        optional(
            "Agent", _TEXT, "The agent profile whose artifact_defaults the contract starts from.", _name
        ),
    ] = None
    artifacts: Annotated[
        tuple[ExpectedArtifact, ...] | None,
        Key(
            {
                **declaration_schema(),
                "default": None,
                "description": "What a run must leave behind. Without this, nothing is verified.",
            }
        ),
    ] = None
    document: Document | None = None

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the values that its command must be given."""
        return names_used([parse_template(word) for word in self.command or ()])


def playbook_schema() -> dict[str, JsonValue]:
    """What a playbook may look like, as JSON Schema."""
    return shared_table_schema(Playbook, "Runward playbook")


def read_playbook(text: str, name: str) -> Parsed[Playbook]:
    """The playbook in `text`, which came from file `name` (any path), or everything that is wrong with it."""
    from runward.config.yaml_document import read_yaml  # yaml is imported only for a file

    parsed = read_yaml(text, name)
    if parsed.value is None:
        return Parsed(None, parsed.problems)
    complaints: list[Complaint] = []
    return parsed.value.parsed(_playbook(parsed.value, complaints), complaints)


def _playbook(document: Document, complaints: list[Complaint]) -> Playbook | None:
    root = document.root
    if not isinstance(root, dict):
        fix = "write at least 'command:' or 'artifacts:'"
        complaints.append(Complaint((), "a playbook must be a table of keys", fix))
        return None
    artifacts = declared_artifacts(root.get("artifacts"), ("artifacts",), complaints)
    known = known_keys(Playbook)
    complaints += [extra_key((key,), known) for key in root if key not in known and key not in FOREIGN_KEYS]
    before = len(complaints)
    read = read_keys(Playbook, root, (), complaints.append)
    if len(complaints) > before:
        return None
    by_file = name_from_file(document.name, (PLAYBOOK_SUFFIX, ".yaml", ".yml"))
    name = read.setdefault("name", by_file)
    if name != by_file:
        message = f"{quoted(name)} differs from the file's name, by which it is found"
        fix = f"write {quoted(by_file)} or rename the file"
        complaints.append(Complaint(("name",), message, fix, "warning"))
    return Playbook(**read, artifacts=artifacts, document=document)


def fill_command(playbook: Playbook, given: Mapping[str, JsonValue]) -> Parsed[tuple[str, ...]]:
    """The playbook's command with the given values in it, or everything that is wrong with the combination."""
    complaints: list[Complaint] = []
    words: list[str] = []
    for index, word in enumerate(playbook.command or ()):
        try:
            words.append(parse_template(word).fill(given))
        except TemplateError as error:
            complaints.append(Complaint(("command", index), str(error), error.fix))
    if playbook.command is None:
        fix = 'write the program and its arguments: command: ["python3", "review.py"]'
        complaints.append(Complaint((), "has no 'command', so nothing can be started", fix))
    else:
        # A value that nothing uses was meant to do something.
        complaints += [_unused(name, playbook.takes) for name in given if name not in playbook.takes]
    if not complaints and not words[0]:
        complaints.append(Complaint(("command", 0), "names no program", "give it a value that isn't empty"))
    document = playbook.document or Document(playbook.name, None, {})
    return document.parsed(tuple(words), complaints)


def _unused(name: str, known: tuple[str, ...]) -> Complaint:
    guess = nearest(name, known)
    takes = f"it takes {', '.join(known)}" if known else "it takes none"
    fix = f"did you mean {guess!r}?" if guess else takes
    return Complaint(("command",), f"uses no value named {quoted(name)}", fix)
