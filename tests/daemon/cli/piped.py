"""What programs get from every command: the text in a pipe, and the keys and types of `--json`, in a state that is played anew.

`python -m tests.daemon.cli.piped FILE` writes it down. `tests/golden/piped.json` is from commit 5a55f23c, the last one before
the screens of terminals changed; with it was played what this module plays. It is never made anew.
"""

import getpass
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tests.daemon.cli.calling import CONTRACT, Place, Result
from tests.handlers.bundle.bundles import bundle
from tests.handlers.layouts.claude_code_lines import Transcript
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

RECORDED: Final = Path(__file__).parents[2] / "golden/piped.json"

Shape: TypeAlias = dict[str, list[str]]
"""The types that are at each place in a value: `.steps[].status` is one."""


class Call(NamedTuple):
    """A command, and the same for a program; None if it prints no JSON. What changes something is another thing each time."""

    text: str
    json: str | None


def _both(text: str) -> Call:
    return Call(text, f"{text} --json")


_SESSION: Final = "0190a000-1111-4222-8333-44440000000a"
_NOTICE: Final = (
    "insert into notices (id, kind, subject, recipient, title, text, created_at, state, next_at, since, settled_at)"
    " values ('{0}', 'chain.aborted', 'cr_1', 'gone', 'title', 'text', 1, 'dead', 1, 1, 2)"
)
_CHAINS: Final = {
    "release": "name: release\ntrigger: {manual: true}\nsteps:\n  - {skill: review, requires_approval: true}\n",
    "after": "name: after\ntrigger: {event: review.asked}\nsteps:\n  - {id: greet, skill: greet, with: {name: Ada}}\n",
    "nightly": "name: nightly\ntrigger: {schedule: '30 2 * * *'}\nsteps:\n  - {skill: plain}\n",
}
_FILES: Final = {
    "playbooks/greet.playbook.yaml": 'command: [echo, "hello {{ with.name }}"]\n',
    "out/review.md": "text",
    "out/report.md": "text",
    "params.json": '{"path": "src/auth.rs", "limit": 1e21}',
    "ci.json": '{"summary": "all is well", "passed": true}',
    "outcome.json": '{"outcome_kind": "ci_result", "summary": "all green", "passed": true}',
    "todo.jsonl": '{"action_type": "read_artifact", "artifact_id": "note", "reasoning": "to see"}\n',
    "try.py": "def run(a, b):\n    return a * b\n",
    "runs/42/empty": "",
    "later.yaml": "name: later\ntrigger: {manual: true}\nsteps:\n  - {skill: plain}\n",
}
_ROOTS: Final = (
    '\n[[roots]]\nname = "runs"\npath = "state/runs"\nlayout = "native"\n'
    '[[roots]]\nname = "claude"\npath = ".claude/projects"\nlayout = "claude-code"\nhistory = "live"\n'
    '[[notify]]\non = ["chain.aborted"]\ncommand = ["true"]\n'
)


def _furnish(place: Place) -> None:
    place.furnish()
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write('chains = ["chains"]\n' + _ROOTS)
    chains = {f"chains/{name}.yaml": text for name, text in _CHAINS.items()}
    parts = {f"bundle/{name}": content.decode() for name, content in bundle(1).parts().items()}
    for name, text in {**_FILES, **chains, **parts}.items():
        path = place.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    delivered = {"review.md": "fine", "report.md": "y" * 1300, "notes.md": "n"}
    run = place.add_run("delivered", exit_code=0, contract=CONTRACT, files=delivered)
    (run / "stdout.log").write_text("hello\n")
    (run / "trace.jsonl").write_text('{"event": "ToolCall", "id": "c1", "tool": "Bash", "params": {}}\n')
    place.add_run("careless", exit_code=0, contract=CONTRACT, files={"review.md": "r", "report.md": "r"})
    place.add_run("silent", exit_code=0, contract=CONTRACT, files={"report.md": "r"})
    place.add_run("crashed", exit_code=3, contract=CONTRACT, files={"review.md": "r", "report.md": "r"})
    for number, name in enumerate(("plain", "later", "one", "two")):
        at = f"2026-03-0{number + 2}T03:04:05Z"
        place.add_run(name, exit_code=0, started_at=at, finished_at=at.replace("05Z", "06Z"))
    for name in ("open", "held-up"):
        place.add_run(name, started_at="2026-02-02T03:04:05Z", playbook="plain")
    (place.runs / "broken").mkdir()
    (place.runs / "broken/run.json").write_text('{"schema":')
    transcript = Transcript(session=_SESSION, now=1_760_000_000.0)
    transcript.prompt("Look at what changed since the last release, and write down what you find.")
    transcript.call(command="git log --stat")
    path = place.directory / f".claude/projects/-home-dev-app/{_SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript.content())


