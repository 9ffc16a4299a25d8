"""The result of an action, with the code, category and retriability of any failure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue


class Kind(NamedTuple):
    """The kind of an error, and whether the same action may succeed later."""

    category: str
    retriable: bool


CODES: Final[Mapping[str, Kind]] = {
    "not_found": Kind("resource", False),
    "not_authorized": Kind("permission", False),
    "insufficient_funds": Kind("resource", True),
    "quota_exceeded": Kind("resource", True),
    "invalid_argument": Kind("validation", False),
    "invalid_type": Kind("validation", False),
    "timeout": Kind("execution", True),
    "runtime_error": Kind("execution", False),
    "DELETED": Kind("resource", False),
    "rate_limited": Kind("resource", True),
    "depth_exceeded": Kind("execution", False),
    "output_limit": Kind("execution", False),
    "killed": Kind("execution", False),
    "not_configured": Kind("system", False),
    "conflict": Kind("system", True),
    "internal_error": Kind("system", True),
}
"""All error codes (the seed's table, and the exchange's own)."""


class ActionResult(NamedTuple):
    """The result of an action. `resources_consumed` was charged to `charged_to`."""

    success: bool
    message: str
    data: JsonValue = None
    resources_consumed: Mapping[str, float] | None = None
    charged_to: str | None = None
    error_code: str | None = None
    error_details: Mapping[str, JsonValue] | None = None
    sandbox: str | None = None
    """What isolated the code, if any ran. Not a part of the ActionResult itself."""


class Refused(Exception):
    """An action fails: with one of `CODES`, and a message for the actor."""

    def __init__(self, code: str, message: str, **details: JsonValue) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def result(self) -> ActionResult:
        """The result of the action."""
        return ActionResult(
            False, self.message, error_code=self.code, error_details=dict(self.details) or None
        )


def result_to_json(result: ActionResult) -> dict[str, JsonValue]:
    """The ActionResult of the seed: absent fields are left out, except `success`, `message` and `data`."""
    told: dict[str, JsonValue] = {"success": result.success, "message": result.message, "data": result.data}
    if result.resources_consumed is not None:
        told["resources_consumed"] = dict(result.resources_consumed)
    if result.charged_to is not None:
        told["charged_to"] = result.charged_to
    if result.error_code is not None:
        kind = CODES[result.error_code]
        told |= {
            "error_code": result.error_code,
            "error_category": kind.category,
            "retriable": kind.retriable,
        }
        if result.error_details is not None:
            told["error_details"] = dict(result.error_details)
    return told
