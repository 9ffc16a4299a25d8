"""The exchange as people and runs use it, against a real daemon."""

import json
import re
import sys
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place, Result
from tests.waiting import wait_for

from runward.config.exchange import Executor
from runward.config.json_value import JsonValue
from runward.daemon.sandbox.workers import Job, execute

WRITE = {"action_type": "write_artifact", "artifact_id": "note", "content": "hello", "reasoning": "to share"}


def exchange(place: Place, *words: str) -> Result:
    return place.call("exchange", *words)


def run(place: Place, *command: str) -> int:
    """Run a command as the agent `writer`; returns its exit code."""
    process = place.start("run", "--agent", "writer", "--name", "one", "--", *command)
    process.communicate()
    return process.returncode


def test_agents_share_and_pay_and_are_refused(place: Place) -> None:
    with place.daemon():
        assert exchange(place, "principal", "create", "writer", "--scrip", "100").out == "created writer\n"
        exchange(place, "principal", "create", "reader", "--scrip", "10")
        written = exchange(
            place, "artifact", "write", "paper", "--as", "writer", "--content", "so it is",
            *("--policy", '{"read_price": 4, "allow_read": ["reader"]}', "--reason", "to earn"),
        )  # fmt: skip
        assert (written.code, written.out) == (0, "wrote paper\n")
        assert exchange(place, "artifact", "read", "paper", "--as", "reader").out == "so it is\n"
        exchange(place, "principal", "create", "third")
        refused = exchange(place, "artifact", "read", "paper", "--as", "third", "--json")
        assert (refused.code, refused.object()["error_code"]) == (1, "not_authorized")
        (listed,) = exchange(place, "artifact", "list", "--type", "generic", "--json").objects()
        assert (listed["size"], "content" in listed) == (8, False)
        found = exchange(place, "invoke", "genesis_store", "search", "paper", "--as", "third")
        assert [each["size"] for each in json.loads(found.out)] == [8]
        balance = exchange(place, "invoke", "genesis_ledger", "balance", "writer", "--as", "reader")
        assert json.loads(balance.out) == {"id": "writer", "scrip": 104}
        shown = exchange(place, "principal", "show", "reader", "--json").object()
        assert (shown["scrip"], shown["is_agent"], shown["artifacts"]) == (6, False, ["reader"])
        assert exchange(place, "mint", "reader", "5", "--reason", "for fun").code == 0
        assert exchange(place, "mint", "reader", "--", "-100").code == 1
        assert "add up; 115 scrip" in exchange(place, "ledger", "--check").out
        entries = exchange(place, "ledger", "--principal", "reader", "--json").objects()
        assert [(each["from"], each["amount"]) for each in entries] == [
            ("mint", 10),
            ("reader", 4),
            ("mint", 5),
        ]
        assert exchange(place, "artifact", "transfer", "paper", "third", "--as", "writer").code == 0
        assert exchange(place, "artifact", "delete", "paper", "--as", "third").code == 0
        assert exchange(place, "artifact", "list", "--json").out.count('"paper"') == 0
        assert "deleted" in exchange(place, "artifact", "list", "--deleted").out
        logged = exchange(place, "log", "--artifact", "paper").out.splitlines()
        assert len(logged) == 5
        assert "“to earn”" in logged[0]
        assert len({line.index("“") if "“" in line else line.index("(no reasoning)") for line in logged}) == 1
        assert "not_authorized" in logged[2]
        for kind in (("exchange", "log", "--json"), ("why", "artifact:paper", "--json")):
            told = place.call(*kind).out
            assert ("not_authorized" in told, "so it is" in told) == (True, False), (
                "others paid for its content"
            )
        why = place.call("why", "principal:reader")
        assert "minted" in why.out, why
        causes = place.call("why", "artifact:paper").out
        assert len(re.findall(r"^\d{4}-.* action    \w+: ", causes, re.MULTILINE)) == 5, (
            "each action has its time"
        )


