"""The JSON Schemas that declared artifacts name: the operator's files, next to the playbook or the agent's profile."""

import json
import os
from collections.abc import Callable

from runward.config.artifact_rules import MAX_SCHEMA
from runward.config.contract import ExpectedArtifact
from runward.config.document import read_json
from runward.config.problem import Problem


def with_schemas(
    artifacts: tuple[ExpectedArtifact, ...], file: str, read: Callable[[str], str | Problem]
) -> tuple[tuple[ExpectedArtifact, ...], tuple[Problem, ...]]:
    """The artifacts declared by `file`, with the schemas that they name; and what is wrong with those.

    `read` gives the text of a file, or what is wrong with it.
    """
    problems: list[Problem] = []
    found: list[ExpectedArtifact] = []
    for artifact in artifacts:
        rules = artifact.rules
        if rules is not None and rules.schema_file is not None:
            schema = _schema(os.path.join(os.path.dirname(file), rules.schema_file), read)
            if isinstance(schema, Problem):
                problems.append(schema)
            else:
                artifact = artifact._replace(rules=rules._replace(schema=schema, schema_file=None))
        found.append(artifact)
    return tuple(found), tuple(problems)


def _schema(path: str, read: Callable[[str], str | Problem]) -> str | Problem:
    """The schema in a file as compact text."""
    text = read(path)
    if isinstance(text, Problem):
        return text
    parsed = read_json(text, path)
    if parsed.value is None:
        return parsed.problems[0]
    root = parsed.value.root
    if not isinstance(root, dict | bool):
        return Problem(path, 1, 1, "is not a JSON Schema", "write an object, or true or false")
    schema = json.dumps(root, sort_keys=True, separators=(",", ":"))
    if len(schema) > MAX_SCHEMA:
        return Problem(path, None, None, f"is larger than {MAX_SCHEMA >> 10} KiB", "make it smaller")
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(root, pattern_options=jsonschema_rs.RegexOptions(), offline=True)
    except ValueError as error:
        said = str(error).partition("\n")[0]
        return Problem(path, None, None, f"is not a JSON Schema: {said}", "fix it, or remove 'schema'")
    return schema
