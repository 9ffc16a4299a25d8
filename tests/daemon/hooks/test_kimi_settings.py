"""Kimi Code's settings with our hooks in them and out again: nothing else changes, not by a byte."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.daemon.hooks.events import events_of
from runward.daemon.hooks.kimi_settings import events_in, install, others_in, uninstall
from runward.daemon.hooks.settings_file import Refused, shell_command

NAME = "config.toml"
EVENTS = events_of("kimi")
OURS = shell_command("kimi", "/state of \"mine\" 'ä'")
OLDER = "/old/python -S -E /old/site/runward/daemon/hooks/runward_hook.py kimi --state /s"
THEIRS = '[[hooks]]\nevent = "Stop"\ncommand = "say done" # loud\n'


def installed(text: str | None, command: str = OURS) -> str:
    after = install(text, NAME, command, EVENTS).text
    assert after is not None
    return after


def read(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def test_into_nothing_and_out_again_leaves_nothing() -> None:
    text = installed(None)
    assert read(text) == {"hooks": [{"event": each, "command": OURS, "timeout": 10} for each in EVENTS]}
    assert events_in(text, NAME) == EVENTS
    assert uninstall(text, NAME).text is None
    assert uninstall(None, NAME).text is None


tops = st.sampled_from(
    ["", "# mine", 'default_model = "k2"', "x = '''\n[[hooks]]\n'''", "n = nan", "[t]\na = [1]"]
)
tables = st.sampled_from(
    ["", "[models.k2] # x\nb = 1", THEIRS, THEIRS.replace("\n", "\n\n"), '["a.b"]\nc = {d = 1}']
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = [draw(tops), *(draw(tables) for _ in range(draw(st.integers(0, 3))))]
    parts = [each for number, each in enumerate(parts) if each in ("", THEIRS) or each not in parts[:number]]
    text = "\n".join(parts).rstrip("\n") + draw(st.sampled_from(["", "\n", "\n\n", "\n# the end"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\ufeff"])) + text


@given(texts())
def test_whatever_stands_there_comes_back_and_only_ours_is_added(text: str) -> None:
    after = installed(text)
    assert installed(after) == after, "twice changes nothing"
    assert uninstall(after, NAME).text == text
    assert others_in(after, NAME) == others_in(text, NAME)
    before, now = read(text), read(after)
    theirs = before.pop("hooks", [])
    assert now.pop("hooks")[: len(theirs)] == theirs
    assert repr(now) == repr(before)
    assert after.startswith(text.rstrip("\r\n"))
    assert installed(installed(text, OLDER)) == after, "an older one is replaced"
    fewer = install(after, NAME, OURS, EVENTS[:2]).text
    assert fewer == install(text, NAME, OURS, EVENTS[:2]).text
    assert fewer is not None
    assert events_in(fewer, NAME)[-2:] == EVENTS[:2]
    assert install(after, NAME, OURS, ()).text == text, "without an event it is removed"


def test_what_the_person_added_behind_ours_stays() -> None:
    after = installed("a = 1\n") + THEIRS
    assert uninstall(after, NAME).text == "a = 1\n" + THEIRS
    assert uninstall(installed(None) + "# mine\n", NAME).text == "\n# mine\n"


def test_entries_that_another_program_wrote_anew_are_known() -> None:
    entry = f"[[hooks]]\ncommand = '''{OLDER}'''\nevent = 'Stop'\n"
    assert events_in(entry, NAME) == ("Stop",)
    assert uninstall(f"a = 1\n{entry}{THEIRS}", NAME).text == f"a = 1\n{THEIRS}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", ":1:5: is not TOML"),
        ("hooks = 1", ":1:9: hooks is not a list of tables"),
        ("\nhooks = []", ":2:9: hooks is not a list of tables"),
        ('hooks = [{event = "Stop", command = "say"}]', ":1:10: hooks is not a list of tables"),
        ("[hooks]\na = 1", ":1:2: hooks is not a list of tables"),
    ],
)
def test_what_ours_can_not_be_added_to_is_refused_with_its_place_and_fix(text: str, said: str) -> None:
    with pytest.raises(Refused) as refusal:
        install(text, NAME, OURS, EVENTS)
    rendered = refusal.value.problem.render()
    assert rendered.startswith(NAME + said)
    assert rendered.endswith(")"), "and the fix"


def test_ours_in_a_list_on_one_line_are_left_alone() -> None:
    text = f'hooks = [{{event = "Stop", command = "{OLDER}"}}]'
    with pytest.raises(Refused, match="is not a list of tables"):
        install(text, NAME, OURS, EVENTS)
    with pytest.raises(Refused, match="is not a list of tables"):
        uninstall(text, NAME)
