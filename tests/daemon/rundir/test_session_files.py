"""How far a session's files were read, as it is stored."""

import pytest

from runward.daemon.rundir.session_files import NOT_KNOWN, NOTHING_READ, FilesRead, LogRead
from runward.daemon.rundir.session_logs import Cursor
from runward.daemon.watch.remembered import Remembered, dump_remembered, load_remembered
from runward.handlers.model.files import Signature


def stored(read: FilesRead) -> str:
    return dump_remembered(Remembered("runs", "a.jsonl", read=read))


@pytest.mark.parametrize(
    "read",
    [
        NOTHING_READ,
        FilesRead(
            logs=(
                LogRead(
                    "a.jsonl",
                    Cursor(1, 2, 300, 4, "ab", True, 5),
                    Signature(2, 300, 10**18, 9, 10**18),
                    "is not a file",
                    True,
                ),
            ),
            documents=(
                ("run.json", Signature(3, 20, 10**18, 9, 1)),
                ("branches/é.json", Signature(4, 0, -1)),
            ),
            listed=(("branches/*.json", Signature(5, 4096, 10**18)),),
            failures=3,
            retry_at=1e9 + 8.25,
        ),
    ],
)
def test_what_is_stored_is_what_was_read(read: FilesRead) -> None:
    assert load_remembered(stored(read)).read == read


@pytest.mark.parametrize(
    "text", ["", "[1]", '{"logs": 1}', '{"failures": "x"}', '{"version": 3}', '{"logs": [["a"]']
)
def test_what_this_program_never_wrote_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        load_remembered(f'{{"root": "runs", "place": "a", "read": {text}}}')


def test_a_log_that_an_earlier_version_read_is_looked_into_again_from_where_it_was() -> None:
    log = LogRead("a.jsonl", Cursor(1, 2, 300, 4, "ab"), Signature(2, 310, 10**18))
    by_the_earlier_one = stored(FilesRead((log,), version=1)).replace(",1,false]", ",1]")
    (read,) = load_remembered(by_the_earlier_one).read.logs
    assert (read.cursor, read.signature) == (log.cursor, NOT_KNOWN)


def test_what_is_stored_of_an_ordinary_session_is_small() -> None:
    log = LogRead(
        "0f5c0e6e-1111-4222-8333-000000000001.jsonl",
        Cursor(66306, 10**7, 10**8, 10**5, "0" * 32),
        Signature(10**7, 10**8, 10**18, 66306, 10**18),
    )
    listed = (
        (
            "0f5c0e6e-1111-4222-8333-000000000001/subagents/*.jsonl",
            Signature(10**7, 4096, 10**18, 66306, 10**18),
        ),
    )
    alone = FilesRead((log,), listed=listed)
    assert len(stored(alone)) - len(stored(NOTHING_READ)) < 1000
    agent = log._replace(name="0f5c0e6e-1111-4222-8333-000000000001/subagents/agent-a11023636826fcb4d.jsonl")
    with_agents = alone._replace(logs=(log, *(agent,) * 20))
    assert len(stored(with_agents)) - len(stored(alone)) < 20 * 250
