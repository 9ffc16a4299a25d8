"""What the layout of a session declares about reading it, our own layout's runs among them."""

from typing import Final

from runward.handlers.layouts import call_readers, native
from runward.handlers.layouts.layout import Declared

_NATIVE: Final = Declared(call_readers.CALLS)


def declared(layout: str) -> Declared:
    """What the layout of this name declares. All layouts are imported with the first that isn't native."""
    if layout == native.LAYOUT:
        return _NATIVE
    from runward.handlers.layouts.registry import DECLARED

    return DECLARED[layout]
