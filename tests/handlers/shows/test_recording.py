"""What is kept of a play when it begins and when it is over, and what an odd `_meta.json` comes to."""

import json

import pytest
from tests.handlers.layouts.directories import document

from runward.config.json_value import JsonValue
from runward.handlers.layouts.show import META, MOST_FURTHER, MOST_PLAYS, PLAN, read_meta
from runward.handlers.model.asking import Asking
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.files import Unreadable
from runward.handlers.model.invocations import OpenInvocation
from runward.handlers.model.sessions import Document
from runward.handlers.model.shows import Meta, PlayFiles, PlayFilesIn, RecordPlay
from runward.handlers.shows import LONGEST_PLAN, begun, changed, ended

PATH = "/shows/retry-queue/play-1"
KEY = "show:shows/retry-queue/play-1"


def decided(deciding: Asking[Effects], answer: PlayFiles | Unreadable) -> Effects:
    assert next(deciding) == PlayFilesIn(PATH)
    with pytest.raises(StopIteration) as over:
        deciding.send(answer)
    effects: Effects = over.value.value
    return effects


def plan(content: bytes) -> Document:
    return document(PLAN, content)


def test_a_play_begins_as_an_invocation_with_the_plan_and_its_data_is_kept() -> None:
    files = PlayFiles(document(META, {"status": "running", "round": 2}), plan(b"# Plan"))
    opened, kept = decided(begun(KEY, PATH, 7.0), files)
    assert isinstance(opened, OpenInvocation)
    assert (opened.skill, opened.session_key, opened.chain_run, opened.at) == ("show", KEY, None, 7.0)
    assert opened.metadata == {"topic": "retry-queue", "play": "play-1", "plan": "# Plan"}
    meta = Meta("running", further={"round": 2})
    assert kept == RecordPlay(KEY, 7.0, "/shows/retry-queue", "retry-queue", "play-1", meta)


def test_a_plan_is_kept_without_secrets_and_only_so_much_of_it() -> None:
    written = b"password=hunter2hunter2 \xff" + b"x" * 3 * LONGEST_PLAN
    opened, _ = decided(begun(KEY, PATH, 7.0), PlayFiles(None, plan(written)))
    assert isinstance(opened, OpenInvocation)
    assert isinstance(opened.metadata, dict)
    kept = opened.metadata["plan"]
    assert isinstance(kept, str)
    assert kept.startswith("password=[redacted] \ufffdxx")
    assert len(kept) == LONGEST_PLAN


def test_a_plan_that_cannot_be_read_is_said_to_be() -> None:
    files = PlayFiles(None, plan(b"")._replace(problem="is not a regular file"))
    opened, _ = decided(begun(KEY, PATH, 7.0), files)
    assert isinstance(opened, OpenInvocation)
    assert isinstance(opened.metadata, dict)
    assert (opened.metadata["plan"], opened.metadata["plan_problem"]) == (
        None,
        "_show.md is not a regular file",
    )


def test_a_play_whose_files_cannot_be_read_begins_and_ends_all_the_same() -> None:
    opened, said = decided(begun(KEY, PATH, 7.0), Unreadable("permission denied"))
    assert isinstance(opened, OpenInvocation)
    (again,) = decided(ended(KEY, PATH, 8.0), Unreadable("permission denied"))
    assert said == again
    assert isinstance(said, Explain)
    assert said.summary == "the play's data and its show's plan can't be read: permission denied"


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b""])
def test_data_that_is_torn_leaves_the_columns_empty(content: bytes) -> None:
    (kept,) = decided(ended(KEY, PATH, 8.0), PlayFiles(document(META, content), None))
    assert isinstance(kept, RecordPlay)
    assert (kept.meta, kept.at) == (Meta(), 8.0)


def test_data_that_changes_is_kept_and_what_is_torn_or_gone_meanwhile_changes_nothing() -> None:
    (kept,) = decided(changed(KEY, PATH, 8.0), PlayFiles(document(META, {"status": "paused"}), None))
    assert kept == RecordPlay(KEY, 8.0, "/shows/retry-queue", "retry-queue", "play-1", Meta("paused"))
    for found in (
        PlayFiles(document(META, b"{"), None),
        PlayFiles(None, None),
        Unreadable("permission denied"),
    ):
        assert decided(changed(KEY, PATH, 8.0), found) == ()


@pytest.mark.parametrize(
    ("written", "meta"),
    [
        ({}, Meta()),
        ({"agent": "a", "model": "m", "status": "s"}, Meta("s", "a", "m")),
        ({"agent": 3, "model": None, "status": ["s"]}, Meta()),
        ({"started_at": 5, "finished_at": "1970-01-01T00:00:09Z"}, Meta(started_at=5.0, finished_at=9.0)),
        ({"started_at": True, "finished_at": "soon"}, Meta()),
        ({"depends_on": ["a", 3, "", "b"]}, Meta(depends_on=("a", "b"))),
        ({"depends_on": "a"}, Meta()),
        ({"x": {"password": "p"}}, Meta(further={"x": {"password": "[redacted]"}})),
        ({"x": "y" * MOST_FURTHER}, Meta()),
    ],
)
def test_the_fields_that_make_sense_are_kept(written: dict[str, JsonValue], meta: Meta) -> None:
    assert read_meta(json.loads(json.dumps(written))) == meta


def test_a_play_depends_on_no_more_than_so_many() -> None:
    needed: list[JsonValue] = [str(each) for each in range(MOST_PLAYS + 1)]
    assert len(read_meta({"depends_on": needed}).depends_on) == MOST_PLAYS
