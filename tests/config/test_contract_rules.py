"""The `[[contracts]]` rules: as they are written, merged over files, and held against sessions."""

import re
from collections.abc import Mapping

import pytest
from tests.config.test_settings import FILE, complaints, good

from runward.config.contract_rules import ContractRule, Match, rule_for
from runward.config.root import FOREIGN_LAYOUTS
from runward.config.settings import settings_to_json
from runward.config.settings_layers import Source, read_settings
from runward.config.table import Placed


def rule(text: str) -> ContractRule:
    """The one rule whose `match` is written as `text`."""
    (found,) = good(f'[[contracts]]\nmatch = {text}\nplaybook = "feature"\n').contracts
    return found


def test_a_rule_is_read_with_all_that_it_names() -> None:
    text = '{ layout = "claude-*", cwd = "/home/me/app/**", agent = "rev?ewer", prompt = "*fix*" }'
    found = rule(text)
    assert found.playbook == "feature"
    assert found.match._asdict() == {
        "layout": "claude-*",
        "cwd": "/home/me/app/**",
        "agent": "rev?ewer",
        "prompt": "*fix*",
    }
    assert found.named_at.origin == f"{FILE}:3"


@pytest.mark.parametrize(
    ("written", "whole"),
    [
        ("/home/me/app/**", "/home/me/app/**"),
        ("~/app/**", "/home/me/app/**"),
        ("~", "/home/me"),
        ("app/**", "/etc/runward/app/**"),
        (".", "/etc/runward"),
        ("**", "/**"),
        ("**/app", "/**/app"),
        ("*/app/", "/etc/runward/*/app"),
    ],
)
def test_a_working_directory_is_meant_as_every_path_of_the_file(written: str, whole: str) -> None:
    assert rule(f'{{ cwd = "{written}" }}').match.cwd == whole


def test_what_stands_before_a_relative_glob_is_no_glob() -> None:
    base = "/srv/[x]*"
    source = Source(f"{base}/runward.toml", '[[contracts]]\nmatch = {cwd = "app"}\nplaybook = "p"', base)
    parsed = read_settings([source], {}, home="/home/me", working_directory="/work")
    assert parsed.value is not None
    (found,) = parsed.value.contracts
    assert found.matches("codex", "/srv/[x]*/app", None, None)
    assert not found.matches("codex", "/srv/xy/app", None, None)


