"""Where processes are known by their numbers: here or elsewhere."""

import pytest

from runward.handlers.model.processes import bare_host, host_with_namespace, is_here


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (None, True),
        ("vm", True),
        ("vm/pid:1", True),
        ("vm/pid:2", False),
        ("far", False),
        ("far/pid:1", False),
    ],
)
def test_a_process_is_here_on_this_host_unless_it_names_another_namespace(
    host: str | None, expected: bool
) -> None:
    assert is_here(host, "vm/pid:1") is expected


def test_a_namespace_is_named_behind_the_host_that_is_known() -> None:
    assert host_with_namespace("vm", 7) == "vm/pid:7"
    assert host_with_namespace("vm", None) == "vm"
    assert host_with_namespace(None, 7) is None
    assert bare_host("vm/pid:7") == bare_host("vm") == "vm"
