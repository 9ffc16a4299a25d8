"""The fold of a flow's legs into its session's contract (ADR-0029, DAG-flow extension).

What each leg's agent profile declares as usual is expected of the leg, under the leg's own id and directory. Folding
adds entries and changes none. The daemon's handler and the launcher's own verification use the same functions.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from runward.config.contract import (
    Contract,
    ContractEntry,
    ExpectedArtifact,
    contract_from_json,
    contract_to_json,
)
from runward.config.flow import Leg
from runward.config.path_rule import names_in
from runward.config.problem import quoted
from runward.handlers.model.contracts import Declarations, EarlyLegs

if TYPE_CHECKING:
    from runward.config.artifact_rules import ArtifactRules


class Folded(NamedTuple):
    """The contract with the legs in it (None if there is still none), and the entries that were added."""

    contract: Contract | None
    added: tuple[ContractEntry, ...]


class Unfoldable(NamedTuple):
    """Why the legs can't be folded into the contract."""

    why: str


def fold_legs(
    contract: Contract | None, legs: Sequence[Leg], declared: Mapping[str, Declarations]
) -> Folded | Unfoldable:
    """The contract of a session with what its legs must leave behind. `declared` is by the agents' names."""
    added: list[ContractEntry] = []
    declares = False
    for leg in legs:
        answer = declared[leg.agent]
        if answer.problem is not None:
            return Unfoldable(f"leg {leg.id}: {answer.problem}")
        if answer.agent is not None:
            declares = True
            if any(each.rules is not None and each.rules.profile is not None for each in answer.agent):
                return Unfoldable(f"leg {leg.id}: a profile applies to a whole run, not to a leg")
            if any(each.rules is not None and each.rules.reads_outcomes for each in answer.agent):
                return Unfoldable(
                    f"leg {leg.id}: a leg has no outcomes, and its agent's contract expects one"
                )
            added += (
                ContractEntry(
                    id=f"{leg.id}__{artifact.id}",
                    path="/".join((leg.path, *names_in(artifact.path))),
                    required=artifact.required,
                    description=artifact.description,
                    source="role_default",
                    rules=_below(leg, artifact),
                )
                for artifact in answer.agent
            )
    if not declares:
        return Folded(contract, ())
    before = contract.expected if contract is not None else ()
    folded = Contract((*before, *added))
    # The result is read like any contract: ids of two legs may collide, and paths may become too long.
    parsed = contract_from_json(contract_to_json(folded), "")
    if parsed.value is None:
        return Unfoldable(f"no contract results: {'; '.join(each.message for each in parsed.errors[:3])}")
    return Folded(folded, tuple(added))


def _below(leg: Leg, artifact: ExpectedArtifact) -> "ArtifactRules | None":
    """The artifact's rules, for the leg's directory."""
    rules = artifact.rules
    return rules if rules is None or rules.glob is None else rules._replace(glob=f"{leg.path}/{rules.glob}")


def why_too_late(legs: Sequence[Leg], early: EarlyLegs, filled: Sequence[str]) -> str | None:
    """Why a plan came after a leg worked, which is too late. None if nothing shows that.

    `filled` are directories in which something was seen while there was no plan.
    """
    # Times count only as evidence against a plan. Both searches are bounded, and what they don't find is not held
    # against it.
    if early.older:
        directory, thing = early.older[0]
        return f"it came after a leg worked: in {quoted(directory)} lies {quoted(thing)}, which is older"
    for leg in legs:
        for filled_directory in filled:
            if filled_directory == leg.path or filled_directory.startswith(f"{leg.path}/"):
                return (
                    f"it came after a leg worked: there was something in {quoted(filled_directory)} before it"
                )
    return None
