"""What a launcher puts into the inbox before it releases its command, and again when everything is over."""

from pydantic_core import to_json

from runward.config.json_value import JsonValue
from runward.daemon.ports.inbox import InboxFile
from runward.daemon.store.tables import starts
from runward.daemon.store.tables.table import Rows
from runward.handlers.contracts.snapshots import snapshot_from_run
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.events import Event, UnknownEvent, impossible
from runward.handlers.model.processes import RecordedProcess
from runward.handlers.model.sessions import Launch, RunLaunched
from runward.handlers.registry import load_payload

LAUNCH = "runward-launch"
"""The key that identifies such a file. Its value is the version of the rest."""

VERSION = 1


def load_launch(value: dict[str, JsonValue]) -> RunLaunched | str:
    """The event in a launcher's file, or why there is none."""
    if value[LAUNCH] != VERSION:
        return f"is a launch of version {value[LAUNCH]!r}, which this daemon does not know"
    payload = {name: each for name, each in value.items() if name != LAUNCH}
    try:
        event = load_payload(RunLaunched.type, RunLaunched.version, to_json(payload).decode())
    except UnknownEvent as error:
        return str(error)
    assert isinstance(event, RunLaunched)
    return impossible(event) or event


def launch_in(file: InboxFile) -> RunLaunched | None:
    """The launch in this file; None for any other file, and for one that will be rejected."""
    if not file.is_ours or LAUNCH.encode() not in file.content[:64]:
        return None
    value = read_json(file.content)
    if isinstance(value, NotJson) or not isinstance(value, dict) or LAUNCH not in value:
        return None
    event = load_launch(value)
    return event if isinstance(event, RunLaunched) else None


def launch_of(event: RunLaunched) -> Launch:
    """What handlers learn about the launch."""
    contract = snapshot_from_run(event.contract).text
    launcher, process = RecordedProcess(*event.launcher), RecordedProcess(*event.process)
    return Launch(event.at, event.seal, contract, launcher, process, event.timeout, event.cgroup)


def kept_with(event: Event | None) -> tuple[Rows, ...]:
    """The rows that are stored with a request, in addition to its event."""
    return (_row(event),) if isinstance(event, RunLaunched) else ()


def _row(event: RunLaunched) -> Rows:
    contract = snapshot_from_run(event.contract).text
    launcher, process = to_json(event.launcher).decode(), to_json(event.process).decode()
    row = (event.launch, event.session_key, event.at, event.seal, contract)
    return Rows(starts.INSERT_LAUNCH, [(*row, event.timeout, event.grace, launcher, process, event.cgroup)])
