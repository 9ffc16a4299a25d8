"""One thing that is wrong with a bundle."""

from typing import NamedTuple

from runward.config.problem import Severity


class BundleProblem(NamedTuple):
    """What is wrong, in which part, on which line, in which field. None where there is no single one."""

    part: str
    line: int | None
    field: str | None
    message: str
    severity: Severity = "error"