def test_a_run_acts_by_writing_lines_and_reads_what_became_of_them(place: Place) -> None:
    script = place.directory / "agent.py"
    script.write_text(
        "import json, os, time\n"
        "run = os.environ['RUNWARD_RUN_DIR']\n"
        f"open(run + '/intents.jsonl', 'a').write(json.dumps({WRITE!r}) + '\\n')\n"
        "while not os.path.exists(run + '/results.jsonl') or not open(run + '/results.jsonl').read():\n"
        "    time.sleep(0.01)\n"
        "print(json.loads(open(run + '/results.jsonl').readline())['result']['success'])\n"
    )
    with place.daemon():
        assert exchange(place, "principal", "create", "writer").code == 0
        assert run(place, sys.executable, str(script)) == 0
        assert place.call("session", "logs", "one").out == "True\n"
        (action,) = exchange(place, "log", "--json").objects()
        assert (action["session_key"], action["line"], action["principal_id"]) == (
            "native:runs/one",
            1,
            "writer",
        )
        story = place.call("why", "one", "--json").out
        assert ("IntentMade" in story, str(WRITE["content"]) in story) == (True, False)
        wait_for(
            lambda: exchange(place, "artifact", "show", "note", "--json").object()["owner_id"] == "writer",
            "the artifact",
        )
    refused = place.start("run", "--agent", "nobody", "--", "true")
    said = refused.communicate()[1]
    assert (refused.returncode, "nobody" in said) == (3, True), "neither an agent nor a principal"
    for name in ("note", "Writer"):
        refused = place.start("run", "--agent", name, "--", "true")
        said = refused.communicate()[1]
        assert (refused.returncode, "is taken in the exchange" in said) == (2, True), said


def test_a_run_that_rewrites_its_intents_is_named_by_session_show(place: Place) -> None:
    script = place.directory / "agent.py"
    script.write_text(
        "import json, os, time\n"
        "run = os.environ['RUNWARD_RUN_DIR']\n"
        "def lines(name): return os.path.exists(run + name) and open(run + name).read().count(chr(10))\n"
        f"open(run + '/intents.jsonl', 'a').write(json.dumps({WRITE!r}) + '\\n')\n"
        "while not lines('/results.jsonl'):\n"
        "    time.sleep(0.01)\n"
        f"open(run + '/intents.jsonl', 'w').write(json.dumps({WRITE | {'content': 'HELLO'}!r}) + '\\n' * 2)\n"
    )
    with place.daemon():
        assert exchange(place, "principal", "create", "writer").code == 0
        assert run(place, sys.executable, str(script)) == 0
        wait_for(lambda: place.call("session", "show", "one", "--json").object()["problems"], "the problem")
    (problem,) = place.call("session", "show", "one", "--json").items("problems")
    assert str(problem["path"]).endswith("/one/intents.jsonl")
    assert str(problem["message"]).startswith("was rewritten or truncated: ")
    assert "intents.jsonl:2: was rewritten or truncated: " in place.call("session", "show", "one").out
    (told,) = exchange(place, "log", "--json").objects()
    assert told["line"] == 1, "what was appended before is carried out once"


def test_intents_are_submitted_one_after_another(place: Place) -> None:
    file = place.directory / "todo.jsonl"
    lines: list[dict[str, JsonValue]] = [
        {**WRITE, "principal_id": "writer"},
        {"action_type": "read_artifact", "artifact_id": "note"},
        {"action_type": "fly"},
    ]
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    tried = exchange(place, "submit", str(file), "--dry-run")
    said = [json.loads(line) for line in tried.out.splitlines()]
    assert (tried.code, said[0]["intent"]["artifact_type"]) == (1, "generic")
    assert said[2]["error"].startswith("action_type must be one of")
    with place.daemon():
        exchange(place, "principal", "create", "writer")
        done = exchange(place, "submit", str(file))
        codes = [json.loads(line).get("error_code") for line in done.out.splitlines()]
        assert (done.code, codes) == (1, [None, "invalid_argument", "invalid_argument"])
        done = exchange(place, "submit", str(file), "--as", "writer")
        codes = [json.loads(line).get("error_code") for line in done.out.splitlines()]
        assert codes == [None, None, "invalid_argument"]


