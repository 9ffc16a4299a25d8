"""Canonical JSON: the one text of a value, and its hash. See docs/bundle.md.

The form `seed` is serde_json's: keys in the order of their code points, no blanks, `1.0` stays `1.0`, whole
numbers beyond 64 bits are floats. The form `rfc8785` is RFC 8785. A value without a canonical form is refused.
"""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from runward.config.bundle import CanonicalForm
from runward.config.json_value import JsonValue
from runward.config.problem import Location, dotted, quoted

MAX_DEPTH: Final = 127
"""How deeply objects and lists may be nested; serde_json reads no deeper."""
TOO_DEEP: Final = "nested too deeply"
HALF_A_PAIR: Final = "half of a surrogate pair is not a character"
BEYOND_FLOATS: Final = "a number beyond the largest float"
_MOST_DIGITS: Final = 309
"""A whole number with more digits is beyond the largest float."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
"""A string that is never closed is one token, too. Otherwise each quote in it would be tried as the beginning of one."""

_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class Refused(Exception):
    """Something in the text is refused; `first_fault` finds where."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class Fault(NamedTuple):
    """What is wrong, and the index of its first character."""

    at: int
    message: str


def integer_text(text: str) -> int | float:
    """A whole number as serde_json reads it."""
    # serde_json reads it as a float, because no whole number is both zero and negative. Hashes of the specification's
    # own program depend on it.
    if text == "-0":
        return -0.0
    # A text of millions of digits is refused by its length. To read it would take long.
    if len(text) > _MOST_DIGITS + 1:
        raise Refused(BEYOND_FLOATS)
    number = int(text)
    if len(text) >= _MOST_DIGITS:
        _refuse_beyond_floats(number)
    return number


def _refuse_beyond_floats(number: int) -> None:
    try:
        float(number)
    except OverflowError:
        raise Refused(BEYOND_FLOATS) from None


def first_fault(text: str, max_depth: int = MAX_DEPTH) -> Fault | None:
    """The first thing in a JSON text that a strict reader refuses."""
    # This reads the text once more, and only to find the place of what the fast reader refused.
    keys: list[set[str] | None] = []  # one for each open object (its keys) or list (None)
    awaits_key = False
    for token in _TOKEN.finditer(text):
        word, at = token.group(), token.start()
        match word:
            case "{" | "[":
                keys.append(set() if word == "{" else None)
                if len(keys) > max_depth:
                    return Fault(at, f"nested deeper than {max_depth} levels")
                awaits_key = word == "{"
            case "}" | "]":
                if not keys:
                    return None
                keys.pop()
                awaits_key = False
            case ",":
                awaits_key = bool(keys) and keys[-1] is not None
            case ":":
                awaits_key = False
            case _ if word[0] == '"' and not token.group(1):
                return None
            case _ if word[0] == '"':
                content = _content(word)
                if isinstance(content, Fault):
                    return content._replace(at=at + content.at)
                if awaits_key and keys[-1] is not None:
                    if content in keys[-1]:
                        return Fault(at, f"the key {quoted(content)} appears twice in one object")
                    keys[-1].add(content)
            case _ if (message := _fault_of_word(word)) is not None:
                return Fault(at, message)
    return None


def _content(literal: str) -> str | Fault:
    """The text of a string literal, or half of a surrogate pair in it."""
    parts: list[str] = []
    end = 1
    high: tuple[int, str] | None = None  # the first half of a pair, and where it began
    for escape in _ESCAPE.finditer(literal):
        if high is not None and (escape.start() != end or not _is_low(escape.group(1))):
            return _half(*high)
        parts.append(literal[end : escape.start()])
        end = escape.end()
        code = escape.group(1)
        if high is not None:
            parts.append(chr(0x10000 + ((int(high[1], 16) - 0xD800) << 10) + int(code, 16) - 0xDC00))
            high = None
        elif code is None:
            parts.append(_SHORT.get(escape.group()[1], escape.group()[1]))
        elif 0xD800 <= int(code, 16) <= 0xDBFF:
            high = (escape.start(), code)
        elif _is_low(code):
            return _half(escape.start(), code)
        else:
            parts.append(chr(int(code, 16)))
    if high is not None:
        return _half(*high)
    parts.append(literal[end:-1])
    return "".join(parts)


