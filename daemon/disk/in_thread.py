"""Reading in threads that a stop doesn't wait for: the disk may hang, and reading changes nothing."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

import anyio.to_thread

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


async def in_thread(read: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    """The result of `read`. If this is cancelled, the thread still runs to its end."""
    return await anyio.to_thread.run_sync(read, *arguments, abandon_on_cancel=True)
