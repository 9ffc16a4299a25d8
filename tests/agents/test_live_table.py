"""One table of agents and of what happens to them: real programs before a real daemon, held against what was asked."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pytest
from tests.agents.following import API_ERROR, GONE, INTERRUPTED, OK, RESUMED, STARTED
from tests.agents.homes import Home, Run, make_home
from tests.agents.installed import NotToBeHadError, program
from tests.agents.programs import PROGRAMS, Program
from tests.agents.replies import INPUT_TOKENS, OUTPUT_TOKENS, Calls, Refuses, Stalls
from tests.agents.scenarios import SCRIPTS
from tests.agents.scripted_model import Model, prompt
from tests.daemon.cli.calling import Place as Caller
from tests.daemon.fleet.database import free_port
from tests.proof.place import Place
from tests.proof.processes import Forks
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.handlers.layouts.hooks import HOOKS
from runward.handlers.sessions.over import GRACE

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]

ONE_BY_ONE: Final = 1200
"""Seconds for all situations of an agent: a program that runs alone (Kilo) took 464 s on two busy cores."""


class Told(NamedTuple):
    """What Runward should say of a session.

    `history` are the reasons that its status went through, `evidence` is that of its last end. Without any, it is unknown
    how the session stands.
    """

    history: tuple[str, ...]
    evidence: str | None
    calls: int
    input_tokens: int
    output_tokens: int
    subagents: int = 0
    is_fork: bool = False
    linked: int = 0


Situation: TypeAlias = "Callable[[Stage], None]"


@dataclass(slots=True)
class Stage:
    """A home with a program of its own before its model; a daemon watches the sessions in the home as the root `root`."""

    program: Program
    situation: str
    root: str
    home: Home
    model: Model
    place: Place
    is_hooked: bool

    def may_be(self) -> tuple[tuple[Told, ...], ...]:
        """What Runward should say of its sessions: one of these."""
        expected = DIFFERENT.get(self.root, EXPECTED[self.situation])
        # Copilot says itself that it ends, and names its process.
        if self.program is not PROGRAMS["copilot"]:
            return (tuple(map(with_hook, expected)) if self.is_hooked else expected,)
        # After a signal it sometimes ends without having said so.
        killed = tuple(each._replace(evidence="process_gone") for each in expected)
        return (expected, killed) if self.situation.startswith(("int-", "term-")) else (expected,)

    def start(self, script: str, resumed: str | None = None) -> Run:
        return self.home.start(*program(self.program.pinned), *self.program.words(prompt(script), resumed))

    def run(self, script: str, resumed: str | None = None) -> None:
        """Run it to its end."""
        self.end(self.start(script, resumed))

    def end(self, run: Run) -> None:
        run.end(self.program.patience)

    def wait_for_tool(self, run: Run) -> None:
        """Until its tool waits, and the call is in its logs."""
        try:
            wait_for(self.home.is_tool_held, f"the tool of {self.root}", self.program.patience)
        except AssertionError as error:
            raise AssertionError(f"{error}; it said:\n{run.said()[-2000:]}") from None
        self.wait_for_log(*self.program.call)

    def wait_for_request(self, run: Run) -> None:
        """Until the model has its request, and the prompt is in its logs."""
        came = self.model.wait_until_stalled(self.program.patience)
        assert came, f"no request; it said:\n{run.said()[-2000:]}"
        self.wait_for_log(prompt("stalled").encode(), *self.program.asked)

    def send(self, run: Run, number: signal.Signals) -> None:
        """A signal to the agent alone."""
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        os.kill(int(children.read_text().split()[0]) if self.program.has_launcher else run.pid, number)

    def wait_for_log(self, *texts: bytes) -> None:
        """Until these texts are in its logs."""
        root = self.home.home / self.program.sessions

        def are_there() -> bool:
            logs = [each.read_bytes() for each in root.glob(self.program.logs) if each.is_file()]
            return all(any(text in log for log in logs) for text in texts)

        wait_for(are_there, f"{texts} in a log of {self.root}")

    def fork(self, script: str, session: str) -> None:
        """Fork a session, and give the fork a prompt."""
        run = self.home.start(*program(self.program.pinned), *self.program.fork(prompt(script), session))
        self.end(run)
        # Kimi's command takes no prompt.
        if (without := re.search(r"Forked to (\S+)", run.said())) is not None:
            self.run(script, resumed=without[1])

    def wait_over(self) -> str:
        """The id of the session, once its first attempt is over."""
        rows = "select session_id from sessions where root = ? and status <> 'running'"
        return str(wait_for(lambda: self.place.rows(rows, self.root), f"a verdict of {self.root}")[0][0])

    def wait_begun(self) -> str:
        """The id of the session, once it is known."""
        rows = "select session_id from sessions where root = ?"
        return str(wait_for(lambda: self.place.rows(rows, self.root), f"a session of {self.root}")[0][0])


def runs(script: str) -> Situation:
    """It runs to its end."""
    return lambda stage: stage.run(script)


def in_tool(number: signal.Signals) -> Situation:
    """A signal to the agent while it waits for a tool."""

    def happens(stage: Stage) -> None:
        run = stage.start("held")
        stage.wait_for_tool(run)
        stage.send(run, number)
        # An agent that waits for its tool gets what it waits for.
        stage.home.release()
        stage.end(run)

    return happens


def in_request(number: signal.Signals) -> Situation:
    """A signal to the agent while it waits for the model."""

    def happens(stage: Stage) -> None:
        run = stage.start("stalled")
        stage.wait_for_request(run)
        stage.send(run, number)
        stage.end(run)

    return happens


def resumed(stage: Stage) -> None:
    """A session that is over gets a further prompt."""
    stage.run("answer")
    stage.run("tool", resumed=stage.wait_over())


def forks(stage: Stage) -> None:
    """A session that is over is forked, and the fork gets a prompt."""
    stage.run("answer")
    stage.fork("tool", stage.wait_over())


def forks_while_open(stage: Stage) -> None:
    """A session is forked while it waits for a tool, and goes on when the fork is over."""
    held = stage.start("held")
    stage.wait_for_tool(held)
    stage.fork("answer", stage.wait_begun())
    stage.home.release()
    stage.end(held)


def two_at_once(stage: Stage) -> None:
    """Two runs in one directory: one is held in a tool until the other one is over."""
    held = stage.start("held")
    stage.wait_for_tool(held)
    stage.run("answer")
    stage.home.release()
    stage.end(held)


SITUATIONS: Final[Mapping[str, Situation]] = {
    "answers": runs("answer"),
    "uses-a-tool": runs("tool"),
    "is-refused": runs("refused"),
    "int-in-tool": in_tool(signal.SIGINT),
    "term-in-tool": in_tool(signal.SIGTERM),
    "kill-in-tool": in_tool(signal.SIGKILL),
    "int-in-request": in_request(signal.SIGINT),
    "term-in-request": in_request(signal.SIGTERM),
    "kill-in-request": in_request(signal.SIGKILL),
    "delegates": runs("delegated"),
    "resumed": resumed,
    "two-at-once": two_at_once,
    "forks": forks,
    "forks-while-open": forks_while_open,
}


def ends(*history: str, calls: int, replies: int) -> Told:
    """A session that has come to an end, as the agent itself said."""
    return Told((STARTED, *history), "declared", calls, replies * INPUT_TOKENS, replies * OUTPUT_TOKENS)


def killed(calls: int, replies: int) -> Told:
    """A session whose process is known to be gone."""
    return ends(GONE, calls=calls, replies=replies)._replace(evidence="process_gone")


def with_subagent(replies: int) -> tuple[Told, ...]:
    """A session with the sub-agent that worked for it, each with what is its own."""
    session = ends(OK, calls=2, replies=replies)._replace(subagents=1, linked=1)
    return ends(OK, calls=1, replies=2)._replace(linked=1), session


def stays_open(calls: int, replies: int) -> Told:
    """A session whose end nobody saw."""
    return ends(calls=calls, replies=replies)._replace(evidence=None)


EXPECTED: Final[Mapping[str, tuple[Told, ...]]] = {
    "answers": (ends(OK, calls=0, replies=1),),
    "uses-a-tool": (ends(OK, calls=1, replies=2),),
    "is-refused": (ends(API_ERROR, calls=0, replies=0),),
    "int-in-tool": (ends(INTERRUPTED, calls=1, replies=1),),
    "term-in-tool": (ends(INTERRUPTED, calls=1, replies=1),),
    "kill-in-tool": (stays_open(calls=1, replies=1),),
    "int-in-request": (ends(INTERRUPTED, calls=0, replies=0),),
    "term-in-request": (ends(INTERRUPTED, calls=0, replies=0),),
    "kill-in-request": (stays_open(calls=0, replies=0),),
    "delegates": (ends(OK, calls=2, replies=3)._replace(subagents=1),),
    "resumed": (ends(OK, RESUMED, OK, calls=1, replies=3),),
    "forks": (ends(OK, calls=0, replies=1), ends(OK, calls=1, replies=2)._replace(is_fork=True)),
    "forks-while-open": (
        ends(OK, calls=0, replies=1)._replace(is_fork=True),
        ends(OK, calls=1, replies=2),
    ),
    "two-at-once": (ends(OK, calls=0, replies=1), ends(OK, calls=1, replies=2)),
}
"""What Runward should say of an agent, if DIFFERENT says nothing else."""

CANCELLED: Final = ends("run.cancelled.user", calls=0, replies=0)
DIFFERENT: Final[Mapping[str, tuple[Told, ...]]] = {
    # It writes nothing when it is ended so.
    "pi-int-in-tool": EXPECTED["kill-in-tool"],
    "pi-int-in-request": EXPECTED["kill-in-request"],
    "qwen-int-in-request": EXPECTED["kill-in-request"],
    "qwen-term-in-request": EXPECTED["kill-in-request"],
    "droid-int-in-request": EXPECTED["kill-in-request"],
    "droid-term-in-request": EXPECTED["kill-in-request"],
    # The signal ends the tool alone, if anything, and the turn goes on to its end.
    "droid-int-in-tool": EXPECTED["uses-a-tool"],
    "droid-term-in-tool": EXPECTED["uses-a-tool"],
    "cline-int-in-tool": (
        CANCELLED._replace(calls=1, input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS),
    ),
    "cline-int-in-request": (CANCELLED,),
    "cline-term-in-tool": EXPECTED["uses-a-tool"],
    # Their sub-agents are sessions of their own.
    **{f"{agent}-delegates": with_subagent(replies=3) for agent in ("droid", "opencode", "kilo")},
    # It works in the background, and the model is told when it has done so.
    "qwen-delegates": with_subagent(replies=4),
    # No row names the origin.
    **{
        f"{agent}-{situation}": (ends(OK, calls=0, replies=1), ends(OK, calls=1, replies=2))
        for agent in ("opencode", "kilo")
        for situation in ("forks", "forks-while-open")
    },
    # They name their process.
    **{
        f"{agent}-kill-in-{place}": (killed(calls=count, replies=count),)
        for agent in ("copilot", "cline")
        for place, count in (("tool", 1), ("request", 0))
    },
    # They leave the same whatever the signal was, and say what a reply used when it is complete.
    **{
        f"{agent}-{number}-in-{place}": (stays_open(calls=calls, replies=0),)
        for agent in ("opencode", "kilo")
        for number in ("int", "term", "kill")
        for place, calls in (("tool", 1), ("request", 0))
    },
}
"""Where an agent leaves other records than most, by the root's name."""


