"""What was reached over many seeds: points passed and struck, rare paths, and the world's events."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

RARE_PATHS: Final = (
    "a state was made again from its journal",
    "a bundle with a call",
    "a signed receipt",
    "attempts whose calls no clock divides",
    "a replay that was shown before its end",
    "a call that was shown before its end",
    "a session whose every call is in a bundle",
    "a run whose every call is in a bundle",
    "a step that was tried again",
    "a step that waited for a slot",
    "a step that could not begin in time",
    "a chain run that waited for another",
    "firing.fired.due",
    "firing.fired.recovery",
    "firing.missed.late",
    "an approval that was approved",
    "an approval that was denied",
    "an approval that was expired",
    "a notice that was delivered at a later try",
    "a notice that was delivered twice under one id",
    "a notice that was given up",
    "an agent that waits, told of",
    "a worktree that was made",
    "a worktree that was removed",
    "a worktree that was kept",
    "a stolen job",
    "a refused fence",
    "a refused epoch",
    "a journal refused to an old epoch",
    "a halved batch",
    "an overflow rescanned",
    "a clock step noticed",
    "a timer that rang on a clock that was stepped",
    "a run of all_of",
    "a run of sequence",
    "a run of any_of",
    "a held job retried",
    "a held job discarded",
    "an event of a newer version held",
    "an uncertain commit that happened",
    "an uncertain commit that didn't",
    "a full disk in the store",
    "a short write completed",
    "a line found that was written already",
    "a torn foreign line closed off",
    "a damaged journal: lost",
    "a damaged journal: torn_bytes",
    "a damaged journal: changed",
    "a damaged journal: moved",
    "a comparison that the store refused",
    "a journal that couldn't be compared at once",
    "a repair of which a daemon was killed",
    "a repair that a person gave up",
    "a line owed to a directory that is gone",
    "a line refused while the run is in the middle of one",
    "a store that a frozen daemon has locked",
    "a journal that a frozen daemon has locked",
    "a power cut",
    "a correction",
    "a packed session",
    "a packed session that was unpacked",
    "a packed session that was pruned",
    "a pruned session",
    "a pruned session that was resumed",
    "a resumed session",
    "a vanished run",
    "a run whose process is gone",
    "a duplicate request",
    "a rejected request",
    "a root that went away and came back",
    "a missing artifact",
    "a hashed file",
    "a file that changed after its verdict",
    "a file that went after its verdict",
    "a flow's legs folded into the contract",
    "a flow whose leg left something out",
    "a plan that came after a leg worked",
    "a plan whose leg was seen at work before it",
    "a second plan",
    "a plan after the end",
    "a plan with an agent that nobody knows",
    "a run of before",
    "a watch that can't be had",
    "a fact that can't be read now",
    "a root taken out of the settings",
    "a started run",
    "a refused start",
    "a start that had begun already",
    "a start that another launcher is about",
    "a launcher of an old epoch",
    "a launcher killed before its ticket",
    "a launcher killed before its run.json",
    "a launcher killed before its command was let go",
    "a launcher killed after its command was let go",
    "a launcher killed while it waited for its launch to be recorded",
    "a launcher killed before its end was told",
    "a launcher killed before its end was synced",
    "a power cut between a launch's acknowledgement and its sync",
    "a power cut before its end was synced",
    "a launch that was recorded over its channel",
    "a launch that nobody acknowledged",
    "a started run that removed itself",
    "a started run that was cancelled",
    "a run that its launcher cancelled",
    "a command that was cancelled without a launcher",
    "a run told to end that went in silence",
    "a refused order to end a run",
    "an order that found nobody",
    "a store restored from a backup",
    "a line that stood before a restore, adopted",
    "journals among our own state lost before a restore",
    "another tool's session of before",
    "another tool's session that was resumed",
    "another tool's session whose process is gone",
    "another tool's session that vanished",
    "a person's session that ended with its process",
    "another tool's line in two parts",
    "last lines after the end of their process",
    "a copy of another tool's log",
    "a log of another tool that was moved",
    "a packed log of another tool",
    "a hook's note that was lost",
    "a contract fixed by a hook",
    "an agent started in a launched run",
)
"""What must happen at least once over the seeds of a suite, or they don't prove what they seem to."""


@dataclass(slots=True)
class Tally:
    """Counts over the histories of a suite."""

    passed: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        """Count what another history reached."""
        self.passed += other.passed
        self.struck += other.struck
        self.faults += other.faults
        self.reached += other.reached

    def never_struck(self) -> list[str]:
        """Points that were passed and at which no fault ever struck."""
        return sorted(name for name in self.passed if not self.struck[name])

    def never_reached(self) -> list[str]:
        """Rare paths that no history took."""
        return [name for name in RARE_PATHS if not self.reached[name]]
