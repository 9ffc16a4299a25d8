"""A real systemd-journald in namespaces of our own, and a program whose stderr is its journal. Called as a program.

`python real_journald.py PROGRAM` is called within `unshare --mount --net`; it mounts an empty /run, starts a
journald there, and runs the shell script PROGRAM, in which `as_service WORD...` runs a command as systemd would.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

JOURNALD = Path("/lib/systemd/systemd-journald")
_RUN = Path("/run/systemd")
_PATIENCE_S = 60.0


def main(script: str) -> int:
    for hidden in ("/run", "/var/log/journal"):  # the machine's own journal is none of ours
        if Path(hidden).is_dir():
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", hidden], check=True)
    for directory in (_RUN / "journal", _RUN / "journald.conf.d", Path("/run/log/journal")):
        directory.mkdir(parents=True)
    settings = "[Journal]\nStorage=volatile\nReadKMsg=no\nAudit=no\nRateLimitBurst=0\n"
    (_RUN / "journald.conf.d/own.conf").write_text(settings)
    journald = subprocess.Popen(
        [JOURNALD], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        begun = time.monotonic()
        while not all((_RUN / "journal" / name).exists() for name in ("socket", "stdout")):
            if journald.poll() is not None or time.monotonic() - begun > _PATIENCE_S:
                return 77
            time.sleep(0.02)
        function = f"as_service() {{ '{sys.executable}' '{__file__}' --service \"$@\"; }}\n"
        return subprocess.run(["bash", "-eu", "-c", function + script], check=False).returncode
    finally:
        journald.kill()
        journald.wait()


def be_service(words: list[str]) -> None:
    """Become the command, with a stream of the journal as its stderr and the variable that says so (systemd.exec(5))."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(str(_RUN / "journal/stdout"))
    stream.send(b"service\n\n6\n0\n0\n0\n0\n")
    status = os.fstat(stream.fileno())
    os.dup2(stream.fileno(), 2)
    os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
    os.execvp(words[0], words)


if __name__ == "__main__":
    if sys.argv[1] == "--service":
        be_service(sys.argv[2:])
    sys.exit(main(sys.argv[1]))
