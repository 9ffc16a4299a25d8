"""What pydantic found wrong with a document, in the words and at the places of those who wrote it."""

from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from runward.config.problem import Complaint, kind, unknown_key

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