_FIRST: Final = (
    "status", "root list", "session list", "session list --failed", "session show delivered", "session show silent",
    "session show crashed", "session show open", f"session show {_SESSION}", "session logs delivered",
    "session tail delivered", "session verify delivered", "session verify silent", "session diff one two",
    "session wait delivered", "why delivered", "why silent", "why crashed", "why open", f"why {_SESSION}",
    "why chain:after", "queue list", "queue list --state held", "log --event ready --limit 1",
    "inspect state/runs", "contract verify --playbook review --root out",
    "ctcp check runs/42 --allow-missing", "play list", "play check review", "chain list", "chain show release",
    "chain runs", "chain approvals", "receipt hash params.json", "receipt verify ./bundle", "receipt chain",
    "receipt key", "replay show ./bundle/REPLAY.jsonl", "replay check ./bundle/REPLAY.jsonl", "invocation list",
    "show list", "show show nothing", "artifact list", "outcome check outcome.json", "schedule list",
    "schedule next '30 2 * * *' --timezone Europe/Riga --from 2026-03-27 --count 3", "notify list",
    "exchange principal list", "exchange artifact list", "prune --older-than 90d --dry-run",
    "daemon install --user --dry-run", "config show", "schema playbook",
)  # fmt: skip
"""Commands that only look, at what no command has changed."""

_CHANGES: Final = (
    Call("session seen silent", "session seen crashed --json"),
    Call("session cancel open --reason r", "session cancel held-up --reason r --json"),
    Call("session export one --output e1", "session export two --output e2 --json"),
    Call("training export --output c1", "training export --output c2 --json"),
    Call("queue show @last", "queue show @last --json"),
    Call("queue retry @last --dry-run", "queue retry @last --dry-run --json"),
    Call("queue discard @last --reason r --dry-run", "queue discard @last --reason r --dry-run --json"),
    Call("queue retry --all --wait", "queue retry --all --wait --json"),
    Call("queue discard --all --reason r", "queue discard --all --reason r --json"),
    Call("play run greet name=Ada --wait", "play run greet name=Ada --wait --json"),
    Call("chain define later.yaml", "chain define later.yaml --json"),
    Call("chain fire after pr=12 --dry-run", "chain fire after pr=12 --dry-run --json"),
    Call("chain fire after pr=12", "chain fire after pr=12 --json"),
    Call("chain pause after --note n", "chain pause release --note n --json"),
    Call("chain resume after", "chain resume release --json"),
    Call("chain disable later --note n", "chain disable later --note n --json"),
    Call("chain fire release", "chain fire release --json"),
    _both("chain approvals"),
    _both("chain run show @last"),
    _both("why chain:@last"),
    Call("chain approve @last --note n", None),
    Call("chain deny @last --reason r", None),
    Call("chain fire release", "chain fire release --json"),
    Call("chain run cancel @last --reason r", "chain approve @last --note n --json"),
    Call("chain fire release", "chain fire release --json"),
    Call("chain run cancel @last --reason r", "chain deny @last --reason r --json"),
    Call("chain fire release", "chain run cancel @last --reason r --json"),
    Call("event emit review.asked pr:=12 --id a", "event emit review.asked pr:=12 --id b --json"),
    Call(
        "artifact add --kind ci_result --name ci --session one --content ci.json",
        "artifact add --kind ci_result --name ci --session two --content ci.json --json",
    ),
    Call("receipt sign one", "receipt sign two --json"),
    Call("receipt attest ./bundle --output a1", "receipt attest ./bundle --output a2 --json"),
    Call(
        "replay convert ./bundle/REPLAY.jsonl --to bundle --output r1",
        "replay convert ./bundle/REPLAY.jsonl --to bundle --output r2 --json",
    ),
    Call("exchange principal create writer --scrip 50", "exchange principal create reader --scrip 50 --json"),
    Call("exchange mint writer 100 --reason r", "exchange mint reader 100 --reason r --json"),
    Call(
        "exchange artifact write note --as writer --content text",
        "exchange artifact write old --as writer --content text --json",
    ),
    Call("exchange artifact write gift --as writer --content text", None),
    Call("exchange artifact write more --as writer --content text", None),
    _both("exchange artifact show note"),
    _both("exchange artifact read note --as reader"),
    _both("exchange contract check freeware --caller reader --action read --target note"),
    _both("exchange invoke genesis_ledger balance writer --as reader"),
    _both("exchange submit todo.jsonl --dry-run"),
    Call("exchange token create --as writer", "exchange token create --as writer --json"),
    _both("exchange token list"),
    Call("exchange token revoke nothing", "exchange token revoke nothing --json"),
    Call(
        "exchange artifact transfer gift reader --as writer",
        "exchange artifact transfer more reader --as writer --json",
    ),
    Call("exchange artifact delete note --as writer", "exchange artifact delete old --as writer --json"),
    _both("exchange execute try.py ab :=2"),
    Call("notify retry no_1", "notify retry no_2 --json"),
    Call("notify test", "notify test --json"),
    Call("root accept runs", "root accept claude --json"),
    Call("backup b1", "backup b2 --json"),
    _both("restore b1 --dry-run"),
    _both("daemon uninstall --user --dry-run"),
    Call("doctor --only clocks", "doctor --json"),
)
"""Commands that change something, in their order, and looks at what they made."""

