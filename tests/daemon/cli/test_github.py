"""`runward run --ci github`: the runner hears how the run ended from Runward, and nothing from the command."""

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.cli.calling import Place
from tests.daemon.cli.fake_runner import FakeRunner, Step, command_in, key_values
from tests.preloaded import commands as preloaded

from runward.config.problem import printable
from runward.daemon.cli import github
from runward.daemon.cli.run_report import RunReport
from runward.daemon.views.checks import Check

DELIVER = 'for each in review report; do echo text > "$RUNWARD_ARTIFACTS_DIR/$each.md"; done'


@pytest.fixture
def runner(place: Place, tmp_path_factory: pytest.TempPathFactory) -> FakeRunner:
    return FakeRunner(tmp_path_factory.mktemp("runner"), place.environment)


def run(runner: FakeRunner, place: Place, *words: str, **environment: str) -> Step:
    """`runward run`, as a step of the runner."""
    return runner.step(preloaded.argv("run", *words), place.directory, environment)


def test_a_run_that_delivered_is_told_in_outputs_and_summary(runner: FakeRunner, place: Place) -> None:
    step = run(
        runner, place, "--playbook", "review", "--name", "good", "--", "sh", "-c", f"echo hello; {DELIVER}"
    )
    assert (step.code, step.errors_of_runner, step.errors()) == (0, [], [])
    assert "hello" in step.lines
    assert step.outputs == {
        "session": "good",
        "status": "completed",
        "delivery": "passed",
        "receipt-hash": "",
    }
    assert "| good | completed | passed |" in step.summary
    assert "| ✓ | review (review.md) |  |" in step.summary
    assert "| - | notes (notes.md) | absent |" in step.summary


def test_each_missing_artifact_is_an_error(runner: FakeRunner, place: Place) -> None:
    step = run(runner, place, "--playbook", "review", "--", "true")
    assert step.code == 1
    assert step.errors() == ["report (report.md): absent", "review (review.md): absent"]
    assert (step.outputs["status"], step.outputs["delivery"]) == ("failed", "missing")
    assert "| ✗ | review (review.md) | absent |" in step.summary


@pytest.mark.parametrize(
    ("script", "options", "code", "status"),
    [
        ("exit 3", (), 3, "failed"),
        ("kill -KILL $$", (), 137, "failed"),
        ("sleep 100", ("--timeout", "100ms"), 124, "timed_out"),
    ],
)
def test_a_command_that_fails_is_told_by_how_it_ended(
    runner: FakeRunner, place: Place, script: str, options: tuple[str, ...], code: int, status: str
) -> None:
    step = run(runner, place, *options, "--", "sh", "-c", script)
    assert (step.code, step.errors_of_runner) == (code, [])
    assert (step.outputs["status"], step.outputs["delivery"]) == (status, "")
    assert "| ✗ | ended well |" in step.summary


HOSTILE = """
import os, sys
for stream in (sys.stdout, sys.stderr):
    for line in (
        "::error::forged", "  ::set-output name=status::completed", "said ##[error]forged", "##[add-path]/evil",
        "::add-mask::e", "::stop-commands::mine", "::mine::", "::set-env name=A::b", "\\r::error::after a return",
        "::stop-commands::", "::" + "0" * 64 + "::", "::endgroup::",
    ):
        print(line, file=stream, flush=True)
    stream.write("::error::without an end")
    stream.flush()
os.write(1, b"\\xff\\n::error::bytes\\n::error::")
"""


def test_nothing_that_the_command_prints_is_obeyed(runner: FakeRunner, place: Place) -> None:
    step = run(runner, place, "--playbook", "review", "--", sys.executable, "-c", HOSTILE)
    assert step.errors() == ["report (report.md): absent", "review (review.md): absent"], "and they are ours"
    assert {each.name for each in step.commands} == {"error"}
    assert (step.code, step.errors_of_runner, step.paths, step.variables) == (1, [], [], {})
    assert sum(line.endswith("::error::forged") for line in step.lines) == 2, "it is all shown"
    assert step.stderr == [], "one stream has an order"


