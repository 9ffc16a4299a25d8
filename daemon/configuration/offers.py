"""What other hosts of the fleet offer this one, as the fleet's program wrote it down last: `STATE/fleet/offers.json`."""

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from runward.config.fleet import HOST_NAME, LABEL
from runward.config.json_value import JsonValue
from runward.daemon.disk.durable import make_durably, write_durably
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.fleet import Offer

_DIRECTORY: Final = "fleet"
_NAME: Final = "offers.json"

MOST_BYTES: Final = 1 << 20

_HASH: Final = re.compile("[0-9a-f]{64}")
_LATEST: Final = 253402300799.0
"""The end of the year 9999: no later time can be shown."""


class HostKnown(NamedTuple):
    """Another host of the fleet: its labels, when the database heard of it (Unix seconds), and what it offers this one.

    `skills` and `actions` have a hash by name. Without `slots` its program has not said what it offers.
    """

    labels: tuple[str, ...]
    last_seen: float | None
    slots: int | None
    skills: Mapping[str, str]
    actions: Mapping[str, str]


def write_offers(state: Path, known: Mapping[str, HostKnown]) -> bool:
    """Write down what is known of the other hosts; returns whether all of it is there. Raises `OSError`."""
    told: dict[str, JsonValue] = {name: _written(host) for name, host in known.items()}
    is_whole = True
    # What does not fit is left out, the last ones first.
    while len(content := json.dumps({"hosts": told}).encode()) > MOST_BYTES:
        told.popitem()
        is_whole = False
    make_durably(state, _DIRECTORY)
    write_durably(state / _DIRECTORY, _NAME, content)
    return is_whole


def _written(host: HostKnown) -> JsonValue:
    return {
        "labels": [*host.labels],
        "last_seen": host.last_seen,
        "slots": host.slots,
        "skills": {**host.skills},
        "actions": {**host.actions},
    }


def hosts_known(state: str | os.PathLike[str]) -> dict[str, HostKnown]:
    """The other hosts by name; none if nothing was written down, or if it can't be read."""
    try:
        with (Path(state) / _DIRECTORY / _NAME).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError:
        return {}  # what is not known is what nobody offers: that warns, and decides nothing
    read = read_json(content) if len(content) <= MOST_BYTES else None
    hosts = None if isinstance(read, NotJson) or not isinstance(read, dict) else read.get("hosts")
    if not isinstance(hosts, dict):
        return {}
    return {
        name: known
        for name, each in hosts.items()
        if re.fullmatch(HOST_NAME, name) and (known := _read(each)) is not None
    }


def _read(value: JsonValue) -> HostKnown | None:
    if not isinstance(value, dict):
        return None
    labels, last_seen, slots = value.get("labels"), value.get("last_seen"), value.get("slots")
    return HostKnown(
        tuple(each for each in labels if isinstance(each, str) and re.fullmatch(LABEL, each))
        if isinstance(labels, list)
        else (),
        float(last_seen) if _is_number(last_seen) and 0 <= last_seen <= _LATEST else None,  # type: ignore[arg-type, operator] # a number
        slots if isinstance(slots, int) and not isinstance(slots, bool) else None,
        _hashes(value.get("skills")),
        _hashes(value.get("actions")),
    )


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _hashes(value: JsonValue) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {name: each for name, each in value.items() if isinstance(each, str) and _HASH.fullmatch(each)}


def offers_of(
    state: str | os.PathLike[str], kind: Literal["skill", "action"], name: str
) -> tuple[Offer, ...]:
    """The other hosts that accept this playbook or action from this one, by name."""
    found = []
    for host, known in sorted(hosts_known(state).items()):
        of_kind = known.skills if kind == "skill" else known.actions
        if name in of_kind:
            found.append(Offer(host, known.labels, known.last_seen, of_kind[name]))
    return tuple(found)
