import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.config.problem import Location, Place
from runward.config.toml_document import read_toml

TEXT = '''\
# a comment with a = 1 in it
state_dir = "s # no comment"   # x
a.b."c d" = [1, "x]", """
not = "a key"
\\""" ]""", {q = 1, 'r' = [[], {}]}]
"quoted \\u0041" = 'C:\\'

[[roots]]
name = \'\'\'
[no.table]
\'\'\'\'
  [roots.sub]
  x = 2026
[[roots]]
path = "b" # [c]
  [[roots.inner]]
  y = 1
  [[roots.inner]]
  y = 2
[ watch . 'deep' ]
step=5
[other.empty]
'''


def place_of(text: str, loc: Location, key: bool = False) -> Place | None:
    parsed = read_toml(text, "f.toml")
    assert parsed.value is not None, parsed.problems
    return parsed.value.place(loc, key)


@pytest.mark.parametrize(
    ("loc", "key", "place"),
    [
        (("state_dir",), True, (2, 1)),
        (("state_dir",), False, (2, 13)),
        (("a", "b", "c d"), True, (3, 5)),
        (("a", "b", "c d", 0), False, (3, 14)),
        (("a", "b", "c d", 2), False, (3, 23)),
        (("a", "b", "c d", 3, "q"), True, (5, 13)),
        (("a", "b", "c d", 3, "r"), True, (5, 20)),
        (("a", "b", "c d", 3, "r", 1), False, (5, 31)),
        (("quoted A",), True, (6, 1)),
        (("quoted A",), False, (6, 19)),
        (("roots",), True, (8, 3)),
        (("roots", 0), False, (8, 1)),
        (("roots", 0, "name"), True, (9, 1)),
        (("roots", 0, "sub"), True, (12, 10)),
        (("roots", 0, "sub", "x"), False, (13, 7)),
        (("roots", 1), False, (14, 1)),
        (("roots", 1, "path"), True, (15, 1)),
        (("roots", 1, "inner", 1, "y"), True, (19, 3)),
        (("watch",), True, (20, 3)),
        (("watch", "deep", "step"), False, (21, 6)),
        (("other", "empty"), True, (22, 8)),
        (("roots", 1, "name"), False, (14, 1)),
        (("nowhere",), False, (1, 1)),
    ],
)
def test_a_key_or_value_is_found_at_its_place(loc: Location, key: bool, place: Place) -> None:
    assert place_of(TEXT, loc, key) == place


