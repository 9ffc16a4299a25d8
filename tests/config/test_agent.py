import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.agent import AgentProfile, read_agent
from runward.config.contract import ExpectedArtifact

FILE = "agents/reviewer.md"


def test_the_adrs_own_profile_is_read_without_a_word() -> None:
    text = """\
---
name: reviewer
model: codex/gpt-5.5
artifact_defaults:
  expected:
    - id: report
      path: report.md
      required: false
---

# Reviewer agent body here…
---
not: read
"""
    parsed = read_agent(text, FILE)
    assert parsed.problems == ()
    assert parsed.value == AgentProfile(
        "reviewer", "codex/gpt-5.5", (ExpectedArtifact("report", "report.md", required=False),)
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Reviewer\n",
        "---\n---\n",
        "---\n\n---\nbody",
        "text\n---\nname: x\n---\n",
        "\ufeff---\r\ndescription: x\r\n---\r\n",
    ],
)
def test_a_profile_that_declares_nothing_is_fine(text: str) -> None:
    parsed = read_agent(text, FILE)
    assert (parsed.value, parsed.problems) == (AgentProfile("reviewer"), ())


def test_keys_of_other_tools_are_no_business_of_ours() -> None:
    text = "---\nname: x\ndescription: d\ntools: [Read]\ncolor: red\n---\n"
    assert read_agent(text, FILE).problems == ()


def test_an_empty_declaration_differs_from_none() -> None:
    parsed = read_agent("---\nartifact_defaults: {expected: []}\n---\n", FILE)
    assert parsed.value is not None
    assert parsed.value.artifacts == ()


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("---\nname: x\n", ["1:1: the frontmatter never ends (close it with a line of three dashes: ---)"]),
        ("---\n- a\n---\n", ["2:1: the frontmatter must be a table of keys (write 'name: …', or remove it)"]),
        ("---\n\nname: 3\n---\n", ["3:7: name: must be a text, not a number (put it in quotes)"]),
        (
            "---\r\nname: x\r\nmodel: [a]\r\n---\r\n",
            ["3:8: model: must be a text, not a list (put it in quotes)"],
        ),
        (
            "---\nartifact_defaults:\n  expected:\n    - {id: a, path: /a}\n---\n",
            [
                "4:21: artifact_defaults.expected[0].path: '/a' is an absolute path (write it relative to the run's artifacts)"
            ],
        ),
        (
            "---\na: b: c\n---\n",
            ["2:5: is not YAML: mapping values are not allowed here (check the indentation and quotes here)"],
        ),
        ("---\na: 1\na: 2\n---\n", ["3:1: key 'a' is already at 2:1 (remove one of them)"]),
        (
            "---\nartifact_default: {}\n---\n",
            ["2:1: artifact_default: unknown key (did you mean 'artifact_defaults'?)"],
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_place_in_the_whole_file(text: str, complaints: list[str]) -> None:
    parsed = read_agent(text, FILE)
    assert [problem.render() for problem in parsed.problems] == [
        f"{FILE}:{complaint}" for complaint in complaints
    ]
    assert (parsed.value is None) == bool(parsed.errors)


@pytest.mark.parametrize(
    ("file", "name"), [("/a/reviewer/reviewer.md", "reviewer"), ("reviewer", "reviewer"), (".md", ".md")]
)
def test_an_agent_is_called_as_its_file(file: str, name: str) -> None:
    parsed = read_agent("", file)
    assert parsed.value is not None
    assert parsed.value.name == name


@given(
    st.text() | st.text(alphabet="-\n a:[]{}&*\r", max_size=30).map(lambda text: "---\n" + text + "\n---\n")
)
def test_any_text_is_a_profile_or_complaints(text: str) -> None:
    parsed = read_agent(text, FILE)
    assert (parsed.value is None) == bool(parsed.errors)
    assert all(problem.fix and problem.line for problem in parsed.problems)
