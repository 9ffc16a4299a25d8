"""Which calls the run directories of CTCP, Adjutant and lionagi tell."""

from pathlib import Path

import pytest
from tests.handlers.layouts.adjutant_lines import FORMS, Form, session
from tests.handlers.layouts.ctcp_lines import event, run_json
from tests.handlers.layouts.directories import document
from tests.handlers.layouts.lionagi_lines import OWN, WORKER, branch, message
from tests.handlers.layouts.lionagi_lines import run_json as lionagi_run
from tests.handlers.layouts.placed import told

from runward.config.json_value import JsonValue
from runward.handlers.calls import Called, Paid, Returned, Stated, StepDone, Told, Unusable
from runward.handlers.layouts.layout import declared


@pytest.mark.parametrize("form", FORMS)
def test_an_adjutant_replay_of_any_form_tells_its_calls(form: Form) -> None:
    found = told("adjutant", "sess_7", session(form))
    called = [each for each in found if isinstance(each, Called)]
    returned = [each for each in found if isinstance(each, Returned)]
    assert [each.id for each in called] == ["tc_1", "tc_2"]
    assert called[0].step_id == "s1"
    assert [(each.exit_code, each.success, each.step_utility) for each in returned] == [
        (0, True, 0.5),
        (1, False, 0.5),
    ]
    assert all(each.problem for each in returned), "an output that is not there can't be hashed"
    stated = [each for each in found if isinstance(each, Stated)]
    assert stated[0].policy_bundle_id == "v1"
    assert stated[0].issue_number == (None if form == "d-early" else 42)
    assert stated[-1].confidence == 0.92
    assert bool([each for each in found if isinstance(each, StepDone)]) == (not form.startswith("d"))


def test_the_commands_of_a_ctcp_run_are_its_calls() -> None:
    lines = [
        event("find_local_run", cmd="find", rc=0),
        event("VERIFY_STARTED", "2026-03-01T10:00:01", cmd="verify.sh"),
        event("verify_complete", "2026-03-01T10:00:03", rc=1, iteration=1),
        event("OUTBOX_PROMPT_CREATED"),
        event("LOCAL_EXEC_FAILED", "2026-03-01T10:00:04", cmd="gather"),
    ]
    found = told("ctcp", "run-7", lines, document("RUN.json", run_json()))
    assert [type(each) for each in found] == [Called, Returned] * 3
    called = [each for each in found if isinstance(each, Called)]
    assert [(each.id, each.tool) for each in called] == [
        ("find_local_run@1", "find_local_run"),
        ("verify@2", "verify"),
        ("local_exec@5", "local_exec"),
    ]
    assert called[1].params == {"cmd": "verify.sh", "path": ""}
    returned = [each for each in found if isinstance(each, Returned)]
    assert [(each.id, each.success, each.exit_code) for each in returned] == [
        ("find_local_run@1", True, 0),
        ("verify@2", False, 1),
        ("local_exec@5", False, None),
    ]
    assert returned[1].error == {"path": "", "iteration": 1}


def test_lines_of_a_ctcp_log_that_cannot_be_read_are_problems() -> None:
    found = told("ctcp", "run-7", [b"{", b"[]", event("patch_apply", rc=0)])
    assert [type(each) for each in found] == [Unusable, Called, Returned]


def test_a_recorded_ctcp_run_has_its_commands(material: Path) -> None:
    lines = (material / "samples/ctcp-run-pass/events.jsonl").read_bytes().splitlines()
    found = told("ctcp", "run-pass", lines)
    tools = [each.tool for each in found if isinstance(each, Called)]
    assert tools == ["find_local_run", "local_exec", "patch_apply", "patch_apply", "verify"]
    codes = [each.exit_code for each in found if isinstance(each, Returned)]
    assert codes == [0, 0, 1, 0, 0]


def _action(kind: str, name: str, content: JsonValue, at: float = 1001.0, **metadata: JsonValue) -> JsonValue:
    said = message(kind, at, content, **metadata)
    assert isinstance(said, dict)
    return said | {"id": name}


def _lionagi(*branches: tuple[str, list[JsonValue]]) -> list[Told]:
    reader = declared("lionagi").calls.start("run", lambda name: ())
    documents = [document("run.json", lionagi_run())]
    documents += [document(f"branches/{name}.json", branch(name, messages)) for name, messages in branches]
    return [each for one in documents for each in reader.see(one)]


def test_the_actions_of_a_lionagi_run_s_own_branch_are_its_calls() -> None:
    own: list[JsonValue] = [
        _action("ActionRequest", "m1", {"function": "search", "arguments": {"q": "x"}}),
        _action("ActionResponse", "m2", {"action_request_id": "m1", "output": [1]}, 1002.5),
        _action("ActionRequest", "m3", {"action_request": {"function": "read", "arguments": {}}}),
        _action("ActionResponse", "m4", {"action_request_id": "m3", "output": "no"}, is_error=True),
    ]
    found = _lionagi((OWN, own), (WORKER, [_action("ActionRequest", "w1", {"function": "inner"})]))
    assert [each[1:6] for each in found if isinstance(each, Called)] == [
        (1001.0, "m1", "search", {"q": "x"}, None),
        (1001.0, "m3", "read", {}, None),
    ]
    assert [each[1:6] for each in found if isinstance(each, Returned)] == [
        (1002.5, "m1", [1], None, True),
        (1001.0, "m3", None, "no", False),
    ]


def test_what_the_replies_of_a_lionagi_run_cost_is_told_once_each() -> None:
    own: list[JsonValue] = [
        _action("AssistantResponse", "r1", {}, model_response={"total_cost_usd": 0.25}),
        _action("AssistantResponse", "r1", {}, model_response={"total_cost_usd": 0.25}),
        _action("AssistantResponse", "r2", {}, 1002.5, model_response={"total_cost_usd": 1}),
        _action("AssistantResponse", "r3", {}, model_response={"total_cost_usd": "much"}),
        _action("AssistantResponse", "r4", {}, model_response={"total_cost_usd": -1}),
    ]
    found = _lionagi((OWN, own), (WORKER, [own[2]]))
    assert [each[1:] for each in found if isinstance(each, Paid)] == [(1001.0, 0.25), (1002.5, 1.0)]


def test_a_lionagi_branch_that_is_written_anew_tells_only_what_is_new() -> None:
    first: list[JsonValue] = [_action("ActionRequest", "m1", {"function": "search"})]
    second = [*first, _action("ActionResponse", "m2", {"action_request_id": "m1", "output": 1})]
    reader = declared("lionagi").calls.start("run", lambda name: ())
    assert list(reader.see(document("run.json", lionagi_run()))) == []
    assert [type(each) for each in reader.see(document(f"branches/{OWN}.json", branch(OWN, first)))] == [
        Called
    ]
    assert [type(each) for each in reader.see(document(f"branches/{OWN}.json", branch(OWN, second)))] == [
        Returned
    ]
