"""Contract G: `reviews/review_contract.md` and `reviews/review_cost.md`, the two reviews."""

from typing import Final

from runward.config.problem import quoted
from runward.handlers.ctcp.documents import Documents, content_of
from runward.handlers.ctcp.key_lines import key_lines
from runward.handlers.ctcp.report import Report

CONTRACT: Final = "reviews/review_contract.md"
COST: Final = "reviews/review_cost.md"

_VERDICT: Final = b"verdict:"
_NEEDED: Final = ("Blocking Reasons", "Required Fix/Artifacts")


def check(documents: Documents, report: Report) -> None:
    """Check both reviews."""
    for path in (CONTRACT, COST):
        content = content_of(documents, path, report)
        if content is not None:
            _check(path, content, report)


def _check(path: str, content: bytes | bytearray, report: Report) -> None:
    number, word = _verdict(content)
    if word == "BLOCK":
        keys = key_lines(content)
        lacking = [name for name in _NEEDED if name.lower() not in keys or not keys[name.lower()].items]
        for name in lacking:
            report.add("field", f"blocks, and {quoted(name)} is missing or empty", number, path)
        if not lacking:
            report.add("block", "blocks, and says why", number, path)
    elif word != "APPROVE":
        said = "has no line that begins with 'Verdict:'" if word is None else f"the verdict is {quoted(word)}"
        report.add("verdict", f"{said}; write APPROVE or BLOCK", number, path)


def _verdict(content: bytes | bytearray) -> tuple[int | None, str | None]:
    """What the first verdict says, and its line."""
    for number, line in enumerate(bytes(content).split(b"\n"), 1):
        if line[: len(_VERDICT)].lower() == _VERDICT:
            return number, line[len(_VERDICT) :].decode(errors="replace").strip()
    return None, None
