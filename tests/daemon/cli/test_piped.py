"""Programs still get every key and every line that they got before the screens of terminals changed."""

import json
import re
from typing import Any

import pytest
from tests.daemon.cli.piped import RECORDED, Said, lacking, played

pytestmark = [pytest.mark.prove, pytest.mark.timeout(300)]

BEFORE: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    return played(tmp_path_factory.mktemp("piped"))


def test_every_command_is_played_and_ends_with_the_same_code(now: dict[str, Said]) -> None:
    assert {name: said.code for name, said in now.items()} == {
        name: said["code"] for name, said in BEFORE.items()
    }


def test_every_json_has_all_keys_of_before_with_their_types(now: dict[str, Said]) -> None:
    shapes = {name: (said["json"], now[name].json) for name, said in BEFORE.items() if "json" in said}
    assert len(shapes) >= 110, "nothing was taken out of the recording"
    gone = {name: lacking(old, new or {}) for name, (old, new) in shapes.items()}
    assert {name: each for name, each in gone.items() if each} == {}


def test_every_text_in_a_pipe_is_as_before_but_for_its_new_words(now: dict[str, Said]) -> None:
    texts = {name: (said["text"], now[name].text) for name, said in BEFORE.items() if "text" in said}
    assert len(texts) >= 110, "nothing was taken out of the recording"
    expected = {name: _with_new_words(old) for name, (old, _) in texts.items()}
    assert {name: new for name, (_, new) in texts.items()} == expected


_VALID = r"^valid \(runward form\): 3 hashes of the parts and {}, signature absent$"
_NEW_WORDS = (
    ("^Both count: ", "Status and verification differ: "),
    (
        _VALID.format("6 of values recomputed, 1 cut, 1 unknown, not known to the store"),
        "+ valid: the receipt matches its files (3 hashes, 6 of values, 1 cut, 1 unknown), not known to the store, not signed",
    ),
    (
        _VALID.format("0 of values recomputed, compared with the store"),
        "+ valid: the receipt matches its files (3 hashes), not signed",
    ),
    (
        r"(no process is named that could be checked|whether its process is still there) \(",
        r"\1; it has been silent for DURATION (",
    ),
    (r"^(Tokens:  111 in, 20 out)$", "\\1\nCost:  ~$0.0011 at list prices of PRICES"),
    (r"^(Contract:  fixed \(late\))$(?=\nPath:  .*/delivered$)", "Calls:  1\n\\1"),
)
"""What was said, and what is said now, in the order of the interface's pages: a verdict, a receipt, a silence, a cost,
the number of calls."""


def _with_new_words(lines: list[str]) -> list[str]:
    text = "\n".join(lines)
    for old, new in _NEW_WORDS:
        text = re.sub(old, new, text, flags=re.MULTILINE)
    return text.split("\n")


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ({".a": ["str"]}, {".a": ["str"], ".b": ["str"]}, []),
        ({".a": ["str"]}, {".b": ["str"]}, [".a is gone"]),
        ({".a": ["str"]}, {".a": ["NoneType", "str"]}, []),
        ({".a": ["NoneType"]}, {".a": ["str"]}, []),
        ({".a": ["number"]}, {".a": ["str"]}, [".a is str instead of number"]),
    ],
)
def test_what_is_lacking(old: dict[str, list[str]], new: dict[str, list[str]], gone: list[str]) -> None:
    assert lacking(old, new) == gone
