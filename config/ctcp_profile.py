"""The profile `ctcp` of an artifacts block: the ten CTCP contracts as ten entries."""

from typing import Final, NamedTuple

CTCP: Final = "ctcp"


class ProfileEntry(NamedTuple):
    """One contract: its letter, its first file, and a description."""

    id: str
    path: str
    description: str


ENTRIES: Final = (
    ProfileEntry("A", "artifacts/guardrails.md", "guardrails"),
    ProfileEntry("B", "artifacts/file_request.json", "file request"),
    ProfileEntry("C", "artifacts/context_pack.json", "context pack"),
    ProfileEntry("D", "artifacts/find_result.json", "find result"),
    ProfileEntry("E", "artifacts/find_web.json", "web findings, which may be absent"),
    ProfileEntry("F", "artifacts/PLAN_draft.md", "draft and signed plan"),
    ProfileEntry("G", "reviews/review_contract.md", "the two reviews"),
    ProfileEntry("H", "artifacts/diff.patch", "patch"),
    ProfileEntry("I", "artifacts/verify_report.json", "verification report"),
    ProfileEntry("J", "events.jsonl", "events"),
)

BY_PATH: Final = {entry.path: entry for entry in ENTRIES}
