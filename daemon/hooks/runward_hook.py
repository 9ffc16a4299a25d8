"""What an agent's hook runs: it puts what the hook said into the daemon's inbox, and never gets in the agent's way.

Run by its path, as `PYTHON -S -E …/runward_hook.py AGENT [--state DIR] [-- PROGRAM…]`, with nothing but
the standard library and as little of that as possible. Agents give the payload on stdin, Codex's `notify` as the last
word; it is passed on as it is, and read by the daemon. After `--` comes the program that Codex's `notify` named
before: it is called with the same payload.

It prints nothing and exits with 0, whatever happens. A hook only speeds up what the daemon would find anyway.
"""

from __future__ import annotations

import os
import sys
from binascii import b2a_base64
from time import monotonic, time

AGENTS = ("claude-code", "codex", "copilot", "droid", "kilo", "kimi", "opencode", "pi", "qwen")
"""Whose payloads the daemon reads (`handlers/layouts/hooks.py`)."""

MAXIMUM_PAYLOAD = 1 << 19
"""Bytes of the largest payload that is passed on: in base 64 it fits into an inbox file. A larger one is dropped."""

MOST_WAITING = 10_000
"""Files in the inbox beyond which nothing is added: no daemon has looked for a long time."""

MOST_ANCESTORS = 16
PATIENCE = 5.0
"""Seconds until stdin must have been given whole."""


def main(words: list[str]) -> None:
    """Pass the payload on, then become the program that is called after us, if there is one."""
    program: list[str] = []
    try:
        program = words[words.index("--") + 1 :] if "--" in words else []
        own = words[: words.index("--")] if program else words
        payload = os.fsencode(words[-1]) if words[-1].startswith("{") else read_stdin()
        if own[0] in AGENTS and payload[:1] == b"{" and len(payload) <= MAXIMUM_PAYLOAD:
            put(state_directory(own), note(own[0], payload))
    except BaseException:  # noqa: BLE001, S110  # the agent shows a traceback and reacts to a status: not even Ctrl-C may cause one
        pass
    try:
        if len(program) > 1:
            # In our place, not below us: Codex sees the exit and the output of the program that it would have called.
            os.execvp(program[0], program)  # noqa: S606  # the payload is its last word already
    except BaseException:  # noqa: BLE001, S110  # as above: a program that can't be called is not the agent's error
        pass
    # Not `sys.exit`: what the interpreter does at its end could fail, too, and change the status.
    os._exit(0)


def read_stdin() -> bytes:
    """All of stdin, to its end, so that the agent's writing never fails; of what is too large one byte too many.

    Empty if it doesn't end in time: half a payload is useless.
    """
    from select import select

    given, until = bytearray(), monotonic() + PATIENCE
    while (left := until - monotonic()) > 0 and select([0], [], [], left)[0]:
        piece = os.read(0, 1 << 16)
        if not piece:
            return bytes(given)
        # Read to its end even if it is too large, so that the agent's writing never fails.
        given += piece[: MAXIMUM_PAYLOAD + 1 - len(given)]
    return b""


def state_directory(words: list[str]) -> str:
    """Where the daemon's state is: as the hook was installed, else as the environment says, else the default."""
    if "--state" in words[:-1]:
        return words[words.index("--state") + 1]
    named = os.environ.get("RUNWARD_STATE_DIR", "")
    if named.startswith("/"):
        return named
    base = os.environ.get("XDG_STATE_HOME", "")
    return f"{base if base.startswith('/') else os.environ['HOME'] + '/.local/state'}/runward"


def note(agent: str, payload: bytes) -> bytes:
    """The inbox file: JSON, written by hand, because the standard library's module takes longer than everything else
    here."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        boot = file.read().strip().decode()
    namespace = os.stat("/proc/self/ns/pid").st_ino  # our ancestors' numbers are only valid in there
    session = os.environ.get("RUNWARD_SESSION_ID", "")
    launcher = f'"{session}"' if is_plain(session) else "null"
    return (
        f'{{"hook":"{agent}","version":1,"at":{time():.6f},"boot_id":"{boot}","machine":"{machine_id()}",'
        f'"namespace":{namespace},"ancestors":{ancestors()},'
        f'"launcher_session":{launcher},"payload":"{b2a_base64(payload, newline=False).decode()}"}}\n'
    ).encode()


def machine_id() -> str:
    """This machine's id (machine-id(5)); empty if it has none."""
    try:
        with open("/etc/machine-id", "rb") as file:
            machine = file.read(33).strip().decode()
    except (OSError, ValueError):
        return ""
    return machine if len(machine) == 32 and machine.isalnum() else ""


def is_plain(text: str) -> bool:
    """Whether a text needs no escaping in JSON. The ids that Runward gives need none, or are not used here."""
    return 0 < len(text) <= 1000 and text.isprintable() and not set(text) & {'"', "\\"}


def ancestors() -> list[list[int]]:
    """The number and start (clock ticks) of each of our ancestors, the nearest first."""
    processes: list[list[int]] = []
    pid = os.getppid()
    while pid > 0 and len(processes) < MOST_ANCESTORS:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()  # from field 3 on (proc(5))
        except OSError:
            break
        processes.append([pid, int(fields[19])])
        pid = int(fields[1])
    return processes


def put(state: str, content: bytes) -> None:
    """Put a file into the inbox, durably. Raises `OSError`; a state directory that isn't there is not made."""
    inbox = f"{state}/inbox"
    try:
        os.mkdir(inbox, 0o700)
    except FileExistsError:
        pass
    directory = os.open(inbox, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if os.fstat(directory).st_uid != os.geteuid() or is_full(inbox):
        return  # another user's daemon couldn't read the file, and would meet it forever
    number = os.urandom(16).hex()
    name = f"{number[:8]}-{number[8:12]}-4{number[13:16]}-a{number[17:20]}-{number[20:]}.json"
    temporary = f".{name}.tmp"
    try:
        file = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory
        )
        while content:
            content = content[os.write(file, content) :]
        # Content, name, directory: the daemon finds whole files only, and what was put stays put through a power failure.
        os.fsync(file)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)
    except BaseException:
        os.unlink(temporary, dir_fd=directory)
        raise


def is_full(inbox: str) -> bool:
    """Whether too many files wait. An ordinary inbox has a handful, and counting them costs microseconds."""
    with os.scandir(inbox) as entries:
        return sum(1 for _ in zip(entries, range(MOST_WAITING), strict=False)) >= MOST_WAITING


if __name__ == "__main__":
    main(sys.argv[1:])
