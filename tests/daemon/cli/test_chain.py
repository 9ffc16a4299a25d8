"""`runward chain`: files that are defined, listed and tried, without a daemon."""

import json

import pytest
from tests.daemon.cli.calling import Place

LOOK = 'command: ["look", "--pr", "{{ with.pr }}"]\n'
CHAIN = """\
name: pr-review
trigger: {event: pr.opened, filter: {base: main}}
steps:
  - id: look
    skill: look
    with: {pr: "{{ trigger.pr }}", unused: [1, "{{ trigger.pr }}"]}
  - id: again
    skill: look
    with: {pr: "{{ steps.look.outcome.round + 1 }}"}
    condition: "{{ outcome.verdict == 'APPROVE' }}"
"""


@pytest.fixture
def chains(place: Place) -> Place:
    (place.directory / "playbooks/look.playbook.yaml").write_text(LOOK)
    (place.directory / "c.yaml").write_text(CHAIN)
    return place


def tried(place: Place, *words: str, outcomes: str = "[]") -> list[dict[str, object]]:
    (place.directory / "outcomes.json").write_text(outcomes)
    result = place.call(
        "chain", "fire", "c.yaml", *words, "--dry-run", "--outcomes", "outcomes.json", "--json"
    )
    assert result.code == 0, result.err
    return [dict(each) for each in result.items("steps")]


def test_a_chain_is_defined_listed_shown_and_replaced(chains: Place) -> None:
    assert chains.call("chain", "list").out.startswith("no chains in ")
    first = chains.call("chain", "define", "c.yaml", "--json").object()
    assert first == {
        "name": "pr-review",
        "file": f"{chains.directory}/chains/pr-review.yaml",
        "replaced": False,
    }
    assert chains.call("chain", "define", "c.yaml").out.startswith("pr-review is replaced: ")
    assert (chains.directory / "chains/pr-review.yaml").read_text() == CHAIN
    assert "pr-review  pr.opened  2      ok" in chains.call("chain", "list").out
    (listed,) = chains.call("chain", "list", "--json").objects()
    assert (listed["name"], listed["problems"]) == ("pr-review", [])
    shown = chains.call("chain", "show", "pr-review").out
    assert "pr-review: fired by the event pr.opened" in shown
    assert "1  again: look if {{ outcome.verdict == 'APPROVE' }}" in shown
    assert [path.name for path in (chains.directory / "chains").iterdir()] == ["pr-review.yaml"]


def test_a_wrong_chain_changes_nothing_and_is_named_with_its_place(chains: Place) -> None:
    chains.call("chain", "define", "c.yaml")
    (chains.directory / "c.yaml").write_text(
        CHAIN.replace('skill: look\n    with: {pr: "{{ t', 'skill: loook\n    with: {pr: "{{ t')
    )
    refused = chains.call("chain", "define", "c.yaml")
    assert refused.code == 2
    assert "c.yaml:5:12: steps[0].skill: there is no playbook 'loook' (did you mean 'look'?)" in refused.err
    assert (chains.directory / "chains/pr-review.yaml").read_text() == CHAIN
    (chains.directory / "chains/other.yaml").write_text("name: other\n")
    assert "wrong: `runward chain show other` says why" in chains.call("chain", "list").out
    assert chains.call("chain", "show", "other").code == 2


def test_a_name_that_another_file_has_is_refused(chains: Place) -> None:
    (chains.directory / "chains").mkdir()
    (chains.directory / "chains/older.yaml").write_text(CHAIN)
    refused = chains.call("chain", "define", "c.yaml")
    assert (refused.code, "is used by older.yaml" in refused.err) == (2, True)


def test_a_dry_run_shows_which_steps_would_run_and_with_what(chains: Place) -> None:
    look, again = tried(chains, "pr=12", outcomes='[{"verdict": "APPROVE", "round": 3}]')
    assert (look["would_run"], look["argv"]) == (True, ["look", "--pr", "12"])
    assert (again["would_run"], again["value"], again["argv"]) == (True, True, ["look", "--pr", "4"])
    assert "unused     unused" in chains.call("chain", "fire", "c.yaml", "pr=12", "--dry-run").out


@pytest.mark.parametrize(
    ("outcomes", "reason", "why"),
    [
        ("[]", "step.skipped.undefined", "outcome.verdict is not there: outcome is null"),
        ('[{"verdict": "REJECT"}]', "step.skipped.condition_false", None),
        ('[{"verdict": "APPROVE"}]', "run.failed.not_started", "steps.look.outcome.round is not there"),
        ('["APPROVE"]', "step.skipped.undefined", "outcome.verdict is not there: outcome is null"),
    ],
)
def test_what_would_not_run_says_why(chains: Place, outcomes: str, reason: str, why: str | None) -> None:
    _, again = tried(chains, "pr=12", outcomes=outcomes)
    assert (again["would_run"], again["reason"], again["argv"]) == (False, reason, None)
    assert again["why"] is None if why is None else why in str(again["why"])


def test_a_value_that_would_be_read_as_an_option_keeps_the_step_from_starting(chains: Place) -> None:
    (chains.directory / "playbooks/look.playbook.yaml").write_text(LOOK.replace('"--pr", ', ""))
    look, again = tried(chains, "pr=-rf")
    assert (look["reason"], again["reason"]) == ("run.failed.not_started", "run.failed.not_started")
    assert "begins with '-'" in str(look["why"])
    (chains.directory / "playbooks/look.playbook.yaml").write_text(LOOK.replace('"--pr"', '"--"'))
    assert tried(chains, "pr=-rf")[0]["argv"] == ["look", "--", "-rf"]


def test_the_events_fields_come_from_a_file_and_the_command_line(chains: Place) -> None:
    (chains.directory / "event.json").write_text(json.dumps({"pr": 1, "other": 2}))
    result = chains.call("chain", "fire", "c.yaml", "--dry-run", "--event", "event.json", "pr:=7", "--json")
    assert result.items("steps")[0]["argv"] == ["look", "--pr", "7"]
    (chains.directory / "event.json").write_text("[1]")
    refused = chains.call("chain", "fire", "c.yaml", "--dry-run", "--event", "event.json")
    assert (refused.code, "holds a list, not an object" in refused.err) == (2, True)


def test_nothing_is_fired_by_this_version(chains: Place) -> None:
    refused = chains.call("chain", "fire", "c.yaml")
    assert (refused.code, "fires no chain" in refused.err) == (2, True)


def test_a_chain_that_is_not_there(chains: Place) -> None:
    for words in (("show", "nobody"), ("fire", "nobody", "--dry-run"), ("define", "nobody.yaml")):
        assert chains.call("chain", *words).code == 3
