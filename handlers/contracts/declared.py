"""What is declared for a session now: by what it names itself, or by the settings' rules for other tools' sessions."""

from typing import NamedTuple

from runward.config.contract import resolve_contract
from runward.handlers.contracts.snapshots import NO_CONTRACT, Snapshot, snapshot_of
from runward.handlers.events import SessionDeclaration
from runward.handlers.facts import (
    Declarations,
    DeclaredContract,
    Facts,
    Need,
    Ruled,
    RuledPlaybook,
    UnexpectedAnswer,
)
from runward.handlers.layouts.native import LAYOUT


class DeclaredNow(NamedTuple):
    """The contract that a session gets, and the playbook that it is by; `rule` is the place of the rule that says so."""

    snapshot: Snapshot
    playbook: str | None
    rule: str | None


def declared_now(declaration: SessionDeclaration, facts: Facts) -> DeclaredNow | Need:
    """What counts for the session if it is fixed at this moment."""
    ruled = _ruled(declaration, facts)
    if isinstance(ruled, Need):
        return ruled
    snapshot = _declared(ruled, facts)
    if isinstance(snapshot, Need):
        return snapshot
    playbook = ruled.playbook if ruled.rule is not None else declaration.playbook
    return DeclaredNow(snapshot, playbook, ruled.rule)


def _ruled(declaration: SessionDeclaration, facts: Facts) -> Ruled | Need:
    """What the session's contract is to be made of: what it names, or what the settings' rules do.

    The playbook that another tool's session names goes before any rule; its agent counts where it has a profile.
    """
    if declaration.layout == LAYOUT:
        return Ruled(declaration.playbook, declaration.agent)
    question = RuledPlaybook(declaration.layout, declaration.cwd, declaration.agent, declaration.prompt)
    if question not in facts:
        return Need((question,))
    answer = facts[question]
    if not isinstance(answer, Ruled):
        raise UnexpectedAnswer(f"{question} was answered with {answer!r}")
    if declaration.playbook is not None:
        return Ruled(declaration.playbook, answer.agent)
    return answer


def _declared(ruled: Ruled, facts: Facts) -> Snapshot | Need:
    """What playbook and agent declare now, or the operator's problem."""
    if ruled.playbook is None and ruled.agent is None:
        return NO_CONTRACT
    question = DeclaredContract(ruled.playbook, ruled.agent)
    if question not in facts:
        return Need((question,))
    answer = facts[question]
    if not isinstance(answer, Declarations):
        raise UnexpectedAnswer(f"{question} was answered with {answer!r}")
    if answer.problem is not None:
        named = f" (named by the rule at {ruled.rule})" if ruled.rule is not None else ""
        return Snapshot(None, None, f"{answer.problem}{named}")
    return snapshot_of(resolve_contract(playbook=answer.playbook, agent=answer.agent))
