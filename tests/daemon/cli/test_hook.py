"""`runward hook install|status|uninstall`: shown first, written whole, undone to the last byte."""

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.screens import Screen
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.hooks import accepting, agents, programs, settings_file
from runward.daemon.hooks.agents import Hooked
from runward.daemon.hooks.events import SINCE
from runward.daemon.hooks.settings_file import Edited, Refused, read_settings_file

FILES = {
    "claude-code": (".claude", "settings.json"),
    "codex": (".codex", "config.toml"),
    "copilot": (".copilot/hooks", "runward.json"),
    "qwen": (".qwen", "settings.json"),
    "droid": (".factory", "settings.json"),
    "kimi": (".kimi-code", "config.toml"),
    "kilo": (".config/kilo/plugin", "runward.js"),
    "opencode": (".config/opencode/plugin", "runward.js"),
    "pi": (".pi/agent/extensions", "runward.js"),
}
WHOLE = ("copilot", "kilo", "opencode", "pi")
"""Those whose hooks are a file of Runward's."""
EDITED = [agent for agent in FILES if agent not in WHOLE]
"""Those whose settings have more in them than Runward's hooks."""
WRITTEN = {
    "claude-code": '{\r\n\t"model": "opus"\r\n}',
    "codex": '# mine\nnotify = [ "say" ] # loud\n[tui]\n',
    "qwen": '// mine\n{\n\t"model": "coder"\n}',
    "droid": '{"model": "opus"}\n',
    "kimi": '# mine\n[[hooks]]\nevent = "Stop"\ncommand = "say done"',
}


def path_of(place: Place, agent: str) -> Path:
    directory, name = FILES[agent]
    return place.directory / directory / name


def everything(place: Place) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in place.directory.rglob("*")}


@pytest.mark.parametrize("agent", FILES)
def test_into_nothing_and_out_again_leaves_nothing(place: Place, agent: str) -> None:
    before = everything(place)
    done = place.call("hook", "install", agent)
    assert (done.code, done.err) == (0, "")
    assert "+++ " in done.out
    assert f"the hook is installed in {path_of(place, agent)}" in done.out
    path = path_of(place, agent)
    assert path.stat().st_mode & 0o777 == 0o600
    assert str(place.state) in path.read_text()
    assert place.call("hook", "uninstall", agent).code == 0
    assert everything(place) == before


@pytest.mark.parametrize(
    ("agent", "sessions"),
    [
        ("claude-code", ".claude/projects"),
        ("codex", ".codex"),
        ("copilot", ".copilot/session-state"),
        ("qwen", ".qwen/projects"),
        ("droid", ".factory/sessions"),
        ("kimi", ".kimi-code/sessions"),
        ("kilo", ".local/share/kilo"),
        ("opencode", ".local/share/opencode"),
        ("pi", ".pi/agent/sessions"),
    ],
)
def test_who_watches_no_sessions_of_the_agent_is_told_which_root_to_add(
    place: Place, agent: str, sessions: str
) -> None:
    root = f'[[roots]]\npath = "{place.directory}/{sessions}"\nlayout = "{agent}"\n'
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write(f'[[roots]]\npath = "{place.runs}"\n')
    assert place.call("hook", "install", agent, "--dry-run").out.endswith(root)
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write(root)
    assert "[[roots]]" not in place.call("hook", "install", agent).out


# The sessions of opencode and Kilo are elsewhere than their settings, in a directory that only they make.
@pytest.mark.parametrize("agent", [agent for agent in FILES if agent not in ("kilo", "opencode")])
def test_who_names_no_roots_is_told_that_the_agents_own_one_is_there_from_now_on(
    place: Place, agent: str
) -> None:
    assert "from the daemon's next start" in place.call("hook", "install", agent).out
    assert "from the daemon's next start" not in place.call("hook", "install", agent).out
    roots = place.call("root", "list", "--json").objects()
    assert [each["layout"] for each in roots] == ["native", agent]


NO_PROGRAMS = "/nowhere"
"""A PATH on which no agent is."""


