"""What a chain's file may look like, as JSON Schema for editors. The module `chain` decides."""

from typing import Final

from runward.config.duration import DURATION_PATTERN
from runward.config.json_value import JsonValue
from runward.config.trigger import MOST_ITEMS


def _duration(description: str) -> JsonValue:
    return {"type": "string", "pattern": DURATION_PATTERN, "description": description}


def _text(description: str) -> JsonValue:
    return {"type": "string", "minLength": 1, "description": description}


def _flag(description: str) -> JsonValue:
    return {"type": "boolean", "description": description}


def _values(description: str) -> JsonValue:
    return {"type": "object", "description": f"{description} Texts may have expressions in them."}


_FILTER: Final[JsonValue] = {
    "type": "object",
    "description": "Which events of the name count: every key must match; a.b looks into a table.",
}

_WITHIN: Final = _duration("All events that count must happen within this time. Default: 1d.")


def _composite(kind: str, description: str, *, has_time: bool) -> JsonValue:
    items: JsonValue = {
        "type": "array",
        "minItems": 1,
        "maxItems": MOST_ITEMS,
        "items": {"$ref": "#/$defs/item"},
        "description": description,
    }
    return {
        "type": "object",
        "required": [kind],
        "additionalProperties": False,
        "properties": {kind: items, "within": _WITHIN} if has_time else {kind: items},
    }


def _schedule(*, is_item: bool) -> JsonValue:
    properties: dict[str, JsonValue] = {
        "schedule": _text('When it is due: five fields of cron, "every 6h", or "at 2026-12-01T08:00".'),
        "timezone": _text("As in Europe/Riga. Default: the machine's."),
        "misfire": {
            "enum": ["skip", "run_once", "run_all"],
            "description": "What happens to times that were noticed too late. Default: skip.",
        },
        "overlap": {
            "enum": ["skip", "queue", "allow"],
            "description": "What happens to a firing while an earlier run is not over. Default: skip.",
        },
        "jitter": _duration("Each firing is delayed by a random time up to this."),
        "max_runs": {
            "type": "integer",
            "minimum": 1,
            "description": "The number of firings after which the schedule ends.",
        },
        "pause_on_failure": _flag("A run that fails or times out pauses the chain."),
    }
    if is_item:
        del properties["overlap"]
    return {
        "type": "object",
        "required": ["schedule"],
        "additionalProperties": False,
        "properties": properties,
    }


_EVENT: Final[JsonValue] = {
    "type": "object",
    "required": ["event"],
    "additionalProperties": False,
    "properties": {
        "event": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
            "description": "The name of the event, as in pr.opened.",
        },
        "filter": _FILTER,
        "path": _text("Of file.changed: a glob of files, absolute or relative to the settings file."),
    },
    "if": {"properties": {"event": {"const": "file.changed", "description": "Needs a path."}}},
    "then": {"required": ["path"]},
    "else": {"not": {"required": ["path"]}},
}

_MANUAL: Final[JsonValue] = {
    "type": "object",
    "required": ["manual"],
    "additionalProperties": False,
    "properties": {"manual": {"const": True, "description": "Only a person fires it."}},
}

_COMPOSITES: Final[list[JsonValue]] = [
    _composite("all_of", "All of these must happen, in any order.", has_time=True),
    _composite("sequence", "These must happen one after another.", has_time=True),
    _composite("any_of", "One of these must happen.", has_time=False),
]

_STEP: Final[JsonValue] = {
    "type": "object",
    "additionalProperties": False,
    "oneOf": [{"required": ["skill"]}, {"required": ["action"]}],
    "properties": {
        "id": {
            "type": "string",
            "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$",
            "description": "Names the step in expressions. Default: step and its number.",
        },
        "skill": _text("The name of a playbook."),
        "action": _text("The name of an action of the settings."),
        "with": _values("The values for {{ with.KEY }} in the command."),
        "condition": _text("Exactly one expression. The step runs if it is true."),
        "timeout": _duration("In place of the playbook's or the action's."),
        "grace": _duration("The time between TERM and KILL."),
        "start_within": _duration("The longest time that it may wait for a slot or for its run's turn."),
        "stale_after": _duration("The silence after which it is ended."),
        "worktree": {
            "type": "object",
            "required": ["repo", "ref"],
            "additionalProperties": False,
            "description": "A new git worktree, in which the command starts.",
            "properties": {
                "repo": _text("The repository: an absolute path."),
                "ref": _text("The branch, tag or commit."),
                "keep": {
                    "enum": ["never", "on_failure", "always"],
                    "description": "When it is kept after the end. Default: on_failure.",
                },
            },
        },
        "continue_on_failure": _flag("The run continues after the step failed."),
        "retry": {
            "type": "object",
            "required": ["attempts"],
            "additionalProperties": False,
            "description": "How often the step is tried.",
            "properties": {
                "attempts": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 100,
                    "description": "How often in all.",
                },
                "backoff": _duration("The pause before the second try; it doubles. Default: 1s."),
                "on": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string"},
                    "description": "Globs of the reasons after which it is tried again.",
                },
            },
        },
        "env": _values("Variables for the command."),
        "cwd": _text("The absolute directory where the command starts. Default: the run's artifacts."),
        "requires_approval": _flag("A person is asked before the step runs."),
        "approval": {
            "type": "object",
            "additionalProperties": False,
            "description": "How a person is asked.",
            "properties": {
                "expires": _duration("The time in which a person must decide. Default: no limit."),
                "on_timeout": {
                    "enum": ["deny", "approve"],
                    "description": "What happens if no one decides in time. Default: deny.",
                },
                "not_by_launcher": _flag("The person who fired the chain may not approve."),
            },
        },
    },
}

CHAIN_SCHEMA: Final[dict[str, JsonValue]] = {
    "title": "Runward chain",
    "type": "object",
    "required": ["name", "trigger", "steps"],
    "additionalProperties": False,
    "properties": {
        "name": {
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
            "description": "What the chain is called.",
        },
        "description": {"type": ["string", "null"], "description": "What it is for."},
        "trigger": {
            "description": "What fires it: exactly one of event, schedule, manual, all_of, sequence, any_of.",
            "oneOf": [_EVENT, _schedule(is_item=False), _MANUAL, *_COMPOSITES],
        },
        "timeout": _duration("For the whole run."),
        "concurrency": {
            "description": "Runs of one key begin one after another.",
            "oneOf": [
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "required": ["key"],
                    "additionalProperties": False,
                    "properties": {
                        "key": _text("A text with expressions."),
                        "policy": {
                            "enum": ["queue", "cancel"],
                            "description": "Whether a new run waits for the others or ends them. Default: queue.",
                        },
                    },
                },
            ],
        },
        "steps": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {"$ref": "#/$defs/step"},
            "description": "What is started, one after another.",
        },
        "on_failure": {
            "type": "array",
            "minItems": 1,
            "maxItems": 100,
            "items": {"$ref": "#/$defs/step"},
            "description": "What is started once the run has failed, timed out or been aborted.",
        },
    },
    "$defs": {"item": {"oneOf": [_EVENT, _schedule(is_item=True), *_COMPOSITES]}, "step": _STEP},
}
