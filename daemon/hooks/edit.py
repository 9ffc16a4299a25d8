"""The result of adding a hook to a settings text or removing it: the new text, or why it stays."""

from typing import NamedTuple

from runward.config.document import Lines
from runward.config.problem import Problem


class Edited(NamedTuple):
    """The text as it should be; None where there should be no file."""

    text: str | None


class Refused(Exception):
    """The text is broken, or has a shape that can't be edited: it is left alone."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.render())
        self.problem = problem


def refused(name: str, text: str, offset: int, message: str, fix: str) -> Refused:
    """The refusal of a text because of what is at `offset`."""
    return Refused(Problem(name, *Lines(text).place(offset), message, fix))
