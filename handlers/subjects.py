"""What decisions are about, if not a session: the names under which `runward why` finds them.

Handlers write them and commands look them up, so this imports nothing.
"""

from typing import Final

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
