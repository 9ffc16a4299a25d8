"""Sub-agents that real programs ran: linked with their session, counted once, and nobody's end but their own.

`delegated` has what each program wrote in one session with one sub-agent, which ran a command; long texts were removed.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from runward.daemon.rundir.session_files import NOTHING_READ, FilesRead
from runward.daemon.rundir.session_reading import SessionSight, look_at_session
from runward.handlers.layouts.layout import LogLayout, Scan
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import Told
from runward.handlers.usage.counting import Counted, add

RECORDED: Final = Path(__file__).parent / "delegated"
LATER: Final = 4e9


class Recording(NamedTuple):
    """Where the session is, and its sub-agent if that is a session of its own; and how many replies each had.

    `own` is the file of the session that says how its turn stands, relative to the root.
    """

    session: str
    own: str
    subagent: str | None
    replies: int = 3
    calls: int = 2


_QWEN: Final = "05bd1672-14ed-451c-b722-76f59e93bfc6"
_DROID: Final = "278de742-3188-4965-8be7-6ceeead4e925"
_CLINE: Final = "1795884401395_7y1i3"
_KIMI: Final = "wd_work_94e71869d130/session_230744bd-e860-4b75-8287-e721a983122c"
_COPILOT: Final = "1627769c-3c0d-4a7d-983f-155ec0d460f4"
RECORDINGS: Final[Mapping[str, Recording]] = {
    "copilot": Recording(_COPILOT, f"{_COPILOT}/events.jsonl", None),
    "cline": Recording(_CLINE, f"{_CLINE}/{_CLINE}.json", None),
    "kimi": Recording(_KIMI, f"{_KIMI}/agents/main/wire.jsonl", None),
    "droid": Recording(
        f"-home-dev-work/{_DROID}.jsonl",
        f"-home-dev-work/{_DROID}.jsonl",
        "-home-dev-work/50d44ec4-7b69-4200-aad2-2327c646f666.jsonl",
    ),
    # Its sub-agent works in the background, and the model is told when it has done so.
    "qwen": Recording(
        f"-home-dev-work/chats/{_QWEN}.jsonl",
        f"-home-dev-work/chats/{_QWEN}.jsonl",
        f"-home-dev-work/subagents/{_QWEN}/agent-general-purpose-call_c2c53d89555c4b889025.jsonl",
        replies=4,
    ),
}
EACH = pytest.mark.parametrize("agent", RECORDINGS)


class Looks:
    """Looks at one place, as the daemon does: each continues where the last one ended. `sums` are what was counted."""

    def __init__(self, root: Path, agent: str, place: str) -> None:
        self.root, self.place, self.layout = root, place, LAYOUTS.named(agent)
        self.read: FilesRead = NOTHING_READ
        self.scan: Scan = self.layout.start(place.rpartition("/")[2])
        self.sums: list[Counted] = []

    def look(self) -> Told | None:
        """What is there now; None before anything is."""
        sight = look_at_session(str(self.root), self.place, self.layout, self.read, 1 << 20, LATER)
        if not isinstance(sight, SessionSight):
            return None
        assert (sight.anew, sight.obstacles) == (False, ())
        if sight.documents:
            self.scan = self.scan.see(sight.documents)
        for portion in sight.portions:
            self.scan, _ = self.scan.feed(portion.name, portion.lines)
        self.read = sight.read
        found = self.scan.tell()
        for each in found.counted:
            add(self.sums, each)
        # As it is stored in between.
        self.scan = self.layout.load(self.scan.taken().dump())
        return found

    def tokens(self) -> tuple[int, int]:
        return sum(each.fresh_input for each in self.sums), sum(each.output for each in self.sums)


def told(root: Path, agent: str, place: str) -> Told:
    found = Looks(root, agent, place).look()
    assert found is not None
    return found


def reason(found: Told | None) -> str | None:
    return None if found is None or found.close is None else found.close.reason_code


@EACH
def test_a_session_has_its_own_calls_and_tokens_and_what_its_sub_agent_used_is_counted_once(
    agent: str,
) -> None:
    recording = RECORDINGS[agent]
    looks = Looks(RECORDED / agent, agent, recording.session)
    found = looks.look()
    assert found is not None
    assert (reason(found), found.counts.subagents, found.counts.tool_calls) == (
        "run.completed.ok",
        1,
        recording.calls,
    )
    assert found.usage == (recording.replies * 120, recording.replies * 20)
    used = [looks.tokens()]
    if recording.subagent is not None:
        used.append(_is_linked(agent, recording.subagent, found))
    assert (sum(each[0] for each in used), sum(each[1] for each in used)) == naive(agent)
    assert {each.model.removeprefix("custom:").removesuffix("-0") for each in looks.sums} == {
        "scripted-model"
    }


def _is_linked(agent: str, place: str, session: Told) -> tuple[int, int]:
    """What a sub-agent used that is a session of its own."""
    looks = Looks(RECORDED / agent, agent, place)
    found = looks.look()
    assert found is not None
    assert (found.works_for, found.is_subagent) == (session.session_id, False)
    assert (reason(found), found.counts.tool_calls, found.usage) == ("run.completed.ok", 1, (240, 40))
    assert found.session_id != session.session_id
    assert found.model == session.model
    return looks.tokens()


USED: Final = {
    "copilot": ("inputTokens", "outputTokens"),
    "cline": ("inputTokens", "outputTokens"),
    "droid": ("inputTokens", "outputTokens"),
    "kimi": ("inputOther", "output"),
    "qwen": ("promptTokenCount", "candidatesTokenCount"),
}


def naive(agent: str) -> tuple[int, int]:
    """The tokens of all replies in all files of the recording, read in the plainest way."""
    used = []
    for file in (each for each in (RECORDED / agent).rglob("*") if each.is_file()):
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        for record in map(json.loads, lines):
            used += {
                "copilot": [record.get("data", {}).get("usage")],
                "cline": [each.get("metrics") for each in record.get("messages", [])],
                "droid": [record.get("tokenUsage")],
                "kimi": [record.get("usage") if record.get("type") == "usage.record" else None],
                "qwen": [record.get("usageMetadata")],
            }[agent]
    given, gained = USED[agent]
    there = [each for each in used if each is not None]
    return sum(each[given] for each in there), sum(each[gained] for each in there)


# What was there when.

Step = tuple[float, str, bytes]
"""When, which file, and all that was in it then."""


def steps(agent: str) -> list[Step]:
    """The files as they grew, in the order of the times in them."""
    found: list[Step] = []
    for file in sorted(each for each in (RECORDED / agent).rglob("*") if each.is_file()):
        found += [(at, str(file.relative_to(RECORDED / agent)), content) for at, content in _grew(file)]
    return sorted(found, key=lambda each: each[0])


def _grew(file: Path) -> Iterator[tuple[float, bytes]]:
    content = file.read_bytes()
    if file.suffix == ".jsonl":
        at, lines = 0.0, content.splitlines(keepends=True)
        stamps = [_at(json.loads(line)) for line in lines]
        at = next(each for each in stamps if each is not None)
        for count, stamp in enumerate(stamps, 1):
            at = at if stamp is None else stamp
            yield at, b"".join(lines[:count])
        return
    document = json.loads(content)
    messages = document.get("messages")
    if messages:
        for count in range(1, len(messages) + 1):
            yield _at(messages[count - 1]) or 0.0, _json({**document, "messages": messages[:count]})
    elif "ended_at" in document or "agentId" in document:
        began = document.get("started_at") or document["createdAt"]
        running: dict[str, Any] = {**document, "status": "running"} | (
            {"ended_at": None} if "ended_at" in document else {"lastUpdatedAt": began}
        )
        yield _at({"timestamp": began}) or 0.0, _json(running)
        ended = document.get("ended_at") or document["lastUpdatedAt"]
        yield _at({"timestamp": ended}) or 0.0, content
    else:
        yield 0.0, content  # Kimi's state, and what Droid used until its end


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _at(record: Mapping[str, Any]) -> float | None:
    for key in ("timestamp", "time", "ts", "created_at"):
        if isinstance(stamp := record.get(key), str):
            return datetime.fromisoformat(stamp).timestamp()
        if isinstance(stamp, int):
            return stamp / 1000
    return None


def write(root: Path, file: str, content: bytes) -> None:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@EACH
def test_while_the_files_grow_only_its_own_records_change_what_is_told_of_a_session(
    agent: str, tmp_path: Path
) -> None:
    recording = RECORDINGS[agent]
    places = [each for each in (recording.session, recording.subagent) if each is not None]
    looks = {place: Looks(tmp_path, agent, place) for place in places}
    before: dict[str, Told | None] = dict.fromkeys(places)
    ended: set[str] = set()
    for _, file, content in steps(agent):
        write(tmp_path, file, content)
        for place in places:
            found, last = looks[place].look(), before[place]
            is_own = _tells_of(agent, place, file)
            if last is not None and not is_own:
                assert found is not None
                assert (found.turn, found.close, found.counts, found.usage) == (
                    last.turn,
                    last.close,
                    last.counts,
                    last.usage,
                ), file
            if place == recording.subagent and is_own:
                assert place not in ended, "a sub-agent that has completed its task wrote more"
            if reason(found) == "run.completed.ok" and is_own:
                ended.add(place)
            before[place] = found
    assert all(reason(each) == "run.completed.ok" for each in before.values())
    used = [each.tokens() for each in looks.values()]
    assert (sum(each[0] for each in used), sum(each[1] for each in used)) == naive(agent)


def _tells_of(agent: str, place: str, file: str) -> bool:
    """Whether a file says how the session at a place stands."""
    if isinstance(LAYOUTS.named(agent), LogLayout):
        return file.startswith(place.removesuffix(".jsonl"))
    name = place.rpartition("/")[2]
    return file in (RECORDINGS[agent].own, f"{place}/{name}.messages.json")


@EACH
def test_what_is_cut_at_any_line_completes_no_turn_that_was_not_complete(agent: str, tmp_path: Path) -> None:
    recording = RECORDINGS[agent]
    places = [each for each in (recording.session, recording.subagent) if each is not None]
    tried = 0
    for count in range(1, len(steps(agent)) + 1):
        root = tmp_path / str(count)
        now: dict[str, bytes] = {}
        for _, file, content in steps(agent)[:count]:
            now[file] = content
        for file, content in now.items():
            write(root, file, content)
        for place in places:
            found = Looks(root, agent, place).look()
            if reason(found) == "run.completed.ok":
                assert _is_complete(agent, place, now), (place, count)
            else:
                tried += 1
    assert tried > 5


def _is_complete(agent: str, place: str, now: Mapping[str, bytes]) -> bool:
    """Whether the session at a place said its last words of a turn: what Droid, Kimi, Qwen and Cline say of it, or its reply."""
    own = [content for file, content in now.items() if _tells_of(agent, place, file)]
    if place == RECORDINGS[agent].subagent and agent == "qwen":
        return any(json.loads(each)["status"] == "completed" for each in own if not _is_log(each))
    said = b"It is done." if place == RECORDINGS[agent].subagent else b"They say it is done."
    is_said = any(said in each for each in own)
    return is_said and (agent != "cline" or any(b'"status": "completed"' in each for each in own))


def _is_log(content: bytes) -> bool:
    return content.count(b"\n") > 0 and content.split(b"\n")[0].endswith(b"}")


def test_a_sub_agent_of_qwen_code_that_says_it_is_running_is_not_complete_whatever_it_said(
    tmp_path: Path,
) -> None:
    recording = RECORDINGS["qwen"]
    assert recording.subagent is not None
    for source in (RECORDED / "qwen" / recording.subagent).parent.iterdir():
        write(tmp_path, str(source.relative_to(RECORDED / "qwen")), source.read_bytes())
    about = (tmp_path / recording.subagent).with_suffix(".meta.json")
    for status, wanted in STATUSES.items():
        about.write_bytes(_json({**json.loads(about.read_bytes()), "status": status}))
        found = told(tmp_path, "qwen", recording.subagent)
        assert (found.turn, reason(found)) == ("open" if wanted is None else "closed", wanted), status
    # What is newer than the status is a further task.
    about.write_bytes(
        _json(
            {
                **json.loads(about.read_bytes()),
                "status": "completed",
                "lastUpdatedAt": "2026-11-28T16:48:05.1Z",
            }
        )
    )
    assert told(tmp_path, "qwen", recording.subagent).turn == "open"
    about.unlink()
    assert told(tmp_path, "qwen", recording.subagent).turn == "open"


STATUSES: Final[Mapping[str, str | None]] = {
    "running": None,
    "paused": None,
    "another": None,
    "failed": "run.failed.exception",
    "cancelled": "run.aborted.user",
    "completed": "run.completed.ok",
}


@EACH
@pytest.mark.parametrize(
    "content", [b"", b"[]\n", b'{"messages": 7, "usage": []}\n', b'{"a":' * 10_000 + b"\n", b"\xff\n"]
)
def test_what_is_malformed_in_a_sub_agents_file_is_not_the_sessions(
    agent: str, content: bytes, tmp_path: Path
) -> None:
    recording = RECORDINGS[agent]
    for source in (each for each in (RECORDED / agent).rglob("*") if each.is_file()):
        file = str(source.relative_to(RECORDED / agent))
        is_of_session = _tells_of(agent, recording.session, file) or file.endswith(
            ("state.json", "settings.json")
        )
        write(tmp_path, file, source.read_bytes() if is_of_session else content)
    found = told(tmp_path, agent, recording.session)
    assert (reason(found), found.usage, found.complaints) == (
        "run.completed.ok",
        (recording.replies * 120, recording.replies * 20),
        (),
    )
