"""What a contract's declaration may look like, as JSON Schema for editors. The module `contract` decides."""

from typing import Final

from runward.config.artifact_rules import MAX_COUNT, OUTCOME
from runward.config.contract import MAX_DECLARED, MAX_DESCRIPTION, MAX_ID
from runward.config.json_value import JsonValue
from runward.config.path_rule import MAX_PATH_BYTES

ID_PATTERN: Final = "^[-_]*[A-Za-z0-9][A-Za-z0-9_-]*$"
PATH_PATTERN: Final = r"^(?!/)(?!(.*/)?\.\.(/|$))(?!(\.?/)*\.?$)[^*?\[\]\u0000]+$"

DECLARATION_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": ["object", "null"],
    "properties": {
        "profile": {
            "type": "string",
            "description": "ctcp: the ten CTCP contracts A to J, each an entry, in addition to those in 'expected'.",
        },
        "expected": {
            "type": "array",
            "maxItems": MAX_DECLARED,
            "description": "The artifacts, each a file. [] is a contract that expects nothing.",
            "items": {
                "type": "object",
                "required": ["id"],
                "oneOf": [{"required": ["path"]}, {"required": ["glob"]}, {"required": ["kind"]}],
                "properties": {
                    "id": {
                        "type": "string",
                        "pattern": ID_PATTERN,
                        "maxLength": MAX_ID,
                        "description": "Names the artifact wherever it is spoken of; "
                        "a playbook's entry replaces the agent's with the same id.",
                    },
                    "path": {
                        "type": "string",
                        "pattern": PATH_PATTERN,
                        "maxLength": MAX_PATH_BYTES,
                        "description": "The file, relative to the run's artifacts: no leading /, no .., no globs.",
                    },
                    "glob": {
                        "type": "string",
                        "maxLength": MAX_PATH_BYTES,
                        "description": "Files below the run's artifacts that match, in place of a path.",
                    },
                    "min_count": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_COUNT,
                        "default": 1,
                        "description": "The minimum number of files that the glob must match.",
                    },
                    "max_count": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_COUNT,
                        "description": "The maximum number of files that the glob may match.",
                    },
                    "kind": {
                        "const": OUTCOME,
                        "description": "An outcome of the session, in place of a path.",
                    },
                    "outcome_kind": {
                        "type": "string",
                        "description": "The kind of the outcome, as in review_verdict.",
                    },
                    "passed": {"type": "boolean", "description": "Whether the outcome must have passed."},
                    "min_size": {
                        "type": ["string", "integer"],
                        "description": "The minimum size of each file, as in 2KB.",
                    },
                    "mime_type": {
                        "type": "string",
                        "description": "The type of each file by its content, as in text/markdown or image/*.",
                    },
                    "schema": {
                        "type": "string",
                        "description": "The JSON Schema that each file must match: a file next to this one.",
                    },
                    "fresh": {
                        "type": "boolean",
                        "description": "Whether each file must have been written after the session started.",
                    },
                    "required": {
                        "type": "boolean",
                        "default": True,
                        "description": "Whether the run fails without it; a missing optional one is only a warning.",
                    },
                    "description": {
                        "type": "string",
                        "default": "",
                        "maxLength": MAX_DESCRIPTION,
                        "description": "What it is, for those who read the verdict.",
                    },
                },
            },
        },
    },
}
"""What `declared_artifacts` accepts, as JSON Schema for editors."""
