"""Steps of chains: what each one runs, with which values, when, and what happens if it fails."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.config.keys import (
    Key,
    check_glob,
    check_keys,
    flag,
    flag_schema,
    known_keys,
    list_schema,
    read_keys,
    seconds,
    table_of_keys,
    table_schema,
    text_schema,
    true_or_false,
    whole_number,
    words,
)
from runward.config.problem import Complaint, Location, kind, nearest, quoted
from runward.config.seen import Visible, check_text
from runward.config.shape import Complain
from runward.config.template import NAME as VALUE_NAME

if TYPE_CHECKING:
    from runward.config.fleet import Labelled

MOST_STEPS: Final = 100

_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_MOST_ATTEMPTS: Final = 100
DEFAULT_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 600.0
RETRIED: Final = ("run.failed.*", "run.timed_out.deadline")
"""The reasons after which a step is tried again if `on` does not say, except for `NOT_STARTED`."""

NOT_STARTED: Final = "run.failed.not_started"

_NEWER: Final = 1
"""The rank of keys that messages list after the others."""

Keep: TypeAlias = Literal["never", "on_failure", "always"]
Answer: TypeAlias = Literal["deny", "approve"]


class Callables(NamedTuple):
    """What chains refer to: the names of the existing playbooks and actions, the machine's time zone, a base for paths.

    `directory`, the base, is that of the settings file.
    """

    skills: Collection[str] = ()
    actions: Collection[str] = ()
    zone: str = "UTC"
    directory: str = "/"


@dataclass(frozen=True, slots=True)
class _InStep:
    """Takes the complaints about one step. Readers of its keys learn from it what else the step says and may name."""

    complain: Complain
    table: Mapping[str, JsonValue]
    before: Visible

    def __call__(self, complaint: Complaint) -> None:
        self.complain(complaint)


def _name(value: JsonValue, loc: Location, step: _InStep) -> str | None:
    return value if isinstance(value, str) else None


def _values(value: JsonValue, loc: Location, step: _InStep) -> dict[str, JsonValue]:
    table = table_of_keys(value, loc, step, "write with: {KEY: VALUE}") or {}
    for name, each in table.items():
        if not re.fullmatch(VALUE_NAME, name):
            step(Complaint((*loc, name), "is not a name that a playbook can take", None, at_key=True))
        _check_texts(each, (*loc, name), step)
    return table


def _check_texts(value: JsonValue, loc: Location, step: _InStep) -> None:
    """Every text in the value must be one that can be rendered."""
    match value:
        case str():
            check_text(value, loc, step.before, step)
        case list():
            for number, each in enumerate(value):
                _check_texts(each, (*loc, number), step)
        case dict():
            for name, each in value.items():
                _check_texts(each, (*loc, name), step)


def _condition(value: JsonValue, loc: Location, step: _InStep) -> str | None:
    if value is None:
        return None
    fix = 'write exactly one expression: "{{ outcome.passed }}"'
    if not isinstance(value, str):
        step(Complaint(loc, f"is {kind(value)}, not a text", fix))
        return None
    parsed = check_text(value, loc, step.before, step)
    if parsed is not None and (len(parsed.parts) != 1 or not parsed.expressions):
        step(Complaint(loc, "must be exactly one expression", fix))
    return value


def _env(value: JsonValue, loc: Location, step: _InStep) -> dict[str, JsonValue]:
    table = table_of_keys(value, loc, step, "write env: {NAME: VALUE}") or {}
    for name, each in table.items():
        if not _VARIABLE.fullmatch(name):
            step(Complaint((*loc, name), "is not the name of a variable", "as in MODE", at_key=True))
        elif name.startswith("RUNWARD_"):
            step(Complaint((*loc, name), "is one of Runward's own variables", "write another", at_key=True))
        elif isinstance(each, dict | list):
            step(Complaint((*loc, name), f"is {kind(each)}, not a text", "write a text"))
        elif isinstance(each, str):
            check_text(each, (*loc, name), step.before, step)
    return table


def _cwd(value: JsonValue, loc: Location, step: _InStep) -> str | None:
    if value is None:
        return None
    fix = "write an absolute path, or an expression that gives one"
    if not isinstance(value, str) or not value:
        step(Complaint(loc, f"is {kind(value) if value != '' else 'empty'}, not a path", fix))
        return None
    if not value.startswith(("/", "{{")):
        step(Complaint(loc, f"{quoted(value)} is not an absolute path", fix))
    check_text(value, loc, step.before, step)
    return value


def _host(value: JsonValue, loc: Location, step: _InStep) -> "str | Labelled | None":
    if value is None:
        return None
    from runward.config.fleet import HOST_NAME, HOST_NAME_FIX  # few chains have such steps

    for other, why in _NOT_REMOTE.items():
        if step.table.get(other):
            step(Complaint((*loc[:-1], other), "can't be combined with 'host'", why, at_key=True))
    if isinstance(value, dict):
        return _labels(value, loc, step)
    fix = "write the name of a host of the fleet, an expression that gives one, or {label: LABEL}"
    if not isinstance(value, str) or not value:
        step(Complaint(loc, f"is {kind(value) if value != '' else 'empty'}, not a name", fix))
        return None
    if "{{" in value:
        check_text(value, loc, step.before, step)
    elif re.fullmatch(HOST_NAME, value) is None:
        step(Complaint(loc, f"{quoted(value)} is not the name of a host", HOST_NAME_FIX))
    return value


_LABELS_FIX: Final = "as in host: {label: gpu}, or {label: [gpu, large]} for a host that has both"


def _labels(table: Mapping[str, JsonValue], loc: Location, step: _InStep) -> "Labelled | None":
    from runward.config.fleet import LABEL, LABEL_FIX, MOST_LABELS, Labelled

    check_keys(table, loc, ("label",), step)
    if "label" not in table:
        step(Complaint(loc, "has no 'label'", _LABELS_FIX))
        return None
    value, at = table["label"], (*loc, "label")
    labels = value if isinstance(value, list) else [value]
    if not 0 < len(labels) <= MOST_LABELS:
        step(Complaint(at, f"has {len(labels)} labels", f"write 1 to {MOST_LABELS}"))
    for number, label in enumerate(labels):
        here = (*at, number) if isinstance(value, list) else at
        if not isinstance(label, str):
            step(Complaint(here, f"is {kind(label)}, not a label", _LABELS_FIX))
        elif re.fullmatch(LABEL, label) is None:
            step(Complaint(here, f"{quoted(label)} is not a label", LABEL_FIX))
    return Labelled(tuple(dict.fromkeys(map(str, labels))))


def _host_schema(description: str) -> dict[str, JsonValue]:
    label: dict[str, JsonValue] = {"type": "string"}
    labels: dict[str, JsonValue] = {"type": "array", "items": label, "minItems": 1}
    table: dict[str, JsonValue] = {
        "type": "object",
        "properties": {
            "label": {"anyOf": [label, labels], "description": "What the host must have: all of these."}
        },
        "required": ["label"],
        "additionalProperties": False,
    }
    return {"anyOf": [{"type": "string"}, table], "description": description}


_NOT_REMOTE: Final = {
    "worktree": "leave it out: let the playbook of that host make one",
}
"""Keys that a step on another host can't have, with what to do."""

