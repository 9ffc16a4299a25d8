"""A step that another host shall run, as its origin knows it: whether it may have begun there, and what is said of that."""

from typing import Final

from runward.config.step import Step
from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.chains import RUNS_ELSEWHERE, WAITS_FOR_HOST, StepStanding
from runward.handlers.model.effects import Effect
from runward.handlers.model.fleet import CancelOrder, Offer, OffersOf, Try
from runward.handlers.times import in_utc

_NOT_KNOWN: Final = (
    "no host is known to have taken it, and its order is withdrawn: whether one took it all the same is known here once the"
    " fleet's database has answered"
)
_TOLD: Final = "that host is told never to begin it, or to end it"


def is_elsewhere(standing: StepStanding) -> bool:
    """Whether another host shall run this try of a step, and may run it."""
    return standing.reason == WAITS_FOR_HOST or (
        standing.status == "running" and standing.reason == RUNS_ELSEWHERE
    )


def cancel_order(run: str, standing: StepStanding, at: float) -> tuple[Effect, ...]:
    """Have the order for this try cancelled, if there is one that is not over."""
    if not is_elsewhere(standing):
        return ()
    return (CancelOrder(Try(run, standing.step, standing.attempt), at),)


def may_still_be_withdrawn(standing: StepStanding) -> bool:
    """Whether nothing is known here of a begin of this try: nobody took it, or its taker has not said that it begins."""
    # Of what an older Runward recorded as taken, it is not known whether it was said.
    return standing.status == "waiting" or standing.result.began_there == "unknown"


def ends_in_doubt(step: Step, standing: StepStanding) -> Asking[tuple[StepStanding, str]]:
    """A try that ends here before its order is over: how it stands, and what is known by now of whether it began."""
    known = standing.result
    result = known._replace(began_there=known.began_there or "unknown", is_in_doubt=True)
    over = standing._replace(result=result)
    if known.host is None:
        return over, _NOT_KNOWN
    if known.began_there == "yes":
        return over, has_begun(known.host, known.session)
    offers = yield from ask(OffersOf("action" if step.skill is None else "skill", step.name))
    return over, taken_in_silence(known.host, known.taken_at, _last_seen(known.host, offers))


def taken_by(host: str, at: float | None, what: str = "it") -> str:
    """Which host took a step, and when, by the clock of the fleet's database."""
    return f"{host} took {what}" + ("" if at is None else f" at {in_utc(round(at))}")


def taken_in_silence(host: str, at: float | None, seen: str) -> str:
    """A host took the step and has not said that it begins it."""
    return f"{taken_by(host, at)} and has not said that it began it{seen}: it may have begun there; {_TOLD}"


def has_begun(host: str, session: str | None) -> str:
    """A host said that the step began."""
    return f"it began on {host} ({session or 'its session is not known'}); that host is told to end it"


def _last_seen(host: str, offers: tuple[Offer, ...]) -> str:
    seen = next((each.last_seen for each in offers if each.host == host), None)
    return "" if seen is None else f" ({host} was last seen at {in_utc(round(seen))})"
