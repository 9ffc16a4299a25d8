import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook, fill_command, read_playbook

FILE = "playbooks/review.playbook.yaml"


def test_a_whole_playbook_is_read() -> None:
    text = """\
name: review
command: ["python3", "review.py", "{{ with.pr }}"]
timeout: 30m
grace: 500ms
agent: reviewer
artifacts:
  expected:
    - {id: review, path: review.md}
    - id: notes
      path: notes.md
      required: false
      description: "Optional"
"""
    parsed = read_playbook(text, FILE)
    assert parsed.problems == ()
    assert parsed.value is not None
    assert parsed.value._replace(document=None) == Playbook(
        name="review",
        command=("python3", "review.py", "{{ with.pr }}"),
        timeout=1800,
        grace=0.5,
        agent="reviewer",
        artifacts=(
            ExpectedArtifact("review", "review.md"),
            ExpectedArtifact("notes", "notes.md", required=False, description="Optional"),
        ),
    )


def test_the_adrs_own_playbook_is_read_without_a_word() -> None:
    text = """\
name: code-review
model: claude/sonnet
prompt: |
  Review the changes in {target} and produce review.md with findings.

artifacts:
  expected:
    - id: review
      path: review.md
      required: true
      description: "Reviewer verdict and findings"
"""
    parsed = read_playbook(text, "code-review.playbook.yaml")
    assert parsed.problems == ()
    assert parsed.value is not None
    assert parsed.value.artifacts == (
        ExpectedArtifact("review", "review.md", True, "Reviewer verdict and findings"),
    )