def test_without_a_daemon_nothing_is_sent_that_needs_a_result(place: Place) -> None:
    place.daemon_once()
    read = ("artifact", "read", "note", "--as", "writer")
    assert exchange(place, *read).code == 75
    assert exchange(place, "submit", "-", "--as", "writer").code == 75
    created = exchange(place, "principal", "create", "writer")
    assert (created.code, "when one starts" in created.err) == (0, True)
    assert exchange(place, *read, "--no-wait").out == ""
    place.daemon_once()
    assert "writer" in exchange(place, "principal", "list").out
    assert "not_found" in exchange(place, "log").out


def test_each_help_on_artifacts_names_the_other(place: Place) -> None:
    assert "`runward artifact`" in exchange(place, "artifact", "--help").out
    assert "`runward exchange artifact`" in place.call("artifact", "--help").out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("artifact", "show", "nothing"), 3),
        (("artifact", "show", "genesis_ledger"), 0),
        (("principal", "show", "nobody"), 3),
        (("principal", "create", "genesis_x"), 2),
        (("principal", "create", "mint"), 2),
        (("principal", "create", "a", "--disk", "much"), 2),
        (("principal", "create", "a", "--cpu", "much"), 2),
        (("principal", "create", "a", "--agent-config", "x"), 2),
        (("mint", "writer", "0"), 2),
        (("mint", "writer", "1.5"), 2),
        (("artifact", "write", "a", "--as", "b", "--content", "x", "--content-file", "y"), 2),
        (("artifact", "write", "a", "--as", "b", "--policy", "{"), 2),
        (("artifact", "write", "a", "--as", "b", "--executable"), 2),
        (("artifact", "write", "a", "--as", "b", "--content-file", "gone"), 3),
        (("submit", "gone.jsonl", "--dry-run"), 3),
        (("ledger", "--check"), 0),
        (("log",), 0),
    ],
)
def test_a_command_that_is_wrong_says_so(place: Place, words: tuple[str, ...], code: int) -> None:
    place.daemon_once()
    ended = exchange(place, *words)
    assert ended.code == code, ended
    assert "Traceback" not in ended.err


def test_in_a_run_a_command_acts_only_as_the_runs_own_agent(place: Place) -> None:
    program = Path(sys.executable).parent / "runward"
    script = f"{program} exchange artifact read note --as other; echo $?"
    with place.daemon():
        for name in ("writer", "other"):
            exchange(place, "principal", "create", name)
        assert run(place, "sh", "-c", script) == 0
        logs = place.call("session", "logs", "one", "--stderr").out
        assert "this run acts as writer, so it can't act as other" in logs
    assert "read_artifact" not in exchange(place, "log").out


COUNTER = """
def run(text):
    return len(text.split())

def who():
    return caller_id

def look():
    note = kernel_state.get_artifact_metadata("counter")
    return [get_balance(), kernel_state.get_balance("writer"), kernel_state.list_artifacts_by_owner("writer"),
            "code" in note, note["version"], kernel_state.get_artifact_metadata("nothing")]

def steal():
    return kernel_actions.transfer_scrip(caller_id, "writer", 1)

def loop():
    while True:
        pass
"""


@pytest.fixture
def sandbox() -> None:
    """Skips where this machine can't run code."""
    ended = execute(Job("def run(): return 1", ()), Executor())
    if ended.code == "not_configured":
        pytest.skip(f"this machine has no sandbox: {ended.error}")