def with_hook(told: Told) -> Told:
    """What Runward should say if a hook named the session's process: a turn that was open ended with it."""
    if told.evidence is not None:
        return told
    return told._replace(history=(*told.history, GONE), evidence="process_gone")


def by_itself(told: Told) -> Told:
    """The same, as if a turn that is closed had ended the session: by a hook, its process may be gone or not when it counts."""
    return told if told.history[-1] == GONE or told.evidence is None else told._replace(evidence="declared")


def install_hook(place: Place, home: Home, agent: str) -> None:
    """`runward hook install`. What the agent would fetch for it is there: here it reaches nothing but the loopback."""
    if package := PROGRAMS[agent].plugins:
        settings = home.home / ".config" / agent
        (settings / "node_modules").mkdir()
        lock = {"lockfileVersion": 3, "packages": {"": {"dependencies": {package: "*"}}}}
        (settings / "package-lock.json").write_text(json.dumps(lock))
    environment = {"HOME": str(home.home), "PATH": "", "RUNWARD_CONFIG": str(place.settings)}
    done = place.forks.start("hook", "install", agent, environment=environment, output=home.place / "hook")
    assert done.wait() == 0, done.said()


@contextmanager
def watched(
    agents: Sequence[str], situations: Iterable[str], directory: Path, *, hooked: bool = False
) -> Iterator[list[Stage]]:
    """A stage for each agent and situation, and a daemon that watches all; what is started is ended afterwards.

    Skips the test where a program can't be had.
    """
    try:
        with ThreadPoolExecutor(len(agents)) as pool:
            list(pool.map(lambda agent: program(PROGRAMS[agent].pinned), agents))
    except NotToBeHadError as error:
        pytest.skip(str(error))
    with ExitStack() as ending:
        forks = Forks()
        ending.callback(forks.close)
        place = Place(directory, forks)
        ending.callback(place.close)
        stages = []
        for agent in agents:
            for situation in (each for each in situations if each not in PROGRAMS[agent].without):
                root = f"{agent}-{situation}"
                home = make_home(directory / "cases" / root)
                ending.callback(home.close)
                model = ending.enter_context(Model(SCRIPTS))
                PROGRAMS[agent].settle(home, model.url)
                sessions = home.home / PROGRAMS[agent].sessions
                sessions.mkdir(parents=True)
                with place.settings.open("a") as settings:
                    settings.write(f'[[roots]]\nname = "{root}"\npath = "{sessions}"\nlayout = "{agent}"\n')
                stages.append(Stage(PROGRAMS[agent], situation, root, home, model, place, hooked))
                if hooked:
                    install_hook(place, home, agent)
        ending.enter_context(place.serving())
        yield stages