def test_without_a_name_it_is_for_the_agents_that_are_here(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.environment["PATH"] = NO_PROGRAMS
    nobody = place.call("hook", "install", "--yes")
    assert (nobody.code, "there is no agent here" in nobody.err) == (1, True)
    (place.directory / ".codex").mkdir()
    (place.directory / ".copilot").mkdir()
    before = everything(place)
    unasked = place.call("hook", "install")
    assert (unasked.code, "name agents (codex, copilot), or add --yes" in unasked.err) == (2, True)
    shown = place.call("hook", "install", "--dry-run")
    assert (shown.code, shown.out.count("+++ ")) == (0, 3)
    assert everything(place) == before
    assert place.call("hook", "install", "--yes").code == 0
    assert path_of(place, "codex").exists()
    assert path_of(place, "copilot").exists()
    assert not path_of(place, "qwen").exists()


def test_each_agent_that_is_here_is_asked_about(place: Place) -> None:
    place.environment["PATH"] = NO_PROGRAMS
    for agent in ("codex", "qwen"):
        path_of(place, agent).parent.mkdir()
    screen = Screen(place, 40, 100, "hook", "install")
    screen.until("Codex (not installed): install the hook? [Y/n]")
    screen.press(b"n\n")
    screen.until("Qwen Code (not installed): install the hook? [Y/n]")
    screen.press(b"y\n")
    assert screen.end() == 0
    assert not path_of(place, "codex").exists()
    assert path_of(place, "qwen").exists()


def test_an_agent_is_here_before_it_ran_for_the_first_time(place: Place) -> None:
    programs = place.directory / "programs"
    programs.mkdir()
    (programs / "qwen").write_text("#!/bin/sh\necho 9.9.9\n")
    (programs / "qwen").chmod(0o755)
    place.environment["PATH"] = f"{programs}:/usr/bin:/bin"
    assert "qwen" in statuses(place)
    done = place.call("hook", "install", "--yes")
    assert (done.code, done.err) == (0, "")
    assert path_of(place, "qwen").exists()


def test_of_several_agents_one_that_fails_stops_no_other(place: Place) -> None:
    path = path_of(place, "claude-code")
    path.parent.mkdir()
    path.write_text("[]")
    done = place.call("hook", "install", "claude-code", "qwen", "droid", "qwen")
    assert (done.code, done.out.count("done: ")) == (2, 2)
    assert f"{path} was left as it is" in done.err
    path.unlink()
    removed = place.call("hook", "uninstall", "claude-code", "qwen", "droid")
    assert (removed.code, removed.out.count("done: ")) == (0, 2)
    assert not path_of(place, "qwen").exists()


def statuses(place: Place, *agents: str, **variables: str) -> dict[str, dict[str, Any]]:
    shown = place.call("hook", "status", *agents, "--json", **variables)
    assert (shown.code, shown.err) == (0, "")
    return {str(each["agent"]): each for each in shown.objects()}


@pytest.mark.parametrize("agent", FILES)
def test_status_says_whether_the_hook_is_the_one_that_this_runward_writes(place: Place, agent: str) -> None:
    path = path_of(place, agent)
    before = statuses(place, agent)[agent]
    assert (before["state"], before["events"], before["paths"][0]) == ("not installed", [], str(path))
    place.call("hook", "install", agent)
    after = statuses(place)[agent]
    assert (after["state"], after["events"], after["missing"]) == ("installed", before["missing"], [])
    path.write_text(path.read_text().replace("/runward_hook.py", "/of/an/older/runward_hook.py"))
    older = statuses(place)[agent]
    assert (older["state"], older["events"]) == ("outdated", after["events"])
    assert f"runward hook install {agent}" in place.call("hook", "status").out
    place.call("hook", "install", agent)
    assert statuses(place)[agent] == after


def test_status_is_of_the_agents_that_are_here_and_says_what_is_wrong_with_a_file(place: Place) -> None:
    place.environment["PATH"] = NO_PROGRAMS
    assert place.call("hook", "status").out.startswith("there is no agent here")
    path_of(place, "codex").parent.mkdir()
    path_of(place, "qwen").parent.mkdir()
    path_of(place, "qwen").write_text("[]")
    shown = statuses(place)
    assert {agent: each["state"] for agent, each in shown.items()} == {
        "codex": "not installed",
        "qwen": "unreadable",
    }
    assert shown["qwen"]["problem"] == "does not contain an object"
    assert "does not contain an object" in place.call("hook", "status", "qwen", "codex").out


def test_status_names_the_events_that_the_installed_version_knows_besides(place: Place) -> None:
    place.call("hook", "install", "claude-code", **claude(place, "2.1.77", "StopFailure"))
    now = claude(place, "2.1.78", "nothing")
    shown = statuses(place, "claude-code", **now)["claude-code"]
    assert (shown["state"], shown["missing"]) == ("outdated", ["StopFailure"])
    assert "(without StopFailure)" in place.call("hook", "status", **now).out


def test_without_a_name_the_hook_is_removed_wherever_it_is(place: Place) -> None:
    before = everything(place)
    assert "no agent here has the hook" in place.call("hook", "uninstall").out
    (place.directory / ".qwen").mkdir()
    place.call("hook", "install", "codex", "copilot")
    unasked = place.call("hook", "uninstall")
    assert (unasked.code, "name agents (codex, copilot), or add --yes" in unasked.err) == (2, True)
    shown = place.call("hook", "uninstall", "--dry-run")
    assert (shown.code, shown.out.count("+++ ")) == (0, 3)
    screen = Screen(place, 40, 100, "hook", "uninstall")
    screen.until("Codex (installed): remove the hook? [Y/n]")
    screen.press(b"n\n")
    screen.until("GitHub Copilot (installed): remove the hook? [Y/n]")
    screen.press(b"\n")
    assert screen.end() == 0
    assert path_of(place, "codex").exists()
    assert not path_of(place, "copilot").exists()
    assert place.call("hook", "uninstall", "--yes").code == 0
    (place.directory / ".qwen").rmdir()
    assert everything(place) == before


@pytest.mark.parametrize("agent", EDITED)
def test_a_file_keeps_its_mode_and_its_bytes(place: Place, agent: str) -> None:
    path = path_of(place, agent)
    path.parent.mkdir(parents=True)
    path.write_bytes(WRITTEN[agent].encode())
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 12345, 12346)
    assert place.call("hook", "install", agent).code == 0
    installed = path.read_bytes()
    assert installed != WRITTEN[agent].encode()
    again = place.call("hook", "install", agent)
    assert (again.code, again.out.startswith("nothing to change: ")) == (0, True)
    assert path.read_bytes() == installed
    assert place.call("hook", "uninstall", agent).code == 0
    assert path.read_bytes() == WRITTEN[agent].encode()
    assert path.stat().st_mode & 0o777 == 0o640
    if os.getuid() == 0:
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("agent", FILES)
def test_a_dry_run_shows_the_change_and_makes_none(place: Place, agent: str) -> None:
    before = everything(place)
    shown = place.call("hook", "install", agent, "--dry-run")
    assert shown.code == 0
    assert "runward_hook.py" in shown.out
    assert "nothing was changed" in shown.out
    assert everything(place) == before
    place.call("hook", "install", agent)
    before = everything(place)
    shown = place.call("hook", "uninstall", agent, "--dry-run")
    assert (shown.code, "/dev/null" in shown.out) == (0, True)
    assert everything(place) == before


