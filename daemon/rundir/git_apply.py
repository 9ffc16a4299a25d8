"""Whether git would apply a run's patch to a work tree, checked without running anything that the tree configures.

git is pointed at a repository that doesn't exist. So it reads no configuration of the tree, the user or the machine,
and runs no hook, filter or monitor. It only reads files.
"""

import os
import signal
import subprocess
import tempfile
from typing import Final

from runward.config.problem import printable
from runward.handlers.ctcp.changing import PATCH
from runward.handlers.ctcp.documents import Documents
from runward.handlers.ctcp.rules import Report

PATIENCE_S: Final = 60.0

_MOST_SAID: Final = 64 << 10
_SHOWN: Final = 300
_COMMAND: Final = (
    "git",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.attributesFile=/dev/null",
    "apply",
    "--check",
    "--whitespace=nowarn",
    "-",
)


class NoGit(Exception):
    """git can't be started."""


def check_applies(tree: str, documents: Documents, report: Report) -> None:
    """Report a patch that git refuses. A malformed patch is not passed to git."""
    document = documents.document(PATCH)
    if document.state != "file" or report.has_errors:
        return
    why = _why_not(tree, document.content)
    if why is not None:
        report.add("does_not_apply", why)


def _why_not(tree: str, patch: bytes | bytearray) -> str | None:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(patch)
        given.seek(0)
        try:
            process = subprocess.Popen(
                _COMMAND,
                cwd=tree,
                env=_environment(),
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise NoGit("git can't be started") from error
        try:
            code = process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"git apply --check did not end within {PATIENCE_S:g} s"
        if code == 0:
            return None
        said.seek(0)
        text = said.read(_MOST_SAID).decode(errors="replace").strip()
        return printable(text.split("\n")[0][:_SHOWN]) or f"git apply --check ended with {code}"


def _environment() -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATCH", os.defpath),
        "LC_ALL": "C",
        "HOME": "/nonexistent",
        "GIT_DIR": "/nonexistent/git",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
    }