def told(place: Place) -> dict[str, tuple[Told, ...]]:
    """What the commands print of all sessions, by their roots."""
    caller = Caller(place.directory)
    found: dict[str, list[Told]] = {}

    def rows() -> tuple[Mapping[str, JsonValue], ...]:
        return tuple(caller.call("session", "list", "--json", "--limit", "0").objects())

    listed, before = rows(), None
    # What is shown belongs to what is listed only where nothing happened in between.
    while listed != before:
        all_shown = [caller.call("session", "show", str(each["key"]), "--json").object() for each in listed]
        before, listed = listed, rows()
    for each, shown in zip(listed, all_shown, strict=True):
        assert each == {name: shown.get(name, each[name]) for name in each}
        (inspected,) = caller.call("inspect", str(each["path"]), "--json").objects()
        counts = inspected["counts"]
        assert inspected["session_id"] == shown["session_id"]
        assert isinstance(counts, dict)
        # One that is killed in its first request may leave no message.
        if shown["ended_by"] is not None and counts["events"]:
            exported = caller.call("session", "export", str(each["key"]), "--format", "atif").object()
            assert calls_in(exported) == counts["tool_calls"], exported
        root = str(each["path"]).removeprefix(f"{place.directory}/cases/").partition("/")[0]
        assert inspected["parent_session_id"] in (None, *(every["session_id"] for every in listed))
        is_fork = inspected["parent_session_id"] is not None
        found.setdefault(root, []).append(_told(shown, counts, is_fork=is_fork))
    return {root: tuple(sorted(sessions)) for root, sessions in found.items()}


