"""`runward play`: what playbooks ask for, and whether they are right."""

import pytest
from tests.daemon.cli.calling import Place


def test_a_right_playbook_is_told_as_the_specification_shows_it(place: Place) -> None:
    checked = place.call("play", "check", "review")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.splitlines() == [
        "→ contract resolved (3 expected: 2 required, 1 optional)",
        "→ all paths relative-OK",
        "→ no id collisions with agent_profile defaults",
    ]


def test_the_json_has_the_contract_that_results(place: Place) -> None:
    checked = place.call("play", "check", "review", "--json").object()
    contract = checked["contract"]
    assert isinstance(contract, dict)
    expected = contract["expected"]
    assert isinstance(expected, list)
    assert [each["id"] for each in expected if isinstance(each, dict)] == ["report", "review", "notes"]
    assert checked["problems"] == []
    assert "timeout" in checked


def test_an_id_that_both_declare_is_the_playbooks_and_said(place: Place) -> None:
    (place.directory / "agents/eager.md").write_text(
        "---\nartifact_defaults:\n  expected:\n    - {id: notes, path: n.md}\n---\n"
    )
    checked = place.call("play", "check", "review", "--agent", "eager")
    assert checked.out.splitlines()[-1] == "→ the playbook replaces agent_profile defaults: notes"


def test_a_wrong_playbook_exits_2_with_file_line_column_and_fix(place: Place) -> None:
    checked = place.call("play", "check", "wrong", "--json")
    assert checked.code == 2
    assert checked.object() == {
        "contract": None,
        "timeout": None,
        "problems": [
            {
                "file": str(place.directory / "playbooks/wrong.playbook.yaml"),
                "line": 3,
                "column": 26,
                "message": "artifacts.expected[0].path: '../review.md' has a '..' in it"
                " (name a file below the run's artifacts)",
                "severity": "error",
            }
        ],
    }
    assert place.call("play", "check", "wrong").out == ""


WRONG_ENTRIES = [
    ("{id: a b, path: a.md}", "id: 'a b' is not an id"),
    ("{id: --_, path: a.md}", "id: '--_' is not an id"),
    ("{id: é, path: a.md}", "id: 'é' is not an id"),
    ("{id: other, path: a.md}", "id: 'other' is already the id of entry 0"),
    ("{id: a, path: /a.md}", "path: '/a.md' is an absolute path"),
    ("{id: a, path: x/../a.md}", "path: 'x/../a.md' has a '..' in it"),
    ("{id: a, path: .}", "path: '.' is the directory itself"),
    ("{id: a, path: '*.md'}", "path: '*.md' has a glob character in it: *"),
    ("{id: a, path: 'a[1].md'}", "path: 'a[1].md' has a glob character in it: [ ]"),
    ('{id: a, path: "a\\0"}', "path: 'a\\x00' has a NUL character in it"),
    ("{id: a}", "has no 'path'"),
    ("{path: a.md}", "has no 'id'"),
]


@pytest.mark.parametrize(("entry", "said"), WRONG_ENTRIES)
@pytest.mark.parametrize("of", ["playbook", "agent"])
def test_an_entry_that_breaks_a_rule_is_refused_at_its_line_before_anything_runs(
    place: Place, of: str, entry: str, said: str
) -> None:
    block = f"expected:\n    - {{id: other, path: other.md}}\n    - {entry}\n"
    if of == "playbook":
        (place.directory / "playbooks/own.playbook.yaml").write_text(f"artifacts:\n  {block}")
        line, name = 4, "own.playbook.yaml"
    else:
        (place.directory / "playbooks/own.playbook.yaml").write_text("agent: own\n")
        (place.directory / "agents/own.md").write_text(f"---\nartifact_defaults:\n  {block}---\n")
        line, name = 5, "own.md"
    checked = place.call("play", "check", "own", "--json")
    (problem,) = checked.items("problems")
    assert (checked.code, problem["severity"], problem["line"]) == (2, "error", line)
    assert said in str(problem["message"])
    assert str(problem["file"]).endswith(name)
    launched = place.call("run", "--playbook", "own", "--", "true")
    assert (launched.code, place.state.exists()) == (2, False)
    assert place.call("contract", "verify", "--playbook", "own", "--root", ".").code == 2


def test_the_same_id_in_playbook_and_profile_is_no_duplicate(place: Place) -> None:
    (place.directory / "playbooks/own.playbook.yaml").write_text(
        "agent: reviewer\nartifacts: {expected: [{id: report, path: other.md}]}\n"
    )
    contract = place.call("play", "check", "own", "--json").object()["contract"]
    assert contract == {
        "expected": [
            {"id": "report", "path": "other.md", "required": True, "description": "", "source": "playbook"}
        ]
    }


def test_unknown_keys_of_an_entry_are_warned_of_and_stop_nothing(place: Place) -> None:
    (place.directory / "playbooks/own.playbook.yaml").write_text(
        "artifacts:\n  expected:\n    - {id: a, path: a.md, note: false, colour: blue}\n"
    )
    checked = place.call("play", "check", "own", "--json")
    assert checked.code == 0
    assert [(each["severity"], each["line"], each["column"]) for each in checked.items("problems")] == [
        ("warning", 3, 27),
        ("warning", 3, 40),
    ]


def test_a_playbook_that_names_a_missing_agent_is_wrong(place: Place) -> None:
    (place.directory / "playbooks/lost.playbook.yaml").write_text("agent: nobody\n")
    checked = place.call("play", "check", "lost", "--json")
    assert checked.code == 2
    (problem,) = checked.items("problems")
    assert problem["file"] == str(place.directory / "playbooks/lost.playbook.yaml")
    assert "there is no agent 'nobody'" in str(problem["message"])


def test_a_warning_leaves_the_playbook_right(place: Place) -> None:
    (place.directory / "playbooks/odd.playbook.yaml").write_text("tools: [x]\n")
    checked = place.call("play", "check", "odd", "--json")
    assert checked.code == 0
    (problem,) = checked.items("problems")
    assert problem["severity"] == "warning"


def test_an_unknown_playbook_or_agent_is_not_found(place: Place) -> None:
    assert place.call("play", "check", "nowhere").code == 3
    assert place.call("play", "check", "nowhere.playbook.yaml").code == 3
    assert place.call("play", "check", "review", "--agent", "nobody").code == 3


def test_a_playbook_file_may_be_named(place: Place) -> None:
    assert place.call("play", "check", "playbooks/review.playbook.yaml").code == 0


def test_a_playbook_without_artifacts_verifies_nothing(place: Place) -> None:
    assert place.call("play", "check", "plain").out == "→ no contract is declared: nothing will be verified\n"


def test_the_list_has_each_playbook_and_says_which_are_wrong(place: Place) -> None:
    listed = place.call("play", "list", "--json").objects()
    assert [(each["name"], each["agent"], bool(each["problems"])) for each in listed] == [
        ("plain", None, False),
        ("review", "reviewer", False),
        ("wrong", None, True),
    ]
    assert listed[1]["command"] == ["python3", "review.py"]
    rows = place.call("play", "list").out.splitlines()
    assert rows[2].split("  ")[0] == "review"
    assert rows[2].endswith("ok")
    assert rows[3].endswith("wrong: `runward play check wrong` says why")


def test_without_playbooks_the_list_says_where_it_looked(place: Place) -> None:
    listed = place.call("play", "list", RUNWARD_PLAYBOOKS='["/nowhere"]')
    assert (listed.code, listed.out) == (0, "no playbooks in /nowhere\n")
