"""Steps of chains: what each one runs, with which values, when, and what happens if it fails."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple

from runward.config.chain_checks import check_glob, check_keys, duration, flag, whole_number
from runward.config.expression import Value
from runward.config.expression_syntax import ExpressionError
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, nearest, quoted, unknown_field
from runward.config.seen import CHAIN_FIELDS, STEP_FIELDS
from runward.config.shape import Complain
from runward.config.template import NAME as VALUE_NAME
from runward.config.worktree import Worktree, read_worktree

MOST_STEPS: Final = 100
NAMES: Final = ("trigger", "steps", "outcome", "chain")
"""What expressions see."""

_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_KEYS: Final = (
    *(
        "id",
        "skill",
        "action",
        "with",
        "condition",
        "timeout",
        "grace",
        "continue_on_failure",
        "retry",
        "env",
        "cwd",
    ),
    *("requires_approval", "approval", "start_within", "stale_after", "worktree"),
)
_MOST_ATTEMPTS: Final = 100
DEFAULT_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 600.0
RETRIED: Final = ("run.failed.*", "run.timed_out.deadline")
"""The reasons after which a step is tried again if `on` does not say, except for `NOT_STARTED`."""

NOT_STARTED: Final = "run.failed.not_started"


class Callables(NamedTuple):
    """What chains refer to: the names of the existing playbooks and actions, the machine's time zone, a base for paths.

    `directory`, the base, is that of the settings file.
    """

    skills: Collection[str] = ()
    actions: Collection[str] = ()
    zone: str = "UTC"
    directory: str = "/"


class Retry(NamedTuple):
    """How often a step is tried in all, the seconds before the second try, and after which reasons."""

    attempts: int
    backoff: float = DEFAULT_BACKOFF
    on: tuple[str, ...] | None = None

    def after(self, tries: int, reason: str) -> float | None:
        """The seconds until the next try after this many that ended for this reason. None if there is none."""
        if tries >= self.attempts:
            return None
        if self.on is None and reason == NOT_STARTED:
            return None
        if not any(fnmatchcase(reason, glob) for glob in self.on or RETRIED):
            return None
        return min(LONGEST_BACKOFF, self.backoff * 2.0 ** min(tries - 1, 32))


class ApprovalRule(NamedTuple):
    """Who may approve a step, and what happens if nobody does within `expires` seconds (None: it waits)."""

    expires: float | None = None
    on_timeout: Literal["deny", "approve"] = "deny"
    not_by_launcher: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a playbook (`skill`) or an `action`, with the values that it is given, and when it is to run.

    A step without an id is called by its number, as in `step0`. `values`, `env` and `cwd` are as they were written,
    texts with expressions in them. Without a `condition` it always runs. `timeout` and `grace` are in seconds, and
    replace the playbook's or the action's. With an `approval` a person is asked before it runs. `start_within` are the
    seconds that it may wait for a slot or its run's turn, `stale_after` those of silence that end it.
    """

    index: int
    id: str
    skill: str | None = None
    action: str | None = None
    values: Mapping[str, JsonValue] = field(default_factory=dict)
    condition: str | None = None
    timeout: float | None = None
    grace: float | None = None
    continue_on_failure: bool = False
    retry: Retry | None = None
    env: Mapping[str, JsonValue] = field(default_factory=dict)
    cwd: str | None = None
    approval: ApprovalRule | None = None
    start_within: float | None = None
    stale_after: float | None = None
    worktree: Worktree | None = None

    @property
    def name(self) -> str:
        """The name of its playbook or action."""
        return self.skill or self.action or ""


class Visible(NamedTuple):
    """What the expressions of a step may name: the ids of the steps before it, and the fields of `trigger`, if known.

    A definition that a chain run keeps was valid when the run began, so only references to steps are checked in it.
    """

    steps: list[str]
    trigger: Sequence[str] | None = None
    is_kept: bool = False


