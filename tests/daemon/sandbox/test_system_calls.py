"""The filter of system calls, for each architecture."""

from ctypes.util import find_library

import pytest

from runward.daemon.sandbox.isolated import NoSandbox
from runward.daemon.sandbox.system_calls import ARCHITECTURES, program

pytestmark = pytest.mark.skipif(find_library("seccomp") is None, reason="libseccomp isn't installed")


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_each_architecture_has_a_filter_of_whole_instructions(machine: str) -> None:
    found = program(machine)
    assert len(found) % 8 == 0
    assert 100 < len(found) // 8 < 1000


def test_the_numbers_differ_between_architectures() -> None:
    assert program("x86_64") != program("aarch64")


def test_another_machine_is_refused_with_the_fix() -> None:
    with pytest.raises(NoSandbox, match="riscv64") as refused:
        program("riscv64")
    assert "x86_64, aarch64" in refused.value.fix
