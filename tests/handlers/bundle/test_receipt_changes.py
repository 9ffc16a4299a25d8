"""What each change of a receipt is reported as; what was not changed is never refused."""

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.handlers.bundle.bundles import Bundle, bundle

from runward.config.json_value import JsonValue
from runward.daemon.rundir.bundle_verifying import verify_bundle
from runward.handlers.bundle.canonical import FORMS
from runward.handlers.bundle.receipt import receipt_text, sealed
from runward.handlers.bundle.verify import Verified

REPLAY, RECEIPT, SUMMARY = "REPLAY.jsonl", "RECEIPT.json", "PR_SUMMARY.md"
Calls = list[dict[str, JsonValue]]


def verified(directory: Path, parts: dict[str, bytes]) -> Verified:
    for name, content in parts.items():
        (directory / name).write_bytes(content)
    found = verify_bundle(str(directory), 1, frozenset)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(40))
def test_no_untouched_bundle_is_refused(tmp_path: Path, seed: int) -> None:
    for form in FORMS:
        answer = verified(tmp_path, bundle(seed, form).parts())
        assert (answer.valid, answer.form, answer.signature, answer.problems) == (
            True,
            "runward",
            "absent",
            (),
        )
    plain = verified(tmp_path, bundle(seed, plain=True).parts())
    assert (plain.valid, plain.form, plain.problems) == (True, "seed", ())


@pytest.mark.parametrize("seed", range(2))
def test_a_change_of_any_byte_of_a_receipt_is_found(tmp_path: Path, seed: int) -> None:
    right = bundle(seed).parts()
    content = right[RECEIPT]
    for at in range(0, len(content), 19):
        wrong = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        answer = verified(tmp_path, {**right, RECEIPT: wrong})
        assert not answer.valid, at
        assert RECEIPT in {each.part for each in answer.problems}, at


@pytest.mark.parametrize("seed", range(5))
def test_a_receipt_is_indented_as_python_indents_json(seed: int) -> None:
    odd: JsonValue = {"empty": [], "none": {}, "text": '"\\\n{[é', "small": 1e-7, "list": [[1], {"a": []}]}
    fields: dict[str, JsonValue] = {**bundle(seed).fields, "x": odd}
    text = receipt_text(fields)
    assert text == (json.dumps(json.loads(text), ensure_ascii=False, indent=2) + "\n").encode()


def _calls(fields: dict[str, JsonValue]) -> Calls:
    calls = fields["tool_calls"]
    assert isinstance(calls, list)
    return [each for each in calls if isinstance(each, dict)]


def _with_calls(change: Callable[[Calls], Calls]) -> Callable[[dict[str, JsonValue]], None]:
    def apply(fields: dict[str, JsonValue]) -> None:
        fields["tool_calls"] = list[JsonValue](change(_calls(fields)))

    return apply


def _in_first_call(key: str, value: JsonValue) -> Callable[[dict[str, JsonValue]], None]:
    return _with_calls(lambda calls: [{**calls[0], key: value}, *calls[1:]])


def _set(key: str, value: JsonValue) -> Callable[[dict[str, JsonValue]], None]:
    def apply(fields: dict[str, JsonValue]) -> None:
        fields[key] = value

    return apply


DIFFERENCES: dict[str, tuple[Callable[[dict[str, JsonValue]], None], str]] = {
    "a missing call": (_with_calls(lambda calls: calls[1:]), "is not in RECEIPT.json"),
    "an extra call": (
        _with_calls(lambda calls: [*calls, {**calls[0], "id": "tc_x"}]),
        "is not in the replay",
    ),
    "a doubled call": (_with_calls(lambda calls: [calls[0], *calls]), "is not in the replay"),
    "reordered calls": (_with_calls(lambda calls: calls[::-1]), "in another order"),
    "another id": (_in_first_call("id", "tc_x"), "is not in the replay"),
    "another tool": (_in_first_call("tool", "Write"), "'Write' in RECEIPT.json"),
    "another hash of params": (_in_first_call("params_hash", f"sha256:{'0' * 64}"), "sha256:000"),
    "another hash of the output": (_in_first_call("output_hash", f"sha256:{'1' * 64}"), "sha256:111"),
    "another utility": (_in_first_call("step_utility", 0.123), "0.123 in RECEIPT.json"),
    "another latency": (_in_first_call("latency_ms", 987654), "987654 in RECEIPT.json"),
    "another session": (_set("session_id", "sess_other"), "'sess_other' in RECEIPT.json"),
    "another confidence": (_set("final_confidence", 0.5), "0.5 in RECEIPT.json"),
    "another verification": (
        _set("verification", {"commands_run": ["x"], "exit_codes": [9], "verification_delta": 77}),
        "77 in RECEIPT.json",
    ),
}


