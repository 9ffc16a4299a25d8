"""A person asks for a playbook's command: what is ordered, and what is refused with its reason."""

import pytest
from tests.handlers.played import Need, played

from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.config.playbook import Playbook, read_playbook
from runward.handlers.invocations import of_request
from runward.handlers.model.effects import Effects, Explain
from runward.handlers.model.invocations import OpenInvocation, Play, PlayOf, StartRun
from runward.handlers.model.requests import PlayRunRequested
from runward.handlers.requests import run_name
from runward.handlers.requests import run_play as handler
from runward.handlers.subjects import of_start

run = played(handler)
REQUEST = "7b0e7b8e-0000-4000-8000-000000000001"
AT = 1_790_000_000.25
NAME = run_name("review", AT, REQUEST)
PLAYBOOK = """\
command: [python3, review.py, "{{ with.pr }}"]
timeout: 30m
grace: 2s
agent: reviewer
artifacts:
  expected:
    - {id: review, path: review.md}
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def playbook(text: str = PLAYBOOK) -> Playbook:
    read = read_playbook(text, "playbooks/review.playbook.yaml").value
    assert read is not None
    return read


def asked(given: dict[str, JsonValue] | None = None, **changed: object) -> PlayRunRequested:
    fields: dict[str, object] = {
        "request": REQUEST,
        "at": AT,
        "playbook": "review",
        "given": {"pr": 12} if given is None else given,
        "cwd": "/home/ann/app",
        "said_by": "ann",
    }
    return PlayRunRequested(**{**fields, **changed})  # type: ignore[arg-type] # each test names real fields


def decided(event: PlayRunRequested, play: Play) -> Effects:
    decision = run(event, "h", {PlayOf("review"): play}, 2.0)
    assert isinstance(decision, tuple)
    return decision


def playable(text: str = PLAYBOOK) -> Play:
    defaults = (ExpectedArtifact("notes", "notes.md", required=False),)
    return Play(playbook(text), "reviewer", defaults, "runs", "/srv/runs")


def refusal(event: PlayRunRequested, play: Play) -> str:
    """Why nothing is started; there is no other effect."""
    (explained,) = decided(event, play)
    assert isinstance(explained, Explain)
    assert (explained.subject, explained.verdict) == (of_start(NAME), "refused")
    assert explained.summary.startswith("review is not started, as ann asked: ")
    return explained.summary


def test_what_the_playbook_declares_now_is_asked_first() -> None:
    assert run(asked(), "h", {}, 2.0) == Need(PlayOf("review"))


def test_a_right_request_orders_the_run_with_everything_that_it_needs() -> None:
    start, invocation, explained = decided(asked(traceparent=TRACE), playable())
    assert start == StartRun(
        key=REQUEST,
        session=f"native:runs/{NAME}",
        root="/srv/runs",
        name=NAME,
        command=("python3", "review.py", "12"),
        cwd="/home/ann/app",
        environment=(("TRACEPARENT", TRACE),),
        playbook="review",
        agent="reviewer",
        contract={
            "expected": [
                {
                    "id": "notes",
                    "path": "notes.md",
                    "required": False,
                    "description": "",
                    "source": "agent_profile",
                },
                {
                    "id": "review",
                    "path": "review.md",
                    "required": True,
                    "description": "",
                    "source": "playbook",
                },
            ]
        },
        timeout=1800.0,
        grace=2.0,
        metadata=(("asked_by", "ann"),),
        invocation_id=of_request(REQUEST),
    )
    assert invocation == OpenInvocation(
        id=of_request(REQUEST),
        skill="review",
        at=2.0,
        session_key=f"native:runs/{NAME}",
        metadata={"asked_by": "ann", "with": {"pr": 12}, "by_run": None},
    )
    assert isinstance(explained, Explain)
    assert (explained.subject, explained.verdict) == (of_start(NAME), "decided")
    assert explained.summary == f"review is started as native:runs/{NAME}, as ann asked"


def test_without_declarations_there_is_no_contract() -> None:
    (start, _, _) = decided(asked({}), Play(playbook("command: [make]\n"), None, None, "runs", "/srv/runs"))
    assert isinstance(start, StartRun)
    assert (start.contract, start.agent, start.timeout, start.grace) == (None, None, None, None)


@pytest.mark.parametrize("trace", ["", "nonsense", TRACE.upper(), TRACE + "\0", "01" + TRACE[2:]])
def test_a_trace_that_is_none_is_not_passed_on(trace: str) -> None:
    (start, _, _) = decided(asked(traceparent=trace), playable())
    assert isinstance(start, StartRun)
    assert start.environment == ()


def test_a_playbook_that_is_missing_or_wrong_starts_nothing() -> None:
    why = refusal(asked(), Play(None, problem="there is no playbook 'review' in /etc/playbooks"))
    assert why.endswith("there is no playbook 'review' in /etc/playbooks")


def test_a_playbook_without_a_command_starts_nothing() -> None:
    assert "review.playbook.yaml:1:1: has no 'command'" in refusal(asked(), playable("timeout: 3s\n"))


def test_every_value_that_is_missing_or_too_much_is_said_with_its_place() -> None:
    why = refusal(asked({"rp": 1, "x": 2}), playable())
    assert "review.playbook.yaml:1:31: command[2]: with.pr is not given" in why
    assert "uses no value named 'rp'" in why
    assert "uses no value named 'x'" in why


@pytest.mark.parametrize("cwd", ["", "app", "/home/\0"])
def test_a_directory_that_is_no_absolute_path_starts_nothing(cwd: str) -> None:
    assert "not an absolute path" in refusal(asked(cwd=cwd), playable())


def test_the_same_request_is_always_the_same_run_and_another_one_another() -> None:
    assert run_name("review", AT, REQUEST) == NAME
    assert run_name("review", AT, REQUEST[:-1] + "2") != NAME
    assert NAME.startswith("review-20260921T")


@pytest.mark.parametrize(
    ("playbook", "word"),
    [
        ("re view", "re-view"),
        ("..", "run"),
        (".hidden", "hidden"),
        ("ü", "run"),
        ("a\nb\x1b[2J", "a-b-2J"),
        ("x" * 300, "x" * 100),
    ],
)
def test_any_name_of_a_playbook_makes_a_directory_of_plain_letters(playbook: str, word: str) -> None:
    assert run_name(playbook, AT, REQUEST) == NAME.replace("review", word)


@pytest.mark.parametrize("at", [-1.0, 1e300])
def test_a_time_that_no_calendar_has_makes_a_name_all_the_same(at: float) -> None:
    assert run_name("review", at, REQUEST).startswith("review-")
