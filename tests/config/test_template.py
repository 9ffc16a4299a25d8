"""Templates: look-ups of given values and nothing else; whatever else stands between braces is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.config.template import TemplateError, names_used, parse_template

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


def filled(text: str, **given: JsonValue) -> str:
    return parse_template(text).fill(given)


def test_a_text_without_braces_is_itself() -> None:
    for text in ("", "review.py", "a } b", "}}", "{ x }", "$(rm -rf ~)"):
        assert filled(text) == text


def test_a_look_up_stands_for_the_given_value_wherever_it_is_in_the_text() -> None:
    assert filled("{{ with.pr }}", pr="12") == "12"
    assert filled("--pr={{with.pr}}:{{  with.pr  }}!", pr="a b") == "--pr=a b:a b!"


def test_a_look_up_goes_down_into_tables() -> None:
    assert filled("{{ with.pull.head.sha-1 }}", pull={"head": {"sha-1": "abc"}}) == "abc"


@given(SCALARS)
def test_a_value_that_is_no_text_is_written_as_json(value: JsonValue) -> None:
    assert json.loads(filled("{{ with.x }}", x=value)) == value


@given(st.text().filter(lambda text: "\0" not in text))
def test_a_text_is_put_in_as_it_is_and_never_read_as_a_template_again(text: str) -> None:
    assert filled("<{{ with.x }}>", x=text) == f"<{text}>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ with.pr", "has a '{{' without its '}}'"),
        ("{{}}", "'' between braces is not a look-up"),
        ("{{ pr }}", "'pr' between braces is not a look-up"),
        ("{{ with }}", "'with' between braces is not a look-up"),
        ("{{ with.0 }}", "'with.0' between braces is not a look-up"),
        ("{{ with..a }}", "'with..a' between braces is not a look-up"),
        ("{{ with.a | upper }}", "'with.a | upper' between braces is not a look-up"),
        ("{{ with.a + 1 }}", "'with.a + 1' between braces is not a look-up"),
        ("{{ With.a }}", "'With.a' between braces is not a look-up"),
        ("{{ with.a\n}} {{ with.ä }}", "'with.ä' between braces is not a look-up"),
        ("{{.Names}}", "'.Names' between braces is not a look-up"),
    ],
)
def test_anything_else_between_braces_is_refused(text: str, message: str) -> None:
    with pytest.raises(TemplateError) as refused:
        parse_template(text)
    assert str(refused.value) == message
    assert "{{ with.NAME }}" in refused.value.fix


@pytest.mark.parametrize(
    ("text", "given_values", "message", "fix"),
    [
        ("{{ with.pr }}", {}, "with.pr is not given", "give it as pr=VALUE"),
        ("{{ with.pr }}", {"prs": 1}, "with.pr is not given", "did you mean 'pr' by 'prs'?"),
        ("{{ with.a.b }}", {"a": {"c": 1}}, "with.a.b is not given", "look up one of c"),
        ("{{ with.a.name }}", {"a": {"names": 1}}, "with.a.name is not given", "did you mean 'names'?"),
        ("{{ with.a.b }}", {"a": "text"}, "with.a is a text, not a table", "look no further"),
        (
            "{{ with.a }}",
            {"a": {"b": 1}},
            "with.a is a table of keys, which is not part",
            "{{ with.a.NAME }}",
        ),
        ("{{ with.a }}", {"a": [1]}, "with.a is a list, which is not part", "give it as a text"),
        ("{{ with.a }}", {"a": "x\0y"}, "with.a has a NUL character in it", "remove it"),
    ],
)
def test_what_can_not_be_filled_in_is_said_with_its_fix(
    text: str, given_values: dict[str, JsonValue], message: str, fix: str
) -> None:
    with pytest.raises(TemplateError) as refused:
        parse_template(text).fill(given_values)
    assert str(refused.value).startswith(message)
    assert fix in refused.value.fix


def test_the_names_that_are_used_are_told_once_each() -> None:
    texts = ("{{ with.b }}{{ with.a.x }}", "plain", "{{ with.a.y }} {{ with.c }}")
    assert names_used([parse_template(text) for text in texts]) == ("b", "a", "c")


@given(st.text())
def test_no_text_makes_the_reader_fail_otherwise(text: str) -> None:
    try:
        template = parse_template(text)
    except TemplateError:
        assert "{{" in text
    else:
        assert "{{" in text or template.parts == (text,)
