"""The one text of a JSON value, as serde_json prints it and as RFC 8785 does."""

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handlers.bundle.json_values import texts, values

from runward.config.json_value import JsonValue
from runward.handlers.bundle.canonical import (
    FORMS,
    NotCanonical,
    canonical,
    canonical_object,
    hash_of,
    parse,
    piece_of,
)

SERDE_NUMBERS = {
    "0": "0",
    "-0": "-0.0",
    "-0.0": "-0.0",
    "0.0": "0.0",
    "1": "1",
    "1.0": "1.0",
    "1e0": "1.0",
    "-1.5": "-1.5",
    "0.1": "0.1",
    "0.00001": "0.00001",
    "0.0000123": "0.0000123",
    "0.000001": "1e-6",
    "1e-7": "1e-7",
    "1.5E-7": "1.5e-7",
    "1e15": "1000000000000000.0",
    "1e16": "1e16",
    "1234567890123456.0": "1234567890123456.0",
    "12345678901234567.0": "1.2345678901234568e16",
    "1e21": "1e21",
    "1.7976931348623157e308": "1.7976931348623157e308",
    "5e-324": "5e-324",
    "9007199254740993": "9007199254740993",
    "9223372036854775807": "9223372036854775807",
    "18446744073709551615": "18446744073709551615",
    "18446744073709551616": "1.8446744073709552e19",
    "-9223372036854775808": "-9223372036854775808",
    "-9223372036854775809": "-9.223372036854776e18",
    "100000000000000000000": "1e20",
}
"""A number in a text, and what serde_json 1.0.87 prints for it."""

RFC8785_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}
"""RFC 8785, appendix B: the bits of a number, and its text."""


@pytest.mark.parametrize(("text", "expected"), SERDE_NUMBERS.items())
def test_numbers_are_printed_as_serde_json_prints_them(text: str, expected: str) -> None:
    assert canonical(parse(text)) == expected
    assert canonical(parse(f'{{"a": [{text}]}}')) == f'{{"a":[{expected}]}}'


@pytest.mark.parametrize(("bits", "expected"), RFC8785_NUMBERS.items())
def test_numbers_of_rfc_8785_are_those_of_its_appendix(bits: str, expected: str) -> None:
    number = float.fromhex(_hex(bits))
    assert canonical(number, "rfc8785") == expected


def _hex(bits: str) -> str:
    whole = int(bits, 16)
    sign, exponent, fraction = whole >> 63, (whole >> 52) & 0x7FF, whole & ((1 << 52) - 1)
    leading, power = (0, -1022) if exponent == 0 else (1, exponent - 1023)
    return f"{'-' if sign else ''}0x{leading}.{fraction:013x}p{power}"


def test_rfc_8785_sorts_by_utf_16_and_the_seed_by_code_point() -> None:
    value: JsonValue = {"\U0001f600": 1, "\ufb33": 2, "1": 3}
    assert canonical(value) == '{"1":3,"\ufb33":2,"\U0001f600":1}'
    assert canonical(value, "rfc8785") == '{"1":3,"\U0001f600":1,"\ufb33":2}'


def test_rfc_8785s_own_example_has_its_own_text() -> None:
    text = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical(parse(text), "rfc8785") == expected


@pytest.mark.parametrize("text", ["9007199254740992", "-9007199254740992", "[1, 123456789012345678901]"])
def test_rfc_8785_refuses_whole_numbers_that_floats_cannot_tell_apart(text: str) -> None:
    with pytest.raises(NotCanonical, match="2\\^53"):
        canonical(parse(text), "rfc8785")
    assert canonical(parse("9007199254740992.0"), "rfc8785") == "9007199254740992"


@pytest.mark.parametrize("form", FORMS)
def test_only_quote_backslash_and_controls_are_escaped_in_keys_too(form: str) -> None:
    controls = "".join(map(chr, range(0x20)))
    value: JsonValue = {'"\\/\u007f\u2028é' + controls: "\U0001f600\u00ad"}
    text = canonical(value, "rfc8785" if form == "rfc8785" else "seed")
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
    escaped = "".join(short.get(each, f"\\u{ord(each):04x}") for each in controls)
    assert text == '{"\\"\\\\/\u007f\u2028é' + escaped + '":"\U0001f600\u00ad"}'


