"""Small CTCP runs of our own making, with the fields of the orchestrator's."""

import json

from runward.config.json_value import JsonValue


def event(name: str, at: str = "2026-03-01T10:00:00", **more: JsonValue) -> bytes:
    """A line of `events.jsonl` (contract J)."""
    record: dict[str, JsonValue] = {"ts": at, "role": "Local Orchestrator", "event": name, "path": ""}
    return json.dumps(record | more).encode()


def run_json(status: str = "running", **more: JsonValue) -> dict[str, JsonValue]:
    """`RUN.json` as the orchestrator keeps it."""
    run: dict[str, JsonValue] = {
        "schema_version": "ctcp-run-v1",
        "run_id": "run-7",
        "goal": "fix the lift",
        "status": status,
        "verify_iterations": 0,
        "max_iterations": 3,
        "repo_root": "/repo",
        "created_at": "2026-03-01T10:00:00",
        "updated_at": "2026-03-01T10:00:09",
    }
    return run | more


def report(result: str) -> dict[str, JsonValue]:
    """`artifacts/verify_report.json` (contract I)."""
    return {
        "result": result,
        "gate": "lite",
        "commands": [{"cmd": "make check", "exit_code": 0 if result == "PASS" else 1}],
        "failures": [],
        "artifacts": {"trace": "TRACE.md"},
    }


def beginning() -> list[bytes]:
    """A run up to its signed plan: one prompt that a person answered."""
    return [
        event("run_created", path="RUN.json"),
        event("find_local_run", "2026-03-01T10:00:01", rc=0, cmd="resolve"),
        event("OUTBOX_PROMPT_CREATED", "2026-03-01T10:00:02", role="chair", target_path="artifacts/PLAN.md"),
        event("OUTBOX_PROMPT_FULFILLED", "2026-03-01T10:00:03", role="chair"),
    ]


def verification(iteration: int, is_good: bool) -> list[bytes]:
    """A patch that is applied, verified, and what the orchestrator says of it."""
    minute, rc = f"2026-03-01T10:0{iteration}", 0 if is_good else 1
    ends = [event("VERIFY_PASSED", f"{minute}:04", rc=0), event("run_pass", f"{minute}:05")]
    if not is_good:
        ends = [
            event("VERIFY_FAILED", f"{minute}:04", rc=1),
            event("BUNDLE_CREATED", f"{minute}:05", mode="created"),
            event("OUTBOX_PROMPT_CREATED", f"{minute}:06", role="fixer"),
        ]
    return [
        event("patch_apply", f"{minute}:01", rc=0, code="PATCH_OK"),
        event("VERIFY_STARTED", f"{minute}:02", role="Local Verifier", iteration=iteration),
        event("verify_complete", f"{minute}:03", role="Local Verifier", rc=rc),
        *ends,
    ]


def passed_run() -> list[bytes]:
    return [*beginning(), *verification(1, True)]


def mended_run() -> list[bytes]:
    """It failed, a fixer's patch came, and it passed."""
    return [
        *beginning(),
        *verification(1, False),
        event("OUTBOX_PROMPT_FULFILLED", "2026-03-01T10:01:30", role="fixer"),
        *verification(2, True),
    ]
