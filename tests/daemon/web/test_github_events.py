"""Which events deliveries of GitHub are, and their fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.daemon.web.github import occurrence_of

PULL: dict[str, JsonValue] = {
    "number": 1070,
    "base": {"ref": "main", "sha": "b" * 40, "repo": {"full_name": "o/r"}},
    "head": {"ref": "fix/it", "sha": "a" * 40, "repo": {"full_name": "o/r"}},
    "draft": False,
    "title": "Fix it",
    "user": {"login": "ada"},
    "html_url": "https://github.com/o/r/pull/1070",
    "merged": False,
}
REPOSITORY: dict[str, JsonValue] = {"full_name": "o/r"}
FIELDS = {
    "pr_number": 1070,
    "base": "main",
    "head": "fix/it",
    "base_sha": "b" * 40,
    "head_sha": "a" * 40,
    "head_repository": "o/r",
    "fork": False,
    "draft": False,
    "title": "Fix it",
    "author": "ada",
    "url": "https://github.com/o/r/pull/1070",
    "repository": "o/r",
}


def test_a_pull_request_that_is_opened() -> None:
    found = occurrence_of(
        "pull_request", {"action": "opened", "pull_request": PULL, "repository": REPOSITORY}
    )
    assert found == ("pr.opened", FIELDS)


@pytest.mark.parametrize("action", ["reopened", "synchronize", "ready_for_review"])
def test_a_pull_request_that_changes_has_an_event_of_its_own(action: str) -> None:
    payload: dict[str, JsonValue] = {"action": action, "pull_request": PULL, "repository": REPOSITORY}
    assert occurrence_of("pull_request", payload) == (f"pr.{action}", FIELDS)


@pytest.mark.parametrize(
    ("head", "repository", "fork"),
    [
        ({"ref": "main", "sha": "c", "repo": {"full_name": "eve/r"}}, "eve/r", True),
        ({"ref": "main", "sha": "c", "repo": None}, None, True),
        ({"ref": "main", "sha": "c"}, None, None),
    ],
)
def test_a_pull_request_from_a_fork_says_so(
    head: dict[str, JsonValue], repository: str | None, fork: bool | None
) -> None:
    pull: dict[str, JsonValue] = {**PULL, "head": head}
    payload: dict[str, JsonValue] = {"action": "opened", "pull_request": pull, "repository": REPOSITORY}
    found = occurrence_of("pull_request", payload)
    assert found is not None
    assert {key: found.fields[key] for key in ("head", "head_sha", "head_repository", "fork")} == {
        "head": "main",
        "head_sha": "c",
        "head_repository": repository,
        "fork": fork,
    }


def test_a_pull_request_that_is_merged_and_one_that_is_only_closed() -> None:
    closed: dict[str, JsonValue] = {"action": "closed", "pull_request": PULL, "repository": REPOSITORY}
    assert occurrence_of("pull_request", closed) is None
    merged: dict[str, JsonValue] = {**closed, "pull_request": {**PULL, "merged": True}}
    assert occurrence_of("pull_request", merged) == ("pr.merged", FIELDS)


def test_an_issue_that_is_opened() -> None:
    payload: dict[str, JsonValue] = {
        "action": "opened",
        "issue": {
            "number": 4,
            "title": "It fails",
            "user": {"login": "bob"},
            "html_url": "https://github.com/o/r/issues/4",
            "labels": [{"name": "bug"}, {"name": None}, "odd"],
        },
        "repository": REPOSITORY,
    }
    assert occurrence_of("issues", payload) == (
        "issue.created",
        {
            "issue_number": 4,
            "title": "It fails",
            "author": "bob",
            "url": "https://github.com/o/r/issues/4",
            "repository": "o/r",
            "labels": ["bug"],
        },
    )


@pytest.mark.parametrize(
    ("kind", "action"),
    [("ping", None), ("push", None), ("pull_request", "edited"), ("issues", "closed"), ("issue", "opened")],
)
def test_what_is_none_of_ours(kind: str, action: str | None) -> None:
    assert occurrence_of(kind, {"action": action, "pull_request": PULL}) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["pull_request", "issues"]),
    st.sampled_from(["opened", "closed"]),
    st.dictionaries(st.sampled_from(["pull_request", "issue", "repository"]), json_values),
)
def test_whatever_a_payload_holds_is_no_error(kind: str, action: str, payload: dict[str, JsonValue]) -> None:
    found = occurrence_of(kind, {**payload, "action": action})
    if found is not None:
        assert found.name in ("pr.opened", "pr.merged", "issue.created")
