"""`runward init`: a plan, one step after the other, and a way back from each of them."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from unittest import mock

import pytest
from tests.daemon.cli.drawn import draw, widest
from tests.daemon.cli.everyday import Everyday
from tests.daemon.cli.initiated import EVERY_AGENT, FOREIGN, Home, killed_after
from tests.daemon.cli.screens import screen
from tests.daemon.session_bus import session_bus

from runward.config.playbook import read_playbook
from runward.config.settings_layers import Source, read_settings
from runward.daemon.cli.init import texts, waiting
from runward.daemon.hooks import agents, settings_file

EMPTY: dict[str, str] = {}
AGENTS = {".claude/projects/a/x.jsonl": "", ".codex/history.jsonl": ""}
HOMES: dict[str, dict[str, str]] = {
    "empty": EMPTY,
    "agents": AGENTS,
    "foreign": FOREIGN,
    "every agent": EVERY_AGENT,
}
GOLDENS = Path(__file__).parents[2] / "golden/screens"
UNIT = ".config/systemd/user/runward.service"
SETTINGS = ".config/runward/runward.toml"
PLAYBOOK = ".config/runward/playbooks/report.playbook.yaml"


@pytest.fixture(autouse=True)
def _no_daemon_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The systemctl here starts none, so nothing is to be waited for."""
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("columns", [40, 80])
def test_a_person_is_asked_and_only_a_yes_changes_anything(home: Home, columns: int) -> None:
    home.write({".codex/history.jsonl": ""})
    home.place.environment["PATH"] = str(home.tools)
    before = home.everything()
    for answer, code in ((b"n\n", 1), (b"\n", 1), (b"y\n", 0)):
        assert home.everything() == before
        with screen(home.place, 24, columns, "init", "--no-service") as shown:
            plan = shown.until("Do it? [y/N]")
            assert "Codex (~/.codex, 0 sessions)" in " ".join(plan.split())
            assert max(len(line) for line in plan.splitlines()) <= columns
            shown.press(answer)
            assert shown.end() == code
    assert b"runward_hook.py" in (home.everything()[".codex/config.toml"][1] or b"")
    assert home.init("--undo").code == 0
    assert home.everything() == before


CLAUDE = """\
#!{python}
import json, os, subprocess, sys
if "--version" in sys.argv:
    print("2.1.330 (Claude Code)")
else:
    hooks = json.load(open(os.environ["CLAUDE_CONFIG_DIR"] + "/settings.json"))["hooks"]
    open(hooks["UserPromptSubmit"][0]["hooks"][0]["command"].split()[1], "w")
"""
"""It calls a hook, as the real one does before it asks for anything."""

CODEX = "#!/bin/sh\necho codex-cli 0.169.0\n"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=lambda size: f"{size[0]}")
@pytest.mark.parametrize("language", ["", "-ascii"], ids=lambda name: name or "utf8")
def test_the_screen_is_as_its_file_has_it(home: Home, language: str, size: tuple[int, int]) -> None:
    home.write(AGENTS)
    for name, text in (
        ("claude", CLAUDE.format(python=sys.executable)),
        ("codex", CODEX),
        ("notify-send", CODEX),
    ):
        (home.tools / name).write_text(text)
        (home.tools / name).chmod(0o755)
    place = Everyday(home.directory)
    place.now = time.time()
    variables = {"PATH": str(home.tools)} | ({"LANG": "C"} if language else {})
    with (
        tempfile.TemporaryDirectory() as directory,
        session_bus(Path(directory) / "bus") as bus,
        mock.patch.object(sys, "argv", [str(home.tools / "runward")]),
    ):
        variables |= bus
        drawn = draw(place, size, "init", keys="y\n", **variables)
    assert drawn.code == 0, drawn.text
    shown = f"$ runward init\n{drawn.text}"
    path = GOLDENS / f"init-{size[0]}{language}.txt"
    if os.environ.get("RUNWARD_GOLDENS") == "rewrite":
        path.write_text(shown)
    assert shown == path.read_text(), (
        f"draw it again with `make goldens`, and read what has changed in {path}"
    )
    assert widest(drawn) <= size[0]
    assert not language or drawn.text.isascii()


