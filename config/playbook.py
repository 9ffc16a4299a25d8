"""Playbooks: `NAME.playbook.yaml`, what to run and what it must leave behind (ADR-0029).

A playbook may belong to other tools too: keys that Runward doesn't know cause a warning, not a refusal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from runward.config.contract import ExpectedArtifact, declaration_schema, declared_artifacts
from runward.config.document import Document
from runward.config.duration import Duration
from runward.config.problem import (
    Complaint,
    Parsed,
    extra_key,
    has_errors,
    kind,
    nearest,
    quoted,
    unknown_key,
)
from runward.config.settings import PLAYBOOK_SUFFIX
from runward.config.template import TemplateError, names_used, parse_template
from runward.config.yaml_document import read_yaml

_WANTED: Final = {
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table of keys",
    "model_type": "a table of keys",
    "model_attributes_type": "a table of keys",
}
_FIXES: Final = {"a text": "put it in quotes", "true or false": "write true or false, without quotes"}


def complaints_of(error: ValidationError, known_keys: tuple[str, ...]) -> list[Complaint]:
    """A complaint for each of pydantic's errors; `known_keys` are what an unknown key is compared with."""
    return [_complaint(details, known_keys) for details in error.errors(include_url=False)]


def _complaint(details: ErrorDetails, known_keys: tuple[str, ...]) -> Complaint:
    loc, sort = details["loc"], details["type"]
    if sort == "missing":
        return Complaint(loc[:-1], f"has no '{loc[-1]}'", f"add '{loc[-1]}: …'")
    if sort == "extra_forbidden":
        return unknown_key(loc, known_keys)
    if sort in _WANTED:
        wanted = _WANTED[sort]
        message = f"must be {wanted}, not {kind(details['input'])}"
        return Complaint(loc, message, _FIXES.get(wanted, f"make it {wanted}"))
    message = details["msg"][:1].lower() + details["msg"][1:]
    fix = details.get("ctx", {}).get("fix")
    return Complaint(loc, message, str(fix) if fix is not None else "correct it")


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


def _refuse_nul(text: str) -> str:
    if "\0" in text:
        raise PydanticCustomError("nul", "has a NUL character in it", {"fix": "remove it"})
    return text


def _refuse_no_template(word: str) -> str:
    try:
        parse_template(word)
    except TemplateError as error:
        # pydantic fills in braces by itself, so they are passed as values
        raise PydanticCustomError(
            "no_template", "{reason}", {"reason": str(error), "fix": error.fix}
        ) from None
    return _refuse_nul(word)


def _refuse_no_name(name: str) -> str:
    if not name or "/" in name or "\0" in name:
        raise PydanticCustomError("no_name", "is not a name", {"fix": "write a name without '/'"})
    return name


def _refuse_empty_program(command: list[str]) -> list[str]:
    if not command or not command[0]:
        fix = {"fix": 'write the program and its arguments: ["python3", "review.py"]'}
        raise PydanticCustomError("no_program", "names no program", fix)
    return command


class PlaybookFile(BaseModel):
    """A playbook: a command, and the artifacts that its runs must leave behind."""

    model_config = ConfigDict(strict=True, extra="ignore", title="Runward playbook")

    name: Annotated[str, AfterValidator(_refuse_no_name)] | None = Field(
        None, description="The playbook's name. Default: the file's name without .playbook.yaml."
    )
    command: (
        Annotated[
            list[Annotated[str, AfterValidator(_refuse_no_template)]], AfterValidator(_refuse_empty_program)
        ]
        | None
    ) = Field(
        None,
        description="The program and its arguments, one text each, started without a shell. "
        "'{{ with.KEY }}' is replaced by a value given to 'runward play run'.",
    )
    timeout: Duration | None = Field(
        None,
        description="The longest time that the command may run, as in 30m; then its whole process tree is killed.",
    )
    grace: Duration | None = Field(
        None, description="The time between SIGTERM and SIGKILL at the timeout, as in 5s. Default: 5s."
    )
    agent: Annotated[str, AfterValidator(_refuse_no_name)] | None = Field(
        None, description="The agent profile whose artifact_defaults the contract starts from."
    )
    artifacts: Annotated[JsonValue, WithJsonSchema(declaration_schema())] = Field(
        None, description="What a run must leave behind. Without this, nothing is verified."
    )


KNOWN_KEYS: Final = tuple(PlaybookFile.model_fields)


def playbook_schema() -> dict[str, JsonValue]:
    """What a playbook may look like, as JSON Schema."""
    return PlaybookFile.model_json_schema()


def read_playbook(text: str, name: str) -> Parsed[Playbook]:
    """The playbook in `text`, which came from file `name` (any path), or everything that is wrong with it."""
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
