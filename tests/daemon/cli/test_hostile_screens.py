"""Nothing that a run wrote moves anything on a screen: not its name, its prompt, its command, its reason or its paths."""

import json
import re
import shlex
from itertools import groupby
from pathlib import Path

import pytest
from tests.daemon.cli.drawn import draw, widest
from tests.daemon.cli.everyday import SESSION, Everyday
from tests.handlers.layouts.claude_code_lines import MODEL, Transcript
from tests.waiting import wait_for

from runward.config.json_value import JsonValue

_EVIL = "\x1b[2J\x1b]0;owned\x07\u202egnp\r\n::error::no\x9b31m\u200b" + "x" * 10_000 + " end"
_NAMES = (
    "\x1b[31mred\u202e",
    "long" * 25,
    "words and\nlines",
    "two  blanks; touch owned",
    "$(touch owned)`touch owned`",
    'it\'s "quoted" (or: not)',
    "--all",
    "@last",
    "größe…",
)
_CHAIN = """\
name: risky
trigger: {manual: true}
steps: [{action: risky, with: {text: "{{ trigger.text }}"}, requires_approval: true}]
"""
_ACTION = '[actions.risky]\ncommand = ["sh", "-c", "{{ with.text }}"]\n'
_SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Everyday:
    place = Everyday(tmp_path_factory.mktemp("hostile"))
    place.furnish()
    root = '[[roots]]\nname = "claude"\npath = ".claude/projects"\nlayout = "claude-code"\nhistory = "live"\n'
    settings = place.directory / "runward.toml"
    runs = '[[roots]]\nname = "runs"\npath = "state/runs"\n'
    settings.write_text(settings.read_text() + runs + root + _ACTION)
    (place.directory / "risky.yaml").write_text(_CHAIN)
    contract: JsonValue = {
        "expected": [
            {
                "id": "a",
                "path": "語" * 80 + ".md",
                "required": True,
                "description": _EVIL,
                "source": "playbook",
            }
        ]
    }
    for name in _NAMES:
        place.add_run(
            name,
            exit_code=0,
            contract=contract,
            command=["sh", "-c", _EVIL],
            cwd=f"/{_EVIL[:200]}",
            playbook=_EVIL[:80],
        )
    place.add_run("erring", exit_code=3, command=[_EVIL], playbook="p")
    (place.runs / "erring/exit.json").write_text('{"exit_code": 3, "error": "' + "\\u001b[2J" * 30 + '"}')
    for number in (7, 8):
        transcript = Transcript(session=SESSION.format(number), now=1_799_999_000.0)
        transcript.prompt(_EVIL)
        transcript.text(_EVIL)
        path: Path = place.directory / f".claude/projects/-app{number}/{SESSION.format(number)}.jsonl"
        path.parent.mkdir(parents=True)
        content = transcript.content().decode()
        if number == 8:
            content = content.replace(MODEL, _json(_EVIL[:200])).replace(
                "/home/dev/app", _json(f"/{_EVIL[:200]}")
            )
        path.write_text(content)
    with place.daemon():
        assert place.call("chain", "define", "risky.yaml").code == 0
        fired = place.call("chain", "fire", "risky", f"text={_EVIL}")
        assert fired.code == 0, fired.err
        asked = ("chain", "approvals", "--json")
        wait_for(lambda: place.call(*asked).objects(), "an approval")
    place.now = 1_800_000_500.0
    return place


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_PLAN = ("init", "--dry-run")
_WHOLE = (("chain", "approvals"), ("chain", "run", "show", "@last"), _PLAN)
"""Commands that show everything, however long it is."""


@pytest.mark.parametrize("columns", [20, 80, 120])
@pytest.mark.parametrize("variables", [{}, {"LANG": "C"}], ids=["utf8", "ascii"])
@pytest.mark.parametrize(
    "command",
    [
        (),
        ("session", "list"),
        ("session", "list", "--failed"),
        ("session", "show", "native:runs/erring"),
        ("session", "show", "long"),
        ("session", "show", "00000007"),
        ("why", "long"),
        ("why", "\x1b[31mred\u202e"),
        ("why", "…00000007"),
        ("why", "chain:@last"),
        ("why", "chain:risky"),
        ("usage", "--by", "model"),
        ("usage", "--by", "project"),
        ("usage", "--by", "agent"),
        ("chain", "runs"),
        *_WHOLE,
        ("status",),
    ],
    ids=" ".join,
)
def test_what_runs_wrote_stays_text_in_its_place(
    hostile: Everyday, command: tuple[str, ...], variables: dict[str, str], columns: int
) -> None:
    if command == _PLAN:
        variables = {**variables, "HOME": str(_hostile_home(hostile))}
    drawn = draw(hostile, (columns, 24), *command, **variables)
    assert drawn.code in (0, 3), drawn.text
    shown = _SGR.sub("", drawn.raw.decode()).replace("\r\n", "\n")
    assert [each for each in shown if each != "\n" and not each.isprintable()] == []
    assert widest(drawn) <= columns or command == _PLAN, "it has lines of files"
    # By the lines as they were written: where a narrow screen goes on with a long one, the runner reads no other line.
    assert not any(line.startswith("::") for line in shown.split("\n")), "nothing commands the runner of a CI"
    if columns == 80 and command not in _WHOLE:
        assert len(drawn.lines) <= 24, drawn.text
    assert "LANG" not in variables or shown.isascii()


