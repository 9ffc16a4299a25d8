"""The methods that can isolate code, by their names in the settings."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from runward.config.exchange import Executor
from runward.daemon.sandbox.bubblewrap import Bubblewrapped
from runward.daemon.sandbox.isolated import Isolated
from runward.daemon.sandbox.landlocked import Landlocked


class IsolationMethod(Protocol):
    """Starts processes that are isolated."""

    def __call__(self, executor: Executor, arguments: tuple[str, ...], /) -> Isolated:
        """Start one. Raises `NoSandbox`."""

    def check(self) -> None:
        """Raise `NoSandbox` if it is clearly unavailable. This starts nothing."""


ISOLATION_METHODS: Final[Mapping[str, IsolationMethod]] = MappingProxyType(
    {"bubblewrap": Bubblewrapped, "landlock": Landlocked}
)