@pytest.mark.parametrize("does", ["returns", "fails"])
def test_the_desktop_is_told_only_if_it_answers(home: Home, tmp_path: Path, does: str) -> None:
    (home.tools / "notify-send").write_text(CODEX)
    (home.tools / "notify-send").chmod(0o755)
    with session_bus(tmp_path / "bus", does) as bus:
        home.place.environment |= {"PATH": str(home.tools), **bus}
        found = home.init("--dry-run", "--json").object()["found"]
        shown = " ".join(home.init("--dry-run").out.split())
    assert isinstance(found, dict)
    assert found["notify_send"] == (does == "returns")
    if does == "returns":
        assert "notify-send is there" in shown
    else:
        assert "no notices on a desktop: no notification service answers: there is none" in shown


def test_what_it_tells_programs_only_ever_grows(home: Home) -> None:
    called = home.init("--dry-run", "--json")
    planned = called.object()
    assert planned.keys() >= {"found", "steps", "daemon"}
    found = planned["found"]
    assert isinstance(found, dict)
    assert found.keys() >= {"agents", "systemd", "notify_send", "daemon"}
    for each in called.items("steps"):
        assert each.keys() >= {"name", "verb", "path", "state", "detail"}


def test_it_says_what_the_daemon_has_read_once_that_runs(home: Home) -> None:
    with home.place.daemon():
        done = home.init("--yes")
        assert (done.code, (home.directory / UNIT).exists()) == (0, False)
        assert "a daemon is running, pid " in done.out
        daemon = home.init("--yes", "--json").object()["daemon"]
        assert isinstance(daemon, dict)
        assert daemon["sessions"] == 0


@pytest.mark.parametrize("name", HOMES)
def test_what_is_done_is_undone_to_the_last_byte_and_a_second_time_changes_nothing(
    home: Home, name: str
) -> None:
    home.write(HOMES[name])
    before = home.everything()
    done = home.init("--yes")
    assert (done.code, done.err) == (0, ""), done.out
    after = home.everything()
    made = {SETTINGS, PLAYBOOK, UNIT, ".local/state/runward/init.json"}
    assert made <= after.keys()
    for path in (".claude/settings.json", ".codex/config.toml"):
        assert (path in after) == (name != "empty")
        assert name == "empty" or b"runward_hook.py" in (after[path][1] or b"")
    assert after["systemd: enabled"][0] == after["systemd: active"][0] == 1
    again = home.init("--yes")
    assert (again.code, again.err) == (0, "")
    assert "Nothing to do" in again.out
    assert "unchanged" in again.out
    assert home.everything() == after
    undone = home.init("--undo")
    assert (undone.code, undone.err) == (0, ""), undone.out
    assert home.everything() == before
    assert "nothing to undo" in home.init("--undo").out


def test_a_dry_run_shows_every_change_and_makes_none(home: Home) -> None:
    home.write(FOREIGN)
    before = home.everything()
    shown = home.init("--dry-run")
    assert (shown.code, shown.err) == (0, "")
    for words in ("+notify = ", "runward_hook.py", "+name: report", "+[Service]", "+# retention", "enable "):
        assert words in shown.out
    assert home.everything() == before
    states = {each["state"] for each in home.init("--dry-run", "--json").items("steps")}
    assert states == {"planned"}
    home.init("--yes")
    after = home.everything()
    undoing = home.init("--undo", "--dry-run")
    assert "restored" in undoing.out
    assert home.everything() == after


def test_without_somebody_to_ask_it_does_nothing(home: Home) -> None:
    before = home.everything()
    refused = home.init()
    assert refused.code == 2
    assert "--yes" in refused.err
    assert home.init("--json").code == 2
    assert home.everything() == before


