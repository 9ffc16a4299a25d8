"""A history of looks at one run directory, each as the daemon makes it: only what differs is read anew."""

import json
from dataclasses import dataclass, field

from runward.config.json_value import JsonValue
from runward.handlers.layouts import native
from runward.handlers.layouts.native import Ended
from runward.handlers.model.files import Signature
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.processes import ProcessState
from runward.handlers.model.sessions import AttemptStarted, Document, Launch
from runward.handlers.sessions.observe import (
    NEVER_SEEN,
    Observed,
    RootRule,
    Seen,
    Watched,
    dump_watched,
    load_watched,
    see,
    vanish,
    weigh,
)

KEY = "native:runs/alpha"
LIVE = RootRule(records_history=False, first_seen_at=1000.0)
RUN: JsonValue = {"schema": "runward-run-v1"}
CLEAN: JsonValue = {"exit_code": 0}
BROKEN = b'{"exit_co'


@dataclass
class History:
    """What is on the disk, what is remembered, and every event so far. Each `put` is a new file."""

    rule: RootRule = LIVE
    watched: Watched = NEVER_SEEN
    events: list[Seen] = field(default_factory=list)
    files: dict[str, tuple[Signature, bytes]] = field(default_factory=dict)
    launch: Launch | None = None
    """What the launcher recorded."""
    _version: int = 0

    def put(self, name: str, value: JsonValue | bytes) -> "History":
        self._version += 1
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        at = self._version * 1_000_000_000
        self.files[name] = (Signature(self._version, len(content), at, 1, at), content)
        return self

    def touch(self, name: str) -> "History":
        self._version += 1
        signature, content = self.files[name]
        at = self._version * 1_000_000_000
        self.files[name] = (signature._replace(modified_ns=at, changed_ns=at), content)
        return self

    def copy_back(self) -> "History":
        """Every file anew under its own time, as `cp -a` and `rsync -a` make them."""
        for name, (signature, content) in list(self.files.items()):
            self._version += 1
            self.files[name] = (signature._replace(inode=self._version), content)
        return self

    def change_status(self, name: str) -> "History":
        """As `chmod`, `ln` and `mv` do: the file is the same, and the time of its change is not."""
        self._version += 1
        signature, content = self.files[name]
        self.files[name] = (signature._replace(changed_ns=self._version * 1_000_000_000), content)
        return self

    def mount_elsewhere(self) -> "History":
        """All files get another device, as after a start of the machine."""
        for name, (signature, content) in list(self.files.items()):
            self.files[name] = (signature._replace(device=signature.device + 1), content)
        return self

    def remember_as_earlier(self) -> "History":
        """What an earlier version stored: of each signature, only inode, size and time of modification."""
        stored = json.loads(dump_watched(self.watched))
        place = Watched._fields.index("signatures")
        stored[place] = [[name, signature[:3]] for name, signature in stored[place]]
        self.watched = load_watched(json.dumps(stored))
        return self

    def remove(self, *names: str) -> "History":
        for name in names:
            del self.files[name]
        return self

    def look(self) -> "History":
        known = dict(self.watched.signatures)
        signatures: list[tuple[str, Signature]] = []
        documents: list[Document] = []
        for name in native.DOCUMENTS:
            if name in self.files:
                signature, content = self.files[name]
                signatures.append((name, signature))
                if known.get(name) != signature:
                    documents.append(Document(name, signature, signature.modified_ns / 1e9, content))
        items = list(native.scan("runs", "/runs/alpha", documents))
        return self._keep(see(self.watched, KEY, self.rule, tuple(signatures), items, self.launch))

    def end(self) -> Ended:
        """What its `exit.json` says."""
        signature, content = self.files[native.EXIT]
        document = Document(native.EXIT, signature, signature.modified_ns / 1e9, content)
        (end,) = native.scan("runs", "/runs/alpha", [document])
        assert isinstance(end, Ended)
        return end

    def vanish(self, now: float = 50.0) -> "History":
        return self._keep(vanish(self.watched, KEY, now))

    def weigh(self, state: ProcessState, now: float) -> "History":
        return self._keep(weigh(self.watched, KEY, state, now))

    def _keep(self, observed: Observed) -> "History":
        after, events = observed
        self.watched = load_watched(dump_watched(after))  # as it comes back from the store
        self.events += events
        return self

    @property
    def told(self) -> list[str]:
        """The events in short: `1 started`, `1 planned`, `1 run.completed.ok`."""
        return [f"{event.attempt} {_in_short(event)}" for event in self.events]

    @property
    def complaints(self) -> list[str]:
        return [f"{each.file}: {each.message}" for each in self.watched.complaints]


def _in_short(event: Seen) -> str:
    if isinstance(event, AttemptStarted):
        return "started"
    return "planned" if isinstance(event, FlowPlanned) else event.reason_code
