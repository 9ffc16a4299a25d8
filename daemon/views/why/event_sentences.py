"""A sentence for each type of event, for people who ask why."""

import json
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from runward.config.json_document import read_json
from runward.config.json_value import JsonValue
from runward.daemon.views.units import local

Fact: TypeAlias = Mapping[str, JsonValue]

_NAMED: Final = 5
"""Legs of a flow that are named in one sentence."""

_NOBODY: Final = "Runward"
"""Who an event comes from that no person sent: a run that is over, a changed file."""

_HOOK_WORDS: Final = {
    "started": "started",
    "prompted": "was given a prompt",
    "turn_ended": "closed a turn",
    "turn_failed": "failed in a turn",
    "ended": "ended",
}


def sentence(kind: str, fact: Fact) -> str:
    """The event in words. An event of an unknown type is shown as JSON."""
    said = SENTENCES.get(kind)
    if said is None:
        return json.dumps(fact, ensure_ascii=False)
    if not fact.get("said_by"):
        fact = {**fact, "said_by": _NOBODY}
    return said(fact) if callable(said) else said.format_map(fact)


def _started(fact: Fact) -> str:
    over = ", and was over when it was first seen" if fact.get("seen_over") else ""
    return f"attempt {fact['attempt']} began{over}"


def _ended(fact: Fact) -> str:
    ended = f"attempt {fact['attempt']} ended: {fact['reason_summary']} (evidence: {fact['evidence']})"
    alive_at, gone_by = fact.get("at"), fact.get("gone_by")
    if not isinstance(alive_at, int | float) or not isinstance(gone_by, int | float):
        return ended
    return f"{ended}; its process was last known alive at {local(alive_at)}, and first found gone at {local(gone_by)}"


def _flow_planned(fact: Fact) -> str:
    legs = fact.get("legs")
    named = [str(leg.get("id")) for leg in legs if isinstance(leg, dict)] if isinstance(legs, list) else []
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"a flow was planned, with the legs {', '.join(named[:_NAMED])}{more}"


def _finished(fact: Fact) -> str:
    delivery = f", delivery {fact['delivery']}" if fact.get("delivery") else ""
    return f"the verdict on attempt {fact['attempt']}: {fact['status']}{delivery}"


def _play_requested(fact: Fact) -> str:
    given = json.dumps(fact["given"], ensure_ascii=False) if fact.get("given") else "nothing"
    return f"{fact['said_by']} asked for the playbook {fact['playbook']} with {given}"


def _hook_spoke(fact: Fact) -> str:
    return f"the hook of {fact['layout']} reported that it {_HOOK_WORDS.get(str(fact['kind']))}"


def _action_taken(fact: Fact) -> str:
    done = "was carried out" if fact.get("is_success") else f"failed ({fact.get('error_code')})"
    return f"the action {fact.get('action_type') or 'of a line that is not an intent'} {done}"


def _status_requested(fact: Fact) -> str:
    asked = {"active": "resume", "paused": "pause", "disabled": "disable"}[str(fact["status"])]
    return f"{fact['said_by']} asked to {asked} the chain {fact['chain']}{_after(fact.get('note'))}"


def _cancel_requested(fact: Fact) -> str:
    if fact.get("superseded"):
        return f"a later run takes the place of {fact['run']}"
    return f"{fact['said_by']} asked to cancel {fact['run']}{_after(fact.get('reason'))}"


def _session_cancel_requested(fact: Fact) -> str:
    return f"{fact['said_by']} asked to cancel attempt {fact['attempt']}{_after(fact.get('reason'))}"


def _answered(fact: Fact) -> str:
    verb = "approved" if fact["decision"] == "approved" else "denied"
    return f"{fact['said_by']} {verb} {fact['approval']}{_after(fact.get('note'))}"


def _schedule_changed(fact: Fact) -> str:
    words = fact.get("words")
    if words is None:
        return f"{fact['chain']} has no schedule now"
    found = read_json(str(words), "").value
    trigger = found.root.get("trigger") if found is not None and isinstance(found.root, dict) else None
    times = trigger.get("schedule") if isinstance(trigger, dict) else None
    return f"the schedule of {fact['chain']} changed" + (f": {times}" if isinstance(times, str) else "")


def _timer_set(fact: Fact) -> str:
    due = fact["due"]
    assert isinstance(due, int | float)
    return f"{fact['subject']} is due at {local(due)}"


def _after(text: JsonValue) -> str:
    return f": {text}" if text else ""


SENTENCES: Final[Mapping[str, str | Callable[[Fact], str]]] = {
    "AttemptStarted": _started,
    "FlowPlanned": _flow_planned,
    "AttemptEnded": _ended,
    "SessionFinished": _finished,
    "JournalDamaged": "in {name}, {lost} of Runward's lines were lost, {changed} changed and {moved} moved",
    "RunLaunched": "a launcher started the command",
    "HookSpoke": _hook_spoke,
    "JobRetryRequested": "{said_by} asked to retry job {job}",
    "JobDiscardRequested": "{said_by} asked to discard job {job}: {reason}",
    "SessionCancelRequested": _session_cancel_requested,
    "SessionSeenRequested": "{said_by} has seen how attempt {attempt} ended",
    "ReceiptSignRequested": "{said_by} asked to sign the receipt of attempt {attempt} with {scheme}",
    "PlayRunRequested": _play_requested,
    "ScanRequested": "{said_by} asked for a scan of every root",
    "PruneRequested": "{said_by} asked to prune old sessions",
    "RootAcceptRequested": "{said_by} accepted the directory of the root {root}",
    "EventOccurred": "{said_by} reported that {name} happened, as {id}",
    "ChainFireRequested": "{said_by} asked to fire the chain {chain}",
    "ChainStatusRequested": _status_requested,
    "ChainRunCancelRequested": _cancel_requested,
    "ChainFired": "{event} fired the chain {chain}",
    "TriggerMatched": "the trigger of {chain} waits for {event}",
    "ChainRunFinished": "the chain run ended {status}: {reason_code}",
    "SlotOffered": "there is a slot for step {step} of {run}",
    "ChainRunTurn": "it is the turn of {run}, after {after}",
    "ApprovalWanted": "step {step} waits for a person",
    "ApprovalRequested": _answered,
    "ApprovalDecided": "the approval of step {step} was decided: {decision}",
    "ScheduleChanged": _schedule_changed,
    "NoticeRetryRequested": "{said_by} asked to try the notice {notice} again",
    "ArtifactAddRequested": "{said_by} added the artifact {kind} {name}",
    "IntentMade": "line {line} of its intents was read",
    "ActionRequested": "{said_by} asked for an action of {principal}",
    "ActionTaken": _action_taken,
    "PrincipalCreateRequested": "{said_by} asked for the principal {principal}",
    "MintRequested": "{said_by} asked to mint {amount} {resource} for {principal}",
    "OutcomesChanged": "attempt {attempt} wrote outcomes",
    "PlayChanged": "the data of the play changed",
    "ArtifactFilesNamed": "artifacts have their content in files",
    "StartFailed": "the run can never begin: {why}",
    "StartedEarlier": "the run had begun before its request was recorded",
    "TimerSet": _timer_set,
    "TimerRang": "the time of {subject} came",
}
"""Templates over an event's fields, or functions of them; none is missing (`tests/daemon/cli/test_event_sentences.py`)."""