def test_without_systemd_all_but_the_service_is_done_and_the_daemon_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path, has_systemd=False)
    home.write(AGENTS)
    before = home.everything()
    done = home.init("--yes")
    assert done.code == 75
    assert "`runward daemon`" in done.err
    assert {SETTINGS, PLAYBOOK, ".claude/settings.json"} <= home.files().keys()
    assert UNIT not in home.files()
    place = Everyday(home.directory)
    place.now = time.time()
    shown = draw(place, (80, 24)).lines
    assert shown[0].startswith("Runward is not running: start it with `runward daemon`.")
    assert shown[-1] == "Next: runward daemon · runward --help"
    assert home.init("--yes", "--no-service").code == 0
    assert home.init("--undo").code == 0
    assert home.everything() == before
    assert "set it up with `runward init`" in draw(place, (80, 24)).lines[0]


def test_hooks_and_service_can_be_left_out(home: Home) -> None:
    home.write(AGENTS)
    done = home.init("--yes", "--no-hooks", "--no-service")
    assert done.code == 0
    assert "Next: start `runward daemon`, work as usual, then `runward`." in done.out
    files = home.files()
    assert not {UNIT, ".claude/settings.json", ".codex/config.toml"} & files.keys()
    assert PLAYBOOK in files


def test_undo_leaves_what_somebody_changed_and_names_it(home: Home) -> None:
    home.write(AGENTS)
    before = home.everything()
    home.init("--yes")
    theirs = home.directory / ".claude/settings.json"
    left = theirs.read_text()
    changed = left.replace("10", "11")
    theirs.write_text(changed)
    undone = home.init("--undo")
    assert undone.code == 1
    assert "changed   ~/.claude/settings.json: it was changed since" in undone.out
    assert theirs.read_text() == changed
    assert not {SETTINGS, PLAYBOOK, UNIT, ".codex/config.toml"} & home.files().keys()
    theirs.write_text(left)
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_what_a_person_added_to_a_directory_stays(home: Home) -> None:
    home.init("--yes")
    mine = home.directory / ".config/runward/playbooks/mine.playbook.yaml"
    mine.write_text("name: mine\n")
    assert home.init("--undo").code == 0
    assert mine.read_text() == "name: mine\n"
    assert not {SETTINGS, PLAYBOOK, UNIT} & home.files().keys()


