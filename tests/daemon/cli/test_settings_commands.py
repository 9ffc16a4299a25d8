"""`config show`, `root list`, `schema` and `daemon --check`: what is in force, and what is wrong with it."""

import json

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


def test_a_key_of_a_table_inside_a_table_says_where_it_was_set(place: Place) -> None:
    settings = place.directory / "runward.toml"
    settings.write_text(f"{settings.read_text()}[exchange.executor]\nworkers = 3\n")
    line = len(settings.read_text().splitlines())
    shown = place.call("config", "show", "--origin")
    lines = {line.split(" = ")[0]: " ".join(line.split()) for line in shown.out.splitlines()}
    assert lines["exchange.executor.workers"] == f"exchange.executor.workers = 3 # {settings}:{line}"
    assert lines["exchange.executor.memory"] == 'exchange.executor.memory = "256MB" # default'
    origin = place.call("config", "show", "--origin", "--json").object()["origin"]
    assert isinstance(origin, dict)
    assert origin["exchange.executor.workers"] == f"{settings}:{line}"
    assert "exchange.executor" not in origin


def test_drop_ins_win_in_the_order_of_their_names_and_are_named_as_origins(place: Place) -> None:
    drop_ins = place.directory / "runward.toml.d"
    drop_ins.mkdir()
    (drop_ins / "20-later.toml").write_text("batch = 20\n[watch]\nstep = 7\n")
    (drop_ins / "10-first.toml").write_text('batch = 10\nagents = ["mine"]\n')
    (drop_ins / ".30-hidden.toml").write_text("batch = 30\n")
    (drop_ins / "40-other.toml.orig").write_text("batch = 40\n")
    settings = place.call("config", "show", "--origin", "--json").object()
    file = f"{place.directory}/runward.toml"
    assert settings["files"] == [file, f"{file}.d/10-first.toml", f"{file}.d/20-later.toml"]
    assert (settings["batch"], settings["agents"]) == (20, [f"{file}.d/mine"])
    origin = settings["origin"]
    assert isinstance(origin, dict)
    told = {
        key: origin[key]
        for key in ("batch", "agents", "watch.step", "watch.debounce", "state_dir", "roots.runs")
    }
    assert told == {
        "batch": f"{file}.d/20-later.toml:1",
        "agents": f"{file}.d/10-first.toml:2",
        "watch.step": f"{file}.d/20-later.toml:3",
        "watch.debounce": "default",
        "state_dir": f"{file}:1",
        "roots.runs": "default",
    }
    shown = place.call("config", "show", "--origin").out.splitlines()
    assert shown[:3] == [
        f"# read: {each}" for each in (file, f"{file}.d/10-first.toml", f"{file}.d/20-later.toml")
    ]


def test_drop_ins_of_a_named_file_are_its_own(place: Place) -> None:
    (place.directory / "other.toml").write_text("batch = 3\n")
    (place.directory / "other.toml.d").mkdir()
    (place.directory / "other.toml.d/a.toml").write_text("batch = 4\n")
    assert place.call("--config", "other.toml", "config", "show", "--json").object()["batch"] == 4
    assert place.call("config", "show", "--json", RUNWARD_CONFIG="other.toml").object()["batch"] == 4
    assert place.call("config", "show", "--json").object()["batch"] != 4


def test_a_wrong_drop_in_is_told_of_with_its_place(place: Place) -> None:
    (place.directory / "runward.toml.d").mkdir()
    (place.directory / "runward.toml.d/a.toml").write_text("\nbatch = 'many'\n")
    told = place.call("config", "show")
    assert told.code == 78
    assert "runward.toml.d/a.toml:2:" in told.err


def test_drop_ins_that_can_not_be_listed_are_no_drop_ins_that_are_passed_over(place: Place) -> None:
    drop_ins = place.directory / "runward.toml.d"
    drop_ins.symlink_to(drop_ins)
    told = place.call("config", "show")
    assert (told.code, "can't be read" in told.err) == (78, True)


def test_where_there_is_no_settings_file_it_is_said(place: Place) -> None:
    (place.directory / "runward.toml").unlink()
    shown = place.call("config", "show", "--origin").out.splitlines()
    assert shown[0] == "# there is no settings file"
    assert place.call("config", "show", "--origin", "--json").object()["files"] == []


def test_without_origin_the_lines_are_bare(place: Place) -> None:
    assert "#" not in place.call("config", "show").out


def test_another_settings_file_may_be_named_anywhere_on_the_line(place: Place) -> None:
    (place.directory / "other.toml").write_text('state_dir = "elsewhere"\n')
    for arguments in (
        ("--config", "other.toml", "config", "show", "--json"),
        ("config", "show", "--config=other.toml", "--json"),
    ):
        assert place.call(*arguments).object()["state_dir"] == str(place.directory / "elsewhere")


@pytest.mark.parametrize("named", [False, True], ids=["usual", "named"])
def test_without_any_settings_the_agents_own_directories_are_roots_if_they_are_there(
    place: Place, named: bool
) -> None:
    (place.directory / "runward.toml").unlink()
    claude, codex = ("work/claude", "codex") if named else (".claude", ".codex")
    (place.directory / claude).mkdir(parents=True)
    further = {"CLAUDE_CONFIG_DIR": str(place.directory / claude), "CODEX_HOME": codex} if named else {}
    roots = place.call("root", "list", "--json", **further).objects()
    runs = place.directory / ".local/state/runward/runs"
    expected = [("native", str(runs)), ("claude-code", str(place.directory / claude / "projects"))]
    assert [(each["layout"], each["path"]) for each in roots] == expected
    (place.directory / codex).mkdir()
    roots = place.call("root", "list", "--json", **further).objects()
    assert [(each["layout"], each["path"]) for each in roots][2:] == [("codex", str(place.directory / codex))]


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


def test_the_daemon_is_checked_or_run_once_and_not_both(place: Place) -> None:
    refused = place.call("daemon", "--once", "--check")
    assert refused.code == 2
    assert "--check and --once can't be combined" in refused.err
    assert not place.state.exists()


def test_a_person_accepts_the_directory_that_stands_at_a_roots_path(place: Place) -> None:
    place.runs.mkdir(parents=True, exist_ok=True)
    said = place.call("root", "accept", "runs", "--json").object()
    content = json.loads((place.state / "inbox" / f"{said['request']}.json").read_text())
    found = place.runs.stat()
    assert content["type"] == "RootAcceptRequested"
    assert content["payload"]["root"] == "runs"
    assert content["payload"]["identity"] == f"{found.st_dev}:{found.st_ino}"


def test_a_root_that_is_nowhere_is_not_accepted(place: Place) -> None:
    refused = place.call("root", "accept", "others")
    assert refused.code == 2
    assert "there is no root 'others'; the settings have: runs" in refused.err
