"""Contract I: `artifacts/verify_report.json`, with `TRACE.md` and `failure_bundle.zip`."""

import re
from typing import Final, NamedTuple

from runward.config.problem import quoted
from runward.handlers.ctcp.documents import Documents, ZipDirectory
from runward.handlers.ctcp.json_fields import Fields, fields_of
from runward.handlers.ctcp.report import Report

PATH: Final = "artifacts/verify_report.json"
TRACE: Final = "TRACE.md"
BUNDLE: Final = "failure_bundle.zip"

MOST_ENTRIES: Final = 10_000
MOST_UNPACKED: Final = 1 << 30

_RESULTS: Final = ("PASS", "FAIL")
_GATES: Final = ("lite", "full")
_IN_BUNDLE: Final = (
    TRACE,
    "events.jsonl",
    PATH,
    "artifacts/PLAN.md",
    "artifacts/diff.patch",
    "reviews/",
    "outbox/",
)
_DRIVE: Final = re.compile(r"[A-Za-z]:")


class Verified(NamedTuple):
    """What the report says: its result if it is a valid one, and the bundle that it names."""

    result: str | None
    bundle: str | None


def named_bundle(documents: Documents) -> str | None:
    """The file that the report names as its bundle, for callers that have to check whether it is there."""
    found = check(documents, Report("I", PATH))
    return None if found is None else found.bundle


def check(documents: Documents, report: Report) -> Verified | None:
    """What the report says. None if there is no such file that can be read."""
    _check_beside(documents, report)
    fields = fields_of(documents, PATH, None, report)
    if fields is None:
        return None
    result, gate = fields.text("result"), fields.text("gate")
    if gate is not None and gate not in _GATES:
        fields.report("gate", f"is {quoted(gate)}; write 'lite' or 'full'", "gate")
    codes: list[int | None] = []
    for each in fields.tables("commands"):
        each.text("cmd")
        codes.append(each.whole("exit_code"))
    failures = 0
    for each in fields.tables("failures"):
        failures += 1
        for key in ("kind", "id", "message"):
            each.text(key)
    if result is not None and result not in _RESULTS:
        fields.report("result", f"is {quoted(result)}; write 'PASS' or 'FAIL'", "result")
        result = None
    if result is not None and all(isinstance(fields.optional(key), list) for key in ("commands", "failures")):
        _check_result(result, codes, failures, fields)
    return Verified(result, _bundle(fields, documents))


def _check_result(result: str, codes: list[int | None], failures: int, fields: Fields) -> None:
    failed = [code for code in codes if code not in (0, None)]
    if result == "PASS":
        if failures or failed:
            said = f"{failures} failures are listed" if failures else f"a command's exit code is {failed[0]}"
            fields.report("contradiction", f"is PASS, and {said}", "result")
    elif failures or failed:
        fields.report("fail", "is FAIL, with its failures", "result")
    elif None not in codes:
        fields.report("contradiction", "is FAIL, without a failure or an exit code other than 0", "result")


def _bundle(fields: Fields, documents: Documents) -> str | None:
    """The bundle that the report names, which must be there."""
    artifacts = fields.table("artifacts")
    if artifacts is None:
        return None
    artifacts.text("trace")
    name = artifacts.optional("bundle")
    if name is None or name == "":
        return None
    if not isinstance(name, str):
        artifacts.report("field", "must be a text", "bundle")
        return None
    if not documents.is_there(name):
        artifacts.report(
            "no_bundle", f"names {quoted(name)}, which does not exist in the run directory", "bundle"
        )
    return name


def _check_beside(documents: Documents, report: Report) -> None:
    if documents.document(TRACE).state == "absent" and not report.allows_missing:
        report.add("no_trace", "the file does not exist", path=TRACE)
    if documents.bundle is not None:
        _check_bundle(documents.bundle, report)


def _check_bundle(bundle: ZipDirectory, report: Report) -> None:
    if bundle.is_too_large or len(bundle.entries) > MOST_ENTRIES:
        report.add("bundle_size", f"has more than {MOST_ENTRIES:,} entries", path=BUNDLE)
        return
    if bundle.problem is not None:
        report.add("not_a_zip", bundle.problem, path=BUNDLE)
        return
    unpacked = sum(each.size for each in bundle.entries)
    if unpacked > MOST_UNPACKED:
        message = f"states {unpacked:,} bytes unpacked, which is over 1 GiB; it was not unpacked"
        report.add("bundle_size", message, path=BUNDLE)
    for each in bundle.entries:
        parts = each.name.replace("\\", "/").split("/")
        if parts[0] == "" or ".." in parts or _DRIVE.match(each.name) or "\0" in each.name:
            report.add("bundle_path", f"{quoted(each.name)} leads outside", path=BUNDLE)
    names = {each.name for each in bundle.entries}
    lacking = [name for name in _IN_BUNDLE if not any(_is_in(name, each) for each in names)]
    if lacking:
        report.add("bundle_names", f"lacks {', '.join(lacking)}", path=BUNDLE)


def _is_in(name: str, entry: str) -> bool:
    return entry.startswith(name) if name.endswith("/") else entry == name
