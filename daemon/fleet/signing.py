"""The key of this host that signs its orders: that of its receipts, if it has one."""

import os
from pathlib import Path

from runward.daemon.disk.receipt_keys import KeyRefused, own_key
from runward.handlers.bundle.signatures import NoLibrary, SecretKey, public_key


def signing_key(state: Path) -> tuple[SecretKey | None, str | None]:
    """The key, None if there is none that can be used; and why it can't be. Orders are then not signed."""
    try:
        own = own_key(str(state), "ed25519", os.environ)
        if own is None:
            return None, None
        public_key(own.key)
    except (KeyRefused, OSError) as error:
        return None, f"orders are not signed: {error}"
    except NoLibrary:
        return None, "orders are not signed: install the extra `sign`"
    return own.key, None
