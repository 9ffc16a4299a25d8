import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.glob_rule import (
    GlobError,
    check_path_glob,
    check_text_glob,
    escaped,
    path_matches,
    text_matches,
)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("codex", "codex", True),
        ("codex", "Codex", False),
        ("code", "codex", False),
        ("claude-*", "claude-code", True),
        ("*review*", "please\nreview a/b", True),
        ("?", "é", True),
        ("[abc]", "b", True),
        ("[!abc]", "b", False),
        ("[a-c]", "b", True),
        ("[]a]", "]", True),
        ("[[]", "[", True),
        ("[!]]", "]", False),
        ("*", "", True),
        ("a.c", "abc", False),
        ("a\\*", "a\\b", True),
    ],
)
def test_a_text_matches_a_glob_as_a_whole(pattern: str, text: str, matches: bool) -> None:
    check_text_glob(pattern)
    assert text_matches(text, pattern) is matches


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/srv/app", "/srv/app", True),
        ("/srv/app", "/srv/app/", True),
        ("/srv/app", "/srv/App", False),
        ("/srv/app", "/srv/app/x", False),
        ("/srv/*", "/srv/app", True),
        ("/srv/*", "/srv/.hidden", True),
        ("/srv/*", "/srv/app/x", False),
        ("/srv/*", "/srv", False),
        ("/srv/app/**", "/srv/app", True),
        ("/srv/app/**", "/srv/app/x/y", True),
        ("/srv/app/**", "/srv/apple", False),
        ("/srv/app/**", "/srv", False),
        ("/srv/**/test", "/srv/test", True),
        ("/srv/**/test", "/srv/a/b/test", True),
        ("/srv/**/test", "/srv/a/test/b", False),
        ("/**/app", "/app", True),
        ("/**/app", "/a/b/app", True),
        ("/**/a/**/b/**", "/x/a/a/y/b", True),
        ("/**", "/", True),
        ("/", "/", True),
        ("/srv/[!a]*", "/srv/app", False),
        ("/srv/a[/]b", "/srv/a/b", False),
        ("/srv/app/**", "/srv/app/../secret", False),
        ("/srv/secret", "/srv/app/../secret", True),
        ("/srv/app", "//srv/./app", True),
        ("/srv/app", "srv/app", False),
        ("/**", "", False),
    ],
)
def test_a_path_matches_a_glob_name_by_name(pattern: str, path: str, matches: bool) -> None:
    assert path_matches(path, pattern) is matches


@pytest.mark.parametrize(
    ("pattern", "why", "fix"),
    [
        ("[", "'[' that is never closed", "[[]"),
        ("a[b", "'[' that is never closed", "[[]"),
        ("[]", "'[' that is never closed", "[[]"),
        ("[!]", "'[' that is never closed", "[[]"),
        ("[a]x[b", "'[' that is never closed", "[[]"),
        ("[z-a]", "empty range in it: 'z-a'", "lower end first"),
        ("[a-c9-0]", "empty range in it: '9-0'", "lower end first"),
    ],
)
def test_what_is_no_glob_is_refused_with_its_fix(pattern: str, why: str, fix: str) -> None:
    for check in (check_text_glob, check_path_glob):
        with pytest.raises(GlobError, match=re.escape(why)) as refused:
            check(pattern)
        assert fix in refused.value.fix


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("/a/../b", "'..'"),
        ("..", "'..'"),
        ("/a/**b", "'**' next to other characters: '**b'"),
        ("/a/***", "'**' next to other characters: '***'"),
        ("/a[/]b", "'[' that is never closed"),
    ],
)
def test_what_is_no_glob_of_a_path_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(GlobError, match=re.escape(why)):
        check_path_glob(pattern)


names = st.sampled_from(["a", "b", "ab", "*", "?", "a*", "[ab]", "[!a]", "**"])
paths = st.lists(st.sampled_from(["a", "b", "ab", "ba", "c"]), max_size=5)


def expression(pattern: list[str]) -> str:
    """The glob as a regular expression over the path, every name led by a slash: a plain model, not made for hostile texts."""
    said = {"*": "[^/]*", "?": "[^/]", "a*": "a[^/]*", "[ab]": "[ab]", "[!a]": "[^/a]"}
    return "".join("(/[^/]+)*" if name == "**" else f"/{said.get(name, name)}" for name in pattern)


@given(st.lists(names, max_size=5), paths)
def test_paths_match_as_the_plain_model_says(pattern: list[str], path: list[str]) -> None:
    written = "/" + "/".join(pattern)
    check_path_glob(written)
    expected = re.fullmatch(expression(pattern), "".join(f"/{name}" for name in path)) is not None
    assert path_matches("/" + "/".join(path), written) is expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_an_escaped_text_is_a_glob_of_itself_alone(text: str) -> None:
    check_text_glob(escaped(text))
    assert text_matches(text, escaped(text))
    assert not text_matches(text + "x", escaped(text))


@given(st.text("[]!-^*?abc\\&~|/", max_size=12), st.text("[]!-^abc\\&~|", max_size=4))
def test_any_text_is_a_glob_or_refused_and_matching_never_raises(pattern: str, text: str) -> None:
    with suppress(GlobError):
        check_text_glob(pattern)
    assert text_matches(text, pattern) in (True, False)
    assert path_matches(f"/{text}", f"/{pattern}") in (True, False)


def test_a_hostile_prompt_or_directory_costs_no_time_to_speak_of() -> None:
    begun = time.process_time()
    assert not text_matches("a" * 5000, "*a" * 30 + "b")
    assert not path_matches("/a" * 2000, "/**/a" * 30 + "/b")
    assert time.process_time() - begun < 2.0
