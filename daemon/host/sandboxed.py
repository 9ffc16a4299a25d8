"""Code of the exchange, run in the sandbox under the settings in force."""

from collections.abc import Callable, Sequence

from runward.config.executor import Executor
from runward.config.json_value import JsonValue
from runward.daemon.worker.executions import Execute
from runward.handlers.exchange.facts import Executed


def sandboxed(executor: Callable[[], Executor]) -> Execute:
    """What runs code, under what `executor` says when it is run."""

    def execute(
        code: str, function: str, args: Sequence[JsonValue], caller: str, cpu_s: float | None
    ) -> Executed:
        from runward.daemon.sandbox.workers import execute  # few daemons run code

        ended = execute(code, args, executor(), function, {"caller_id": caller}, cpu_s)
        why = ended.error if ended.fix is None else f"{ended.error}; {ended.fix}"
        return Executed(ended.code, ended.result, why, round(ended.cpu_s, 6), ended.sandbox)

    return execute
