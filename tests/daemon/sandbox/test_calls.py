"""What running code asks of the daemon: what reaches the function that answers, and what the code gets."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.sandbox.test_escapes import children
from tests.waiting import wait_for

from runward.config.executor import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox.calls import (
    CALLS,
    MOST_CALLS,
    MOST_EXCHANGED,
    MOST_LINE,
    Call,
    Calls,
    EndExecution,
    NotAnswered,
)
from runward.daemon.sandbox.workers import NoSandbox, Worker, execute

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
        source, [], USUAL, names={"caller_id": "ann"}, answer=scripted, dependencies=["helper", "other"]
    )
    assert (ended.code, ended.error) == (None, None)
    assert scripted.what == [(name, args) for _, name, args in ASKED]
    assert ended.result == [{"asked": name} for _, name, _ in ASKED]
    assert {name for _, name, _ in ASKED} == set(CALLS)


def test_code_knows_its_dependencies_and_no_others(sandbox: None) -> None:
    source = "def run(): return sorted(context.dependencies)"
    assert execute(source, [], USUAL, answer=Scripted(), dependencies=["b", "a"]).result == ["a", "b"]
    assert execute(source, [], USUAL, answer=Scripted()).result == []
    source = "def run(): return context.dependencies['c'].invoke()"
    assert execute(source, [], USUAL, answer=Scripted(), dependencies=["b"]).code == "runtime_error"


def test_code_that_may_not_ask_has_no_such_names(sandbox: None) -> None:
    names = ("get_balance", "pay", "invoke", "context", "kernel_state", "kernel_actions")
    source = f"def run(): return [name for name in {names} if name in globals()]"
    assert execute(source, [], USUAL).result == []
    assert execute(source, [], USUAL, answer=Scripted()).result == list(names)


def test_a_definition_may_ask_too(sandbox: None) -> None:
    assert (
        execute("has = get_balance()\ndef run(): return has", [], USUAL, answer=Scripted(lambda _: 3)).result
        == 3
    )


def test_code_can_catch_a_refusal_and_go_on(sandbox: None) -> None:
    def refuse(call: Call) -> JsonValue:
        if call.name == "pay":
            raise NotAnswered("not today")
        return 4

    source = "def run():\n    try: pay('bob', 1)\n    except ValueError as error: return [str(error), get_balance()]"
    assert execute(source, [], USUAL, answer=refuse).result == ["not today", 4]
    ended = execute("def run(): pay('bob', 1)", [], USUAL, answer=refuse)
    assert (ended.code, ended.error) == ("runtime_error", "ValueError: not today (line 1)")


def test_code_can_not_catch_its_end_and_is_measured(sandbox: None) -> None:
    def end(call: Call) -> JsonValue:
        raise EndExecution("rate_limited", "nothing is left")

    source = "def run():\n    try: pay('bob', sum(range(3000000)))\n    except BaseException: return 1"
    ended = execute(source, [], USUAL, answer=end)
    assert (ended.code, ended.error, ended.began) == ("rate_limited", "nothing is left", True)
    assert ended.cpu_s > 0.005


def test_an_error_of_the_function_that_answers_is_raised_and_leaves_no_process(sandbox: None) -> None:
    def fail(call: Call) -> JsonValue:
        raise LookupError("ours")

    others = children()
    with pytest.raises(LookupError, match="ours"):
        execute("def run(): get_balance()", [], USUAL, answer=fail)
    wait_for(lambda: not children() - others, "every process of the sandbox ends", 5.0)


def test_code_may_run_code_which_has_the_time_that_is_left(sandbox: None) -> None:
    left: list[float] = []

    def nest(call: Call) -> JsonValue:
        left.append(call.left_s)
        inner = USUAL._replace(timeout=call.left_s)
        return execute("def run(n): return invoke('x', n - 1) + 1 if n else 0", call.args[2] or [], inner, answer=nest).result  # type: ignore[arg-type]  # fmt: skip

    assert execute("def run(n): return invoke('x', n)", [4], USUAL, answer=nest).result == 4
    assert USUAL.timeout > left[0] > left[1] > left[2] > left[3] > left[4] > 0


def test_an_answer_that_takes_too_long_is_a_timeout(sandbox: None) -> None:
    def late(call: Call) -> JsonValue:
        ends = time.monotonic() + call.left_s
        wait_for(lambda: time.monotonic() > ends, "the time is over", 5.0)
        return 1

    ended = execute("def run(): return get_balance()", [], USUAL._replace(timeout=0.3), answer=late)
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

    assert execute(f"{spins}def run(): return get_balance()", [], USUAL, answer=look).result == 2


def test_nothing_is_answered_after_the_answer_of_the_code(sandbox: None) -> None:
    scripted = Scripted()
    source = 'import os\ndef run(): os.write(1, b\'{"result": 1}\\n{"call": 1, "name": "get_balance", "args": []}\\n\')'
    assert execute(source, [], USUAL, answer=scripted).result == 1
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
    reply = json.loads(Calls(scripted).reply(said, 1.0))
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
        Calls(scripted).reply(said, 1.0)
    assert ended.value.code == "runtime_error"
    assert scripted.asked == []


def test_calls_their_bytes_and_the_bytes_of_answers_are_bounded() -> None:
    scripted = Scripted()
    calls = Calls(scripted)
    for number in range(1, MOST_CALLS + 1):
        assert calls.reply(line(number, "get_balance"), 1.0) == b'{"value": null}\n'
    with pytest.raises(EndExecution, match=f"more than {MOST_CALLS} times"):
        calls.reply(line(MOST_CALLS + 1, "get_balance"), 1.0)
    assert len(scripted.asked) == MOST_CALLS

    with pytest.raises(EndExecution, match="an answer to the code is larger"):
        Calls(Scripted(lambda _: "x" * MOST_LINE)).reply(line(1, "get_balance"), 1.0)

    half = "x" * (MOST_LINE // 2)
    calls = Calls(Scripted(lambda _: half))
    large = [line(n, "kernel_actions.write_artifact", "a", "b", half, "c") for n in range(1, 17)]
    for each in large[: MOST_EXCHANGED // MOST_LINE - 1]:
        calls.reply(each, 1.0)
    with pytest.raises(EndExecution, match="calls and their answers are larger") as ended:
        calls.reply(large[MOST_EXCHANGED // MOST_LINE - 1], 1.0)
    assert ended.value.code == "output_limit"
