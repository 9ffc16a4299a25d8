import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.config.problem import Location
from runward.config.yaml_document import read_yaml


def root(text: str) -> JsonValue:
    parsed = read_yaml(text, "f.yaml")
    assert parsed.value is not None, parsed.problems
    return parsed.value.root


def complaints(text: str) -> list[str]:
    parsed = read_yaml(text, "f.yaml")
    assert parsed.value is None
    assert all(problem.fix for problem in parsed.problems)
    return [problem.render() for problem in parsed.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("~", None),
        ("", None),
        ("# only a comment", None),
        ("null", None),
        ("Null", None),
        ("nUll", "nUll"),
        ("true", True),
        ("TRUE", True),
        ("False", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("12", 12),
        ("012", 12),
        ("-7", -7),
        ("+7", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0x1F", "-0x1F"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("12:30:45", "12:30:45"),
        ("1e3", 1000.0),
        ("3.10", 3.1),
        (".5", 0.5),
        ("5.", 5.0),
        (".", "."),
        ("-", [None]),
        ("2026-01-01", "2026-01-01"),
        ("2026-13-45", "2026-13-45"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("'null'", "null"),
        ("=", "="),
        ("|\n  12\n", "12\n"),
        (">\n  a\n  b\n", "a b\n"),
        ("9223372036854775807", 9223372036854775807),
    ],
)
def test_a_scalar_is_what_the_core_schema_of_yaml_1_2_says(text: str, value: JsonValue) -> None:
    read = root(text)
    assert (read, type(read)) == (value, type(value))


def test_keys_that_yaml_1_1_would_turn_stay_texts() -> None:
    assert root("on: 1\nno: 2\ny: 3\n1:30: 4\n2026-01-01: 5\n'1': 6\n") == {
        "on": 1,
        "no": 2,
        "y": 3,
        "1:30": 4,
        "2026-01-01": 5,
        "1": 6,
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: key 'a' is already at 1:1 (remove one of them)"),
        ("a: 1\n'a': 3\n", "f.yaml:2:1: key 'a' is already at 1:1 (remove one of them)"),
        ("b: {c: 1, c: 2}\n", "f.yaml:1:11: key 'c' is already at 1:5 (remove one of them)"),
        ("a: &x 1\n", "f.yaml:1:4: &x: anchors are not supported (write the value out)"),
        ("a: *x\n", "f.yaml:1:4: *x: aliases are not supported (write the value out)"),
        ("&x a: 1\n", "f.yaml:1:1: &x: anchors are not supported (write the value out)"),
        ("a:\n  <<: {b: 1}\n", "f.yaml:2:3: merge keys are not supported (write the keys out)"),
        ("a: !!str 1\n", "f.yaml:1:4: 'tag:yaml.org,2002:str': tags are not supported (remove the tag)"),
        (
            "a: !!python/object:os.system []\n",
            "f.yaml:1:4: 'tag:yaml.org,2002:python/object:os.system': tags are not supported (remove the tag)",
        ),
        ("a: ! b\n", "f.yaml:1:4: '!': tags are not supported (remove the tag)"),
        ("1: a\n", "f.yaml:1:1: key '1' is not text (put it in quotes: \"1\")"),
        ("true: a\n", "f.yaml:1:1: key 'true' is not text (put it in quotes: \"true\")"),
        ("~: a\n", "f.yaml:1:1: key '~' is not text (put it in quotes: \"~\")"),
        ("? [a]\n: b\n", "f.yaml:1:3: a key must be a text (write it as one word)"),
        ("*x : 1\n", "f.yaml:1:1: a key must be a text (write it as one word)"),
        ("a: .inf\n", "f.yaml:1:4: '.inf' is not a finite number (put it in quotes if it is a text)"),
        ("a: 1e999\n", "f.yaml:1:4: '1e999' is not a finite number (put it in quotes if it is a text)"),
        ("a: 9223372036854775808\n", "f.yaml:1:4: is a whole number of more than 64 bits (put it in quotes)"),
        ("a: " + "9" * 5000, "f.yaml:1:4: is a whole number of more than 64 bits (put it in quotes)"),
        ('"\\udc00": 1\n', "f.yaml:1:1: has a lone surrogate in it (write the character itself)"),
        ('a: "\\ud800"\n', "f.yaml:1:4: has a lone surrogate in it (write the character itself)"),
        ("--- 1\n--- 2\n", "f.yaml:2:1: a second document begins here (write one document per file)"),
        (
            'a: "\\UFFFFFFFF"\n',
            "f.yaml:1:7: is not YAML: a number here is out of bounds (correct the escape or the directive)",
        ),
        (
            "a\0b",
            (
                "f.yaml:1:2: character '\\x00' is not allowed in YAML "
                "(write it as an escape in double quotes, or remove it)"
            ),
        ),
        (
            "a: 1\nb: \x1b\n",
            (
                "f.yaml:2:4: character '\\x1b' is not allowed in YAML "
                "(write it as an escape in double quotes, or remove it)"
            ),
        ),
        (
            "a:\n\tb: 1\n",
            (
                "f.yaml:2:1: is not YAML: while scanning for the next token: found character '\\t' that cannot "
                "start any token (a tab can't indent: use spaces)"
            ),
        ),
        (
            "a: b: c\n",
            "f.yaml:1:5: is not YAML: mapping values are not allowed here (check the indentation and quotes here)",
        ),
        ("[" * 20_000, "f.yaml:1:51: is nested more than 50 deep (nest less)"),
        ("- " * 20_000, "f.yaml:1:101: is nested more than 50 deep (nest less)"),
        ("{a: " * 300, "f.yaml:1:201: is nested more than 50 deep (nest less)"),
        ("a: " + "x" * (1 << 20), "f.yaml: is larger than 1 MiB (split it)"),
        ("é" * (1 << 19) + "a", "f.yaml: is larger than 1 MiB (split it)"),
    ],
    ids=lambda text: text[:20],
)
def test_what_strict_yaml_refuses_is_said_with_its_place_and_its_fix(text: str, complaint: str) -> None:
    assert complaint in complaints(text)


def test_a_directive_beyond_all_bounds_is_a_problem_and_no_crash() -> None:
    assert len(complaints("%YAML " + "9" * 5000 + "\n--- a\n")) == 1


def test_everything_wrong_is_said_at_once() -> None:
    lines = [complaint.split(": ")[0] for complaint in complaints("a: &x 1\nb: *x\nb: !t 2\n3: .nan\n")]
    assert lines == ["f.yaml:1:4", "f.yaml:2:4", "f.yaml:3:1", "f.yaml:3:4", "f.yaml:4:1", "f.yaml:4:4"]


def test_complaints_end_at_a_hundred() -> None:
    assert len(complaints("- *x\n" * 500)) == 100


TEXT = """\
# a comment
name: review
command: [a, "b", {c: d}]
artifacts:
  expected:
    - id: one
      path: a.md
    -   {id: two, path:   b.md}
"""


@pytest.mark.parametrize(
    ("loc", "key", "place"),
    [
        (("name",), False, (2, 7)),
        (("name",), True, (2, 1)),
        (("command", 1), False, (3, 14)),
        (("command", 2, "c"), True, (3, 20)),
        (("artifacts", "expected"), True, (5, 3)),
        (("artifacts", "expected", 0), False, (6, 7)),
        (("artifacts", "expected", 1, "path"), False, (8, 27)),
        (("artifacts", "expected", 1, "path"), True, (8, 19)),
        (("artifacts", "required"), False, (4, 1)),
        (("artifacts", "expected", 0, "required"), False, (6, 7)),
        (("artifacts", "some-tag", "expected", 0, "path"), False, (7, 13)),
        (("nowhere",), False, (2, 1)),
        ((), False, (2, 1)),
    ],
)
def test_a_value_or_key_is_found_at_its_place(loc: Location, key: bool, place: tuple[int, int]) -> None:
    parsed = read_yaml(TEXT, "f.yaml")
    assert parsed.value is not None
    assert parsed.value.place(loc, key) == place


def test_lines_are_counted_as_editors_count_them() -> None:
    parsed = read_yaml("\ufeffa: 1\r\nb: '\u2028 \x85'\r\nc: \U0001f600 # x\r\nd: 4\r\n", "f.yaml")
    assert parsed.value is not None
    assert [parsed.value.place((key,)) for key in "abcd"] == [(1, 4), (2, 4), (3, 4), (4, 4)]


plain_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 60), 1 << 60) | plain_texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain_texts, inner, max_size=4),
    max_leaves=15,
)