_WORKTREE_FIX: Final = "as in worktree: {repo: /srv/app, ref: main}"


def _repository(value: JsonValue, loc: Location, step: _InStep) -> str:
    if not isinstance(value, str) or not value:
        step(Complaint(loc, f"must be a text, not {quoted(value)}", _WORKTREE_FIX))
        return ""
    if not value.startswith(("/", "{{")):
        fix = "write an absolute path, or an expression that gives one"
        step(Complaint(loc, f"{quoted(value)} is not an absolute path", fix))
    else:
        check_text(value, loc, step.before, step)
    return value


def _revision(value: JsonValue, loc: Location, step: _InStep) -> str:
    if not isinstance(value, str) or not value:
        step(Complaint(loc, f"must be a text, not {quoted(value)}", _WORKTREE_FIX))
        return ""
    if value.startswith("-"):
        # git would take it for an option
        step(Complaint(loc, f"{quoted(value)} begins with '-'", "write a branch, a tag or a commit"))
    else:
        check_text(value, loc, step.before, step)
    return value


class Worktree(NamedTuple):
    """A fresh checkout of a git repository, in which the step's command starts.

    The repository and the revision are as they were written: texts with expressions in them. `keep` says when the worktree
    stays after the step's end.
    """

    repo: Annotated[str, Key(text_schema("The repository: an absolute path."), _repository)]
    ref: Annotated[str, Key(text_schema("The branch, tag or commit."), _revision)]
    keep: Annotated[Keep, words("When it is kept after the end. Default: on_failure.", Keep)] = "on_failure"

    def is_kept(self, has_failed: bool) -> bool:
        """Whether it stays after the end of a step that failed or did not."""
        return self.keep == "always" or (self.keep == "on_failure" and has_failed)


