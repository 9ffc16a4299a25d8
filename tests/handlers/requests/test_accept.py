"""A person says which directory a root is."""

from runward.handlers import requests
from runward.handlers.model.asking import Given
from runward.handlers.model.effects import Explain
from runward.handlers.model.requests import AcceptRoot, RootAcceptRequested, ScanRoots


def test_the_directory_that_was_seen_is_the_root_and_all_is_scanned() -> None:
    decided, scanned, explained = requests.accept_root(
        RootAcceptRequested("r", 1.0, "runs", "1:2", "ann"), Given("h", 2.0)
    )
    assert (decided, scanned) == (AcceptRoot("runs", "1:2"), ScanRoots())
    assert isinstance(explained, Explain)
    assert "as ann said" in explained.summary