def steps_of(
    value: JsonValue, loc: Location, visible: Visible, callables: Callables | None, complain: Complain
) -> tuple[Step, ...]:
    """The steps of a list; their ids are added to those that are visible. Without `callables` names are not checked."""
    fix = f"write {loc[0]}: and a list, each with skill: or action:"
    if not isinstance(value, list) or not value:
        said = (
            "has no 'steps'"
            if value is None
            else f"must be a list of steps, not {kind(value) if value else 'empty'}"
        )
        complain(Complaint(loc if value is not None else (), said, fix))
        return ()
    if len(value) > MOST_STEPS:
        complain(Complaint(loc, f"has {len(value)} steps; the maximum is {MOST_STEPS}", "split it"))
        return ()
    found: list[Step] = []
    for index, each in enumerate(value):
        step = _step(each, len(visible.steps), (*loc, index), visible, callables, complain)
        visible.steps.append(step.id if step is not None else "")
        if step is not None:
            found.append(step)
    return tuple(found)


def _step(
    value: JsonValue,
    index: int,
    loc: Location,
    before: Visible,
    callables: Callables | None,
    complain: Complain,
) -> Step | None:
    if not isinstance(value, dict):
        complain(
            Complaint(loc, f"is {kind(value)}, not a table of keys", "write skill: NAME, or action: NAME")
        )
        return None
    check_keys(value, loc, _KEYS, (), complain)
    identifier, skill, action = value.get("id"), value.get("skill"), value.get("action")
    if identifier is None:
        identifier = f"step{index}"
    at = (*loc, "id") if "id" in value else loc
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        fix = "write a letter or _, then letters, digits and _, at most 64"
        complain(Complaint(at, f"{quoted(identifier)} is not an id", fix))
        identifier = ""
    elif identifier in before.steps:
        complain(Complaint(at, f"{quoted(identifier)} is the id of an earlier step", "write another"))
    _check_called(value, loc, callables, complain)
    values = _values(value.get("with"), (*loc, "with"), before, complain)
    condition = _condition(value.get("condition"), (*loc, "condition"), before, complain)
    return Step(
        index,
        identifier,
        skill if isinstance(skill, str) else None,
        action if isinstance(action, str) else None,
        values,
        condition,
        duration(value.get("timeout"), (*loc, "timeout"), complain),
        duration(value.get("grace"), (*loc, "grace"), complain),
        flag(value.get("continue_on_failure"), (*loc, "continue_on_failure"), complain),
        _retry(value.get("retry"), (*loc, "retry"), complain),
        _env(value.get("env"), (*loc, "env"), before, complain),
        _cwd(value.get("cwd"), (*loc, "cwd"), before, complain),
        _approval(value, loc, complain),
        duration(value.get("start_within"), (*loc, "start_within"), complain),
        duration(value.get("stale_after"), (*loc, "stale_after"), complain),
        _worktree(value, loc, before, complain),
    )


def _check_called(
    step: Mapping[str, JsonValue], loc: Location, callables: Callables | None, complain: Complain
) -> None:
    """A step must name exactly one playbook or action, and it must exist."""
    named = [key for key in ("skill", "action") if key in step]
    if len(named) != 1:
        said = "has no 'skill' and no 'action'" if not named else "has both 'skill' and 'action'"
        complain(
            Complaint(loc, said, "write skill: and the name of a playbook, or action: and that of an action")
        )
        return
    (key,) = named
    name, what = step[key], "playbook" if key == "skill" else "action"
    if not isinstance(name, str):
        complain(Complaint((*loc, key), f"is {kind(name)}, not a text", f"write the name of a {what}"))
        return
    known = None if callables is None else callables.skills if key == "skill" else callables.actions
    if known is not None and name not in known:
        guess = nearest(name, known)
        fix = f"did you mean {guess!r}?" if guess else _others(known, what)
        complain(Complaint((*loc, key), f"there is no {what} {quoted(name)}", fix))


