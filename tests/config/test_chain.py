"""Chain files: what is right, and one message with its place for everything that is wrong."""

import pytest

from runward.config.chain import Chain, chain_of, read_chain
from runward.config.fleet import Labelled
from runward.config.json_value import JsonValue
from runward.config.step import Callables

RIGHT = """\
name: pr-review
description: Review, then merge.
trigger: {event: pr.opened, filter: {base: main}}
steps:
  - id: review
    skill: review
    with: {pr: "{{ trigger.pr_number }}"}
  - id: merge
    skill: merge
    condition: "{{ steps.review.outcome.verdict == 'APPROVE' }}"
"""


def read(text: str) -> list[str]:
    return [
        problem.render()
        for problem in read_chain(text, "c.yaml", Callables(("review", "merge"), ("merge",))).problems
    ]


def test_a_right_chain_is_read_whole() -> None:
    parsed = read_chain(RIGHT, "c.yaml", Callables(("review", "merge")))
    chain = parsed.value
    assert isinstance(chain, Chain)
    assert parsed.problems == ()
    assert (chain.name, chain.trigger.event, dict(chain.trigger.filter)) == (
        "pr-review",
        "pr.opened",
        {"base": "main"},
    )
    assert [(step.index, step.id, step.skill, dict(step.values)) for step in chain.steps] == [
        (0, "review", "review", {"pr": "{{ trigger.pr_number }}"}),
        (1, "merge", "merge", {}),
    ]
    assert chain.steps[1].condition == "{{ steps.review.outcome.verdict == 'APPROVE' }}"


ONE = "name: a\ntrigger: {manual: true}\nsteps:\n"
STEP = "  - {id: one, skill: review}\n"

OWN = "name: a\ntrigger: {{event: {}{}}}\nsteps:\n"