_LAST: Final = (
    "status", "session list", "chain runs", "chain run show @last", "chain approvals", "invocation list",
    "invocation show @last", "artifact list", "artifact show @last", "notify list", "receipt chain",
    "exchange principal list", "exchange principal show writer", "exchange artifact list", "exchange ledger",
    "exchange log", "why chain:@last", "why chain:later", "receipt verify ./e1", "replay show @last",
)  # fmt: skip
"""Commands that look at it in the end."""

_WITHOUT_TEXT: Final = (
    "log ",
    "doctor ",
    "daemon ",
    "exchange token create",
    "config show",
    "schema ",
    "queue show",
)
"""Their text is about the machine, is secret, or is a job's that goes on; a schema is JSON anyway."""

_HELD: Final = (
    "update jobs set state = 'held', error = 'busy' where handler = 'sessions/ended' and state = 'done'"
)


class Said(NamedTuple):
    """How a command ended, and what a program got of it."""

    code: int
    text: list[str] | None = None
    json: Shape | None = None


def played(directory: Path) -> dict[str, Said]:
    """What each call says, over a daemon that works."""
    place = Place(directory)
    _furnish(place)
    place.environment["XDG_CONFIG_HOME"] = str(directory / "config")
    found: dict[str, Said] = {}
    with place.daemon():
        wait_for(lambda: _is_judged(place), "the verdicts")
        for when, calls in (("", map(_both, _FIRST)), ("", _CHANGES), (" in the end", map(_both, _LAST))):
            for call in calls:
                if call.text.startswith("queue show"):
                    place.change_store(_HELD)
                if call.text.startswith("notify retry"):
                    for notice in ("no_1", "no_2"):
                        place.change_store(_NOTICE.format(notice))
                for name, said in _called(place, call):
                    number = sum(each.startswith(f"{name}{when}") for each in found)
                    found[f"{name}{when}" + (f" ({number + 1})" if number else "")] = said
    return found


def _is_judged(place: Place) -> bool:
    listed = place.call("session", "list", "--json").objects()
    if len(listed) < 11 or sum(each["status"] == "running" for each in listed) > 3:
        return False
    verified = [place.call("session", "verify", name, "--json").object() for name in ("delivered", "silent")]
    return all(isinstance(each["record"], dict) and each["record"]["journals"] for each in verified)


