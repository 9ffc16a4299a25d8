"""What the daemon reaches: a real machine, or a simulated one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runward.config.exchange import ExchangeRules
from runward.daemon.configuration.complaints import Wrong
from runward.daemon.parts.actions_with_code import ActionsWithCode, no_sandbox
from runward.daemon.parts.answering import (
    NO_CHAINS,
    Bundled,
    Chains,
    Covering,
    Declared,
    Playable,
    Ruling,
    no_bundles,
    no_playbooks,
    no_roots,
    no_rules,
)
from runward.daemon.parts.bundles import ToldActions, no_actions
from runward.daemon.parts.notices import NOBODY, Messenger
from runward.daemon.sandbox.isolated import KilledWorkers
from runward.daemon.watch.notifications import Notifications, WatchedDirectories
from runward.daemon.web.sockets import HttpReport, StudioReport
from runward.daemon.world.clock import Clock, Randomness
from runward.daemon.world.files import Files
from runward.daemon.world.processes import Processes


@dataclass(slots=True)
class World:
    """Clock, files, processes and randomness, and what else differs between a real daemon and a simulated one."""

    clock: Clock
    files: Files
    processes: Processes
    randomness: Randomness
    notifications: Notifications
    declared: Declared
    ruled: Ruling = no_rules
    playable: Playable = no_playbooks
    covering: Covering = no_roots
    chains: Chains = NO_CHAINS
    messenger: Messenger = NOBODY
    bundled: Bundled = no_bundles
    exchange: Callable[[], ExchangeRules] = ExchangeRules
    """What the settings say about the exchange."""
    with_code: ActionsWithCode = field(default_factory=lambda: ActionsWithCode(no_sandbox))
    """Works out the actions that need code."""
    actions: ToldActions = no_actions
    """What the exchange reports about a session's calls."""
    troubles: Callable[[], list[str]] = list
    """Problems with the operator's files, for `status`."""
    quarantined: Callable[[], list[tuple[str, str]]] = list
    """The chains whose files are wrong, each with the reason. Used in threads; raises `OSError`."""
    http: Callable[[], HttpReport | None] = lambda: None
    """Where it listens, for `status`."""
    killed: Callable[[], KilledWorkers | None] = lambda: None
    """The workers that were killed, for `status`."""
    studio: Callable[[], StudioReport | None] = lambda: None
    """Where the Studio is served, for `status`."""
    directories: WatchedDirectories = field(default_factory=WatchedDirectories)
    """The directories that are watched in addition to the roots."""
    wrong: Callable[[], Sequence[Wrong] | None] = lambda: None
    """What is wrong with all configuration, for `status`; None before the first check."""