def _hostile_home(hostile: Everyday) -> Path:
    home = hostile.directory / _EVIL[:60].replace("/", "")
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    return home


@pytest.mark.parametrize("columns", [20, 80, 120])
@pytest.mark.parametrize("variables", [{}, {"LANG": "C"}], ids=["utf8", "ascii"])
def test_a_typed_answer_to_the_plan_is_heard_and_what_was_done_is_undone(
    hostile: Everyday, variables: dict[str, str], columns: int
) -> None:
    home = _hostile_home(hostile)
    (home / ".codex/config.toml").write_text("[tui]\n")
    before = {path: path.is_file() and path.read_bytes() for path in hostile.directory.rglob("*")}
    told = {**variables, "HOME": str(home)}
    for keys, ways in (("n\n", ("nothing was changed",)), ("y\n", ("written", "changed"))):
        drawn = draw(hostile, (columns, 24), "init", "--no-service", keys=keys, **told)
        assert drawn.code == (0 if keys == "y\n" else 1), drawn.text
        shown = " ".join(drawn.text.split())
        assert all(way in shown for way in ways)
        assert [each for each in drawn.text if each != "\n" and not each.isprintable()] == []
        assert widest(drawn) <= columns
    assert "runward_hook.py" in (home / ".codex/config.toml").read_text()
    undone = draw(hostile, (columns, 24), "init", "--undo", **told)
    assert undone.code == 0, undone.text
    assert widest(undone) <= columns
    assert {path: path.is_file() and path.read_bytes() for path in hostile.directory.rglob("*")} == before


def _offered(lines: list[str]) -> list[list[str]]:
    """The commands that a screen offers to be copied, as a shell reads them; what is in brackets is said of them."""
    commands = []
    for line in lines:
        if line.startswith(("Next: ", "All:  ")):
            words = shlex.shlex(line[6:], posix=True, punctuation_chars=";()")
            words.commenters = ""
            words.whitespace_split = True
            for is_end, command in groupby(words, lambda word: word in (";", "(")):
                if not is_end:
                    commands.append(list(command))
            commands = [each for each in commands if each[0] == "runward"]
    return commands


@pytest.mark.parametrize("variables", [{}, {"LANG": "C"}], ids=["utf8", "ascii"])
def test_what_is_offered_to_be_copied_is_quoted_and_finds_what_it_is_about(
    hostile: Everyday, variables: dict[str, str]
) -> None:
    sessions = hostile.call("session", "list", "--json").objects()
    assert {str(each["session_id"]) for each in sessions} >= {*_NAMES, "erring"}
    for each in sessions:
        key, offered = str(each["key"]), []
        for command in (("why", key), ("session", "show", key)):
            drawn = draw(hostile, (500, 24), *command, **variables)
            offered += _offered(drawn.lines)
        assert len(offered) >= 4, drawn.text
        for _, *words in offered:
            form = ("--json",) if words[:2] != ["session", "logs"] else ()
            found = hostile.call(*words, *form)
            assert found.code == 0, (words, found.err)
            if form:
                told = found.object()
                assert key in (told.get("key"), _subject(told)), words
    for command in (("why", "chain:@last"), ("why", "chain:risky"), ("chain", "approvals")):
        for _, *words in _offered(draw(hostile, (500, 24), *command, **variables).lines):
            if words[:2] != ["chain", "approve"]:
                assert hostile.call(*words).code == 0, words
            else:
                assert [words[2]] == [
                    each["approval_id"] for each in hostile.call("chain", "approvals", "--json").objects()
                ]
    assert not (hostile.directory / "owned").exists()


def _subject(told: dict[str, JsonValue]) -> JsonValue:
    subject = told.get("subject")
    return subject["id"] if isinstance(subject, dict) else None


_OF_TOP = re.compile(r"\x1b\[(?:[0-9;]*[HJKm]|\?(?:1049|25|7)[hl])")
"""What `runward top` itself writes: places, colours, and what takes the screen and gives it back."""


@pytest.mark.parametrize("columns", [20, 80, 120])
@pytest.mark.parametrize("variables", [{}, {"LANG": "C"}], ids=["utf8", "ascii"])
@pytest.mark.parametrize("keys", ["q", "jj/x\rq", "\r qq"])
def test_what_runs_wrote_stays_text_in_top(
    hostile: Everyday, keys: str, variables: dict[str, str], columns: int
) -> None:
    drawn = draw(hostile, (columns, 24), "top", keys=keys, RUNWARD_PAGER="cat", **variables)
    assert drawn.code == 0
    shown = _OF_TOP.sub("", drawn.raw.decode().replace("\r\n", "\n"))
    assert all(each == "\n" or each.isprintable() for each in shown)
    assert widest(drawn) <= columns