@pytest.mark.usefixtures("sandbox")
def test_code_is_run_in_the_sandbox_and_paid_for(place: Place) -> None:
    (place.directory / "counter.py").write_text(COUNTER)
    with place.daemon():
        exchange(place, "principal", "create", "writer")
        exchange(place, "principal", "create", "reader", "--scrip", "10", "--cpu", "0.3")
        written = exchange(
            place, "artifact", "write", "counter", "--as", "writer", "--code-file", "counter.py", "--executable",
            *("--price", "2", "--interface", '{"methods": ["who", "loop", "look", "steal"], "inputSchema": {"type": 7}}'),
        )  # fmt: skip
        assert written.code == 0, written
        problem = exchange(place, "artifact", "show", "counter", "--json").object()["interface_problems"]
        assert "inputSchema: is not a JSON Schema: type: 7 is not valid" in str(problem)
        assert "problem    inputSchema: " in exchange(place, "artifact", "show", "counter").out
        counted = exchange(place, "invoke", "counter", "--as", "reader", "three short words", "--json")
        data = counted.object()["data"]
        assert data == {"result": 3, "price_paid": 2, "owner": "writer"}, counted
        assert exchange(place, "invoke", "counter", "who", "--as", "reader").out == "reader\n"
        word = place.call("exchange", "invoke", "counter", "hello", "--as", "reader")
        assert (word.code, "hello was taken as the method" in word.err) == (1, True)
        seen = json.loads(exchange(place, "invoke", "counter", "look", "--as", "writer").out)
        assert seen == [0, 4, ["counter", "writer"], False, 1, None]
        assert exchange(place, "invoke", "counter", "steal", "--as", "reader").out == "false\n"
        looped = exchange(place, "invoke", "counter", "loop", "--as", "reader", "--json").object()
        assert looped["error_code"] == "rate_limited", looped
        assert exchange(place, "invoke", "counter", "who", "--as", "reader").code == 1
        shown = exchange(place, "principal", "show", "reader", "--json").object()
        cpu = shown["cpu"]
        assert isinstance(cpu, dict)
        assert float(str(cpu["used_s"])) >= 0.2
        assert shown["scrip"] == 4, "what failed cost no scrip"
        (_, logged, *_) = exchange(place, "log", "--artifact", "counter", "--json").objects()
        assert logged["sandbox"] == "bubblewrap+seccomp"


LEAK = """
def run():
    raise ValueError(kernel_state.read_artifact("paid", caller_id))
def check_permission(caller, action, target, context):
    return {"allowed": False, "reason": "not the TOPSECRET one"}
"""


@pytest.mark.usefixtures("sandbox")
def test_what_code_says_when_it_fails_is_shown_only_to_its_caller(place: Place) -> None:
    (place.directory / "leak.py").write_text(LEAK)
    settings = place.directory / "runward.toml"
    settings.write_text(f"{settings.read_text()}\n[exchange]\nuse_contracts = true\n")
    code = ("--code-file", "leak.py", "--executable", "--price", "0")
    open_to_all = '{"read_price": 10, "allow_read": "*"}'
    with place.daemon():
        exchange(place, "principal", "create", "writer")
        exchange(place, "principal", "create", "reader", "--scrip", "100")
        paid = ("artifact", "write", "paid", "--as", "writer", "--content", "TOPSECRET")
        assert exchange(place, *paid, "--policy", open_to_all).code == 0
        assert exchange(place, "artifact", "write", "leak", "--as", "reader", *code).code == 0
        shut = ("artifact", "write", "shut", "--as", "writer", "--content", "x", "--access-contract", "leak")
        assert exchange(place, *shut).code == 0
        failed = exchange(place, "invoke", "leak", "--as", "reader", "--json").object()
        assert "TOPSECRET" in str(failed["message"]), "its caller paid"
        denied = exchange(place, "artifact", "read", "shut", "--as", "reader", "--json").object()
        assert (denied["error_code"], "TOPSECRET" in str(denied["message"])) == ("not_authorized", True)
        for name, error in {"leak": "runtime_error", "shut": "not_authorized"}.items():
            for kind in (("exchange", "log", "--artifact", name), ("why", f"artifact:{name}")):
                for told in (place.call(*kind).out, place.call(*kind, "--json").out):
                    assert (error in told, "TOPSECRET" in told) == (True, False), told
        assert "TOPSECRET" not in place.call("why", "principal:reader", "--json").out


SHOP = """
def run(text):
    counted = context.dependencies["counter"].invoke(text)
    pay("writer", 1)
    kernel_actions.write_artifact(caller_id, "receipt", f"{counted['result']} words for {counted['price_paid']}")
    assert [invoker, invoke("asker")["result"]] == [None, "shop"]
    return [counted["success"], get_balance(), kernel_state.read_artifact("receipt", caller_id)]
"""
ASKER = """
def run():
    return invoker
"""
CURIOUS = """
def run():
    return sum(kernel_state.get_balance(f"id{each}") for each in range(1200))
"""
NIGHT = """
def check_permission(caller, action, target, context):
    if context["now"] > 4_000_000_000:
        return {"allowed": True, "reason": "it is night", "cost": 1}
    return {"allowed": False, "reason": f"{caller} is too early"}
"""


