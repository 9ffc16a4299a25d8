"""PR_SUMMARY.md: its sections, and that nothing an agent writes changes them."""

import re

from hypothesis import given
from hypothesis import strategies as st

from runward.handlers.bundle.summary import (
    Failure,
    Summary,
    Verified,
    code,
    dump_summary,
    load_summary,
    names_session,
    plain,
    summary_text,
)
from runward.handlers.model.bundle import Cost, FileEdit

WHOLE = Summary(
    "sess_abc123",
    ("Fixed authentication bug",),
    (FileEdit("src/auth.rs", 15), FileEdit("x", None)),
    (
        Verified("cargo test", 0, 24, 24),
        Verified("mypy", 1, None, None),
        Verified("make check", None, None, None),
    ),
    0.92,
    42,
    332.4,
    12.5,
    11.5,
    (15234, 8921),
    Cost(750, "msats"),
    Failure("it broke", ("try again",)),
)

TEXT = """\
# PR Summary

## Changes Made
- Fixed authentication bug

## Files Modified
- `src/auth.rs` (15 lines changed)
- `x` (unknown lines changed)

## Verification
- `cargo test`: PASS (24/24 tests)
- `mypy`: FAIL
- `make check`: unknown

## Confidence: 0.92

## Session
- ID: sess_abc123
- Issue: #42
- Duration: 5m 32s

## Performance
- APM: 12.5
- sAPM: 11.5

## Cost
- Tokens: 15,234 in / 8,921 out
- Cost: 750 msats

## If Failed
- Root cause: it broke
- Suggested next steps: try again
"""


def test_the_sections_stand_in_their_order() -> None:
    assert summary_text(WHOLE) == TEXT


def test_what_nobody_knows_is_unknown_and_what_is_empty_is_none() -> None:
    text = summary_text(Summary("a", (), (), (), None, None, 3.0, None, None))
    assert text.count("- none\n") == 3
    assert "## Confidence: unknown" in text
    assert "- Issue: none\n- Duration: 3s" in text
    assert text.endswith("- APM: unknown\n- sAPM: unknown\n\n## Cost\n- Tokens: unknown\n- Cost: unknown\n")


def test_an_estimate_says_that_it_is_one() -> None:
    known = Summary("a", (), (), (), None, None, 3.0, None, None, estimate="$0.50 at list prices of 2026-11")
    assert summary_text(known).endswith("- Cost: $0.50 at list prices of 2026-11, an estimate\n")


def test_what_is_stored_is_read_again() -> None:
    assert load_summary(dump_summary(WHOLE)) == WHOLE


hostile = st.text() | st.sampled_from(
    [
        "# Heading",
        "- item\n## Cost\n- Cost: 0",
        "`x`",
        "``",
        "<script>",
        "[a](b)",
        "\x1b[31m",
        "a\u202eb",
        "1. x",
        "~~~",
        "two  spaces",
        "x" * 5000,
    ]
)


@given(hostile, hostile, hostile, hostile, hostile, hostile)
def test_no_value_adds_a_line_a_control_character_or_markup(
    change: str, path: str, command: str, session_id: str, cause: str, step: str
) -> None:
    summary = WHOLE._replace(
        session_id=session_id,
        changes=(change,),
        files=(FileEdit(path, 1),),
        verification=(Verified(command, 0, None, None),),
        failure=Failure(cause, (step,)),
    )
    text = summary_text(summary)
    assert len(text.splitlines()) == len(TEXT.splitlines()) - 3
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in TEXT.splitlines() if line.startswith("#")
    ]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    for each in (change, session_id, cause, step):
        assert not re.search(r"(?<!\\)[<>\[\]]", plain(each))
    assert names_session(text, session_id)


def test_nobody_is_mentioned_and_nothing_becomes_a_link() -> None:
    text = summary_text(
        WHOLE._replace(
            changes=("@everyone see https://evil.example/x, www.evil.example, mailto:a@b.example, #12, GH-7",)
        )
    )
    (line,) = [each for each in text.splitlines() if "everyone" in each]
    assert not re.search(r"@\w|://|www\.|mailto:\w|#\d|GH-\d", line)
    assert (
        line.replace("\u200b", "")
        == "- @everyone see https://evil.example/x, www.evil.example, mailto:a@b.example, \\#12, GH-7"
    )


@given(st.text(min_size=1))
def test_code_ends_where_its_value_ends(text: str) -> None:
    said = code(text)
    fence = re.match("`+", said)
    assert fence is not None
    inner = said[len(fence[0]) : len(said) - len(fence[0])]
    assert fence[0] not in inner


@given(st.from_regex(r"[A-Za-z0-9._:-]{1,40}", fullmatch=True))
def test_the_session_is_found_again_in_the_summary(session_id: str) -> None:
    assert names_session(summary_text(WHOLE._replace(session_id=session_id)), session_id)


def test_files_that_git_could_not_list_are_unknown_and_not_none() -> None:
    for files in ((), WHOLE.files):
        text = summary_text(WHOLE._replace(files=files, lacks_untracked=True))
        section = text.partition("## Files Modified\n")[2].partition("\n\n")[0].splitlines()
        assert section[-1] == "- files that git does not track: unknown"
        assert len(section) == len(files) + 1
