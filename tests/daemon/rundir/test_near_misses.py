"""Files that are nearly what is expected: they are named, they never count, and a run can't make the search long."""

import os
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.handlers.examples import REPORT, REVIEW

from runward.config.artifact_rules import ArtifactRules
from runward.config.contract import Contract
from runward.daemon.rundir import artifacts
from runward.daemon.rundir.artifacts import artifact_facts
from runward.handlers.contracts.verify import missing_summary, verify
from runward.handlers.model.files import RootFacts, RuledPath

COMPOSED, DECOMPOSED = unicodedata.normalize("NFC", "résumé.md"), unicodedata.normalize("NFD", "résumé.md")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run/artifacts").mkdir(parents=True)
    return tmp_path / "run"


def near(run: Path, wanted: str, *others: str) -> str | None:
    """What is near the first of the paths that are expected; it never counts."""
    found = artifact_facts(f"{run}/artifacts", str(run), (wanted, *others))
    assert isinstance(found, RootFacts)
    assert found.files[0].state == "absent"
    return found.files[0].near


def put(run: Path, path: str) -> None:
    (run / "artifacts").mkdir(exist_ok=True)
    file = run / "artifacts" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("work")


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("review.md", "Review.md"),
        ("review.md", "REVIEW.MD"),
        ("review.md", "review.md.txt"),
        ("review.md", "review.txt"),
        ("review.md", "review"),
        ("review.md", "reviews.md"),
        ("review.md", "revew.md"),
        ("review.md", "reveiw.md"),
        ("review.md", "reviaw.md"),
        ("review.md", "review.md "),
        ("review.md", "out/review.md"),
        ("review.md", "out/deep/Review.md"),
        ("review.md", "../review.md"),
        ("out/review.md", "review.md"),
        ("out/review.md", "Out/Review.md"),
        ("out/review.md", "out/review.markdown"),
        (COMPOSED, DECOMPOSED),
        (DECOMPOSED, f"out/{COMPOSED}"),
    ],
)
def test_a_file_that_is_nearly_the_expected_one_is_named(run: Path, wanted: str, found: str) -> None:
    put(run, "something-else.log")
    put(run, found)
    assert near(run, wanted) == found


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("review.md", "report.md"),
        ("review.md", "out/reviews.md"),
        ("review.md", ".git/deep/er/review.md"),
        ("a.md", "b.md"),
        ("review.md", "verdict.json"),
    ],
)
def test_another_file_is_not(run: Path, wanted: str, found: str) -> None:
    put(run, found)
    assert near(run, wanted) is None


def test_the_nearest_file_is_named_and_none_that_is_expected_itself(run: Path) -> None:
    for path in ("out/review.md", "reviews.md", "review.txt"):
        put(run, path)
    assert near(run, "review.md") == "review.txt"
    assert near(run, "review.md", "review.txt") == "reviews.md"
    assert near(run, "review.md", "reviews.md", "review.txt") == "out/review.md"
    put(run, "REVIEW.md")
    assert near(run, "review.md") == "REVIEW.md"


def test_a_link_and_a_directory_are_none_and_nothing_outside_the_run_is_looked_at(run: Path) -> None:
    (run / "artifacts/Review.md").symlink_to("/etc/hostname")
    (run / "artifacts/review.txt").mkdir()
    (run / "artifacts/out").symlink_to(run.parent)
    (run.parent / "review.md").write_text("of another")
    assert near(run, "review.md") is None
    (run / "review.md").write_text("of this run")
    found = artifact_facts(f"{run}/artifacts", "", ("review.md",))
    assert isinstance(found, RootFacts)
    assert found.files[0].near is None, "the directory around foreign artifacts is somebody else's"


@pytest.mark.parametrize("found", ["review.md", "Artifacts/Review.md", "out/review.md"])
def test_without_an_artifacts_directory_the_run_is_searched(run: Path, found: str) -> None:
    (run / "artifacts").rmdir()
    assert artifact_facts(f"{run}/artifacts", str(run), ("review.md",)) == RootFacts(False)
    put(run, f"../{found}")
    (run / "artifacts").rmdir()
    facts = artifact_facts(f"{run}/artifacts", str(run), ("review.md", "other"))
    assert isinstance(facts, RootFacts)
    assert (facts.exists, [each.near for each in facts.files]) == (False, [f"../{found}", None])
    judged = verify(Contract((REVIEW, REPORT)), facts, 1.0)
    assert (judged.status, judged.delivery) == ("failed", "missing")
    assert f"review (review.md): there is '../{found}', " in missing_summary(judged)


def near_glob(run: Path, glob: str, *others: str | RuledPath) -> str | None:
    found = artifact_facts(
        f"{run}/artifacts", str(run), (RuledPath(glob, ArtifactRules(glob=glob), 0), *others)
    )
    assert isinstance(found, RootFacts)
    assert found.files[0].state == "absent"
    return found.files[0].near


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("reports/*.md", "Reports/x.md"),
        ("reports/*.md", "reports/x.MD"),
        ("Reports/[a-c]*.md", "reports/B.md"),
        ("**/*.md", "out/deep/x.Md"),
        ("*.md", "PLAN.MD"),
        (f"*{COMPOSED}", f"a{DECOMPOSED}"),
    ],
)
def test_a_file_that_is_nearly_one_of_a_glob_is_named(run: Path, glob: str, found: str) -> None:
    put(run, "something-else.log")
    put(run, found)
    assert near_glob(run, glob) == found
    assert near_glob(run, glob, found) is None, "it is expected itself"


