"""The ten contracts: which files each needs, and what checks it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from runward.handlers.ctcp import (
    context_pack,
    events,
    file_request,
    find_result,
    guardrails,
    patch,
    plan,
    reviews,
    verify_report,
    web_findings,
)
from runward.handlers.ctcp.documents import MOST_BYTES, MOST_OF_LINES, Documents
from runward.handlers.ctcp.report import Report


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
    "A": Contract(guardrails.PATH, guardrails.check, _small(guardrails.PATH)),
    "B": Contract(file_request.PATH, file_request.check, _small(file_request.PATH)),
    "C": Contract(context_pack.PATH, context_pack.check, _small(context_pack.PATH, file_request.PATH)),
    "D": Contract(find_result.PATH, find_result.check, _small(find_result.PATH)),
    "E": Contract(web_findings.PATH, web_findings.check, _small(web_findings.PATH, guardrails.PATH)),
    "F": Contract(plan.DRAFT, plan.check, {plan.DRAFT: MOST_BYTES, plan.PATH: MOST_BYTES}),
    "G": Contract(reviews.CONTRACT, reviews.check, _small(reviews.CONTRACT, reviews.COST)),
    "H": Contract(patch.PATH, patch.check, {patch.PATH: MOST_OF_LINES, plan.PATH: MOST_BYTES}),
    "I": Contract(
        verify_report.PATH,
        verify_report.check,
        {verify_report.PATH: MOST_BYTES, verify_report.TRACE: 0},
        reads_bundle=True,
    ),
    "J": Contract(
        events.PATH,
        events.check,
        {events.PATH: MOST_OF_LINES, events.RUN: MOST_BYTES, verify_report.PATH: MOST_BYTES},
    ),
}


def further_needs(letter: str, documents: Documents) -> Iterable[str]:
    """Files whose existence counts, according to the files that were read."""
    named = verify_report.named_bundle(documents) if CONTRACTS[letter].reads_bundle else None
    return () if named is None else (named,)


def new_report(letter: str, allow_missing: bool = False) -> Report:
    """An empty report on a contract, for its check to fill."""
    return Report(letter, CONTRACTS[letter].path, allow_missing)
