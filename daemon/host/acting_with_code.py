"""Working out an action that runs code: in a thread, over a snapshot of the store, each piece of code in a sandbox."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from runward.config.exchange import ExchangeRules, Executor
from runward.config.json_value import JsonValue
from runward.daemon.parts.actions_with_code import CodeTrouble, NotWorkedOut
from runward.daemon.store import reading
from runward.daemon.store.schema import make_empty
from runward.daemon.store.tables import ledger, principals, shared_artifacts
from runward.handlers.exchange import invoke
from runward.handlers.exchange.accounts import Accounts, CodeRun, Ran, accounts_of
from runward.handlers.exchange.act import worked_out
from runward.handlers.exchange.reading import ActedWithCode, ReadTooMuch, Worked
from runward.handlers.model.asking import Asking, Question
from runward.handlers.model.exchange import (
    BalanceOf,
    CpuUsedBy,
    ExchangeRulesNow,
    ExistingInExchange,
    NamesLike,
    PrincipalOf,
    ResourcesOf,
    SharedArtifactOf,
)

if TYPE_CHECKING:
    from runward.daemon.sandbox.execution import Call
    from runward.daemon.sandbox.workers import ReadyWorkers, Worker

T = TypeVar("T")
Take: TypeAlias = "Callable[[Executor], Worker]"
"""Gives an unused worker."""

CONTRACT_S: Final = 2.0
"""Seconds that a contract may take in all: one for its definition, and one for its call."""

CONTRACT_IMPORTS: Final = ("math", "json", "random", "datetime", "time")


def acting_with_code(
    rules: Callable[[], ExchangeRules],
    executor: Callable[[], Executor],
    state: Path,
    trouble: CodeTrouble | None = None,
) -> Callable[[ActedWithCode], Worked]:
    """Works out actions by the settings in force, over the store in `state`. Blocks.

    `trouble` collects problems for `status`.
    """
    told = CodeTrouble() if trouble is None else trouble
    ready, lock = cache(lambda: _ready_workers(told)), threading.Lock()

    def act(asked: ActedWithCode) -> Worked:
        with lock:
            take = ready().take
        # One read transaction for all of it: what is decided is compared later with what this snapshot said.
        with snapshot(state) as connection:
            accounts = accounts_of(asked.event.key, asked.given)
            code = RunningCode(
                accounts=accounts,
                connection=connection,
                rules=rules(),
                executor=executor(),
                take=take,
                used=asked.used,
            )
            try:
                decided = code.drive(worked_out(accounts, asked.event))
            except Exception as error:
                raise NotWorkedOut(error, code.cpu.used) from error
            finally:
                if code.refused is not None or code.sandbox is not None:
                    told.refused = code.refused
                for reason in code.killed:
                    told.killed.add(reason)
            used = round(code.cpu.used, 6)
            return Worked(
                decided=decided,
                effects=accounts.all_effects,
                paid=tuple(accounts.paid),
                reading=accounts.reading,
                cpu_s=used,
                sandbox=code.sandbox,
            )

    return act


def _ready_workers(trouble: CodeTrouble) -> "ReadyWorkers":
    from runward.daemon.sandbox import leftovers  # few daemons run code
    from runward.daemon.sandbox.workers import ReadyWorkers

    trouble.watcher = leftovers.WATCHER.trouble
    return ReadyWorkers(died=trouble.killed.add)


@contextmanager
def snapshot(state: Path) -> Iterator[sqlite3.Connection]:
    """The store in `state` as it is at one moment."""
    with closing(reading.open_to_read(str(state / reading.STORE))) as connection:
        connection.execute("begin")
        yield connection


@contextmanager
def empty_store() -> Iterator[sqlite3.Connection]:
    """A store in which nothing happened yet."""
    with closing(sqlite3.connect(":memory:")) as connection:
        make_empty(connection)
        yield connection


class RunningCode:
    """The code of one action, over a snapshot: all its pieces share one deadline and one limit of CPU time.

    `used` is the CPU time that the payer used before; it includes what was decided in the same batch and is not in the store yet.
    """

    def __init__(
        self,
        accounts: Accounts,
        connection: sqlite3.Connection,
        rules: ExchangeRules,
        executor: Executor,
        take: "Take | None" = None,
        used: tuple[tuple[float, float], ...] = (),
    ) -> None:
        from runward.daemon.sandbox.execution import CpuTime  # few daemons run code

        accounts.let_code_run()
        self._accounts = accounts
        self._connection = connection
        self._rules = rules
        self._executor = executor
        self._take = take
        self._used = used
        self._deadline = time.monotonic() + executor.timeout
        self.cpu = CpuTime()
        self.sandbox: str | None = None
        """What isolated the code, if any ran."""
        self.fix: str | None = None
        """What to do if this machine has no sandbox."""
        self.refused: str | None = None
        """Why code couldn't run, with what to do."""
        self.killed: list[str] = []
        """Why workers of it were killed or crashed."""

    def drive(self, asking: Asking[T]) -> T:
        """Answer all that a generator asks; returns its result."""
        answer: Any = None
        try:
            while True:
                answer = self._answer(asking.send(answer))
        except StopIteration as ended:
            value: T = ended.value
            return value

    def _answer(self, question: Question[Any]) -> Any:  # noqa: ANN401 # the question has its type
        match question:
            case SharedArtifactOf(id=name):
                return shared_artifacts.shared_artifact(self._connection, name)
            case PrincipalOf(id=name):
                return principals.principal(self._connection, name)
            case NamesLike(name=name):
                return tuple(sorted(shared_artifacts.holders_of(self._connection, name)))
            case BalanceOf(account=account, resource=resource):
                return ledger.units(self._connection, account, resource)
            case ResourcesOf(account=account):
                return ledger.resources(self._connection, account)
            case ExistingInExchange():
                return shared_artifacts.existing(self._connection)
            case CpuUsedBy():
                return self._used
            case ExchangeRulesNow():
                return self._rules
            case CodeRun():
                return self._run(question)
            case _:
                raise TypeError(f"nobody answers {question} where code runs")

    def _run(self, asked: CodeRun) -> Ran:
        from runward.daemon.sandbox import workers

        # One bound for all pieces of an action, so code can't get more by calling other code.
        self.cpu.most = asked.cpu_s
        executor, deadline = self._executor, self._deadline
        is_contract = asked.frame is None and asked.defines is None
        if is_contract:
            executor = executor._replace(preloaded_imports=CONTRACT_IMPORTS)
            deadline = min(deadline, time.monotonic() + CONTRACT_S)
        names: dict[str, JsonValue] = {} if asked.frame is None else asked.frame.names
        job = workers.Job(
            code=asked.code,
            arguments=asked.args,
            function=asked.function,
            names=names,
            answer=None if asked.defines is not None else lambda call: self._call(asked, call),
            dependencies=asked.dependencies,
            is_contract=is_contract,
            defines=asked.defines,
        )
        ended = workers.execute(job, executor, self.cpu, deadline, self._take)
        self.sandbox = ended.sandbox or self.sandbox
        self.fix = ended.fix
        why = ended.error if ended.fix is None else f"{ended.error}; {ended.fix}"
        if ended.fix is not None:
            self.refused = why
        if ended.code == "killed":
            self.killed.append(ended.error or ended.code)
        return Ran(ended.code, ended.result, why)

    def _call(self, asked: CodeRun, call: "Call") -> JsonValue:
        """The answer to a call of running code. Raises `EndExecution`."""
        from runward.daemon.sandbox.execution import EndExecution, NotAnswered

        try:
            return self.drive(invoke.answered(self._accounts, asked.frame, call.name, call.args))
        except invoke.CallRefused as refused:
            raise NotAnswered(str(refused)) from None
        except ReadTooMuch as error:
            raise EndExecution("runtime_error", str(error)) from None
        except invoke.UnknownCall:
            raise EndExecution("runtime_error", f"code of this kind can't ask {call.name}") from None