@pytest.mark.parametrize(
    ("text", "playbook"),
    [
        ("command: [ls]\n", Playbook("review", command=("ls",))),
        ("artifacts:\n", Playbook("review")),
        ("artifacts: {}\n", Playbook("review")),
        ("artifacts: {expected: []}\n", Playbook("review", artifacts=())),
        ("name:\ncommand:\ntimeout:\ngrace:\nagent:\n", Playbook("review")),
    ],
)
def test_what_is_left_out_has_its_default(text: str, playbook: Playbook) -> None:
    parsed = read_playbook(text, FILE)
    assert parsed.value is not None
    assert (parsed.value._replace(document=None), parsed.problems) == (playbook, ())


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("", ["1:1: a playbook must be a table of keys (write at least 'command:' or 'artifacts:')"]),
        ("- a\n", ["1:1: a playbook must be a table of keys (write at least 'command:' or 'artifacts:')"]),
        ("name: 3\n", ["1:7: name: must be a text, not a number (put it in quotes)"]),
        ("name: a/b\n", ["1:7: name: is not a name (write a name without '/')"]),
        ("agent: ''\n", ["1:8: agent: is not a name (write a name without '/')"]),
        ("agent: ../x\n", ["1:8: agent: is not a name (write a name without '/')"]),
        ("command: ls -l\n", ["1:10: command: must be a list, not a text (make it a list)"]),
        (
            "command: []\n",
            [
                '1:10: command: names no program (write the program and its arguments: ["python3", "review.py"])'
            ],
        ),
        ("command: [ls, 3]\n", ["1:15: command[1]: must be a text, not a number (put it in quotes)"]),
        ('command: [ls, "a\\0"]\n', ["1:15: command[1]: has a NUL character in it (remove it)"]),
        (
            "timeout: 90\n",
            [
                "1:10: timeout: must be a duration (write a number with its unit, as in 30s, 5min, 1h30m or 2d)"
            ],
        ),
        *(
            (
                f"timeout: {value}\n",
                [
                    "1:10: timeout: must be a duration (write a number with its unit, as in 30s, 5min, 1h30m or 2d)"
                ],
            )
            for value in ("1.5", "true", "[30s]")
        ),
        (
            "timeout: '90'\n",
            [
                (
                    "1:10: timeout: is not a duration: '90' has no unit "
                    "(write a number with its unit, as in 30s, 5min, 1h30m or 2d)"
                )
            ],
        ),
        (
            "artifacts: [a]\n",
            ["1:12: artifacts: must be a table of keys, not a list (list the artifacts under 'expected')"],
        ),
        (
            "artifacts:\n  expected:\n",
            ["2:12: artifacts.expected: must be a list, not nothing (list the artifacts; [] expects none)"],
        ),
        (
            "artifacts:\n  expected:\n    - path: a\n    - id: b\n      path: ../b\n",
            [
                "3:7: artifacts.expected[0]: has no 'id' (add 'id: …')",
                "5:13: artifacts.expected[1].path: '../b' has a '..' in it (name a file below the run's artifacts)",
            ],
        ),
        (
            "artifacts:\n  expected:\n    - {id: a, path: a}\n    - {id: b, path: b, required: yes}\n",
            [
                "4:34: artifacts.expected[1].required: must be true or false, not a text (write it without quotes)"
            ],
        ),
        (
            "artifacts:\n  expected:\n    - {id: a, path: a}\n    - {id: a, path: b}\n",
            [
                "4:12: artifacts.expected[1].id: 'a' is already the id of entry 0 (give each artifact its own id)"
            ],
        ),
        (
            "a: [\n",
            [
                "2:1: is not YAML: while parsing a flow node: expected the node content, but found '<stream end>' (check the indentation and quotes here)"
            ],
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_place_with_its_fix(text: str, complaints: list[str]) -> None:
    parsed = read_playbook(text, FILE)
    assert parsed.value is None
    assert [problem.render() for problem in parsed.problems] == [
        f"{FILE}:{complaint}" for complaint in complaints
    ]


def test_of_endless_complaints_a_hundred_are_said_and_the_errors_first() -> None:
    text = "".join(f"key{number}: 1\n" for number in range(500)) + "timeout: 3\n"
    parsed = read_playbook(text, FILE)
    assert len(parsed.problems) == 100
    assert [problem.line for problem in parsed.errors] == [501]


def test_everything_wrong_is_said_at_once_in_the_order_of_the_text() -> None:
    text = "timeout: 5\nartifacts: {expected: [{id: 'ä', path: /x}]}\ncommand: ls\nnaem: x\nname: y\n"
    parsed = read_playbook(text, FILE)
    assert [problem.line for problem in parsed.problems] == [1, 2, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("agnet: x\n", "1:1: agnet: unknown key (did you mean 'agent'?)"),
        ("timout: 5m\n", "1:1: timout: unknown key (did you mean 'timeout'?)"),
        ("artefacts: {expected: []}\n", "1:1: artefacts: unknown key (did you mean 'artifacts'?)"),
        ("artifacts: {epected: []}\n", "1:13: artifacts.epected: unknown key (did you mean 'expected'?)"),
        (
            "artifacts: {expected: [{id: a, path: a, requird: no}]}\n",
            "1:41: artifacts.expected[0].requird: unknown key (did you mean 'required'?)",
        ),
        (
            "artifacts: {note: x}\n",
            "1:12: artifacts: has no 'expected' (list the artifacts there; [] expects none)",
        ),
    ],
)
def test_a_slip_of_the_pen_is_an_error_and_no_contract_that_expects_nothing(text: str, error: str) -> None:
    parsed = read_playbook(text, FILE)
    assert parsed.value is None
    assert f"{FILE}:{error}" in [problem.render() for problem in parsed.errors]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "tools: x\n",
            "1:1: warning: tools: unknown key (known here: name, command, timeout, grace, agent, artifacts)",
        ),
        (
            "zzz: x\n",
            "1:1: warning: zzz: unknown key (known here: name, command, timeout, grace, agent, artifacts)",
        ),
        (
            "name: other\n",
            (
                "1:7: warning: name: 'other' differs from the file's name, by which it is found "
                "(write 'review' or rename the file)"
            ),
        ),
        (
            "artifacts: {expected: [{id: a, path: a, kind: x}]}\n",
            (
                "1:47: warning: artifacts.expected[0].kind: 'x' is not a supported kind "
                "(write 'outcome', or remove it: the entry is a file)"
            ),
        ),
    ],
)
def test_what_other_tools_may_need_is_warned_of_and_stops_nothing(text: str, warning: str) -> None:
    parsed = read_playbook(text, FILE)
    assert parsed.value is not None
    assert [problem.render() for problem in parsed.problems] == [f"{FILE}:{warning}"]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/a/b/review.playbook.yaml", "review"),
        ("review.yaml", "review"),
        ("review.yml", "review"),
        (".playbook.yaml", ".playbook"),
        ("review", "review"),
        ("a.b.playbook.yaml", "a.b"),
    ],
)
def test_a_playbook_is_called_as_its_file(file: str, name: str) -> None:
    parsed = read_playbook("artifacts:\n", file)
    assert parsed.value is not None
    assert parsed.value.name == name


