"""One execution: its result, and how the exchange reports it."""

import json
from typing import Final, NamedTuple

from runward.config.json_document import read_json
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
    said: dict[str, JsonValue] = {
        "success": execution.code is None,
        "result": execution.result,
        "error": execution.error,
    }
    if execution.began:
        said["execution_time_ms"] = round(execution.wall_ms, 3)
        said["resources_consumed"] = {"cpu_seconds": round(execution.cpu_s, 6)}
    if execution.code is not None:
        said["error_code"] = execution.code
    if execution.fix is not None:
        said["fix"] = execution.fix
    return said


def read_answer(line: bytes, output: int) -> Execution:
    """What the worker's line says; the code may have written it. Never raises."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        return _disturbed()
    parsed = read_json(text, "answer")
    match None if parsed.value is None else parsed.value.root:
        case {"result": result, **others} if not others:
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