def test_a_runner_would_obey_that_command_without_us(runner: FakeRunner, place: Place) -> None:
    step = run(runner, place, "--no-ci", "--", sys.executable, "-c", HOSTILE)
    assert {"error", "set-output", "add-path"} <= {each.name for each in step.commands}
    assert step.outputs == {}
    assert step.summary == ""


def test_names_that_the_command_chose_are_not_obeyed_either(runner: FakeRunner, place: Place) -> None:
    # It is named in the message, because it is nearly the file that is missing.
    script = 'touch "$RUNWARD_ARTIFACTS_DIR/Review.md" "$RUNWARD_ARTIFACTS_DIR/report.md##[add-path]x"'
    step = run(runner, place, "--playbook", "review", "--", "sh", "-c", script)
    assert {each.name for each in step.commands} == {"error"}
    assert any("Review.md" in each for each in step.errors())


def test_the_word_is_not_to_be_found_by_the_command(runner: FakeRunner, place: Place) -> None:
    script = (
        'pid=$$; while [ "$pid" -gt 1 ]; do cat /proc/$pid/cmdline /proc/$pid/environ | tr "\\0" "\\n";'
        ' pid=$(awk "/^PPid/ {print \\$2}" /proc/$pid/status); done; cat "$RUNWARD_RUN_DIR"/* 2>/dev/null; true'
    )
    ended = runner.printed(preloaded.argv("run", "--", "sh", "-c", script), place.directory)
    (word,) = re.findall(r"^::stop-commands::([0-9a-f]{64})$", ended, re.MULTILINE)
    assert ended.count(word) == 2, "where the silence begins, and where it ends"
    assert ended.endswith(f"\n::{word}::\n")
    again = runner.printed(preloaded.argv("run", "--", "true"), place.directory)
    assert word not in again
    for file in place.runs.rglob("*"):
        assert not file.is_file() or word.encode() not in file.read_bytes()


def test_what_a_command_left_in_the_files_does_not_count_for_our_outputs(
    runner: FakeRunner, place: Place
) -> None:
    script = 'echo status=completed >> "$GITHUB_OUTPUT"; echo mine=1 >> "$GITHUB_OUTPUT"; echo A=b >> "$GITHUB_ENV"; exit 4'
    step = run(runner, place, "--", "sh", "-c", script)
    assert (step.outputs["status"], step.outputs["mine"], step.variables) == ("failed", "1", {"A": "b"})


@pytest.mark.parametrize(
    "script",
    [
        'printf "x<<END\\n" >> "$GITHUB_OUTPUT"',
        'rm "$GITHUB_OUTPUT"; mkdir "$GITHUB_OUTPUT"',
        'rm "$GITHUB_OUTPUT"; mkfifo "$GITHUB_OUTPUT"',
        'rm "$GITHUB_OUTPUT"; ln -s "$PWD/elsewhere" "$GITHUB_OUTPUT"',
        'rm "$GITHUB_STEP_SUMMARY"; mkfifo "$GITHUB_STEP_SUMMARY"',
    ],
)
def test_a_command_that_breaks_a_file_fails_the_step(runner: FakeRunner, place: Place, script: str) -> None:
    step = run(runner, place, "--", "sh", "-c", script)
    assert step.code != 0
    assert not (place.directory / "elsewhere").exists()


def test_a_line_without_an_end_in_the_file_ends_before_our_outputs(runner: FakeRunner, place: Place) -> None:
    step = run(runner, place, "--", "sh", "-c", 'printf x= >> "$GITHUB_OUTPUT"')
    assert (step.code, step.outputs["x"], step.outputs["status"]) == (0, "", "completed")


