"""What a daemon left behind, told so that two accounts of one history can be compared.

Left out are times of recording, epochs, tokens, try counters, and the numbers and hashes that rest on them. A hash in
a journal is replaced by the event that it belongs to, a file's inode by its name; so both must be right. So are the
times that a run's own launcher wrote, which no two histories share, by what they mean; for such a run it is left out
what is remembered of its files, but not how it stands. A launcher's announcement has an id and a seal of its own and
comes twice, so it and its timer are left out, too: what they mean for a session is in the session.

What a chain does has the times at which it does it, ids made of the hashes of such events, and what is left of the
run's time; these are left out.
"""

import json
import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from tests.proof.place import Place

from runward.daemon.store.hash_chain import GENESIS, event_hash

Account: TypeAlias = dict[str, list[str]]

_DAMAGED: Final = re.compile(r"/\d+@\d+/damaged")
"""The end of a key that a journal's damage has: the number of a line, and the epoch that found it."""

_FOUND_AT: Final = re.compile(r'"ts":"[^"]*"(?=,"role":"runward","event":"journal_repaired")')
"""When the damage was found that a line tells of."""

_CHECKED_AT: Final = re.compile(r'"checked_at":[0-9.]+')
"""When a contract was checked, in the line of a verdict. Its digits differ in number, so offsets are checked by themselves."""

_TORN: Final = re.compile(r'(?<="torn_bytes":|"bytes_torn":)[1-9]\d*|[1-9]\d*(?= bytes of a torn one)')
"""How much is left of a line that was torn: lines name the place, whose path is longer in one history than in another."""

_SIGNATURE: Final = re.compile(r"\[(\d+),(\d+(?:,\d{19}(?=,\d+,\d{19}\]))?)(?:,\d+,\d{19})?\]")
"""A file's signature in what is remembered of a run directory: inode, size, modification time in nanoseconds, and the device and
time of change, which differ from place to place. A trace's has inode and size."""

_MADE_OF_A_HASH: Final = re.compile(
    r"(?<=ap_)[0-9a-f]{12}|(?<=/approval/)[0-9a-f]{16}|(?<=/\d/\d/)[0-9a-f]{16}|(?<=\"number\":\")[0-9a-f]{16}"
)
"""The part of an approval's id, of the key of its request and of the key of a step's start that a hash gives it."""

_MOMENT: Final = re.compile(r"(?<![\d.])\d{10}\.\d+")
_BEGAN: Final = time.time() - 600
"""No time in a history of ours is later than this: what is was read from the clock."""


def account(place: Place) -> Account:
    """Everything that must be the same, by table and by journal. Asserts what must hold by itself."""
    assert place.rows("pragma integrity_check") == [("ok",)]
    assert place.rows("pragma foreign_key_check") == []
    _check_chain(place)
    _check_lines(place)
    tables = {
        "events": "select key, type, version, lane, iif(type = 'JournalDamaged', null, at), cause, depth,"
        " iif(type = 'JournalDamaged', json_remove(payload, '$.at', '$.epoch', '$.rows'), payload) from events where type <> 'RunLaunched' order by key",
        "jobs": "select e.key, handler, j.lane, state, error from jobs j join events e on e.seq = j.event"
        " where handler <> 'sessions/deadline' order by 1, 2",
        "sessions": "select key, session_id, layout, root, path, kind, status, attempt, origin, started_at, finished_at,"
        " ended_by, reason_code, reason_summary, evidence_refs, playbook, agent, contract_problem, artifacts_path,"
        " artifact_contract_json, contract_basis, json_remove(artifact_verification_json, '$.checked_at'), delivery"
        " from sessions order by key",
        "attempts": "select * from attempts order by session_key, attempt",
        "files": "select session_key, attempt, id, path, size, modified_ns, sha256, problem from files order by 1, 2, 3",
        "status_history": "select session_key, attempt, at, replaced, status, reason_code, reason_summary, evidence_refs,"
        " source from status_history order by session_key, id",
        "decisions": "select e.key, handler, subject, verdict, summary, known from decisions d"
        " join events e on e.seq = d.event order by e.key, handler, d.id",
        "outbox": "select e.key, directory, name, live from outbox o join events e on e.seq = o.event order by o.id",
        "journal_lines": 'select e.key, directory, name, "offset" is null, places is null, why from journal_lines l'
        " join events e on e.seq = l.event order by directory, name, l.id",
        "cursors": "select c.key, root, c.directory, c.session_key, phase, iif(name is null, c.state, 'started')"
        " from cursors c left join starts s on s.session_key = c.session_key order by c.key",
        "problems": "select path, line, message, mend from problems order by path, line, message",
        "cancellations": "select e.key, session_key, attempt, directory, processes, said_by, reason, told, outcome,"
        " carried_out_at is null from cancellations c join events e on e.seq = c.event order by 1",
        "starts": "select e.key, s.key, session_key, name, directory,"
        " iif(s.name like 'cr\\_%' escape '\\', json_remove(effect, '$.timeout'), effect), state, why, ended_at is null from starts s"
        " join events e on e.seq = s.event order by 1",
        "roots": "select name, path, layout from roots order by name",
        "chain_runs": "select id, chain, fired_by, status, reason_code, reason_summary, current_step, depth,"
        " deadline is null from chain_runs order by id",
        "chain_steps": "select run, step, attempt, status, reason_code, reason_summary, value, session_key, outcome,"
        " finished_at is null from chain_steps order by 1, 2, 3",
        "firings": "select chain, fired_by, event, result, why, run from firings order by 1, 2",
        "invocations": "select id, skill, status, reason_code, session_key, chain_run_id, step_index, try,"
        " node_metadata is null from invocations where chain_run_id is not null order by id",
        "approvals": "select run, step, shown, status, decided_by, note from approvals order by run, step",
        "notices": "select kind, subject, title, text, state, error from notices order by 1, 3",
        "worktrees": "select session_key, name, repo, removed_at is null from worktrees order by 1",
        "artifacts": "select id, session_key, kind, name, summary, passed, content from artifacts order by id",
    }
    names, times = _names_of_inodes(place), _times_of_started_runs(place)
    told = {
        name: [_timeless(_plain(row, place, names), times) for row in place.rows(sql)]
        for name, sql in tables.items()
    }
    told |= {name: [_timeless(line, times) for line in lines] for name, lines in _journals(place).items()}
    told["inbox"] = sorted(
        path.name for path in (place.state / "inbox").iterdir() if not path.name.startswith("launch-")
    )
    told["rejected"] = sorted(path.name for path in (place.state / "rejected").glob("*"))
    return told


