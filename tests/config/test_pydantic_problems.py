"""Pydantic's own traps, with a language of the kind that chains will be: unions told apart by a tag, no extra keys."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runward.config.playbook_file import complaints_of
from runward.config.yaml_document import read_yaml


class Cron(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    kind: Literal["cron"]
    expression: str
    count: int = 1


class Outcome(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    kind: Literal["outcome"]
    of: str


class Chain(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    name: str
    triggers: list[Annotated[Cron | Outcome, Field(discriminator="kind")]]


def complaints(text: str) -> list[str]:
    parsed = read_yaml(text, "f")
    assert parsed.value is not None
    document = parsed.value
    with pytest.raises(ValidationError) as refused:
        Chain.model_validate(document.root)
    keys = ("name", "triggers", "kind", "expression", "count", "of")
    return [problem.render() for problem in document.problems(complaints_of(refused.value, keys))]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "name: a\ntriggers:\n  - kind: cron\n    expression: 3\n",
            "f:4:17: triggers[0].cron.expression: must be a text, not a number (put it in quotes)",
        ),
        (
            "name: a\ntriggers:\n  - kind: cron\n    expression: x\n    count: '5'\n",
            "f:5:12: triggers[0].cron.count: must be a whole number, not a text (make it a whole number)",
        ),
        (
            "name: a\ntriggers:\n  - kind: outcome\n",
            "f:3:5: triggers[0].outcome: has no 'of' (add 'of: …')",
        ),
        (
            "name: a\ntriggers: []\ntrigers: []\n",
            "f:3:1: trigers: unknown key (did you mean 'triggers'?)",
        ),
        ("triggers: []\n", "f:1:1: has no 'name' (add 'name: …')"),
        ("name: a\ntriggers: {}\n", "f:2:11: triggers: must be a list, not a table of keys (make it a list)"),
    ],
)
def test_each_of_pydantics_errors_has_its_place_and_its_fix(text: str, complaint: str) -> None:
    assert complaints(text) == [complaint]


def test_an_unknown_tag_is_told_at_its_table() -> None:
    (complaint,) = complaints("name: a\ntriggers:\n  - kind: crom\n")
    assert complaint.startswith("f:3:5: triggers[0]: input tag 'crom' found using 'kind' does not match any")
