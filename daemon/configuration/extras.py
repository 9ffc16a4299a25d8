"""Libraries that Runward needs only for some purposes, and how to install them."""

from importlib.util import find_spec
from typing import Final


def how_to_install(extra: str) -> str:
    """What to do where the libraries of an extra are missing."""
    return f"in Runward's checkout, run pipx install --force '.[{extra}]' (or the same with uv or pip)"


NO_SIGNING: Final = f"signing needs more libraries: {how_to_install('sign')}"
_OF_SCHEME: Final = {"ed25519": "cryptography", "nostr": "coincurve"}


def why_not_signed(scheme: str | None) -> str | None:
    """Why receipts can't be signed in this way; None if nothing hinders that."""
    if scheme is None or find_spec(_OF_SCHEME[scheme]) is not None:
        return None
    return f"bundle.sign: {NO_SIGNING}"