def test_a_link_stays_one_and_its_target_is_edited(place: Place) -> None:
    path = path_of(place, "claude-code")
    path.parent.mkdir()
    target = place.directory / "dotfiles.json"
    target.write_text("{}")
    path.symlink_to("../dotfiles.json")
    assert place.call("hook", "install", "claude-code").code == 0
    assert path.is_symlink()
    assert "hooks" in json.loads(target.read_text())
    assert place.call("hook", "uninstall", "claude-code").code == 0
    assert target.read_text() == "{}"


def test_the_agents_own_variables_say_where_its_settings_lie(place: Place) -> None:
    place.call("hook", "install", "claude-code", CLAUDE_CONFIG_DIR=str(place.directory / "c"))
    place.call("hook", "install", "codex", CODEX_HOME="d")
    assert (place.directory / "c/settings.json").exists()
    assert (place.directory / "d/config.toml").exists()
    place.call("hook", "install", "pi", PI_CODING_AGENT_DIR="h")
    assert (place.directory / "h/extensions/runward.js").exists()
    assert place.call("hook", "uninstall", "pi", PI_CODING_AGENT_DIR="h").code == 0
    assert not (place.directory / "h").exists()
    place.call("hook", "install", "opencode", XDG_CONFIG_HOME=str(place.directory / "i"))
    assert (place.directory / "i/opencode/plugin/runward.js").exists()
    place.call("hook", "install", "kimi", KIMI_CODE_HOME="g")
    assert (place.directory / "g/config.toml").exists()
    place.call("hook", "install", "copilot", COPILOT_HOME="e")
    assert (place.directory / "e/hooks/runward.json").exists()
    place.call("hook", "install", "qwen", QWEN_HOME="f", QWEN_RUNTIME_DIR="sessions")
    assert (place.directory / "f/settings.json").exists()
    assert not (place.directory / "sessions").exists()
    place.call("hook", "install", "droid", FACTORY_HOME_OVERRIDE="h")
    assert (place.directory / "h/.factory/settings.json").exists()


