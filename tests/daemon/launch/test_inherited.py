"""A launcher knows each change of itself that its next command would inherit. Each test makes one change, and no other."""

import subprocess
import sys

import pytest
from tests.daemon.launch import changed_launcher
from tests.daemon.launch.changed_launcher import CHANGES, REFUSED

from runward.daemon.processes import kernel


@pytest.mark.parametrize("change", CHANGES)
def test_a_launcher_knows_when_it_is_not_what_it_was(change: str) -> None:
    changed = subprocess.run(
        [sys.executable, changed_launcher.__file__, change],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if changed.returncode == REFUSED:
        pytest.skip(f"not here: {changed.stdout.strip()}")
    assert changed.returncode == 0, changed.stderr


def test_where_not_all_of_it_can_be_asked_it_never_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_SYS_IOPRIO_GET_SCHED_GETATTR_KEYCTL", {})
    assert kernel.inherited_unseen() != kernel.inherited_unseen()
