"""Where a value in force was written."""

from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, Place, Problem

DEFAULT: Final = "default"


class Placed(NamedTuple):
    """A value in force, and where it was written."""

    value: JsonValue
    file: str
    place: Place | None = None

    @property
    def origin(self) -> str:
        """`file:line`, `environment VARIABLE` or `default`."""
        if self.place is not None:
            return f"{self.file}:{self.place[0]}"
        return self.file if self.file == DEFAULT else f"environment {self.file}"

    def problem(self, loc: Location, message: str, fix: str) -> Problem:
        """A complaint about this value."""
        return Complaint(loc, message, fix).problem(self.file, self.place)
