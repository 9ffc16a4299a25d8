"""The ten contracts: which files each needs, and what checks it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from runward.handlers.ctcp import changing, searching
from runward.handlers.ctcp.documents import MOST_BYTES, MOST_OF_LINES, Documents
from runward.handlers.ctcp.rules import Report


class Contract(NamedTuple):
    """One contract. `path` is its first file.

    `needs` are the files to read, with the most bytes of each; 0 means that only its existence counts.
    """

    path: str
    check: Callable[[Documents, Report], object]
    needs: Mapping[str, int]
    reads_bundle: bool = False


def _small(*paths: str) -> dict[str, int]:
    return dict.fromkeys(paths, MOST_BYTES)


CONTRACTS: Final[Mapping[str, Contract]] = {
    "A": Contract(searching.GUARDRAILS, searching.check_guardrails, _small(searching.GUARDRAILS)),
    "B": Contract(searching.FILE_REQUEST, searching.check_file_request, _small(searching.FILE_REQUEST)),
    "C": Contract(
        searching.CONTEXT_PACK,
        searching.check_context_pack,
        _small(searching.CONTEXT_PACK, searching.FILE_REQUEST),
    ),
    "D": Contract(searching.FIND_RESULT, searching.check_find_result, _small(searching.FIND_RESULT)),
    "E": Contract(
        searching.WEB_FINDINGS,
        searching.check_web_findings,
        _small(searching.WEB_FINDINGS, searching.GUARDRAILS),
    ),
    "F": Contract(
        changing.PLAN_DRAFT, changing.check_plan, {changing.PLAN_DRAFT: MOST_BYTES, changing.PLAN: MOST_BYTES}
    ),
    "G": Contract(
        changing.REVIEW_OF_CONTRACT,
        changing.check_reviews,
        _small(changing.REVIEW_OF_CONTRACT, changing.REVIEW_OF_COST),
    ),
    "H": Contract(
        changing.PATCH, changing.check_patch, {changing.PATCH: MOST_OF_LINES, changing.PLAN: MOST_BYTES}
    ),
    "I": Contract(
        changing.VERIFY_REPORT,
        changing.check_verify_report,
        {changing.VERIFY_REPORT: MOST_BYTES, changing.TRACE: 0},
        reads_bundle=True,
    ),
    "J": Contract(
        changing.EVENTS,
        changing.check_events,
        {changing.EVENTS: MOST_OF_LINES, changing.RUN: MOST_BYTES, changing.VERIFY_REPORT: MOST_BYTES},
    ),
}


def further_needs(letter: str, documents: Documents) -> Iterable[str]:
    """Files whose existence counts, according to the files that were read."""
    named = changing.named_bundle(documents) if CONTRACTS[letter].reads_bundle else None
    return () if named is None else (named,)


def new_report(letter: str, allow_missing: bool = False) -> Report:
    """An empty report on a contract, for its check to fill."""
    return Report(letter, CONTRACTS[letter].path, allow_missing)
