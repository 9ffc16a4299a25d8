"""Whatever is wrong with what the operator wrote, every command that speaks of it says the same."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import wait_for

from runward.config.bundle import Bundle, BundleRules
from runward.config.json_value import JsonValue
from runward.config.problem import Parsed
from runward.config.settings import Settings
from runward.daemon.configuration import extras
from runward.daemon.configuration.complaints import complaints_about

WRONG = """
[[contracts]]
match = { layout = "codex" }
playbook = "reviev"

[webhooks.github]
secret_file = "open-to-all"

[http]
listen = "unix:s"

[[notify]]
on = ["approval.asked"]
slack_file = "nowhere"
"""


@pytest.fixture
def wrong(place: Place) -> Place:
    """A place where each kind of file is wrong in some way, and the settings name what is missing."""
    with (place.directory / "runward.toml").open("a") as file:
        file.write(WRONG)
    (place.directory / "open-to-all").write_text("secret")
    (place.directory / "open-to-all").chmod(0o644)
    (place.directory / "agents/odd.md").write_text("---\nartifact_defaults: 7\n---\n")
    (place.directory / "playbooks/lonely.playbook.yaml").write_text("agent: nobody\n")
    (place.directory / "chains").mkdir()
    steps = "{action: merge}, {skill: revievv}"
    (place.directory / "chains/missing.yaml").write_text(
        f"name: missing\ntrigger: {{manual: true}}\nsteps: [{steps}]\n"
    )
    return place


def _messages(place: Place, *arguments: str) -> set[str]:
    """What a command says on stderr about files: each line without the fix."""
    lines = place.call(*arguments).err.splitlines()
    return {line.rpartition(" (")[0] or line for line in lines if line.startswith(str(place.directory))}


def test_every_kind_of_problem_is_said_by_all_commands_in_the_same_words(wrong: Place) -> None:
    (wrong.directory / "open-to-all").chmod(0o600)
    with wrong.daemon():
        (wrong.directory / "open-to-all").chmod(0o644)
        checked = _messages(wrong, "daemon", "--check")
        found = "\n".join(sorted(checked))
        for part in (
            "runward.toml:7:12: contracts[0].playbook: there is no playbook 'reviev'",
            "webhooks.github.secret_file: others may read",
            "wrong.playbook.yaml:3:26: ",
            "odd.md:2:20: ",
            "lonely.playbook.yaml: agent: there is no agent 'nobody'",
            "missing.yaml:3:18: ",
            "notify[0]: ",
        ):
            assert part in found, found
        assert _messages(wrong, "daemon", "reload") == checked
        checks = wrong.call("doctor", "--only", "settings", "--json").items("checks")
        assert {str(each["found"]) for each in checks} == checked

        def told() -> list[dict[str, JsonValue]] | None:
            found = wrong.call("status", "--json").items("problems")
            return found if len(found) == len(checked) else None

        problems = wait_for(told, "what the daemon found when it was told to reload")
        for each in problems:
            place = f"{each['path']}:" if each["line"] is None else f"{each['path']}:{each['line']}:"
            message = str(each["message"]).split("; ")[0]
            assert [line for line in checked if line.startswith(place) and message in line], message
    contents = ("wrong.playbook.yaml", "odd.md", "lonely.playbook.yaml")
    light = wrong.call("status", "--json").items("problems")
    assert len(light) == len([line for line in checked if not any(each in line for each in contents)])


@pytest.mark.parametrize(("scheme", "library"), [("ed25519", "cryptography"), ("nostr", "coincurve")])
def test_receipts_that_can_not_be_signed_without_a_library_are_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, library: str
) -> None:
    rules = BundleRules(sign="nostr" if scheme == "nostr" else "ed25519")
    settings = Settings(
        str(tmp_path), bundle=Bundle(rules), origin={"bundle.sign": f"{tmp_path}/runward.toml:7"}
    )
    assert complaints_about(Parsed(settings)) == ()
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == library else find_spec(name))
    (found,) = complaints_about(Parsed(settings))
    assert (found.problem.file, found.problem.line) == (f"{tmp_path}/runward.toml", 7)
    assert "signing needs more libraries" in found.problem.message
    assert ".[sign]" in found.problem.message


def test_a_directory_that_can_not_be_listed_is_said_and_nothing_else_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents/odd.md").write_text("---\nartifact_defaults: 7\n---\n")
    settings = Settings(str(tmp_path / "state"), (str(tmp_path / "playbooks"),), (str(tmp_path / "agents"),))
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("playbooks"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "scandir", refuse)
        found = [each.problem.render() for each in complaints_about(Parsed(settings))]
    assert len(found) == 2
    assert "playbooks: can't be read: Permission denied" in found[0]
    assert "odd.md:2:20: " in found[1]
