"""What chain files were found to say, so that a daemon needn't check thousands of files that an earlier one checked.

A chain is known by the hash of its text and of everything else that the check depends on. What is known here fires
nothing: it says what a chain waits for, and before the chain fires, its file is read and checked.
"""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

import runward.config.chain
from runward.config.chain import Chain, read_chain
from runward.config.problem import Parsed
from runward.config.schedule import Schedule, ScheduleError, zone_called
from runward.config.step import Callables
from runward.daemon import __version__
from runward.daemon.disk.durable import write_durably
from runward.handlers.model.files import signature_of
from runward.handlers.model.schedules import schedule_of_item

NAME: Final = "checked-chains.json"
"""The file in the state directory. Without it, all files are checked again."""

_LIBRARIES: Final = ("yaml", "jinja2", "croniter")
"""What the check uses beside our own modules."""


class CheckedChain(NamedTuple):
    """What a valid chain waits for: events, changes of files (globs), and schedules by name, each with its words."""

    name: str
    events: tuple[str, ...]
    paths: tuple[str, ...]
    schedules: dict[str, str]
    zones: tuple[str, ...]
    """The time zones of the schedules."""


class CheckedChains:
    """The chains that were checked last, in memory and in the state directory, if there is one."""

    def __init__(self, state: Path | None = None) -> None:
        self._code: tuple[object, ...] = ()
        self._state = state
        if state is not None:
            try:
                self._code = _code()  # at once, because a running program may be replaced by another version
            except OSError:
                self._state = None
        self._known = self._kept()

    def reading(self, given: Callables) -> "Reading":
        """A reading of all files, with this given."""
        return Reading(self._known, (self._code, given), given)

    def keep(self, read: "Reading") -> None:
        """Keep what this reading found, and nothing else."""
        before, self._known = self._known, read.valid
        if self._state is not None and before.keys() != read.valid.keys():
            # A full disk is reported elsewhere, and the next daemon checks the files again.
            with suppress(OSError):
                write_durably(self._state, NAME, msgspec.json.encode(read.valid))

    def forget(self) -> None:
        """Have all files checked again: something known turned out to be wrong."""
        self._known = {}

    def _kept(self) -> dict[str, CheckedChain]:
        if self._state is None:
            return {}
        try:
            return msgspec.json.decode((self._state / NAME).read_bytes(), type=dict[str, CheckedChain])
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return {}  # it only saves time


class Reading:
    """Takes the text of each file, and checks what is not known. `valid` is what the valid files say."""

    def __init__(self, known: Mapping[str, CheckedChain], basis: object, given: Callables) -> None:
        self._known, self._given = known, given
        self._basis = sha256(repr(basis).encode(errors="surrogateescape"))
        self.valid: dict[str, CheckedChain] = {}

    def __call__(self, text: str, path: str) -> Parsed[CheckedChain]:
        """What the chain in `text`, which came from `path`, waits for; or everything that is wrong with it."""
        digest = self._basis.copy()
        digest.update(text.encode())
        key = digest.hexdigest()
        chain = self._known.get(key)
        # The machine's time zones can change without any of the files, so a zone is looked up again each time.
        if chain is None or not all(_is_zone(zone) for zone in chain.zones):
            parsed = read_chain(text, path, self._given)
            if parsed.value is None:
                return Parsed(None, parsed.problems)
            chain = checked(parsed.value)
        self.valid[key] = chain
        return Parsed(chain, ())


def checked(chain: Chain) -> CheckedChain:
    """What a valid chain waits for."""
    leaves = chain.trigger.leaves
    schedules = schedules_of(chain)
    return CheckedChain(
        chain.name,
        tuple(sorted({leaf.event for leaf in leaves if leaf.event is not None})),
        tuple(sorted({leaf.path for leaf in leaves if leaf.path is not None})),
        {name: words for name, (_, words) in schedules.items()},
        tuple(sorted({schedule.times.zone for schedule, _ in schedules.values()})),
    )


def schedules_of(chain: Chain) -> dict[str, tuple[Schedule, str]]:
    """The schedules in a chain's trigger, each with its text in the file, and the time zone that it uses."""
    trigger = chain.trigger
    if trigger.schedule is not None:
        words = {"trigger": chain.definition.get("trigger"), "zone": trigger.schedule.times.zone}
        return {chain.name: (trigger.schedule, json.dumps(words, sort_keys=True))}
    return {
        schedule_of_item(chain.name, number): (leaf.schedule, _words(leaf.schedule))
        for number, leaf in enumerate(trigger.leaves)
        if leaf.schedule is not None
    }


def _words(schedule: Schedule) -> str:
    """The text of a schedule in a composite; the rest of the trigger does not count."""
    rules = (schedule.misfire, schedule.jitter, schedule.max_runs)
    return json.dumps([schedule.times.text, schedule.times.zone, *rules])


def _is_zone(name: str) -> bool:
    try:
        zone_called(name)
    except ScheduleError:
        return False
    return True


def _code() -> tuple[object, ...]:
    """The code that checks chains and tells what they wait for, without reading it. Raises `OSError`."""
    specs = [find_spec(each) for each in _LIBRARIES]
    files = [each.origin for each in specs if each is not None and each.origin is not None]
    for ours in (os.path.dirname(runward.config.chain.__file__), os.path.dirname(__file__)):
        with os.scandir(ours) as entries:
            files += [entry.path for entry in entries if entry.name.endswith(".py")]
    return (__version__, sys.version, *(_signature(path) for path in sorted(files)))


def _signature(path: str) -> tuple[object, ...]:
    return (path, *signature_of(os.stat(path)))