def test_of_copilots_hooks_only_runwards_own_file_is_touched(place: Place) -> None:
    path = path_of(place, "copilot")
    path.parent.mkdir(parents=True)
    theirs = path.parent / "theirs.json"
    theirs.write_text('{"version": 1, "hooks": {}}')
    assert place.call("hook", "install", "copilot").code == 0
    assert place.call("hook", "uninstall", "copilot").code == 0
    assert [each.name for each in path.parent.iterdir()] == ["theirs.json"]
    assert place.call("hook", "install", "copilot").code == 0
    document = json.loads(path.read_text())
    document["hooks"]["preToolUse"] = [{"type": "command", "bash": "true"}]
    path.write_text(json.dumps(document))
    for verb in ("install", "uninstall"):
        refused = place.call("hook", verb, "copilot")
        assert (refused.code, "has something else than Runward's hooks" in refused.err) == (2, True)
    assert json.loads(path.read_text()) == document


@pytest.mark.parametrize(
    ("agent", "content", "said"),
    [
        ("claude-code", b'{"hooks": 1}', ":1:11: hooks is not an object (see "),
        ("claude-code", b'{\n"\xff', ":2: is not UTF-8 (save it as UTF-8)"),
        ("codex", b"notify = 'x'", ":1:10: notify is not a list of texts (make it "),
        ("codex", b"a b", ":1:3: is not TOML"),
        ("copilot", b"{}", ": has something else than Runward's hooks (move it "),
        ("copilot", b"[" * 100_000, ": has something else than Runward's hooks (move it "),
        ("pi", b"const command = [1];", ": has something else than Runward's hooks (move it "),
        ("qwen", b'{"hooks": {"Stop": 1}}', ":1:20: hooks.Stop is not a list (see Qwen Code's "),
    ],
)
def test_a_broken_file_is_left_alone(place: Place, agent: str, content: bytes, said: str) -> None:
    path = path_of(place, agent)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    for verb in ("install", "uninstall"):
        refused = place.call("hook", verb, agent)
        assert refused.code == 2
        assert f"{path}{said}" in refused.err
        assert "was left as it is" in refused.err
    assert path.read_bytes() == content


def test_a_file_that_is_too_large_or_a_directory_is_left_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(place, "codex")
    path.mkdir(parents=True)
    assert place.call("hook", "install", "codex").code == 2
    path.rmdir()
    path.write_text("# " + "x" * 100)
    monkeypatch.setattr(settings_file, "MAXIMUM_FILE", 100)
    assert place.call("hook", "install", "codex").code == 2


@pytest.mark.parametrize("was", ["there", "absent"])
def test_what_somebody_else_wrote_meanwhile_is_not_lost(tmp_path: Path, was: str) -> None:
    path = tmp_path / "settings.json"
    if was == "there":
        path.write_text("{}")
    file = read_settings_file(str(path))
    path.write_text('{"a": 1}')
    for text in ("ours", None):
        with pytest.raises(Refused, match="was changed meanwhile"):
            file.replace(text)
    assert path.read_text() == '{"a": 1}'
    assert [each.name for each in tmp_path.iterdir()] == ["settings.json"]


def test_a_disk_that_refuses_leaves_the_old_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    path = path_of(place, "claude-code")
    path.parent.mkdir()
    path.write_text("{}")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        refused = place.call("hook", "install", "claude-code")
    assert refused.code == 75
    assert "No space left" in refused.err
    assert path.read_text() == "{}"
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]


def _spoiled(agent: str, monkeypatch: pytest.MonkeyPatch, edit: Callable[[Hooked], Hooked]) -> None:
    monkeypatch.setitem(agents.AGENTS, agent, tuple(map(edit, agents.AGENTS[agent])))


