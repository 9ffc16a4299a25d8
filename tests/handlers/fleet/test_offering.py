"""What this host accepts from others, and what it tells them: two readings of the same entries."""

from typing import Any

import pytest

from runward.config.contract import ExpectedArtifact
from runward.config.playbook import Playbook
from runward.config.settings import Accept
from runward.handlers.fleet.offering import accepted, accepted_from, hash_of
from runward.handlers.model.fleet import Accepted
from runward.handlers.model.invocations import Play

ENTRIES = (
    Accept(("laptop",), ("train*",), allow=("env",), longest=60.0),
    Accept(("laptop", "build"), ("*",), allow=("cwd",), longest=30.0),
    Accept(("*",), ("render",), ("notify",)),
)


ADDED_UP = (
    ("laptop", "skill", "train", {"env", "cwd"}, 60.0, [0, 1]),
    ("build", "skill", "train", {"cwd"}, 30.0, [1]),
    ("build", "skill", "render", {"cwd"}, None, [1, 2]),
    ("other", "action", "notify", set[str](), None, [3]),
)
IN_WORDS = (
    '[[fleet.accept]] from = ["laptop"], skills = ["train*"], allow = ["env"], longest = "60s"',
    '[[fleet.accept]] from = ["laptop", "build"], skills = ["*"], allow = ["cwd"], longest = "30s"',
    '[[fleet.accept]] from = ["*"], skills = ["render"]',
    '[[fleet.accept]] from = ["*"], actions = ["notify"]',
)


@pytest.mark.parametrize(("origin", "kind", "name", "allow", "longest", "entries"), ADDED_UP)
def test_entries_that_accept_the_same_add_up_the_longest_time_counts_and_each_is_named(
    origin: str, kind: Any, name: str, allow: set[str], longest: float | None, entries: list[int]
) -> None:
    found = accepted(ENTRIES, origin, kind, name)
    assert found == Accepted(frozenset(allow), longest, tuple(IN_WORDS[each] for each in entries))


def test_nothing_is_accepted_without_an_entry_and_an_entry_in_words_has_its_key() -> None:
    assert accepted(ENTRIES, "other", "skill", "train") is None
    signed = (Accept(("*",), ("*",), key="ed25519:00"),)
    found = accepted(signed, "other", "skill", "train", "ed25519:00")
    assert found is not None
    assert found.entries == ('[[fleet.accept]] from = ["*"], skills = ["*"], key = "ed25519:00"',)
    many = (Accept(("*",), (*tuple("x" * 60 for _ in range(99)), "*")),)
    found = accepted(many, "other", "skill", "train")
    assert found is not None
    assert [len(each) for each in found.entries] == [1024]


@pytest.mark.parametrize("kind", ["skill", "action"])
@pytest.mark.parametrize("name", ["train", "render", "notify", "tidy"])
@pytest.mark.parametrize("origin", ["laptop", "build", "other"])
def test_a_host_is_told_of_exactly_what_is_accepted_from_it(kind: str, name: str, origin: str) -> None:
    told = accepted_from(ENTRIES, kind, name)  # type: ignore[arg-type] # one of the two
    is_told = origin in told or "*" in told
    assert is_told is (accepted(ENTRIES, origin, kind, name) is not None)  # type: ignore[arg-type] # one of the two


REPORT = ExpectedArtifact(id="report", path="report.md")
PLAY = Play(Playbook("train", ("train", "{{ with.data }}"), 60.0, 5.0), "trainer", (REPORT,), "runs", "/runs")
assert PLAY.playbook is not None


@pytest.mark.parametrize(
    "changed",
    [
        PLAY._replace(playbook=PLAY.playbook._replace(command=("train", "-x"))),
        PLAY._replace(playbook=PLAY.playbook._replace(timeout=61.0)),
        PLAY._replace(playbook=PLAY.playbook._replace(grace=None)),
        PLAY._replace(playbook=PLAY.playbook._replace(artifacts=(REPORT._replace(path="other.md"),))),
        PLAY._replace(agent="other"),
        PLAY._replace(defaults=None),
        PLAY._replace(shell="train"),
    ],
)
def test_the_hash_changes_with_what_is_started_and_with_what_it_must_leave_behind(changed: Play) -> None:
    assert hash_of(PLAY) == hash_of(PLAY._replace(root_name="b", root_path="/b"))
    assert hash_of(changed) != hash_of(PLAY)


def test_what_starts_nothing_has_no_hash() -> None:
    assert hash_of(Play(None, problem="there is no playbook 'train'")) is None
    assert hash_of(Play(Playbook("train"))) is None


def test_an_entry_with_a_key_counts_only_for_what_that_key_signed() -> None:
    key = f"ed25519:{'1' * 64}"
    entries = (
        Accept(("laptop",), skills=("train",), longest=60.0),
        Accept(("laptop",), skills=("train", "erase"), allow=("env",), key=key),
    )
    for signer, allow in (
        (None, frozenset()),
        (f"ed25519:{'2' * 64}", frozenset()),
        (key, frozenset({"env"})),
    ):
        found = accepted(entries, "laptop", "skill", "train", signer)
        assert found is not None
        assert (found.allow, found.longest) == (allow, None if signer == key else 60.0)
        assert len(found.entries) == (2 if signer == key else 1)
        assert (accepted(entries, "laptop", "skill", "erase", signer) is not None) is (signer == key)
