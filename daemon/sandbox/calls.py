"""What running code asks of the daemon: each call is checked and bounded before it is answered.

A call is a line of the worker's pipe: `{"call": number, "name": text, "args": [...]}`. Its answer is one line, too:
`{"value": ...}`, or `{"error": text}`, which the code gets as a `ValueError`. The code may have written the line
itself. So a call says only what is wanted, and the daemon itself knows whose code it is.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from runward.config.exchange_schema import LONGEST_ID, LONGEST_METHOD
from runward.config.json_document import read_json
from runward.config.json_value import JsonValue

MOST_CALLS: Final = 1000
"""The maximum number of calls of one execution."""

MOST_LINE: Final = 1 << 20
"""The bytes of one call, and of one answer."""

MOST_EXCHANGED: Final = 16 << 20
"""The bytes of all calls of one execution and their answers."""


_BEGINNING: Final = b'{"call": '
_LONGEST_ERROR: Final = 1000


class Call(NamedTuple):
    """A call that was checked."""

    name: str
    args: tuple[JsonValue, ...]


Answer: TypeAlias = Callable[[Call], JsonValue]
"""Answers a call. May raise `NotAnswered`, which the code can catch, or `EndExecution`, which it can't."""


class NotAnswered(Exception):
    """The call is refused; the code gets the message as a `ValueError`."""


class EndExecution(Exception):
    """The code must stop. The error's code and message become its result."""

    def __init__(self, code: str, error: str) -> None:
        super().__init__(error)
        self.code = code
        self.error = error


_Check: TypeAlias = Callable[[JsonValue], str | None]
"""Checks an argument: returns what is wrong with it, or None."""


def _names(longest: int) -> _Check:
    def check(value: JsonValue) -> str | None:
        if isinstance(value, str) and 0 < len(value) <= longest and value.isprintable():
            return None
        return f"must be a text of 1 to {longest} characters without control characters"

    return check


def _is_text(value: JsonValue) -> str | None:
    return None if isinstance(value, str) else "must be text"


def _is_list(value: JsonValue) -> str | None:
    return None if isinstance(value, list) else "must be a list"


def _is_any(value: JsonValue) -> str | None:
    return None


_ID: Final = _names(LONGEST_ID)
_METHOD: Final = _names(LONGEST_METHOD)

CALLS: Final[Mapping[str, tuple[tuple[str, _Check], ...]]] = MappingProxyType(
    {
        "get_balance": (),
        "pay": (("to", _ID), ("amount", _is_any)),
        "invoke": (("id", _ID), ("method", _METHOD), ("args", _is_list)),
        "kernel_state.get_balance": (("id", _ID),),
        "kernel_state.get_resource": (("id", _ID), ("name", _ID)),
        "kernel_state.list_artifacts_by_owner": (("id", _ID),),
        "kernel_state.get_artifact_metadata": (("id", _ID),),
        "kernel_state.read_artifact": (("id", _ID), ("caller_id", _ID)),
        "kernel_actions.transfer_scrip": (("caller_id", _ID), ("to", _ID), ("amount", _is_any)),
        "kernel_actions.transfer_resource": (
            ("caller_id", _ID), ("to", _ID), ("name", _ID), ("amount", _is_any),
        ),
        "kernel_actions.write_artifact": (
            ("caller_id", _ID), ("id", _ID), ("content", _is_text), ("type", _ID),
        ),
        "ledger.get_scrip": (("id", _ID),),
        "ledger.can_afford_scrip": (("id", _ID), ("amount", _is_any)),
        "ledger.get_resource": (("id", _ID), ("name", _ID)),
        "ledger.can_spend_resource": (("id", _ID), ("name", _ID), ("amount", _is_any)),
        "ledger.get_all_resources": (("id", _ID),),
        "ledger.principal_exists": (("id", _ID),),
    }
)  # fmt: skip
"""What code and contracts may ask, with the arguments.

Amounts are not checked here, because a wrong amount has its own answer.
"""


class Calls:
    """The calls of one execution, in order."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._number = 0
        self._exchanged = 0

    def reply(self, line: bytes) -> bytes:
        """The line that answers this one. Raises `EndExecution` if the code asks too much or forged the line."""
        self._number += 1
        if self._number > MOST_CALLS:
            raise EndExecution("output_limit", f"the code asked the daemon more than {MOST_CALLS} times")
        self._count(len(line))
        try:
            call = self._read(line)
            said: dict[str, JsonValue] = {"value": self._answer(call)}
        except NotAnswered as refused:
            said = {"error": str(refused)[:_LONGEST_ERROR]}
        reply = json.dumps(said, allow_nan=False).encode() + b"\n"
        if len(reply) > MOST_LINE:
            raise EndExecution("output_limit", f"an answer to the code is larger than {MOST_LINE} bytes")
        self._count(len(reply))
        return reply

    def _count(self, size: int) -> None:
        self._exchanged += size
        if self._exchanged > MOST_EXCHANGED:
            raise EndExecution(
                "output_limit", f"the code's calls and their answers are larger than {MOST_EXCHANGED} bytes"
            )

    def _read(self, line: bytes) -> Call:
        try:
            parsed = read_json(line.decode("utf-8"), "call")
        except UnicodeDecodeError:
            raise _disturbed() from None
        if parsed.value is None:
            raise NotAnswered(f"the call {parsed.problems[0].message}")
        match parsed.value.root:
            case {"call": int(number), "name": str(name), "args": list(args), **others} if not others:
                parameters = CALLS.get(name)
                if number is True or number != self._number or parameters is None:
                    raise _disturbed()
                if len(args) != len(parameters):
                    raise _disturbed()
            case _:
                raise _disturbed()
        for (parameter, check), value in zip(parameters, args, strict=True):
            wrong = check(value)
            if wrong is not None:
                raise NotAnswered(f"{name}: {parameter} {wrong}")
        return Call(name, tuple(args))


def is_call(said: bytes | bytearray) -> bool:
    """Whether a line, or the part of it that has arrived, is a call."""
    return said.startswith(_BEGINNING)


def _disturbed() -> EndExecution:
    return EndExecution("runtime_error", "the code wrote over its own calls")
