import re
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.path_rule import PathRuleError, relative_parts


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("review.md", ("review.md",)),
        ("a/b/c.txt", ("a", "b", "c.txt")),
        ("./a", ("a",)),
        ("a//b", ("a", "b")),
        ("a/./b/", ("a", "b")),
        ("...", ("...",)),
        ("..a/b..", ("..a", "b..")),
        (" ", (" ",)),
        ("a\nb", ("a\nb",)),
        ("日本/é", ("日本", "é")),
    ],
)
def test_a_relative_path_is_its_parts(path: str, parts: tuple[str, ...]) -> None:
    assert relative_parts(path) == parts


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is empty"),
        ("/etc/passwd", "absolute"),
        ("//etc", "absolute"),
        ("..", "'..'"),
        ("a/../b", "'..'"),
        ("a/..", "'..'"),
        (".", "directory itself"),
        ("./", "directory itself"),
        ("././.", "directory itself"),
        ("*.md", "glob"),
        ("a?", "glob"),
        ("[a]", "glob"),
        ("a]", "glob"),
        ("a\0b", "NUL"),
        ("a\ud800", "Unicode"),
        ("x" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
        ("a/" * 512 + "b", "1024 bytes"),
        ("./" * 600 + "b", "1024 bytes"),
    ],
)
def test_a_path_that_breaks_the_rule_is_refused_with_the_reason_and_a_fix(path: str, why: str) -> None:
    with pytest.raises(PathRuleError, match=re.escape(why)) as refused:
        relative_parts(path)
    assert refused.value.fix


_SEGMENTS = st.sampled_from([".", "..", "", "a", "b.md", "...", "*", "c d"])


def _is_refused_by_the_adr(path: str) -> bool:
    """ADR-0029's `_safe_join`, as far as the text goes."""
    return (
        not path
        or path.startswith("/")
        or any(char in "*?[]" for char in path)
        or any(part in ("..", "") for part in PurePosixPath(path).parts)
    )


@given(st.lists(_SEGMENTS, max_size=6).map("/".join) | st.text(max_size=20))
def test_the_rule_is_the_adrs_but_for_the_directory_itself_and_what_no_file_can_be_called(path: str) -> None:
    try:
        parts = relative_parts(path)
    except PathRuleError as error:
        ours = any(why in str(error) for why in ("directory itself", "NUL", "Unicode"))
        assert ours or _is_refused_by_the_adr(path)
    else:
        assert not _is_refused_by_the_adr(path)
        assert parts == PurePosixPath(path).parts
        assert parts
