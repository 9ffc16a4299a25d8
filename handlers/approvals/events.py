"""What can happen to approvals."""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from runward.handlers.event_kinds import Request

Decision: TypeAlias = Literal["approved", "denied", "expired", "changed"]


def lane_of(run: str) -> str:
    """The lane that reads whole files of a chain run's steps: in the background, when no verdict is on its way."""
    return f"files:{run}"


@dataclass(frozen=True, slots=True)
class ApprovalWanted:
    """A step of a chain run waits for a person. `number` distinguishes repeated requests for the same step."""

    type: ClassVar[str] = "ApprovalWanted"
    version: ClassVar[int] = 1

    run: str
    step: int
    number: str
    at: float

    @property
    def key(self) -> str:
        return f"{self.run}/{self.step}/approval/{self.number}"

    @property
    def lane(self) -> str:
        return lane_of(self.run)


@dataclass(frozen=True, slots=True)
class ApprovalRequested(Request):
    """A person approves or denies what was shown under an id."""

    type: ClassVar[str] = "ApprovalRequested"
    version: ClassVar[int] = 1

    request: str
    at: float
    approval: str
    run: str
    decision: Literal["approved", "denied"]
    note: str = ""
    said_by: str = ""
    by_link: bool = False
    """Whether it was answered through the link in a notice: it is not known who has that link."""
    without: tuple[str, ...] = ()
    """The files that the approval doesn't cover."""

    @property
    def lane(self) -> str:
        return lane_of(self.run)


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """An approval was decided for good; `changed` means that it is void, and that approval of the step must be requested again."""

    type: ClassVar[str] = "ApprovalDecided"
    version: ClassVar[int] = 1

    approval: str
    run: str
    step: int
    at: float
    decision: Decision
    note: str
    said_by: str

    @property
    def key(self) -> str:
        return f"{self.run}/{self.approval}/decided"

    @property
    def lane(self) -> str:
        return self.run


ApprovalEvent: TypeAlias = ApprovalWanted | ApprovalRequested | ApprovalDecided