@pytest.mark.parametrize("plain", [True, False], ids=["seed", "runward"])
@pytest.mark.parametrize(("change", "message"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_receipt_that_says_something_else_than_the_replay_is_refused(
    tmp_path: Path, plain: bool, change: Callable[[dict[str, JsonValue]], None], message: str
) -> None:
    """Even one that was sealed again."""
    for seed in range(3, 8):
        right = _with_several_calls(seed, plain)
        fields = copy.deepcopy(right.fields)
        change(fields)
        if not plain:
            fields = _sealed_again(fields)
        answer = verified(tmp_path, {**right.parts(), RECEIPT: receipt_text(fields)})
        assert not answer.valid
        assert any(message in each.message for each in answer.problems), answer.problems


def _with_several_calls(seed: int, plain: bool) -> Bundle:
    while True:
        found = bundle(seed, plain=plain)
        if len(_calls(found.fields)) > 1:
            return found
        seed += 1000


def test_utilities_may_differ_as_much_as_32_bits_do(tmp_path: Path) -> None:
    right = _with_several_calls(1, plain=True)
    fields = copy.deepcopy(right.fields)
    lines = [json.loads(line) for line in right.replay.splitlines()]
    first = next(line for line in lines if line["event"] == "ToolResult")
    index = next(index for index, call in enumerate(_calls(fields)) if call["id"] == first["id"])
    _calls(fields)[index]["step_utility"] = 0.8
    for replayed, is_valid in ((0.800000011920929, True), (0.80001, False)):
        first["step_utility"] = replayed
        replay = "".join(json.dumps(line) + "\n" for line in lines).encode()
        parts = {REPLAY: replay, RECEIPT: receipt_text(fields), SUMMARY: right.summary}
        assert verified(tmp_path, parts).valid is is_valid


@pytest.mark.parametrize("key", sorted(bundle(1).fields.keys() - {"layout", "attempt", "status"}))
def test_a_receipt_that_lacks_one_of_its_fields_is_refused_by_name(tmp_path: Path, key: str) -> None:
    right = bundle(1)
    fields = {name: value for name, value in right.fields.items() if name != key}
    answer = verified(tmp_path, {**right.parts(), RECEIPT: receipt_text(fields)})
    assert not answer.valid
    assert (RECEIPT, key) in {(each.part, each.field) for each in answer.problems}


WRONG_FIELDS: dict[str, tuple[str, JsonValue]] = {
    "an issue that is not a number": ("issue_number", "42"),
    "an issue that is true": ("issue_number", True),
    "a hash in capitals": ("plan_hash", "sha256:" + "A" * 64),
    "a confidence above 1": ("final_confidence", 1.01),
    "a time that is none": ("started_at", "yesterday"),
    "a utility below -1": ("step_utility", -1.5),
    "a negative latency": ("latency_ms", -1),
    "a signature that is not text": ("signature", 7),
}


@pytest.mark.parametrize(("key", "value"), WRONG_FIELDS.values(), ids=WRONG_FIELDS)
def test_a_field_of_the_wrong_kind_is_refused_by_name(tmp_path: Path, key: str, value: JsonValue) -> None:
    right = bundle(1, plain=True)
    fields = copy.deepcopy(right.fields)
    (fields if key in fields else _calls(fields)[0])[key] = value
    answer = verified(tmp_path, {**right.parts(), RECEIPT: receipt_text(fields)})
    assert any(each.field is not None and each.field.endswith(key) for each in answer.problems)


def _sealed_again(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    prev = fields["prev"]
    assert prev is None or isinstance(prev, str)
    return sealed(fields, prev, "seed").fields


def test_extra_fields_are_allowed(tmp_path: Path) -> None:
    plain = bundle(1, plain=True)
    assert verified(
        tmp_path, {**plain.parts(), RECEIPT: receipt_text({**plain.fields, "trajectory": 1})}
    ).valid
    own = bundle(1)
    fields = _sealed_again({**own.fields, "zz": 1, "aa": [None]})
    assert verified(tmp_path, {**own.parts(), RECEIPT: receipt_text(fields)}).valid


@pytest.mark.parametrize("part", [REPLAY, RECEIPT, SUMMARY])
@pytest.mark.parametrize("kind", ["directory", "link", "fifo", "empty"])
def test_what_is_no_part_is_a_problem_of_that_part(tmp_path: Path, part: str, kind: str) -> None:
    import os

    right = bundle(1)
    for name, content in right.parts().items():
        (tmp_path / name).write_bytes(content)
    path = tmp_path / part
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    match kind:
        case "directory":
            path.mkdir()
        case "link":
            path.symlink_to(elsewhere)
        case "fifo":
            os.mkfifo(path)
        case "empty":
            path.write_bytes(b"")
    answer = verify_bundle(str(tmp_path), 1, frozenset)
    assert answer is not None
    assert not answer.valid
    assert part in {each.part for each in answer.problems}


@pytest.mark.parametrize("part", [REPLAY, SUMMARY])
def test_a_missing_part_is_named_and_without_a_receipt_there_is_no_bundle(tmp_path: Path, part: str) -> None:
    right = bundle(1)
    for name, content in right.parts().items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / part).unlink()
    answer = verify_bundle(str(tmp_path), 1, frozenset)
    assert answer is not None
    assert [(each.part, each.message) for each in answer.problems] == [(part, "the file is missing")]
    (tmp_path / RECEIPT).unlink()
    assert verify_bundle(str(tmp_path), 1, frozenset) is None
