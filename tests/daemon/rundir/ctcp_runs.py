"""A CTCP run directory that holds to every contract, and variants of it that break one rule each."""

import copy
import io
import json
import struct
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

GUARDRAILS: Final = "artifacts/guardrails.md"
REQUEST: Final = "artifacts/file_request.json"
PACK: Final = "artifacts/context_pack.json"
RESULT: Final = "artifacts/find_result.json"
WEB: Final = "artifacts/find_web.json"
DRAFT: Final = "artifacts/PLAN_draft.md"
PLAN: Final = "artifacts/PLAN.md"
CONTRACT_REVIEW: Final = "reviews/review_contract.md"
COST_REVIEW: Final = "reviews/review_cost.md"
PATCH: Final = "artifacts/diff.patch"
REPORT: Final = "artifacts/verify_report.json"
EVENTS: Final = "events.jsonl"
RUN: Final = "RUN.json"
TRACE: Final = "TRACE.md"
BUNDLE: Final = "failure_bundle.zip"

Files = Mapping[str, bytes | None]

_IN_BUNDLE: Final = (TRACE, EVENTS, REPORT, PLAN, PATCH, "reviews/", "outbox/")
_JSON: Final[dict[str, Any]] = {
    REQUEST: {
        "schema_version": "ctcp-file-request-v1",
        "goal": "g",
        "needs": [
            {"path": "README.md", "mode": "snippets", "line_ranges": [[1, 6]]},
            {"path": "../outside.txt", "mode": "full"},
        ],
        "budget": {"max_files": 1, "max_total_bytes": 4},
        "reason": "r",
    },
    PACK: {
        "schema_version": "ctcp-context-pack-v1",
        "goal": "g",
        "repo_slug": "s",
        "summary": "s",
        "files": [{"path": "README.md", "why": "w", "content": "x€"}],
        "omitted": [{"path": "../outside.txt", "reason": "denied"}],
    },
    RESULT: {
        "schema_version": "ctcp-find-result-v1",
        "selected_workflow_id": "w",
        "selected_version": "1",
        "candidates": [{"workflow_id": "w", "version": "1", "score": 0.5, "why": "y"}],
    },
    WEB: {
        "schema_version": "ctcp-find-web-v1",
        "constraints": {"allow_domains": ["example.org"], "max_queries": 2, "max_pages": 1},
        "results": [
            {
                "url": "https://docs.example.org/a#b",
                "locator": {"type": "heading", "value": "v"},
                "fetched_at": "2026-01-01T00:00:00Z",
                "excerpt": "e",
                "why_relevant": "w",
                "risk_flags": ["old"],
            }
        ],
    },
    REPORT: {
        "result": "PASS",
        "gate": "lite",
        "commands": [{"cmd": "make test", "exit_code": 0}],
        "failures": [],
        "artifacts": {"trace": "TRACE.md", "bundle": "failure_bundle.zip"},
    },
    RUN: {"status": "pass"},
}
_EVENT: Final = {"ts": "2026-01-01T00:00:00", "role": "chair", "event": "run_created", "path": ""}
_FAILURE: Final = {"kind": "k", "id": "i", "message": "m"}
_LINES: Final = {
    GUARDRAILS: {
        "find_mode": "resolver_plus_web",
        "max_files": "5",
        "max_total_bytes": "20000",
        "max_iterations": "2",
        "allow_domains": "[example.org]",
        "max_queries": "2",
        "max_pages": "1",
    },
    PLAN: {
        "Status": "SIGNED",
        "Scope-Allow": "docs/, src",
        "Scope-Deny": "docs/secret",
        "Gates": "lite, plan_check, patch_check, behavior_catalog_check",
        "Stop": "max_iterations=2",
        "Budgets": "max_files=5",
        "Steps": "\n- patch\n- verify",
        "Behaviors": "B001",
        "Results": "R001",
    },
}
_BLOCK: Final = {"Verdict": "BLOCK", "Blocking Reasons": "\n- why", "Required Fix/Artifacts": "\n\n1. fix"}
_NEW: Final = """\
diff --git a/docs/a b.md b/docs/a b.md
new file mode 100644
--- /dev/null
+++ b/docs/a b.md\t
@@ -0,0 +1 @@
+sample
"""