def _called(place: Place, call: Call) -> Iterator[tuple[str, Said]]:
    for command in (call.text, call.json):
        if command is None:
            continue
        called = _call(place, command)
        if command == call.text:
            is_told = not command.startswith(_WITHOUT_TEXT)
            text = list(_normal(f"{called.out}{called.err}", place)) if is_told else None
            yield command, Said(called.code, text=text)
        else:
            shape: Shape = {}
            for value in _values(called.out):
                _note(value, "", shape)
            yield command, Said(called.code, json=shape)


def _values(out: str) -> Iterator[JsonValue]:
    """The value that was printed, or one on each line; a text, where the JSON went to a file."""
    for line in out.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            yield "a text"


def _call(place: Place, command: str) -> Result:
    import shlex

    called = place.call(*shlex.split(command))
    if command in {each for pair in _CHANGES for each in pair}:
        wait_for(lambda: _is_settled(place), f"what follows from {command}")
    return called


def _is_settled(place: Place) -> bool:
    """Whether nothing is to be done but what waits for a person, or for a time."""
    queue = place.call("status", "--json").object()["queue"]
    runs = place.call("chain", "runs", "--status", "running", "--json").objects()
    assert isinstance(queue, dict)
    return not runs and queue["running"] == 0


def _note(value: JsonValue, at: str, into: Shape) -> None:
    kinds = into.setdefault(at, [])
    kind = "number" if type(value) in (int, float) else type(value).__name__
    if kind not in kinds:
        kinds.append(kind)
        kinds.sort()
    if isinstance(value, dict):
        for key, each in value.items():
            _note(each, f"{at}.{key}", into)
    elif isinstance(value, list):
        for each in value:
            _note(each, f"{at}[]", into)


_WHO: Final = re.escape(getpass.getuser())
_VOLATILE: Final = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d(\.\d+)?\b"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"(?<=_)[0-9a-f]{8,}\b|\b[0-9a-f]{12,}\b"), "HEX"),
    (re.compile(r"(?<=greet-)\d{8}T\d{6}Z-[0-9a-f]{6}"), "WHEN"),
    (re.compile(r"\b1[0-9]{9}\.[0-9]+"), "MOMENT"),
    (re.compile(r'(?<=_ms": )[0-9.]+|(?<=_seconds": )[0-9.]+'), "SECONDS"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|us|s|m|h|d|min)\b( \d+(\.\d+)?(ms|s|m|h)\b)*"), "DURATION"),
    (re.compile(r"(?<=  )now(?=  |$)", re.MULTILINE), "DURATION ago"),
    (re.compile(r"\b(pid|epoch|number|job|after|since|process|daemon) \d+"), r"\1 N"),
    (re.compile(r"(?<=prices of )\d{4}-\d\d \(genai-prices [0-9.]+\)"), "PRICES"),
    (re.compile(r"\b\d+(\.\d+)? (bytes|B|KB|KiB|MB|MiB)\b"), "SIZE"),
    (re.compile(r"(?m)^( *)\d+(?=  )"), r"\1N"),
    (re.compile(rf"\b{_WHO}(?= asked| reported| approved| denied)|(?<=created by ){_WHO}\b"), "SOMEBODY"),
    (re.compile(r"-{4,}"), "----"),
    (re.compile(r"(?<=\S)  +"), "  "),
)


def _normal(text: str, place: Place) -> Iterator[str]:
    """The lines, without what differs from play to play."""
    shown = text.replace(str(place.directory), "/PLACE")
    for pattern, instead in _VOLATILE:
        shown = pattern.sub(instead, shown)
    return (line.rstrip() for line in shown.splitlines())


def lacking(old: Shape, new: Shape) -> list[str]:
    """What is gone, or has another type. What may be null may also be something, and the other way round."""
    gone = [f"{at} is gone" for at in old if at not in new and not at.endswith("[]")]
    for at, kinds in old.items():
        before, now = {*kinds} - {"NoneType"}, {*new.get(at, ())} - {"NoneType"}
        if before and now - before:
            gone.append(f"{at} is {', '.join(sorted(now))} instead of {', '.join(sorted(before))}")
    return gone


def main() -> None:
    """Write it down."""
    with tempfile.TemporaryDirectory() as scratch:
        said = {name: each._asdict() for name, each in played(Path(scratch)).items()}
    kept = {
        name: {key: value for key, value in each.items() if value is not None} for name, each in said.items()
    }
    Path(sys.argv[1]).write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