def _worktree(value: JsonValue, loc: Location, step: _InStep) -> Worktree | None:
    if value is None:
        return None
    if step.table.get("cwd") is not None:
        fix = "leave one of the two out: a step with a worktree starts in it"
        step(Complaint((*loc[:-1], "cwd"), "can't be combined with 'worktree'", fix, at_key=True))
    table = table_of_keys(value, loc, step, _WORKTREE_FIX)
    if table is None:
        return None
    check_keys(table, loc, known_keys(Worktree), step)
    missing = [name for name in ("repo", "ref") if name not in table]
    for name in missing:
        step(Complaint(loc, f"has no {name!r}", _WORKTREE_FIX))
    read = read_keys(Worktree, table, loc, step)
    return None if missing else Worktree(**read)


def _attempts(value: JsonValue, loc: Location, complain: Complain) -> int:
    return whole_number(value, loc, 1, _MOST_ATTEMPTS, complain) or 1


def _reasons(value: JsonValue, loc: Location, complain: Complain) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not (isinstance(value, list) and value and all(isinstance(each, str) for each in value)):
        complain(Complaint(loc, "must be a list of globs of reasons", 'as in ["run.failed.*"]'))
        return None
    globs = tuple(str(each) for each in value)
    for number, glob in enumerate(globs):
        check_glob(glob, (*loc, number), complain)
    return globs


class Retry(NamedTuple):
    """How often a step is tried in all, the seconds before the second try, and after which reasons."""

    attempts: Annotated[
        int,
        Key(
            {"type": "integer", "minimum": 1, "maximum": _MOST_ATTEMPTS, "description": "How often in all."},
            _attempts,
        ),
    ]
    backoff: Annotated[float, seconds("The pause before the second try; it doubles. Default: 1s.")] = (
        DEFAULT_BACKOFF
    )
    on: Annotated[
        tuple[str, ...] | None,
        Key(
            {
                "type": "array",
                "minItems": 1,
                "items": {"type": "string"},
                "description": "Globs of the reasons after which it is tried again.",
            },
            _reasons,
        ),
    ] = None

    def after(self, tries: int, reason: str) -> float | None:
        """The seconds until the next try after this many that ended for this reason. None if there is none."""
        if tries >= self.attempts:
            return None
        # What could not be started will hardly start the next time. Only an `on` that covers this reason tries it again.
        if self.on is None and reason == NOT_STARTED:
            return None
        if not any(fnmatchcase(reason, glob) for glob in self.on or RETRIED):
            return None
        return min(LONGEST_BACKOFF, self.backoff * 2.0 ** min(tries - 1, 32))


def _retry(value: JsonValue, loc: Location, complain: Complain) -> Retry | None:
    table = table_of_keys(value, loc, complain, "write retry: {attempts: 3}")
    if table is None:
        return None
    check_keys(table, loc, known_keys(Retry), complain)
    if "attempts" not in table:
        complain(Complaint(loc, "has no 'attempts'", "write how often it is tried in all"))
        return None
    return Retry(**read_keys(Retry, table, loc, complain))


class ApprovalRule(NamedTuple):
    """Who may approve a step, and what happens if nobody does within `expires` seconds (None: it waits)."""

    expires: Annotated[
        float | None, seconds("The time in which a person must decide. Default: no limit.")
    ] = None
    on_timeout: Annotated[Answer, words("What happens if no one decides in time. Default: deny.", Answer)] = (
        "deny"
    )
    not_by_launcher: Annotated[bool, flag("The person who fired the chain may not approve.")] = False


