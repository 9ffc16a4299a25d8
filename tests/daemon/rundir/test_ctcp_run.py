"""CTCP run directories on disk, held against the contracts A to J."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.daemon.rundir.ctcp_runs import (
    BUNDLE,
    EVENTS,
    GUARDRAILS,
    PACK,
    PATCH,
    PLAN,
    REQUEST,
    WEB,
    Variant,
    passing,
    stating,
    variants,
    write_run,
    zipped,
)

from runward.config.artifact_rules import ENTRIES
from runward.daemon.rundir.ctcp_run import check_run
from runward.handlers.ctcp.contracts import CONTRACTS
from runward.handlers.ctcp.rules import LETTERS, RULES, Finding

NOT_BY_A_FILE_ALONE = {"E.not_readable", "H.does_not_apply"}


@cache
def every_variant() -> list[Variant]:
    return list(variants())


def findings(directory: Path, letters: str = LETTERS) -> list[Finding]:
    root = os.open(directory, os.O_PATH)
    try:
        reports = check_run(root, letters)
    finally:
        os.close(root)
    return [each for report in reports.values() for each in report.findings()]


def test_a_run_directory_that_holds_to_every_contract_has_no_finding(tmp_path: Path) -> None:
    write_run(tmp_path, {})
    assert findings(tmp_path) == []


@pytest.mark.parametrize("letter", LETTERS)
def test_a_broken_rule_is_reported_alone(letter: str, tmp_path: Path) -> None:
    of_this_contract = [each for each in every_variant() if each.rule[0] == letter]
    assert of_this_contract
    paths = passing().keys()
    for number, variant in enumerate(of_this_contract):
        directory = tmp_path / str(number)
        write_run(directory, variant.files)
        found = findings(directory)
        assert {each.rule for each in found} == {variant.rule}, (variant.name, found)
        for each in found:
            assert each.severity == RULES[each.rule].severity, variant.name
            assert each.contract == letter, variant.name
            assert each.path in paths, variant.name
            assert each.message, variant.name


def test_the_variants_break_every_rule_that_a_file_can_break() -> None:
    assert len(every_variant()) >= 200
    assert {each.rule for each in every_variant()} | NOT_BY_A_FILE_ALONE == set(RULES)


def test_the_profiles_entries_are_the_contracts_first_files() -> None:
    assert [(entry.id, entry.path) for entry in ENTRIES] == [
        (letter, contract.path) for letter, contract in CONTRACTS.items()
    ]


def test_only_the_first_200_findings_of_a_contract_are_listed_and_the_rest_is_counted(tmp_path: Path) -> None:
    write_run(tmp_path, {EVENTS: b"{}\n" * 1000 + b"[]\n" * 10, REQUEST: b"[]"})
    found = findings(tmp_path)
    of_events = [each for each in found if each.contract == "J"]
    assert len(of_events) == 201
    assert of_events[-1] == Finding(
        "J", EVENTS, "J.further", "error", "810 further findings of this contract", None
    )
    assert [each.rule for each in found if each.contract == "B"] == ["B.not_object"]


def test_a_journal_of_nothing_but_faults_is_not_read_to_its_end(tmp_path: Path) -> None:
    write_run(tmp_path, {EVENTS: b"{}\n" * 2_000_000})
    assert findings(tmp_path, "J")[-1].message == "at least 100,000 further findings of this contract"


@pytest.mark.parametrize("path", [EVENTS, PATCH])
def test_a_file_of_countless_lines_is_not_gone_through(path: str, tmp_path: Path) -> None:
    write_run(tmp_path, {path: b"\n" * 10_000_001})
    (found,) = findings(tmp_path)
    assert (found.rule[1:], found.message) == (".too_large", "has more than 10,000,000 lines")


def test_a_fault_in_json_is_named_with_its_line(tmp_path: Path) -> None:
    text = '{"schema_version": "ctcp-file-request-v1", "goal": "g", "reason": "r",\n"needs": [\n{"path": "README.md",\n"mode": "x"},\n{"path": "../outside.txt"}],\n"budget": {"max_files": 1, "max_total_bytes": 9}}'
    for mark in ("", "\ufeff"):
        write_run(tmp_path, {REQUEST: f"{mark}{text}".encode()})
        assert [(each.line, each.message) for each in findings(tmp_path)] == [
            (4, "needs[0].mode is 'x'; write 'full' or 'snippets'"),
            (5, "'mode' of needs[1] is missing"),
        ]


def test_a_patch_with_the_line_ends_of_another_system_is_refused_for_them(tmp_path: Path) -> None:
    patch = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    write_run(tmp_path, {PATCH: patch.replace("\n", "\r\n").encode()})
    (found,) = findings(tmp_path, "H")
    assert found.message.startswith("its lines end in CR LF")


def test_a_link_a_pipe_or_a_directory_is_no_file(tmp_path: Path) -> None:
    write_run(tmp_path, {GUARDRAILS: None, PLAN: None, REQUEST: None, WEB: None, BUNDLE: None, EVENTS: None})
    secret = tmp_path / "secret"
    secret.write_bytes(passing()[GUARDRAILS])
    (tmp_path / GUARDRAILS).symlink_to(secret)
    (tmp_path / PLAN).mkdir()
    os.mkfifo(tmp_path / REQUEST)
    (tmp_path / WEB).symlink_to("nowhere")
    (tmp_path / BUNDLE).symlink_to(secret)
    (tmp_path / EVENTS).symlink_to("/dev/zero")
    assert [each.rule for each in findings(tmp_path)] == [
        "A.missing", "B.missing", "E.not_readable", "F.missing", "I.not_a_zip", "I.no_bundle", "J.missing",
    ]  # fmt: skip


def test_a_link_in_place_of_a_directory_is_not_followed(tmp_path: Path) -> None:
    write_run(tmp_path / "other", {})
    (tmp_path / "run").mkdir()
    (tmp_path / "run/reviews").symlink_to(tmp_path / "other/reviews")
    assert [each.rule for each in findings(tmp_path / "run", "G")] == ["G.missing", "G.missing"]


def test_links_within_the_tree_and_quoted_names_within_the_scope_are_right(tmp_path: Path) -> None:
    text = (
        "\ndiff --git a/docs/a/x b/docs/a/x\nnew file mode 120000\nindex 0000000..1234567\n--- /dev/null\n"
        "+++ b/docs/a/x\n@@ -0,0 +1 @@\n+../../src/y\n\\ No newline at end of file\n"
        'diff --git "a/docs/\\303\\244\\t" "b/docs/\\303\\244\\t"\nindex 123456..abcdef 100644\n'
        '--- "a/docs/\\303\\244\\t"\n+++ "b/docs/\\303\\244\\t"\n@@ -1,2 +1,2 @@ def x():\n a\n-b\n+c\n@@ -9 +9 @@\n-d\n+e\n'
        "diff --git a/docs/p b/docs/q b/docs/p b/docs/q\nold mode 100644\nnew mode 100755\n"
        "diff --git a/src/i.png b/src/i.png\nnew file mode 100644\nGIT binary patch\nliteral 3\nKcmZQzWMT#Y01f~L\n\n"
        "literal 0\nHcmV?d00001\n\n"
        "diff --git a/docs/old b/src/new\nsimilarity index 90%\nrename from docs/old\nrename to src/new\n\n"
    )
    write_run(tmp_path, {PATCH: text.encode()})
    assert [each.rule for each in findings(tmp_path)] == ["H.large"]


@pytest.mark.parametrize(
    ("scope", "path", "rules"),
    [
        ("docs", "docs", []),
        ("./docs//", "docs/x", []),
        ("doc", "docs/x", ["H.scope"]),
        (".", "anywhere/x", []),
        ("docs/x.md", "docs/x.md", []),
        ("\n- docs\n- src/", "src/x", []),
    ],
)
def test_the_scope_holds_by_whole_segments(scope: str, path: str, rules: list[str], tmp_path: Path) -> None:
    plan = passing()[PLAN].replace(b"docs/, src", scope.encode())
    patch = f"diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n"
    write_run(tmp_path, {PLAN: plan, PATCH: patch.encode()})
    assert [each.rule for each in findings(tmp_path)] == rules


def test_a_zip_bomb_is_reported_and_never_unpacked(tmp_path: Path) -> None:
    bomb = zipped({"bomb": b"\0" * 1_000_000})
    write_run(tmp_path, {BUNDLE: stating(bomb, "bomb", 0xFFFFFFF0)})
    (found,) = [each for each in findings(tmp_path, "I") if each.severity == "error"]
    assert (found.rule, found.path) == ("I.bundle_size", BUNDLE)
    assert found.message == "states 4,294,967,280 bytes unpacked, which is over 1 GiB; it was not unpacked"


def test_a_zip_whose_directory_is_larger_than_is_read_is_reported(tmp_path: Path) -> None:
    entries = {f"{number}{'x' * 5000}": b"" for number in range(2000)}
    write_run(tmp_path, {BUNDLE: zipped(entries)})
    assert [each.rule for each in findings(tmp_path, "I")] == ["I.bundle_size"]


HOSTILE = """
import os, re, sys, time
from runward.daemon.rundir.ctcp_run import check_run
began = time.monotonic()
check_run(os.open(sys.argv[1], os.O_PATH), "ABCDEFGHIJ")
print(time.monotonic() - began, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10)
"""


def test_a_patch_of_20_000_files_takes_seconds_and_little_memory(tmp_path: Path) -> None:
    part = "diff --git a/docs/{0} b/docs/{0}\n--- a/docs/{0}\n+++ b/docs/{0}\n@@ -1 +1 @@\n-a\n+b\n"
    write_run(tmp_path, {PATCH: "".join(part.format(number) for number in range(20_000)).encode()})
    assert [each.rule for each in findings(tmp_path)] == ["H.large"]
    assert _cost(tmp_path) < 200


@pytest.mark.prove
@pytest.mark.parametrize(
    ("path", "begin", "unit", "times", "end"),  # put together in the test: half a gigabyte
    [
        (PACK, b"[", b"[],", 5_500_000, b"[]]"),
        (PACK, b"[", b'{"a":1},', 2_000_000, b"[]]"),
        (PACK, b"", b"[", 15 << 20, b""),
        (PATCH, b"", b"diff --git a/x b/x\n", (255 << 20) // 19, b""),
        (EVENTS, b"", b"{}\n", (255 << 20) // 3, b""),
    ],
    ids=["lists", "objects", "deep", "headers", "events"],
)
def test_the_largest_hostile_files_are_checked_in_less_than_500_mb(
    path: str, begin: bytes, unit: bytes, times: int, end: bytes, tmp_path: Path
) -> None:
    write_run(tmp_path, {path: begin + unit * times + end})
    assert _cost(tmp_path) < 500


def _cost(directory: Path) -> int:
    """The memory (MB) that a check of its own process takes, which must end within seconds."""
    said = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(directory)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    seconds, memory = said.stdout.split()
    assert float(seconds) < 30
    return int(memory)
