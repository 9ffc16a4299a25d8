"""`[exchange.executor]` in the settings: how the exchange's code is run, and what it may use."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location
from runward.config.shape import (
    Choice,
    Complain,
    DurationText,
    ListOf,
    SizeText,
    Table,
    Text,
    TrueOrFalse,
    WholeNumber,
)

DEFAULT_TIMEOUT_S: Final = 5.0
DEFAULT_MEMORY: Final = 256 << 20
DEFAULT_TMP: Final = 16 << 20
DEFAULT_OUTPUT: Final = 64 << 10
DEFAULT_WORKERS: Final = 2
DEFAULT_PRELOADED: Final = ("math", "json", "random", "datetime")

LONGEST_TIMEOUT_S: Final = 600.0
"""Seconds that a piece of code may be given."""

LEAST_MEMORY: Final = 64 << 20
"""Bytes: what the interpreter and its libraries need before any code runs."""

_BOUNDS: Final = {
    "memory": (LEAST_MEMORY, 64 << 30, "64MB", "64GB"),
    "tmp": (4096, 4 << 30, "4KB", "4GB"),
    "output": (1024, 1 << 20, "1KB", "1MB"),
}


class Executor(NamedTuple):
    """How code is run: its means, seconds of time, bytes of memory, of `/tmp` and of output, preloaded modules.

    `workers` is how many call trees run at the same time.
    """

    sandbox: str = "bubblewrap"
    timeout: float = DEFAULT_TIMEOUT_S
    memory: int = DEFAULT_MEMORY
    tmp: int = DEFAULT_TMP
    output: int = DEFAULT_OUTPUT
    preloaded_imports: tuple[str, ...] = DEFAULT_PRELOADED
    workers: int = DEFAULT_WORKERS


def _check_bounds(values: Mapping[str, JsonValue], loc: Location, complain: Complain) -> None:
    for key, (least, most, least_text, most_text) in _BOUNDS.items():
        value = values.get(key)
        if isinstance(value, int) and not least <= value <= most:
            message = f"must be {least_text} to {most_text}"
            complain(Complaint((*loc, key), message, f"write a size from {least_text} to {most_text}"))
    modules = values.get("preloaded_imports")
    for index, name in enumerate(modules if isinstance(modules, list) else ()):
        if isinstance(name, str) and not name.isidentifier():
            message = f"'{name}' can't be the name of a module"
            complain(Complaint((*loc, "preloaded_imports", index), message, "name modules as import does"))


EXCHANGE: Final = Table(
    "The exchange, in which agents share artifacts and run their code.",
    {
        "use_contracts": TrueOrFalse("Whether contracts decide who may use an artifact. Default: false."),
        "invoke_depth": WholeNumber("How deep code may invoke other artifacts. Default: 5.", 0, 20),
        "delegate": TrueOrFalse(
            "Whether code that others own acts on the caller's behalf if an intent doesn't say. Default: false."
        ),
        "dependency_depth": WholeNumber(
            "The maximum number of artifacts on a path of dependencies. Default: 10.", 1, 100
        ),
        "disk_quota": SizeText("How much a new principal may store. Default: 100MB."),
        "cpu_seconds": DurationText(
            "The CPU time that a new principal may use in each window. Default: 5s.", 0.001, or_seconds=True
        ),
        "cpu_window": DurationText("The length of this window. Default: 1min.", 1.0),
        "waiting_intents": WholeNumber(
            "The number of intents of one run that may wait. Default: 1000.", 1, 100_000
        ),
        "executor": Table(
            "How code of the exchange is run.",
            {
                "sandbox": Choice(
                    "What isolates the code; landlock is weaker. Default: bubblewrap.",
                    ("bubblewrap", "landlock"),
                ),
                "timeout": DurationText(
                    "How long a piece of code may take. Default: 5s.", 0.01, longest=LONGEST_TIMEOUT_S
                ),
                "memory": SizeText(
                    "How much memory it may take, including the interpreter's. Default: 256MB."
                ),
                "tmp": SizeText("How much it may write to its /tmp. Default: 16MB."),
                "workers": WholeNumber(
                    "How many pieces of code run at the same time; 0: no code runs. Default: 2.", 0, 64
                ),
                "output": SizeText("How large its output may be, and its result. Default: 64KB."),
                "preloaded_imports": ListOf(
                    "Modules of the standard library that code can use without an import. "
                    "Default: ['math', 'json', 'random', 'datetime'].",
                    Text("A module's name.", 100, "./"),
                    100,
                ),
            },
            check_whole=_check_bounds,
        ),
    },
)
"""The shape of `[exchange]`."""


def executor_of(value: JsonValue) -> Executor:
    """The valid keys of `[exchange.executor]`, over the defaults."""
    given = {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else {}
    modules = given.get("preloaded_imports")
    default = Executor()
    return Executor(
        sandbox=str(given.get("sandbox", default.sandbox)),
        timeout=_number(given.get("timeout"), default.timeout),
        memory=int(_number(given.get("memory"), default.memory)),
        tmp=int(_number(given.get("tmp"), default.tmp)),
        output=int(_number(given.get("output"), default.output)),
        workers=int(_number(given.get("workers"), default.workers)),
        preloaded_imports=tuple(str(each) for each in modules)
        if isinstance(modules, list)
        else default.preloaded_imports,
    )


def executor_to_json(executor: Executor) -> dict[str, JsonValue]:
    """What `executor_of` reads."""
    return {**executor._asdict(), "preloaded_imports": list(executor.preloaded_imports)}


def _number(value: JsonValue, default: float) -> float:
    return value if isinstance(value, int | float) else default
