"""`config show`, `root list`, `schema` and `daemon --check`: what is in force, and what is wrong with it."""

import pytest
from tests.daemon.cli.calling import Place

from runward.config.schema import SCHEMAS


def test_the_settings_are_shown_with_their_defaults(place: Place) -> None:
    settings = place.call("config", "show", "--json").object()
    assert settings["state_dir"] == str(place.state)
    assert settings["playbooks"] == [str(place.directory / "playbooks")]
    assert "origin" not in settings


def test_each_setting_says_where_it_was_set(place: Place) -> None:
    shown = place.call("config", "show", "--origin", RUNWARD_BATCH="7")
    lines = {line.split(" = ")[0]: line for line in shown.out.splitlines()}
    assert lines["state_dir"].endswith(f"# {place.directory}/runward.toml:1")
    assert lines["batch"].startswith("batch = 7 ")
    assert lines["batch"].endswith("# environment RUNWARD_BATCH")
    assert lines["watch.step"].endswith("# default")
    assert lines["roots.runs"].endswith("# default")
    origin = place.call("config", "show", "--origin", "--json").object()["origin"]
    assert isinstance(origin, dict)
    assert origin["playbooks"] == f"{place.directory}/runward.toml:2"


def test_without_origin_the_lines_are_bare(place: Place) -> None:
    assert "#" not in place.call("config", "show").out


def test_another_settings_file_may_be_named_anywhere_on_the_line(place: Place) -> None:
    (place.directory / "other.toml").write_text('state_dir = "elsewhere"\n')
    for arguments in (
        ("--config", "other.toml", "config", "show", "--json"),
        ("config", "show", "--config=other.toml", "--json"),
    ):
        assert place.call(*arguments).object()["state_dir"] == str(place.directory / "elsewhere")


def test_roots_are_listed_with_layout_history_and_health(place: Place) -> None:
    (root,) = place.call("root", "list", "--json").objects()
    assert root == {
        "name": "runs",
        "path": str(place.runs),
        "layout": "native",
        "health": "unknown",
        "problem": None,
        "history": "live",
    }
    head, row = place.call("root", "list").out.splitlines()
    assert head.split() == ["ROOT", "LAYOUT", "HISTORY", "HEALTH", "PATH"]
    assert row.split() == ["runs", "native", "live", "unknown", str(place.runs)]


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_is_printed(place: Place, name: str) -> None:
    schema = place.call("schema", name).object()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_an_unknown_schema_is_wrong_usage_and_the_known_ones_are_named(place: Place) -> None:
    told = place.call("schema", "playbok")
    assert told.code == 2
    assert "playbook" in told.err


def test_check_names_every_complaint_and_exits_2_for_a_wrong_playbook_or_agent(place: Place) -> None:
    (place.directory / "agents/odd").mkdir()
    (place.directory / "agents/odd/odd.md").write_text("---\nartifact_defaults: 7\n---\n")
    checked = place.call("daemon", "--check")
    assert checked.code == 2
    assert "wrong.playbook.yaml:3:26: " in checked.err
    assert "odd.md:2:20: " in checked.err


def test_check_exits_0_where_all_is_right_and_78_for_the_settings(place: Place) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    assert place.call("daemon", "--check").code == 0
    (place.directory / "runward.toml").write_text("batch = 'many'\nstate-dir = 'x'\n")
    checked = place.call("daemon", "--check")
    assert checked.code == 78
    assert checked.err.count("runward.toml:") == 2


RULES = """
[[contracts]]
match = { layout = "claude-code", cwd = "app/**" }
playbook = "review"

[[contracts]]
match = { prompt = "*review*" }
playbook = "reviev"
"""


def test_the_rules_are_shown_in_the_order_in_which_they_are_asked(place: Place) -> None:
    with (place.directory / "runward.toml").open("a") as file:
        file.write(RULES)
    rules = place.call("config", "show", "--json").items("contracts")
    assert rules == [
        {"match": {"layout": "claude-code", "cwd": f"{place.directory}/app/**"}, "playbook": "review"},
        {"match": {"prompt": "*review*"}, "playbook": "reviev"},
    ]
    shown = place.call("config", "show", "--origin").out.splitlines()
    (line,) = [line for line in shown if line.startswith("contracts[1]")]
    assert '"playbook": "reviev"' in line
    assert line.endswith(f"# {place.directory}/runward.toml:11")


def test_check_names_a_rule_whose_playbook_does_not_exist_at_its_place(place: Place) -> None:
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    with (place.directory / "runward.toml").open("a") as file:
        file.write(RULES)
    checked = place.call("daemon", "--check")
    assert checked.code == 2
    (line,) = checked.err.splitlines()
    assert line.startswith(
        f"{place.directory}/runward.toml:11:12: contracts[1].playbook: there is no playbook 'reviev'"
    )
    assert "did you mean 'review'?" in line


def test_check_refuses_a_rule_that_is_none_like_every_setting(place: Place) -> None:
    with (place.directory / "runward.toml").open("a") as file:
        file.write('[[contracts]]\nmatch = {}\nplaybook = "review"\n')
    checked = place.call("daemon", "--check")
    assert (checked.code, checked.err.count("contracts[0].match: is empty")) == (78, 1)