def _told(shown: Mapping[str, JsonValue], counts: Mapping[str, JsonValue], *, is_fork: bool) -> Told:
    history, usage, evidence = shown["history"], shown["usage"], shown["ended_by"]
    linked = shown["linked"]
    assert isinstance(history, list)
    assert isinstance(linked, list)
    assert isinstance(usage, dict | None)
    reasons = tuple(str(each["reason_code"]) for each in history if isinstance(each, dict))
    assert shown["status"] == ("running" if evidence is None else reasons[-1].split(".")[1])
    spent = (0, 0) if usage is None else (usage["input_tokens"], usage["output_tokens"])
    calls, received, sent, subagents = map(whole, (counts["tool_calls"], *spent, counts["subagents"]))
    return Told(
        history=reasons,
        evidence=None if evidence is None else str(evidence),
        calls=calls,
        input_tokens=received,
        output_tokens=sent,
        subagents=subagents,
        is_fork=is_fork,
        linked=len(linked),
    )


def used(place: Place, stages: Sequence[Stage]) -> dict[str, tuple[int, int]]:
    """What `runward usage` says that was used at each stage, by a session and its sub-agents."""
    printed = Caller(place.directory).call("usage", "--by", "project", "--json").object()
    rows = printed["rows"]
    assert isinstance(rows, list)
    by_project = {str(each["key"]): each for each in rows if isinstance(each, dict)}
    found = {each.root: by_project[str(each.home.work)] for each in stages}
    return {root: (whole(each["input_tokens"]), whole(each["output_tokens"])) for root, each in found.items()}


