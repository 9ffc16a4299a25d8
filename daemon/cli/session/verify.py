"""`session verify`: the contract checked against the disk again and compared with the verdict, and the session's record checked."""

import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import click

from runward.config.contract import Contract
from runward.config.json_value import JsonValue
from runward.config.problem import counted
from runward.daemon.cli.exits import GOOD, NOT_SO, TRY_AGAIN
from runward.daemon.cli.terminal.output import align, coloured, fail, note, print_json, print_text, safe
from runward.daemon.rundir.artifacts import contract_facts
from runward.daemon.rundir.hashes import file_hashes
from runward.daemon.rundir.journal_reading import AlteredLine
from runward.daemon.rundir.journal_reading import compare as compare_content
from runward.daemon.rundir.journals import StandingLines
from runward.daemon.rundir.opening import Gone
from runward.daemon.store.hash_chain import BrokenChain, broken_event, lines_off_the_chain
from runward.daemon.store.journals import read_standing_lines
from runward.daemon.store.tables.files import KeptFile
from runward.daemon.store.tables.sessions import SessionRow, produced_of, verification_of
from runward.daemon.views.text import local, size
from runward.handlers.contracts.snapshots import stored_contract
from runward.handlers.contracts.verify import (
    Compared,
    Look,
    Verification,
    boundary,
    compare,
    each_file,
    verification_as_json,
    verify,
)
from runward.handlers.model.files import FileHash, RootFacts, Unreadable
from runward.handlers.times import iso


class JournalCheck(NamedTuple):
    """One journal compared with the store: which of our `lines` are not as written, and what else is wrong.

    `same` is None if it can't be read and nothing else is wrong.
    """

    name: str
    lines: int
    same: bool | None
    altered: tuple[AlteredLine, ...] = ()
    problem: str | None = None


class Record(NamedTuple):
    """The record of a session: its journals, and the first of its events that breaks the chain."""

    journals: list[JournalCheck]
    broken_event: BrokenChain | None

    @property
    def same(self) -> bool | None:
        """Whether it is as it was written; None if some of it can't be read and the rest is unchanged."""
        if self.broken_event is not None or any(each.same is False for each in self.journals):
            return False
        return None if any(each.same is None for each in self.journals) else True

    def as_json(self) -> JsonValue:
        """`{"journals": [{"name", "lines", "altered": [{"offset", "state"}], "problem"}], "broken_event"}`."""
        return {
            "journals": [
                {
                    "name": each.name,
                    "lines": each.lines,
                    "altered": [{"offset": line.offset, "state": line.state} for line in each.altered],
                    "problem": each.problem,
                }
                for each in self.journals
            ],
            "broken_event": self.broken_event._asdict() if self.broken_event is not None else None,
        }

    def as_lines(self) -> list[str]:
        """The same for people, one line per journal."""
        rows = [
            ("  JOURNAL", safe(each.name), counted(each.lines, "line", "lines"), *_journal_state(each))
            for each in self.journals
        ]
        lines = align(rows) if rows else []
        if self.broken_event is not None:
            number, key, why = self.broken_event
            state = coloured("failed", "not as recorded")
            lines.append(f"  EVENT  {safe(key)}  number {number}  {state}  {safe(why)}")
        return lines


def check_record(connection: sqlite3.Connection, state: str, session: str) -> Record:
    """Compare a session's journals, in the order of their names, and its events with what they were written from.

    `state` is the state directory, in which some of them are. Journals that have no lines yet are left out.
    """
    strangers = Counter(name for _, name in lines_off_the_chain(connection, session))
    standing = sorted(read_standing_lines(connection, session).items())
    journals = [
        _check(os.path.join(state, directory), name, rows, strangers[name])
        for (directory, name), rows in standing
    ]
    return Record(journals, broken_event(connection, session))


def _check(directory: str, name: str, rows: Sequence[StandingLines], strangers: int) -> JournalCheck:
    lines = sum(each.content.count(b"\n") for each in rows)
    compared = compare_content(directory, name, rows)
    if isinstance(compared, Gone):
        return JournalCheck(name, lines, False, problem="its directory is gone")
    if isinstance(compared, Unreadable) and not strangers:
        return JournalCheck(name, lines, None, problem=f"can't be read: {compared.why}")
    altered = () if isinstance(compared, Unreadable) else compared.altered
    problem = f"{strangers} of its lines have a different hash from the event that they report"
    return JournalCheck(name, lines, not altered and not strangers, altered, problem if strangers else None)


