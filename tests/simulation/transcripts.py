"""What agents of other tools write, line by line, and what each line says of the turn, told by who wrote it."""

import re
from collections.abc import Callable
from typing import Final, Literal, Protocol, Self

from tests.handlers.layouts.claude_code_lines import Transcript
from tests.handlers.layouts.codex_lines import BEGAN, Log, Record, write

from runward.handlers.times import iso_time

Closed = tuple[str, str]
"""A turn's end: its status and its reason."""

Meaning = Closed | Literal["opens"] | None
"""What a line says of the turn: that it is open, how it ended, or nothing."""

Line = tuple[bytes, Meaning]
End = Literal["well", "refused", "interrupted"]

GOOD: Final[Closed] = ("completed", "run.completed.ok")
REFUSED: Final[Closed] = ("failed", "run.failed.api_error")
INTERRUPTED: Final[Closed] = ("aborted", "run.aborted.user")


class Tool(Protocol):
    """How one tool writes a session. `packs` says that it may pack a log of which nobody is at work."""

    layout: str
    session: str
    packs: bool

    def place(self) -> str: ...

    def elsewhere(self) -> str: ...

    def begin(self) -> list[Line]: ...

    def prompt(self) -> list[Line]: ...

    def work(self) -> list[Line]: ...

    def close(self, end: End) -> list[Line]: ...

    def calls(self, line: bytes) -> set[str]:
        """The ids of the calls that a line tells."""
        ...


class ClaudeCode:
    """A transcript of Claude Code, headless or with a person before it."""

    layout = "claude-code"
    packs = False

    def __init__(self, number: int, headless: bool, now: Callable[[], float]) -> None:
        self.session = f"5d0f8a52-1c7e-4b7b-9a63-{number:012d}"
        self._number = number
        self._written = _Transcript(self.session, entrypoint="sdk-cli" if headless else "cli")
        self._written.clock = now

    def place(self) -> str:
        return f"-home-dev-{self._number % 2}/{self.session}.jsonl"

    def elsewhere(self) -> str:
        return f"-home-dev-moved/{self.session}.jsonl"

    def begin(self) -> list[Line]:
        return []

    def prompt(self) -> list[Line]:
        return self._lines(lambda: self._written.prompt("make a file"), "opens")

    def work(self) -> list[Line]:
        def call() -> None:
            self._written.result(self._written.call(command="touch file"))

        return self._lines(call, "opens")

    def close(self, end: End) -> list[Line]:
        if end == "refused":
            return self._lines(self._written.api_error, REFUSED)
        if end == "interrupted":
            return self._lines(lambda: self._written.interrupted(""), INTERRUPTED)
        return self._lines(lambda: self._written.text("Done."), GOOD) + self._lines(
            self._written.last_prompt, None
        )

    def ask(self) -> list[Line]:
        """A person is asked, until `answer`."""
        return self._lines(self._ask, "opens")

    def _ask(self) -> None:
        self._question = self._written.call("AskUserQuestion", question="Which one?")

    def answer(self) -> list[Line]:
        return self._lines(lambda: self._written.result(self._question, "The first."), "opens")

    def calls(self, line: bytes) -> set[str]:
        return set(re.findall(r'"type": ?"tool_use", ?"id": ?"([^"]+)"', line.decode()))

    def _lines(self, deed: Callable[[], object], meaning: Meaning) -> list[Line]:
        count = len(self._written.lines)
        deed()
        return [(line + b"\n", meaning) for line in self._written.lines[count:]]


class Codex:
    """A rollout of Codex CLI, headless or of its terminal program."""

    layout = "codex"
    packs = True

    def __init__(self, number: int, headless: bool, now: Callable[[], float]) -> None:
        # The first 48 bits are when the thread was made, as of 2023-11-14.
        self.session = f"018bcfe5-{0x6800 + number:04x}-7290-883d-{number:012d}"
        self._headless = headless
        self._number = number
        self._written = _Rollout(self.session, now=now)
        self._turns = 0

    def place(self) -> str:
        return f"sessions/2023/11/14/{self._name()}"

    def elsewhere(self) -> str:
        return f"archived_sessions/{self._name()}"

    def _name(self) -> str:
        return f"rollout-2023-11-14T22-13-20-{self.session}.jsonl"

    def begin(self) -> list[Line]:
        of = {"originator": "codex_exec", "source": "exec"}
        if not self._headless:
            of = {"originator": "codex-tui", "source": "vscode"}
        return self._lines(lambda: self._written.meta(timestamp=self._written.stamp(), **of), None)

    def prompt(self) -> list[Line]:
        self._turns += 1
        trigger = "exec" if self._headless else "user"

        def ask() -> None:
            self._written.start(self._turns, trigger).prompt("write it", self._turns)

        return self._lines(ask, "opens")

    def work(self) -> list[Line]:
        def call() -> None:
            count = len(self._written.records)
            self._written.call().reply_record(f"r{count}").output().tokens()

        return self._lines(call, "opens")

    def close(self, end: End) -> list[Line]:
        written, turn = self._written, self._turns
        if end == "refused":
            error = {"message": "no such model", "codex_error_info": "bad_request"}
            return self._lines(lambda: written.complete(turn, None, error=error), REFUSED)
        if end == "interrupted":
            return self._lines(lambda: written.abort(turn), INTERRUPTED)
        said = self._lines(lambda: written.say().reply_record(f"r{len(written.records)}").tokens(), "opens")
        return said + self._lines(lambda: written.complete(turn), GOOD)

    def calls(self, line: bytes) -> set[str]:
        is_call = b'"function_call"' in line
        return set(re.findall(r'"call_id": ?"([^"]+)"', line.decode())) if is_call else set()

    def _lines(self, deed: Callable[[], object], meaning: Meaning) -> list[Line]:
        count = len(self._written.records)
        deed()
        return [(write(record) + b"\n", meaning) for record in self._written.records[count:]]


class _Transcript(Transcript):
    """A transcript whose times are those of a clock."""

    clock: Callable[[], float]

    def tick(self) -> str:
        return f"{iso_time(self.clock())[:23]}Z"


class _Rollout(Log):
    """A rollout whose times are those of a clock."""

    def __init__(self, thread: str, now: Callable[[], float]) -> None:
        super().__init__(thread)
        self._clock = now

    def stamp(self) -> str:
        """The time now, as Codex writes it."""
        return iso_time(self._clock())

    def put(self, kind: str, payload: Record, after: float = 0.25) -> Self:
        self.second = self._clock() - BEGAN
        super().put(kind, payload, after=0.0)
        self.records[-1]["timestamp"] = self.stamp()
        return self
