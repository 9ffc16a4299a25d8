"""`--junit FILE`: what `run`, `contract verify` and `session show` write for CI systems."""

import os
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest
from defusedxml import ElementTree  # type: ignore[import-untyped] # it ships no types
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S, wait_for

from runward.config.json_value import JsonValue
from runward.daemon.views.checks import Check, checks_of
from runward.daemon.views.junit import write_junit
from runward.handlers.outcomes.junit import outcomes_of_junit

RULED = """\
name: ruled
artifacts:
  expected:
    - {id: review, path: review.md, min_size: 100}
    - {id: data, path: data.json, required: false, min_size: 100}
"""


def launch(place: Place, *words: str) -> tuple[int, str]:
    """Launch a run; returns its exit code, and what was said on stderr."""
    process = place.start("run", *words)
    _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


def suite_in(path: Path) -> Element:
    """The one suite of a report, which is valid by both schemas that CI systems go by."""
    root = ElementTree.parse(path).getroot()
    assert (root.tag, root.attrib) == ("testsuites", {})
    suite: Element
    (suite,) = root
    cases = suite.findall("testcase")
    assert [each.tag for each in suite] == [
        "properties",
        *["testcase"] * len(cases),
        "system-out",
        "system-err",
    ]
    needed = {"name", "package", "id", "timestamp", "hostname", "tests", "failures", "errors", "time"}
    assert needed <= set(suite.attrib) <= needed | {"skipped"}
    assert int(suite.attrib["tests"]) == len(cases)
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[name]) == len(suite.findall(f"testcase/{tag}"))
    for case in cases:
        assert set(case.attrib) == {"name", "classname", "time"}
        assert [each.tag for each in case] in ([], ["failure"], ["skipped"])
    assert all(set(each.attrib) == {"message", "type"} for each in suite.findall("testcase/failure"))
    return suite


def results(suite: Element) -> dict[str, str]:
    """By the name of each case, `passed`, or why it failed or was skipped."""
    return {
        case.attrib["name"]: "passed" if len(case) == 0 else f"{case[0].tag}: {case[0].attrib['message']}"
        for case in suite.findall("testcase")
    }


def test_a_run_has_a_case_for_its_end_and_for_each_artifact(place: Place) -> None:
    assert launch(place, "--playbook", "review", "--name", "one", "--junit", "a.xml", "--", "true")[0] == 1
    suite = suite_in(place.directory / "a.xml")
    assert suite.attrib["name"] == "one"
    assert results(suite) == {
        "ended well": "passed",
        "review (review.md)": "failure: absent",
        "report (report.md)": "failure: absent",
        "notes (notes.md)": "skipped: absent",
    }
    assert (place.directory / "a.xml").stat().st_mode & 0o777 == 0o600


def test_a_command_that_fails_is_a_failure_also_without_a_contract(place: Place) -> None:
    assert launch(place, "--junit", "a.xml", "--", "sh", "-c", "exit 3")[0] == 3
    assert results(suite_in(place.directory / "a.xml")) == {"ended well": "failure: exited with 3"}


def test_the_command_can_not_change_what_the_report_says(place: Place) -> None:
    forge = 'cd "$RUNWARD_RUN_DIR"; echo "{}" > run.json; echo \'{"exit_code": 0}\' > exit.json; exit 3'
    launch(place, "--playbook", "review", "--junit", "a.xml", "--", "sh", "-c", forge)
    said = results(suite_in(place.directory / "a.xml"))
    assert said["ended well"] == "failure: exited with 3"
    assert said["review (review.md)"] == "failure: absent"


def test_each_rule_has_a_case_in_all_three_reports(place: Place) -> None:
    (place.directory / "playbooks" / "ruled.playbook.yaml").write_text(RULED)
    deliver = 'for each in review.md data.json; do echo short > "$RUNWARD_ARTIFACTS_DIR/$each"; done'
    launch(place, "--playbook", "ruled", "--name", "one", "--junit", "run.xml", "--", "sh", "-c", deliver)
    artifacts = place.runs / "one" / "artifacts"
    verified = place.call(
        "contract",
        "verify",
        "--playbook",
        "ruled",
        "--root",
        str(artifacts),
        "--junit",
        "verify.xml",
        "--json",
    )
    place.daemon_once()
    place.call("session", "show", "one", "--junit", "show.xml")
    said = [results(suite_in(place.directory / f"{each}.xml")) for each in ("run", "verify", "show")]
    assert said[0] == said[2] == {"ended well": "passed", **said[1]}
    assert verified.code == 1
    assert set(said[1]) == {
        "review (review.md)", "data (data.json)", "review: min_size (review.md)", "data: min_size (data.json)",
    }  # fmt: skip
    assert said[1]["review: min_size (review.md)"].startswith("failure: ")
    assert said[1]["data: min_size (data.json)"].startswith("skipped: ")