def _others(known: Collection[str], what: str) -> str:
    """What a step could name instead."""
    if known:
        return f"there is {', '.join(sorted(known)[:10])}"
    if what == "action":
        return "add [actions.NAME] with a command to the settings"
    return "write NAME.playbook.yaml with a command"


def _retry(value: JsonValue, loc: Location, complain: Complain) -> Retry | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        complain(Complaint(loc, f"is {kind(value)}, not a table of keys", "write retry: {attempts: 3}"))
        return None
    check_keys(value, loc, ("attempts", "backoff", "on"), (), complain)
    if "attempts" not in value:
        complain(Complaint(loc, "has no 'attempts'", "write how often it is tried in all"))
        return None
    attempts = whole_number(value["attempts"], (*loc, "attempts"), 1, _MOST_ATTEMPTS, complain)
    backoff = duration(value.get("backoff"), (*loc, "backoff"), complain)
    on = value.get("on")
    if on is not None and not (isinstance(on, list) and on and all(isinstance(each, str) for each in on)):
        complain(Complaint((*loc, "on"), "must be a list of globs of reasons", 'as in ["run.failed.*"]'))
        return None
    globs = None if on is None else tuple(str(each) for each in on)
    for number, glob in enumerate(globs or ()):
        check_glob(glob, (*loc, "on", number), complain)
    return Retry(attempts or 1, DEFAULT_BACKOFF if backoff is None else backoff, globs)


def _env(value: JsonValue, loc: Location, before: Visible, complain: Complain) -> dict[str, JsonValue]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        complain(Complaint(loc, f"is {kind(value)}, not a table of keys", "write env: {NAME: VALUE}"))
        return {}
    for name, each in value.items():
        if not _VARIABLE.fullmatch(name):
            complain(Complaint((*loc, name), "is not the name of a variable", "as in MODE", at_key=True))
        elif name.startswith("RUNWARD_"):
            complain(
                Complaint((*loc, name), "is one of Runward's own variables", "write another", at_key=True)
            )
        elif isinstance(each, dict | list):
            complain(Complaint((*loc, name), f"is {kind(each)}, not a text", "write a text"))
        elif isinstance(each, str):
            check_text(each, (*loc, name), before, complain)
    return dict(value)


def _cwd(value: JsonValue, loc: Location, before: Visible, complain: Complain) -> str | None:
    if value is None:
        return None
    fix = "write an absolute path, or an expression that gives one"
    if not isinstance(value, str) or not value:
        complain(Complaint(loc, f"is {kind(value) if value != '' else 'empty'}, not a path", fix))
        return None
    if not value.startswith(("/", "{{")):
        complain(Complaint(loc, f"{quoted(value)} is not an absolute path", fix))
    check_text(value, loc, before, complain)
    return value


def _worktree(
    step: Mapping[str, JsonValue], loc: Location, before: Visible, complain: Complain
) -> Worktree | None:
    at = (*loc, "worktree")
    if step.get("worktree") is not None and step.get("cwd") is not None:
        fix = "leave one of the two out: a step with a worktree starts in it"
        complain(Complaint((*loc, "cwd"), "can't be combined with 'worktree'", fix, at_key=True))
    return read_worktree(
        step.get("worktree"), at, lambda text, where: check_text(text, where, before, complain), complain
    )