def test_undo_goes_back_over_everything_that_several_calls_made(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write(FOREIGN)
    before = home.everything()
    home.init("--yes", "--no-service")
    first = home.files()
    # Another version of Runward, in another place: the agents' hooks are brought up to date.
    monkeypatch.setattr(settings_file, "SCRIPT", "/elsewhere/runward_hook.py")
    assert home.init("--yes").code == 0
    second = home.files()
    changed = {name for name in first if first[name] != second[name] and not name.startswith("systemd")}
    assert changed == {".claude/settings.json", ".codex/config.toml", ".codex/hooks.json"}
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_a_unit_that_was_enabled_before_is_so_afterwards(home: Home) -> None:
    home.init("--yes", "--no-hooks")
    (home.state / "init.json").unlink()
    (home.tools / "active").unlink()
    before = home.everything()
    assert home.init("--yes", "--no-hooks").code == 0
    assert (home.tools / "active").exists()
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_a_unit_that_somebody_wrote_stays(home: Home) -> None:
    home.write({UNIT: "[Service]\nExecStart=/mine\n"})
    before = home.everything()
    assert home.init("--yes").code == 0
    assert home.everything()[UNIT] == before[UNIT]
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_undo_without_systemd_leaves_the_unit_and_says_so(home: Home) -> None:
    before = home.everything()
    home.init("--yes")
    home.systemctl(answers=False)
    undone = home.init("--undo")
    assert undone.code == 1
    assert "systemd doesn't answer" in undone.out
    assert UNIT in home.files()
    home.systemctl()
    assert home.init("--undo").code == 0
    assert home.everything() == before


@pytest.mark.parametrize("refused", ["daemon-reload", "enable", "restart"])
def test_what_systemd_refuses_fails_that_step_alone(home: Home, refused: str) -> None:
    home.write(AGENTS)
    before = home.everything()
    home.systemctl(refused=refused)
    done = home.init("--yes")
    assert done.code == 1
    assert "systemd refused" in done.out
    assert {SETTINGS, PLAYBOOK, ".claude/settings.json"} <= home.files().keys()
    home.systemctl()
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_a_step_that_fails_stops_only_what_needs_it(home: Home) -> None:
    home.write({**AGENTS, ".config/runward": "a file\n", ".codex/config.toml": "notify = 'x'\n"})
    before = home.everything()
    steps = {str(each["name"]): each for each in home.init("--yes", "--json").items("steps")}
    assert {name: each["state"] for name, each in steps.items()} == {
        "settings": "failed",
        "playbook": "failed",
        "claude-code": "done",
        "codex": "failed",
        "codex-hooks": "done",
        "service": "done",
    }
    assert "notify is not a list of texts" in str(steps["codex"]["said"])
    assert home.init("--yes", "--project", str(home.tools), "--deliver", "report.md").code == 1
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_a_file_in_which_the_hooks_are_not_what_they_should_be_is_put_back(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.write({**AGENTS, ".claude/settings.json": '{"model": "opus"}'})
    (hooked,) = agents.AGENTS["claude-code"]
    forgetful = hooked._replace(install=lambda text, *words: hooked.install(None, *words))
    monkeypatch.setitem(agents.AGENTS, "claude-code", (forgetful,))
    steps = {str(each["name"]): each for each in home.init("--yes", "--json").items("steps")}
    assert [steps[name]["state"] for name in ("claude-code", "codex")] == ["failed", "done"]
    assert "lost or changed something besides Runward's hooks" in str(steps["claude-code"]["said"])
    assert home.everything()[".claude/settings.json"][1] == b'{"model": "opus"}'


def test_a_project_is_held_to_its_file_by_a_drop_in(home: Home) -> None:
    before = home.everything()
    project = home.tools / "app [1]"
    project.mkdir()
    arguments = ("--yes", "--project", str(project), "--deliver", "docs/what was done.md")
    assert home.init(*arguments).code == 0
    shown = home.place.call("config", "show").out
    assert f'cwd = "{home.tools}/app [[]1]/**"' in shown.replace("'", '"') or "app [[]1]/**" in shown
    assert home.place.call("daemon", "--check").code == 0
    after = home.everything()
    assert UNIT not in after
    assert "Nothing to do" in home.init(*arguments).out
    assert home.everything() == after
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_a_persons_playbook_serves_a_project_only_if_it_asks_for_the_file(home: Home) -> None:
    project = ("--yes", "--project", str(home.tools), "--deliver", "report.md")
    home.write({PLAYBOOK: "name: report\nartifacts: {expected: [{id: a, path: other.md}]}\n"})
    before = home.everything()
    refused = home.init(*project)
    assert (refused.code, "doesn't ask for report.md" in refused.out) == (1, True)
    home.init("--undo")
    assert home.everything() == before
    home.write({PLAYBOOK: "name: report\nartifacts: {expected: [{id: a, path: ./report.md}]}\n"})
    before = home.everything()
    assert home.init(*project).code == 0
    assert home.place.call("daemon", "--check").code == 0
    assert home.everything()[PLAYBOOK] == before[PLAYBOOK]
    home.init("--undo")
    assert home.everything() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("--project", "."),
        ("--deliver", "report.md"),
        ("--project", ".", "--deliver", "../report.md"),
        ("--project", "missing", "--deliver", "report.md"),
        ("--undo", "--no-hooks"),
    ],
)
def test_wrong_words_are_refused(home: Home, arguments: tuple[str, ...]) -> None:
    assert home.init("--yes", *arguments).code == 2


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"schema": "runward-init-v1", "entries": [{"kind": "x"}]}']
)
def test_a_record_that_is_none_is_named_and_left(home: Home, content: str) -> None:
    home.init("--yes")
    record = home.state / "init.json"
    record.write_text(content)
    before = home.everything()
    undone = home.init("--undo")
    assert (undone.code, "init.json" in undone.err) == (2, True)
    assert home.everything() == before


@pytest.mark.parametrize("has_desktop", [True, False])
def test_the_first_settings_are_right_also_with_every_comment_taken_away(has_desktop: bool) -> None:
    text = texts.settings_text(has_desktop)
    keys = "\n".join(line.removeprefix("# ") for line in text.splitlines() if _is_key(line))
    for each in (text, keys):
        parsed = read_settings([Source("/h/runward.toml", each, "/h")], {}, home="/h", working_directory="/h")
        assert [problem.render() for problem in parsed.problems] == []
        assert parsed.value is not None
        assert bool(parsed.value.notify) == (has_desktop or each is keys)
        assert bool(parsed.value.contracts) == (each is keys)


