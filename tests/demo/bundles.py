"""The bundle of a session, for the demo: shown, verified, and verified again after one byte of it was changed.

A run directory of CTCP comes after it, whose patch touches a file that its plan does not allow.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from tests.daemon.rundir.ctcp_runs import PATCH, write_run

ELSEWHERE: Final = """\
diff --git a/setup.py b/setup.py
new file mode 100644
--- /dev/null
+++ b/setup.py
@@ -0,0 +1 @@
+print("hello")
"""


class Demonstration(Protocol):
    """What the demo offers: a place, a daemon over it, and the `runward` command."""

    place: Path

    def runward(self, *arguments: str, quiet: bool = False) -> subprocess.CompletedProcess[str]: ...

    def wait(self, holds: Callable[[], bool], what: str) -> None: ...


def show(demo: Demonstration, session: str) -> list[str]:
    """The bundle of this session, and a run directory of CTCP; returns what did not come out as it should."""

    def bundle() -> dict[str, object]:
        shown = json.loads(demo.runward("session", "show", session, "--json", quiet=True).stdout)
        found = shown["bundle"]
        return found if isinstance(found, dict) else {}

    demo.wait(lambda: bundle().get("state") == "written", f"the bundle of {session}")
    print("\nWhat a session did, proven:", flush=True)
    wrong = [
        *_shown(demo, 0, "session", "show", session),
        *_shown(demo, 0, "receipt", "verify", session),
        *_shown(demo, 0, "session", "export", session, "--output", "bundle"),
    ]
    print("\n$ cat bundle/RECEIPT.json", flush=True)
    print((demo.place / "bundle/RECEIPT.json").read_text(), end="", flush=True)
    replay = demo.place / "bundle/REPLAY.jsonl"
    before = replay.read_bytes()
    at = before.index(b'"command":"') + len(b'"command":"')
    replay.write_bytes(before[:at] + b"G" + before[at + 1 :])
    print(f"\nOne byte of {replay} was changed: {chr(before[at])} is now G.", flush=True)
    wrong += _shown(demo, 1, "receipt", "verify", "./bundle")
    write_run(demo.place / "ctcp-run", {PATCH: ELSEWHERE.encode()})
    print("\nA run directory of CTCP, whose patch touches a file that its plan does not allow:", flush=True)
    wrong += _shown(demo, 1, "ctcp", "check", "ctcp-run")
    checked = json.loads(demo.runward("ctcp", "check", "ctcp-run", "--json", quiet=True).stdout)
    rules = [each["rule"] for each in checked["findings"]]
    return wrong if rules == ["H.scope"] else [*wrong, f"ctcp check finds {rules}, not H.scope alone"]


def _shown(demo: Demonstration, code: int, *arguments: str) -> list[str]:
    """Run a command as a person would; returns what is wrong with how it ended."""
    said = " ".join(arguments)
    print(f"\n$ runward {said}", flush=True)
    ended = demo.runward(*arguments)
    return [] if ended.returncode == code else [f"runward {said} ended {ended.returncode}, not {code}"]
