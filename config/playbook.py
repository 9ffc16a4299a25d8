"""Playbooks: `NAME.playbook.yaml`, what to run and what it must leave behind (ADR-0029).

A playbook may belong to other tools too: keys that Runward doesn't know cause a warning, not a refusal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from runward.config.contract import ExpectedArtifact, declared_artifacts
from runward.config.document import Document
from runward.config.json_value import JsonValue
from runward.config.problem import (
    Complaint,
    Parsed,
    extra_key,
    has_errors,
    nearest,
    quoted,
)
from runward.config.template import TemplateError, names_used, parse_template

PLAYBOOK_SUFFIX: Final = ".playbook.yaml"
"""What the files of playbooks end with."""


FOREIGN_KEYS: Final = ("model", "prompt", "description")
"""Keys of ADR-0029's playbooks and of the tools that share them: those tools read them, they are ignored here."""


@dataclass(frozen=True, slots=True)
class Playbook:
    """One playbook. Durations are seconds; None means that the playbook says nothing about it.

    `command` still holds its templates (`{{ with.pr }}`), which `fill_command` fills in. `artifacts` is what its
    contract adds to the agent's defaults: None if nothing is declared, empty if the declaration lists
    nothing. `document` is the text that it was read from, so that complaints can name their places.
    """

    name: str
    command: tuple[str, ...] | None = None
    timeout: float | None = None
    grace: float | None = None
    agent: str | None = None
    artifacts: tuple[ExpectedArtifact, ...] | None = None
    document: Document | None = field(default=None, repr=False, compare=False)

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the values that its command must be given."""
        return names_used([parse_template(word) for word in self.command or ()])


def read_playbook(text: str, name: str) -> Parsed[Playbook]:
    """The playbook in `text`, which came from file `name` (any path), or everything that is wrong with it."""
    from runward.config.yaml_document import read_yaml  # yaml is imported only for a file

    parsed = read_yaml(text, name)
    if parsed.value is None:
        return Parsed(None, parsed.problems)
    document = parsed.value
    complaints: list[Complaint] = []
    playbook = _playbook(document, complaints)
    problems = document.problems(complaints)
    return Parsed(None if has_errors(problems) else playbook, problems)


def name_from_file(file: str) -> str:
    """The name of a playbook that states none: its file's name without the suffix."""
    base = file.rsplit("/", 1)[-1]
    for suffix in (PLAYBOOK_SUFFIX, ".yaml", ".yml"):
        if base.endswith(suffix) and base != suffix:
            return base.removesuffix(suffix)
    return base


def _playbook(document: Document, complaints: list[Complaint]) -> Playbook | None:
    # pydantic takes long to import, and many daemons never read a playbook.
    from pydantic import ValidationError

    from runward.config.playbook_file import KNOWN_KEYS, PlaybookFile, complaints_of

    root = document.root
    if not isinstance(root, dict):
        fix = "write at least 'command:' or 'artifacts:'"
        complaints.append(Complaint((), "a playbook must be a table of keys", fix))
        return None
    artifacts = declared_artifacts(root.get("artifacts"), ("artifacts",), complaints)
    for key in root:
        if key not in KNOWN_KEYS and key not in FOREIGN_KEYS:
            complaints.append(extra_key((key,), KNOWN_KEYS))
    try:
        file = PlaybookFile.model_validate(root)
    except ValidationError as error:
        complaints.extend(complaints_of(error, KNOWN_KEYS))
        return None
    name, command = _name(file.name, document.name, complaints), file.command
    read = {**dict(file), "name": name, "command": None if command is None else tuple(command)}
    return Playbook(**{**read, "artifacts": artifacts, "document": document})


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
    problems = document.problems(complaints)
    return Parsed(None if problems else tuple(words), problems)


def _unused(name: str, known: tuple[str, ...]) -> Complaint:
    guess = nearest(name, known)
    takes = f"it takes {', '.join(known)}" if known else "it takes none"
    fix = f"did you mean {guess!r}?" if guess else takes
    return Complaint(("command",), f"uses no value named {quoted(name)}", fix)


def _name(declared: str | None, file: str, complaints: list[Complaint]) -> str:
    by_file = name_from_file(file)
    if declared is not None and declared != by_file:
        message = f"{quoted(declared)} differs from the file's name, by which it is found"
        complaints.append(
            Complaint(("name",), message, f"write {quoted(by_file)} or rename the file", "warning")
        )
    return declared if declared is not None else by_file