def _is_key(line: str) -> bool:
    return "=" in line or ("[[" in line and "No [[" not in line)


@pytest.mark.parametrize(
    "file", ["report.md", "./report.md", "a/b c.txt", 'q"uote.md', "ü.md", ".hidden", "1:2"]
)
def test_a_playbook_asks_for_the_file(file: str) -> None:
    name = texts.playbook_name(file)
    parsed = read_playbook(texts.playbook_text(file), f"{name}.playbook.yaml")
    assert [problem.render() for problem in parsed.problems] == []


def _swept(home: Home, name: str, point: int) -> bool:
    """Kill `init` at the point. Undo, and a second `init` with its undo, must end as if nothing had been."""
    home.write(HOMES[name])
    before, copy = home.files(), home.directory.with_name("copy")
    if not killed_after(point, home, "--yes"):
        return False
    shutil.copytree(home.directory, copy, dirs_exist_ok=True)
    systemd = [each for each in ("enabled", "active") if (home.tools / each).exists()]
    assert home.init("--undo").code == 0
    assert home.files() == before
    assert not [path for path in home.state.parent.rglob("*") if path.is_file()]
    shutil.rmtree(home.directory)
    copy.rename(home.directory)
    for each in systemd:
        (home.tools / each).touch()
    assert home.init("--yes").code == 0
    assert "Nothing to do" in home.init("--yes").out
    assert not [each for each in home.everything() if each.endswith(".tmp")]
    assert home.init("--undo").code == 0
    assert home.files() == before
    return True


def _sweep(directory: Path, play: Callable[[Home, str, int], bool], name: str, share: int) -> int:
    """Kill at each point of this share; returns how many there were before it came to its end."""
    for count, point in enumerate(range(1 + share, 1000, SHARES)):
        place = directory / str(point)
        place.mkdir()
        if not play(Home(place), name, point):
            return count
    raise AssertionError("it never came to its end")


def _undo_swept(home: Home, name: str, point: int) -> bool:
    """Kill `--undo` at the point, and undo again."""
    home.write(HOMES[name])
    before = home.files()
    assert home.init("--yes").code == 0
    was_killed = killed_after(point, home, "--undo")
    assert home.init("--undo").code == 0
    # The record is gone before the directories that held it: empty ones may be left there.
    assert home.files() == before
    assert not [path for path in home.state.parent.rglob("*") if path.is_file()]
    return was_killed


@pytest.mark.parametrize("point", [1, 4, 9, 17, 30, 65])
def test_a_kill_at_a_point_leaves_a_way_back(tmp_path: Path, point: int) -> None:
    assert _swept(Home(tmp_path), "every agent", point)


@pytest.mark.parametrize("point", [1, 3, 10, 50])
def test_a_kill_of_the_undoing_is_made_up_for(tmp_path: Path, point: int) -> None:
    assert _undo_swept(Home(tmp_path), "every agent", point)


SWEPT = ("empty", "agents", "every agent")
SHARES = 4
"""Parts of a sweep, because each operation waits for the disk."""
IN_CI = (("empty", 0), ("agents", 1), ("every agent", 2))
"""A share of each home, and not the same one: a file may take just as many operations as there are shares."""

of_every_share = pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param(*each, marks=pytest.mark.prove if each in IN_CI else pytest.mark.sweep)
        for each in product(SWEPT, range(SHARES))
    ],
)


@of_every_share
def test_a_kill_after_every_operation_leaves_a_way_back(tmp_path: Path, name: str, share: int) -> None:
    assert _sweep(tmp_path, _swept, name, share) > 30 // SHARES


@of_every_share
def test_a_kill_after_every_operation_of_the_undoing_is_made_up_for(
    tmp_path: Path, name: str, share: int
) -> None:
    assert _sweep(tmp_path, _undo_swept, name, share) > 10 // SHARES