class Variant(NamedTuple):
    """The files that are different (None: not there), and the one rule that this breaks."""

    name: str
    rule: str
    files: Files


def passing() -> dict[str, bytes]:
    """The files of a run directory without an error or a warning."""
    return {
        **{path: _json(value) for path, value in _JSON.items()},
        **{path: _key_lines(lines) for path, lines in _LINES.items()},
        DRAFT: b"",
        CONTRACT_REVIEW: b"# Review\n\nVerdict: APPROVE\n",
        COST_REVIEW: b"verdict: APPROVE",
        PATCH: _NEW.encode(),
        EVENTS: _json(_EVENT) + b"\n" + _json({**_EVENT, "ts": "2026-01-01T00:00:00Z"}),
        TRACE: b"t",
        BUNDLE: zipped(dict.fromkeys(_IN_BUNDLE, b"x")),
    }


def write_run(directory: Path, files: Files) -> None:
    """Write the passing run directory, with other files in place of its own."""
    for path, content in {**passing(), **files}.items():
        if content is not None:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(content)


def zipped(entries: Mapping[str, bytes]) -> bytes:
    """A zip file with these entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, b"" if name.endswith("/") else content)
    return file.getvalue()


def stating(bundle: bytes, name: str, size: int) -> bytes:
    """The zip file with another unpacked size of an entry in its directory."""
    at = bundle.rindex(name.encode()) - 46
    assert bundle[at : at + 4] == b"PK\x01\x02"
    return bundle[: at + 24] + struct.pack("<L", size) + bundle[at + 28 :]


def variants() -> Iterator[Variant]:
    """Run directories that break exactly one rule each."""
    yield from _missing_files()
    yield from _fields()
    yield from _no_documents()
    yield from _keys()
    yield from _values()
    yield from _patches()
    yield from _bundles()
    yield from _journals()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _key_lines(lines: Mapping[str, str]) -> bytes:
    return "".join(f"{key}: {value}\n" for key, value in lines.items()).encode()


def _missing_files() -> Iterator[Variant]:
    letters = {GUARDRAILS: "A", REQUEST: "B", PACK: "C", RESULT: "D", DRAFT: "F", PLAN: "F", CONTRACT_REVIEW: "G",
               COST_REVIEW: "G", PATCH: "H", REPORT: "I", EVENTS: "J"}  # fmt: skip
    for path, letter in letters.items():
        yield Variant(f"no {path}", f"{letter}.missing", {path: None})


_DOCUMENTS: Final = {"B": REQUEST, "C": PACK, "D": RESULT, "E": WEB, "I": REPORT}
_OPTIONAL: Final = ("line_ranges", "bundle")


def _fields() -> Iterator[Variant]:
    for letter, path in _DOCUMENTS.items():
        for place in _places(_JSON[path]):
            if place[-1] in _OPTIONAL or any(isinstance(step, int) for step in place[-1:]):
                continue
            if place == ("schema_version",):
                for value in (None, "ctcp-other-v1", 1):
                    yield _changed(path, place, value, f"{letter}.schema_version")
                continue
            if "line_ranges" in place:
                continue
            found = _at(_JSON[path], place)
            yield _changed(path, place, None, f"{letter}.field")
            other: object = 7 if isinstance(found, str) else "7" if isinstance(found, int | float) else 7
            yield _changed(path, place, other, f"{letter}.field")
            if isinstance(found, int | float):
                yield _changed(path, place, True, f"{letter}.field")


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in steps:
        yield (*above, step)
        yield from _places(below, (*above, step))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def _changed(path: str, place: tuple[Any, ...], value: object, rule: str, **more: bytes | None) -> Variant:
    """The document with another value at a place, without it where that is None."""
    whole = copy.deepcopy(_JSON[path])
    holder = _at(whole, place[:-1])
    if value is None:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    name = f"{path} {'.'.join(map(str, place))} {value!r}"
    return Variant(name, rule, {path: _json(whole), **more})


def _no_documents() -> Iterator[Variant]:
    for letter, path in _DOCUMENTS.items():
        texts = (b"{", b"", b'{"a": 1, "a": 1}', b'{"a": NaN}', b"[" * 100, b"\xff", b'{"a": "\\ud800"}')
        for text in texts:
            yield Variant(f"{path} {text[:20]!r}", f"{letter}.not_json", {path: text})
        for text in (b"[]", b"null", b'"x"'):
            yield Variant(f"{path} {text!r}", f"{letter}.not_object", {path: text})
    large = b"x" * ((16 << 20) + 1)
    sizes = {"A": GUARDRAILS, **_DOCUMENTS, "F": PLAN, "G": COST_REVIEW}
    for letter, path in sizes.items():
        yield Variant(f"large {path}", f"{letter}.too_large", {path: large})


def _without(path: str, key: str) -> bytes:
    return _key_lines({name: value for name, value in _LINES[path].items() if name != key})


def _with(path: str, key: str, value: str) -> bytes:
    return _key_lines({**_LINES[path], key: value})


def _keys() -> Iterator[Variant]:
    for key in _LINES[GUARDRAILS]:
        yield Variant(f"no {key}", "A.field", {GUARDRAILS: _without(GUARDRAILS, key)})
        yield Variant(f"empty {key}", "A.field", {GUARDRAILS: _with(GUARDRAILS, key, "")})
        if key.startswith("max_"):
            for value in ("many", "1.5", "5 files", "٣"):
                yield Variant(f"{key} {value}", "A.field", {GUARDRAILS: _with(GUARDRAILS, key, value)})
    yield Variant(
        "bullet", "A.field", {GUARDRAILS: _with(GUARDRAILS, "max_files", "1").replace(b"max_f", b"- max_f")}
    )
    yield Variant(
        "heading", "A.field", {GUARDRAILS: _with(GUARDRAILS, "max_files", "1").replace(b"max_f", b"#max_f")}
    )
    yield Variant(
        "last", "A.find_mode", {GUARDRAILS: _key_lines(_LINES[GUARDRAILS]) + b" FIND_MODE: web\n", WEB: None}
    )
    yield Variant("zero", "A.below_one", {GUARDRAILS: _with(GUARDRAILS, "max_files", "0")})
    yield Variant("below zero", "A.below_one", {GUARDRAILS: _with(GUARDRAILS, "max_iterations", "-1")})
    for key in ("Scope-Allow", "Stop", "Budgets", "Steps"):
        yield Variant(f"no {key}", "F.field", {PLAN: _without(PLAN, key)})
        yield Variant(f"empty {key}", "F.field", {PLAN: _with(PLAN, key, "")})
        yield Variant(f"{key} none", "F.field", {PLAN: _with(PLAN, key, "none")})
    yield Variant("no Scope-Deny", "F.field", {PLAN: _without(PLAN, "Scope-Deny")})
    for value in ("DRAFT", "signed", "", "SIGNED by me"):
        yield Variant(f"status {value}", "F.status", {PLAN: _with(PLAN, "Status", value)})
    yield Variant("no status", "F.status", {PLAN: _without(PLAN, "Status")})
    yield Variant(
        "gates", "F.gates", {PLAN: _with(PLAN, "Gates", "plan_check|patch_check|behavior_catalog_check")}
    )
    for key in ("Behaviors", "Results"):
        yield Variant(f"no {key}", "F.later_key", {PLAN: _without(PLAN, key)})
    yield Variant("lite alone", "F.later_key", {PLAN: _with(PLAN, "Gates", "lite")})
    for path in (CONTRACT_REVIEW, COST_REVIEW):
        for text in ("", "approved", "Verdict: YES", "Verdict: APPROVE|BLOCK", "- Verdict: APPROVE",
                     "**Verdict:** APPROVE", "Verdict:\nVerdict: APPROVE"):  # fmt: skip
            yield Variant(f"{path} {text!r}", "G.verdict", {path: text.encode()})
        yield Variant(f"{path} blocks", "G.block", {path: _key_lines(_BLOCK)})
        for key in ("Blocking Reasons", "Required Fix/Artifacts"):
            for block in (
                {name: value for name, value in _BLOCK.items() if name != key},
                {**_BLOCK, key: "none"},
            ):
                yield Variant(f"{path} {block}", "G.field", {path: _key_lines(block)})


def _values() -> Iterator[Variant]:
    yield _changed(REQUEST, ("needs", 0, "mode"), "weird", "B.mode")
    for value in ("1-2", [[1]], [[1, "2"]], [1, 2], [[1, 2, 3]], [[True, 2]]):
        yield _changed(REQUEST, ("needs", 0, "line_ranges"), value, "B.line_ranges")
    yield _changed(REQUEST, ("needs", 0, "line_ranges"), [[6, 1]], "B.reversed_range")
    yield _changed(REQUEST, ("needs", 0), "README.md", "B.field")
    yield _changed(
        REQUEST, ("budget", "max_files"), 0, "B.below_one", **{PACK: _pack(files=[], omitted=_BOTH)}
    )
    yield _changed(REQUEST, ("budget", "max_files"), 1.5, "B.field")
    yield _changed(PACK, ("omitted", 0, "reason"), "tired", "C.reason")
    for value in ("not_found", "invalid_request", "budget_exceeded"):
        yield _changed(PACK, ("omitted", 0, "reason"), value, "C.later_reason")
    for path in ("/etc/passwd", "../outside.txt", "a/../../b"):
        files = [{"path": path, "why": "w", "content": ""}]
        yield Variant(f"pack {path}", "C.path", {PACK: _pack(files=files, omitted=_BOTH)})
    files = [{"path": "other", "why": "w", "content": ""}]
    yield Variant("pack other", "C.not_requested", {PACK: _pack(files=files, omitted=_BOTH)})
    files = [{"path": "README.md", "why": "w", "content": ""}] * 2
    yield Variant("pack twice", "C.too_many_files", {PACK: _pack(files=files)})
    files = [{"path": "./README.md", "why": "w", "content": "x€€"}]
    yield Variant("pack bytes", "C.too_many_bytes", {PACK: _pack(files=files)})
    yield Variant("pack unanswered", "C.unanswered", {PACK: _pack(omitted=[])})
    yield Variant("pack none", "C.unanswered", {PACK: _pack(files=[])})
    yield _changed(RESULT, ("selected_version",), "2", "D.not_a_candidate")
    yield _changed(RESULT, ("candidates",), [], "D.not_a_candidate")
    only = {GUARDRAILS: _with(GUARDRAILS, "find_mode", "resolver_only")}
    yield Variant("web not enabled", "E.not_enabled", only)
    yield Variant("web no JSON and not enabled", "E.not_enabled", {**only, WEB: b"{"})
    yield _changed(WEB, ("results", 0, "locator", "type"), "page", "E.locator")
    for url in ("https://example.com/", "https://badexample.org/", "https://example.org.evil.com", "example.org",
                "https://example.org@evil.com/", "https://evil.com\\@example.org/", "", "https://[::1"):  # fmt: skip
        yield _changed(WEB, ("results", 0, "url"), url, "E.domain")
    two = [{**_JSON[WEB]["results"][0], "url": f"https://example.org/{page}"} for page in "ab"]
    yield _changed(WEB, ("results",), two, "E.too_many_pages")
    yield _changed(WEB, ("constraints", "max_queries"), 3, "E.wider")
    yield _changed(WEB, ("constraints", "max_pages"), 2, "E.wider")
    yield _changed(WEB, ("constraints", "allow_domains"), ["example.org", "example.com"], "E.wider")
    yield _changed(WEB, ("results", 0, "risk_flags"), [1], "E.field")
    fail = {RUN: _json({"status": "fail"})}
    yield _changed(REPORT, ("result",), "OK", "I.result")
    yield _changed(REPORT, ("gate",), "none", "I.gate")
    yield _changed(REPORT, ("failures",), [_FAILURE], "I.contradiction")
    yield _changed(REPORT, ("commands", 0, "exit_code"), 1, "I.contradiction")
    yield _changed(REPORT, ("result",), "FAIL", "I.contradiction", **fail)
    yield _changed(REPORT, ("artifacts", "bundle"), "other.zip", "I.no_bundle")
    yield _changed(REPORT, ("artifacts", "bundle"), "../failure_bundle.zip", "I.no_bundle")
    yield _changed(REPORT, ("artifacts", "bundle"), 7, "I.field")
    whole = {**_JSON[REPORT], "result": "FAIL"}
    yield Variant("fails", "I.fail", {REPORT: _json({**whole, "failures": [_FAILURE]}), **fail})
    yield Variant("no trace", "I.no_trace", {TRACE: None})
    yield Variant("ended otherwise", "J.other_end", fail)


_BOTH: Final = [{"path": path, "reason": "denied"} for path in ("README.md", "../outside.txt")]


def _pack(**more: object) -> bytes:
    return _json({**_JSON[PACK], **more})


def _file(path: str, body: str = "@@ -1 +1 @@\n-a\n+b\n", old: str | None = None) -> str:
    old = path if old is None else old
    return f"diff --git a/{path} b/{path}\n--- a/{old}\n+++ b/{path}\n{body}"


def _link(path: str, target: str) -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode 120000\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"


def _moved(old: str, new: str, verb: str = "rename") -> str:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\n{verb} from {old}\n{verb} to {new}\n"


def _patches() -> Iterator[Variant]:
    patches = {
        "H.not_a_diff": [
            "", "\n\n", "Here is the patch:\n" + _NEW, "```diff\n" + _NEW, _NEW + "```\n", _NEW + "That is all.\n",
            "--- a/docs/x\n+++ b/docs/x\n@@ -1 +1 @@\n-a\n+b\n", "diff --git a/docs/x b/docs/x\n",
            "diff --git a/docs/x b/docs/x\n@@ -1 +1 @@\n-a\n+b\n", "diff --git a/docs/x b/docs/x\n--- a/docs/x\n",
            "diff --git a/docs/x b/docs/x\nsome words\n" + _NEW, _file("docs/x", "@@ words @@\n"),
            "diff --git a/docs/x b/docs/x\nGIT binary patch\nwords\n",
        ],
        "H.hunk": [
            _NEW + "-- \n2.39.5\n",
            _file("docs/x", "@@ -1,2 +1 @@\n-a\n+b\n"), _file("docs/x", "@@ -1 +1 @@\n-a\n+b\n+c\n"),
            _file("docs/x", "@@ -1,3 +1,3 @@\n a\n-b\n"), _file("docs/x", "@@ -1,2 +1,2 @@\n a\n+b\n+c\n"),
            _file("docs/x", "@@ -1,2 +1,2 @@\n a\n```\n"),
        ],
        "H.names": [
            _file("docs/x", old="docs/y"), "diff --git a/docs/x b/docs/y\nold mode 100644\nnew mode 100755\n",
            "diff --git docs/x docs/x\nold mode 100644\nnew mode 100755\n",
            _moved("docs/x", "docs/y").replace("rename to docs/y", "rename to docs/z"),
            _moved("docs/x", "docs/y").replace("rename to docs/y\n", ""),
            _NEW.replace("new file mode 100644\n", ""), _NEW.replace("/dev/null", "a/docs/a b.md"),
            'diff --git "a/docs/\\q" "b/docs/\\q"\nold mode 100644\nnew mode 100755\n',
            _NEW.replace("\n", "\r\n"),
        ],
        "H.path": [
            _file("../x"), _file("docs/../../x"), _file("/etc/passwd"), _file("C:/x"), _file("docs/.git/config"),
            _file(".GIT/hooks/pre-commit"), _file("docs/..\\..\\x"), _file("docs//x"), _file("docs/.git ./x"),
            'diff --git "a/\\056\\056/x" "b/\\056\\056/x"\nold mode 100644\nnew mode 100755\n',
            'diff --git "a/docs/\\000x" "b/docs/\\000x"\nold mode 100644\nnew mode 100755\n',
            _moved("docs/x", "../x"), _moved("docs/x", "docs/.git/x", "copy"), _file("docs/git~1/x"),
        ],
        "H.link": [
            _link("docs/x", "/etc/passwd"), _link("docs/x", "../../x"), _link("docs/x", "a/../../../x"),
            _link("docs/x", "a/.."), _link("docs/x", "C:/x"), _link("docs/x", "../.git/config"),
            _file("docs/x", "@@ -1 +1 @@\n-a\n+../../x\n").replace("---", "old mode 100644\nnew mode 120000\n---"),
        ],
        "H.scope": [
            _file("README.md"), _file("docs/secret"), _file("docs/secret/x"), _file("docsx/y"), _file("src2/x"),
            _moved("docs/x", "other/x"), _moved("other/x", "docs/x"), _moved("other/x", "docs/x", "copy"),
            "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
            "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n",
            "diff --git a/x b/x\nnew file mode 160000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+Subproject commit 1\n",
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
            'diff --git "a/\\303\\244" "b/\\303\\244"\nold mode 100644\nnew mode 100755\n',
        ],
        "H.large": [
            "".join(_file(f"docs/{number}") for number in range(6)),
            _file("docs/x", "@@ -1 +1,402 @@\n a\n" + "+b\n" * 401),
        ],
        "H.too_large": [_file("docs/x", "@@ -1 +1 @@\n-a\n+" + "b" * (17 << 20) + "\n")],
    }  # fmt: skip
    for rule, texts in patches.items():
        for number, text in enumerate(texts):
            yield Variant(f"patch {rule} {number}", rule, {PATCH: text.encode()})


def _bundles() -> Iterator[Variant]:
    whole = dict.fromkeys(_IN_BUNDLE, b"x")
    bundles = {
        "I.not_a_zip": [b"", b"x", zipped(whole)[:-30], b"PK\x05\x06" + b"\xff" * 18],
        "I.bundle_path": [
            zipped({**whole, name: b""}) for name in ("/etc/x", "../x", "a/../../x", "..\\x", "C:\\x")
        ],
        "I.bundle_size": [
            stating(zipped(whole), "outbox/", (1 << 30) + 1),
            zipped({**whole, **{f"logs/{number}": b"" for number in range(10_001)}}),
        ],
        "I.bundle_names": [
            zipped({name: b"x" for name in _IN_BUNDLE if name != lacking}) for lacking in _IN_BUNDLE
        ],
    }
    for rule, contents in bundles.items():
        for number, content in enumerate(contents):
            yield Variant(f"bundle {rule} {number}", rule, {BUNDLE: content})


def _journals() -> Iterator[Variant]:
    good = _json(_EVENT) + b"\n"
    lines: dict[str, list[bytes]] = {
        "J.no_events": [b"", b"\n", b" \n\n"],
        "J.not_json": [good + b"{\n" + good, good + good.strip() + good, b"\xff\n", b'{"ts": 1, "ts": 1}',
                       b'{"ts": NaN}', b"[" * 70 + b"]" * 70],
        "J.not_object": [good + b"[]", b"null\n", b'"x"', b"7"],
        "J.field": [*(_json({key: value for key, value in _EVENT.items() if key != lacking}) for lacking in _EVENT),
                    *(_json({**_EVENT, key: 7}) for key in _EVENT), b"{}"],
        "J.time": [_json({**_EVENT, "ts": value}) for value in ("", "yesterday", "25:00")],
        "J.too_large": [good + b" " * (17 << 20)],
    }  # fmt: skip
    for rule, contents in lines.items():
        for number, content in enumerate(contents):
            yield Variant(f"journal {rule} {number}", rule, {EVENTS: content})
