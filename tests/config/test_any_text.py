"""Whatever the operator's files contain, their readers return problems and never raise."""

import json
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from runward.config.agent import read_agent, read_frontmatter
from runward.config.chain import read_chain
from runward.config.document import read_json
from runward.config.glob_rule import GlobError, check_path_glob, check_text_glob
from runward.config.json_value import JsonValue
from runward.config.playbook import read_playbook
from runward.config.problem import Parsed
from runward.config.schedule import ScheduleError, parse_times
from runward.config.step import Callables
from runward.config.template import TemplateError, parse_template
from runward.config.toml_document import read_toml
from runward.config.yaml_document import read_yaml

CALLABLES: Final = Callables(("review",), ("act",))
READERS: Final[dict[str, Callable[[str], Parsed[object]]]] = {
    "yaml": lambda text: Parsed(*read_yaml(text, "f")),
    "json": lambda text: Parsed(*read_json(text, "f")),
    "toml": lambda text: Parsed(*read_toml(text, "f")),
    "frontmatter": lambda text: Parsed(*read_frontmatter(f"---\n{text}\n---\n", "f")),
    "chain": lambda text: Parsed(*read_chain(text, "f", CALLABLES)),
    "playbook": lambda text: Parsed(*read_playbook(text, "f")),
    "agent": lambda text: Parsed(*read_agent(f"---\n{text}\n---\n", "f")),
}
VALUES: Final = (
    *("[" * levels + "1" + "]" * levels for levels in (60, 990, 20_000)),
    *('{"a":' * levels + "1" + "}" * levels for levels in (60, 990, 20_000)),
    *("9" * 400, "9" * 5000, "-" + "9" * 5000, "1e400", "1e999999999", "0." + "9" * 5000, "NaN", "-Infinity"),
    *('"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"\0"', '""', "null", "true", "[]", "{}", '"' + "a" * 100_000 + '"'),
    *("18446744073709551616", '"{{ ' + "(" * 3000 + ' }}"', '"{{ trigger' + ".a" * 1900 + ' }}"', '"[[["', '"{{"'),
    *('"' + "*" * 3000 + '"', '"99999999999999999999s"', '"every 1e9s"', '"at 9999-12-31T23:59"', '"' + "0 " * 5 + '"'),
)  # fmt: skip
TEXTS: Final = (
    *("&a [*a]", "!!python/object:os.system x", "? [a]\n: b", "- " * 5000 + "x", "a: " * 300, "{" * 5000, "? " * 3000),
    *("'", "|9999999999\n a", "%YAML 9" + "9" * 5000 + ".1\n---\na", "0x" + "f" * 5000, "0o" + "7" * 5000, ".inf"),
    *("<<: {a: 1}", "\t", "--- a\n--- b", "\u2028", "\ud800", "a: 1\n" * 2000, "- - - - " * 2000, '"\\UFFFFFFFF"'),
    *("a=" + "[" * 5000, "[" + "a." * 2000 + "b]", "a=9999-12-31T23:59:59Z", "a=0x" + "f" * 5000, "a=" + "9" * 5000),
    *('a="\\UFFFFFFFF"', 'a="\\uD800"', "a={" + "b={" * 3000, "a=nan", "a=24:61:61", 'a="""' + "\\" * 9999),
)  # fmt: skip
ARTIFACTS: Final[JsonValue] = {"expected": [{"id": "a", "path": "a.md", "required": True}]}  # fmt: skip
DOCUMENTS: Final[list[tuple[str, JsonValue]]] = [
    ("chain", {"name": "a", "description": "d", "trigger": {"event": "x", "filter": {"a": {"in": [1]}}}, "timeout": "1m",
               "concurrency": {"key": "a"}, "steps": [
        {"id": "a", "skill": "review", "with": {"a": "{{ trigger.x }}"}, "condition": "{{ trigger.x }}", "grace": "1s",
         "continue_on_failure": True, "retry": {"attempts": 2, "backoff": "1s", "on": ["a*"]}, "env": {"A": "b"},
         "requires_approval": True, "approval": {"expires": "1d", "on_timeout": "deny"},
         "worktree": {"repo": "/r", "ref": "m", "keep": "never"}}]}),
    ("chain", {"name": "a", "trigger": {"schedule": "0 0 * * *", "timezone": "UTC", "jitter": "1s", "max_runs": 3},
               "steps": [{"action": "act", "cwd": "/x", "stale_after": "1m"}]}),
    ("chain", {"name": "a", "trigger": {"all_of": [{"event": "x"}, {"sequence": [{"event": "file.changed", "path": "a/*"}],
               "within": "1m"}], "within": "1d"}, "steps": [{"action": "act"}]}),
    ("playbook", {"name": "f", "command": ["a", "{{ with.x }}"], "timeout": "1m", "agent": "x", "artifacts": ARTIFACTS}),
    ("agent", {"name": "f", "artifact_defaults": ARTIFACTS}),
]  # fmt: skip


def places(value: JsonValue, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        yield from places(each, (*path, key))


def with_value(document: JsonValue, path: tuple[str | int, ...], written: str) -> str:
    """The document as JSON, with this text in place of one of its values."""
    if not path:
        return written
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = "@"
    return json.dumps(copy).replace('"@"', written)


@pytest.mark.parametrize("reader", READERS)
def test_no_text_of_an_operators_file_raises(reader: str) -> None:
    for text in (*TEXTS, *VALUES):
        parsed = READERS[reader](text)
        assert (parsed.value is None) == bool(parsed.errors)


@pytest.mark.parametrize("number", range(len(DOCUMENTS)))
def test_no_value_in_an_operators_file_raises(number: int) -> None:
    kind, document = DOCUMENTS[number]
    assert READERS[kind](json.dumps(document)).problems == ()
    for path in places(document):
        for written in VALUES:
            if len(written) < 1000 or path[-1:] in (("condition",), ("path",), ("key",)):
                parsed = READERS[kind](with_value(document, path, written))
                assert (parsed.value is None) == bool(parsed.errors)


@pytest.mark.parametrize("text", [*VALUES, *TEXTS])
def test_no_text_of_a_setting_raises_anything_else(text: str) -> None:
    for read in (
        lambda: parse_times(text, "UTC"),
        lambda: parse_times("0 0 * * *", text),
        lambda: parse_times(f"every {text}", "UTC"),
        lambda: parse_times(f"at {text}", "UTC"),
        lambda: parse_template(text),
        lambda: check_path_glob(text),
        lambda: check_text_glob(text),
    ):
        try:
            read()
        except (ScheduleError, TemplateError, GlobError):
            continue
