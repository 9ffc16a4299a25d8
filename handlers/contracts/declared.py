"""What is declared for a session now: by what it names itself, or by the settings' rules for other tools' sessions."""

from typing import NamedTuple

from runward.config.contract import resolve_contract
from runward.handlers.contracts.snapshots import NO_CONTRACT, Snapshot, snapshot_of
from runward.handlers.model.asking import Asking, ask
from runward.handlers.model.contracts import DeclaredContract, Ruled, RuledPlaybook
from runward.handlers.model.sessions import NATIVE, SessionDeclaration


class DeclaredNow(NamedTuple):
    """The contract that a session gets, and its playbook. `rule` is the place of the rule that says so."""

    snapshot: Snapshot
    playbook: str | None
    rule: str | None


def declared_now(declaration: SessionDeclaration) -> Asking[DeclaredNow]:
    """What counts for the session if it is fixed at this moment."""
    ruled = yield from _ruled(declaration)
    snapshot = yield from _declared(ruled)
    playbook = ruled.playbook if ruled.rule is not None else declaration.playbook
    return DeclaredNow(snapshot, playbook, ruled.rule)


def _ruled(declaration: SessionDeclaration) -> Asking[Ruled]:
    """What the session's contract is made from: what it names, or what the settings' rules name.

    A playbook that another tool's session names takes precedence over any rule. Its agent counts if it has a profile.
    """
    if declaration.layout == NATIVE:
        return Ruled(declaration.playbook, declaration.agent)
    ruled = yield from ask(
        RuledPlaybook(declaration.layout, declaration.cwd, declaration.agent, declaration.prompt)
    )
    return ruled if declaration.playbook is None else Ruled(declaration.playbook, ruled.agent)


def _declared(ruled: Ruled) -> Asking[Snapshot]:
    """What the playbook and the agent declare now, or the operator's problem."""
    if ruled.playbook is None and ruled.agent is None:
        return NO_CONTRACT
    answer = yield from ask(DeclaredContract(ruled.playbook, ruled.agent))
    if answer.problem is not None:
        named = f" (named by the rule at {ruled.rule})" if ruled.rule is not None else ""
        return Snapshot(None, None, f"{answer.problem}{named}")
    return snapshot_of(resolve_contract(playbook=answer.playbook, agent=answer.agent))