@pytest.mark.parametrize("agent", FILES)
def test_an_edit_after_which_the_hook_is_not_there_is_noticed_and_put_back(
    place: Place, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if agent in WRITTEN:
        path_of(place, agent).parent.mkdir(parents=True)
        path_of(place, agent).write_text(WRITTEN[agent], newline="")
    before = everything(place)

    def edit(hooked: Hooked) -> Hooked:
        def install(*words: Any) -> Edited:
            text = hooked.install(*words).text
            return Edited(text and text.replace("runward_hook.py", "other.py"))

        return hooked._replace(install=install)

    _spoiled(agent, monkeypatch, edit)
    done = place.call("hook", "install", agent)
    assert (done.code, "was put back as it was: read back, it has " in done.err) == (1, True)
    assert everything(place) == before


@pytest.mark.parametrize("agent", EDITED)
def test_an_edit_that_loses_what_was_there_besides_is_noticed_and_put_back(
    place: Place, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_of(place, agent).parent.mkdir(parents=True)
    path_of(place, agent).write_text(WRITTEN[agent], newline="")
    said = "lost or changed something besides Runward's hooks"

    with monkeypatch.context() as patched:
        _spoiled(
            agent,
            patched,
            lambda hooked: hooked._replace(install=lambda text, *words: hooked.install(None, *words)),
        )
        before = everything(place)
        done = place.call("hook", "install", agent)
        assert (done.code, said in done.err) == (1, True)
        assert everything(place) == before
    place.call("hook", "install", agent)
    before = everything(place)
    _spoiled(agent, monkeypatch, lambda hooked: hooked._replace(uninstall=lambda text, name: Edited(None)))
    done = place.call("hook", "uninstall", agent)
    assert (done.code, said in done.err) == (1, True)
    assert path_of(place, agent).read_bytes() == before[str(path_of(place, agent))]


def test_what_was_installed_runs_as_the_agents_run_it(place: Place) -> None:
    place.state.mkdir()
    for agent in FILES:
        assert place.call("hook", "install", agent).code == 0
    documents = {agent: path_of(place, agent).read_text() for agent in FILES}
    forms = {each: json.loads(documents[each])["hooks"]["Stop"] for each in ("claude-code", "droid", "qwen")}
    commands = [form[0]["hooks"][0]["command"] for form in forms.values()]
    commands.append(json.loads(documents["copilot"])["hooks"]["agentStop"][0]["bash"])
    commands.append(tomllib.loads(documents["kimi"])["hooks"][0]["command"])
    codex = json.loads((place.directory / ".codex/hooks.json").read_text())["hooks"]
    commands.append(codex["SessionEnd"][0]["hooks"][0]["command"])
    payload = '{"hook_event_name": "Stop"}'
    for command in commands:
        subprocess.run(["sh", "-c", command], input=payload.encode(), check=True, timeout=PATIENCE_S, env={})
    line = documents["codex"].removeprefix("notify = ")
    subprocess.run([*json.loads(line), payload], check=True, timeout=PATIENCE_S, env={})
    for agent in ("kilo", "opencode", "pi"):
        words = re.findall(r"const command = (.*);", documents[agent])[0]
        subprocess.run(json.loads(words), input=payload.encode(), check=True, timeout=PATIENCE_S, env={})
    hooks = [json.loads(path.read_text())["hook"] for path in (place.state / "inbox").iterdir()]
    assert sorted(hooks) == sorted([*FILES, "codex"])
    assert shlex.split(commands[0])[0] == os.path.abspath(sys.executable)


def test_the_hooks_can_be_called_by_their_names(place: Place) -> None:
    place.state.mkdir()
    payload = b'{"hook_event_name": "Stop"}'
    words = ["--state", str(place.state)]
    for agent, more in (("claude-code", words), ("codex", [*words, "--", "echo", payload.decode()])):
        ended = subprocess.run(
            place.argv("hook", agent, *more),
            input=payload,
            capture_output=True,
            timeout=PATIENCE_S,
            env=place.environment,
            check=False,
        )
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert ended.stdout == (payload + b"\n" if agent == "codex" else b"")
    assert len(list((place.state / "inbox").iterdir())) == 2


_CLAUDE = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "{version} (Claude Code)"; exit; fi
echo "$HOME" >> {notes}
if grep -q '{unknown}' "$CLAUDE_CONFIG_DIR/settings.json"; then sleep 60; fi
sh -c "$({python} -c 'import json, os
hooks = json.load(open(os.environ["CLAUDE_CONFIG_DIR"] + "/settings.json"))["hooks"]
print(next(iter(hooks.values()))[0]["hooks"][0]["command"])')"
sleep 60
"""


def claude(place: Place, version: str, unknown: str) -> dict[str, str]:
    """A Claude Code that drops settings in which a word stands; the variables with which it is found."""
    program = place.directory / "bin/claude"
    program.parent.mkdir(exist_ok=True)
    notes = place.directory / "started"
    program.write_text(_CLAUDE.format(version=version, unknown=unknown, notes=notes, python=sys.executable))
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def events(place: Place) -> list[str]:
    return list(json.loads(path_of(place, "claude-code").read_text())["hooks"])


def test_only_events_are_installed_that_the_installed_version_knows(place: Place) -> None:
    old, new = claude(place, "2.1.77", "StopFailure"), {"PATH": os.environ["PATH"]}
    done = place.call("hook", "install", "claude-code", **old)
    assert (done.code, done.err) == (0, "")
    assert "Claude Code 2.1.77" in done.out
    assert events(place) == ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]
    started = (place.directory / "started").read_text().split()
    assert started
    assert str(place.directory) not in started, "it has a home of its own"
    new = claude(place, "2.1.78", "nothing")
    assert place.call("hook", "install", "claude-code", **new).code == 0
    assert "StopFailure" in events(place)
    old = claude(place, "2.1.77", "StopFailure")
    assert place.call("hook", "install", "claude-code", **old).code == 0
    assert "StopFailure" not in events(place)


def test_without_claude_code_nothing_is_installed_that_an_older_version_drops_the_settings_for(
    place: Place,
) -> None:
    done = place.call("hook", "install", "claude-code", PATH="/usr/bin:/bin")
    assert (done.code, "no program of Claude Code was found" in done.out) == (0, True)
    assert "StopFailure" not in events(place)


@pytest.mark.parametrize("before", [None, b'{\r\n\t"permissions": {"deny": ["Bash"]}\r\n}'])
def test_settings_that_the_installed_version_does_not_accept_are_put_back(
    place: Place, before: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Within it, the program has to start twice: the second time it does call its hook.
    monkeypatch.setattr(accepting, "_ACCEPTS_S", 6.0)
    path = path_of(place, "claude-code")
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    kept = everything(place)
    done = place.call("hook", "install", "claude-code", **claude(place, "9.0.0", "SessionEnd"))
    assert (done.code, "the settings were put back" in done.err) == (1, True)
    assert {name: each for name, each in everything(place).items() if name in kept} == kept
    assert path.exists() == (before is not None)


def test_where_the_installed_version_calls_no_hook_at_all_that_is_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "_ACCEPTS_S", 1.0)
    done = place.call("hook", "install", "claude-code", **claude(place, "9.0.0", "hooks"))
    assert (done.code, "could not be asked whether it accepts the hooks" in done.err) == (0, True)
    assert "StopFailure" in events(place)


COMMANDS = {
    "claude-code": "claude",
    "kilo": "kilo",
    **{agent: agent for agent in ("copilot", "droid", "kimi", "opencode", "pi", "qwen")},
}


def says(place: Place, agent: str, script: str) -> dict[str, str]:
    """An agent's program that does this when it is asked for its version; the variables with which it is found."""
    program = place.directory / "bin" / COMMANDS[agent]
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] || exit 1\n{script}\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("agent", "said", "unknown"),
    [
        ("copilot", "GitHub Copilot CLI 0.0.422.", ()),
        ("droid", "0.57.10", ()),
        ("droid", "0.24.0", ("SessionEnd",)),
        ("kimi", "0.10.0", ()),
        ("opencode", "1.0.78", ()),
        ("pi", "0.35.0", ()),
        ("kilo", "7.0.33", ()),
        ("qwen", "0.15.6", ()),
        ("qwen", "0.12.0", ("SessionStart", "StopFailure", "SessionEnd")),
    ],
)
def test_each_agent_gets_hooks_for_the_events_that_its_installed_version_knows(
    place: Place, agent: str, said: str, unknown: tuple[str, ...]
) -> None:
    now = says(place, agent, f"echo '{said}'")
    done = place.call("hook", "install", agent, **now)
    assert (done.code, done.err) == (0, "")
    assert (f"doesn't know {', '.join(unknown)}" in done.out) == bool(unknown)
    known = [event for event in SINCE[agent] if event not in unknown]
    shown = statuses(place, agent, **now)[agent]
    assert (shown["state"], shown["events"], shown["missing"]) == ("installed", known, [])
    assert place.call("hook", "uninstall", agent, **now).code == 0
    assert not path_of(place, agent).exists()


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("copilot", "0.0.421"),
        ("droid", "0.23.9"),
        ("kimi", "0.9.9"),
        ("kilo", "6.9.9"),
        ("opencode", "1.0.77"),
        ("pi", "0.34.2"),
        ("qwen", "0.11.9"),
    ],
)
def test_a_version_that_calls_no_hook_gets_none_and_loses_those_of_a_later_one(
    place: Place, agent: str, said: str
) -> None:
    before = everything(place)
    assert place.call("hook", "install", agent).code == 0
    old = says(place, agent, f"echo '{said}'")
    assert statuses(place, agent, **old)[agent]["state"] == "outdated"
    for _ in range(2):
        done = place.call("hook", "install", agent, **old)
        assert (done.code, done.err) == (0, "")
        assert f"{said} ({place.directory}/bin/{COMMANDS[agent]}) calls none of the hooks" in done.out
        assert "the hook is installed" not in done.out
    (place.directory / "bin" / COMMANDS[agent]).unlink()
    (place.directory / "bin").rmdir()
    assert everything(place) == before
    old = says(place, agent, f"echo '{said}'")
    assert "which is too old for hooks" in place.call("hook", "status", agent, **old).out


