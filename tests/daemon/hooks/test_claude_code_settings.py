"""Claude Code's settings with our hooks in them and out again: nothing else changes, not by a byte."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.daemon.hooks.claude_code_settings import (
    CLAUDE_CODE,
    QWEN,
    TIMEOUT,
    install,
    others_in,
    uninstall,
)
from runward.daemon.hooks.settings_file import Refused, is_our_shell_command, shell_command

EVENTS = CLAUDE_CODE.events
NAME = "settings.json"
OURS = shell_command("claude-code", "/state of mine")
OLDER = "/old/python -S -E /old/site/runward/daemon/hooks/runward_hook.py claude-code --state /s"
GROUP: JsonValue = {"hooks": [{"type": "command", "command": OURS, "timeout": TIMEOUT}]}
THEIRS: JsonValue = {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}


def installed(text: str | None) -> str:
    after = install(text, NAME, OURS, EVENTS).text
    assert after is not None
    return after


def commands(text: str, event: str) -> list[str]:
    groups = json.loads(text.removeprefix("\ufeff"))["hooks"].get(event, [])
    return [entry["command"] for group in groups for entry in group["hooks"]]


def test_into_nothing_and_out_again_leaves_nothing() -> None:
    text = installed(None)
    assert json.loads(text) == {"hooks": {event: [GROUP] for event in EVENTS}}
    assert uninstall(text, NAME).text is None
    assert uninstall(None, NAME).text is None


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{ }",
        "{\n}\n",
        "\ufeff{}\r\n",
        '{"hooks": {}}',
        '{"hooks":{"Stop":[]}}',
        '{\n  "hooks": {\n    "Stop": [\n    ]\n  }\n}',
        '{\r\n\t"model": "ä\\u00e4",\r\n\t"hooks": {}\r\n}',
        '{\n    "model" : "opus"   }',
        json.dumps(
            {"a": 1, "hooks": {"Stop": [THEIRS], "PreToolUse": [THEIRS]}, "z": [1, {"b": None}]}, indent=3
        ),
        json.dumps({"hooks": {"Stop": [THEIRS, THEIRS]}}),
    ],
)
def test_what_was_there_stays_and_comes_back_byte_for_byte(text: str) -> None:
    after = installed(text)
    assert after != text
    assert installed(after) == after, "twice changes nothing"
    assert uninstall(after, NAME).text == text
    assert all(commands(after, event)[-1] == OURS for event in EVENTS)


def test_what_is_put_in_looks_like_what_is_around_it() -> None:
    text = installed('{\n    "model": "opus"\n}\n')
    assert (
        text == json.dumps({"model": "opus", "hooks": {event: [GROUP] for event in EVENTS}}, indent=4) + "\n"
    )
    assert "\r\n" in installed('{\r\n  "a": 1\r\n}')
    assert "\n" not in installed(installed('{\r\n  "a": 1\r\n}')).replace("\r\n", "")
    assert "\n" not in installed('{"a": 1}')


def test_an_older_one_is_replaced_where_it_stands() -> None:
    text = installed('{\n  "a": 1\n}').replace(json.dumps(OURS), json.dumps(OLDER))
    assert is_our_shell_command(OLDER, "claude-code")
    assert installed(text) == installed('{\n  "a": 1\n}')
    assert uninstall(text, NAME).text == '{\n  "a": 1\n}'


def test_ours_for_an_event_that_is_not_asked_any_more_and_a_second_one_go() -> None:
    entry: JsonValue = {"hooks": [{"type": "command", "command": OLDER}]}
    text = json.dumps({"hooks": {"SubagentStop": [entry], "Stop": [entry, THEIRS, entry]}}, indent=2)
    after = installed(text)
    assert "SubagentStop" not in after
    assert commands(after, "Stop") == [OURS, "true"]
    left = uninstall(after, NAME).text
    assert left is not None
    assert json.loads(left) == {"hooks": {"Stop": [THEIRS]}}


def test_after_another_program_wrote_the_file_anew_only_ours_goes() -> None:
    """Claude Code itself writes its settings indented by two."""
    for empty in ("{}", '{"hooks": {}}', '{"hooks": {"Stop": []}}'):
        text = json.dumps(json.loads(installed(empty)), indent=2)
        assert uninstall(text, NAME).text in (None, "{}")
    was: JsonValue = {"permissions": {"allow": ["Bash"]}, "hooks": {"Stop": [THEIRS]}}
    text = json.dumps(json.loads(installed(json.dumps(was))), indent=2)
    assert uninstall(text, NAME).text == json.dumps(was, indent=2)


def test_what_was_added_beside_ours_stays() -> None:
    value: Any = json.loads(installed('{"a": 1}'))
    value["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "mine"})
    value["hooks"]["SessionEnd"].append(THEIRS)
    left = uninstall(json.dumps(value), NAME).text
    assert left is not None
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    assert json.loads(left) == {"a": 1, "hooks": {"Stop": [mine], "SessionEnd": [THEIRS]}}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ":1:1: is not JSON"),
        ('{\n  "a": 1,\n}', ":3:1: is not JSON"),
        ("[]", ":1:1: does not contain an object"),
        ('{"a": NaN}', ": is not JSON: NaN"),
        ('{\n "hooks": []}', ":2:11: hooks is not an object"),
        ('{"hooks": {\n"Stop": {}}}', ":2:9: hooks.Stop is not a list"),
        ('{"hooks": {\n"Other": [1]}}', ":2:11: a group of hooks.Other is not an object"),
        ('{"hooks": {"Stop": [{"matcher": ""}]}}', ":1:21: a group of hooks.Stop has no hooks"),
        ('{"hooks": {"Stop": [{"hooks": {}}]}}', ":1:31: the hooks of a group"),
        ('{"hooks": {"Stop": [{"hooks": ["x"]}]}}', ":1:32: a hook of hooks.Stop is not an object"),
        ('{"hooks": {},\n"hooks": {}}', ":2:1: the key 'hooks' appears twice"),
        ('{"hooks": {"Stop": [],\n "Stop": []}}', ":2:2: the key 'Stop' appears twice"),
        ("[" * 100_000 + "]" * 100_000, ": is nested too deeply"),
    ],
)
def test_what_is_broken_is_refused_with_its_place_and_fix(text: str, place: str) -> None:
    with pytest.raises(Refused) as refusal:
        install(text, NAME, OURS, EVENTS)
    said = refusal.value.problem.render()
    assert said.startswith(NAME + place)
    assert said.endswith(")"), "and the fix"
    with pytest.raises(Refused):
        uninstall(text, NAME)


COMMENTED = """\
// mine: "hooks": {}
{
  /* as I
     like it */
  "model": "http://x/*", // the small one
  "hooks": { // none yet
    "Stop": [
      // {"hooks": []}
    ]
  }, // "more"
  "end": true // of it
} // that's all
"""


@pytest.mark.parametrize(
    "text", [COMMENTED, "{ // nothing\n}", '/**/ {"a": 1} // "', COMMENTED.replace("\n", "\r\n")]
)
def test_where_the_agent_reads_comments_they_stay(text: str) -> None:
    ours = shell_command("qwen", "/state")
    after = install(text, NAME, ours, EVENTS, QWEN).text
    assert after is not None
    assert [line for line in re.findall("//.*", text) if line not in after] == []
    assert after.count(json.dumps(ours)) == len(EVENTS)
    assert install(after, NAME, ours, EVENTS, QWEN).text == after
    assert uninstall(after, NAME, QWEN).text == text
    with pytest.raises(Refused, match="is not JSON"):
        install(text, NAME, OURS, EVENTS)


def test_only_the_commands_of_the_agent_itself_are_ours() -> None:
    text = installed(None)
    assert uninstall(text, NAME, QWEN).text == text


names = st.text(max_size=4) | st.sampled_from(["hooks", "Stop", "model", 'a"\\'])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
entries = st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=8)})
groups = st.fixed_dictionaries(
    {"hooks": st.lists(entries, max_size=2)}, optional={"matcher": st.text(max_size=3)}
)
hooks = st.dictionaries(st.sampled_from([*EVENTS, "PreToolUse", "ä"]), st.lists(groups, max_size=3))
settings_values = st.builds(
    lambda before, own, after: {**before, **own, **{k: v for k, v in after.items() if k not in own}},
    st.dictionaries(names.filter("hooks".__ne__), values, max_size=3),
    st.just({}) | hooks.map(lambda each: {"hooks": each}),
    st.dictionaries(names.filter("hooks".__ne__), values, max_size=3),
)
blanks = st.text(" \t\r\n", max_size=3)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Settings as somebody might have laid them out."""

    def written(value: object) -> str:
        lead, tail = draw(blanks), draw(blanks)
        if isinstance(value, dict) and value:
            inner = ",".join(
                f"{draw(blanks)}{json.dumps(key)}{draw(blanks)}:{written(each)}"
                for key, each in value.items()
            )
            return f"{lead}{{{inner}}}{tail}"
        if isinstance(value, list) and value:
            return f"{lead}[{','.join(written(each) for each in value)}]{tail}"
        if isinstance(value, dict | list):
            return lead + json.dumps(value)[0] + draw(blanks) + json.dumps(value)[1] + tail
        return lead + json.dumps(value, ensure_ascii=draw(st.booleans())) + tail

    value = draw(settings_values)
    if draw(st.booleans()):
        unit = draw(st.sampled_from([None, 1, 2, 4, "\t"]))
        text = json.dumps(value, indent=unit, ensure_ascii=False) + draw(st.sampled_from(["", "\n"]))
        return draw(st.sampled_from([text, text.replace("\n", "\r\n"), "\ufeff" + text]))
    return written(value)


@given(texts())
def test_whatever_stands_there_comes_back_and_only_ours_is_added(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    after = installed(text)
    assert installed(after) == after
    assert uninstall(after, NAME).text == text
    assert others_in(after, NAME) == others_in(text, NAME)
    before, now = (json.loads(each.removeprefix("\ufeff")) for each in (text, after))
    expected = {**before, "hooks": {**before.get("hooks", {})}}
    for event in EVENTS:
        expected["hooks"][event] = [*expected["hooks"].get(event, []), GROUP]
    assert now == expected