@given(documents)
def test_json_is_read_as_it_is(value: JsonValue) -> None:
    assert root(json.dumps(value)) == value


@given(
    st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), st.integers(0, 9), min_size=1), st.data()
)
def test_every_key_is_found_on_its_line(table: dict[str, int], data: st.DataObject) -> None:
    lines: list[str] = []
    line_of: dict[str, int] = {}
    for key, value in table.items():
        lines.extend(data.draw(st.lists(st.sampled_from(["", "# note", "  "]), max_size=2)))
        lines.append(f'"{key}": {value}')
        line_of[key] = len(lines)
    parsed = read_yaml("\n".join(lines), "f.yaml")
    assert parsed.value is not None
    assert {key: parsed.value.place((key,), key=True) for key in table} == {
        key: (line, 1) for key, line in line_of.items()
    }


@given(st.text() | st.text(alphabet="ab:-[]{}&*!|>'\"%@`#, \n\t?<~0.\\uU\ud800\ufeff", max_size=40))
def test_any_text_is_a_document_or_complaints(text: str) -> None:
    parsed = read_yaml(text, "f.yaml")
    assert (parsed.value is None) == bool(parsed.errors)
    lines = text.count("\n") + 1
    assert all(problem.line is not None and 1 <= problem.line <= lines for problem in parsed.problems)