@pytest.mark.parametrize("agent", COMMANDS)
def test_an_agent_of_a_version_that_it_does_not_say_gets_all_hooks_that_it_can_bear(
    place: Place, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = "all events that Runward uses" + (" but StopFailure" if agent == "claude-code" else "")
    printed = place.call("hook", "install", agent, "--dry-run").out
    assert re.search(f"^no program of .+ was found: the hook is for {kept}$", printed, re.MULTILINE)
    unknown = says(place, agent, "echo of today")
    done = place.call("hook", "install", agent, "--dry-run", **unknown)
    assert f"of a version that it doesn't say ({place.directory}/bin/{COMMANDS[agent]})" in done.out
    assert f"was found: the hook is for {kept}\n" in done.out
    monkeypatch.setattr(programs, "_VERSION_S", 0.3)
    held = place.directory / "held"
    hangs = says(place, agent, f"sleep 600 & echo $! > {held}; wait")
    assert place.call("hook", "install", agent, "--dry-run", **hangs).out == done.out
    process = Path(f"/proc/{held.read_text().strip()}/stat")
    wait_for(lambda: not process.exists() or ") Z " in process.read_text(), "the end of what it started")


def test_doctor_finds_hooks_that_the_installed_version_drops_its_settings_for(place: Place) -> None:
    def found(variables: dict[str, str]) -> tuple[str, str]:
        (only,) = place.call("doctor", "--only", "hooks", "--json", **variables).items("checks")
        return str(only["result"]), str(only["found"])

    assert found({})[0] == "ok"
    new = claude(place, "2.1.197", "nothing")
    place.call("hook", "install", "claude-code", **new)
    assert found(new)[0] == "ok"
    result, said = found(claude(place, "2.1.77", "StopFailure"))
    assert (result, "doesn't know StopFailure" in said) == ("failed", True)
    assert found({"PATH": "/usr/bin:/bin"})[0] == "warning"


@pytest.mark.parametrize(
    ("written", "is_skipped"),
    [
        ({}, False),
        ({"Stop": []}, False),
        ({"PreToolUse": [{"hooks": [{"type": "command", "command": "mine"}]}]}, False),
        ({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}, False),
        ({"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}, True),
        ({"Stop": [{"hooks": [{"type": "command", "command": "mine"}, {"command": "OURS"}]}]}, False),
        ({"Stop": "mine"}, True),
    ],
)
def test_it_is_said_if_droid_calls_the_persons_hooks_of_another_file_instead(
    place: Place, written: dict[str, Any], is_skipped: bool
) -> None:
    assert place.call("hook", "install", "droid").code == 0
    (hook,) = json.loads(path_of(place, "droid").read_text())["hooks"]["Stop"][0]["hooks"]
    file = path_of(place, "droid").with_name("hooks.json")
    file.write_text(json.dumps(written).replace('"OURS"', json.dumps(hook["command"])))
    shown = statuses(place, "droid")["droid"]
    assert shown["state"] == ("untrusted" if is_skipped else "installed")
    said = "Droid skips hooks in" in place.call("hook", "install", "droid").out
    assert said == is_skipped
    assert ("add the command there, too" in place.call("hook", "status", "droid").out) == is_skipped


_CODEX = """\
#!{python}
import hashlib, json, os, sys
if sys.argv[1] == "--version":
    print("codex-cli {version}")
    sys.exit()
file = os.path.realpath(os.environ["CODEX_HOME"] + "/hooks.json")
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] != "hooks/list":
        continue
    hooks = []
    for event, groups in json.load(open(file))["hooks"].items():
        for group, each in enumerate(groups):
            for number, hook in enumerate(each["hooks"]):
                key = f"{{file}}:{{event.lower()}}:{{group}}:{{number}}"
                told = dict(key=key, eventName=event[0].lower() + event[1:], command=hook["command"])
                told["currentHash"] = hashlib.sha256(hook["command"].encode()).hexdigest()
                hooks.append(told)
    known = [each for each in hooks if each["eventName"] in {known}]
    answer = dict(data=[dict(hooks=known)])
    print(json.dumps(dict(method="said/between")), flush=True)
    print(json.dumps({answer}), flush=True)
sys.stdin.read()
"""


def codex(place: Place, known: tuple[str, ...], answer: str = "dict(id=2, result=answer)") -> dict[str, str]:
    """A Codex that knows hooks for these events, or gives another answer; the variables with which it is found."""
    program = place.directory / "bin/codex"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_CODEX.format(python=sys.executable, version="0.169.0", known=known, answer=answer))
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_codexs_hooks_are_for_events_that_it_knows_and_wait_for_trust(place: Place) -> None:
    now = codex(place, ("sessionStart", "sessionEnd"))
    before = everything(place)
    done = place.call("hook", "install", "codex", **now)
    file, config = path_of(place, "codex").with_name("hooks.json"), path_of(place, "codex")
    assert (done.code, done.err) == (0, "")
    assert f"Codex skips hooks in {file}: start codex and trust the hooks" in done.out
    written = json.loads(file.read_text())["hooks"]
    assert list(written) == ["SessionStart", "SessionEnd"]
    shown = statuses(place, **now)["codex"]
    assert (shown["state"], shown["events"]) == ("untrusted", ["notify", "SessionStart", "SessionEnd"])
    assert "start codex and trust the hooks" in place.call("hook", "status", **now).out
    command = written["SessionEnd"][0]["hooks"][0]["command"]
    trusted = f'trusted_hash = "{hashlib.sha256(command.encode()).hexdigest()}"\n'
    one, other = (f'[hooks.state."{file}:{event}:0:0"]\n' for event in ("sessionstart", "sessionend"))
    ours = config.read_text()
    for state, then in (
        ("untrusted", one + trusted),
        ("untrusted", f"{one}{trusted}{other}{trusted}enabled = false\n"),
        ("untrusted", f"{one}{trusted}{other}{trusted.replace('trusted', 'other')}"),
        ("installed", f"{one}{trusted}{other}{trusted}"),
    ):
        config.write_text(ours + then)
        assert statuses(place, **now)["codex"]["state"] == state, then
    again = place.call("hook", "install", "codex", **now)
    assert (again.code, "trust" in again.out, again.out.count("nothing to change")) == (0, False, 2)
    later = statuses(place, **codex(place, ("sessionStart", "userPromptSubmit", "sessionEnd")))["codex"]
    assert (later["state"], later["missing"]) == ("outdated", ["UserPromptSubmit"])
    config.write_text(ours)
    assert place.call("hook", "uninstall", "codex", **now).code == 0
    codex(place, ("sessionStart", "sessionEnd"))
    assert everything(place) == before


@pytest.mark.parametrize("answer", ["dict(error={'message': 'unknown variant'})", "dict(id=2, result=[])"])
def test_a_codex_without_hooks_is_notified_only(place: Place, answer: str) -> None:
    old = codex(place, (), answer)
    done = place.call("hook", "install", "codex", **old)
    assert (done.code, "trust" in done.out) == (0, False)
    assert not path_of(place, "codex").with_name("hooks.json").exists()
    shown = statuses(place, **old)["codex"]
    assert (shown["state"], shown["events"], shown["missing"]) == ("installed", ["notify"], [])