@pytest.mark.parametrize(
    ("words", "environment", "speaks"),
    [
        ((), {}, True),
        ((), {"GITHUB_ACTIONS": "false"}, False),
        (("--ci", "github"), {"GITHUB_ACTIONS": "false"}, True),
        (("--no-ci",), {}, False),
    ],
)
def test_it_is_the_default_in_github_actions_alone(
    runner: FakeRunner, place: Place, words: tuple[str, ...], environment: dict[str, str], speaks: bool
) -> None:
    step = run(runner, place, *words, "--", "echo", "hello", **environment)
    assert step.code == 0
    assert bool(step.outputs) == speaks
    assert (len(step.lines) == 1) != speaks


@pytest.mark.parametrize(
    ("words", "complaint"), [(("--ci", "jenkins"), "github"), (("--ci", "github", "--no-ci"), "--no-ci")]
)
def test_wrong_words_are_refused(
    runner: FakeRunner, place: Place, words: tuple[str, ...], complaint: str
) -> None:
    step = run(runner, place, *words, "--", "true")
    assert step.code == 2
    assert complaint in step.stderr[0]


def test_a_shell_completes_it(place: Place) -> None:
    assert place.completed("run", "--ci", "") == ["github"]


def test_a_daemon_at_work_gives_verdict_and_receipt(runner: FakeRunner, place: Place) -> None:
    with place.daemon():
        step = run(runner, place, "--playbook", "review", "--name", "good", "--", "sh", "-c", DELIVER)
        assert (step.code, step.outputs["status"], step.outputs["delivery"]) == (0, "completed", "passed")
        shown = place.call("session", "show", "good", "--json").object()["bundle"]
        assert isinstance(shown, dict)
        assert step.outputs["receipt-hash"] == shown["receipt_hash"]


_LIKE_ESCAPES = st.text("%0A23C5D:,=\r\n")


@given(st.text() | _LIKE_ESCAPES, st.text(min_size=1) | _LIKE_ESCAPES.filter(bool))
def test_any_text_in_an_error_arrives_as_it_is_shown(message: str, title: str) -> None:
    line = github.error(title, message)
    assert not set(line) & {"\r", "\n"}
    command = command_in(line)
    assert command is not None
    assert command.name == "error"
    assert set(command.properties) == {"title"}
    assert command.properties["title"] == printable(title)
    assert command.data == printable(message)


def _report(checks: list[Check], session_id: str = "s", reason: str = "") -> RunReport:
    return RunReport(session_id, "failed", reason, "missing", checks, 0.0, 1.0, "ab")


@given(st.text(), st.text())
def test_any_name_leaves_the_outputs_as_they_are(session_id: str, reason: str) -> None:
    values = key_values(github.outputs(_report([], session_id, reason)))
    assert list(values) == ["session", "status", "delivery", "receipt-hash"]
    assert (values["status"], values["receipt-hash"]) == ("failed", "ab")


def test_ten_errors_and_64_kib_are_the_most(capfd: pytest.CaptureFixture[str]) -> None:
    checks = [
        Check("artifact", f"a{number} (a{number}.md)", "failed", "absent" * 30) for number in range(2000)
    ]
    github.Runner().annotate(checks)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == github.MOST_ERRORS == 10
    assert lines[-1].endswith("::1991 more artifacts")
    summary = github.summary(_report(checks))
    assert 60 << 10 < len(summary.encode()) <= github.LARGEST_SUMMARY
    assert re.search(r"\| and \d+ more \|", summary)


@given(st.lists(st.tuples(st.text(), st.text()), max_size=5), st.text())
def test_nothing_in_the_summary_is_markup_but_our_tables(texts: list[tuple[str, str]], reason: str) -> None:
    summary = github.summary(
        _report([Check("artifact", name, "failed", why) for name, why in texts], reason=reason)
    )
    rows = [line for line in summary.splitlines() if line.startswith("|")]
    # Each row has the cells of its table: a pipe of a text is escaped.
    assert len(rows) == 3 + (2 + len(texts) if texts else 0)
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} <= {7, 5}
    assert "<" not in summary
