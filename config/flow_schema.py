"""What `flow.json` may look like, as JSON Schema for planners. The module `flow` decides."""

from typing import Final

from runward.config.contract import MAX_ID
from runward.config.contract_schema import ID_PATTERN, PATH_PATTERN
from runward.config.flow import MAX_AGENT, MAX_LEGS
from runward.config.json_value import JsonValue
from runward.config.path_rule import MAX_PATH_BYTES

FLOW_SCHEMA: Final[dict[str, JsonValue]] = {
    "title": "Runward flow",
    "type": "object",
    "required": ["legs"],
    "properties": {
        "legs": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_LEGS,
            "description": "The flow's legs, planned before any of them runs. "
            "No two legs share an id, and no leg's directory is the same as or inside another's.",
            "items": {
                "type": "object",
                "required": ["id", "agent"],
                "properties": {
                    "id": {
                        "type": "string",
                        "pattern": ID_PATTERN,
                        "maxLength": MAX_ID,
                        "description": "Names the leg; what is expected of it has the ids '<leg>__<id>'.",
                    },
                    "agent": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": MAX_AGENT,
                        "description": "The agent profile whose artifact_defaults the leg is held to.",
                    },
                    "path": {
                        "type": "string",
                        "pattern": PATH_PATTERN,
                        "maxLength": MAX_PATH_BYTES,
                        "description": "The leg's own directory, relative to the run's artifacts. Default: its id.",
                    },
                },
            },
        },
    },
}