_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _is_low(code: str | None) -> bool:
    return code is not None and 0xDC00 <= int(code, 16) <= 0xDFFF


def _half(at: int, code: str) -> Fault:
    return Fault(at, f"half of a surrogate pair (U+{code.upper()}) is not a character")


def _fault_of_word(word: str) -> str | None:
    if word in ("NaN", "Infinity", "-Infinity"):
        return f"{word} is not a JSON number"
    if word in ("true", "false", "null"):
        return None
    try:
        if word.lstrip("-").isdecimal():
            integer_text(word)
        elif abs(float(word)) == float("inf"):
            return BEYOND_FLOATS
    except Refused:
        return BEYOND_FLOATS
    except ValueError:
        return None  # not a number at all: the JSON reader reports it
    return None


Form: TypeAlias = CanonicalForm

FORMS: Final[tuple[Form, ...]] = ("seed", "rfc8785")
LEAST: Final = -(2**63)
MOST: Final = 2**64 - 1
"""The whole numbers that serde_json keeps as whole numbers."""
MOST_EXACT: Final = 2**53 - 1
"""The largest whole number of RFC 8785."""
LONGEST_SEARCHED: Final = 4 << 20
"""The longest text, in characters, that is searched for the place of a refused value."""
_SHORT_NUMBER: Final = 24
_NUMBERS_KEPT: Final = 4096
_Number = TypeVar("_Number")
SIMPLE: Final = frozenset({str, bool, type(None), msgspec.Raw})
"""Types whose values have one text."""


class NotCanonical(ValueError):
    """A text or value that has no canonical form. `line` and `column` are places in a text, `loc` in a value."""

    def __init__(
        self, message: str, loc: Location = (), line: int | None = None, column: int | None = None
    ) -> None:
        self.message = message
        self.loc = loc
        self.line = line
        self.column = column
        place = dotted(loc) if line is None else f"line {line}, column {column}"
        super().__init__(f"{place}: {message}" if place else message)


def hash_of(value: JsonValue, form: Form = "seed") -> str:
    """`sha256:` and the lower-case hexadecimal SHA-256 of the canonical text. Raises `NotCanonical`."""
    return hash_of_text(canonical_bytes(value, form))


def hash_of_text(text: bytes | memoryview) -> str:
    """The hash of a value, given its canonical text."""
    return f"sha256:{sha256(text).hexdigest()}"


def canonical(value: JsonValue, form: Form = "seed") -> str:
    """The canonical text. Raises `NotCanonical`."""
    return canonical_bytes(value, form).decode()


def canonical_bytes(value: JsonValue, form: Form = "seed") -> bytes:
    """The canonical text as UTF-8. Raises `NotCanonical`."""
    try:
        return _rfc8785(value) if form == "rfc8785" else _seed(value)
    # Only a failure looks for its place.
    except UnicodeEncodeError as error:
        raise NotCanonical(
            f"half of a surrogate pair (U+{ord(error.object[error.start]):04X}) is not a character",
            _where_half_a_pair(value),
        ) from None
    except RecursionError:
        raise NotCanonical(TOO_DEEP) from None


