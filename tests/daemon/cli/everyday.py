"""A day's work in a fixed state: runs and sessions of every kind, a chain, and something that waits for a person.

`python -m tests.daemon.cli.everyday` prints what every `--json` says of it, as `recorded_json.json` has it. It is
recorded from before screens changed, and only ever gains commands: a later key must not replace an earlier one.
"""

import getpass
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.daemon.cli.calling import SETTINGS, Place
from tests.handlers.layouts.claude_code_lines import Transcript
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.handlers.times import iso

RECORDED: Final = Path(__file__).with_name("recorded_json.json")

_ROOTS: Final = (
    '[[roots]]\nname = "runs"\npath = "state/runs"\nlayout = "native"\n'
    '[[roots]]\nname = "claude"\npath = ".claude/projects"\nlayout = "claude-code"\nhistory = "live"\n'
)
_ACTIONS: Final = '[actions.merge]\ncommand = ["echo", "git", "merge", "--quiet", "--no-ff", "-m", "Merge {{ with.head }}", "--", "{{ with.head }}"]\n'
_JUDGE: Final = """\
command:
  - sh
  - -c
  - 'echo "{\\"outcome_kind\\": \\"review_verdict\\", \\"summary\\": \\"it does what it says\\", \\"verdict\\": \\"$0\\"}" > "$RUNWARD_ARTIFACTS_DIR/outcome.json"'
  - "{{ with.verdict }}"
"""
_CHAIN: Final = """\
name: pr-review
trigger: {event: pr.opened, filter: {base: main}}
steps:
  - {id: review, skill: judge, with: {verdict: "{{ trigger.verdict }}"}}
  - {id: ci, skill: judge, with: {verdict: APPROVE}, condition: "{{ steps.review.outcome.verdict == 'APPROVE' }}"}
  - id: merge
    action: merge
    with: {head: "{{ trigger.head }}"}
    condition: "{{ steps.review.outcome.verdict == 'APPROVE' }}"
    requires_approval: true
  - {id: comment, skill: judge, with: {verdict: NONE}, condition: "{{ steps.review.outcome.verdict == 'REQUEST_CHANGES' }}"}
"""
_CONTRACT: Final[JsonValue] = {
    "expected": [
        {
            "id": "review",
            "path": "review.md",
            "required": True,
            "description": "The reviewer's verdict and findings",
            "source": "playbook",
        },
        {
            "id": "notes",
            "path": "notes.md",
            "required": False,
            "description": "Further observations",
            "source": "playbook",
        },
    ]
}
SESSION: Final = "0190a000-1111-4222-8333-4444{:08x}"
"""Ids of the agents' sessions: they differ in their ends."""


class Everyday(Place):
    """The place, and the moment at which its screens are looked at."""

    now: float = 0.0


def make(directory: Path) -> Everyday:
    """Have a real daemon record it; it has ended when this returns."""
    with played(directory) as place:
        pass
    set_activity(place)
    return place


@contextmanager
def played(directory: Path, *, has_mistakes: bool = True) -> Iterator[Everyday]:
    """The same, and the daemon still works. The mistakes are in a playbook, which a daemon names by its whole path."""
    place = Everyday(directory)
    place.furnish()
    if not has_mistakes:
        (directory / "playbooks/wrong.playbook.yaml").unlink()
    (directory / "runward.toml").write_text(SETTINGS + _ROOTS + _ACTIONS)
    (directory / "playbooks/judge.playbook.yaml").write_text(_JUDGE)
    (directory / "pr-review.yaml").write_text(_CHAIN)
    begin = time.time() - 115
    # What is said to have happened is 12 minutes ago, and what happens now is 10, even if that takes most of a minute.
    place.now = begin + 770
    _add_runs(place, begin)
    _add_sessions(place, begin)
    with place.daemon():
        assert place.call("chain", "define", "pr-review.yaml").code == 0
        merged = _fire(place, "APPROVE", "plus")
        _wait_for_status(place, merged, "waiting_approval")
        assert place.call("chain", "approve", merged).code == 0
        _wait_for_status(place, merged, "completed")
        _wait_for_status(place, _fire(place, "REQUEST_CHANGES", "minus"), "completed")
        _wait_for_status(place, _fire(place, "APPROVE", "mult"), "waiting_approval")
        place.change_store(
            "insert into links (linked, launcher) select key, 'native:runs/nightly' from sessions where session_id = ?",
            SESSION.format(0xCC),
        )
        yield place


def set_activity(place: Place) -> None:
    """Say what the agents do: that is seen in their processes, and there are none here."""
    for number, activity in ((0xAA, "active"), (0xBB, "waiting"), (0xCC, "active")):
        place.change_store(
            "update cursors set activity = ? where session_key like ?",
            activity,
            f"%{SESSION.format(number)}%",
        )