@pytest.mark.usefixtures("sandbox")
def test_code_invokes_pays_and_writes_and_a_contract_decides(place: Place) -> None:
    for name, text in {
        "counter.py": COUNTER,
        "shop.py": SHOP,
        "asker.py": ASKER,
        "curious.py": CURIOUS,
        "night.py": NIGHT,
    }.items():
        (place.directory / name).write_text(text)
    settings = place.directory / "runward.toml"
    # This test is not about how long code may take: a busy machine needs more than the usual five seconds.
    settings.write_text(
        f'{settings.read_text()}\n[exchange]\nuse_contracts = true\nexecutor = {{timeout = "60s"}}\n'
    )
    file = ("contract", "check", "night.py", "--caller", "reader", "--action", "read", "--target", "secret")
    first = exchange(place, *file, "--context", '{"now": 4000000001}')
    assert (first.code, first.out) == (0, "allowed: it is night (cost: 1)\n"), "no daemon ever ran here"

    def write(name: str, owner: str, *further: str) -> None:
        words = (
            "artifact",
            "write",
            name,
            "--as",
            owner,
            "--code-file",
            f"{name}.py",
            "--executable",
            "--price",
            "2",
        )
        written = exchange(place, *words, *further)
        assert written.code == 0, written

    def invoke(*words: str) -> JsonValue:
        return exchange(place, "invoke", *words, "--as", "reader", "--json").object()["data"]

    with place.daemon():
        for name, scrip in {"writer": "0", "seller": "0", "reader": "20"}.items():
            exchange(place, "principal", "create", name, "--scrip", scrip)
        write("counter", "writer")
        write("shop", "seller", "--depends-on", "counter")
        write("asker", "seller")
        write("night", "writer")
        write("curious", "writer")
        much = exchange(place, "invoke", "curious", "--as", "reader", "--json").object()
        assert much["error_code"] == "runtime_error"
        assert much["message"] == "the call tree read more than 600 different things"
        assert (
            exchange(
                place, "invoke", "genesis_ledger", "transfer", "reader", "shop", ":=5", "--as", "reader"
            ).code
            == 0
        )
        alone = invoke("shop", "two words")
        assert alone == {"result": [True, 4, None], "price_paid": 2, "owner": "seller"}, "nothing was lent"
        lent = invoke("shop", "two words", "--delegate")
        assert lent == {"result": [True, 3, "2 words for 2"], "price_paid": 2, "owner": "seller"}
        balances = exchange(place, "invoke", "genesis_ledger", "all_balances", "--as", "reader").object()
        assert balances == {"writer": {"scrip": 6}, "seller": {"scrip": 8}, "reader": {"scrip": 3}}
        gated = (
            "artifact",
            "write",
            "secret",
            "--as",
            "writer",
            "--content",
            "x",
            "--access-contract",
            "night",
        )
        assert exchange(place, *gated).code == 0
        refused = exchange(place, "artifact", "read", "secret", "--as", "reader", "--json").object()
        assert (refused["error_code"], "reader is too early" in str(refused["message"])) == (
            "not_authorized",
            True,
        )
        assert exchange(place, "ledger", "--check").code == 0
    check = ("contract", "check", "night", "--caller", "reader", "--action", "read", "--target", "secret")
    early = exchange(place, *check, "--json")
    assert (early.code, early.object()) == (1, {"allowed": False, "reason": "reader is too early", "cost": 0})
    late = exchange(place, *check, "--context", '{"now": 4000000001}', "--json")
    assert (late.code, late.object()) == (0, {"allowed": True, "reason": "it is night", "cost": 1})
    tried = exchange(place, "contract", "check", "night.py", *check[3:])
    assert (tried.code, tried.out) == (1, "not allowed: reader is too early\n")
    own = exchange(
        place, "contract", "check", "private", "--caller", "writer", "--action", "write", "--target", "secret"
    )
    assert (own.code, own.out.startswith("allowed: ")) == (0, True)