def difference(one: Account, other: Account) -> str:
    """Where two accounts part, for people; empty where they agree."""
    found = []
    for name in sorted(one.keys() | other.keys()):
        first, second = one.get(name, []), other.get(name, [])
        found += [f"- {name}: {line}" for line in first if line not in second]
        found += [f"+ {name}: {line}" for line in second if line not in first]
        if first != second and len(first) != len(second):
            found.append(f"! {name}: {len(first)} lines against {len(second)}")
        elif first != second and sorted(first) == sorted(second):
            found.append(f"! {name}: in another order")
    return "\n".join(found)


def _plain(row: tuple[object, ...], place: Place, names: dict[int, str]) -> str:
    text = " | ".join(str(cell).replace(str(place.directory), "<place>") for cell in row)
    text = _SIGNATURE.sub(lambda found: f"[{names.get(int(found[1]), 'another file')},{found[2]}]", text)
    return _TORN.sub("some", _DAMAGED.sub("/damaged", _MADE_OF_A_HASH.sub("#", text)))


def _timeless(text: str, times: dict[str, str]) -> str:
    for moment, meaning in times.items():
        text = text.replace(moment, meaning)
    return _MOMENT.sub(lambda found: "<now>" if float(found[0]) > _BEGAN else found[0], text)


def _times_of_started_runs(place: Place) -> dict[str, str]:
    """When the runs that a daemon started began and ended, as it is written anywhere, and what it means."""
    found: dict[str, str] = {}
    for (directory,) in place.rows("select directory from starts where state = 'begun'"):
        for file, key in (("run.json", "started_at"), ("exit.json", "finished_at")):
            path = Path(str(directory), file)
            if not path.exists():
                continue
            moment = datetime.fromisoformat(json.loads(path.read_text())[key]).timestamp()
            written = datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
            found |= dict.fromkeys((str(moment), written.replace("+00:00", "Z")), f"<{key}>")
        for each in Path(str(directory), "artifacts").iterdir():
            found[str(each.stat().st_mtime_ns)] = f"<{each.name} was written>"
    return found


def _names_of_inodes(place: Place) -> dict[int, str]:
    return {
        os.stat(os.path.join(directory, file)).st_ino: file
        for directory, _, files in os.walk(place.runs)
        for file in files
    }


def _journals(place: Place) -> Account:
    events = {str(digest): str(key) for digest, key in place.rows("select hash, key from events")}
    found: Account = {}
    for path in sorted(place.runs.glob("*/*.jsonl")):
        lines = []
        for line in path.read_text().splitlines():
            for digest, key in events.items():
                line = line.replace(digest, _MADE_OF_A_HASH.sub("#", key))
            line = _CHECKED_AT.sub('"checked_at":0', line.replace(str(place.directory), "<place>"))
            line = _TORN.sub("some", _DAMAGED.sub("/damaged", line))
            lines.append(_FOUND_AT.sub('"ts":"then"', line))
        found[str(path.relative_to(place.directory))] = lines
    return found


def _check_chain(place: Place) -> None:
    previous, expected = GENESIS, 1
    rows = place.rows(
        "select seq, hash, key, type, version, recorded_at, cause, depth, payload from events order by seq"
    )
    for seq, digest, *facts in rows:
        assert seq == expected
        assert digest == event_hash(previous, *facts), f"the chain is broken at event {seq}"  # type: ignore[arg-type] # the schema's own types
        previous, expected = str(digest), expected + 1


def _check_lines(place: Place) -> None:
    """Each line stands where the store says, and nothing of ours stands anywhere else."""
    ours: dict[str, int] = {}
    rows = place.rows(
        'select directory, name, "offset", places, coalesce(a.content, l.content) from journal_lines l'
        ' left join adopted_lines a on a.id = l.id where "offset" is not null'
    )
    for directory, name, offset, places, content in rows:
        path = f"{directory}/{name}"
        assert isinstance(content, bytes)
        with open(path, "rb") as file:
            data = file.read()
        pieces: list[list[int]] = json.loads(str(places or json.dumps([[offset, len(content)]])))
        assert b"".join(data[start : start + length] for start, length in pieces) == content, path
        ours[path] = ours.get(path, 0) + content.count(b"\n")
    for path, count in ours.items():
        with open(path) as file:
            written = sum('"hash":"' in line and _is_whole(line) for line in file)
        assert written == count, f"{path} has {written} lines of ours, the store knows {count}"


def _is_whole(line: str) -> bool:
    """Whether a line is what somebody wrote, and not torn by a power cut."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