def _add_runs(place: Place, begin: float) -> None:
    def add(name: str, number: int, **facts: object) -> None:
        at = begin + number
        times = {"started_at": str(iso(at)), "finished_at": str(iso(at + 0.4))}
        place.add_run(name, cwd=str(place.directory), **times, **facts)  # type: ignore[arg-type] # as a table

    log = ["git", "-C", "repository", "log", "--stat"]
    add("nightly", 0, playbook="plain", command=["claude", "-p", "Tidy up"])
    add(
        "night-shift",
        1,
        exit_code=0,
        playbook="review",
        contract=_CONTRACT,
        files={"review.md": "APPROVE"},
        command=["sh", "-c", "echo APPROVE"],
    )
    add("silent-reviewer", 2, exit_code=0, playbook="review", contract=_CONTRACT, command=log)
    add("crashed-reviewer", 3, exit_code=1, playbook="review", command=log)
    add("trade-0", 4, exit_code=0, command=["python", "trader.py", "writer-0.jsonl"])


def _add_sessions(place: Place, begin: float) -> None:
    for number, project, is_over in (
        (1, "release", True),
        (0xAA, "api", False),
        (0xBB, "web", False),
        (0xCC, "api", False),
    ):
        session = SESSION.format(number)
        transcript = Transcript(session=session, now=begin + 10 + number / 16)
        transcript.prompt("Look at what changed since the last release, and write down what you find.")
        if is_over:
            transcript.text("Done.")
        else:
            transcript.call(command="git log --stat")
        path = place.directory / f".claude/projects/-home-dev-{project}/{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(transcript.content().replace(b"/home/dev/app", f"/home/dev/{project}".encode()))


def _fire(place: Place, verdict: str, head: str) -> str:
    fired = place.call("chain", "fire", "pr-review", f"verdict={verdict}", f"head={head}", "base=main")
    assert fired.code == 0, fired.err
    return fired.out.strip()


def _wait_for_status(place: Place, run: str, status: str) -> None:
    def stands() -> bool:
        return place.call("chain", "run", "show", run, "--json").object()["status"] == status

    wait_for(stands, f"{run} that is {status}")


COMMANDS: Final = (
    "session list", "session list --failed", "session show silent-reviewer", "session show crashed-reviewer",
    "why silent-reviewer", "why crashed-reviewer", "why chain:pr-review", "status", "queue", "root list",
    "chain list", "chain show pr-review", "chain runs", "chain run show @last", "chain approvals", "why chain:@last",
    "invocation list", "play list", "schedule list", "artifact list", "notify list", "show list",
    "session verify night-shift", "config show", "exchange artifact list", "exchange principal list",
)  # fmt: skip
"""Commands that print JSON."""


def printed(place: Place) -> dict[str, JsonValue]:
    """What each of them says, without what differs from place to place."""
    found: dict[str, JsonValue] = {}
    for command in COMMANDS:
        called = place.call(*command.split(), "--json")
        assert called.out, (command, called)
        out = _SAID_BY.sub("SOMEBODY", called.out.replace(str(place.directory), "/PLACE"))
        found[command] = json.loads(out)
    return found


_WHO: Final = re.escape(getpass.getuser())
_SAID_BY: Final = re.compile(rf'(?<="said_by": "){_WHO}(?=")|\b{_WHO}(?= asked| approved)')
"""Where the name of who runs the tests is told."""


ANY: Final = "any value of this type: "


_OF_THE_PLACE: Final = ("size", "length", "offset", "containment")
"""Keys whose values depend on how the times and ids of a place are written, or on what its user may do."""


def common(one: JsonValue, other: JsonValue, key: str = "") -> JsonValue:
    """What two places have in common; where they differ, the type."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: common(value, other[key], key) for key, value in one.items() if key in other}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [common(*each) for each in zip(one, other, strict=True)]
    is_same = one == other and key not in _OF_THE_PLACE and not _is_volatile(one)
    return one if is_same else f"{ANY}{_kind(one, other)}"


_VOLATILE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9a-f]{12}|\b[0-9]+\.[0-9]+|[0-9] bytes")


def _is_volatile(value: JsonValue) -> bool:
    """Whether two places may well agree on it by chance."""
    return isinstance(value, float) or (isinstance(value, str) and bool(_VOLATILE.search(value)))


def _kind(*values: JsonValue) -> str:
    return " or ".join(sorted({_name(each) for each in values}))


def _name(value: JsonValue) -> str:
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def lacking(old: JsonValue, new: JsonValue, at: str = "") -> list[str]:
    """What the old value has and the new one has not, or has otherwise."""
    if isinstance(old, str) and old.startswith(ANY):
        kinds = old.removeprefix(ANY).split(" or ")
        return [] if _name(new) in kinds else [f"{at}: {new!r} is not {' or '.join(kinds)}"]
    if isinstance(old, dict):
        if not isinstance(new, dict):
            return [f"{at}: {new!r} is no object"]
        gone = [f"{at}.{key} is gone" for key in old if key not in new]
        return gone + [
            each for key in old if key in new for each in lacking(old[key], new[key], f"{at}.{key}")
        ]
    if isinstance(old, list):
        if not isinstance(new, list) or len(old) != len(new):
            return [f"{at}: {new!r} is not the list of {len(old)}"]
        return [
            each
            for number, pair in enumerate(zip(old, new, strict=True))
            for each in lacking(*pair, f"{at}[{number}]")
        ]
    return [] if old == new else [f"{at}: {new!r} instead of {old!r}"]


def main() -> None:
    """Print what two places have in common."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        both = common({**printed(make(Path(one)))}, {**printed(make(Path(other)))})
    json.dump(both, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