def _journal_state(journal: JournalCheck) -> tuple[str, str]:
    """The state of a journal, and what is wrong with it."""
    problems = [f"the line at {line.offset} is {line.state}" for line in journal.altered[:5]]
    if len(journal.altered) > len(problems):
        problems.append(f"{len(journal.altered) - len(problems)} more")
    problems += [journal.problem] if journal.problem is not None else []
    states = {
        True: coloured("ok", "as written"),
        False: coloured("failed", "not as written"),
        None: coloured("warning", "not known"),
    }
    return states[journal.same], safe(", ".join(problems))


_LONG: Final = 256 << 20
"""Bytes from which on hashing shows its progress."""


class Found(NamedTuple):
    """The result of the verification now, next to the earlier result."""

    row: SessionRow
    now: Verification
    artifacts: tuple[Compared, ...]
    record: Record

    @property
    def same(self) -> bool | None:
        """Whether everything is unchanged; None if some of the record can't be read and the rest is unchanged."""
        same = all(each.is_as_it_was for each in self.artifacts) and self._verdict() == self._verdict_then()
        return self.record.same if same else False

    def _verdict(self) -> tuple[JsonValue, JsonValue]:
        return self.now.status, self.now.delivery

    def _verdict_then(self) -> tuple[JsonValue, JsonValue]:
        then = verification_of(self.row)
        return then["status"] if isinstance(then, dict) else None, self.row.delivery


def verify_again(row: SessionRow, kept: Sequence[KeptFile], record: Record, as_json: bool) -> int:
    """Verify, compare and print; returns the exit code."""
    if row.artifact_contract_json is None:
        if as_json:
            print_json(_as_json(row, None, record, None))
        else:
            print_text(f"session {safe(row.session_id)} has no contract: there is nothing to verify")
            click.echo("".join(f"{line}\n" for line in record.as_lines()), nl=False)
        return _code(record.same)
    if row.status == "running":
        if as_json:
            print_json(_as_json(row, None, record, None))
        note(f"session {safe(row.session_id)} is still running: there is no verdict to compare with yet")
        return NOT_SO
    changes = _verify(row, stored_contract(row.artifact_contract_json), kept, record)
    if as_json:
        print_json(_as_json(row, changes, record, changes.same))
    else:
        print_text("\n".join(_lines(changes)))
    return _code(changes.same)


def _code(same: bool | None) -> int:
    if same is None:
        note("a journal can't be read, so it was not checked; try again")
        return TRY_AGAIN
    return GOOD if same else NOT_SO


def _verify(row: SessionRow, contract: Contract, kept: Sequence[KeptFile], record: Record) -> Found:
    root, within = row.artifacts_path, boundary(row.artifacts_path, row.path)
    facts = contract_facts(
        contract=contract,
        root=root,
        within=within,
        run=row.path,
        started_at=row.started_at,
        layout=row.layout,
    )
    if isinstance(facts, Unreadable):
        fail(f"{root} can't be read: {facts.why}; try again", TRY_AGAIN)
    then = _looks(row, kept)
    files, files_then = each_file(contract, facts, then)
    hashes = _hashes(root, within, files, files_then, then)
    return Found(row, verify(contract, facts, time.time()), compare(files, then, files_then, hashes), record)


def _looks(row: SessionRow, kept: Sequence[KeptFile]) -> dict[str, Look]:
    """The state of each delivered file when it was verified, by id."""
    known = {each.id: each for each in kept}
    looks: dict[str, Look] = {}
    for each in produced_of(row):
        identifier = str(each["id"])
        file = known.get(identifier)
        # A hash counts if it is of what was verified; sessions from before the first hash kept no time either.
        hashed = file.hashed.sha256 if file is not None and file.hashed and not file.hashed.problem else None
        modified_ns = file.modified_ns if file is not None else None
        looks[identifier] = Look(int(str(each["size"])), modified_ns, hashed)
    return looks


