"""Nothing that a run wrote moves anything on a screen: not its name, its prompt, its command, its reason or its paths."""

import re
from pathlib import Path

import pytest
from tests.daemon.cli.drawn import draw, widest
from tests.daemon.cli.everyday import SESSION, Everyday
from tests.handlers.layouts.claude_code_lines import Transcript

from runward.config.json_value import JsonValue

_EVIL = "\x1b[2J\x1b]0;owned\x07\u202egnp\r\n::error::no\x9b31m\u200b" + "x" * 10_000 + " end"
_SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Everyday:
    place = Everyday(tmp_path_factory.mktemp("hostile"))
    place.furnish()
    root = '[[roots]]\nname = "claude"\npath = ".claude/projects"\nlayout = "claude-code"\nhistory = "live"\n'
    settings = place.directory / "runward.toml"
    settings.write_text(settings.read_text() + '[[roots]]\nname = "runs"\npath = "state/runs"\n' + root)
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
    for name in ("\x1b[31mred\u202e", "long" * 25, "words and\nlines"):
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
    transcript = Transcript(session=SESSION.format(7))
    transcript.prompt(_EVIL)
    transcript.text(_EVIL)
    path: Path = place.directory / f".claude/projects/-app/{SESSION.format(7)}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(transcript.content())
    place.daemon_once()
    place.now = 1_800_000_500.0
    return place


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
    ],
    ids=" ".join,
)
def test_what_runs_wrote_stays_text_in_its_place(
    hostile: Everyday, command: tuple[str, ...], variables: dict[str, str], columns: int
) -> None:
    drawn = draw(hostile, (columns, 24), *command, **variables)
    assert drawn.code in (0, 3), drawn.text
    shown = _SGR.sub("", drawn.raw.decode()).replace("\r\n", "\n")
    assert all(each == "\n" or each.isprintable() for each in shown)
    assert widest(drawn) <= columns
    assert not any(line.startswith("::") for line in drawn.lines), "nothing commands the runner of a CI"
    if columns == 80:
        assert len(drawn.lines) <= 24, drawn.text
    assert not variables or shown.isascii()


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