def whole(value: JsonValue) -> int:
    assert type(value) is int
    return value


def calls_in(trajectory: Mapping[str, JsonValue]) -> int:
    """How many calls an exported session has."""
    called = 0
    steps = trajectory["steps"]
    assert isinstance(steps, list)
    for step in steps:
        match step:
            case {"tool_calls": list(calls)}:
                called += len(calls)
    return called


def as_judged(stage: Stage, found: tuple[Told, ...]) -> tuple[Told, ...]:
    """What was found, as it is compared."""
    return tuple(map(by_itself, found)) if stage.is_hooked else found


def miscounted(stage: Stage, found: tuple[Told, ...]) -> str | None:
    """What was counted wrongly, held against the replies that the model gave; those of sub-agents are not the session's.

    They are found with a sub-agent that is a session of its own.
    """
    are_found = any(each.linked for each in found)
    given = {name: count for name, count in stage.model.given.items() if are_found or name != "worker"}
    served = sum(count for name, count in given.items() if not isinstance(SCRIPTS[name][0], Refuses | Stalls))
    calls = sum(isinstance(each, Calls) for name, count in given.items() for each in SCRIPTS[name][:count])
    counted = tuple(map(sum, zip(*(each[2:5] for each in found), strict=True)))
    wanted = (calls, served * INPUT_TOKENS, served * OUTPUT_TOKENS)
    if all(each.evidence == "declared" for each in found):
        return None if counted == wanted else f"{counted} for {wanted}, as the model gave"
    # What an agent had not recorded when it was ended is nowhere.
    is_too_much = any(one > other for one, other in zip(counted, wanted, strict=True))
    return f"{counted} is more than {wanted}, which the model gave" if is_too_much else None


