"""A page that many have open is read and rendered once for each change."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from runward.daemon.studio.events import Events
from runward.daemon.studio.rendering import Page

KEPT_S: Final = 1.0
"""Seconds that a page is kept: it may show what is not in the store, such as the output of a run, or the age of a thing."""

MOST: Final = 64
"""Pages that are kept."""


class SharedPages:
    """The pages of the last second, as long as nothing changed. Only while streams are open: then changes are noticed."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._pages: dict[Hashable, asyncio.Future[Page | None]] = {}

    async def get(self, request: Request, show: Callable[[Request], Awaitable[Response]]) -> Response:
        """What `show` answers, or what it answered to another request for the same."""
        changes = self._events.changes
        if changes is None:
            return await show(request)
        scope = request.scope
        # Whatever a page depends on beyond the store: who asks is the same for all, since there is one user.
        key = (
            changes,
            scope["raw_path"],
            scope["query_string"],
            scope["runward.host"],
            scope["runward.studio"],
        )
        if key in self._pages:
            return await asyncio.shield(self._pages[key]) or await show(request)
        if len(self._pages) >= MOST:
            return await show(request)
        loop = asyncio.get_running_loop()
        made: asyncio.Future[Page | None] = loop.create_future()
        self._pages[key] = made
        shown = None
        try:
            answer = await show(request)
            shown = answer if isinstance(answer, Page) else None
        finally:
            made.set_result(shown)  # without one, each makes its own, and gets its own error
            loop.call_later(KEPT_S if shown else 0.0, self._pages.pop, key)
        return answer
