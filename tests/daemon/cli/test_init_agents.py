"""`runward init` with every agent that has hooks: they come beside those of its person, and go without a trace."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Result
from tests.daemon.cli.initiated import EVERY_AGENT, Home
from tests.unprivileged import USER, as_unprivileged

from runward.daemon.cli.init import waiting
from runward.daemon.hooks import settings_file
from runward.daemon.hooks.agents import AGENTS, Hooked, files_of
from runward.daemon.hooks.standing import INSTALLED, standing_of


@pytest.fixture(autouse=True)
def _no_daemon_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The systemctl here starts none, so nothing is to be waited for."""
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.write(EVERY_AGENT)
    return made


def _hooked(home: str) -> dict[str, Hooked]:
    """The files that get hooks, by their paths below this home."""
    return {
        os.path.relpath(path, home): hooked
        for agent in AGENTS
        for path, hooked in files_of(agent, {"HOME": home}).items()
    }


HOOKED = sorted(_hooked("/h"))
STEPS = {"claude-code", "codex", "codex-hooks", "copilot", "droid", "kilo", "kimi", "opencode", "pi", "qwen"}


def _content(home: Home, file: str) -> str:
    return (home.directory / file).read_bytes().decode()


def _change(home: Home, file: str) -> bytes:
    path = home.directory / file
    left = path.read_bytes()
    path.write_bytes(left + b"\n")
    return left


def test_every_agent_gets_its_hooks_and_its_person_keeps_theirs(home: Home) -> None:
    before = home.everything()
    done = home.init("--yes", "--json")
    assert (done.code, done.err) == (0, "")
    assert {each["name"] for each in done.items("steps") if each["state"] == "done"} >= STEPS
    environment = home.place.environment
    for agent in AGENTS:
        standing = standing_of(agent, environment, str(home.state))
        assert (standing.state, standing.missing) == (INSTALLED, ()), standing
    after, hooked = home.everything(), _hooked(str(home.directory))
    for file, content in EVERY_AGENT.items():
        if file in hooked:
            theirs, name = hooked[file].others, f"{home.directory}/{file}"
            assert theirs(_content(home, file), name) == theirs(content, name)
            assert after[file][0] == before[file][0]
            assert "say" in _content(home, file)
        else:
            assert after[file] == before[file]
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_the_plan_names_every_file_and_the_end_what_became_of_it(home: Home) -> None:
    planned, done = home.init("--dry-run"), home.init("--yes")
    undone = home.init("--undo")
    for file in HOOKED:
        assert f"~/{file}" in planned.out
        assert f"change    ~/{file}" in done.out
        way = "restored" if file in EVERY_AGENT else "removed"
        assert f"{way:<10}~/{file}" in undone.out


@pytest.mark.parametrize("file", HOOKED)
def test_a_file_that_somebody_changed_is_named_and_left_and_the_others_are_restored(
    home: Home, file: str
) -> None:
    before = home.everything()
    assert home.init("--yes").code == 0
    left = _change(home, file)
    changed = home.everything()[file]
    if file in EVERY_AGENT:
        assert "Nothing to do" in home.init("--yes").out
    undone = home.init("--undo")
    assert undone.code == 1
    assert f"changed   ~/{file}: it was changed since" in undone.out
    after = home.everything()
    assert after[file] == changed
    assert {each for each in HOOKED if after.get(each) != before.get(each)} == {file}
    (home.directory / file).write_bytes(left)
    assert home.init("--undo").code == 0
    assert home.everything() == before


