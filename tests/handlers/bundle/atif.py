"""The rules of ATIF 1.7: its schema, and what a schema can't say. `atif-1.7.schema.json` names their source."""

import json
from functools import cache
from pathlib import Path

from jsonschema_rs import Draft202012Validator

from runward.config.json_value import JsonValue, objects


@cache
def _schema() -> Draft202012Validator:
    text = Path(__file__).with_name("atif-1.7.schema.json").read_text()
    return Draft202012Validator(json.loads(text), validate_formats=True)


def problems_of(trajectory: dict[str, JsonValue]) -> list[str]:
    """What is wrong with a trajectory."""
    found = [f"{each.instance_path}: {each.message}" for each in _schema().iter_errors(trajectory)]
    for number, step in enumerate(objects(trajectory.get("steps")), 1):
        if step.get("step_id") != number:
            found.append(f"step {number} has the number {step.get('step_id')}")
        calls = {each.get("tool_call_id") for each in objects(step.get("tool_calls"))}
        observation = step.get("observation")
        for result in objects(observation.get("results") if isinstance(observation, dict) else None):
            if "source_call_id" in result and result["source_call_id"] not in calls:
                found.append(
                    f"step {number} has a result of {result['source_call_id']}, which it didn't call"
                )
    return found
