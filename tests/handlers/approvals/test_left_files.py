"""What an approval can't cover is named, and left out only in words."""

import pytest

from runward.config.json_value import JsonValue
from runward.handlers.left_files import UNBOUND, hash_of, unbound, why_not_without


def of(*files: tuple[str, str]) -> dict[str, JsonValue]:
    artifacts: list[JsonValue] = [
        {"step": 0, "id": None, "path": path, "sha256": None, "state": state} for path, state in files
    ]
    return {"argv": ["x"], "artifacts": artifacts}


@pytest.mark.parametrize("state", sorted(UNBOUND))
def test_what_nothing_binds_must_be_left_out_in_words(state: str) -> None:
    value = of(("a", "hashed"), ("b", state))
    assert list(unbound(value)) == ["b"]
    assert "approve without: --without b" in (why_not_without(value, ()) or "")
    assert why_not_without(value, ("b",)) is None
    assert "no such file" in (why_not_without(value, ("b", "c")) or "")


@pytest.mark.parametrize("state", ["hashed", "too_large", "link", "many", "absent", "empty", "not_regular"])
def test_everything_else_is_covered(state: str) -> None:
    value = of(("a", state))
    assert (unbound(value), why_not_without(value, ())) == ({}, None)
    assert why_not_without(value, ("a",)) is None, "a person may leave out more"


def test_what_is_left_out_does_not_count_and_all_else_does() -> None:
    value, other = of(("a", "hashed"), ("b", "changing")), of(("a", "hashed"), ("b", "hashed"))
    assert hash_of(value) != hash_of(other)
    assert hash_of(value, ("b",)) == hash_of(other, ("b",))
    assert hash_of(value, ("b",)) != hash_of(of(("a", "changing")), ("b",))
