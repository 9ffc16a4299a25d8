"""A place with at least one of everything that has a page of the Studio; and which pages there are."""

import json
import os
import time
from collections.abc import Hashable, Iterator
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.routing import Route
from tests.daemon.cli.calling import CONTRACT, Place
from tests.daemon.studio.browser.conftest import serve_studio
from tests.daemon.studio.test_attention_pages import before_now
from tests.daemon.studio.test_exchange_pages import CODE, INTERFACE, act
from tests.daemon.studio.test_outcome_pages import CI, FLOW, GATE, OTHER, REVIEW, add
from tests.daemon.studio.test_show_pages import REJECTED
from tests.daemon.studio.test_show_pages import add as add_play
from tests.handlers.layouts.claude_code_lines import SESSION, Transcript
from tests.waiting import wait_for

from runward.config.settings import Settings
from runward.daemon.studio.app import GROUPS

LONG = "a" * 300
"""A word that nothing breaks."""

SETTINGS_MORE = f"""
[actions.merge]
command = ["sh", "-c", 'echo {LONG}; test "$0" != fail', "{{{{ with.pr }}}}"]
[[roots]]
name = "runs"
path = "state/runs"
layout = "native"
[[roots]]
name = "shows"
path = "shows"
layout = "auto"
history = "live"
settle = "100ms"
[[roots]]
name = "claude"
path = "claude"
layout = "claude-code"
history = "live"
"""
JUDGE = """\
command: [sh, -c, 'printf "%s" "$0" > outcome.json', '{{ with.outcome }}']
"""
CHAINS: Final = {
    "release": f"""\
name: release
description: {LONG}
trigger: {{any_of: [{{event: pr.opened}}, {{schedule: "0 2 * * *"}}]}}
steps:
  - {{id: judge, skill: judge, with: {{outcome: "{{{{ trigger.outcome }}}}"}}}}
  - {{id: merge, action: merge, with: {{pr: "{{{{ trigger.said }}}}"}}, requires_approval: true}}
""",
    "one": "name: one\ntrigger: {manual: true}\nsteps: [{action: merge, with: {pr: '{{ trigger.pr }}'}}]\n",
    "wrong": "name: wrong\ntrigger: {event: pr.opened, colour: red}\nsteps:\n  - {action: merge}\n",
}
LISTS: Final = ("/", "/sessions", "/outcomes", "/chains", "/invocations", "/shows", "/exchange", "/daemon")
"""Where a person begins."""

UNLINKED: Final = (
    *("/exchange?deleted=true", "/exchange?type=nothing", "/sessions?status=failed&search=x"),
    "/sessions?request=00000000-0000-4000-8000-000000000000",
)

WRONG: Final = (
    *("/nowhere", "/sessions/nowhere", "/sessions?no=filter", "/login?code=x", "/chain-runs/cr_nothing"),
    *("/shows/nothing", "/exchange/principals/nobody", "/daemon?notices_after=x"),
)
"""Pages that say what is wrong."""

NO_PAGES: Final = {"/metrics"}
"""Routes whose answer is no page of HTML."""


