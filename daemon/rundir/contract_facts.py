"""What a contract finds on the disk, including outcomes, for anyone who verifies without the daemon."""

from runward.config.contract import Contract
from runward.daemon.rundir.artifacts import artifact_facts
from runward.handlers.model.contracts import RootFacts
from runward.handlers.model.unreadable import Unreadable


def contract_facts(
    contract: Contract, root: str, within: str, run: str, started_at: float, layout: str | None = None
) -> RootFacts | Unreadable:
    """A fact for each entry. `root` and `within` are those of `artifact_facts`, `run` is the run's directory.

    With the `layout` of a foreign session `run` is its log or directory. `started_at` (Unix seconds) is when the session started.
    """
    if all(entry.rules is None for entry in contract.expected):
        return artifact_facts(root, within, [entry.path for entry in contract.expected])
    from runward.handlers.contracts.needed_facts import (
        outcome_kinds,
        outcome_paths,
        paths_asked,
        reads_outcomes,
        with_outcomes,
    )

    facts = artifact_facts(root, within, paths_asked(contract, started_at))
    if isinstance(facts, Unreadable) or not reads_outcomes(contract):
        return facts
    from runward.daemon.rundir.outcomes import outcomes_in
    from runward.handlers.model.outcomes import BeingRead, ReadOutcome
    from runward.handlers.outcomes.reading import read_outcomes

    files = outcomes_in(run, root, outcome_paths(contract))
    if isinstance(files, Unreadable):
        return files
    assert not isinstance(files, BeingRead), "reports are read here, and waited for"
    read, _ = read_outcomes(files, wanted=outcome_kinds(contract))
    if layout is not None:
        from runward.daemon.rundir.final_messages import final_message
        from runward.handlers.outcomes.final_message import outcome_in

        said = final_message(layout, run)
        if isinstance(said, Unreadable):
            return said
        own = None if said is None else outcome_in(said, "final message")
        read += [own] if isinstance(own, ReadOutcome) else []
    return with_outcomes(contract, facts, read)
