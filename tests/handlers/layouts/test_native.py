"""What the native layout's documents say, plain and hostile ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.flow import Leg
from runward.config.json_value import JsonValue
from runward.handlers.layouts import native
from runward.handlers.layouts.native import Ended, Item, Planned, ProcessNamed, Started, scan
from runward.handlers.model.files import Signature
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.reasons import status_of
from runward.handlers.model.sessions import AttemptStarted, Complaint, Document
from runward.handlers.model.stored import as_json
from runward.handlers.registry import load_payload

PATH = "/runs/alpha"
SIGNATURE = Signature(7, 100, 1_000_000_000, 1, 77)
PROCESS: dict[str, JsonValue] = {"pid": 42, "start_ticks": 9, "boot_id": "b-1"}


def document(name: str, value: JsonValue | bytes, modified_at: float = 500.0) -> Document:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Document(name, SIGNATURE, modified_at, content)


def run(**said: JsonValue) -> Document:
    return document("run.json", {"schema": "runward-run-v1", **said})


def items(*documents: Document) -> list[Item]:
    return list(scan("runs", PATH, documents))


def start_of(found: list[Item]) -> Started:
    (only,) = [item for item in found if isinstance(item, Started)]
    return only


def complaints_in(found: list[Item]) -> list[str]:
    return [item.message for item in found if isinstance(item, Complaint)]


def the_end(value: JsonValue) -> Ended:
    (only,) = items(document("exit.json", value))
    assert isinstance(only, Ended)
    return only


def refused(name: str, value: JsonValue | bytes) -> Complaint:
    (only,) = items(document(name, value))
    assert isinstance(only, Complaint)
    assert only.file == name
    assert only.fix
    return only


def test_the_smallest_run_is_named_after_its_directory_and_began_when_it_was_written() -> None:
    found = items(run())
    started = start_of(found)
    said = started.declaration
    assert complaints_in(found) == []
    assert (said.session_id, said.kind, said.artifacts_path) == ("alpha", "agent", "/runs/alpha/artifacts")
    assert (said.playbook, said.agent, said.has_snapshot, said.contract) == (None, None, False, None)
    assert (started.at, started.launcher, started.host) == (500.0, None, None)


def test_what_a_full_run_says_is_taken_over() -> None:
    found = items(
        run(
            session_id="s-1",
            kind="flow",
            playbook="review",
            agent="reviewer",
            invocation_id="inv_1",
            containment="cgroup",
            started_at="1970-01-01T00:01:00Z",
            host="box",
            launcher=PROCESS,
            artifacts_path="/elsewhere/out",
            contract={"expected": []},
            metadata={"anything": [1, 2]},
        )
    )
    started = start_of(found)
    said = started.declaration
    assert complaints_in(found) == []
    assert (said.session_id, said.kind, said.playbook, said.agent) == ("s-1", "flow", "review", "reviewer")
    assert (said.invocation_id, said.containment, said.artifacts_path) == (
        "inv_1",
        "cgroup",
        "/elsewhere/out",
    )
    assert (said.has_snapshot, said.contract) == (True, {"expected": []})
    assert (started.at, started.launcher, started.host) == (60.0, RecordedProcess(42, 9, "b-1"), "box")


def test_an_explicit_null_contract_is_told_from_silence() -> None:
    assert start_of(items(run(contract=None))).declaration.has_snapshot
    assert not start_of(items(run())).declaration.has_snapshot


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("out", "/runs/alpha/out"),
        ("out/deep", "/runs/alpha/out/deep"),
        ("..", None),
        ("../beta/artifacts", None),
        ("out/../..", None),
        ("./out", None),
        ("out//deep", None),
        ("out/", None),
        ("", None),
        (".", None),
        ("a\0b", None),
        ("x" * 4097, None),
        (7, None),
        (True, None),
        (["out"], None),
        ("/elsewhere", None),
    ],
)
def test_only_a_launcher_may_name_a_place_outside_the_run(path: JsonValue, expected: str | None) -> None:
    found = items(run(artifacts_path=path))
    said = start_of(found).declaration
    assert said.artifacts_path == (expected or "/runs/alpha/artifacts")
    assert len(complaints_in(found)) == (expected is None)


def test_an_absolute_artifacts_path_needs_a_launcher_that_is_one() -> None:
    believed = items(run(artifacts_path="/elsewhere", launcher=PROCESS))
    invented = items(run(artifacts_path="/elsewhere", launcher={"pid": "42"}))
    assert start_of(believed).declaration.artifacts_path == "/elsewhere"
    assert start_of(invented).declaration.artifacts_path == "/runs/alpha/artifacts"
    assert len(complaints_in(invented)) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("session_id", ""),
        ("session_id", 7),
        ("session_id", True),
        ("session_id", "x" * 5000),
        ("session_id", "a\0b"),
        ("playbook", ["review"]),
        ("agent", {}),
        ("kind", "daemon"),
        ("kind", ["agent"]),
        ("kind", None),
        ("started_at", "yesterday"),
        ("started_at", 12345),
        ("started_at", "2026-01-31T12:00:00"),
        ("started_at", "0001-01-01T00:00:00+09:00"),
        ("launcher", 42),
        ("launcher", {"pid": True, "start_ticks": 1, "boot_id": "b"}),
        ("launcher", {"pid": 0, "start_ticks": 1, "boot_id": "b"}),
        ("launcher", {"pid": 2**31, "start_ticks": 1, "boot_id": "b"}),
        ("launcher", {"pid": 1, "start_ticks": 10**30, "boot_id": "b"}),
        ("launcher", {"pid": 1, "start_ticks": 1.0, "boot_id": "b"}),
        ("launcher", {"pid": 1, "start_ticks": 1, "boot_id": ""}),
        ("launcher", {"pid": 1, "start_ticks": 1, "boot_id": "b" * 65}),
    ],
)
def test_one_wrong_field_is_complained_of_and_the_run_counts_without_it(key: str, value: JsonValue) -> None:
    found = items(run(**{key: value}))
    started = start_of(found)
    assert len(complaints_in(found)) == 1
    assert key in complaints_in(found)[0]
    assert started.declaration == start_of(items(run())).declaration
    assert (started.at, started.launcher) == (500.0, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"[]", "not contain a JSON object"),
        (b'"run"', "not contain a JSON object"),
        (b'{"schema": "runward-run-v1", "schema": "runward-run-v1"}', "appears twice"),
        (b'{"schema": "runward-run-v1", "timeout": NaN}', "NaN"),
        (b'{"schema": "runward-run-v1", "timeout": 1e999}', "not a number"),
        (b'{"schema": "runward-run-v1", "metadata": ' + b"[" * 70 + b"]" * 70 + b"}", "levels deep"),
        (b'{"schema": "runward-run-v1", "session_id": "\\ud800"}', "lone surrogate"),
        (b'{"schema": "runward-run-v1", "session_id": "\xff"}', "not UTF-8"),
        (b'{"schema": "runward-run-v1", "timeout": ' + b"9" * 5000 + b"}", "too long"),
        (b"{}", "schema is None"),
        (b'{"schema": "runward-run-v2"}', "schema is 'runward-run-v2'"),
        (b'{"schema": ["runward-run-v1"]}', "schema is ["),
        (b'{"schema": true}', "schema is True"),
    ],
)
def test_a_run_json_that_is_none_starts_nothing_and_says_why(content: bytes, message: str) -> None:
    assert message in refused("run.json", content).message


@pytest.mark.parametrize("name", ["run.json", "process.json", "exit.json"])
def test_a_document_that_could_not_be_read_is_complained_of(name: str) -> None:
    (only,) = items(Document(name, SIGNATURE, 500.0, problem="is not a regular file"))
    assert isinstance(only, Complaint)
    assert (only.file, only.message) == (name, "is not a regular file")


def test_the_command_is_named_by_process_json() -> None:
    assert items(document("process.json", PROCESS)) == [ProcessNamed(RecordedProcess(42, 9, "b-1"))]
    assert "pid" in refused("process.json", {"pid": "42"}).message
    assert "not contain a JSON object" in refused("process.json", b"[42]").message


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"exit_code": 0}, "completed", "run.completed.ok"),
        ({"exit_code": 0, "cause": "exited"}, "completed", "run.completed.ok"),
        ({"exit_code": 0, "cause": None, "signal": None}, "completed", "run.completed.ok"),
        ({"exit_code": 1}, "failed", "run.failed.exit_nonzero"),
        ({"exit_code": 124}, "failed", "run.failed.exit_nonzero"),
        ({"exit_code": 130}, "failed", "run.failed.exit_nonzero"),
        ({"exit_code": 143}, "failed", "run.failed.exit_nonzero"),
        ({"exit_code": 0, "error": "ValueError: no"}, "failed", "run.failed.exception"),
        ({"exit_code": 3, "error": "ValueError: no"}, "failed", "run.failed.exception"),
        ({"exit_code": 0, "error": ""}, "completed", "run.completed.ok"),
        ({"exit_code": 0, "error": ["no text"]}, "completed", "run.completed.ok"),
        ({"signal": 9}, "failed", "run.failed.signal"),
        ({"exit_code": None, "signal": 11}, "failed", "run.failed.signal"),
        ({"cause": "signalled", "signal": 9}, "failed", "run.failed.signal"),
        ({"cause": "signalled"}, "failed", "run.failed.signal"),
        ({"cause": "timed_out", "signal": 15}, "timed_out", "run.timed_out.deadline"),
        ({"cause": "timed_out", "exit_code": 0}, "timed_out", "run.timed_out.deadline"),
        ({"cause": "timed_out", "signal": 15, "error": "stale"}, "timed_out", "run.timed_out.stale"),
        (
            {"cause": "timed_out", "error": "stale; the command never began"},
            "timed_out",
            "run.timed_out.stale",
        ),
        ({"cause": "timed_out", "error": "stale, it says"}, "timed_out", "run.timed_out.deadline"),
        (
            {"cause": "cancelled", "error": "shutdown; the command never began"},
            "cancelled",
            "run.cancelled.system",
        ),
        ({"cause": "not_started", "error": "no such file"}, "failed", "run.failed.not_started"),
        ({"cause": "cancelled", "signal": 2}, "aborted", "run.aborted.user"),
        ({"cause": "cancelled", "signal": 15}, "cancelled", "run.cancelled.sigterm"),
        ({"cause": "cancelled", "signal": 1}, "cancelled", "run.cancelled.sigterm"),
        ({"cause": "cancelled"}, "cancelled", "run.cancelled.user"),
        ({"cause": "cancelled", "exit_code": 0}, "cancelled", "run.cancelled.user"),
        ({"cause": "cancelled", "error": "shutdown"}, "cancelled", "run.cancelled.system"),
    ],
)
def test_how_an_exit_is_read(said: dict[str, JsonValue], status: str, code: str) -> None:
    end = the_end(said)
    assert (end.status, end.reason_code) == (status, code)
    assert status_of(code) == status
    assert "None" not in end.reason_summary
    assert ("never began" in str(said.get("error"))) == ("never began" in end.reason_summary)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"exit_code": None},
        {"exit_code": "0"},
        {"exit_code": True},
        {"exit_code": False},
        {"exit_code": 0.0},
        {"exit_code": -1},
        {"exit_code": 10**40},
        {"exit_code": 0, "signal": "9"},
        {"exit_code": 0, "signal": True},
        {"exit_code": 0, "signal": 0},
        {"exit_code": 0, "signal": 128},
        {"exit_code": 0, "cause": "finished"},
        {"exit_code": 0, "cause": ["exited"]},
        {"exit_code": 0, "cause": ""},
        {"cause": "exited"},
    ],
)
def test_an_exit_that_says_nothing_ends_nothing(said: dict[str, JsonValue]) -> None:
    assert refused("exit.json", said).message


def test_the_time_of_an_end_is_its_own_or_that_of_its_file() -> None:
    assert the_end({"exit_code": 0, "finished_at": "1970-01-01T00:02:00Z"}).at == 120.0
    assert the_end({"exit_code": 0, "finished_at": "soon"}).at == 500.0
    assert the_end({"exit_code": 0}).at == 500.0


@pytest.mark.parametrize(("modified_at", "at"), [(-5.0, 0.0), (1e15, 253_402_300_799.0), (2.0, 2.0)])
def test_a_file_from_beyond_all_calendars_is_dated_at_their_edge(modified_at: float, at: float) -> None:
    (end,) = items(document("exit.json", {"exit_code": 0}, modified_at))
    (start,) = items(document("run.json", {"schema": "runward-run-v1"}, modified_at))
    assert isinstance(end, Ended)
    assert isinstance(start, Started)
    assert (start.at, end.at) == (at, at)


def test_an_end_is_the_launchers_only_with_a_cause() -> None:
    assert the_end({"exit_code": 0, "cause": "exited"}).declared_by == "launcher"
    assert the_end({"exit_code": 0}).declared_by == "daemon"


def test_a_long_error_is_clipped() -> None:
    assert len(the_end({"exit_code": 1, "error": "x" * 10_000}).reason_summary) < 300


def digests(name: str, content: bytes, *times_ns: int) -> list[str]:
    documents = [Document(name, Signature(7, 100, at), 500.0, content) for at in times_ns]
    return [item.digest for item in items(*documents) if isinstance(item, Started | Ended)]


def test_an_end_and_a_named_start_are_told_by_their_content() -> None:
    first, touched = digests("exit.json", b'{"exit_code": 0}', 1, 2)
    assert first == touched
    launched = b'{"schema": "runward-run-v1", "launcher": {"pid": 7, "start_ticks": 1, "boot_id": "b"}}'
    for start in (launched, b'{"schema": "runward-run-v1", "started_at": "2026-02-03T04:05:06Z"}'):
        first, touched = digests("run.json", start, 1, 2)
        assert first == touched


def test_a_start_that_names_nothing_is_told_by_its_time_too() -> None:
    first, moved, rewritten = digests("run.json", b'{"schema": "runward-run-v1"}', 1, 1, 2)
    assert first == moved != rewritten


PLAN: JsonValue = {
    "legs": [{"id": "one", "agent": "reviewer"}, {"id": "two", "agent": "critic", "path": "l/2"}]
}


def the_plan(value: JsonValue | bytes, modified_at: float = 500.0) -> Planned:
    (only,) = items(document("flow.json", value, modified_at))
    assert isinstance(only, Planned)
    return only


def test_a_plan_names_its_legs_and_has_its_files_times() -> None:
    found = items(Document("flow.json", SIGNATURE, 500.0, json.dumps(PLAN).encode()))
    legs = (Leg("one", "reviewer", "one"), Leg("two", "critic", "l/2"))
    (plan,) = found
    assert isinstance(plan, Planned)
    assert (plan.at, plan.legs, plan.modified_ns, plan.changed_ns) == (500.0, legs, SIGNATURE.modified_ns, 77)


@pytest.mark.parametrize("modified_at", [-1e18, 1e18])
def test_a_plans_time_can_be_written_whatever_its_file_says(modified_at: float) -> None:
    assert 0.0 <= the_plan(PLAN, modified_at).at < 2.6e11


def test_a_plan_is_the_same_while_its_legs_are() -> None:
    digest = the_plan(PLAN).digest
    assert the_plan(json.dumps(PLAN, indent=7).encode(), 900.0).digest == digest
    assert isinstance(PLAN, dict)
    assert the_plan({**PLAN, "note": 1}).digest == digest
    changes: list[list[JsonValue]] = [
        [{"id": "one", "agent": "reviewer"}],
        [{"id": "one", "agent": "critic"}, {"id": "two", "agent": "critic", "path": "l/2"}],
        [{"id": "one", "agent": "reviewer"}, {"id": "two", "agent": "critic", "path": "l/3"}],
        [{"id": "two", "agent": "critic", "path": "l/2"}, {"id": "one", "agent": "reviewer"}],
    ]
    for changed in changes:
        assert the_plan({"legs": changed}).digest != digest


def test_a_plan_that_is_none_is_complained_about_with_its_fix() -> None:
    found = items(document("flow.json", {"legs": [{"id": "a b", "agent": ""}]}))
    assert all(isinstance(each, Complaint) and each.file == "flow.json" and each.fix for each in found)
    assert complaints_in(found) == [
        "legs[0].agent: must be a text, not an empty one",
        "legs[0].id: 'a b' is not an id",
    ]
    assert refused("flow.json", b'{"legs": 1, "legs": 2}').message.startswith("the key 'legs' appears twice")
    assert refused("flow.json", b"[]").message == "does not contain a JSON object"


def test_a_hostile_plan_is_no_flood_of_complaints() -> None:
    assert len(items(document("flow.json", {"legs": list[JsonValue]([1] * 200)}))) == 20


def test_an_end_comes_last_whatever_was_read_after_it() -> None:
    found = items(run(), document("exit.json", {"exit_code": 0}), document("flow.json", PLAN))
    assert [type(each) for each in found] == [Started, Planned, Ended]


def test_only_names_that_can_neither_start_nor_end_a_run_are_untelling() -> None:
    assert not any(native.is_untelling(name) for name in (*native.DOCUMENTS, "outcome.json", ".run.json.tmp"))
    assert all(
        native.is_untelling(name)
        for name in ("artifacts", "events.jsonl", "results.jsonl", "REPLAY.jsonl", "REPLAY.2.jsonl")
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["schema", "session_id", "kind", "playbook", "contract", "started_at", "launcher", "artifacts_path", "exit_code",
     "signal", "cause", "error", "finished_at", "pid", "start_ticks", "boot_id", "host", "legs"]
)  # fmt: skip
likely = st.sampled_from(
    ["runward-run-v1", "exited", "cancelled", "signalled", "agent", 0, 1, 9, 15, "/out", "out", PROCESS, None,
     "2026-01-31T12:00:00Z", [{"id": "one", "agent": "\ud800"}], [{"id": "one", "agent": "ä"}]]
)  # fmt: skip
documents = st.builds(
    lambda name, said, right, modified_at: document(
        name, {**said, **({"schema": "runward-run-v1"} if right else {})}, modified_at
    ),
    st.sampled_from(native.DOCUMENTS),
    st.dictionaries(fields, likely | json_values, max_size=6),
    st.booleans(),
    st.floats(-1e18, 1e18),
)


@given(st.lists(documents, max_size=3))
def test_whatever_the_documents_say_the_items_can_be_recorded(found: list[Document]) -> None:
    for item in items(*found):
        match item:
            case Started(declaration=said, at=at):
                assert said.artifacts_path.startswith(PATH + "/") or item.launcher is not None
                event = AttemptStarted("native:runs/alpha", 1, at, said)
                assert load_payload(event.type, event.version, as_json(event)) == event
            case Ended(status=status, reason_code=code):
                assert status_of(code) == status
            case Planned(at=at, digest=digest, legs=legs):
                plan = FlowPlanned("native:runs/alpha", 1, at, digest, legs, item.modified_ns, 0)
                assert load_payload(plan.type, plan.version, as_json(plan)) == plan
            case Complaint(message=message, fix=fix):
                assert message
                assert fix
            case ProcessNamed():
                pass
