"""The ids of invocations: known as soon as something is ordered, and the same whenever that is decided again."""

import hashlib


def of_chain_run(run: str) -> str:
    """The id of a chain run's root."""
    return _id(run)


def of_try(run: str, step: int, attempt: int) -> str:
    """The id of a try of a step of a chain run."""
    return _id(f"{run}/{step}/{attempt}")


def of_request(request: str) -> str:
    """The id of what a person asked for with this request."""
    return _id(request)


def of_play(session_key: str) -> str:
    """The id of a play of a show."""
    return _id(f"play/{session_key}")


def _id(ordered: str) -> str:
    return f"inv_{hashlib.sha256(ordered.encode()).hexdigest()[:12]}"