def parse(text: str | bytes, max_depth: int = MAX_DEPTH) -> JsonValue:
    """The value of a JSON text. Raises `NotCanonical` for what JSON does not define or readers disagree about.

    That is: a key that appears twice, NaN, infinities, half of a surrogate pair, bytes that are not UTF-8.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            begins = error.object.rfind(b"\n", 0, error.start) + 1
            column = len(error.object[begins : error.start].decode()) + 1
            raise NotCanonical("not UTF-8", (), line, column) from None
    try:
        value: JsonValue = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        fault = first_fault(text, max_depth) if len(text) <= LONGEST_SEARCHED else None
        if fault is not None and fault.at < error.pos:
            raise _at(text, fault.at, fault.message) from None
        raise NotCanonical(f"not JSON: {error.msg}", (), error.lineno, error.colno) from None
    except Refused as refused:
        raise _refusal(text, max_depth, refused.message) from None
    except RecursionError:
        raise _refusal(text, max_depth, TOO_DEEP) from None
    # The reader itself accepts any depth that its stack allows, and halves of surrogate pairs.
    if _is_too_deep(text, value, max_depth):
        raise _refusal(text, max_depth, TOO_DEEP)
    if _has_half_a_pair(text, value):
        raise _refusal(text, max_depth, HALF_A_PAIR)
    return value


def _refusal(text: str, max_depth: int, message: str) -> NotCanonical:
    """What is refused, with its place if the text is short enough to search."""
    fault = first_fault(text, max_depth) if len(text) <= LONGEST_SEARCHED else None
    return NotCanonical(message) if fault is None else _at(text, fault.at, fault.message)


def _has_half_a_pair(text: str, value: JsonValue) -> bool:
    """Whether UTF-8 cannot hold the value. Only an escape can bring half of a surrogate pair into a text."""
    if "\\ud" not in text and "\\uD" not in text:
        return False
    try:
        _SEED(value)
    except UnicodeEncodeError:
        return True
    return False


def _is_too_deep(text: str, value: JsonValue, max_depth: int) -> bool:
    return text.count("[") + text.count("{") > max_depth and is_deeper_than(value, max_depth)


def is_deeper_than(value: JsonValue, max_depth: int) -> bool:
    """Whether objects and lists are nested more deeply than this."""
    # It goes level by level, which needs no stack, however deep the value is.
    level = [value]
    for _ in range(max_depth):
        level = [
            each
            for item in level
            if isinstance(item, dict | list)
            for each in (item.values() if isinstance(item, dict) else item)
            if isinstance(each, dict | list)
        ]
        if not level:
            return False
    return True


def _at(text: str, at: int, message: str) -> NotCanonical:
    return NotCanonical(message, (), text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise Refused("a key appears twice in one object")
    return table


def _float(text: str) -> float:
    number = float(text)
    if number - number != 0.0:
        raise Refused(BEYOND_FLOATS)
    return number


def _constant(text: str) -> JsonValue:
    raise Refused(f"{text} is not a JSON number")


class _Read(dict[str, _Number]):
    """Short numbers that were read, by their text: a long list of equal numbers is read without a call for each."""

    def __init__(self, read: Callable[[str], _Number]) -> None:
        self._read = read

    def __missing__(self, text: str) -> _Number:
        number = self._read(text)
        if len(text) <= _SHORT_NUMBER and len(self) < _NUMBERS_KEPT:
            self[text] = number
        return number


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_float=_Read(_float).__getitem__,
    parse_int=_Read(integer_text).__getitem__,
    parse_constant=_constant,
)
_SEED: Final = msgspec.json.Encoder(order="deterministic").encode


def _seed(value: JsonValue) -> bytes:
    """As serde_json prints it. Once the numbers are serde_json's, msgspec prints the rest the same way."""
    # msgspec writes NaN and infinities as null, and whole numbers beyond 64 bits in full. So those are looked for
    # first.
    return _SEED(value if has_plain_numbers(value) else _with_serde_numbers(value, ()))


def has_plain_numbers(value: JsonValue) -> bool:
    """Whether all numbers are finite, and whole ones within 64 bits."""
    waiting: list[list[JsonValue] | dict[str, JsonValue]] = [[value]]
    while waiting:
        container = waiting.pop()
        items = container.values() if isinstance(container, dict) else container
        if SIMPLE.issuperset(map(type, items)):
            continue
        for item in items:
            if type(item) in SIMPLE:
                continue
            if isinstance(item, dict | list):
                waiting.append(item)
            elif isinstance(item, int | float) and not is_plain_number(item):
                return False
    return True


def is_plain_number(number: float) -> bool:
    """Whether it is finite, and if it is whole, within 64 bits."""
    return LEAST <= number <= MOST if isinstance(number, int) else number - number == 0.0


def _with_serde_numbers(value: JsonValue, loc: Location) -> JsonValue:
    """A copy in which whole numbers beyond 64 bits are floats, as serde_json reads them."""
    match value:
        case dict():
            return {key: _with_serde_numbers(each, (*loc, key)) for key, each in value.items()}
        case list():
            return [_with_serde_numbers(each, (*loc, index)) for index, each in enumerate(value)]
        case int() if not LEAST <= value <= MOST:
            try:
                return float(value)
            except OverflowError:
                raise NotCanonical(BEYOND_FLOATS, loc) from None
        case float() if value - value != 0.0:
            raise NotCanonical(f"{value} is not a JSON number", loc)
    return value


