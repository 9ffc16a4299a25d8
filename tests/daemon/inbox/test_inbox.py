"""The way in for everybody else: durable when it is put, said by the file's owner, refused aside where it is nothing."""

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.daemon.inbox import spool
from runward.daemon.inbox.requests import load_request
from runward.daemon.inbox.spool import (
    MAXIMUM_REQUEST,
    MOST_AT_ONCE,
    InboxFile,
    clear,
    dump_request,
    list_inbox,
    put,
)
from runward.handlers.model.approvals import ApprovalRequested
from runward.handlers.model.bundle import ReceiptSignRequested
from runward.handlers.model.chains import (
    ChainFireRequested,
    ChainRunCancelRequested,
    ChainStatusRequested,
    EventOccurred,
)
from runward.handlers.model.events import Request
from runward.handlers.model.exchange import ActionRequested, MintRequested, PrincipalCreateRequested
from runward.handlers.model.fleet import (
    RemoteStepBegun,
    RemoteStepCancelled,
    RemoteStepOrdered,
    RemoteStepOver,
    RemoteStepTaken,
)
from runward.handlers.model.notices import NoticeRetryRequested
from runward.handlers.model.outcomes import ArtifactAddRequested
from runward.handlers.model.requests import (
    JobDiscardRequested,
    JobRetryRequested,
    PlayRunRequested,
    PruneRequested,
    RootAcceptRequested,
    ScanRequested,
    SessionCancelRequested,
    SessionSeenRequested,
)
from runward.handlers.model.stored import as_json
from runward.handlers.registry import REQUESTS, load_payload

NAME = "7b0e7b8e-0000-4000-8000-000000000001"
EXAMPLES: list[Request] = [
    JobRetryRequested(NAME, 5.0, 7, "me"),
    JobDiscardRequested(NAME, 5.0, 7, "it is\nhopeless ä", "me"),
    SessionCancelRequested(NAME, 5.0, "native:runs/a", 2, "the wrong\nbranch ä", "me"),
    SessionSeenRequested(NAME, 5.0, "native:runs/a", 2, "me"),
    ReceiptSignRequested(NAME, 5.0, "native:runs/a", 2, "nostr", "me"),
    PlayRunRequested(
        NAME, 5.0, "review", {"pr": 12, "more": {"x": [None, "ä"]}}, "/home/me", "00-a-b-01", "me"
    ),
    ScanRequested(NAME, 5.0, "me"),
    PruneRequested(NAME, 5.0, 86_400.0, "me"),
    RootAcceptRequested(NAME, 5.0, "runs", "1:2", "me"),
    EventOccurred(NAME, 5.0, "pr.opened", "an\nid ä", {"pr": 12, "more": {"x": [None, "ä"]}}, "me"),
    ChainFireRequested(NAME, 5.0, "review", {"pr": 12}, "me"),
    ChainStatusRequested(NAME, 5.0, "review", "paused", "a freeze ä", "me"),
    ChainRunCancelRequested(NAME, 5.0, "cr_0", "the wrong\nbranch ä", "me"),
    ApprovalRequested(NAME, 5.0, "ap_0", "cr_0", "denied", "not\nnow ä", "me"),
    NoticeRetryRequested(NAME, 5.0, "no_0", "me"),
    ActionRequested(NAME, 5.0, "ä", '{"action_type":"noop"}', "me"),
    PrincipalCreateRequested(NAME, 5.0, "ä", "b", 3, 10, 0.5, False, ("ann",), True, True, "be\nkind", "me"),
    MintRequested(NAME, 5.0, "ä", -3, "gold", "not\nnow", "me"),
    RemoteStepTaken(NAME, 5.0, "cr_0-0-1", "gpu-box", 1, "me", 4.5),
    RemoteStepBegun(NAME, 5.0, "cr_0-0-1", "gpu-box", 1, "me"),
    RemoteStepOver(NAME, 5.0, "cr_0-0-1", "ended", "gpu-box", {"status": "an\nend ä"}, {"x": "no ä"}, "me"),
    RemoteStepOrdered(NAME, 5.0, "laptop", "cr_0-0-1", 1, {"with": {"x": [None, "ä"]}}, True, "me", 7.5),
    RemoteStepCancelled(NAME, 5.0, "laptop", "cr_0-0-1", 1, "me"),
    ArtifactAddRequested(NAME, 5.0, "native:runs/a", "note", "one\nä", {"x": [None, "ä"]}, "a.md", "me"),
]


def file(value: JsonValue | bytes, owner: str = "me") -> InboxFile:
    return InboxFile(NAME, owner, value if isinstance(value, bytes) else json.dumps(value).encode())


