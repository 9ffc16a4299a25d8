"""Running code: on whose behalf it runs, and its result."""

from typing import NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.model.asking import Question


class Frame(NamedTuple):
    """An invocation whose code runs. The intent's own has depth 0.

    `caller` is the principal of the intent, who pays for everything below. `is_lent` is whether the code may take and
    write what belongs to the caller. If not, it reads and invokes only what all `owners` of such code above it may,
    too. `acts` is whether it may take and write what belongs to its artifact. `invoker` is the artifact whose code
    invokes it, None for the intent itself.
    """

    artifact: str
    caller: str
    depth: int
    is_lent: bool
    owners: tuple[str, ...]
    delegates: bool
    acts: bool = True
    invoker: str | None = None

    @property
    def names(self) -> dict[str, JsonValue]:
        """What the code is given as globals: who pays, and who invokes it."""
        return {"caller_id": self.caller, "invoker": self.invoker}


class Ran(NamedTuple):
    """The result of code. `code` is None if it succeeded, else the code of the error."""

    code: str | None
    result: JsonValue
    error: str | None


class CodeRun(Question[Ran], frozen=True):
    """Question: the result of this code. Answer: `Ran`. Only asked where code runs, in parallel with the worker.

    `cpu_s` are the seconds of CPU time that everything below the action may use, None for no limit. A contract's code
    has no `frame`: it acts for nobody.
    """

    artifact: str
    code: str
    function: str
    args: tuple[JsonValue, ...]
    cpu_s: float | None
    dependencies: tuple[str, ...] = ()
    frame: Frame | None = None
    defines: tuple[str, ...] | None = None
    """Only compile the code, which must define one of these functions if any are named. Nothing of it runs."""
