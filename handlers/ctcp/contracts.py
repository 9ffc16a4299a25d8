"""The ten contracts: which files each needs, and what checks it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from runward.handlers.ctcp import changing, searching
from runward.handlers.ctcp.documents import MOST_BYTES, MOST_OF_LINES, Documents
from runward.handlers.ctcp.rules import Report


class Contract(NamedTuple):
    """One contract. `needs` are the files to read, with the most bytes of each; 0 means that only its existence counts."""

    check: Callable[[Documents, Report], object]
    needs: Mapping[str, int]
    reads_bundle: bool = False

    @property
    def path(self) -> str:
        """The file that the contract is about: the first of those that it needs."""
        return next(iter(self.needs))


def _small(*paths: str) -> dict[str, int]:
    return dict.fromkeys(paths, MOST_BYTES)


CONTRACTS: Final[Mapping[str, Contract]] = {
    "A": Contract(searching.check_guardrails, _small(searching.GUARDRAILS)),
    "B": Contract(searching.check_file_request, _small(searching.FILE_REQUEST)),
    "C": Contract(searching.check_context_pack, _small(searching.CONTEXT_PACK, searching.FILE_REQUEST)),
    "D": Contract(searching.check_find_result, _small(searching.FIND_RESULT)),
    "E": Contract(searching.check_web_findings, _small(searching.WEB_FINDINGS, searching.GUARDRAILS)),
    "F": Contract(changing.check_plan, _small(changing.PLAN_DRAFT, changing.PLAN)),
    "G": Contract(changing.check_reviews, _small(changing.REVIEW_OF_CONTRACT, changing.REVIEW_OF_COST)),
    "H": Contract(changing.check_patch, {changing.PATCH: MOST_OF_LINES, **_small(changing.PLAN)}),
    "I": Contract(
        changing.check_verify_report, {**_small(changing.VERIFY_REPORT), changing.TRACE: 0}, reads_bundle=True
    ),
    "J": Contract(
        changing.check_events,
        {changing.EVENTS: MOST_OF_LINES, **_small(changing.RUN, changing.VERIFY_REPORT)},
    ),
}


def further_needs(letter: str, documents: Documents) -> Iterable[str]:
    """Files whose existence counts, according to the files that were read."""
    named = changing.named_bundle(documents) if CONTRACTS[letter].reads_bundle else None
    return () if named is None else (named,)


def new_report(letter: str, allow_missing: bool) -> Report:
    """An empty report on a contract, for its check to fill."""
    return Report(letter, CONTRACTS[letter].path, allow_missing)
