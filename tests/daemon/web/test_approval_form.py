"""The form of an approval's page: one decision, or none counts."""

import pytest

from runward.daemon.web.approvals import _form


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"decision=perhaps",
        b"decision=approve&decision=deny",
        b"decision=deny&decision=approve",
        b"decision=approve&decision=approve",
        b"decision=approve&note=a&note=b",
        b"\xff",
    ],
)
def test_a_form_without_exactly_one_decision_decides_nothing(body: bytes) -> None:
    assert _form(body) is None


def test_a_form_with_one_decision_counts() -> None:
    assert _form(b"decision=approve&note=+fine+&without=a&without=b") == ("approved", "fine", ("a", "b"))
    assert _form(b"decision=deny") == ("denied", "", ())