def _approval(step: Mapping[str, JsonValue], loc: Location, complain: Complain) -> ApprovalRule | None:
    is_required = flag(step.get("requires_approval"), (*loc, "requires_approval"), complain)
    value, at = step.get("approval"), (*loc, "approval")
    if is_required and loc[0] == "on_failure":
        fix = "leave it out: a chain run that has failed does not wait"
        complain(Complaint((*loc, "requires_approval"), "no approval is possible here", fix, at_key=True))
    if value is None:
        return ApprovalRule() if is_required else None
    if not is_required:
        fix = "write requires_approval: true, or leave it out"
        complain(Complaint(at, "says how a person is asked, but no approval is required", fix, at_key=True))
        return None
    if not isinstance(value, dict):
        complain(Complaint(at, f"is {kind(value)}, not a table of keys", "as in approval: {expires: 2d}"))
        return None
    check_keys(value, at, ("expires", "on_timeout", "not_by_launcher"), (), complain)
    on_timeout = value.get("on_timeout", "deny")
    if on_timeout not in ("deny", "approve"):
        complain(
            Complaint((*at, "on_timeout"), f"{quoted(on_timeout)} is not known", "one of: deny, approve")
        )
    return ApprovalRule(
        duration(value.get("expires"), (*at, "expires"), complain),
        "approve" if on_timeout == "approve" else "deny",
        flag(value.get("not_by_launcher"), (*at, "not_by_launcher"), complain),
    )


def _values(value: JsonValue, loc: Location, before: Visible, complain: Complain) -> dict[str, JsonValue]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        complain(Complaint(loc, f"is {kind(value)}, not a table of keys", "write with: {KEY: VALUE}"))
        return {}
    for key, each in value.items():
        if not re.fullmatch(VALUE_NAME, key):
            complain(Complaint((*loc, key), "is not a name that a playbook can take", None, at_key=True))
        _check_texts(each, (*loc, key), before, complain)
    return dict(value)


def _check_texts(value: JsonValue, loc: Location, before: Visible, complain: Complain) -> None:
    """Every text in the value must be one that can be rendered."""
    match value:
        case str():
            check_text(value, loc, before, complain)
        case list():
            for number, each in enumerate(value):
                _check_texts(each, (*loc, number), before, complain)
        case dict():
            for key, each in value.items():
                _check_texts(each, (*loc, key), before, complain)


def _condition(value: JsonValue, loc: Location, before: Visible, complain: Complain) -> str | None:
    if value is None:
        return None
    fix = 'write exactly one expression: "{{ outcome.passed }}"'
    if not isinstance(value, str):
        complain(Complaint(loc, f"is {kind(value)}, not a text", fix))
        return None
    parsed = check_text(value, loc, before, complain)
    if parsed is not None and (len(parsed.parts) != 1 or not parsed.expressions):
        complain(Complaint(loc, "must be exactly one expression", fix))
    return value


def check_text(text: str, loc: Location, visible: Visible, complain: Complain) -> Value | None:
    """The text with its expressions, which may name what is visible. None after a complaint."""
    try:
        parsed = Value(text, NAMES)
    except ExpressionError as error:
        complain(Complaint(loc, str(error), error.fix))
        return None
    for expression in parsed.expressions:
        for path in expression.paths:
            if path[0] == "steps" and len(path) > 1:
                _check_earlier(path[1], loc, visible.steps, complain)
            if not visible.is_kept:
                _check_field(path, loc, visible, complain)
    return parsed


def _check_field(path: Sequence[str | int], loc: Location, visible: Visible, complain: Complain) -> None:
    """A look-up in a step, in the chain or in one of Runward's own events names one of its fields."""
    match path:
        case ["steps", which, name, *_]:
            whose, known = f"steps[{which!r}]", STEP_FIELDS
        case ["chain", name, *_]:
            whose, known = "chain", CHAIN_FIELDS
        case ["trigger", name, *_] if visible.trigger is not None:
            whose, known = "trigger", tuple(visible.trigger)
        case _:
            return
    if name not in known:
        complain(unknown_field(str(name), loc, whose, known))


def _check_earlier(which: str | int, loc: Location, before: Sequence[str], complain: Complain) -> None:
    is_there = -len(before) <= which < len(before) if isinstance(which, int) else which in before
    if not is_there:
        named = [each for each in before if each]
        known = f"before it: {', '.join(named)}" if named else "no step is before it"
        complain(Complaint(loc, f"steps[{which!r}] is not a step before this one", known))