lines = st.sampled_from(
    [
        "name: x",
        "command: [a]",
        "command: {a: b}",
        "timeout: 1s",
        "timeout: [1]",
        "artifacts:",
        "  expected:",
        "    - id: a",
        "      path: b",
        "    - {id: c, path: /d}",
        "1: 2",
        "x: &a",
        "\tb",
    ]
)


@given(st.lists(lines, max_size=8).map("\n".join) | st.text())
def test_any_text_is_a_playbook_or_complaints_each_with_its_fix(text: str) -> None:
    parsed = read_playbook(text, FILE)
    assert (parsed.value is None) == bool(parsed.errors)
    assert all(problem.file == FILE and problem.line and problem.column for problem in parsed.problems)
    assert all(problem.fix for problem in parsed.problems)


def test_a_command_that_is_no_template_is_refused_at_its_word() -> None:
    parsed = read_playbook('command: ["gh", "{{ pr }}", "{{ with.pr"]\n', FILE)
    assert [(problem.line, problem.column, problem.message) for problem in parsed.errors] == [
        (1, 17, "command[1]: 'pr' between braces is not a look-up"),
        (1, 29, "command[2]: has a '{{' without its '}}'"),
    ]


COMMAND = """\
command:
  - python3
  - "{{ with.script }}"
  - --pr={{ with.pull.number }}
"""


def filled(text: str, **given_values: JsonValue) -> tuple[tuple[str, ...] | None, list[str]]:
    """The command of a playbook, or what is wrong with it."""
    playbook = read_playbook(text, FILE).value
    assert playbook is not None
    parsed = fill_command(playbook, given_values)
    return parsed.value, [problem.render() for problem in parsed.problems]


def test_a_command_is_filled_in_word_by_word_without_a_shell() -> None:
    argv, problems = filled(COMMAND, script="a b; rm -rf /", pull={"number": 12})
    assert problems == []
    assert argv == ("python3", "a b; rm -rf /", "--pr=12")


def test_what_is_missing_and_what_is_too_much_are_all_said_with_their_places() -> None:
    argv, problems = filled(COMMAND, pull={"numer": 12}, extra="x", scrip="y")
    assert argv is None
    assert problems == [
        f"{FILE}:2:3: command: uses no value named 'extra' (it takes script, pull)",
        f"{FILE}:2:3: command: uses no value named 'scrip' (did you mean 'script'?)",
        f"{FILE}:3:5: command[1]: with.script is not given (give it as script=VALUE; did you mean 'script' by 'scrip'?)",
        f"{FILE}:4:5: command[2]: with.pull.number is not given (did you mean 'numer'?)",
    ]


def test_a_playbook_without_a_command_starts_nothing() -> None:
    argv, problems = filled("timeout: 30s\n")
    assert argv is None
    fix = 'write the program and its arguments: command: ["python3", "review.py"]'
    assert problems == [f"{FILE}:1:1: has no 'command', so nothing can be started ({fix})"]


def test_a_value_may_not_leave_the_program_without_a_name() -> None:
    argv, problems = filled('command: ["{{ with.program }}"]', program="")
    assert argv is None
    assert problems == [f"{FILE}:1:11: command[0]: names no program (give it a value that isn't empty)"]


def test_a_command_that_takes_nothing_says_so_of_a_value() -> None:
    assert filled("command: [make]", target="all")[1] == [
        f"{FILE}:1:10: command: uses no value named 'target' (it takes none)"
    ]


def test_a_playbook_tells_which_values_it_takes() -> None:
    playbook = read_playbook(COMMAND, FILE).value
    assert playbook is not None
    assert playbook.takes == ("script", "pull")
    assert Playbook("empty").takes == ()