def _approval(value: JsonValue, loc: Location, step: _InStep) -> ApprovalRule | None:
    is_required = true_or_false(value, loc, step)
    rule, at = step.table.get("approval"), (*loc[:-1], "approval")
    if is_required and loc[0] == "on_failure":
        fix = "leave it out: a chain run that has failed does not wait"
        step(Complaint(loc, "no approval is possible here", fix, at_key=True))
    if rule is None:
        return ApprovalRule() if is_required else None
    if not is_required:
        fix = "write requires_approval: true, or leave it out"
        step(Complaint(at, "says how a person is asked, but no approval is required", fix, at_key=True))
        return None
    if not isinstance(rule, dict):
        step(Complaint(at, f"is {kind(rule)}, not a table of keys", "as in approval: {expires: 2d}"))
        return None
    check_keys(rule, at, known_keys(ApprovalRule), step)
    return ApprovalRule(**read_keys(ApprovalRule, rule, at, step))


def _values_schema(description: str) -> dict[str, JsonValue]:
    return {"type": "object", "description": f"{description} Texts may have expressions in them."}


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a playbook (`skill`) or an `action`, with the values that it is given, and when it is to run.

    A step without an id is called by its number, as in `step0`. `values`, `env` and `cwd` are as they were written,
    texts with expressions in them. Without a `condition` it always runs. `timeout` and `grace` are in seconds, and
    replace the playbook's or the action's. With a `host`, that host of the fleet runs it. With an `approval` a person is
    asked before it runs. `start_within` are the seconds that it may wait for a slot, its host or its run's turn,
    `stale_after` those of silence that end it.
    """

    index: int
    id: Annotated[
        str,
        Key(
            {
                "type": "string",
                "pattern": f"^{_ID.pattern}$",
                "description": "Names the step in expressions. Default: step and its number.",
            }
        ),
    ] = ""
    skill: Annotated[str | None, Key(text_schema("The name of a playbook."), _name)] = None
    action: Annotated[str | None, Key(text_schema("The name of an action of the settings."), _name)] = None
    host: Annotated[
        "str | Labelled | None",
        Key(
            _host_schema(
                "The host of the fleet that runs it, with a playbook or an action of its own: its name,"
                " or the labels that it must have, as in {label: gpu}."
            ),
            _host,
            rank=_NEWER,
        ),
    ] = None
    values: Annotated[
        Mapping[str, JsonValue],
        Key(_values_schema("The values for {{ with.KEY }} in the command."), _values, name="with"),
    ] = field(default_factory=dict)
    condition: Annotated[
        str | None, Key(text_schema("Exactly one expression. The step runs if it is true."), _condition)
    ] = None
    timeout: Annotated[float | None, seconds("In place of the playbook's or the action's.")] = None
    grace: Annotated[float | None, seconds("The time between TERM and KILL.")] = None
    start_within: Annotated[
        float | None,
        seconds("The longest time that it may wait for a slot, its host or its run's turn.", rank=_NEWER),
    ] = None
    stale_after: Annotated[float | None, seconds("The silence after which it is ended.", rank=_NEWER)] = None
    worktree: Annotated[
        Worktree | None,
        Key(
            table_schema(Worktree, description="A new git worktree, in which the command starts."),
            _worktree,
            rank=_NEWER,
        ),
    ] = None
    continue_on_failure: Annotated[bool, flag("The run continues after the step failed.")] = False
    retry: Annotated[
        Retry | None, Key(table_schema(Retry, description="How often the step is tried."), _retry)
    ] = None
    env: Annotated[Mapping[str, JsonValue], Key(_values_schema("Variables for the command."), _env)] = field(
        default_factory=dict
    )
    cwd: Annotated[
        str | None,
        Key(
            text_schema("The absolute directory where the command starts. Default: the run's artifacts."),
            _cwd,
        ),
    ] = None
    approval: Annotated[
        ApprovalRule | None,
        Key(
            flag_schema("A person is asked before the step runs."),
            _approval,
            name="requires_approval",
            beside={"approval": table_schema(ApprovalRule, description="How a person is asked.")},
        ),
    ] = None

    @property
    def name(self) -> str:
        """The name of its playbook or action."""
        return self.skill or self.action or ""


def step_schema() -> dict[str, JsonValue]:
    """What a step may look like, as JSON Schema."""
    return table_schema(Step, oneOf=[{"required": ["skill"]}, {"required": ["action"]}])


def steps_schema(description: str) -> dict[str, JsonValue]:
    """What a list of steps may look like; the schema of the whole chain defines the steps."""
    return list_schema(description, "step", MOST_STEPS)


def steps_of(
    value: JsonValue, loc: Location, visible: Visible, callables: Callables | None, complain: Complain
) -> tuple[Step, ...]:
    """The steps of a list; their ids are added to those that are visible. Without `callables` names are not checked."""
    fix = f"write {loc[0]}: and a list, each with skill: or action:"
    if not isinstance(value, list) or not value:
        message = (
            "has no 'steps'"
            if value is None
            else f"must be a list of steps, not {kind(value) if value else 'empty'}"
        )
        complain(Complaint(loc if value is not None else (), message, fix))
        return ()
    if len(value) > MOST_STEPS:
        complain(Complaint(loc, f"has {len(value)} steps; the maximum is {MOST_STEPS}", "split it"))
        return ()
    steps: list[Step] = []
    for index, each in enumerate(value):
        step = _step(each, (*loc, index), visible, callables, complain)
        # A step that is wrong keeps its place, so that numbers of steps in expressions still mean what they say.
        visible.steps.append(step.id if step is not None else "")
        if step is not None:
            steps.append(step)
    return tuple(steps)


def _step(
    value: JsonValue, loc: Location, before: Visible, callables: Callables | None, complain: Complain
) -> Step | None:
    if not isinstance(value, dict):
        complain(
            Complaint(loc, f"is {kind(value)}, not a table of keys", "write skill: NAME, or action: NAME")
        )
        return None
    check_keys(value, loc, known_keys(Step), complain)
    index = len(before.steps)
    identifier = f"step{index}" if value.get("id") is None else value["id"]
    at = (*loc, "id") if "id" in value else loc
    if not isinstance(identifier, str) or not _ID.fullmatch(identifier):
        fix = "write a letter or _, then letters, digits and _, at most 64"
        complain(Complaint(at, f"{quoted(identifier)} is not an id", fix))
        identifier = ""
    elif identifier in before.steps:
        complain(Complaint(at, f"{quoted(identifier)} is the id of an earlier step", "write another"))
    _check_called(value, loc, callables, complain)
    return Step(index, identifier, **read_keys(Step, value, loc, _InStep(complain, value, before)))


def _check_called(
    step: Mapping[str, JsonValue], loc: Location, callables: Callables | None, complain: Complain
) -> None:
    """A step must name exactly one playbook or action, and it must exist."""
    named = [name for name in ("skill", "action") if name in step]
    if len(named) != 1:
        message = "has no 'skill' and no 'action'" if not named else "has both 'skill' and 'action'"
        complain(
            Complaint(
                loc, message, "write skill: and the name of a playbook, or action: and that of an action"
            )
        )
        return
    (called,) = named
    name, what = step[called], "playbook" if called == "skill" else "action"
    if not isinstance(name, str):
        complain(Complaint((*loc, called), f"is {kind(name)}, not a text", f"write the name of a {what}"))
        return
    if step.get("host") is not None:
        return  # that host knows what it has
    known = None if callables is None else callables.skills if called == "skill" else callables.actions
    if known is not None and name not in known:
        guess = nearest(name, known)
        fix = f"did you mean {guess!r}?" if guess else _others(known, what)
        complain(Complaint((*loc, called), f"there is no {what} {quoted(name)}", fix))


def _others(known: Collection[str], what: str) -> str:
    """What a step could name instead."""
    if known:
        return f"there is {', '.join(sorted(known)[:10])}"
    if what == "action":
        return "add [actions.NAME] with a command to the settings"
    return "write NAME.playbook.yaml with a command"
