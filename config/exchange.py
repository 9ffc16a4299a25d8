"""`[exchange]` in the settings: what principals get, how far their actions reach, and how their code is run."""

from typing import Annotated, Final, NamedTuple

from runward.config.problem import Complaint, Location
from runward.config.shape import (
    Choice,
    Complain,
    DurationText,
    ListOf,
    SizeText,
    Text,
    TrueOrFalse,
    WholeNumber,
)
from runward.config.table import Table

LONGEST_TIMEOUT_S: Final = 600.0
"""Seconds that a piece of code may be given."""

LEAST_MEMORY: Final = 64 << 20
"""Bytes: what the interpreter and its libraries need before any code runs."""


class _ModuleName(Text):
    """The name of a module, as `import` takes it."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        if text.isidentifier():
            return text
        complain(Complaint(loc, f"'{text}' can't be the name of a module", "name modules as import does"))
        return None


class Executor(NamedTuple):
    """How code of the exchange is run."""

    sandbox: Annotated[
        str, Choice("What isolates the code; landlock is weaker.", ("bubblewrap", "landlock"))
    ] = "bubblewrap"
    timeout: Annotated[
        float, DurationText("How long a piece of code may take.", 0.01, longest=LONGEST_TIMEOUT_S)
    ] = 5.0
    memory: Annotated[
        int, SizeText("How much memory it may take, including the interpreter's.", LEAST_MEMORY, 64 << 30)
    ] = 256 << 20
    tmp: Annotated[int, SizeText("How much it may write to its /tmp.", 4096, 4 << 30)] = 16 << 20
    workers: Annotated[
        int, WholeNumber("How many pieces of code run at the same time; 0: no code runs.", 0, 64)
    ] = 2
    output: Annotated[int, SizeText("How large its output may be, and its result.", 1024, 1 << 20)] = 64 << 10
    preloaded_imports: Annotated[
        tuple[str, ...],
        ListOf(
            "Modules of the standard library that code can use without an import.",
            _ModuleName("A module's name.", 100, "./"),
            100,
        ),
    ] = ("math", "json", "random", "datetime")


class ExchangeRules(NamedTuple):
    """The exchange, in which agents share artifacts and run their code."""

    use_contracts: Annotated[bool, TrueOrFalse("Whether contracts decide who may use an artifact.")] = False
    invoke_depth: Annotated[int, WholeNumber("How deep code may invoke other artifacts.", 0, 20)] = 5
    delegate: Annotated[
        bool,
        TrueOrFalse("Whether code that others own acts on the caller's behalf if an intent doesn't say."),
    ] = False
    dependency_depth: Annotated[
        int, WholeNumber("The maximum number of artifacts on a path of dependencies.", 1, 100)
    ] = 10
    disk_quota: Annotated[int, SizeText("How much a new principal may store.")] = 100 << 20
    cpu_seconds: Annotated[
        float,
        DurationText("The CPU time that a new principal may use in each window.", 0.001, or_seconds=True),
    ] = 5.0
    cpu_window: Annotated[float, DurationText("The length of this window.", 1.0)] = 60.0
    waiting_intents: Annotated[
        int, WholeNumber("The number of intents of one run that may wait.", 1, 100_000)
    ] = 1000
    executor: Annotated[Executor, Table(Executor)] = Executor()
