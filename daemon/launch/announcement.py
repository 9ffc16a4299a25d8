"""The launcher's message to the daemon, which bypasses the run: what was launched, sealed with a secret.

A run may write what it likes into its own directory. So, before it releases the command, the launcher puts into the
daemon's inbox the contract and the timeout of the command, and the hash of a secret. Only the end of the run reveals
the secret: only an `exit.json` with it ends the run. When the whole tree is dead, the launcher puts the same message
there again: a run that removed it from the inbox gained nothing.
"""

from __future__ import annotations

import os

from runward.daemon.disk.durable import write_durably
from runward.daemon.processes.json_text import json_text

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from runward.config.json_value import JsonValue
    from runward.daemon.processes.identity import ProcessIdentity

_INBOX = "inbox"
_VERSION = 1


class Announcement:
    """One launch of `session_key`, for the daemon over the state directory `state`. `at` is in Unix seconds."""

    def __init__(
        self,
        state: str,
        session_key: str,
        at: float,
        launcher: ProcessIdentity,
        process: ProcessIdentity,
        contract: JsonValue,
        timeout: float | None,
        grace: float,
        cgroup: str | None,
    ) -> None:
        from hashlib import sha256

        self._inbox = os.path.join(state, _INBOX)
        self.secret = os.urandom(32).hex()
        self._content: dict[str, JsonValue] = {
            "runward-launch": _VERSION,
            "session_key": session_key,
            "launch": os.urandom(16).hex(),
            "at": at,
            "seal": sha256(self.secret.encode()).hexdigest(),
            "launcher": [launcher.pid, launcher.start_ticks, launcher.boot_id],
            "process": [process.pid, process.start_ticks, process.boot_id],
            "contract": contract,
            "timeout": timeout,
            "grace": grace,
            "cgroup": cgroup,
        }

    def put(self) -> None:
        """Put it into the inbox, under a new name. It is durable when this returns. Raises OSError."""
        os.makedirs(self._inbox, mode=0o700, exist_ok=True)
        name = f"launch-{os.urandom(16).hex()}.json"
        write_durably(self._inbox, name, json_text(self._content).encode(errors="replace") + b"\n")