def as_written(value: JsonValue) -> JsonValue:
    """What a text of RFC 8785 was written from: there, floats from 2^53 up to 1e21 look like whole numbers.

    A whole number that is not the text of a float stays as it is, so it is refused.
    """
    match value:
        case dict():
            return {key: as_written(each) for key, each in value.items()}
        case list():
            return [as_written(each) for each in value]
        case int() if MOST_EXACT < abs(value) < 10**21:
            number = float(value)
            return number if canonical(number, "rfc8785") == str(value) else value
    return value


def _rfc8785(value: JsonValue) -> bytes:
    # Few bundles are in this form, so only they pay for the import.
    import rfc8785

    try:
        return rfc8785.dumps(value)
    except RecursionError:
        raise
    except rfc8785.CanonicalizationError as error:
        if isinstance(error.__cause__, UnicodeEncodeError):
            raise error.__cause__ from None
        fault = _outside_rfc8785(value, ())
        raise fault if fault is not None else NotCanonical(str(error)) from None


def _outside_rfc8785(value: JsonValue, loc: Location) -> NotCanonical | None:
    """The first number that RFC 8785 has no form for."""
    items: list[tuple[str | int, JsonValue]] = []
    match value:
        case dict():
            items = [(key, each) for key, each in value.items()]
        case list():
            items = [(index, each) for index, each in enumerate(value)]
        case float() if value - value != 0.0:
            return NotCanonical(f"{value} is not a JSON number", loc)
        case int() if abs(value) > MOST_EXACT:
            return NotCanonical("RFC 8785 has no form for a whole number beyond 2^53 - 1", loc)
    faults = (_outside_rfc8785(each, (*loc, key)) for key, each in items)
    return next((each for each in faults if each is not None), None)


def _where_half_a_pair(value: JsonValue) -> Location:
    """The place of the first text or key that UTF-8 cannot hold."""
    waiting: list[tuple[Location, JsonValue]] = [((), value)]
    while waiting:
        loc, item = waiting.pop()
        if isinstance(item, str):
            if not _is_whole(item):
                return loc
        elif isinstance(item, dict):
            if any(not _is_whole(key) for key in item):
                return loc
            waiting += [((*loc, key), each) for key, each in reversed(item.items())]
        elif isinstance(item, list):
            waiting += [((*loc, index), item[index]) for index in range(len(item) - 1, -1, -1)]
    return ()


def _is_whole(text: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in text)


_DECODE: Final = msgspec.json.Decoder().decode


def canonical_object(line: bytes, max_depth: int) -> dict[str, JsonValue] | None:
    """The object on the line if the line is its canonical text in the seed's form, else None."""
    try:
        # If writing what was read gives the same line, reading lost nothing: no key is there twice, and no number was
        # written differently. So no strict reader is needed, and nothing is written again for its hash.
        value: JsonValue = _DECODE(line)
        if not isinstance(value, dict) or _SEED(value) != line:
            return None
    except (ValueError, RecursionError):
        return None  # the strict reader reports what is wrong with it
    return value if _is_plain(value, max_depth) else None


def _is_plain(value: dict[str, JsonValue], max_depth: int) -> bool:
    """Whether its numbers are plain, and it is not nested too deeply: one walk tells both."""
    level: list[dict[str, JsonValue] | list[JsonValue]] = [value]
    for _ in range(max_depth):
        below: list[dict[str, JsonValue] | list[JsonValue]] = []
        for container in level:
            items = container.values() if isinstance(container, dict) else container
            if SIMPLE.issuperset(map(type, items)):
                continue
            for item in items:
                if type(item) in SIMPLE:
                    continue
                if isinstance(item, dict | list):
                    below.append(item)
                elif isinstance(item, int | float) and not is_plain_number(item):
                    return False
        if not below:
            return True
        level = below
    return False


def piece_of(line: bytes, event: dict[str, JsonValue], key: str) -> memoryview:
    """The canonical text of the value of `key`, as a view into the canonical line, whose keys are in order."""
    items, index = list(event.items()), list(event).index(key)
    before, after = dict(items[:index]), dict(items[index + 1 :])
    name = _SEED(key)
    # without its closing or opening brace, each ends or begins with a comma if it has any content
    begins = len(_SEED(before)) - 1 + bool(before) + len(name) + 1
    ends = len(line) - (len(_SEED(after)) - 1 + bool(after))
    return memoryview(line)[begins:ends]