@pytest.mark.parametrize("request_", EXAMPLES, ids=lambda request: request.type)
def test_a_request_is_read_as_it_was_put(tmp_path: Path, request_: Request) -> None:
    put(tmp_path, NAME, dump_request(request_))
    (found,) = list_inbox(tmp_path)
    event = load_request(replace(found, owner="me"))
    assert event == request_


def test_every_request_has_an_example_here() -> None:
    assert {type(example) for example in EXAMPLES} == set(REQUESTS)


def test_who_said_it_is_the_owner_of_the_file_and_not_what_the_file_says() -> None:
    lie = dump_request(ScanRequested("another-name", 5.0, "root"))
    event = load_request(file(lie, owner="mallory"))
    assert event == ScanRequested(NAME, 5.0, "mallory")


def test_a_file_belongs_to_whoever_made_it(tmp_path: Path) -> None:
    put(tmp_path, NAME, b"{}")
    assert list_inbox(tmp_path)[0].owner == pwd.getpwuid(os.getuid()).pw_name


def test_an_owner_without_a_name_is_a_number(tmp_path: Path) -> None:
    put(tmp_path, NAME, b"{}")
    try:
        os.chown(tmp_path / "inbox" / f"{NAME}.json", 3_999_999, -1)
    except PermissionError:
        pytest.skip("only root may give a file away")
    assert list_inbox(tmp_path)[0].owner == "3999999"


def test_what_another_user_put_is_refused_whatever_it_asks_for(tmp_path: Path) -> None:
    put(tmp_path, NAME, dump_request(EXAMPLES[3]))
    assert not isinstance(load_request(list_inbox(tmp_path)[0]), str)
    try:
        os.chown(tmp_path / "inbox" / f"{NAME}.json", 3_999_999, -1)
    except PermissionError:
        pytest.skip("only root may give a file away")
    assert (
        load_request(list_inbox(tmp_path)[0])
        == "belongs to 3999999, who may not make requests to this daemon"
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type": "ScanRequested"}',
        b'{"type": "ScanRequested", "version": 1}',
        b'{"type": "ScanRequested", "version": 1, "payload": []}',
        b'{"type": "ScanRequested", "version": 99, "payload": {"at": 1.0}}',
        b'{"type": "ScanRequested", "version": "1", "payload": {"at": 1.0}}',
        b'{"type": "ScanRequested", "version": 1, "payload": {"at": "soon"}}',
        b'{"type": "ScanRequested", "version": 1, "payload": {"at": 1e999}}',
        b'{"type": "ScanRequested", "version": 1, "payload": {"at": NaN}}',
        b'{"type": "AttemptEnded", "version": 1, "payload": {}}',
        b'{"type": ["ScanRequested"], "version": 1, "payload": {}}',
        b'{"type": null, "version": 1, "payload": {}}',
        b'{"type": "JobRetryRequested", "version": 1, "payload": {"at": 1.0, "job": "seven"}}',
        b'{"type": "JobRetryRequested", "version": 1, "payload": {"at": 1.0}}',
        b"\xff\xfe",
        b"[" * 10_000,
    ],
)
def test_what_is_no_request_is_told_why(content: bytes) -> None:
    why = load_request(file(content))
    assert isinstance(why, str)
    assert why


def test_a_request_is_for_the_daemons_user_alone(tmp_path: Path) -> None:
    put(tmp_path, NAME, b"{}")
    assert (tmp_path / "inbox").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "inbox" / f"{NAME}.json").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in (tmp_path / "inbox").iterdir()] == [f"{NAME}.json"]


def test_requests_are_listed_oldest_first(tmp_path: Path) -> None:
    for name, moment in (("c", 1), ("a", 3), ("b", 2)):
        put(tmp_path, name, b"{}")
        os.utime(tmp_path / "inbox" / f"{name}.json", ns=(moment, moment))
    assert [each.name for each in list_inbox(tmp_path)] == ["c", "b", "a"]


