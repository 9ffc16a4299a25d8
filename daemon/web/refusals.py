"""Refusals in the log: anybody can cause one, so at most one a second is logged."""

import time
from typing import Final

import structlog

_BETWEEN_S: Final = 1.0


class Refusals:
    """The refusals of one path, logged as the event `name`."""

    def __init__(self, log: structlog.typing.FilteringBoundLogger, name: str) -> None:
        self._log = log
        self._name = name
        self._logged_at: float | None = None

    def say(self, **words: object) -> None:
        """Log one, unless another was logged within the last second."""
        now = time.monotonic()
        if self._logged_at is None or now - self._logged_at >= _BETWEEN_S:
            self._logged_at = now
            self._log.info(self._name, **words)
