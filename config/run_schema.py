"""What `run.json` and `exit.json` may look like, as JSON Schemas for those who write them by hand or by a program.

The native layout's reader decides; it ignores keys that it doesn't know.
"""

from typing import Final

from runward.config.contract import declaration_schema
from runward.config.json_value import JsonValue

SCHEMA: Final = "runward-run-v1"
KINDS: Final = ("agent", "flow", "step")
CAUSES: Final = ("exited", "signalled", "timed_out", "cancelled", "not_started")
LONGEST_TEXT: Final = 4096


def _text(description: str) -> JsonValue:
    return {
        "type": ["string", "null"],
        "minLength": 1,
        "maxLength": LONGEST_TEXT,
        "description": description,
    }


def _time(description: str) -> JsonValue:
    return {"type": "string", "format": "date-time", "description": f"{description} ISO 8601 with a zone."}


def run_schema() -> dict[str, JsonValue]:
    """What `run.json` may look like."""
    return {
        "title": "Runward run.json",
        "type": "object",
        "required": ["schema"],
        "properties": {
            "schema": {"const": SCHEMA, "description": "What makes the directory a run."},
            "session_id": _text("The session's id. Default: the directory's name."),
            "kind": {
                "enum": [*KINDS],
                "default": "agent",
                "description": "What runs; a flow's legs are planned in flow.json.",
            },
            "playbook": _text("The playbook whose contract applies, if the run has no contract of its own."),
            "agent": _text("The agent profile whose artifact_defaults apply."),
            "contract": {
                **declaration_schema(),
                "description": "What the run must leave behind, fixed; null: nothing. "
                "Without this key it is what playbook and agent declare at the daemon's first look.",
            },
            "invocation_id": _text("Groups the sessions of one use of a skill."),
            "started_at": _time("When the run began. Default: when this file was written."),
            "host": _text("The machine on which the processes run."),
            "launcher": {
                "type": ["object", "null"],
                "required": ["pid", "start_ticks", "boot_id"],
                "description": "The process that launched the run and will write its end. Leave it out if you write the file by hand.",
                "properties": {
                    "pid": {"type": "integer", "minimum": 1, "description": "Its number."},
                    "start_ticks": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "When it started: field 22 of /proc/PID/stat.",
                    },
                    "boot_id": {"type": "string", "description": "/proc/sys/kernel/random/boot_id."},
                    "uid": {"type": "integer", "minimum": 0, "description": "Its user."},
                    "pid_namespace": {
                        "type": ["integer", "null"],
                        "description": "The PID namespace in which it has its number: the inode of /proc/PID/ns/pid.",
                    },
                    "ticket": {
                        "type": "string",
                        "description": "What it holds until this run is over, if it carries out others afterwards.",
                    },
                },
            },
            "containment": _text("How the launcher contains the process tree."),
            "command": {
                "type": "array",
                "items": {"type": "string"},
                "description": "What was launched, word by word.",
            },
            "cwd": _text("The directory that the command was started in."),
            "artifacts_path": _text(
                "Where the artifacts are, relative to the run directory; only a launcher may name another place. "
                "Default: artifacts."
            ),
            "timeout": {
                "type": ["number", "null"],
                "minimum": 0,
                "description": "The seconds after which the launcher ends the run.",
            },
            "metadata": {"type": "object", "description": "Whatever else the launcher keeps with the run."},
        },
    }


def exit_schema() -> dict[str, JsonValue]:
    """What `exit.json` may look like."""
    return {
        "title": "Runward exit.json",
        "type": "object",
        "properties": {
            "exit_code": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 0xFFFFFFFF,
                "description": "The exit code of the command; null if a signal ended it.",
            },
            "signal": {
                "type": ["integer", "null"],
                "minimum": 1,
                "maximum": 127,
                "description": "The signal that ended it, or that told it to stop.",
            },
            "cause": {
                "enum": [*CAUSES],
                "description": "Why it is over. Default: signalled if there is a signal, else exited.",
            },
            "error": {"type": ["string", "null"], "description": "What went wrong, in words."},
            "finished_at": _time("When it was over. Default: when this file was written."),
            "duration_s": {"type": "number", "minimum": 0, "description": "How long it took, in seconds."},
            "secret": {
                "type": "string",
                "description": "What only the launcher of this run could know: it sealed the launch with its hash.",
            },
            "survivors_killed": {
                "type": "integer",
                "minimum": 0,
                "description": "Processes that the command left behind and that were killed.",
            },
        },
    }
