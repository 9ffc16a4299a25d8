"""What jobs and decisions are about, if not a session: the lanes of jobs, and the names under which `runward why` finds
decisions.

Handlers write them and commands look them up, so this imports nothing.
"""

from typing import Final

BACKGROUND: Final = "files:"
"""The prefix of lanes whose jobs are done in the background, when no verdict is on its way."""

TIMERS: Final = "timer:"
"""The prefix of lanes whose jobs wait until some time has passed, whatever the wall clock does."""

SCHEDULE: Final = "schedule:"
"""The prefix of schedules' lanes, and so of the subjects of their timers."""

SCHEDULED: Final = f"{TIMERS}{SCHEDULE}"
"""The prefix of lanes that wait for the next time of a chain's schedule."""

START: Final = "start "
CHAIN: Final = "chain "
PRUNE: Final = "prune"
PRINCIPAL: Final = "principal:"


def of_start(name: str) -> str:
    """A run that was asked for. `name` is its directory's, begun or not."""
    return f"{START}{name}"


def of_chain(name: str) -> str:
    """A chain: its firings, and what people asked of it."""
    return f"{CHAIN}{name}"


def of_job(number: int) -> str:
    """What people asked of a job."""
    return f"job {number}"


def of_notice(identifier: str) -> str:
    """What people asked of a notice."""
    return f"notice {identifier}"


def of_root(name: str) -> str:
    """What people said of a root."""
    return f"root {name}"


def of_principal(name: str) -> str:
    """A principal of the exchange, and what was minted for it."""
    return f"{PRINCIPAL}{name}"
