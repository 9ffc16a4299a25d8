"""The state of a session, as its files and its processes tell it, and when a missing process of a native run is dead."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.handlers.model.processes import FIRST_NAMESPACE, Whereabouts
from runward.handlers.model.reasons import ReasonCode, UnknownCode
from runward.handlers.model.sessions import Evidence, Status

State: TypeAlias = Status | Literal["unknown"]
Activity: TypeAlias = Literal["active", "idle", "waiting"]
"""What a running session is doing; `waiting` is for a person."""

OPEN_TURN: Final = "run.unknown.open_turn"
NO_PROCESS: Final = "run.unknown.no_process"
PROCESS_GONE: Final = "run.aborted.process_gone"
NEVER_STARTED: Final = "run.aborted.never_started"


class Standing(NamedTuple):
    """The state of a session. `again_in` are the seconds after which it may be believed, None: at once.

    `unknown` means that it can't be determined whether it still runs. `ended_at` is in Unix seconds, if the files say
    when. For a process that is gone it is the last time at which it was known to be alive, and `gone_by` is when it was
    first found gone.
    """

    state: State
    evidence: Evidence | None
    reason_code: ReasonCode | UnknownCode
    reason_summary: str
    ended_at: float | None = None
    activity: Activity | None = None
    again_in: float | None = None
    gone_by: float | None = None


# A process number means something only in the PID namespace of one boot of one machine, and a home may be shared with
# other machines and with containers. So a missing process proves nothing by itself. It proves death if this machine saw
# exactly that process alive, or if a hook from here named it, or if nobody else can be writing there.
class MissingProcess(NamedTuple):
    """A process that a native run names, and that can't be found here by its number.

    `is_ours`: this daemon's own launcher recorded it, or it was seen alive where its number is still valid.
    `has_namespace`: the run names the PID namespace of the number, and that is the daemon's. `is_nowhere` and `is_local`
    as in `Absence`.
    """

    boot_id: str
    is_ours: bool
    has_namespace: bool
    is_nowhere: Callable[[], bool]
    is_local: Callable[[], bool]

    def is_dead(self, here: Whereabouts) -> bool:
        """Whether it can't be alive elsewhere. Hosts may share a directory, and a name: only a boot is one of a kind."""
        is_of_this_boot = self.boot_id == here.boot_id != ""
        if self.is_ours or (is_of_this_boot and self.has_namespace):
            return True
        if here.namespace != FIRST_NAMESPACE:
            return False
        return self.is_nowhere() if is_of_this_boot else self.is_local()
