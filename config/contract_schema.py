"""What a contract's declaration may look like, as JSON Schema for editors; `contract` is what decides."""

from typing import Final

from runward.config.contract import MAX_DECLARED, MAX_DESCRIPTION, MAX_ID
from runward.config.json_value import JsonValue
from runward.config.path_rule import MAX_PATH_BYTES

ID_PATTERN: Final = "^[-_]*[A-Za-z0-9][A-Za-z0-9_-]*$"
PATH_PATTERN: Final = r"^(?!/)(?!(.*/)?\.\.(/|$))(?!(\.?/)*\.?$)[^*?\[\]\u0000]+$"

DECLARATION_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": ["object", "null"],
    "properties": {
        "expected": {
            "type": "array",
            "maxItems": MAX_DECLARED,
            "description": "The artifacts, each a file. [] is a contract that expects nothing.",
            "items": {
                "type": "object",
                "required": ["id", "path"],
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
                    "required": {
                        "type": "boolean",
                        "default": True,
                        "description": "Whether the run has failed without it; an optional one is warned of.",
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
