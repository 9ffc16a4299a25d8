"""Any change of any part of a bundle is found, in the part that was changed; an untouched bundle is never refused."""

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.daemon.rundir.made_bundles import SESSIONS, made
from tests.handlers.bundle.json_values import values

from runward.config.json_value import JsonValue
from runward.daemon.rundir.bundle_verifying import receipt_fields, verify_bundle
from runward.handlers.bundle.canonical import FORMS, Form
from runward.handlers.bundle.parts import PARTS
from runward.handlers.bundle.verify import Verified

Bundles = list[tuple[Path, dict[str, bytes]]]

TRIED = 40
"""Changes that are always tried; `prove` tries a thousand."""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """A bundle of each layout in each form."""
    found: Bundles = []
    for layout, write in SESSIONS.items():
        session_id, path = write(tmp_path_factory.mktemp(layout))
        for form in FORMS:
            directory = tmp_path_factory.mktemp(f"{layout}-{form}")
            made(layout, session_id, path, directory, form)
            found.append((directory, {part: (directory / part).read_bytes() for part in PARTS}))
    return found


def verified(directory: Path) -> Verified:
    found = verify_bundle(str(directory), 1, frozenset)
    assert found is not None
    return found


def changed(content: bytes, other: bytes, chance: random.Random) -> bytes:
    """The content with one random change: of a byte, or of whole lines, some from another bundle's part."""
    at = chance.randrange(len(content))
    lines = content.splitlines(keepends=True)
    here, there = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(7):
        case 0:
            return content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
        case 1:
            return content[:at] + content[at + 1 :]
        case 2:
            return content[:at] + bytes([chance.randrange(256)]) + content[at:]
        case 3:
            lines[here], lines[there] = lines[there], lines[here]
        case 4:
            lines.insert(here, lines[there])
        case 5:
            del lines[here]
        case 6:
            lines[here] = chance.choice(other.splitlines(keepends=True))
    return b"".join(lines)


def _is_found(directory: Path, right: dict[str, bytes], part: str, wrong: bytes) -> bool:
    """Whether the bundle is invalid with these bytes in a part, and that part is named."""
    (directory / part).write_bytes(wrong)
    try:
        answer = verified(directory)
    finally:
        (directory / part).write_bytes(right[part])
    return not answer.valid and part in {each.part for each in answer.problems}


def _missed(bundles: Bundles, count: int, chance: random.Random) -> list[tuple[Path, str, bytes]]:
    """Those of so many random changes that are not found."""
    missed, tried = [], 0
    while tried < count:
        (directory, right), (_, other) = chance.sample(bundles, 2)
        part = chance.choice(PARTS)
        wrong = changed(right[part], other[part], chance)
        if wrong != right[part]:
            if not _is_found(directory, right, part, wrong):
                missed.append((directory, part, wrong))
            tried += 1
    return missed


def test_the_bundles_of_every_layout_are_valid_and_say_something(bundles: Bundles) -> None:
    for directory, right in bundles:
        answer = verified(directory)
        assert (answer.valid, answer.form, answer.problems) == (True, "runward", ()), directory
        assert json.loads(right["RECEIPT.json"])["tool_calls"], directory


def test_a_change_of_any_part_is_found_and_the_part_is_named(bundles: Bundles) -> None:
    assert _missed(bundles, TRIED, random.Random(15)) == []


@pytest.mark.prove
def test_a_thousand_random_changes_are_all_found_and_no_untouched_bundle_is_refused(bundles: Bundles) -> None:
    assert _missed(bundles, 1000, random.Random(1515)) == []
    for directory, right in bundles:
        assert {part: (directory / part).read_bytes() for part in PARTS} == right
        assert verified(directory).valid


_ids = st.sampled_from("abcde")
_times = st.none() | st.integers(0, 59).map(lambda second: f"2026-01-31T12:00:{second:02}Z")
_told = st.one_of(
    st.fixed_dictionaries(
        {"event": st.just("ToolCall"), "id": _ids, "tool": st.sampled_from(["Bash", "né"]), "params": values},
        optional={"t": _times, "step_id": _ids, "cost_tokens": st.integers(0, 9)},
    ),
    st.fixed_dictionaries(
        {"event": st.just("ToolResult"), "id": _ids, "output": values},
        optional={"t": _times, "exit_code": st.integers(-1, 2), "step_utility": st.floats(-1, 1)},
    ),
    st.fixed_dictionaries({"event": st.just("PlanStart"), "plan": values}),
    st.fixed_dictionaries({"event": st.just("StepComplete"), "step_id": _ids, "status": _ids}),
    st.fixed_dictionaries({"event": st.sampled_from(["SessionEnd", "Odd"]), "confidence": st.floats(0, 1)}),
    values,
)


@settings(max_examples=25)
@given(st.lists(_told, max_size=12), st.sampled_from(FORMS), st.randoms(use_true_random=False))
def test_the_bundle_of_any_session_is_valid_until_it_is_changed(
    told: list[JsonValue], form: Form, chance: random.Random
) -> None:
    with TemporaryDirectory() as base:
        run, directory = Path(base, "run"), Path(base, "bundle")
        run.mkdir()
        (run / "trace.jsonl").write_text("".join(json.dumps(each) + "\n" for each in told))
        made("native", "run", run, directory, form)
        answer = verified(directory)
        assert (answer.valid, answer.problems) == (True, ()), answer
        calls = [
            str(each["id"]) for each in told if isinstance(each, dict) and each.get("event") == "ToolCall"
        ]
        fields = receipt_fields(str(directory), 1)
        assert fields is not None
        listed = fields["tool_calls"]
        assert isinstance(listed, list)
        assert [each["id"] for each in listed if isinstance(each, dict)] == list(dict.fromkeys(calls))
        right = {part: (directory / part).read_bytes() for part in PARTS}
        part = chance.choice(PARTS)
        wrong = changed(right[part], right[chance.choice(PARTS)], chance)
        if wrong != right[part]:
            assert _is_found(directory, right, part, wrong), (part, wrong)