def test_of_very_many_the_oldest_are_read(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    for number in range(MOST_AT_ONCE + 3):
        path = tmp_path / "inbox" / f"{number:04d}.json"
        path.touch()
        os.utime(path, ns=(0, 10_000 - number))
    found = [each.name for each in list_inbox(tmp_path)]
    assert found == [f"{number:04d}" for number in range(MOST_AT_ONCE + 2, 2, -1)]


def test_what_is_no_request_file_is_left_alone_and_never_blocks(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    put(tmp_path, NAME, b"{}")
    (inbox / ".hidden.json").write_text("{}")
    (inbox / "notes.txt").write_text("{}")
    (inbox / "link.json").symlink_to(f"{NAME}.json")
    (inbox / "directory.json").mkdir()
    os.mkfifo(inbox / "fifo.json")
    (tmp_path / "inbox" / os.fsdecode(b"\xff\xfe.json")).write_text("{}")
    assert [each.name for each in list_inbox(tmp_path)] == [NAME]


def test_an_inbox_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list_inbox(tmp_path) == ()


def test_a_giant_is_read_no_further_than_it_takes_to_refuse_it(tmp_path: Path) -> None:
    put(tmp_path, NAME, b"{}")
    os.truncate(tmp_path / "inbox" / f"{NAME}.json", 1 << 30)
    (found,) = list_inbox(tmp_path)
    assert len(found.content) == MAXIMUM_REQUEST + 1
    assert isinstance(load_request(found), str)


def test_a_recorded_request_is_gone_and_a_refused_one_is_kept_aside(tmp_path: Path) -> None:
    put(tmp_path, "good", b"{}")
    put(tmp_path, "bad", b"nonsense")
    clear(tmp_path, "good", rejected=False)
    clear(tmp_path, "good", rejected=False)
    clear(tmp_path, "bad", rejected=True)
    assert list_inbox(tmp_path) == ()
    assert (tmp_path / "rejected" / "bad.json").read_bytes() == b"nonsense"


def test_a_batch_has_no_more_bytes_than_a_turn_can_read_at_once(tmp_path: Path) -> None:
    for number in range(24):
        spool.put(tmp_path, f"{number:02}", b"x" * (1 << 20))
    waiting = spool.list_inbox(tmp_path)
    batch = spool.first_batch(waiting, 256)
    assert len(batch) == spool.BYTES_OF_A_BATCH >> 20
    assert len(batch) < len(waiting) < 24, "it is known that some wait, and not all are read"
    assert spool.first_batch(waiting[:3], 2) == waiting[:2]


@pytest.mark.parametrize(
    ("field", "number", "reason"),
    [
        ("at", "9" * 400, "PruneRequested version 1 can't be read: Number out of range - at `$.at`"),
        ("at", "1e300", "at is not a time from 1970 to 9999"),
        ("at", "-1", "at is not a time from 1970 to 9999"),
        (
            "older_than",
            "9" * 400,
            "PruneRequested version 1 can't be read: Number out of range - at `$.older_than`",
        ),
    ],
)
def test_a_request_with_a_number_that_can_not_be_kept_is_refused(
    field: str, number: str, reason: str
) -> None:
    content = dump_request(PruneRequested(NAME, 5.0, 7.0, "me")).decode()
    payload = json.loads(content)
    payload["payload"][field] = "@"
    spoilt = json.dumps(payload).replace('"@"', number).encode()
    assert load_request(InboxFile(NAME, "me", spoilt, True)) == reason


@given(st.sampled_from(EXAMPLES), st.data())
def test_whatever_a_request_has_it_is_refused_or_can_be_read_from_the_store(
    request_: Request, data: st.DataObject
) -> None:
    """The store has the event for ever: what was put once and can't be read would hold its lane for ever."""
    spoilt = json.loads(dump_request(request_))
    name = data.draw(st.sampled_from(sorted(spoilt["payload"])))
    spoilt["payload"][name] = "@"
    hostile = [
        "9" * 400,
        "-" + "9" * 4000,
        "9" * 5000,
        "1e400",
        "1e300",
        "-1",
        "18446744073709551616",
        "NaN",
        "null",
        "[]",
    ]
    hostile += [
        '"\\ud800"',
        '"\\u0000"',
        "[" * 60 + "]" * 60,
        "[" * 5000,
        '{"a": ' * 60 + "1" + "}" * 60,
        '{"n": ' + "9" * 400 + "}",
    ]
    text = json.dumps(spoilt).replace('"@"', data.draw(st.sampled_from(hostile)))
    found = load_request(InboxFile(NAME, "me", text.encode(), True))
    if not isinstance(found, str):
        assert found is not None
        again = load_payload(found.type, found.version, as_json(found))
        assert again == found
        assert found.key
        assert found.lane


def test_a_request_that_the_daemon_would_not_read_is_not_left(tmp_path: Path) -> None:
    reason = "x" * MAXIMUM_REQUEST
    with pytest.raises(spool.RequestTooLong):
        spool.leave_request(tmp_path, SessionCancelRequested("stop", 1.0, "native:runs/a", 1, reason))
    assert list_inbox(tmp_path) == ()