@pytest.mark.parametrize(
    "found", ["reports/x.txt", "x.md", "report/x.md", "reports/deep/x.md", "../Reports.md"]
)
def test_a_file_that_is_not_nearly_one_of_a_glob_is_not(run: Path, found: str) -> None:
    put(run, found)
    assert near_glob(run, "reports/*.md") is None
    (run / "X.md").write_text("above the artifacts")
    assert near_glob(run, "reports*.md") is None


def test_the_reason_names_what_is_nearly_one_of_a_glob(run: Path) -> None:
    def summary(glob: str) -> str:
        rules = ArtifactRules(glob=glob)
        found = artifact_facts(f"{run}/artifacts", str(run), (RuledPath(glob, rules, 0),))
        assert isinstance(found, RootFacts)
        return missing_summary(verify(Contract((REVIEW._replace(path=glob, rules=rules),)), found, 1.0))

    put(run, "Reports/x.md")
    assert summary("reports/*.md").endswith("review (reports/*.md): there is 'Reports/x.md'")
    put(run, f"a{DECOMPOSED}")
    assert summary(f"a*{COMPOSED[1:]}").endswith(
        "there is 'are\\u0301sume\\u0301.md', in another Unicode form than 'a*\\xe9sum\\xe9.md'"
    )


def test_a_file_with_rules_has_one_and_an_outcome_has_none(run: Path) -> None:
    put(run, "Review.md")
    ruled = [
        RuledPath("review.md", ArtifactRules(min_size=1), 0),
        RuledPath("rep*.md", ArtifactRules(glob="rep*.md"), 0),
        RuledPath("outcome:review.md", ArtifactRules(is_outcome=True, outcome_kind="review.md"), 0),
    ]
    found = artifact_facts(f"{run}/artifacts", str(run), ruled)
    assert isinstance(found, RootFacts)
    assert [each.near for each in found.files] == ["Review.md", None, None]


def test_a_name_that_is_no_text_is_passed_over(run: Path) -> None:
    os.close(os.open(os.fsencode(run / "artifacts") + b"/review.m\xff", os.O_CREAT | os.O_WRONLY))
    assert near(run, "review.md") is None


@contextmanager
def counted_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    names: list[str] = []
    rank = artifacts._rank
    with monkeypatch.context() as patch:

        def counted(wanted: str, found: str) -> int | None:
            names.append(found)
            return rank(wanted, found)

        patch.setattr(artifacts, "_rank", counted)
        yield names


def test_a_run_with_many_files_and_long_names_is_looked_at_for_a_moment_only(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3000):
        (run / f"artifacts/{number:05}{'a' * 245}").touch()
    absent = [f"{number:05}{'a' * 240}.{number % 10}" for number in range(200)]
    began = time.process_time()
    with counted_names(monkeypatch) as names:
        found = artifact_facts(f"{run}/artifacts", str(run), absent)
    assert isinstance(found, RootFacts)
    assert len(set(names)) <= artifacts.MOST_NAMES
    assert len(names) <= artifacts.MOST_NAMES * artifacts.MOST_ABSENT
    assert time.process_time() - began < 2.0


def test_so_it_is_for_globs(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1100):
        (run / f"artifacts/{number:05}{'a' * 245}").touch()
    globs = [f"{'*a' * 60}*.{number}" for number in range(30)]
    names: list[str] = []
    rank = artifacts._rank_of_glob

    def counted(wanted: str, found: str) -> int | None:
        names.append(found)
        return rank(wanted, found)

    monkeypatch.setattr(artifacts, "_rank_of_glob", counted)
    began = time.process_time()
    ruled = tuple(RuledPath(each, ArtifactRules(glob=each), 0) for each in globs)
    assert near_glob(run, globs[0], *ruled[1:]) is None
    assert 0 < len(names) <= artifacts.MOST_NAMES * artifacts.MOST_ABSENT
    assert time.process_time() - began < 5.0


def test_the_reason_names_it_so_that_people_see_the_difference(run: Path) -> None:
    def summary(wanted: str) -> str:
        found = artifact_facts(f"{run}/artifacts", str(run), (wanted,))
        assert isinstance(found, RootFacts)
        return missing_summary(verify(Contract((REVIEW._replace(path=wanted),)), found, 1.0))

    put(run, "Review.md")
    assert summary("review.md") == ("missing required artifacts: review (review.md): there is 'Review.md'")
    put(run, DECOMPOSED)
    assert summary(COMPOSED).endswith(
        "): there is 're\\u0301sume\\u0301.md', in another Unicode form than 'r\\xe9sum\\xe9.md'"
    )
    put(run, "plan.md.\x1b[31m")
    assert summary("plan.md").endswith("there is 'plan.md.\\x1b[31m'")