def test_what_tomllib_reads_is_what_the_document_holds() -> None:
    parsed = read_toml(TEXT, "f.toml")
    assert parsed.value is not None
    assert parsed.value.root == tomllib.loads(TEXT)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a = 1\na = 2\n", "f.toml:2:6: is not TOML: cannot overwrite a value"),
        ("a\n", "f.toml:1:2: is not TOML: expected '=' after a key in a key/value pair"),
        ('a = "x', "f.toml:1:7: is not TOML: unterminated string"),
        ("a = 30s\n", "f.toml:1:7: is not TOML: expected newline or end of document after a statement"),
        ("a = 2026-01-02\n", "f.toml:1:5: a: must be plain data, not a date"),
        ("[b]\na = [1, 07:30:00]\n", "f.toml:2:9: b.a[1]: must be plain data, not a time"),
        ("a = nan\n", "f.toml:1:5: a: is not a finite number"),
        ("a = 1e999\n", "f.toml:1:5: a: is not a finite number"),
        ("a = 9223372036854775808\n", "f.toml:1:5: a: is a whole number of more than 64 bits"),
        ("a = " + "9" * 5000, "f.toml: a number here is out of bounds"),
        ("a = " + "[" * 60 + "]" * 60, "f.toml: a: is nested more than 50 deep"),
        ("a = " + "[" * 20_000, "f.toml: is nested too deeply to be read"),
        (".".join("a" * 2000) + " = 1", "f.toml:1: a key is nested more than 50 deep"),
        ("a = 1\0\n", "f.toml:1:6: is not TOML"),
        ("#" * ((1 << 20) + 1), "f.toml: is larger than 1 MiB"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_refused_is_said_with_its_place_and_its_fix(text: str, complaint: str) -> None:
    parsed = read_toml(text, "f.toml")
    assert parsed.value is None
    assert all(problem.fix for problem in parsed.problems)
    assert any(problem.render().startswith(complaint) for problem in parsed.problems), parsed.problems


def test_the_byte_order_mark_of_a_windows_editor_is_passed_over() -> None:
    assert place_of("\ufeffa = 1\r\nb = 2\r\n", ("b",)) == (2, 5)


keys = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)
values = st.recursive(
    st.booleans()
    | st.integers(-(1 << 40), 1 << 40)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
blank_lines = st.lists(st.sampled_from(["", "# [x] = 'y", "\t"]), max_size=2)
paddings = st.sampled_from(["", " ", "\t "])


class Writer:
    """Writes TOML and notes where it put each key and value: the model that the scan is held against."""

    def __init__(self, data: st.DataObject) -> None:
        self.text = ""
        self.expected: dict[tuple[Location, bool], Place] = {}
        self._data = data

    def document(self) -> None:
        names = self._data.draw(st.lists(keys, max_size=4, unique=True))
        for name in names[:1]:
            self._statement((name,), self._data.draw(values))
        for name in names[1:]:
            if self._data.draw(st.booleans()):
                self._header("[", (name,), name)
                self._statements((name,))
                continue
            for index in range(self._data.draw(st.integers(1, 3))):
                self.text += "".join(line + "\n" for line in self._data.draw(blank_lines))
                self._note((name, index), False)
                self._header("[[", (name, index), name)
                self._statements((name, index))

    def _statements(self, table: Location) -> None:
        for name in self._data.draw(st.lists(keys, max_size=3, unique=True)):
            self._statement((*table, name), self._data.draw(values))

    def _header(self, bracket: str, loc: Location, name: str) -> None:
        self.text += bracket + self._data.draw(paddings)
        if len(loc) == 1:
            self._note(loc, True)
        closing = "]" * len(bracket)
        self.text += f"{self._key(name)}{closing} # end\n"

    def _statement(self, loc: Location, value: JsonValue) -> None:
        self.text += "".join(line + "\n" for line in self._data.draw(blank_lines)) + self._data.draw(paddings)
        self._assignment(loc, value)
        self.text += self._data.draw(st.sampled_from(["\n", " # c = 1\n", "\r\n"]))

    def _assignment(self, loc: Location, value: JsonValue) -> None:
        self._note(loc, True)
        self.text += f"{self._key(str(loc[-1]))}{self._data.draw(paddings)}={self._data.draw(paddings)}"
        self._value(loc, value)

    def _value(self, loc: Location, value: JsonValue) -> None:
        self._note(loc, False)
        if isinstance(value, dict):
            self.text += "{"
            for index, (key, item) in enumerate(value.items()):
                self.text += ", " if index else " "
                self._assignment((*loc, key), item)
            self.text += " }"
        elif isinstance(value, list):
            self.text += "["
            for index, item in enumerate(value):
                self.text += self._data.draw(st.sampled_from(["", " ", "\n  ", "# ]\n"]))
                self._value((*loc, index), item)
                self.text += ","
            self.text += self._data.draw(st.sampled_from(["]", "\n]"]))
        elif isinstance(value, str):
            self.text += self._string(value)
        else:
            self.text += json.dumps(value)

    def _string(self, value: str) -> str:
        quoted = _basic_string(value)
        choices = [quoted, f'""{quoted}""']
        if value.isprintable() and "'" not in value:
            choices += [f"'{value}'", f"'''\n{value}'''", f"''''a{value}'''''"]
        return self._data.draw(st.sampled_from(choices))

    def _key(self, name: str) -> str:
        bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        return name if bare and self._data.draw(st.booleans()) else _basic_string(name)

    def _note(self, loc: Location, key: bool) -> None:
        line_start = self.text.rfind("\n") + 1
        self.expected[loc, key] = (self.text.count("\n") + 1, len(self.text) - line_start + 1)


def _basic_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


@given(st.data())
def test_every_key_and_value_of_any_document_is_found_where_it_was_written(data: st.DataObject) -> None:
    writer = Writer(data)
    writer.document()
    parsed = read_toml(writer.text, "f.toml")
    assert parsed.value is not None, (writer.text, parsed.problems)
    found = {where: parsed.value.place(*where) for where in writer.expected}
    assert found == writer.expected, writer.text


@given(st.text() | st.text(alphabet="ab=.[]{}\"'#,\n\\-0:T \ud800\ufeff", max_size=40))
def test_any_text_is_a_document_or_complaints(text: str) -> None:
    parsed = read_toml(text, "f.toml")
    assert (parsed.value is None) == bool(parsed.errors)


@pytest.mark.parametrize(
    "text",
    [
        "b = 1\n" + ".".join("a" * 30_000) + " = 1",
        "b = 1\n[" + ".".join("a" * 30_000) + "]",
        "b = 1\nc = {" + " . ".join("a" * 30_000) + " = 1}",
        "b = 1\nc = {x = 1, " + ".".join(["'a'", '"b"'] * 15_000) + " = 1}",
    ],
)
def test_a_key_of_very_many_parts_is_refused_before_they_are_read(text: str) -> None:
    """`tomllib` takes the square of their number, which would be half an hour for a file of one MiB."""
    (problem,) = read_toml(text, "f.toml").problems
    assert (problem.line, problem.message) == (2, "a key is nested more than 50 deep")


def test_a_key_that_is_not_nested_too_deeply_is_read() -> None:
    assert read_toml(".".join("a" * 50) + " = 1", "f.toml").value is not None
    assert read_toml('"' + ".".join("a" * 90) + '" = 1', "f.toml").value is not None
    assert read_toml("b = '" + ".".join("a" * 90) + "'", "f.toml").value is not None
