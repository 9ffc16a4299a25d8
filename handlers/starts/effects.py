"""What can be ordered for starts. `StartRun` stands among the common effects: several capabilities start runs."""

from typing import NamedTuple


class GiveUpStart(NamedTuple):
    """Keep that a run that was ordered never begins, and why. A start that is over stays as it is."""

    key: str
    at: float
    why: str
