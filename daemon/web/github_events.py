"""Which event a delivery of GitHub is, and which of its fields chains see."""

from typing import NamedTuple

from runward.config.json_value import JsonValue


class Occurrence(NamedTuple):
    """An event's name and its fields."""

    name: str
    fields: dict[str, JsonValue]


def occurrence_of(kind: str, payload: dict[str, JsonValue]) -> Occurrence | None:
    """The event of a delivery of this kind (`X-GitHub-Event`); None for the many that we do not use.

    A field that the payload does not have is null.
    """
    match kind, payload.get("action"):
        case "pull_request", "opened" | "reopened" | "synchronize" | "ready_for_review" as action:
            return Occurrence(f"pr.{action}", _pull_request(payload))
        case "pull_request", "closed" if _at(payload, "pull_request", "merged") is True:
            return Occurrence("pr.merged", _pull_request(payload))
        case "issues", "opened":
            return Occurrence("issue.created", _issue(payload))
        case _:
            return None


def _pull_request(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    found = "pull_request"
    return {
        "pr_number": _at(payload, found, "number"),
        "base": _at(payload, found, "base", "ref"),
        "head": _at(payload, found, "head", "ref"),
        "base_sha": _at(payload, found, "base", "sha"),
        "head_sha": _at(payload, found, "head", "sha"),
        "head_repository": _at(payload, found, "head", "repo", "full_name"),
        "fork": _is_from_fork(payload),
        "draft": _at(payload, found, "draft"),
        "title": _at(payload, found, "title"),
        "author": _at(payload, found, "user", "login"),
        "url": _at(payload, found, "html_url"),
        "repository": _at(payload, "repository", "full_name"),
    }


def _is_from_fork(payload: dict[str, JsonValue]) -> bool | None:
    """Whether the head is in another repository than the base. A head without a repository was in a fork that is gone."""
    head, base = (_at(payload, "pull_request", side) for side in ("head", "base"))
    if not isinstance(head, dict) or "repo" not in head:
        return None
    if head["repo"] is None:
        return True
    name, own = _at(head, "repo", "full_name"), _at(base, "repo", "full_name")
    if own is None:
        own = _at(payload, "repository", "full_name")
    return None if name is None or own is None else name != own


def _issue(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    labels = _at(payload, "issue", "labels")
    names = [_at(each, "name") for each in labels] if isinstance(labels, list) else []
    return {
        "issue_number": _at(payload, "issue", "number"),
        "title": _at(payload, "issue", "title"),
        "author": _at(payload, "issue", "user", "login"),
        "url": _at(payload, "issue", "html_url"),
        "repository": _at(payload, "repository", "full_name"),
        "labels": [name for name in names if isinstance(name, str)],
    }


def _at(value: JsonValue, *keys: str) -> JsonValue:
    """The value under these keys, one inside the other."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
