"""Code of the exchange, run in the sandbox under the settings in force. It may read the exchange as it was at its start."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from runward.config.executor import Executor
from runward.config.json_value import JsonValue
from runward.daemon.store import reading
from runward.daemon.worker.executions import Execute
from runward.handlers.exchange.facts import Executed, ExecutionOf

if TYPE_CHECKING:
    from runward.daemon.sandbox.calls import Call


def sandboxed(executor: Callable[[], Executor], state: Path) -> Execute:
    """What runs code, under what `executor` says when it is run, over the store in `state`."""

    def execute(asked: ExecutionOf) -> Executed:
        from runward.daemon.sandbox import workers  # few daemons run code

        args: list[JsonValue] = json.loads(asked.args)
        with closing(reading.open_to_read(str(state / reading.STORE))) as connection:
            connection.execute("begin")  # all that it reads is of one moment
            ended = workers.execute(
                asked.code,
                args,
                executor(),
                asked.function,
                {"caller_id": asked.caller},
                asked.cpu_s,
                lambda call: _answer(connection, asked.artifact, call),
                asked.dependencies,
            )
        why = ended.error if ended.fix is None else f"{ended.error}; {ended.fix}"
        return Executed(ended.code, ended.result, why, round(ended.cpu_s, 6), ended.sandbox)

    return execute


def _answer(connection: sqlite3.Connection, artifact: str, call: "Call") -> JsonValue:
    """What code of this artifact asked for. Raises `NotAnswered`."""
    from runward.daemon.sandbox.calls import NotAnswered
    from runward.daemon.store import reading_exchange
    from runward.handlers.exchange.artifacts import metadata_of
    from runward.handlers.exchange.facts import SCRIP
    from runward.handlers.exchange.genesis import genesis_artifact

    texts = [str(each) for each in call.args]
    match call.name, texts:
        case "get_balance", []:
            return int(reading_exchange.balance(connection, artifact, SCRIP))
        case "kernel_state.get_balance", [name]:
            return int(reading_exchange.balance(connection, name, SCRIP))
        case "kernel_state.get_resource", [name, resource]:
            return reading_exchange.balance(connection, name, resource)
        case "kernel_state.list_artifacts_by_owner", [name]:
            return [each.id for each in reading_exchange.shared_artifacts(connection, name)]
        case "kernel_state.get_artifact_metadata", [name]:
            found = genesis_artifact(name) or reading_exchange.shared_artifact(connection, name)
            return None if found is None else metadata_of(found)
        case _:
            raise NotAnswered(f"{call.name} is not built yet: in this version, code only reads")