def _hashes(
    root: str, within: str, contract: Contract, facts: RootFacts, then: dict[str, Look]
) -> dict[str, FileHash]:
    """The hashes of the current files, by id, if there is one to compare with."""
    asked, total = [], 0
    for entry, fact in zip(contract.expected, facts.files, strict=False):
        before = then.get(entry.id)
        if fact.state == "file" and before is not None and before.sha256 is not None:
            asked.append(entry)
            total += fact.size
    if not asked:
        return {}
    with _progress(total) as go_on:
        answer = file_hashes(root, within, [entry.path for entry in asked], go_on)
    if isinstance(answer, Unreadable):
        fail(f"{root} can't be read: {answer.why}; try again", TRY_AGAIN)
    return {entry.id: file for entry, file in zip(asked, answer.for_each(len(asked)), strict=True)}


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], bool]]:
    """A bar on a terminal if it takes a while."""
    if total < _LONG or not sys.stderr.isatty():
        yield lambda read: True
        return
    with click.progressbar(length=total, label="hashing", file=sys.stderr) as bar:

        def go_on(read: int) -> bool:
            bar.update(read)
            return True

        yield go_on


def _as_json(row: SessionRow, changes: Found | None, record: Record, same: bool | None) -> JsonValue:
    return {
        "session_id": row.session_id,
        "key": row.key,
        "attempt": row.attempt,
        "status": row.status,
        "same": same,
        "verification": {
            "then": verification_of(row),
            "now": None if changes is None else verification_as_json(changes.now),
        },
        "delivery": {"then": row.delivery, "now": None if changes is None else changes.now.delivery},
        "artifacts": [] if changes is None else [_artifact(each) for each in changes.artifacts],
        "record": record.as_json(),
    }


def _artifact(compared: Compared) -> JsonValue:
    return {
        "id": compared.entry.id,
        "path": compared.entry.path,
        "required": compared.entry.required,
        "state": compared.state,
        "changed": list(compared.differences),
        "then": _look(compared.then),
        "now": _look(compared.now),
    }


def _look(look: Look | None) -> JsonValue:
    if look is None:
        return None
    return {"size": look.size, "modified_at": iso(_seconds(look.modified_ns)), "sha256": look.sha256}


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e9


def _lines(changes: Found) -> list[str]:
    row, then = changes.row, verification_of(changes.row)
    status = then["status"] if isinstance(then, dict) else None
    verdict = coloured(changes.now.status)
    if status != changes.now.status:
        verdict = f"{verdict}, it was {coloured(str(status))}"
    heads = {
        True: "the same as at the verdict",
        False: coloured("warning", "not as at the verdict"),
        None: coloured("warning", "as at the verdict as far as it can be read"),
    }
    lines = [
        f"Session {safe(row.session_id)}: {heads[changes.same]} ({local(row.finished_at)})",
        f"Verified now: {verdict}",
        "",
    ]
    rows = [
        (
            "  REQUIRED" if each.entry.required else "  OPTIONAL",
            safe(each.entry.id),
            safe(each.entry.path),
            coloured(_COLOURS.get(each.state, "warning"), each.state),
            _difference(each),
        )
        for each in changes.artifacts
    ]
    return [*lines, *(align(rows) if rows else ["  nothing is expected"]), *changes.record.as_lines()]


_COLOURS: Final = {"same": "ok", "missing": "", "new": "warning", "gone": "failed"}


def _difference(compared: Compared) -> str:
    """What is different, or what was compared."""
    then, now = compared.then, compared.now
    if then is None or now is None:
        return size(then.size) if then is not None else size(now.size) if now is not None else ""
    if compared.state == "same":
        return f"{size(now.size)}, {'content compared' if now.sha256 else 'size and time compared'}"
    words = {
        "size": f"size {size(then.size)} -> {size(now.size)}",
        "modified": f"modified {local(_seconds(then.modified_ns))} -> {local(_seconds(now.modified_ns))}",
        "sha256": f"sha256 {then.sha256} -> {now.sha256}",
    }
    parts = [words[each] for each in compared.differences]
    if "sha256" not in compared.differences and now.sha256 is not None:
        parts.append("the content is the same")
    return ", ".join(parts)