MATCH = 'match = {agent = "a"}\n'
PLAYBOOK = 'playbook = "p"\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("contracts = 3", "1:13: contracts: must be a list, not a number (put it in square brackets)"),
        ("contracts = [3]", "1:14: contracts[0]: must be a table of keys, not a number (give it keys of its own)"),
        (f"[[contracts]]\n{PLAYBOOK}", "1:1: contracts[0]: has no 'match' (add match = …)"),
        (f"[[contracts]]\n{MATCH}", "1:1: contracts[0]: has no 'playbook' (add playbook = …)"),
        (f"[[contracts]]\n{MATCH}{PLAYBOOK}when = 1", "4:1: contracts[0].when: unknown key (known here: match, playbook)"),
        (f"[[contracts]]\n{PLAYBOOK}match = {{}}", "3:9: contracts[0].match: is empty (name at least one of: layout, cwd, agent, prompt)"),
        (f"[[contracts]]\n{PLAYBOOK}match = 3", "3:9: contracts[0].match: must be a table of keys, not a number (give it keys of its own)"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{agnet = "a"}}', "3:10: contracts[0].match.agnet: unknown key (did you mean 'agent'?)"),
        (f"[[contracts]]\n{PLAYBOOK}match = {{agent = 3}}", "3:18: contracts[0].match.agent: must be a text, not a number (put it in quotes)"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{agent = ""}}', "3:18: contracts[0].match.agent: is empty (leave it out for the default)"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{agent = "[a"}}', "3:18: contracts[0].match.agent: '[a' has a '[' that is never closed (close it; '[[]' is the character itself)"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{cwd = "/a/**b"}}', "3:16: contracts[0].match.cwd: '/a/**b' has '**' next to other characters: '**b' (put it between slashes, or use '*')"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{cwd = "../b"}}', "3:16: contracts[0].match.cwd: '../b' has a '..' in it (write the whole path)"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{cwd = "~you/b"}}', "3:16: contracts[0].match.cwd: '~you/b' names the home of another user (write the whole path)"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{layout = "native"}}', "3:19: contracts[0].match.layout: 'native' matches nothing: native runs name their playbook themselves (name another tool's layout)"),
        (f'[[contracts]]\n{PLAYBOOK}match = {{layout = "claude"}}', f"3:19: contracts[0].match.layout: 'claude' is not a known layout (one of: {', '.join(FOREIGN_LAYOUTS)}, or a glob of them)"),
        (f'[[contracts]]\nmatch = {{layout = "auto"}}\n{PLAYBOOK}', f"2:19: contracts[0].match.layout: 'auto' is not a known layout (one of: {', '.join(FOREIGN_LAYOUTS)}, or a glob of them)"),
        (f'[[contracts]]\n{MATCH}playbook = ""', "3:12: contracts[0].playbook: is empty (leave it out for the default)"),
        (f'[[contracts]]\n{MATCH}playbook = "p/q"', "3:12: contracts[0].playbook: 'p/q' has '/' in it (write it without /)"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_rule_is_said_at_its_place(text: str, complaint: str) -> None:
    assert complaints(text) == [f"runward.toml:{complaint}"]


def test_everything_wrong_with_a_rule_is_said_at_once() -> None:
    found = complaints('[[contracts]]\nmatch = {layout = "x", cwd = "~you", prompt = "["}\n')
    assert [re.split(": ", each)[1] for each in found] == [
        "contracts[0]",
        "contracts[0].match.layout",
        "contracts[0].match.cwd",
        "contracts[0].match.prompt",
    ]


def rules_named(*names: str) -> str:
    return "".join(f'[[contracts]]\n{MATCH}playbook = "{name}"\n' for name in names)


def names(settings_rules: tuple[ContractRule, ...]) -> list[str]:
    return [each.playbook for each in settings_rules]


def test_rules_of_a_later_file_are_asked_before_those_of_an_earlier_one() -> None:
    settings = good(rules_named("a", "b"), rules_named("c"), rules_named("d", "e"))
    assert names(settings.contracts) == ["d", "e", "c", "a", "b"]
    assert settings.origin["contracts[2]"] == f"{FILE}.d/0.toml:3"


def test_a_variable_replaces_all_rules() -> None:
    value = '[{"match": {"cwd": "app"}, "playbook": "v"}]'
    settings = good(rules_named("a"), environment={"RUNWARD_CONTRACTS": value})
    assert names(settings.contracts) == ["v"]
    assert settings.contracts[0].match.cwd == "/work/app"
    assert settings.origin["contracts[0]"] == "environment RUNWARD_CONTRACTS"
    assert good(rules_named("a"), environment={"RUNWARD_CONTRACTS": "[]"}).contracts == ()


def test_the_rules_are_among_the_settings_as_json() -> None:
    value = settings_to_json(good(rules_named("a")))
    assert isinstance(value, dict)
    assert value["contracts"] == [{"match": {"agent": "a"}, "playbook": "a"}]


SESSION: Mapping[str, str | None] = {
    "layout": "codex",
    "cwd": "/home/me/app/sub",
    "agent": "reviewer",
    "prompt": "please fix\nit",
}


@pytest.mark.parametrize(
    ("match", "changed", "matches"),
    [
        ({"layout": "codex"}, {}, True),
        ({"layout": "claude-*"}, {}, False),
        ({"cwd": "/home/me/app/**"}, {}, True),
        ({"cwd": "/home/me/app"}, {}, False),
        ({"cwd": "/home/me/app"}, {"cwd": "/home/me/app"}, True),
        ({"agent": "review*"}, {}, True),
        ({"agent": "Review*"}, {}, False),
        ({"prompt": "*fix*"}, {}, True),
        ({"prompt": "fix"}, {}, False),
        ({"layout": "codex", "agent": "reviewer", "cwd": "/home/**", "prompt": "please*"}, {}, True),
        ({"layout": "codex", "agent": "builder"}, {}, False),
        ({"cwd": "/**"}, {"cwd": None}, False),
        ({"agent": "*"}, {"agent": None}, False),
        ({"prompt": "*"}, {"prompt": None}, False),
        ({"prompt": "*"}, {"prompt": ""}, True),
        ({"layout": "*"}, {"cwd": None, "agent": None, "prompt": None}, True),
    ],
)
def test_a_rule_holds_where_all_that_it_names_matches(
    match: dict[str, str], changed: dict[str, str | None], matches: bool
) -> None:
    session = {**SESSION, **changed}
    layout = str(session["layout"])
    found = ContractRule(Match(**match), "p").matches(
        layout, session["cwd"], session["agent"], session["prompt"]
    )
    assert found is matches


def test_the_first_rule_that_matches_holds() -> None:
    rules = (
        ContractRule(Match(agent="x"), "never"),
        ContractRule(Match(layout="codex"), "first", named_at=Placed(None, "f", (7, 1))),
        ContractRule(Match(layout="*"), "second"),
    )
    found = rule_for(rules, "codex", None, None, None)
    assert found is rules[1]
    assert rule_for(rules, "lionagi", None, None, None) is rules[2]
    assert rule_for(rules[:1], "codex", None, None, None) is None