# fmt: off
WRONG = [
    ("[]", "c.yaml:1:1: a chain must be a table of keys"),
    (RIGHT.replace("name: pr-review\n", ""), "c.yaml:1:1: has no 'name'"),
    (RIGHT.replace("pr-review", "../x"), "c.yaml:1:7: name: '../x' is not a name"),
    (RIGHT.replace("description", "descripton"), "c.yaml:2:1: descripton: unknown key (did you mean 'description'?)"),
    (ONE + STEP + "concurrency: 1\n", "c.yaml:5:14: concurrency: has no key, a text"),
    (ONE + STEP + "concurrency: {policy: queue}\n", "concurrency: has no key, a text"),
    (ONE + STEP + "concurrency: {key: x, policy: stop}\n", "concurrency.policy: 'stop' is not known"),
    (ONE + STEP + "concurrency: '{{ steps.one.id }}'\n", "steps['one'] is not a step before this one"),
    (ONE + STEP.replace("}", ', condition: "{{ ' + "(" * 800 + "1" + ")" * 800 + ' }}"}'), "condition: has brackets nested more than 20 deep"),
    (ONE + STEP.replace("}", ', with: {a: "{{ trigger' + ".a" * 1900 + ' }}"}}'), "with.a: has more than 1000 words and signs"),
    (ONE + STEP + "  - {skill: merge, condition: '{{ steps.one.outcom.verdict }}'}\n", "c.yaml:5:31: steps[1].condition: steps['one'] has no field 'outcom' (did you mean 'outcome'?)"),
    (ONE + STEP + "  - {skill: merge, with: {a: 'x {{ steps[-1].exit_cod }}'}}\n", "steps[-1] has no field 'exit_cod' (did you mean 'exit_code'?)"),
    (ONE + STEP + "  - {skill: merge, env: {A: '{{ steps[0].nothing }}'}}\n", "steps[0] has no field 'nothing' (known here: id, name, status, "),
    (ONE + STEP.replace("}", ", with: {a: '{{ chain.runid }}'}}"), "steps[0].with.a: chain has no field 'runid' (did you mean 'run_id'?)"),
    (ONE + STEP + "concurrency: '{{ chain.nam }}'\n", "concurrency: chain has no field 'nam' (did you mean 'name'?)"),
    (OWN.format("session.finished", "") + STEP.replace("}", ", with: {a: '{{ trigger.sesion_id }}'}}"), "trigger has no field 'sesion_id' (did you mean 'session_id'?)"),
    (OWN.format("session.finnished", "") + STEP, "trigger.event: 'session.finnished' is nearly the name of one of Runward's own events (did you mean 'session.finished'?"),
    (OWN.format("session.finished", ", filter: {stats: completed}") + STEP, "trigger.filter.stats: the event has no field 'stats' (did you mean 'status'?)"),
    (OWN.format("chain.finished", ", filter: {outcome.verdict: x}") + STEP, "the event has no field 'outcome' (known here: chain, chain_run_id, status, reason_code)"),
    (OWN.format("exchange.write_artifac", "") + STEP, "did you mean 'exchange.write_artifact'?"),
    (OWN.format("exchange.fly", "") + STEP, "'exchange.fly' is not an action in the exchange (known here: exchange.noop, "),
    ("name: a\ntrigger: {any_of: [{event: chain.finished}, {event: artifact.added}]}\nsteps:\n" + STEP.replace("}", ", with: {a: '{{ trigger.path }}'}}"), "trigger has no field 'path' (known here: chain, chain_run_id, status, reason_code, id, kind,"),
    (ONE + STEP + "timeout: 4 parsecs\n", "c.yaml:5:10: timeout: '4 parsecs' "),
    (ONE + STEP + "timeout: 0s\n", "c.yaml:5:10: timeout: '0s' must be at least 1us"),
    (ONE + STEP + "timeout: 90\n", "c.yaml:5:10: timeout: is a number, not a duration"),
    (ONE + "  - {id: one, skill: review, continue_on_failure: 1}\n", "continue_on_failure: is a number, not true or false"),
    (ONE + STEP + "on_failure: []\n", "c.yaml:5:13: on_failure: must be a list of steps, not empty"),
    (ONE + STEP + "on_failure:\n" + STEP, "on_failure[0].id: 'one' is the id of an earlier step"),
    (ONE + "  - {skill: review, stale_after: 5}\n", "steps[0].stale_after: is a number, not a duration"),
    (ONE + "  - {skill: review, start_within: 0s}\n", "steps[0].start_within: '0s' "),
    (ONE + "  - {skill: review, worktree: /srv/app}\n", "steps[0].worktree: is a text, not a table of keys"),
    (ONE + "  - {skill: review, worktree: {repo: /srv/app}}\n", "steps[0].worktree: has no 'ref'"),
    (ONE + "  - {skill: review, worktree: {repo: app, ref: main}}\n", "steps[0].worktree.repo: 'app' is not an absolute path"),
    (ONE + "  - {skill: review, worktree: {repo: /app, ref: --orphan}}\n", "steps[0].worktree.ref: '--orphan' begins with '-'"),
    (ONE + "  - {skill: review, worktree: {repo: /app, ref: '{{ head }}'}}\n", "uses the unknown name 'head'"),
    (ONE + "  - {skill: review, worktree: {repo: /app, ref: main, keep: yes}}\n", "steps[0].worktree.keep: "),
    (ONE + "  - {skill: review, cwd: /a, worktree: {repo: /app, ref: main}}\n", "steps[0].cwd: can't be combined with 'worktree'"),
    (ONE + "  - {skill: review, retry: 2}\n", "steps[0].retry: is a number, not a table of keys"),
    (ONE + "  - {skill: review, retry: {backoff: 2s}}\n", "steps[0].retry: has no 'attempts'"),
    (ONE + "  - {skill: review, retry: {attempts: 0}}\n", "steps[0].retry.attempts: must be a whole number from 1 to 100, not 0"),
    (ONE + "  - {skill: review, retry: {attempts: 2, on: failed}}\n", "steps[0].retry.on: must be a list of globs of reasons"),
    (ONE + "  - {skill: review, retry: {attempts: 2, on: ['run.[a']}}\n", "steps[0].retry.on[0]: 'run.[a' has a '[' that is never closed"),
    (ONE + "  - {skill: review, env: {A-B: 1}}\n", "steps[0].env.A-B: is not the name of a variable"),
    (ONE + "  - {skill: review, env: {RUNWARD_X: 1}}\n", "steps[0].env.RUNWARD_X: is one of Runward's own variables"),
    (ONE + "  - {skill: review, env: {A: [1]}}\n", "steps[0].env.A: is a list, not a text"),
    (ONE + "  - {skill: review, cwd: work}\n", "steps[0].cwd: 'work' is not an absolute path"),
    (ONE + "  - {skill: review, requires_approval: please}\n", "steps[0].requires_approval: is a text, not true or false"),
    (ONE + "  - {skill: review, approval: {expires: 1h}}\n", "steps[0].approval: says how a person is asked, but no approval is required"),
    (ONE + "  - {skill: review, requires_approval: true, approval: {on_timeout: ask}}\n", "approval.on_timeout: 'ask' is not known"),
    (ONE + "  - {skill: review, action: note}\n", "steps[0]: has both 'skill' and 'action'"),
    (ONE + "  - {action: note}\n", "steps[0].action: there is no action 'note'"),
    (ONE + STEP + "on_failure:\n  - {action: merge, requires_approval: true}\n", "on_failure[0].requires_approval: no approval is possible here"),
    ("name: a\nsteps:\n" + STEP, "the trigger is missing"),
    ("name: a\ntrigger: {}\nsteps:\n" + STEP, "c.yaml:2:10: trigger: the trigger is empty"),
    ("name: a\ntrigger: {event: x, manual: true}\nsteps:\n" + STEP, "must have exactly one of event, schedule, manual"),
    ("name: a\ntrigger: {event: file.changed}\nsteps:\n" + STEP, "c.yaml:2:18: trigger.event: file.changed has no 'path'"),
    ("name: a\ntrigger: {event: file.changed, path: 1}\nsteps:\n" + STEP, "trigger.path: 1 is not a path"),
    ("name: a\ntrigger: {event: file.changed, path: ../x}\nsteps:\n" + STEP, "trigger.path: '../x' has a '..' in it"),
    ("name: a\ntrigger: {event: file.changed, path: 'a**'}\nsteps:\n" + STEP, "trigger.path: 'a**' has '**' next to other characters"),
    ("name: a\ntrigger: {event: x, host: ../b}\nsteps:\n" + STEP, "trigger.host: '../b' is not the name of a host"),
    ("name: a\ntrigger: {event: x, host: [b, 2]}\nsteps:\n" + STEP, "trigger.host[1]: 2 is not the name of a host"),
    ("name: a\ntrigger: {event: x, host: []}\nsteps:\n" + STEP, "trigger.host: must have 1 to 100 names"),
    ("name: a\ntrigger: {schedule: '@daily', host: b}\nsteps:\n" + STEP, "trigger.host: belongs to an event"),
    ("name: a\ntrigger: {event: file.changed, path: a, host: b}\nsteps:\n" + STEP, "trigger.host: can't be with file.changed"),
    ("name: a\ntrigger: {event: x, path: a}\nsteps:\n" + STEP, "trigger.path: belongs to the event file.changed"),
    ("name: a\ntrigger: {manual: true, path: a}\nsteps:\n" + STEP, "trigger.path: belongs to an event"),
    ("name: a\ntrigger: {any_of: []}\nsteps:\n" + STEP, "c.yaml:2:19: trigger.any_of: must be a list of triggers, not empty"),
    ("name: a\ntrigger: {all_of: {event: a}}\nsteps:\n" + STEP, "trigger.all_of: must be a list of triggers, not a table"),
    ("name: a\ntrigger: {all_of: [a]}\nsteps:\n" + STEP, "trigger.all_of[0]: this item is a text, not a table"),
    ("name: a\ntrigger: {all_of: [{}]}\nsteps:\n" + STEP, "trigger.all_of[0]: this item is empty"),
    ("name: a\ntrigger: {sequence: [{manual: true}]}\nsteps:\n" + STEP, "c.yaml:2:23: trigger.sequence[0].manual: can't be an item"),
    ("name: a\ntrigger: {sequence: [{within: 1h}]}\nsteps:\n" + STEP, "sequence[0]: must have exactly one of event, schedule, all_of, sequence, any_of"),
    ("name: a\ntrigger: {any_of: [{event: a}], within: 1h}\nsteps:\n" + STEP, "trigger.within: belongs to an all_of"),
    ("name: a\ntrigger: {all_of: [{event: a}], within: 90}\nsteps:\n" + STEP, "trigger.within: is a number, not a duration"),
    ("name: a\ntrigger: {all_of: [{event: a}], within: 0s}\nsteps:\n" + STEP, "trigger.within: '0s' must be at least 1us"),
    ("name: a\ntrigger: {all_of: [{event: a, filter: 1}]}\nsteps:\n" + STEP, "trigger.all_of[0].filter: is a number, not a table of keys"),
    ("name: a\ntrigger: {all_of: [{schedule: '@daily', overlap: allow}]}\nsteps:\n" + STEP, "all_of[0].overlap: is only for a schedule that is the whole trigger"),
    ("name: a\ntrigger: {all_of: [{any_of: [{all_of: [{any_of: [{event: a}]}]}]}]}\nsteps:\n" + STEP, "all_of[0].any_of: composites can be at most 3 deep"),
    ("name: a\ntrigger: {any_of: [" + "{event: a}, " * 33 + "]}\nsteps:\n" + STEP, "waits for 33 events and schedules; the maximum is 32"),
    ("name: a\ntrigger: {schedule: 1}\nsteps:\n" + STEP, "trigger.schedule: is a number, not a text"),
    ("name: a\ntrigger: {schedule: '0 5-1 * * *'}\nsteps:\n" + STEP, "'5-1' is a reversed range in the hour"),
    ("name: a\ntrigger: {schedule: '0 0 30 2 *'}\nsteps:\n" + STEP, "is never due: there is no such day"),
    ("name: a\ntrigger: {schedule: every 6 h, timezone: Europe/Rigga}\nsteps:\n" + STEP, "trigger.timezone: there is no time zone 'Europe/Rigga'"),
    ("name: a\ntrigger: {schedule: every 10ms}\nsteps:\n" + STEP, "a period is at least 1s"),
    ("name: a\ntrigger: {schedule: at noon}\nsteps:\n" + STEP, "'noon' is not a date with a time"),
    ("name: a\ntrigger: {schedule: '@daily', misfire: retry}\nsteps:\n" + STEP, "trigger.misfire: 'retry' is not known"),
    ("name: a\ntrigger: {schedule: '@daily', overlap: yes}\nsteps:\n" + STEP, "trigger.overlap: 'yes' is not known"),
    ("name: a\ntrigger: {schedule: '@daily', max_runs: 0}\nsteps:\n" + STEP, "trigger.max_runs: must be a whole number from 1"),
    ("name: a\ntrigger: {event: x, misfire: skip}\nsteps:\n" + STEP, "trigger.misfire: belongs to a schedule"),
    ("name: a\ntrigger: {manual: true, filter: {}}\nsteps:\n" + STEP, "trigger.filter: belongs to an event"),
    ("name: a\ntrigger: {manual: 1}\nsteps:\n" + STEP, "trigger.manual: must be true, not 1"),
    ("name: a\ntrigger: {event: 'a b'}\nsteps:\n" + STEP, "'a b' is not the name of an event"),
    ("name: a\ntrigger: {event: a, filter: {b: {gte: 1}}}\nsteps:\n" + STEP, "trigger.filter.b.gte: unknown operator"),
    ("name: a\ntrigger: {manual: true}\n", "has no 'steps'"),
    ("name: a\ntrigger: {manual: true}\nsteps: []\n", "c.yaml:3:8: steps: must be a list of steps, not empty"),
    (ONE + "  - one\n", "steps[0]: is a text, not a table of keys"),
    (ONE + "  - {id: 1a, skill: review}\n", "steps[0].id: '1a' is not an id"),
    (ONE + STEP + STEP, "steps[1].id: 'one' is the id of an earlier step"),
    (ONE + "  - {id: one}\n", "steps[0]: has no 'skill' and no 'action'"),
    (ONE + "  - {id: one, skill: revew}\n", "there is no playbook 'revew' (did you mean 'review'?)"),
    (ONE + "  - {id: one, skill: review, with: [1]}\n", "steps[0].with: is a list, not a table of keys"),
    (ONE + "  - {id: one, skill: review, with: {a b: 1}}\n", "is not a name that a playbook can take"),
    (ONE + "  - {id: one, skill: review, with: {a: '{{ env.HOME }}'}}\n", "uses the unknown name 'env'"),
    (ONE + "  - {id: one, skill: review, with: {a: ['{{ x']}}\n", "steps[0].with.a[0]: has a '{{' without its '}}'"),
    (ONE + "  - {id: one, skill: review, condition: true}\n", "steps[0].condition: is true or false, not a text"),
    (ONE + "  - {id: one, skill: review, condition: 'a {{ outcome }}'}\n", "must be exactly one expression"),
    (ONE + "  - {id: one, skill: review, condition: 'outcome'}\n", "must be exactly one expression"),
    (ONE + "  - {id: one, skill: review, condition: '{{ steps.two.outcome }}'}\n", "steps['two'] is not a step before this one"),
    (ONE + "  - {id: one, skill: review, condition: '{{ steps[0].outcome }}'}\n", "steps[0] is not a step before this one"),
    (ONE + STEP + "  - {id: two, skill: review, condition: '{{ steps[-2].outcome }}'}\n", "steps[-2] is not a step before this one"),
    (ONE + "  - {skill: there, host: Gpu}\n", "steps[0].host: 'Gpu' is not the name of a host"),
    (ONE + "  - {skill: there, host: 1}\n", "steps[0].host: is a number, not a name"),
    (ONE + "  - {skill: there, host: {}}\n", "steps[0].host: has no 'label'"),
    (ONE + "  - {skill: there, host: {label: gpu, name: x}}\n", "steps[0].host.name: unknown key"),
    (ONE + "  - {skill: there, host: {label: []}}\n", "steps[0].host.label: has 0 labels"),
    (ONE + "  - {skill: there, host: {label: [gpu, 1]}}\n", "steps[0].host.label[1]: is a number, not a label"),
    (ONE + "  - {skill: there, host: {label: '{{ trigger.x }}'}}\n", "steps[0].host.label: '{{ trigger.x }}' is not a label"),
    (ONE + "  - {skill: there, host: {label: ../gpu}}\n", "steps[0].host.label: '../gpu' is not a label"),
    (ONE + "".join(f"  - {{id: s{n}, skill: review}}\n" for n in range(101)), "has 101 steps; the maximum is 100"),
]
# fmt: on
"""Texts with one mistake each, and what is said of it."""


