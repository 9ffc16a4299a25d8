"""A playbook as its file has it, checked by pydantic. Imported only where one is read or described: that takes long."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from runward.config.contract import declaration_schema
from runward.config.duration import Duration
from runward.config.problem import (
    Complaint,
    kind,
    unknown_key,
)
from runward.config.template import TemplateError, parse_template

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