def judged(stages: Sequence[Stage]) -> None:
    """Everything happens at all stages; then Runward says what is expected, and goes on to say so."""
    with ThreadPoolExecutor(min(each.program.at_once for each in stages)) as pool:
        for each in [pool.submit(SITUATIONS[stage.situation], stage) for stage in stages]:
            each.result()
    place = stages[0].place

    def wrong() -> list[str]:
        found = told(place)
        assert found.keys() <= {each.root for each in stages}
        return [
            f"{each.root}: {found.get(each.root)} for {each.may_be()[0]}"
            for each in stages
            if as_judged(each, found.get(each.root, ())) not in each.may_be()
        ] + [
            f"{each.root}: {said}"
            for each in stages
            if each.root in found and (said := miscounted(each, found[each.root])) is not None
        ]

    with suppress(AssertionError):  # what is wrong is said below
        wait_for(lambda: not wrong(), "what is expected")
    since = time.monotonic()
    wait_for(lambda: time.monotonic() - since > GRACE + 1, "more than the grace")
    assert wrong() == []
    delegating = [each for each in stages if each.situation == "delegates"]
    assert used(place, delegating) == {
        each.root: (each.model.given.total() * INPUT_TOKENS, each.model.given.total() * OUTPUT_TOKENS)
        for each in delegating
    }
    assert place.rows("select path, message from problems") == []


def test_each_agent_is_told(tmp_path: Path) -> None:
    # Kilo has opencode's records, and takes long to start.
    with watched([each for each in PROGRAMS if each != "kilo"], ["uses-a-tool"], tmp_path) as stages:
        judged(stages)


@pytest.mark.sweep
@pytest.mark.timeout(ONE_BY_ONE)
@pytest.mark.parametrize("agent", PROGRAMS)
def test_whatever_happens_to_an_agent_is_told(agent: str, tmp_path: Path) -> None:
    with watched([agent], SITUATIONS, tmp_path) as stages:
        judged(stages)


@pytest.mark.sweep
@pytest.mark.timeout(ONE_BY_ONE)
@pytest.mark.parametrize("agent", [agent for agent in PROGRAMS if agent in HOOKS])
def test_whatever_happens_to_an_agent_with_its_hook_is_told_and_when_it_is_gone(
    agent: str, tmp_path: Path
) -> None:
    with watched([agent], SITUATIONS, tmp_path, hooked=True) as stages:
        judged(stages)


def hub_of(stage: Stage) -> int:
    """The process that Cline's first session names, which is none of those that were started here."""

    def first_sessions() -> tuple[Path, ...]:
        # A hub's start can take longer than the client waits that starts it. The next client finds the hub.
        stage.run("answer")
        return tuple((stage.home.home / stage.program.sessions).glob("*/[0-9]*_?????.json"))

    try:
        (document,) = wait_for(first_sessions, "a session under a hub")
    except AssertionError as error:
        raise AssertionError(f"{error}; Cline said:\n{stage.home.runs[-1].said()[-2000:]}") from None
    (number,) = re.findall(r'"pid": ?(\d+)', document.read_text())
    assert int(number) not in {run.pid for run in stage.home.runs}
    return int(number)


def test_a_session_under_clines_hub_lives_as_long_as_the_hub_does(tmp_path: Path) -> None:
    """The hub serves several sessions, and outlives its clients: that it lives shows nothing."""
    with watched(["cline"], ["answers"], tmp_path) as (stage,):
        # A port of its own: another hub may have the usual one.
        stage.home.variables.update(CLINE_SESSION_BACKEND_MODE="hub", CLINE_HUB_PORT=str(free_port()))
        hub, over = hub_of(stage), ends(OK, calls=0, replies=1)
        try:
            in_request(signal.SIGKILL)(stage)
            since = time.monotonic()
            wait_for(lambda: time.monotonic() - since > GRACE + 1, "more than the grace")
            wait_for(lambda: told(stage.place) == {stage.root: (stays_open(0, 0), over)}, "an open session")
        finally:
            os.kill(hub, signal.SIGKILL)
        wait_for(lambda: told(stage.place) == {stage.root: (killed(0, 0), over)}, "its end")
