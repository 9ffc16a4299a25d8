"""A run's whole life through scanners and handlers, while the interpreter refuses all that touches the world.

Run as a program, for an audit hook can't be taken out again. It prints what becomes of a life in which handlers do
nothing else, and of one for each deed that a handler is made to do: the session's reasons, or what was refused.
"""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pydantic_core  # noqa: F401 - the first look loads it, before any handler (`daemon/watch/looks.py`)

from runward.config.bundle import BundleRules
from runward.config.contract import ExpectedArtifact
from runward.config.json_value import JsonValue
from runward.handlers import route
from runward.handlers.layouts import native, registry  # noqa: F401 - likewise
from runward.handlers.model.asking import Given, Question
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.chains import IsHeard
from runward.handlers.model.contracts import (
    ArtifactsUnder,
    Declarations,
    DeclaredContract,
    EarlyLegs,
    LegsBefore,
)
from runward.handlers.model.effects import Effects
from runward.handlers.model.files import FileFact, RootFacts, Signature
from runward.handlers.model.flows import FlowPlanned
from runward.handlers.model.notices import RecipientsOf
from runward.handlers.model.outcomes import OutcomesIn
from runward.handlers.model.sessions import (
    AttemptEnded,
    AttemptStarted,
    Document,
    EndAttempt,
    LastChangeOf,
    LaunchOf,
    LinkedSessions,
    LinkedSessionsOf,
    OpenAttempt,
    OpenSession,
    Session,
    SessionOf,
)
from runward.handlers.model.stored import as_json
from runward.handlers.registry import load_payload
from runward.handlers.sessions.fold import fold
from runward.handlers.sessions.observe import (
    NEVER_SEEN,
    Observed,
    RootRule,
    Watched,
    dump_watched,
    load_watched,
    see,
)

REFUSED = (
    "open",
    "os.",
    "socket.",
    "subprocess.",
    "sqlite3.",
    "import",
    "shutil.",
    "tempfile.",
    "ctypes.",
    "fcntl.",
    "time.",
)
HARMLESS = ("os.putenv",)


class TouchedTheWorld(Exception):
    """Something pure did something."""


DEEDS: dict[str, Callable[[], object]] = {
    "open": lambda: open("/dev/null"),  # noqa: SIM115 - it never opens
    "socket": lambda: socket.socket(),
    "subprocess": lambda: subprocess.run(["true"], check=False),
    "listdir": lambda: os.listdir("/"),
    "import": lambda: __import__("wave"),
    "sqlite3": lambda: sqlite3.connect(":memory:"),
    "": lambda: None,
}


def document(name: str, content: bytes, version: int) -> Document:
    return Document(name, Signature(version, len(content), version * 10**9), float(version), content)


LOOKS: list[list[tuple[str, bytes]]] = [
    [
        (
            "run.json",
            b'{"schema": "runward-run-v1", "contract": {"expected": [{"id": "a", "path": "a.md", "requird": 1}]}}',
        )
    ],
    [("flow.json", b'{"legs": [{"id": "one", "agent": "reviewer"}]}')],
    [("exit.json", b'{"exit_code": 0}'), ("process.json", b"{")],
    [("run.json", b'{"schema": "runward-run-v1", "kind": "?"}'), ("exit.json", b'{"signal": 9}')],
]


def live(deed: Callable[[], object]) -> list[str]:
    """The reasons that the session had, one after another."""
    watched, session, reasons = NEVER_SEEN, None, []
    for number, changed in enumerate(LOOKS, 1):
        watched, events = look(watched, number, changed)
        for event in events:
            stored = load_payload(event.type, event.version, as_json(event))
            assert isinstance(stored, AttemptStarted | FlowPlanned | AttemptEnded)
            effects = decide(stored, session)
            session = fold(session, effects)
            reasons += [
                each.reason.code
                for each in effects
                if isinstance(each, OpenSession | OpenAttempt | EndAttempt)
            ]
            deed()
    return reasons


def look(watched: Watched, number: int, changed: list[tuple[str, bytes]]) -> Observed:
    documents = [document(name, content, number) for name, content in changed]
    standing = dict(watched.signatures) | {each.name: each.signature for each in documents}
    items = list(native.scan("runs", "/runs/a", documents))
    after, events = see(watched, "native:runs/a", RootRule(False, 0.0), tuple(standing.items()), items)
    return load_watched(dump_watched(after)), events


def decide(event: AttemptStarted | FlowPlanned | AttemptEnded, session: Session | None) -> Effects:
    (handler,) = (duty.handler for duty in route.duties(event))
    decision = route.decide(handler, event, Given("h" * 64, 5.0))
    assert not isinstance(decision, tuple)
    question = next(decision)
    while True:
        try:
            question = decision.send(answer(question, session))
        except StopIteration as decided:
            effects: Effects = decided.value
            return effects


def answer(question: Question[Any], session: Session | None) -> object:
    match question:
        case SessionOf():
            return session
        case ArtifactsUnder(paths=paths):
            return RootFacts(True, (FileFact("empty"),) * len(paths))
        case LaunchOf() | LastChangeOf():
            return None
        case BundleRulesOf():
            return BundleRules()
        case OutcomesIn() | IsHeard() | RecipientsOf():
            return ()
        case LinkedSessionsOf():
            return LinkedSessions()
        case LegsBefore():
            return EarlyLegs(())
        case DeclaredContract():
            return Declarations(None, (ExpectedArtifact("b", "b.md"),))
    raise AssertionError(f"a question that no run of this kind asks: {question}")


def guard(event: str, arguments: tuple[JsonValue, ...]) -> None:
    if guarding and event.startswith(REFUSED) and event not in HARMLESS:
        raise TouchedTheWorld(event)


guarding = False


def lived(deed: Callable[[], object]) -> list[str]:
    """The reasons that the session had under guard, or the exception that ended it."""
    global guarding
    guarding = True
    try:
        return live(deed)
    except TouchedTheWorld as touched:
        return [f"TouchedTheWorld: {touched}"]
    finally:
        guarding = False


if __name__ == "__main__":
    live(DEEDS[""])  # what is imported late is imported now
    sys.addaudithook(guard)
    print(json.dumps({name: lived(deed) for name, deed in DEEDS.items()}))
