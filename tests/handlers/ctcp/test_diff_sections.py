"""Hunks of a patch: what they add is counted, and each must be as long as it states."""

import difflib

from hypothesis import given
from hypothesis import strategies as st

from runward.handlers.ctcp.diff_sections import DiffFault, FileDiff, read_diff

LINES = st.lists(st.sampled_from(["", "a", "b", " c", "+d", "-e", "\\f", "@@ -1 +1 @@"]), max_size=12)


def patch(hunks: list[str]) -> bytes:
    return "\n".join(["diff --git a/f b/f", "--- a/f", "+++ b/f", *hunks, ""]).encode()


@given(before=LINES, after=LINES, context=st.integers(0, 3), is_unended=st.booleans())
def test_the_added_lines_of_a_patch_are_counted(
    before: list[str], after: list[str], context: int, is_unended: bool
) -> None:
    hunks = list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
    if not hunks:
        return
    if is_unended:
        hunks.append("\\ No newline at end of file")
    matcher = difflib.SequenceMatcher(None, before, after)
    added = sum(end - begin for kind, _, _, begin, end in matcher.get_opcodes() if kind != "equal")
    (diff,) = read_diff(patch(hunks))
    assert isinstance(diff, FileDiff)
    assert diff.added == added


@given(
    body=st.lists(st.sampled_from(["", " a", "\r", "+b", "-c", "\\ No newline at end of file"]), max_size=12),
    more_old=st.integers(-2, 2),
    more_new=st.integers(-2, 2),
)
def test_a_hunk_is_as_long_as_it_states_or_refused(body: list[str], more_old: int, more_new: int) -> None:
    context = 1 + sum(line[:1] in ("", " ", "\r") for line in body)
    old, new = context + body.count("-c"), context + body.count("+b")
    stated = max(0, old + more_old), max(0, new + more_new)
    hunks = ["@@ -1 +1 @@", "-a", "+b", f"@@ -1,{stated[0]} +1,{stated[1]} @@", *body, " end"]
    (outcome,) = read_diff(patch(hunks))
    if stated == (old, new):
        assert isinstance(outcome, FileDiff)
        assert outcome.added == 1 + body.count("+b")
    else:
        assert isinstance(outcome, DiffFault)
        assert outcome.rule == "hunk"
