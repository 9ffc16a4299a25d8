"""The port that starts runs, for tests without a store: it records every launch that is announced, and says so at once."""

from pathlib import Path

from runward.daemon.world.processes import Announced, Begun, NotBegun
from runward.daemon.world.starting import StartingProcesses
from runward.handlers.model.invocations import StartRun


class RecordingProcesses(StartingProcesses):
    """Records each launch, and is not there any more when its run is over. `announced` are the launches, in order."""

    def __init__(self, state: Path) -> None:
        super().__init__(state)
        self.announced: list[Announced] = []

    def start(self, order: StartRun, epoch: int) -> Begun | NotBegun:
        answer = super().start(order, epoch)
        if not isinstance(answer, Announced):
            return answer
        self.announced.append(answer)
        answer.channel.acknowledge()
        answer.channel.close()
        return Begun(answer.at)

    def close(self) -> None:
        super().close()
        for each in self.announced:
            each.channel.close()
