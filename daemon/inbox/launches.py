"""What launchers put into the inbox. Commands read it as well, to show runs that no daemon has judged yet."""

from typing import Final

from runward.config.json_value import JsonValue
from runward.daemon.inbox.spool import InboxFile
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.events import Event, UnknownEvent, impossible, load
from runward.handlers.model.processes import RecordedProcess, is_ticket
from runward.handlers.model.sessions import Launch, RunLaunched
from runward.handlers.model.stored import Stored, as_json

LAUNCH = "runward-launch"
"""The key of what a launcher puts there before it releases its command, and again when everything is over.

Its value is the version of the rest.
"""

VERSION = 1

_STORED: Final[Stored[Event]] = Stored(RunLaunched)


def load_launch(value: dict[str, JsonValue]) -> RunLaunched | str:
    """The event in a launcher's file, or why there is none."""
    if value[LAUNCH] != VERSION:
        return f"is a launch of version {value[LAUNCH]!r}, which this daemon does not know"
    payload = {name: each for name, each in value.items() if name != LAUNCH}
    try:
        event = load(_STORED, RunLaunched, RunLaunched.version, as_json(payload))
    except UnknownEvent as error:
        return str(error)
    assert isinstance(event, RunLaunched)
    if event.ticket and not is_ticket(event.ticket):
        return "ticket is not the name of one"
    return impossible(event) or event


def launch_in(file: InboxFile) -> RunLaunched | None:
    """The launch in this file; None for any other file, and for one that will be rejected."""
    # A launcher writes this key first. So a large request is not parsed here, only to be parsed again.
    if not file.is_ours or LAUNCH.encode() not in file.content[:64]:
        return None
    value = read_json(file.content)
    if isinstance(value, NotJson) or not isinstance(value, dict) or LAUNCH not in value:
        return None
    event = load_launch(value)
    return event if isinstance(event, RunLaunched) else None


def launch_of(event: RunLaunched) -> Launch:
    """What handlers learn about the launch."""
    contract = None if event.contract is None else _stored_contract(event.contract)
    launcher, process = RecordedProcess(*event.launcher, event.ticket), RecordedProcess(*event.process)
    return Launch(
        at=event.at,
        seal=event.seal,
        contract_json=contract,
        launcher=launcher,
        process=process,
        timeout=event.timeout,
        cgroup=event.cgroup,
    )


def _stored_contract(value: JsonValue) -> str | None:
    # Only runs with a contract pay for this.
    from runward.handlers.contracts.snapshots import snapshot_from_run

    return snapshot_from_run(value).text
