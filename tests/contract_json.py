"""Contracts as launchers write them into `run.json`, for tests that begin with one."""

from runward.config.json_value import JsonValue


def entry(path: str, required: bool = True) -> dict[str, JsonValue]:
    """One expected artifact of a playbook with every key that a snapshot has; its id is its path to the first dot."""
    return {
        "id": path.partition(".")[0],
        "path": path,
        "required": required,
        "description": "",
        "source": "playbook",
    }
