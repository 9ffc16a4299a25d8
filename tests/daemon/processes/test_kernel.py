"""System calls that Python lacks."""

import os
import subprocess
import sys

ENDS_WITH = (
    "from runward.daemon.processes.kernel import end_with_parent; end_with_parent({parent}); print('goes on')"
)


def test_a_process_whose_parent_is_gone_already_ends_at_once() -> None:
    assert _said_if_its_parent_was(os.getpid()) == "goes on\n"
    assert _said_if_its_parent_was(os.getppid()) == ""


def _said_if_its_parent_was(parent: int) -> str:
    program = ENDS_WITH.format(parent=parent)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stdout