def test_a_hash_names_its_kind_and_covers_the_canonical_text() -> None:
    value = parse('{ "b": "x", "a": [1.0, null] }')
    assert canonical(value) == '{"a":[1.0,null],"b":"x"}'
    # as sha256sum prints it for that text
    assert hash_of(value) == "sha256:4dcb6ca39353cce1f9f0578b9a6ee0268015b36dcbb493199ae6fb9d8b474e43"
    assert hash_of({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


REFUSED = {
    '{"a": 1, "a": 1}': ("appears twice", 1, 10),
    '{"a": 1,\n "\\u0061": 2}': ("appears twice", 2, 2),
    '[{"x": {}}, {"x": {"k": 1, "k": 1}}]': ("'k' appears twice", 1, 28),
    "[NaN]": ("NaN is not", 1, 2),
    "[1,\n Infinity]": ("Infinity is not", 2, 2),
    "-Infinity": ("-Infinity is not", 1, 1),
    "[1e400]": ("beyond the largest float", 1, 2),
    "9" * 309: ("beyond the largest float", 1, 1),
    "9" * 5000: ("beyond the largest float", 1, 1),
    '"\\ud800"': ("U\\+D800", 1, 2),
    '["\\udc00\\ud83d"]': ("U\\+DC00", 1, 3),
    '{"\\uD83D x": 1}': ("U\\+D83D", 1, 3),
    "[" * 128 + "]" * 128: ("deeper than 127", 1, 128),
    "[" * 100_000: ("deeper than 127", 1, 128),
    "[1,\n 2,": ("not JSON", 2, 4),
    "": ("not JSON", 1, 1),
    "{} x": ("not JSON", 1, 4),
    "\ufeff{}": ("not JSON", 1, 1),
    "'a'": ("not JSON", 1, 1),
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_readers_disagree_on_is_refused_at_its_place(text: str) -> None:
    message, line, column = REFUSED[text]
    with pytest.raises(NotCanonical, match=message) as refusal:
        parse(text)
    assert (refusal.value.line, refusal.value.column) == (line, column)


def test_bytes_that_are_not_utf_8_are_refused_at_their_place() -> None:
    with pytest.raises(NotCanonical, match="line 2, column 3: not UTF-8"):
        parse('["",\n"é'.encode() + b'\xff"]')


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "\ud800", 10**400])
def test_a_value_without_a_form_is_refused_with_its_place(form: str, value: JsonValue) -> None:
    with pytest.raises(NotCanonical) as refusal:
        canonical({"a": [1, value]}, "rfc8785" if form == "rfc8785" else "seed")
    assert refusal.value.loc == ("a", 1)


def test_whole_pairs_of_surrogates_are_one_character() -> None:
    assert parse('"\\ud83d\\ude00"') == "\U0001f600"
    assert parse('["\\\\ud800"]') == ["\\ud800"]


def test_whole_numbers_stay_apart_from_floats() -> None:
    assert [type(each) for each in _list(parse("[1, 1.0, -0, 1e2]"))] == [int, float, float, float]


def _list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def serde_float(number: float) -> str:
    """The pretty form of the ryu crate, from a number's shortest digits."""
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    exponent += len(digits) - len(text) if number else 0
    minus = "-" if sign else ""
    point = len(text) + exponent
    if number == 0:
        return f"{minus}0.0"
    if exponent >= 0 and point <= 16:
        return f"{minus}{text}{'0' * exponent}.0"
    if 0 < point <= 16:
        return f"{minus}{text[:point]}.{text[point:]}"
    if -5 < point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    mantissa = text if len(text) == 1 else f"{text[0]}.{text[1:]}"
    return f"{minus}{mantissa}e{point - 1}"


def oracle(value: JsonValue) -> str:
    """The seed's own routine, with keys escaped like any other text."""
    match value:
        case dict():
            pairs = sorted(value.items(), key=lambda pair: [ord(each) for each in pair[0]])
            return "{" + ",".join(f"{oracle(key)}:{oracle(each)}" for key, each in pairs) + "}"
        case list():
            return "[" + ",".join(map(oracle, value)) + "]"
        case bool() | None:
            return json.dumps(value)
        case int():
            return str(value) if -(2**63) <= value < 2**64 else serde_float(float(value))
        case float():
            return serde_float(value)
    return json.dumps(value, ensure_ascii=False)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_printed_as_serde_json_prints_it(number: float) -> None:
    assert canonical(number) == serde_float(number)


@settings(max_examples=40)
@given(values)
def test_every_value_has_the_text_of_the_seeds_routine(value: JsonValue) -> None:
    assert canonical(value) == oracle(value)


@settings(max_examples=40)
@given(values)
def test_a_canonical_text_is_read_back_to_itself(value: JsonValue) -> None:
    text = canonical(value)
    assert canonical(parse(text)) == text


@settings(max_examples=40)
@given(values, st.sampled_from([None, 2]), st.booleans())
def test_how_a_text_is_laid_out_and_escaped_changes_no_hash(
    value: JsonValue, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert hash_of(parse(text)) == hash_of(value)
    assert hash_of(parse(text.encode())) == hash_of(value)


@settings(max_examples=40)
@given(st.dictionaries(texts, values, max_size=6))
def test_each_value_of_a_canonical_line_is_a_piece_of_it(value: dict[str, JsonValue]) -> None:
    line = canonical(value).encode()
    event = canonical_object(line, 64)
    if event is None:
        assert any(
            abs(each) >= 2**63 for each in _numbers(value)
        )  # a float in place of a whole number, or the like
        return
    for key in event:
        assert piece_of(line, event, key) == canonical(value[key]).encode()


def _numbers(value: JsonValue) -> list[float]:
    if isinstance(value, dict):
        return [each for item in value.values() for each in _numbers(item)]
    if isinstance(value, list):
        return [each for item in value for each in _numbers(item)]
    return [value] if isinstance(value, int | float) else []


NOT_CANONICAL = (
    '{"a":1,"a":1}',
    '{"b":1,"a":1}',
    '{"a": 1}',
    '{"a":-0}',
    '{"a":1.50}',
    '{"a":18446744073709551616}',
    '{"a":1e400}',
    '{"a":NaN}',
    '{"a":"\\u0041"}',
    '{"a":"\\ud800"}',
    '{"a":"\\/"}',
    '{"a":1}\r',
    "[1]",
    "{",
    '{"a":' + "[" * 64 + "]" * 64 + "}",
)


@pytest.mark.parametrize("text", NOT_CANONICAL, ids=range(len(NOT_CANONICAL)))
def test_a_line_that_is_not_canonical_is_left_to_the_strict_reader(text: str) -> None:
    assert canonical_object(text.encode(), 64) is None


def test_a_number_that_is_read_again_is_the_same_number() -> None:
    found = parse("[-0, -0, 1.50, 1.50, 1e2, 1e2, 18446744073709551616, 18446744073709551616, 7, 7]")
    assert isinstance(found, list)
    assert [repr(each) for each in found[::2]] == [repr(each) for each in found[1::2]]
    assert [repr(each) for each in found[::2]] == ["-0.0", "1.5", "100.0", "18446744073709551616", "7"]