@pytest.mark.parametrize(("text", "problem"), WRONG)
def test_a_wrong_chain_has_one_message_with_its_place(text: str, problem: str) -> None:
    (found,) = read(text)
    assert problem in found
    assert read_chain(text, "c.yaml", Callables(("review",), ("merge",))).value is None


@pytest.mark.parametrize(
    ("written", "labels"),
    [("gpu", ("gpu",)), ("[gpu, mem=64g]", ("gpu", "mem=64g")), ("[gpu, gpu]", ("gpu",))],
)
def test_a_step_may_want_any_host_that_has_labels_and_its_playbook_need_not_be_here(
    written: str, labels: tuple[str, ...]
) -> None:
    text = ONE + f"  - {{skill: only-there, host: {{label: {written}}}}}\n"
    chain = read_chain(text, "c.yaml", Callables()).value
    assert isinstance(chain, Chain)
    assert chain.steps[0].host == Labelled(labels)


def test_a_composite_has_its_items_in_the_order_of_the_file() -> None:
    trigger = (
        "{sequence: [{event: a}, {any_of: [{schedule: '@daily'}, {event: b, filter: {x: 1}}]}], within: 2h}"
    )
    chain = read_chain(f"name: a\ntrigger: {trigger}\nsteps:\n{STEP}", "c.yaml", Callables(("review",))).value
    assert chain is not None
    found = chain.trigger
    assert (found.composite, found.within, found.items[1].composite) == ("sequence", 7200.0, "any_of")
    assert [each.event for each in found.leaves] == ["a", None, "b"]
    assert [each.times.text for each in found.schedules] == ["@daily"]


