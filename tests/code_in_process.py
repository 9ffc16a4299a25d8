"""Stands in for the sandbox where it is not the subject: code runs in this process, takes no time, and is charged a fixed one.

Only for code that the tests wrote themselves.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from tests.handlers.exchange.played import interpreted

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.parts import actions_with_code
from runward.daemon.sandbox import workers
from runward.daemon.sandbox.execution import Call, CpuTime, Execution, NotAnswered
from runward.daemon.sandbox.workers import Job
from runward.handlers.exchange.accounts import CodeRun, Frame

CPU_S: Final = 0.125
"""The CPU time of each piece of code (seconds)."""


def execute(job: Job, executor: Executor, cpu: CpuTime, deadline: float, take: object) -> Execution:
    """Run a job, as `runward.daemon.sandbox.workers.execute` does."""
    if job.defines is not None:
        compile(job.code, "<code>", "exec")
        return Execution(None, sandbox="a stand-in")
    cpu.ended += CPU_S
    answer = job.answer
    assert answer is not None
    caller, invoker = job.names.get("caller_id"), job.names.get("invoker")
    outer = None if invoker is None else str(invoker)
    frame = None if job.is_contract else Frame("", str(caller), 0, False, (), False, invoker=outer)
    code = CodeRun("", job.code, job.function, tuple(job.arguments), None, tuple(job.dependencies), frame)

    def ask(name: str, *args: JsonValue) -> JsonValue:
        try:
            return answer(Call(name, args))
        except NotAnswered as refused:
            raise ValueError(str(refused)) from None

    ran = interpreted(code, ask)
    return Execution(ran.code, ran.result, ran.error, began=True, cpu_s=CPU_S, sandbox="a stand-in")


class AtOnce:
    """A thread that is over when it begins."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        self._target(*self._args)


def stand_in() -> None:
    """Have all code of this process run this way from now on, and without threads."""
    vars(workers)["execute"] = execute
    vars(actions_with_code)["threading"] = SimpleNamespace(Thread=AtOnce)