def test_a_missing_directory_fails_although_everything_in_it_is_optional(place: Place) -> None:
    optional = "name: optional\nartifacts: {expected: [{id: notes, path: notes.md, required: false}]}\n"
    (place.directory / "playbooks" / "optional.playbook.yaml").write_text(optional)
    ended = place.call(
        "contract", "verify", "--playbook", "optional", "--root", "nowhere", "--junit", "a.xml"
    )
    assert ended.code == 1
    assert (
        results(suite_in(place.directory / "a.xml"))["the artifacts' directory"] == "failure: it is missing"
    )


def test_a_session_that_goes_on_is_skipped(place: Place) -> None:
    process = place.start("run", "--playbook", "review", "--name", "goes-on", "--", "sleep", "1000")
    wait_for(lambda: (place.runs / "goes-on" / "process.json").exists(), "process.json")
    place.call("session", "show", "goes-on", "--junit", "a.xml")
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert results(suite_in(place.directory / "a.xml")) == {
        "ended well": "skipped: it is not over",
        **{f"{each} ({each}.md)": "skipped: not verified" for each in ("report", "review", "notes")},
    }


def test_a_secret_is_in_no_report_of_a_session(place: Place) -> None:
    secret = "ghp_" + "a1B2" * 9
    checks = [Check("artifact", "review", "failed", f"there is token={secret}")]
    from runward.handlers.secrets import text_without_secrets

    write_junit(str(place.directory / "a.xml"), secret, checks, 0.0, 0.0, text_without_secrets)
    assert secret not in (place.directory / "a.xml").read_text()


def test_a_report_that_can_not_be_written_is_told_with_75(place: Place) -> None:
    for name in ("review.md", "report.md"):
        (place.directory / name).write_text("text")
    words = ("contract", "verify", "--playbook", "review", "--root", ".", "--junit", "nowhere/a.xml")
    verified = place.call(*words)
    assert (verified.code, "nowhere/a.xml" in verified.err) == (75, True)
    code, said = launch(place, "--junit", "nowhere/a.xml", "--", "true")
    assert (code, "nowhere/a.xml" in said) == (75, True)
    assert launch(place, "--junit", "nowhere/a.xml", "--", "sh", "-c", "exit 3")[0] == 3


def test_a_report_replaces_the_one_before_as_a_whole(place: Place) -> None:
    path = place.directory / "a.xml"
    path.write_text("<old/>")
    before = os.open(path, os.O_RDONLY)
    launch(place, "--junit", "a.xml", "--", "true")
    assert os.read(before, 100) == b"<old/>", "a reader of the old one keeps it"
    os.close(before)
    assert results(suite_in(path)) == {"ended well": "passed"}


@given(
    st.text(),
    st.lists(st.tuples(st.text(), st.text(), st.sampled_from(["passed", "failed", "skipped"])), max_size=4),
)
def test_any_text_makes_a_valid_report_that_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, name: str, checks: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.xml"
    made = [Check("artifact", each, state, why) for each, why, state in checks]  # type: ignore[arg-type] # a State
    write_junit(str(path), name, made, 0.0, -1.0)
    suite_in(path)
    read = outcomes_of_junit(lambda: [path.read_bytes()])["test_result"]
    assert (read["passed"] is True) == (
        any(state == "passed" for *_, state in checks) and not any(state == "failed" for *_, state in checks)
    )


def test_a_contract_that_nobody_verified_yet_is_skipped() -> None:
    contract: JsonValue = {
        "expected": [{"id": "a", "path": "a.md", "required": True, "description": "", "source": "x"}]
    }
    assert checks_of(contract, None, [], {}) == [Check("artifact", "a (a.md)", "skipped", "not verified")]