@pytest.mark.parametrize(
    ("path", "glob"),
    [("/srv/*.md", "/srv/*.md"), ("work/**", "/etc/runward/work/**"), ("./a", "/etc/runward/a")],
)
def test_the_path_of_a_trigger_is_relative_to_the_settings_file(path: str, glob: str) -> None:
    text = f"name: a\ntrigger: {{event: file.changed, path: '{path}'}}\nsteps:\n{STEP}"
    chain = read_chain(text, "c.yaml", Callables(("review",), directory="/etc/runward")).value
    assert chain is not None
    assert chain.trigger.path == glob


@pytest.mark.parametrize(
    ("trigger", "expression"),
    [
        ("{event: pr.opened, filter: {anything: 1}}", "trigger.whatever"),
        ("{event: session.done}", "trigger.whatever"),
        ("{manual: true}", "trigger.whatever"),
        ("{event: session.finished, filter: {outcome.verdict: REJECT}}", "trigger.outcome.verdict"),
        ("{any_of: [{event: session.finished}, {event: mine}]}", "trigger.whatever"),
        ("{schedule: every 1h}", "trigger.whatever ~ chain.due_at"),
        ("{event: file.changed, path: a, filter: {change: deleted}}", "trigger.path"),
        ("{event: exchange.write_artifact, filter: {success: true}}", "trigger.artifact_id"),
    ],
)
def test_fields_are_checked_only_where_they_are_known(trigger: str, expression: str) -> None:
    step = "  - {id: one, skill: review, with: {a: '{{ " + expression + " }}'}}\n"
    assert read(f"name: a\ntrigger: {trigger}\nsteps:\n{step}") == []


def test_a_chain_run_keeps_a_definition_that_would_be_refused_today() -> None:
    step: JsonValue = {"skill": "review", "with": {"a": "{{ trigger.sesion_id }} {{ chain.runid }}"}}
    trigger: JsonValue = {"event": "session.finished", "filter": {"stats": 1}}
    assert chain_of({"name": "a", "trigger": trigger, "steps": [step]}).name == "a"
    assert chain_of({"name": "a", "trigger": {"event": "session.finnished"}, "steps": [step]}).name == "a"


def test_what_runs_keep_of_one_chain_is_read_once_and_another_chain_is_another() -> None:
    def definition(condition: str) -> dict[str, JsonValue]:
        step: JsonValue = {"skill": "review", "condition": condition}
        return {"name": "a", "trigger": {"event": "session.completed"}, "steps": [step]}

    kept = chain_of(definition("{{ true }}"))
    assert chain_of(definition("{{ true }}")) is kept
    assert chain_of(definition("{{ false }}")) != kept
    with pytest.raises(ValueError, match="can't be read"):
        chain_of({"name": "a"})
