"""Expressions over what happened: what they see, what they may use, and that they are bounded."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.counted_values import LONGEST_RESULT, ExpressionError, Missing, Steps
from runward.config.expression import Expression, Value
from runward.config.json_value import JsonValue

NAMES = ("trigger", "steps", "outcome", "chain")
FINDINGS: list[JsonValue] = [{"severity": "high"}, {"severity": "low"}]
SEEN = {
    "trigger": {"base": "main", "n": 3, "items": "a key", "long": "x" * 60_000},
    "steps": Steps(
        [{"id": "review", "outcome": {"passed": True, "findings": FINDINGS}}, {"id": "ci", "outcome": None}]
    ),
    "outcome": None,
    "chain": {"name": "c"},
}


def value_of(source: str) -> JsonValue | Missing:
    return Expression(source, NAMES).evaluate(SEEN)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("steps.review.outcome.passed", True),
        ("steps[0].outcome.passed", True),
        ("steps[-2].id", "review"),
        ("trigger.base == 'main' and not trigger.draft", True),
        ("trigger['base'] in ['main', 'dev']", True),
        ("trigger.n + 1", 4),
        ("trigger.n - 1 > 1", True),
        ("-trigger.n", -3),
        ("'pr ' ~ trigger.n", "pr 3"),
        ("trigger.items", "a key"),
        ("trigger.n if trigger.base == 'main' else 0", 3),
        ("steps.review.outcome.findings | selectattr('severity', 'eq', 'high') | list | length", 1),
        ("steps.review.outcome.findings | map(attribute='severity') | join(',')", "high,low"),
        ("steps | map(attribute='id') | list", ["review", "ci"]),
        ("steps.review.outcome.findings[0:1]", [{"severity": "high"}]),
        ("trigger.missing | default('d')", "d"),
        ("outcome is none", True),
        ("outcome.passed is defined", False),
        ("{'a': [1, trigger.n]}", {"a": [1, 3]}),
    ],
)
def test_an_expression_has_a_value(source: str, value: JsonValue) -> None:
    assert value_of(source) == value


@pytest.mark.parametrize(
    "source",
    [
        "trigger.draft",
        "trigger.draft.deeper",
        "outcome.passed",
        "steps.ci.outcome.passed == true",
        "outcome.verdict != 'REJECT'",
        "outcome.count > 3",
        "3 > outcome.count",
        "steps.nobody.outcome",
        "steps[7].outcome",
        "trigger.base.upper",
        "chain.name.__class__"[:-10] + ".x",
    ],
)
def test_what_is_not_there_is_missing_and_so_is_a_comparison_with_it(source: str) -> None:
    assert isinstance(value_of(source), Missing)


def test_the_path_that_leads_nowhere_is_named() -> None:
    said = Expression("steps.ci.outcome.passed and trigger.base", NAMES).missing(SEEN)
    assert said == "steps.ci.outcome.passed is not there: steps.ci.outcome is null"
    assert Expression("steps.review.outcome.passed", NAMES).missing(SEEN) is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "is empty"),
        ("trigger.items()", "may not use calls"),
        ("2 * 3", "may not use '*'"),
        ("'%s' % trigger", "may not use '%'"),
        ("2 ** 99", "may not use '**'"),
        ("6 / 2", "may not use '/'"),
        ("6 // 2", "may not use '//'"),
        ("trigger.__class__", "may not look up '__class__'"),
        ("_trigger", "may not use '_trigger'"),
        ("env", "uses the unknown name 'env'"),
        ("trigger | attr('x')", "uses the unknown filter 'attr'"),
        ("trigger is callable", "uses the unknown test 'callable'"),
        ("trigger.base ==", "is not a valid expression"),
        ("trigger }} {{ steps", "must be one expression"),
        ("1 and " * 2000 + "1", "is longer than 4096 characters"),
        (" ~ ".join(["trigger"] * 65), "has more than 64 look-ups"),
    ],
)
def test_what_may_not_be_used_is_refused_when_it_is_read(source: str, said: str) -> None:
    with pytest.raises(ExpressionError, match="^" + said.replace("*", r"\*").replace("|", r"\|")):
        Expression(source, NAMES)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("(" * 800 + "1" + ")" * 800, "has brackets nested more than 20 deep"),
        ("[" * 900 + "]" * 900, "has brackets nested more than 20 deep"),
        ("{'a':" * 300 + "1" + "}" * 300, "has brackets nested more than 20 deep"),
        ("trigger" + "[0" * 400 + "]" * 400, "has brackets nested more than 20 deep"),
        ("-" * 3000 + "1", "has more than 50 signs, 'not' and 'else'"),
        ("- + " * 900 + "1", "has more than 50 signs, 'not' and 'else'"),
        ("not " * 900 + "1", "has more than 50 signs, 'not' and 'else'"),
        ("1 if 1 else " * 300 + "1", "has more than 50 signs, 'not' and 'else'"),
        ("trigger" + ".a" * 1900, "has more than 1000 words and signs"),
        ("1" + "|int" * 900, "has more than 1000 words and signs"),
        ("trigger" + ".a" * 400, "has more than 100 steps that need one another"),
        ("1" + "|int" * 400, "has more than 100 steps that need one another"),
        ("trigger" + "[0]" * 300, "has more than 100 steps that need one another"),
        ("1" + " + 1" * 300, "has more than 100 steps that need one another"),
        ("'\\ud800'", "has half a character in it"),
        ("1e999", "has a number that is not finite"),
        ("9" * 4000, "has a whole number of more than 64 bits"),
    ],
)
def test_an_expression_is_bounded_before_anything_walks_it(source: str, said: str) -> None:
    with pytest.raises(ExpressionError, match=said):
        Expression(source, NAMES)


@pytest.mark.parametrize("maps", [4, 480])
def test_map_inside_of_map_is_refused_beyond_a_few_when_it_is_read(maps: int) -> None:
    with pytest.raises(ExpressionError, match="'map' as the filter of 'map' more than 3 times"):
        Expression("'a'|map(" + "'map'," * maps + "'upper')", NAMES)


@pytest.mark.parametrize("maps", [4, 300])
def test_map_inside_of_map_is_counted_also_if_the_data_names_it(maps: int) -> None:
    source = "trigger.a|map(" + "trigger.m," * min(maps, 50) + "'map'," * max(0, maps - 50) + "'upper')"
    expression = Expression(source, NAMES)
    with pytest.raises(ExpressionError, match="'map' as the filter of 'map' more than 3 times"):
        expression.evaluate({"trigger": {"a": "a", "m": "map"}})


def test_map_may_be_the_filter_of_map_a_few_times() -> None:
    assert value_of("[[[['a']]]]|map('map', 'map', 'map', 'upper')") == [[[["A"]]]]
    assert value_of("[[['a']]]|map('map', 'first')") == [["a"]]


def test_an_expression_that_needs_more_of_the_stack_than_is_left_is_refused() -> None:
    source = "1" + "|int" * 96

    def frames() -> int:
        frame, count = sys._getframe(), 0
        while frame := frame.f_back:  # type: ignore[assignment] # ends with None
            count += 1
        return count

    expression, before = Expression(source, NAMES), sys.getrecursionlimit()
    sys.setrecursionlimit(frames() + 60)
    try:
        with pytest.raises(ExpressionError, match="can't be evaluated: it needs too many levels"):
            expression.evaluate(SEEN)
        with pytest.raises(ExpressionError, match="is nested too deep"):
            Expression("(" * 20 + "2" + ")" * 20, NAMES)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 20 + "1" + ")" * 20,
        "-" * 50 + "1",
        "(" * 19 + "not " * 49 + "1" + ")" * 19,
        "trigger" + ".a" * 96,
        "1" + "|int" * 96,
        "1 if 1 else " * 50 + "1",
    ],
)
def test_an_expression_at_the_bounds_needs_little_of_the_stack(source: str) -> None:
    def below(frames: int) -> JsonValue | Missing:
        return below(frames - 1) if frames else value_of(source)

    below(300)


@given(
    st.lists(st.sampled_from([*"()[]{}-+.|~,:", "not ", " if ", " else ", " in ", "1", "trigger", "|int", ".a", "==", "'"])
             .flatmap(lambda word: st.integers(1, 900).map(lambda times: word * times)), max_size=6).map("".join)
)  # fmt: skip
def test_whatever_is_repeated_is_refused_or_has_a_value(text: str) -> None:
    try:
        Value("{{" + text + "}}", NAMES).render(SEEN)
    except ExpressionError:
        return


@pytest.mark.parametrize(
    "source",
    [
        "trigger.long ~ trigger.long",
        "trigger.long + trigger.long",
        "trigger.long | replace('x', 'yy')",
        "[trigger.long, trigger.long] | join",
        "1 < 'a'",
        "trigger.base + 1",
    ],
)
def test_what_grows_without_bound_or_makes_no_sense_has_no_value(source: str) -> None:
    with pytest.raises(ExpressionError):
        value_of(source)


@given(st.text(max_size=60))
def test_any_text_is_refused_or_has_a_value(text: str) -> None:
    try:
        found = Value("{{" + text + "}}", NAMES).render(SEEN)
    except ExpressionError:
        return
    assert isinstance(found, Missing) or len(str(found)) <= LONGEST_RESULT * 8


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("{{ trigger.n }}", 3),
        ("pr {{ trigger.n }} of {{ trigger.base }}", "pr 3 of main"),
        ("{{ {'a': {'b': 1}} }}", {"a": {"b": 1}}),
        ("{{ '}}' ~ trigger.n }}", "}}3"),
    ],
)
def test_a_value_that_is_one_expression_keeps_its_type(text: str, value: JsonValue) -> None:
    assert Value(text, NAMES).render(SEEN) == value


def test_text_from_an_event_is_never_an_expression() -> None:
    assert Value("{{ trigger.t }}!", NAMES).render({"trigger": {"t": "{{ steps }}"}}) == "{{ steps }}!"


@pytest.mark.parametrize("text", ["{{ trigger", "{% if x %}", "a {# b #}"])
def test_other_marks_of_templates_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Value(text, NAMES)


@pytest.mark.parametrize(
    "source",
    [
        "'it says ' ~ outcome.summary",
        "outcome.summary | upper",
        "[outcome.summary] | join",
        "outcome.summary | list | length == 0",
        "'a' not in outcome.summary",
    ],
)
def test_nothing_stands_silently_for_what_is_not_there(source: str) -> None:
    with pytest.raises(ExpressionError, match=r"summary|nothing"):
        value_of(source)
