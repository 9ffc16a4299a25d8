"""One execution of code: what it asks of the daemon, checked and bounded; its CPU time, with all code that it calls; and its result."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from runward.config.document import read_json
from runward.config.intent import LONGEST_ID, LONGEST_METHOD
from runward.config.json_value import JsonValue

_CODES: Final = ("invalid_argument", "not_found", "runtime_error", "output_limit")
"""The results that a worker may report with a text of its own, which the code may have written."""

_LONGEST_ERROR: Final = 4000


class Execution(NamedTuple):
    """The result of one piece of code. `code` is None if it succeeded; `fix` tells the operator what to do.

    `began` is whether any of it ran; `sandbox` is what isolated it. `cpu_s` is the CPU time by the kernel, `wall_ms` the
    duration by the daemon's clock. `printed` is what the code printed, if it is shown.
    """

    code: str | None
    result: JsonValue = None
    error: str | None = None
    fix: str | None = None
    began: bool = False
    wall_ms: float = 0.0
    cpu_s: float = 0.0
    sandbox: str | None = None
    printed: str = ""


def execution_to_json(execution: Execution) -> dict[str, JsonValue]:
    """The result in the seed's form. Code that never ran has no measurements; a failure also has its error code."""
    fields: dict[str, JsonValue] = {
        "success": execution.code is None,
        "result": execution.result,
        "error": execution.error,
    }
    if execution.began:
        fields["execution_time_ms"] = round(execution.wall_ms, 3)
        fields["resources_consumed"] = {"cpu_seconds": round(execution.cpu_s, 6)}
    if execution.code is not None:
        fields["error_code"] = execution.code
    if execution.fix is not None:
        fields["fix"] = execution.fix
    return fields


def read_answer(line: bytes, output: int) -> Execution:
    """What the worker's line says; the code may have written it. Never raises."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return _disturbed()
    parsed = read_json(text, "answer")
    match None if parsed.value is None else parsed.value.root:
        case {"result": result, **others} if not others:
            # Checked again: the code may have written this line itself.
            if len(json.dumps(result, ensure_ascii=False).encode("utf-8", "replace")) > output:
                return too_much(output)
            return Execution(None, result)
        case {"code": "output_limit", **others} if not others:
            return too_much(output)
        case {"code": "killed", "error": str(), **others} if not others:
            # `status` shows why workers were killed, so the text must not be the code's.
            return Execution("killed", error="the code needed more memory than its limit")
        case {"code": str(code), "error": str(error), **others} if code in _CODES and not others:
            return Execution(code, error=error[:_LONGEST_ERROR])
        case _:
            return _disturbed()


def too_much(output: int) -> Execution:
    """The result if the worker wrote more than is allowed."""
    return Execution("output_limit", error=f"the output or the result is larger than {output} bytes")


def _disturbed() -> Execution:
    return Execution("runtime_error", error="the code wrote over its own answer")


MOST_CALLS: Final = 1000
"""The maximum number of calls of one execution."""

MOST_LINE: Final = 1 << 20
"""The bytes of one call, and of one answer."""

MOST_EXCHANGED: Final = 16 << 20
"""The bytes of all calls of one execution and their answers."""


_BEGINNING: Final = b'{"call": '
_LONGEST_REFUSAL: Final = 1000


# A call is a line of the worker's pipe: `{"call": number, "name": text, "args": [...]}`. Its answer is one
# line, too: `{"value": ...}`, or `{"error": text}`, which the code gets as a `ValueError`. The code may have
# written the line itself. So a call says only what is wanted, and the daemon itself knows whose code it is.
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
            fields: dict[str, JsonValue] = {"value": self._answer(call)}
        except NotAnswered as refused:
            fields = {"error": str(refused)[:_LONGEST_REFUSAL]}
        reply = json.dumps(fields, allow_nan=False).encode() + b"\n"
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
            raise _disturbed_call() from None
        if parsed.value is None:
            raise NotAnswered(f"the call {parsed.problems[0].message}")
        match parsed.value.root:
            case {"call": int(number), "name": str(name), "args": list(args), **others} if not others:
                parameters = CALLS.get(name)
                if number is True or number != self._number or parameters is None:
                    raise _disturbed_call()
                if len(args) != len(parameters):
                    raise _disturbed_call()
            case _:
                raise _disturbed_call()
        for (parameter, check), value in zip(parameters, args, strict=True):
            wrong = check(value)
            if wrong is not None:
                raise NotAnswered(f"{name}: {parameter} {wrong}")
        return Call(name, tuple(args))


def is_call(line: bytes | bytearray) -> bool:
    """Whether a line, or the part of it that has arrived, is a call."""
    return line.startswith(_BEGINNING)


def _disturbed_call() -> EndExecution:
    return EndExecution("runtime_error", "the code wrote over its own calls")


ENDING_S: Final = 0.01
"""Seconds of CPU time that are kept for the end of code: what it uses before the daemon looks again, and its teardown.

They are counted as well, so code that was stopped when the limit was reached would exceed it.
"""


@dataclass(slots=True)
class CpuTime:
    """The CPU time that workers used together (seconds), and their limit; None for no limit.

    A worker is stopped while it waits for the answer to a call, so only one of them uses CPU time at any moment.
    """

    most: float | None = None
    ended: float = 0.0
    _alive: list[Callable[[], float]] = field(default_factory=list)

    @property
    def used(self) -> float:
        """The seconds so far."""
        return self.ended + sum(so_far() for so_far in self._alive)

    @property
    def is_used_up(self) -> bool:
        """Whether no CPU time is left."""
        return self.left <= 0.0

    @property
    def left(self) -> float:
        """The seconds for which code may still run; infinite without a limit."""
        return math.inf if self.most is None else max(0.0, self.most - ENDING_S - self.used)

    def begin(self, so_far: Callable[[], float]) -> None:
        """A worker begins its job; `so_far` returns what it has used."""
        self._alive.append(so_far)

    def end(self, so_far: Callable[[], float], seconds: float) -> None:
        """Record that this worker has ended, and all that it used."""
        self._alive.remove(so_far)
        self.ended += seconds