def routes() -> list[Route]:
    """The pages of the application."""

    def settings() -> Settings:
        raise AssertionError("routes are the same with all settings")

    return [route for group in GROUPS for route in group(settings).routes() if route.path not in NO_PAGES]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place with at least one of everything that has a page, and a daemon that serves the Studio."""
    place = Place(tmp_path_factory.mktemp("crowded"))
    place.furnish()
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write(SETTINGS_MORE)
    for directory in ("shows", "chains"):
        (place.directory / directory).mkdir()
    (place.directory / "playbooks/judge.playbook.yaml").write_text(JUDGE)
    for name, text in CHAINS.items():
        (place.directory / f"chains/{name}.yaml").write_text(text)
    place.daemon_once()
    _add_sessions(place)
    _add_shows(place)
    _trade(place)
    serve_studio(place)
    with place.daemon():
        _run_chains(place)
        yield place


def _add_sessions(place: Place) -> None:
    add(place, "all", REVIEW, GATE, CI, FLOW, OTHER, {"outcome_kind": "review_verdict", "verdict": LONG})
    place.add_run("open", contract=CONTRACT)
    place.add_run(
        "crashed", exit_code=3, contract=CONTRACT, files={"report.md": LONG}, finished_at=before_now(0)
    )
    place.add_run("fine", exit_code=0, contract=CONTRACT, files={"review.md": "r", "report.md": LONG})
    place.add_run(LONG[:200], exit_code=0, contract=CONTRACT, command=["echo", LONG], cwd=f"/{LONG}")
    (place.runs / "fine/stdout.log").write_text(f"{LONG}\n" * 3)
    transcript = place.directory / f"claude/-app/{SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    told = Transcript(now=time.time() - 100)
    told.prompt(f"Make {LONG}.")
    told.text("word " * 2000, "tool_use")
    told.result(told.call(command=f"ls {LONG}"), LONG)
    told.text("Done.")
    transcript.write_bytes(told.content())
    os.utime(transcript, (time.time() - 100, time.time() - 100))


def _add_shows(place: Place) -> None:
    add_play(place, "retry-queue", "play-1", {"gate_passed": True, "feedback": LONG}, branch=LONG)
    play = add_play(place, "retry-queue", LONG[:100], REJECTED, status="over", depends_on=["play-1"])
    (play / "agent.log").write_text(f"{LONG}\n")
    (play.parent / "_show.md").write_text(f"# Plan\n{LONG}\n")
    add_play(place, LONG[:100], "only")


def _trade(place: Place) -> None:
    place.call("exchange", "principal", "create", "writer", "--scrip", "100", "--agent")
    place.call("exchange", "principal", "create", "reader", "--scrip", "10")
    place.daemon_once()
    act(place, "writer", "write_artifact", artifact_id="rounding", content=LONG)
    act(
        place, "writer", "write_artifact", artifact_id="team/calculator", content=LONG, code=CODE, executable=True,
        price=2, depends_on=["rounding"], interface=INTERFACE, policy={"read_price": 3, "allow_invoke": ["reader"]},
    )  # fmt: skip
    act(
        place, "writer", "write_artifact", artifact_id=LONG[:60], content="x",
        interface={"description": LONG, "methods": [LONG], "examples": [LONG], LONG: LONG},
    )  # fmt: skip
    act(place, "writer", "delete_artifact", artifact_id="rounding")
    act(place, "reader", "read_artifact", artifact_id="team/calculator")
    place.change_store(
        "insert into notices (id, kind, subject, recipient, title, text, created_at, state, tries, next_at, since, error,"
        " settled_at) values ('nt_1', 'session.failed', 'x', 'me', ?1, ?1, 100.0, 'dead', 5, 200.0, 100.0, ?1, 300.0)",
        LONG,
    )
    place.change_store("update jobs set state = 'held', error = ? where handler = 'sessions/opened'", LONG)


def _run_chains(place: Place) -> None:
    said = {"outcome": json.dumps(REVIEW), "said": LONG}
    words = [f"{key}:={json.dumps(value)}" for key, value in said.items()]
    assert place.call("event", "emit", "pr.opened", *words).code == 0
    for value in ("7", "fail"):
        assert place.call("chain", "fire", "one", f"pr={value}").code == 0
    wait_for(lambda: place.call("chain", "approvals", "--json").objects(), "the approval")

    def statuses() -> set[object]:
        return {each["status"] for each in place.call("chain", "runs", "--json").objects()}

    wait_for(lambda: {"waiting_approval", "completed", "failed"} <= statuses(), "a chain run of each kind")
    wait_for(lambda: len(place.call("show", "list", "--json").objects()) == 2, "the shows")


def kind_of(address: str) -> Hashable:
    """Addresses of which one visit is enough: the same kind of page, with other values of the same filters."""
    parts = urlsplit(address)
    if not parts.query:
        return address
    route = next((each.path for each in routes() if each.path_regex.match(parts.path)), parts.path)
    given = parse_qs(parts.query)
    return route, *(
        (key, *(values if key in ("part", "path", "play") else ())) for key, values in given.items()
    )


def unvisited(visited: list[str]) -> list[str]:
    """The routes without a visited page."""
    shown = [urlsplit(each).path for each in visited if each not in WRONG]
    return [each.path for each in routes() if not any(map(each.path_regex.match, shown))]
