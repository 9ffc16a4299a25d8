"""What holds for every layout of run directories: none is taken for another, and nothing spoilt does any harm."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handlers.layouts import adjutant_lines, ctcp_lines, lionagi_lines
from tests.handlers.layouts.directories import (
    ANYTHING,
    as_bytes,
    document,
    fed,
    fed_in_portions,
    numbered,
    recognised,
    spoilt_log,
)
from tests.handlers.layouts.lionagi_lines import OWN, WORKER

from runward.config.json_value import JsonValue
from runward.config.run_schema import SCHEMA
from runward.handlers.layouts import adjutant, ctcp, lionagi, native
from runward.handlers.layouts.transcript import MOST_COMPLAINTS, TranscriptScanner
from runward.handlers.model.sessions import Document


class Layout(NamedTuple):
    """A layout as these tests need it: its scanner, a log that it has, its documents, and the words of a good end."""

    scanner: TranscriptScanner[Any]
    recognises: Callable[[frozenset[str], Mapping[str, bytes]], bool]
    markers: tuple[str, ...]
    log: str
    lines: list[bytes]
    documents: dict[str, dict[str, JsonValue]]
    good_end: bytes


LAYOUTS = {
    "ctcp": Layout(
        ctcp.SCANNER,
        ctcp.recognises_directory,
        ctcp.MARKERS,
        ctcp.EVENTS,
        [*ctcp_lines.mended_run(), ctcp_lines.event("blocked"), ctcp_lines.event("LOCAL_EXEC_FAILED", rc=1)],
        {ctcp.RUN: ctcp_lines.run_json("blocked"), ctcp.REPORT: ctcp_lines.report("FAIL")},
        b"run_pass",
    ),
    "adjutant": Layout(
        adjutant.SCANNER,
        adjutant.recognises_directory,
        adjutant.MARKERS,
        adjutant.REPLAY,
        [line for form in adjutant_lines.FORMS for line in adjutant_lines.session(form)],
        {adjutant.RECEIPT: adjutant_lines.receipt("b")},
        b"uccess",
    ),
    "lionagi": Layout(
        lionagi.SCANNER,
        lionagi.recognises_directory,
        lionagi.MARKERS,
        f"stream/{OWN}.buffer.jsonl",
        lionagi_lines.stream(),
        {
            lionagi.RUN: lionagi_lines.run_json(),
            f"branches/{OWN}.json": lionagi_lines.branch(
                OWN, [lionagi_lines.instruction(), lionagi_lines.response()]
            ),
            f"branches/{WORKER}.json": lionagi_lines.branch(WORKER, [lionagi_lines.message("ActionRequest")]),
        },
        b"no line says so",
    ),
}

NATIVE = json.dumps({"schema": "runward-run-v1", "session_id": "s"}).encode()
JOURNAL = b'{"ts":"2026-03-01T10:00:00Z","role":"runward","event":"session_started","path":""}\n'

DIRECTORIES: dict[str, tuple[str | None, dict[str, bytes], set[str]]] = {
    "ctcp": (
        "ctcp",
        {"RUN.json": as_bytes(ctcp_lines.run_json()), "events.jsonl": b""},
        {"artifacts", "outbox"},
    ),
    "ctcp, RUN.json being written": (
        "ctcp",
        {"RUN.json": b"", "events.jsonl": ctcp_lines.event("run_created") + b"\n"},
        {"artifacts"},
    ),
    "ctcp, RUN.json gone": (
        "ctcp",
        {"repo_ref.json": b'{"schema_version": "ctcp-repo-ref-v1"}'},
        {"artifacts"},
    ),
    "ctcp by its contracts alone": (
        "ctcp",
        {"events.jsonl": b"{torn\n" + ctcp_lines.event("round_started") + b"\n"},
        {"artifacts", "reviews"},
    ),
    **{
        f"adjutant, form {form}": (
            "adjutant",
            {
                "REPLAY.jsonl": b"\n".join(adjutant_lines.session(form)) + b"\n",
                "RECEIPT.json": as_bytes(adjutant_lines.receipt(form)),
            },
            {"PR_SUMMARY.md"},
        )
        for form in adjutant_lines.FORMS
    },
    "adjutant, first line torn": (
        "adjutant",
        {"REPLAY.jsonl": b"\n".join([b'{"event":', *adjutant_lines.start("c")])},
        set(),
    ),
    "adjutant, its receipt alone": (
        "adjutant",
        {"RECEIPT.json": as_bytes(adjutant_lines.receipt("d"))},
        set(),
    ),
    "lionagi": (
        "lionagi",
        {"run.json": as_bytes(lionagi_lines.run_json())},
        {"branches", "stream", "artifacts"},
    ),
    "lionagi, early": ("lionagi", {}, {"branches", "stream"}),
    "native": ("native", {"run.json": NATIVE}, {"artifacts"}),
    "native with its journal and bundle": (
        "native",
        {
            "run.json": NATIVE,
            "events.jsonl": JOURNAL + ctcp_lines.event("run_created"),
            "REPLAY.jsonl": b"\n".join(adjutant_lines.session("b")),
            "RECEIPT.json": as_bytes(adjutant_lines.receipt("b")),
        },
        {"artifacts", "exit.json", "process.json"},
    ),
    "native whose metadata has another's words": (
        "native",
        {"run.json": b'{"schema": "runward-run-v1", "metadata": {"run_id": 1, "state_root": 2}}'},
        {"branches", "stream", "artifacts"},
    ),
    "a native run that lost its run.json": (
        None,
        {"events.jsonl": JOURNAL, "REPLAY.jsonl": b"\n".join(adjutant_lines.session("b"))},
        {"artifacts", "exit.json"},
    ),
    "Runward's journal alone": (None, {"events.jsonl": JOURNAL}, {"artifacts"}),
    "a native run with folders like lionagi's": (None, {"exit.json": b"{}"}, {"branches", "stream"}),
    "somebody's run.json": (None, {"run.json": b'{"run_id": "wandb"}'}, {"branches", "stream"}),
    "somebody's events": (None, {"events.jsonl": b'{"event": "x"}\n'}, {"artifacts"}),
    "somebody's replay": (None, {"REPLAY.jsonl": b'{"event": ["SessionStart"]}\n[]\n7\n'}, set()),
    "somebody's receipt": (None, {"RECEIPT.json": b'{"session_id": "s", "total": 7}'}, set()),
    "nothing": (None, {}, set()),
}


def who_says_yes(names: frozenset[str], heads: Mapping[str, bytes]) -> list[str]:
    """The layouts that take a directory for theirs; ours is told by its `run.json` as the native scanner reads it."""
    found = [name for name, layout in LAYOUTS.items() if layout.recognises(names, heads)]
    run = heads.get(native.RUN)
    if run and isinstance(value := json.loads(run), dict) and value.get("schema") == SCHEMA:
        found.append("native")
    return found


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_directory_is_taken_for_what_it_is_and_for_nothing_else(name: str) -> None:
    layout, files, others = DIRECTORIES[name]
    assert who_says_yes(frozenset({*files, *others}), files) == ([layout] if layout else [])


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_wants_to_see_only_its_markers(name: str) -> None:
    for layout, files, others in DIRECTORIES.values():
        if layout == name:
            heads = {marker: files[marker] for marker in LAYOUTS[name].markers if marker in files}
            assert LAYOUTS[name].recognises(frozenset({*files, *others}), heads)


@pytest.mark.parametrize(
    ("place", "layout"),
    [
        ("ctcp-run-pass", "ctcp"),
        ("lionagi/run_completed", "lionagi"),
        ("openhands/e702890368d04ffeb561f0d3ad0bc804", None),
        ("claude-code", None),
        ("codex", None),
        ("opencode", None),
        ("mini-swe-agent", None),
    ],
)
def test_a_recorded_directory_is_taken_for_what_it_is(material: Path, place: str, layout: str | None) -> None:
    directory = material / "samples" / place
    yes = [name for name, each in LAYOUTS.items() if recognised(directory, each.recognises, each.markers)]
    assert yes == ([layout] if layout else [])


@given(
    names=st.frozensets(st.sampled_from(["run.json", "RUN.json", "events.jsonl", "REPLAY.jsonl"])),
    data=st.data(),
)
def test_no_head_of_any_file_raises(names: frozenset[str], data: st.DataObject) -> None:
    known = [head for _, files, _ in DIRECTORIES.values() for head in files.values()]
    cut = st.builds(lambda head, end: head[:end], st.sampled_from(known), st.integers(0, 400))
    heads = {name: data.draw(st.binary(max_size=40) | cut | ANYTHING.map(_json)) for name in names}
    for layout in LAYOUTS.values():
        assert layout.recognises(names | {"artifacts"}, heads) in (True, False)


def _json(value: JsonValue) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("name", LAYOUTS)
@given(cuts=st.lists(st.integers(0, 60), max_size=6))
def test_a_log_in_portions_amounts_to_the_whole(name: str, cuts: list[int]) -> None:
    layout = LAYOUTS[name]
    whole = fed(layout.scanner, "d", {layout.log: layout.lines})
    assert fed_in_portions(layout.scanner, "d", layout.log, layout.lines, cuts) == whole


def harm_done(layout: Layout, lines: Sequence[bytes], cuts: Sequence[int]) -> list[str]:
    """What does not hold of a log, whatever is in its lines."""
    told, resumed = whole = fed(layout.scanner, "d", {layout.log: lines})
    named = [complaint for complaint in told.complaints if complaint.line is not None]
    is_good = told.close is not None and told.close.status == "completed"
    attempts = told.attempt if told.counts.events else 1
    holds = {
        "portions amount to the whole": fed_in_portions(layout.scanner, "d", layout.log, lines, cuts)
        == whole,
        "what nobody can read counts": sum(map(hopeless, lines)) <= told.unreadable <= len(lines),
        "the first are named": len(named) == min(told.unreadable, MOST_COMPLAINTS),
        "every record counts": told.counts.events >= sum(map(is_object, lines)),
        "a good end was written": not is_good
        or any(layout.good_end in line.replace(b"\0", b"") for line in lines),
        "each resumption is an attempt": attempts >= 1 + len(resumed),
    }
    return [what for what, does in holds.items() if not does]


def hopeless(line: bytes) -> bool:
    """Whether nobody could read anything from this line."""
    return bool(line.strip()) and b"{" not in line.replace(b"\0", b"") and not is_json(line)


def is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True


def is_object(line: bytes) -> bool:
    return is_json(line) and isinstance(msgspec.json.decode(line), dict)


CUTS = st.lists(st.integers(0, 20), max_size=3)


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=30)
@given(data=st.data())
def test_spoilt_lines_do_no_harm(name: str, data: st.DataObject) -> None:
    layout = LAYOUTS[name]
    assert harm_done(layout, data.draw(spoilt_log(layout.lines)), data.draw(CUTS)) == []


@pytest.mark.sweep
@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=1000)
@given(data=st.data())
def test_twenty_thousand_spoilt_lines_do_no_harm(name: str, data: st.DataObject) -> None:
    layout = LAYOUTS[name]
    assert harm_done(layout, data.draw(spoilt_log(layout.lines)), data.draw(CUTS)) == []


@st.composite
def spoilt_document(draw: st.DrawFn, documents: Mapping[str, dict[str, JsonValue]]) -> Document:
    """A document with fields of any type, also deep in it, or no object at all, or torn."""
    name = draw(st.sampled_from(sorted(documents)))
    content = as_bytes(_spoilt(draw, documents[name]))
    if draw(st.booleans()):
        content = content[: draw(st.integers(0, len(content)))]
    return document(name, content, draw(st.floats()))


def _spoilt(draw: st.DrawFn, value: JsonValue) -> JsonValue:
    if draw(st.integers(0, 7)) == 0:
        return draw(ANYTHING)
    if isinstance(value, dict):
        return {key: _spoilt(draw, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_spoilt(draw, inner) for inner in value]
    return value


@pytest.mark.parametrize("name", LAYOUTS)
@given(data=st.data())
def test_spoilt_documents_do_no_harm(name: str, data: st.DataObject) -> None:
    layout = LAYOUTS[name]
    state = layout.scanner.start("d")
    for _ in range(3):
        state = layout.scanner.see(state, [data.draw(spoilt_document(layout.documents))])
        state = layout.scanner.load(layout.scanner.dump(state))
    told = layout.scanner.tell(state)
    assert told.unreadable == 0, "documents have no lines"
    assert len(told.complaints) <= len(layout.documents)
    assert told.close is None or told.turn == "closed"


@pytest.mark.parametrize("name", LAYOUTS)
def test_lines_of_any_length_are_taken_and_the_state_stays_small(name: str) -> None:
    layout = LAYOUTS[name]
    long = [json.dumps(json.loads(line) | {"more": "x" * 10_000_000}).encode() for line in layout.lines[:2]]
    cut = [line._replace(content=line.content[:100_000], is_cut=True) for line in numbered(layout.lines, 9)]
    state, _ = layout.scanner.feed(layout.scanner.start("d"), layout.log, [*numbered(long), *cut])
    told = layout.scanner.tell(state)
    assert told.counts.events == len(long) + len(cut)
    assert told.unreadable == 0
    spoilt = numbered([b"{" * 50] * 5000, 100)
    state, _ = layout.scanner.feed(state, layout.log, spoilt)
    assert layout.scanner.tell(state).unreadable == 5000
    assert len(layout.scanner.dump(state)) < 8192