@pytest.mark.parametrize(
    "file", [".qwen/settings.json", ".kimi-code/config.toml", ".copilot/hooks/runward.json"]
)
def test_what_somebody_changed_between_two_calls_is_restored_and_what_is_left_there_is_named(
    home: Home, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    before = home.everything()
    assert home.init("--yes").code == 0
    _change(home, file)
    changed = home.everything()[file]
    # Another version of Runward, in another place: its hooks are written anew.
    monkeypatch.setattr(settings_file, "SCRIPT", "/elsewhere/runward_hook.py")
    assert home.init("--yes").code == 0
    assert "/elsewhere/" in _content(home, file)
    for words in ("only the last change was taken back", "it was changed since, and stays as it is"):
        undone = home.init("--undo")
        assert undone.code == 1
        assert f"changed   ~/{file}: {words}" in undone.out
        after = home.everything()
        assert after[file] == changed
        assert {each for each in HOOKED if after.get(each) != before.get(each)} == {file}


@pytest.mark.parametrize("file", HOOKED)
def test_a_file_that_somebody_removed_stays_away(home: Home, file: str) -> None:
    assert home.init("--yes").code == 0
    (home.directory / file).unlink()
    undone = home.init("--undo")
    is_new = file not in EVERY_AGENT
    assert undone.code == (0 if is_new else 1)
    assert f"{'as before' if is_new else 'changed'} " in undone.out
    assert not (home.directory / file).exists()


@pytest.mark.parametrize("file", [each for each in HOOKED if each not in EVERY_AGENT])
def test_a_file_of_somebody_elses_with_the_name_of_ours_is_left(home: Home, file: str) -> None:
    home.write({file: "{}"})
    before = home.everything()
    done = home.init("--yes")
    assert done.code == 1
    assert "has something else than Runward's hooks" in " ".join(done.out.split())
    assert home.everything()[file] == before[file]
    assert home.init("--undo").code == 0
    assert home.everything() == before


def _link(path: Path, target: Path) -> None:
    """Move what is there elsewhere, as people do who keep their settings in a repository, and leave a link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))


@pytest.mark.parametrize("levels", [0, 1], ids=["files", "directories"])
def test_links_stay_and_what_they_lead_to_is_changed_and_restored(home: Home, levels: int) -> None:
    for place in {(home.directory / each, *(home.directory / each).parents)[levels] for each in HOOKED}:
        _link(place, home.directory / "dotfiles" / place.relative_to(home.directory))
    before = home.everything()
    links = {name for name in before if (home.directory / name).is_symlink()}
    assert len(links) >= len(AGENTS)
    done = home.init("--yes")
    assert (done.code, done.err) == (0, ""), done.out
    after = home.everything()
    assert {name: after[name] for name in links} == {name: before[name] for name in links}
    for file in HOOKED:
        assert "runward_hook.py" in _content(home, file)
    assert home.init("--undo").code == 0
    assert home.everything() == before


def test_a_link_that_leads_nowhere_fails_its_step_alone(home: Home) -> None:
    settings = home.directory / ".claude/settings.json"
    settings.unlink()
    settings.symlink_to("settings.json")
    before = home.everything()
    done = home.init("--yes", "--json")
    states = {each["name"]: each["state"] for each in done.items("steps")}
    assert (done.code, states.pop("claude-code")) == (1, "failed")
    assert {*states.values()} == {"done"}
    assert home.init("--undo").code == 0
    assert home.everything() == before


@pytest.fixture
def ordinary() -> Iterator[Home]:
    """A home of an ordinary user's; where the tests are not root's, that is theirs."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    made = Home(place)
    made.write(EVERY_AGENT)
    # Where this user may not read our code, all of it has to be imported before: also what only an end needs.
    with tempfile.TemporaryDirectory() as other:
        known = Home(Path(other))
        known.init("--yes")
        known.init("--undo")
    if os.getuid() == 0:
        for path in (place, *place.rglob("*")):
            os.chown(path, USER, USER)
    yield made
    for path in (place, *place.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(place)


def _as_ordinary(home: Home, *arguments: str, **environment: str) -> Result:
    """Call it as the one whose home it is."""

    def call() -> list[str]:
        called = home.init(*arguments, **environment)
        return [str(called.code), called.out, called.err]

    code, out, err = as_unprivileged(call) if os.getuid() == 0 else call()
    return Result(int(code), out, err)


def _chmod(home: Home, mode: int, which: Callable[[Path], bool] = Path.is_dir) -> None:
    for path in sorted((home.directory, *home.directory.rglob("*")), reverse=True):
        if which(path):
            path.chmod(mode)


def test_in_a_home_that_cant_be_written_nothing_is_done_and_the_reason_is_said(ordinary: Home) -> None:
    _chmod(ordinary, 0o555)
    before = ordinary.everything()
    refused = _as_ordinary(ordinary, "--yes")
    assert refused.code == 75
    assert "Permission denied" in refused.err
    assert str(ordinary.directory / ".local") in refused.err
    assert "Traceback" not in refused.err
    assert ordinary.everything() == before
    assert "nothing to undo" in _as_ordinary(ordinary, "--undo").out


def test_where_only_the_state_can_be_written_each_step_says_why_it_failed(ordinary: Home) -> None:
    state = ordinary.tools.with_name("state")
    state.mkdir(mode=0o700)
    if os.getuid() == 0:
        os.chown(state, USER, USER)
    _chmod(ordinary, 0o555)
    before = ordinary.everything()
    told = {"RUNWARD_STATE_DIR": str(state)}
    done = _as_ordinary(ordinary, "--yes", "--json", **told)
    assert done.code == 1
    steps = {str(each["name"]): each for each in done.items("steps")}
    assert steps.keys() > STEPS
    for each in steps.values():
        assert each["state"] == "failed"
        assert str(each["said"]).endswith(": Permission denied")
    assert ordinary.everything() == before
    undone = _as_ordinary(ordinary, "--undo", **told)
    assert undone.code == 0, undone.out
    assert ordinary.everything() == before
    assert list(state.iterdir()) == []


def test_one_agents_home_that_cant_be_written_stops_no_other_and_later_no_undo(ordinary: Home) -> None:
    before = ordinary.everything()
    pi = ordinary.directory / ".pi/agent/extensions"
    pi.chmod(0o555)
    done = _as_ordinary(ordinary, "--yes")
    assert done.code == 1
    assert f"{pi}" in " ".join(done.out.split()).replace("~", str(ordinary.directory))
    assert done.out.count("Permission denied") == 1
    codex = ordinary.directory / ".codex"
    codex.chmod(0o555)
    undone = _as_ordinary(ordinary, "--undo")
    assert undone.code == 1
    assert undone.out.count("Permission denied") == 2, "both files of Codex"
    codex.chmod(0o755)
    pi.chmod(0o755)
    again = _as_ordinary(ordinary, "--undo")
    assert (again.code, again.err) == (0, ""), again.out
    after = ordinary.everything()
    assert {name: each[1] for name, each in after.items()} == {name: each[1] for name, each in before.items()}
