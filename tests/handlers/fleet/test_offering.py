"""What this host accepts from others, and what it tells them: two readings of the same entries."""

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


def test_entries_that_accept_the_same_add_up_and_the_longest_time_counts() -> None:
    assert accepted(ENTRIES, "laptop", "skill", "train") == Accepted(frozenset({"env", "cwd"}), 60.0)
    assert accepted(ENTRIES, "build", "skill", "train") == Accepted(frozenset({"cwd"}), 30.0)
    assert accepted(ENTRIES, "build", "skill", "render") == Accepted(frozenset({"cwd"}), None)
    assert accepted(ENTRIES, "other", "skill", "train") is None
    assert accepted(ENTRIES, "other", "action", "notify") == Accepted(frozenset(), None)


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
        assert found == Accepted(allow, None if signer == key else 60.0)
        assert (accepted(entries, "laptop", "skill", "erase", signer) is not None) is (signer == key)
