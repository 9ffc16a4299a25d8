"""Which of the daemon's own keys count when a signature is checked; an unusable one is reported and does not count."""

import os
from collections.abc import Callable

from runward.daemon.disk.receipt_keys import KeyRefused, own_public_keys


def own_keys_that_count(state: str, report: Callable[[str], None]) -> frozenset[str]:
    """Our public keys; `state` is the state directory. `report` takes what is wrong with them."""
    try:
        return own_public_keys(state, os.environ)
    except KeyRefused as refused:
        report(f"the daemon's own keys don't count here: {refused}")
    except OSError as error:
        report(f"the daemon's own keys can't be read: {error.filename}: {error.strerror}")
    return frozenset()
