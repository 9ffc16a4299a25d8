"""The schemas of chains and outcomes say what their readers say, as far as a schema can."""

import pytest
from jsonschema_rs import validator_for
from tests.config.test_chain import ONE, RIGHT, STEP

from runward.config.chain import read_chain
from runward.config.json_value import JsonValue
from runward.config.keys import known_keys
from runward.config.outcome import KINDS, CheckedOutcome, check_outcome
from runward.config.schema import schema
from runward.config.step import Callables, Step
from runward.config.yaml_document import read_yaml


def called(name: str) -> dict[str, JsonValue]:
    """The schema of this name."""
    found = schema(name)
    assert isinstance(found, dict)
    return found


CHAINS = validator_for(called("chain"))
OUTCOMES = validator_for(called("outcome"))
HEAD = "name: a\ntrigger: "


def is_valid(text: str) -> bool:
    parsed = read_yaml(text, "c.yaml")
    assert parsed.value is not None
    return CHAINS.is_valid(parsed.value.root)


def is_right(text: str) -> bool:
    return read_chain(text, "c.yaml", Callables(("review", "merge"), ("merge",))).value is not None


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        ONE + STEP + "timeout: 4h\nconcurrency: {key: x, policy: cancel}\non_failure: [{action: merge}]\n",
        ONE + "  - {skill: review, retry: {attempts: 2, backoff: 3s, on: [run.failed.*]}, env: {A: 1}, cwd: /x}\n",
        ONE + "  - {skill: review, host: gpu-box}\n  - {skill: review, host: {label: gpu}}\n  - {skill: review, host: {label: [a, b]}}\n",
        ONE + "  - {skill: review, requires_approval: true, approval: {expires: 2d, on_timeout: approve}}\n",
        HEAD + "{schedule: '@daily', timezone: UTC, misfire: run_all, overlap: queue, jitter: 5m}\nsteps:\n" + STEP,
        HEAD + "{event: file.changed, path: 'a/*'}\nsteps:\n" + STEP,
        HEAD + "{all_of: [{event: a}, {sequence: [{schedule: every 1h}, {event: b}], within: 2h}]}\nsteps:\n" + STEP,
        HEAD + "{any_of: [{event: a, filter: {b: 1}}]}\nsteps:\n" + STEP,
    ],
)  # fmt: skip
def test_what_the_reader_of_chains_accepts_is_valid(text: str) -> None:
    assert is_right(text)
    assert is_valid(text)


@pytest.mark.parametrize(
    "text",
    [
        RIGHT.replace("name: pr-review\n", ""),
        RIGHT.replace("description", "descripton"),
        ONE + "  - {id: one, skill: review, action: merge}\n",
        ONE + "  - {id: 1a, skill: review}\n",
        ONE + "  - {skill: review, retry: {backoff: 2s}}\n",
        ONE + STEP + "timeout: 4 parsecs\n",
        ONE + STEP + "on_failure: []\n",
        HEAD + "{event: a, manual: true}\nsteps:\n" + STEP,
        HEAD + "{event: file.changed}\nsteps:\n" + STEP,
        HEAD + "{event: a, path: b}\nsteps:\n" + STEP,
        HEAD + "{any_of: [{event: a}], within: 1h}\nsteps:\n" + STEP,
        HEAD + "{all_of: [{manual: true}]}\nsteps:\n" + STEP,
        HEAD + "{all_of: [{schedule: '@daily', overlap: skip}]}\nsteps:\n" + STEP,
        HEAD + "{all_of: []}\nsteps:\n" + STEP,
    ],
)
def test_what_breaks_the_shape_of_a_chain_is_invalid_to_both(text: str) -> None:
    assert not is_right(text)
    assert not is_valid(text)


def test_the_schema_has_every_key_of_a_step() -> None:
    definitions = called("chain")["$defs"]
    assert isinstance(definitions, dict)
    found = definitions["step"]
    assert isinstance(found, dict)
    properties = found["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == set(known_keys(Step))


FINDING: JsonValue = {"severity": "high", "category": "bug", "description": "d", "line": 3}


@pytest.mark.parametrize(
    ("outcome", "right"),
    [
        ({"outcome_kind": "review_verdict", "summary": "s", "verdict": "APPROVE", "findings": [FINDING]}, True),
        ({"outcome_kind": "gate_verdict", "summary": "s", "gate_passed": True, "more": 1}, True),
        ({"outcome_kind": "of_mine", "summary": "s", "anything": [1]}, True),
        ({"outcome_kind": "ci_result", "summary": "s", "checks": [{"name": "a", "passed": None}]}, True),
        ({"outcome_kind": "review_verdict", "summary": "s"}, False),
        ({"outcome_kind": "review_verdict", "summary": "s", "verdict": "MAYBE"}, False),
        ({"outcome_kind": "review_verdict", "summary": "s", "verdict": "APPROVE", "round": 0}, False),
        ({"outcome_kind": "test_result", "summary": "s", "test_count": -1}, False),
        ({"outcome_kind": "test_result"}, False),
        ({"summary": "s"}, False),
    ],
)  # fmt: skip
def test_an_outcome_is_valid_to_the_schema_as_it_is_to_the_reader(
    outcome: dict[str, JsonValue], right: bool
) -> None:
    assert isinstance(check_outcome(outcome), CheckedOutcome) is right
    assert OUTCOMES.is_valid(outcome) is right


def test_every_kind_of_outcome_is_in_the_schema() -> None:
    definitions = called("outcome")["$defs"]
    assert isinstance(definitions, dict)
    assert set(KINDS) <= definitions.keys()
