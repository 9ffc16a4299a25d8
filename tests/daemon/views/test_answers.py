"""`why` in short: there is a sentence for everything that can be asked about."""

import re
import string
from pathlib import Path
from typing import get_args

import runward.daemon
import runward.handlers
from runward.daemon.views.answers import _NOUNS, SENTENCES, _and, _sentence
from runward.handlers.model.reasons import ReasonCode, UnknownCode


def _sources(package: str) -> str:
    return "\n".join(path.read_text() for path in Path(package).parent.rglob("*.py"))


def test_every_reason_has_a_sentence() -> None:
    of_chains = set(re.findall(r'"(chain\.[a-z_]+\.[a-z_]+)"', _sources(runward.handlers.__file__)))
    assert len(of_chains) >= 14
    assert {*get_args(ReasonCode), *get_args(UnknownCode), *of_chains} == set(SENTENCES)


def test_every_noun_of_a_story_has_a_name() -> None:
    source = _sources(runward.daemon.__file__)
    nouns = set(re.findall(r'noun="([a-z ]+)"', source)) | {"artifact", "principal", "action"}
    assert {"session", "start", "job", "chain", "chain run", "approval", "directory"} <= nouns
    assert nouns <= set(_NOUNS)


def test_a_sentence_says_what_agents_wrote_and_does_not_read_it_as_a_template() -> None:
    words = {
        "id": "{summary}",
        "summary": "{id.__class__}",
        "doing": "",
        "missing": "{0}",
        "delivered": "",
        "chain": "",
        "steps": "",
        "asked": "",
    }
    assert _sentence("run.failed.missing_artifact", words) == "{summary} failed because it ended without {0}."
    for code, template in SENTENCES.items():
        assert {name for _, name, _, _ in string.Formatter().parse(template) if name} <= set(words), code


def test_many_words_are_named_in_short() -> None:
    assert [_and(list("abcdef"[:count])) for count in (0, 1, 2, 3, 6)] == [
        "",
        "a",
        "a and b",
        "a, b and c",
        "a, b, c and 3 more",
    ]
