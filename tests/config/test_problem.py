import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.problem import Complaint, Parsed, Problem, dotted, nearest, printable, quoted


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("a.toml", 3, 9, "is wrong", "fix it"), "a.toml:3:9: is wrong (fix it)"),
        (Problem("a.toml", None, None, "is wrong", None), "a.toml: is wrong"),
        (Problem("a.toml", 3, 9, "is odd", None, "warning"), "a.toml:3:9: warning: is odd"),
    ],
)
def test_a_problem_reads_as_file_line_column_message_and_fix(problem: Problem, text: str) -> None:
    assert problem.render() == text


@given(st.text(), st.text(), st.text())
def test_a_rendered_problem_is_one_line_that_steers_no_terminal(file: str, message: str, fix: str) -> None:
    assert Problem(file, 1, 1, message, fix).render().isprintable()


def test_printable_shows_what_it_escapes() -> None:
    assert printable("a\x1b[2Jb\nc\u202ed") == "a\\x1b[2Jb\\nc\\u202ed"


@pytest.mark.parametrize(
    ("loc", "text"),
    [
        ((), ""),
        (("artifacts", "expected", 0, "path"), "artifacts.expected[0].path"),
        (("a b", "c\n"), "'a b'.'c\\n'"),
    ],
)
def test_a_location_reads_as_people_write_it(loc: tuple[str | int, ...], text: str) -> None:
    assert dotted(loc) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a'b", '"a\'b"'),
        (True, "true"),
        (3, "3"),
        (0.5, "0.5"),
        (None, "nothing"),
        ([1], "a list"),
        (1 << 70, "1.18059162071741e+21"),
    ],
)
def test_a_foreign_value_is_quoted_in_the_words_of_those_who_wrote_it(value: object, text: str) -> None:
    assert quoted(value) == text


@given(st.text())
def test_a_quoted_text_is_short_and_printable(text: str) -> None:
    assert quoted(text).isprintable()
    assert len(quoted(text)) <= 61 * 10 + 2


def test_errors_and_warnings_are_told_apart() -> None:
    error, warning = Problem("f", 1, 1, "e", None), Problem("f", 1, 1, "w", None, "warning")
    parsed = Parsed[int](None, (warning, error))
    assert (parsed.errors, parsed.warnings) == ((error,), (warning,))


def test_a_complaint_is_led_by_the_name_of_its_value() -> None:
    problem = Complaint(("watch", "step"), "is wrong", "fix").problem("f", (2, 3))
    assert problem == Problem("f", 2, 3, "watch.step: is wrong", "fix")


@pytest.mark.parametrize(
    ("word", "guess"), [("timout", "timeout"), ("TIMEOUT!", None), ("zzz", None), ("", None)]
)
def test_the_nearest_known_word_is_suggested_or_none(word: str, guess: str | None) -> None:
    assert nearest(word, ("timeout", "command")) == guess


@pytest.mark.parametrize("digits", [310, 400, 5000])
def test_a_number_that_is_no_float_can_be_quoted(digits: int) -> None:
    assert quoted(10**digits) == quoted(-(10**digits)) == "a number of more than 300 digits"
