"""`replay check`: each fault of a replay is named with its line, and hides none of the others."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import canonical, hash_of
from runward.handlers.bundle.replay_check import BundleProblem, ReplayCheck
from runward.handlers.bundle.replay_lines import LONGEST_LINE, RawLine, read_line

START = '{"event":"SessionStart","session_id":"s","t":"2026-01-13T10:00:00Z"}'
END = '{"event":"SessionEnd","status":"Success","t":"2026-01-13T10:05:00Z"}'
CALL = f'{{"event":"ToolCall","id":"tc_1","tool":"Read","params":{{}},"params_hash":"{hash_of({})}"}}'
OUTPUT_HASH = hash_of({"content": "x"})
RESULT = (
    '{"event":"ToolResult","id":"tc_1","output":{"content":"x"},"output_hash":"'
    + OUTPUT_HASH
    + '","latency_ms":45}'
)
HEADER = '{"replay_version":1,"producer":"adjutant","created_at":"2026-01-13T10:00:00Z"}'


def checked(*lines: str | bytes | None) -> tuple[BundleProblem, ...]:
    check = ReplayCheck()
    for number, line in enumerate(lines, 1):
        check.take(read_line(RawLine(number, line.encode() if isinstance(line, str) else line)))
    return check.finish()


def said(*lines: str | bytes | None) -> list[tuple[int | None, str, str]]:
    return [(each.line, each.severity, each.message) for each in checked(*lines)]


RIGHT = {
    "the seed's own": (START, CALL, RESULT, END),
    "without any call": (START, END),
    "with a header": (HEADER, START, END),
    "with a named header": ('{"event":"ReplayHeader","replay_version":1}', START, END),
    "with Windows line ends": (f"{START}\r", f"{CALL}\r", f"{RESULT}\r", f"{END}\r"),
    "with unknown events and fields": (START, '{"event":"Payment","x":1}', '{"event":"RuntimeEvent"}', END),
    "with a policy version": (START.replace('"t"', '"policy_version":"v1","t"'), END),
    "with a call that has no result": (START, CALL, END),
    "with a service's words": (START, CALL, RESULT, END.replace("Success", "success")),
    "with totals": (
        START,
        CALL,
        RESULT,
        END.replace('"t"', '"total_tool_calls":1,"total_latency_ms":45,"t"'),
    ),
    "with a value left out": (START, CALL.replace('"params":{},', ""), RESULT, END),
    "with a null hash": (START, CALL.replace(f'"{hash_of({})}"', "null"), END),
}


@pytest.mark.parametrize("lines", RIGHT.values(), ids=RIGHT)
def test_a_replay_that_holds_together_has_no_problem(lines: tuple[str, ...]) -> None:
    assert said(*lines) == []


WRONG: dict[str, tuple[tuple[str | bytes | None, ...], int | None, str]] = {
    "not JSON": ((START, '{"event":', END), 2, "not JSON"),
    "not an object": ((START, "[1]", END), 2, "not a JSON object"),
    "not UTF-8": ((START, b'{"event":"X","a":"\xff"}', END), 2, "not UTF-8"),
    "too long": ((START, None, END), 2, "longer than 64 MiB"),
    "too deep": ((START, '{"event":"X","a":' + "[" * 64 + "]" * 64 + "}", END), 2, "deeper than 64"),
    "a key twice": ((START, '{"event":"X","a":1,"a":1}', END), 2, "'a' appears twice"),
    "no event": ((START, '{"a":1}', END), 2, "no `event`"),
    "an event that is not text": ((START, '{"event":1}', END), 2, "`event` is not a text"),
    "another first event": ((CALL, START, RESULT, END), 1, "not SessionStart"),
    "a late header": ((START, HEADER, END), 2, "not the first line"),
    "a header of version 2": ((HEADER.replace(":1", ":2", 1), START, END), 1, "version"),
    "a header of version true": ((HEADER.replace(":1", ":true", 1), START, END), 1, "version"),
    "a second start": ((START, START, END), 2, "second SessionStart"),
    "no end": ((START,), None, "no SessionEnd"),
    "something after the end": ((START, END, '{"event":"X"}'), 3, "after SessionEnd"),
    "a second end": ((START, END, END), 3, "after SessionEnd"),
    "a call without id": ((START, CALL.replace('"id":"tc_1",', ""), END), 2, "without `id`"),
    "a result without id": ((START, CALL, RESULT.replace('"id":"tc_1",', ""), END), 3, "without `id`"),
    "a result without a call": ((START, RESULT, END), 2, "without an earlier call"),
    "a result before its call": ((START, RESULT, CALL, END), 2, "without an earlier call"),
    "two results": ((START, CALL, RESULT, RESULT, END), 4, "second result"),
    "changed params": ((START, CALL.replace("{}", '{"a":1}'), END), 2, "`params` was changed"),
    "a changed output": ((START, CALL, RESULT.replace('"x"', '"y"'), END), 3, "`output` was changed"),
    "a changed hash": ((START, CALL.replace("sha256:4", "sha256:5"), END), 2, "`params` was changed"),
    "fewer codes than commands": (
        (START, '{"event":"Verification","commands":["a","b"],"exit_codes":[0]}', END),
        2,
        "1 exit codes for 2 commands",
    ),
    "a wrong count of calls": ((START, CALL, END.replace('"t"', '"total_tool_calls":2,"t"')), 3, "1 calls"),
    "a wrong sum of latencies": (
        (START, CALL, RESULT, END.replace('"t"', '"total_latency_ms":44,"t"')),
        4,
        "45 milliseconds",
    ),
    "redaction that is none": (
        (START, CALL.replace("{}", '{"k":"v"}').replace('"tool"', '"redacted":["/params/k"],"tool"'), END),
        2,
        "`params` was changed",
    ),
}


@pytest.mark.parametrize(("lines", "line", "message"), WRONG.values(), ids=WRONG)
def test_each_fault_is_an_error_on_its_line(
    lines: tuple[str | bytes | None, ...], line: int | None, message: str
) -> None:
    errors = [each for each in checked(*lines) if each.severity == "error"]
    assert [each.line for each in errors] == [line]
    assert message in errors[0].message


def test_an_empty_file_is_an_error() -> None:
    assert said() == [(None, "error", "the file is empty")]


WARNED = {
    "time goes back": ((START, '{"event":"X","t":"2026-01-13T09:59:59.9Z"}', END), 2, "goes back"),
    "an unknown status": ((START, END.replace("Success", "Done")), 2, "'Done'"),
    "a blank line": ((START, "", END), 2, "blank line"),
}


@pytest.mark.parametrize(("lines", "line", "message"), WARNED.values(), ids=WARNED)
def test_oddities_are_warnings(lines: tuple[str, ...], line: int, message: str) -> None:
    problems = checked(*lines)
    assert [(each.line, each.severity) for each in problems] == [(line, "warning")]
    assert message in problems[0].message


def test_what_was_redacted_or_cut_is_not_compared() -> None:
    redacted = CALL.replace('"params":{}', '"params":{"a/b":["[redacted]"]},"redacted":["/params/a~1b/0"]')
    cut = RESULT.replace('"x"', '"a…z"').replace('"id"', '"cut":{"/output/content":70000},"id"')
    check = ReplayCheck()
    for number, line in enumerate((START, redacted, cut, END), 1):
        check.take(read_line(RawLine(number, line.encode())))
    assert check.finish() == ()
    hashes = check.facts.hashes
    assert (hashes.recomputed, hashes.redacted, hashes.cut, hashes.unknown) == (0, 1, 1, 0)


def test_one_bad_line_hides_no_other() -> None:
    lines = said(START, "{", RESULT, CALL.replace("{}", "[]"), "[]", END.replace("Success", "?"))
    assert [(line, severity) for line, severity, _ in lines] == [
        (2, "error"),
        (3, "error"),
        (4, "error"),
        (5, "error"),
        (6, "warning"),
    ]


def test_hashes_in_either_form_are_right() -> None:
    call = CALL.replace("{}", '{"n":1.0}').replace(hash_of({}), hash_of({"n": 1.0}, "rfc8785"))
    assert said(START, call, END) == []


@pytest.mark.parametrize(
    "text", ["9007199254740992", "-9007199254740994", "1152921504606847000", "100000000000000000000"]
)
def test_a_float_that_rfc_8785_writes_as_a_whole_number_is_read_as_that_float(text: str) -> None:
    params: JsonValue = {"list": [{"n": float(text)}]}
    assert canonical(params, "rfc8785") == f'{{"list":[{{"n":{text}}}]}}'
    call = CALL.replace("{}", canonical(params, "rfc8785")).replace(hash_of({}), hash_of(params, "rfc8785"))
    assert said(START, call, END) == []
    assert "`params` was changed" in str(said(START, call.replace(text, f"{int(text) + 1}"), END))


def test_problems_without_end_are_counted() -> None:
    problems = checked(START, *["{"] * 1500, END)
    assert len(problems) == 1001
    assert "500 more problems" in problems[-1].message


@given(st.lists(st.sampled_from([START, CALL, RESULT, END, "", "{", "[]", HEADER]), max_size=12))
def test_any_lines_are_checked_without_failing(lines: list[str]) -> None:
    assert all(each.message for each in checked(*lines))


@settings(max_examples=30)
@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).flatmap(st.just), st.randoms()
)
def test_fields_of_any_type_are_checked_without_failing(foreign: object, chance: random.Random) -> None:
    events = [json.loads(each) for each in (START, CALL, RESULT, END)]
    for event in events:
        event[chance.choice(list(event))] = foreign
    checked(*(json.dumps(each) for each in events))


def test_the_longest_line_is_64_mib() -> None:
    assert LONGEST_LINE == 64 * 1024 * 1024
