"""What running code asks of the daemon: what reaches the function that answers, and what the code gets."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.sandbox.machine import children
from tests.waiting import wait_for

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox.execution import (
    CALLS,
    ENDING_S,
    MOST_CALLS,
    MOST_EXCHANGED,
    MOST_LINE,
    Call,
    Calls,
    CpuTime,
    EndExecution,
    NotAnswered,
)
from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.workers import Job, Worker, execute
from runward.handlers.exchange.invoke import CALLS_OF_CODE, CALLS_OF_CONTRACTS

USUAL = Executor()


@pytest.fixture(scope="module")
def sandbox() -> None:
    """Skips where this machine has none."""
    try:
        Worker(USUAL).close()
    except NoSandbox as missing:
        pytest.skip(f"no sandbox here: {missing}")


class Scripted:
    """Answers each call with what `answer` makes of it, and keeps it."""

    def __init__(self, answer: Callable[[Call], JsonValue] = lambda call: None) -> None:
        self._answer = answer
        self.asked: list[Call] = []

    def __call__(self, call: Call) -> JsonValue:
        self.asked.append(call)
        return self._answer(call)

    @property
    def what(self) -> list[tuple[str, tuple[JsonValue, ...]]]:
        return [(call.name, call.args) for call in self.asked]


def line(number: int, name: str, *args: JsonValue) -> bytes:
    return json.dumps({"call": number, "name": name, "args": list(args)}).encode()


ASKED: tuple[tuple[str, str, tuple[JsonValue, ...]], ...] = (
    ("get_balance()", "get_balance", ()),
    ("pay('bob', 5)", "pay", ("bob", 5)),
    ("pay(to='bob', amount='much')", "pay", ("bob", "much")),
    ("pay('bob', {1, })", "pay", ("bob", "{1}")),
    ("invoke('tool')", "invoke", ("tool", "run", [])),
    ("invoke('tool', 1, [None], method='walk')", "invoke", ("tool", "walk", [1, [None]])),
    ("invoke('tool', float('nan'), 'é')", "invoke", ("tool", "run", ["nan", "é"])),
    ("context.dependencies['helper'].invoke(2, 3)", "invoke", ("helper", "run", [2, 3])),
    ("kernel_state.get_balance('bob')", "kernel_state.get_balance", ("bob",)),
    ("kernel_state.get_resource('bob', 'cpu_seconds')", "kernel_state.get_resource", ("bob", "cpu_seconds")),
    ("kernel_state.list_artifacts_by_owner('bob')", "kernel_state.list_artifacts_by_owner", ("bob",)),
    ("kernel_state.get_artifact_metadata('note')", "kernel_state.get_artifact_metadata", ("note",)),
    ("kernel_state.read_artifact('note', caller_id)", "kernel_state.read_artifact", ("note", "ann")),
    ("kernel_actions.transfer_scrip(caller_id, 'bob', 1)", "kernel_actions.transfer_scrip", ("ann", "bob", 1)),
    (
        "kernel_actions.transfer_resource(caller_id, 'bob', 'disk_bytes', 0.5)",
        "kernel_actions.transfer_resource", ("ann", "bob", "disk_bytes", 0.5),
    ),
    (
        "kernel_actions.write_artifact(caller_id, 'note', 'text')",
        "kernel_actions.write_artifact", ("ann", "note", "text", "generic"),
    ),
    (
        "kernel_actions.write_artifact(caller_id, 'note', 'text', type='doc')",
        "kernel_actions.write_artifact", ("ann", "note", "text", "doc"),
    ),
)  # fmt: skip


def test_each_name_that_code_is_given_asks_what_it_says_and_returns_the_answer(sandbox: None) -> None:
    scripted = Scripted(lambda call: {"asked": call.name})
    source = f"def run(): return [{', '.join(expression for expression, _, _ in ASKED)}]"
    ended = execute(
        Job(source, [], names={"caller_id": "ann"}, answer=scripted, dependencies=["helper", "other"]), USUAL
    )
    assert (ended.code, ended.error) == (None, None)
    assert scripted.what == [(name, args) for _, name, args in ASKED]
    assert ended.result == [{"asked": name} for _, name, _ in ASKED]
    assert {name for _, name, _ in ASKED} == set(CALLS_OF_CODE)


LOOKS: tuple[tuple[str, str, tuple[JsonValue, ...]], ...] = (
    ("ledger.get_scrip('bob')", "ledger.get_scrip", ("bob",)),
    ("ledger.can_afford_scrip('bob', 3)", "ledger.can_afford_scrip", ("bob", 3)),
    ("ledger.get_resource('bob', 'gold')", "ledger.get_resource", ("bob", "gold")),
    ("ledger.can_spend_resource('bob', 'gold', .5)", "ledger.can_spend_resource", ("bob", "gold", 0.5)),
    ("ledger.get_all_resources('bob')", "ledger.get_all_resources", ("bob",)),
    ("ledger.principal_exists('bob')", "ledger.principal_exists", ("bob",)),
)


def contract(source: str, answer: Scripted | None = None) -> Job:
    job = Job(source, ["bob", "read", "thing", {}], "check_permission", is_contract=True)
    return job._replace(answer=answer or Scripted())


def test_a_contract_looks_at_the_ledger_and_at_nothing_else(sandbox: None) -> None:
    scripted = Scripted(lambda call: {"asked": call.name})
    source = (
        f"def check_permission(c, a, t, x): return [{', '.join(expression for expression, _, _ in LOOKS)}]"
    )
    ended = execute(contract(source, scripted), USUAL)
    assert (ended.code, ended.error) == (None, None)
    assert scripted.what == [(name, args) for _, name, args in LOOKS]
    assert {name for _, name, _ in LOOKS} == set(CALLS_OF_CONTRACTS)
    assert set(CALLS) == set(CALLS_OF_CODE) | set(CALLS_OF_CONTRACTS), (
        "each call has its shape and its answer"
    )


def test_a_contract_may_take_the_ledger_as_an_argument(sandbox: None) -> None:
    source = "def check_permission(c, a, t, x, book): return [c, a, t, x, book is ledger]"
    assert execute(contract(source), USUAL).result == ["bob", "read", "thing", {}, True]


@pytest.mark.parametrize(
    "does",
    ["__import__('os')", "open('/tmp/x', 'w')", "eval('1')", "exec('1')", "compile('1', '', 'eval')", "input()", "pay('bob', 1)",
     "get_balance()", "invoke('x')", "kernel_actions", "caller_id", "context.dependencies"],
)  # fmt: skip
def test_a_contract_has_neither_imports_nor_files_nor_the_calls_of_code(sandbox: None, does: str) -> None:
    ended = execute(contract(f"def check_permission(c, a, t, x): return {does}"), USUAL)
    assert (ended.code, str(ended.error).partition(":")[0]) == ("runtime_error", "NameError")
    ended = execute(contract("import os\ndef check_permission(c, a, t, x): return 1"), USUAL)
    assert (ended.code, ended.error) == ("runtime_error", "ImportError: __import__ not found (line 1)")


@pytest.mark.parametrize(
    "source",
    ["while True: pass\ndef check_permission(c, a, t, x): return 1", "def check_permission(c, a, t, x):\n while True: pass",
     "def check_permission(c, a, t, x):\n try:\n  while True: pass\n except BaseException: return 1"],
)  # fmt: skip
def test_a_contract_has_a_second_for_its_definition_and_one_for_its_call(sandbox: None, source: str) -> None:
    ended = execute(contract(source), USUAL)
    assert (ended.code, ended.error) == ("runtime_error", "the contract took longer than 1 s")
    assert 900 < ended.wall_ms < 3000


def test_code_knows_its_dependencies_and_no_others(sandbox: None) -> None:
    source = "def run(): return sorted(context.dependencies)"
    assert execute(Job(source, [], answer=Scripted(), dependencies=["b", "a"]), USUAL).result == ["a", "b"]
    assert execute(Job(source, [], answer=Scripted()), USUAL).result == []
    source = "def run(): return context.dependencies['c'].invoke()"
    assert execute(Job(source, [], answer=Scripted(), dependencies=["b"]), USUAL).code == "runtime_error"


def test_code_that_may_not_ask_has_no_such_names(sandbox: None) -> None:
    names = ("get_balance", "pay", "invoke", "context", "kernel_state", "kernel_actions")
    source = f"def run(): return [name for name in {names} if name in globals()]"
    assert execute(Job(source, []), USUAL).result == []
    assert execute(Job(source, [], answer=Scripted()), USUAL).result == list(names)


def test_a_definition_may_ask_too(sandbox: None) -> None:
    assert (
        execute(
            Job("has = get_balance()\ndef run(): return has", [], answer=Scripted(lambda _: 3)), USUAL
        ).result
        == 3
    )


def test_code_can_catch_a_refusal_and_go_on(sandbox: None) -> None:
    def refuse(call: Call) -> JsonValue:
        if call.name == "pay":
            raise NotAnswered("not today")
        return 4

    source = "def run():\n    try: pay('bob', 1)\n    except ValueError as error: return [str(error), get_balance()]"
    assert execute(Job(source, [], answer=refuse), USUAL).result == ["not today", 4]
    ended = execute(Job("def run(): pay('bob', 1)", [], answer=refuse), USUAL)
    assert (ended.code, ended.error) == ("runtime_error", "ValueError: not today (line 1)")


def test_code_can_not_catch_its_end_and_is_measured(sandbox: None) -> None:
    def end(call: Call) -> JsonValue:
        raise EndExecution("rate_limited", "nothing is left")

    source = "def run():\n    try: pay('bob', sum(range(3000000)))\n    except BaseException: return 1"
    ended = execute(Job(source, [], answer=end), USUAL)
    assert (ended.code, ended.error, ended.began) == ("rate_limited", "nothing is left", True)
    assert ended.cpu_s > 0.005


def test_an_error_of_the_function_that_answers_is_raised_and_leaves_no_process(sandbox: None) -> None:
    def fail(call: Call) -> JsonValue:
        raise LookupError("ours")

    others = children()
    with pytest.raises(LookupError, match="ours"):
        execute(Job("def run(): get_balance()", [], answer=fail), USUAL)
    wait_for(lambda: not children() - others, "every process of the sandbox ends", 5.0)


def test_code_may_run_code_and_all_of_it_has_one_deadline_and_one_cpu_time(sandbox: None) -> None:
    cpu = CpuTime(most=20.0)
    used: list[float] = []
    deadline = time.monotonic() + 20.0

    def nest(call: Call) -> JsonValue:
        used.append(cpu.used)
        source = "def run(n):\n    sum(range(1000000))\n    return invoke('x', n - 1) + 1 if n else 0"
        args = call.args[2]
        assert isinstance(args, list)
        return execute(Job(source, args, answer=nest), USUAL, cpu, deadline).result

    job = Job("def run(n): return invoke('x', n)", [4], answer=nest)
    assert execute(job, USUAL, cpu, deadline).result == 4
    assert used == sorted(used)
    assert used[-1] > used[1] > used[0]
    assert cpu.used == cpu.ended > used[-1]


def test_code_within_code_ends_at_the_deadline_of_all(sandbox: None) -> None:
    def nest(call: Call) -> JsonValue:
        inner = execute(Job("def run():\n    while True: pass", []), USUAL, CpuTime(), deadline)
        return inner.code

    deadline = time.monotonic() + 1.0
    job = Job("def run(): return invoke('x')", [], answer=nest)
    assert execute(job, USUAL, CpuTime(), deadline).code == "timeout"
    assert time.monotonic() < deadline + 3.0


def test_code_within_code_uses_up_the_cpu_time_of_all(sandbox: None) -> None:
    cpu = CpuTime(most=0.3)

    def nest(call: Call) -> JsonValue:
        return execute(Job("def run():\n    while True: pass", []), USUAL, cpu).code

    job = Job("def run(): return invoke('x')", [], answer=nest)
    assert execute(job, USUAL, cpu).code == "rate_limited"
    assert 0.3 - ENDING_S <= cpu.used < 1.0


def test_an_answer_that_takes_too_long_is_a_timeout(sandbox: None) -> None:
    def late(call: Call) -> JsonValue:
        ends = time.monotonic() + 0.3
        wait_for(lambda: time.monotonic() > ends, "the time is over", 5.0)
        return 1

    ended = execute(Job("def run(): return get_balance()", [], answer=late), USUAL._replace(timeout=0.3))
    assert ended.code == "timeout"


def test_code_stands_still_while_it_is_answered(sandbox: None) -> None:
    others = children()
    spins = "import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()\n"

    def look(call: Call) -> JsonValue:
        (bubblewrap,) = children() - others
        (inside,) = Path(f"/proc/{bubblewrap}/task/{bubblewrap}/children").read_text().split()
        for task in Path(f"/proc/{inside}/task").iterdir():
            stat = task / "stat"
            wait_for(lambda stat=stat: stat.read_text().rpartition(")")[2].split()[0] == "T", "it stands", 5.0)  # type: ignore[misc]  # fmt: skip
        return len(list(Path(f"/proc/{inside}/task").iterdir()))

    assert execute(Job(f"{spins}def run(): return get_balance()", [], answer=look), USUAL).result == 2


def test_nothing_is_answered_after_the_answer_of_the_code(sandbox: None) -> None:
    scripted = Scripted()
    source = 'import os\ndef run(): os.write(1, b\'{"result": 1}\\n{"call": 1, "name": "get_balance", "args": []}\\n\')'
    assert execute(Job(source, [], answer=scripted), USUAL).result == 1
    assert scripted.asked == []


def test_a_worker_is_used_once(sandbox: None) -> None:
    job = b'{"code": "def run(): return 1", "args": []}'
    with Worker(USUAL) as worker:
        assert worker.run(job).result == 1
        with pytest.raises(RuntimeError, match="used once"):
            worker.run(job)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (line(1, "pay", "", 1), "pay: to must be a text of 1 to 128 characters without control characters"),
        (line(1, "pay", "x" * 129, 1), "pay: to must be"),
        (line(1, "pay", "a\x1b", 1), "pay: to must be"),
        (line(1, "pay", 7, 1), "pay: to must be"),
        (line(1, "invoke", "a", "x" * 65, []), "invoke: method must be a text of 1 to 64 characters"),
        (line(1, "invoke", "a", "run", {}), "invoke: args must be a list"),
        (line(1, "kernel_actions.write_artifact", "a", "b", 5, "c"), "kernel_actions.write_artifact: content must be text"),
        (line(1, "pay", "a", 1 << 70), "the call "),
        (b'{"call": 1, "name": "pay", "args": ["a", NaN]}', "the call "),
        (b'{"call": 1, "call": 1, "name": "get_balance", "args": []}', "the call "),
        (b'{"call": 1, ' + b"[" * 100000, "the call "),
    ],
)  # fmt: skip
def test_a_call_with_a_wrong_value_is_refused_before_it_is_answered(said: bytes, error: str) -> None:
    scripted = Scripted()
    reply = json.loads(Calls(scripted).reply(said))
    assert list(reply) == ["error"]
    assert reply["error"].startswith(error)
    assert scripted.asked == []


@pytest.mark.parametrize(
    "said",
    [
        line(2, "get_balance"),
        line(0, "get_balance"),
        line(1, "mint", "a", 1),
        line(1, "get_balance", "a"),
        line(1, "pay", "a"),
        b'{"call": true, "name": "get_balance", "args": []}',
        b'{"call": 1.0, "name": "get_balance", "args": []}',
        b'{"call": 1, "name": "get_balance", "args": {}}',
        b'{"call": 1, "name": "get_balance"}',
        b'{"call": 1, "name": "get_balance", "args": [], "caller_id": "a"}',
        b'{"call": 1, "result": 1}',
        b'{"call": "\xff"}',
    ],
)
def test_a_call_that_only_the_code_can_have_written_ends_it(said: bytes) -> None:
    scripted = Scripted()
    with pytest.raises(EndExecution, match="wrote over its own calls") as ended:
        Calls(scripted).reply(said)
    assert ended.value.code == "runtime_error"
    assert scripted.asked == []


def test_calls_their_bytes_and_the_bytes_of_answers_are_bounded() -> None:
    scripted = Scripted()
    calls = Calls(scripted)
    for number in range(1, MOST_CALLS + 1):
        assert calls.reply(line(number, "get_balance")) == b'{"value": null}\n'
    with pytest.raises(EndExecution, match=f"more than {MOST_CALLS} times"):
        calls.reply(line(MOST_CALLS + 1, "get_balance"))
    assert len(scripted.asked) == MOST_CALLS

    with pytest.raises(EndExecution, match="an answer to the code is larger"):
        Calls(Scripted(lambda _: "x" * MOST_LINE)).reply(line(1, "get_balance"))

    half = "x" * (MOST_LINE // 2)
    calls = Calls(Scripted(lambda _: half))
    large = [line(n, "kernel_actions.write_artifact", "a", "b", half, "c") for n in range(1, 17)]
    for each in large[: MOST_EXCHANGED // MOST_LINE - 1]:
        calls.reply(each)
    with pytest.raises(EndExecution, match="calls and their answers are larger") as ended:
        calls.reply(large[MOST_EXCHANGED // MOST_LINE - 1])
    assert ended.value.code == "output_limit"
