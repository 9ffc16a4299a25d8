"""What a person keeps open, or calls many times a day: the first screen, `why`, `usage`, and `runward top`.

Screens are drawn on a terminal of 120 columns, as a person has one, and compared with `session list` into a pipe.
"""

import asyncio
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyte
from tests.bench.copied_rows import add_usage, copy_sessions
from tests.bench.figure import (
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    of_ratio,
    of_samples,
    percentile,
)
from tests.bench.fixtures import finish, make, run_name
from tests.bench.large_store import FEW, fill, pack, state_of
from tests.bench.launcher import clean_environment, runward
from tests.bench.product import daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.usage import usage

from runward.daemon.store.reading import STORE, reading
from runward.daemon.store.tables import approvals

_LISTED: Final = ("session", "list")
_X_LIST: Final = "x `session list`"
_ONE_AND_A_FIFTH: Final = Goal("at most", 1.2)
_MODULES: Final = "modules that draw screens are imported besides those of the list"
_SCREENS: Final = {
    Figure(f"screen-{name}", f"{what} on a terminal, processor time", _X_LIST, _ONE_AND_A_FIFTH, _MODULES): words
    for name, what, words in (
        ("home", "`runward`", ()),
        ("list", "`session list`", _LISTED),
        ("why", "`why`", ("why", run_name(0))),
    )
}  # fmt: skip
_USAGE: Final = Figure(
    "usage-growth",
    "`usage` of 7 days, with the replies of 1,000,000 older sessions",
    "x with those of 1,000",
    Goal("at most", 2.0),
)
_BESIDE: Final = "besides what the list needs, it imports keys, the whole screen and the daemon's report"
_PAINT: Final = Figure("top-first", "`top`, first paint", _X_LIST, _ONE_AND_A_FIFTH, _BESIDE)
_IDLE: Final = Figure(
    "top-idle",
    "`top` with 50 rows while nothing happens, processor",
    "% of a core",
    Goal("at most", 0.5),
    "ages below a minute are told anew each second, and the list with them",
)
_MEMORY: Final = Figure("top-memory", "`top`, memory", _X_LIST, _ONE_AND_A_FIFTH, _BESIDE)
_WAITS: Final = Figure(
    "top-waits", "from an approval that is asked to its row in `top`, p99", "s", Goal("at most", 1.0)
)
_SNIPPET: Final = Figure(
    "prompt-snippet", "what the snippet for bash adds to a prompt", "ms", Goal("at most", 2.0)
)
_NOTICE: Final = Figure(
    "notice-waits",
    "from an approval that is asked to the start of its notice's command, p99",
    "s",
    Goal("at most", 1.0),
)
_GROWTH: Final = {
    Figure(
        f"{name}-growth",
        f"{what} on a terminal, over 1,000,000 sessions",
        f"x over {FEW:,}",
        Goal("at most", 2.0),
    ): words
    for name, what, words in (("home", "`runward`", ()), ("why", "`why`", ("why", run_name(0))))
}
_ROWS, _COLUMNS = 60, 120
_PATIENCE_S: Final = 30.0
_GATE: Final = """\
name: gate
trigger: {event: asked.for}
steps:
  - {id: pass, action: nothing, requires_approval: true}
"""
_WITH_GATE: Final = '\n[actions.nothing]\ncommand = ["true"]\n'


class Screen:
    """A command on a terminal of its own, and what the terminal shows."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._shown = pyte.Screen(_COLUMNS, _ROWS)
        self._stream = pyte.ByteStream(self._shown)
        self.began_at = time.monotonic()
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
            variables = {**environment, "TERM": "xterm", "LANG": "C.UTF-8", "PAGER": "cat"}
            os.execvpe(runward()[0], [*runward(), *words], variables)

    def look(self, seconds: float = 0.05) -> bool:
        """Take what it writes within this time. False: it has ended."""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return True
        try:
            self._stream.feed(os.read(self._terminal, 65536))
        except OSError:
            return False
        return True

    def shows(self, *texts: str) -> bool:
        """Whether one line has all of these."""
        return any(all(text in line for text in texts) for line in self._shown.display)

    def wait_for(self, *texts: str) -> float:
        """Until one line has all of these; the moment (monotonic)."""
        give_up = time.monotonic() + _PATIENCE_S
        while not self.shows(*texts):
            if not self.look() or time.monotonic() > give_up:
                raise AssertionError(f"never shown: {texts}, but {self._shown.display}")
        return time.monotonic()

    def end(self, number: int = signal.SIGTERM) -> float:
        """Its processor time (ms) until it ended, which this signal asks for."""
        if number:
            os.kill(self.pid, number)
        while self.look():
            pass
        os.close(self._terminal)
        _, _, used = os.wait4(self.pid, 0)
        return (used.ru_utime + used.ru_stime) * 1e3


def _list_mb(environment: Mapping[str, str]) -> float:
    """The most memory that `session list` ever has (MB). A small program starts it, for its own memory would count."""
    program = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL);"
        " print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    words = [sys.executable, "-S", "-c", program, *runward(), *_LISTED]
    return int(subprocess.run(words, env=environment, capture_output=True, check=True).stdout) / 1024


def _piped_list(environment: Mapping[str, str]) -> tuple[float, float]:
    """`session list` into a pipe: processor time (ms) and seconds."""
    begin = time.monotonic()
    process = subprocess.Popen([*runward(), *_LISTED], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    process.stdout.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1e3, time.monotonic() - begin


@contextmanager
def _fifty(conditions: Conditions, settings: str = "") -> Iterator[tuple[Scratch, dict[str, str]]]:
    """A place where a daemon runs and has judged fifty runs, and an environment whose commands find it."""
    with scratch(conditions.memory) as place:
        make(str(place.runs), range(50))
        finish(str(place.runs), range(50))
        with daemon(place, settings) as running:
            running.wait_judged(50)
            running.settle()
            yield place, _over(place)


def _screens(conditions: Conditions) -> list[Measured]:
    count = conditions.size(5, 1) * conditions.repeats
    measured = []
    with _fifty(conditions) as (_, environment):
        for figure, words in _SCREENS.items():
            drawn, listed = [], []
            for _ in range(count + 1):
                drawn.append(Screen(words, environment).end(0))
                listed.append(_piped_list(environment)[0])
            measured.append(of_ratio(figure, drawn[1:], listed[1:], f"{sorted(drawn)[count // 2]:.0f} ms"))
    return measured


def _top(conditions: Conditions) -> list[Measured]:
    seconds = conditions.size(20, 2)
    paints, walls, memory, listed, shares = [], [], [], [], []
    with _fifty(conditions) as (_, environment):
        for _ in range(5 * conditions.repeats):
            screen = Screen(("top",), environment)
            paints.append(screen.wait_for("q") - screen.began_at)
            memory.append(usage(screen.pid).rss_mb)
            screen.end()
            walls.append(_piped_list(environment)[1])
            listed.append(_list_mb(environment))
        for _ in range(conditions.repeats):
            screen = Screen(("top",), environment)
            screen.wait_for("so: ")  # why the selected row is as it is comes after the first paint
            before, begin = usage(screen.pid).cpu_s, time.monotonic()
            while time.monotonic() < begin + seconds:
                screen.look(1.0)
            shares.append((usage(screen.pid).cpu_s - before) / (time.monotonic() - begin) * 100)
            screen.end()
    return [
        of_ratio(_PAINT, paints, walls, f"{sorted(paints)[len(paints) // 2] * 1e3:.0f} ms"),
        of_samples(_IDLE, shares, f"over {seconds} s each"),
        of_ratio(_MEMORY, memory, listed, f"{sorted(memory)[len(memory) // 2]:.1f} MB"),
    ]


def _waits(conditions: Conditions) -> list[Measured]:
    """From the moment that the store has for the question to the row that waits, over chain runs that are fired one by one."""
    count = conditions.size(30, 4) * conditions.repeats
    took = []
    with _fifty(conditions, _WITH_GATE) as (place, environment):
        (place.directory / "gate.yaml").write_text(_GATE)
        define = [*runward(), "chain", "define", str(place.directory / "gate.yaml")]
        subprocess.run(define, env=environment, check=True, capture_output=True)
        screen = Screen(("top",), environment)
        screen.wait_for("q")
        for _ in range(count):
            fired: list[str] = []
            firing = threading.Thread(target=lambda said=fired: said.append(_fire(environment)))
            firing.start()
            while firing.is_alive():
                screen.look(0.01)
            screen.wait_for("! waiting", fired[0])
            shown_at = time.time()
            with reading(str(state_of(place))) as connection:
                (asked,) = approvals.approvals_called(connection, fired[0])
            took.append(shown_at - asked.asked_at)
            deny = [*runward(), "chain", "deny", fired[0]]
            subprocess.run(deny, env=environment, check=True, capture_output=True)
        screen.end()
    value = percentile(took, 0.99)
    return [Measured(_WAITS, value, (min(took), max(took)), f"n = {count}", values={"measured": took})]


def _notices(conditions: Conditions) -> list[Measured]:
    """From the moment that the store has for the question to what the command of the notice takes for the time."""
    count = conditions.size(40, 4) * conditions.repeats
    took = []
    with scratch(conditions.memory) as told:
        noted = told.directory / "started"
        command = f'["sh", "-c", "date +%s.%N >> {noted}"]'
        notify = f'\n[[notify]]\non = ["approval.asked"]\ncommand = {command}\n'
        with _fifty(conditions, _WITH_GATE + notify) as (place, environment):
            (place.directory / "gate.yaml").write_text(_GATE)
            define = [*runward(), "chain", "define", str(place.directory / "gate.yaml")]
            subprocess.run(define, env=environment, check=True, capture_output=True)
            for number in range(count):
                run = _fire(environment)
                give_up = time.monotonic() + _PATIENCE_S
                while len(lines := noted.read_text().splitlines() if noted.exists() else []) <= number:
                    assert time.monotonic() < give_up, f"no notice of {run}"
                    time.sleep(0.01)
                with reading(str(state_of(place))) as connection:
                    (asked,) = approvals.approvals_called(connection, run)
                took.append(float(lines[number]) - asked.asked_at)
                deny = [*runward(), "chain", "deny", run]
                subprocess.run(deny, env=environment, check=True, capture_output=True)
    value = percentile(took, 0.99)
    return [Measured(_NOTICE, value, (min(took), max(took)), f"n = {count}", values={"measured": took})]


def _growth(conditions: Conditions) -> list[Measured]:
    """Screens over many sessions, in turn with the same over few."""
    measured = []
    with scratch(conditions.disk) as few, scratch(conditions.disk) as many:
        for place in (few, many):
            fill(place, range(FEW))
            asyncio.run(pack(place))
        copy_sessions(state_of(many) / STORE, conditions.size(1_000_000, 20_000))
        for figure, words in _GROWTH.items():
            ours, theirs = [], []
            for _ in range(5 * conditions.repeats + 1):
                theirs.append(Screen(words, _over(few)).end(0))
                ours.append(Screen(words, _over(many)).end(0))
            beside = f"{sorted(ours)[len(ours) // 2]:.0f} ms"
            measured.append(of_ratio(figure, ours[1:], theirs[1:], beside))
    return measured


def _over(place: Scratch) -> dict[str, str]:
    """An environment whose commands find this place."""
    found = {
        "RUNWARD_CONFIG": str(place.directory / "runward.toml"),
        "RUNWARD_STATE_DIR": str(state_of(place)),
    }
    return {**clean_environment(place.directory), **found}


def _fire(environment: Mapping[str, str]) -> str:
    fired = subprocess.run(
        [*runward(), "chain", "fire", "gate"], env=environment, check=True, capture_output=True, text=True
    )
    return fired.stdout.strip()


def _usage(conditions: Conditions) -> list[Measured]:
    """`usage` of the last days, in turn over few and many older replies, of which it shows none."""
    many = conditions.size(1_000_000, 20_000)
    few_s: list[float] = []
    many_s: list[float] = []
    with scratch(conditions.disk) as small, scratch(conditions.disk) as large:
        for place, older in ((small, FEW), (large, many)):
            fill(place, range(FEW))
            add_usage(state_of(place) / STORE, recent=FEW, older=older)
        for _ in range(5 * conditions.repeats):
            few_s.append(_used(small))
            many_s.append(_used(large))
    return [of_ratio(_USAGE, many_s, few_s, f"{sorted(many_s)[len(many_s) // 2] * 1e3:.0f} ms")]


def _used(place: Scratch) -> float:
    words = [*runward(), "--config", str(place.directory / "runward.toml"), "usage"]
    begin = time.perf_counter()
    shown = subprocess.run(
        words, env=clean_environment(place.directory), capture_output=True, text=True, check=True
    )
    assert "Total, 7 days" in shown.stdout
    return time.perf_counter() - begin


def _snippet(conditions: Conditions) -> list[Measured]:
    page = Path(__file__).parents[2] / "docs/terminal.md"
    (line,) = [each for each in page.read_text().splitlines() if each.startswith("PROMPT_COMMAND=")]
    prompts = conditions.size(5_000, 50)
    script = f"""{line}
begin=$EPOCHREALTIME
for ((i = 0; i < {prompts}; i++)); do eval "$PROMPT_COMMAND"; done
echo "$attention $begin $EPOCHREALTIME"
"""
    samples: list[float] = []
    with scratch(conditions.memory) as place:
        state = place.directory / ".local/state/runward"
        state.mkdir(parents=True)
        (state / "attention").write_text("!1\n")
        for _ in range(conditions.repeats):
            told = subprocess.run(
                ["bash", "--norc", "-c", script],
                env={"HOME": str(place.directory), "PATH": os.environ["PATH"], "LC_ALL": "C"},
                capture_output=True,
                check=True,
                text=True,
            ).stdout.split()
            assert told[0] == "!1", told
            samples.append((float(told[2]) - float(told[1])) * 1e3 / prompts)
    return [of_samples(_SNIPPET, samples)]


MEASUREMENTS: Final = (
    Measurement(
        "screens",
        "processor time of screens on a terminal, over fifty runs, in turn with `session list` into a pipe",
        tuple(_SCREENS),
        _screens,
    ),
    Measurement(
        "top", "`runward top` over fifty runs, beside `session list`", (_PAINT, _IDLE, _MEMORY), _top
    ),
    Measurement(
        "top-waits", "how soon `runward top` shows that a chain run waits for a person", (_WAITS,), _waits
    ),
    Measurement(
        "notice-waits",
        "how soon the command of a notice is started once a chain run waits for a person",
        (_NOTICE,),
        _notices,
    ),
    Measurement(
        "screens-growth",
        "processor time of screens on a terminal, over many stored sessions and few",
        tuple(_GROWTH),
        _growth,
    ),
    Measurement(
        "usage-growth", "`runward usage` of 7 days, over few and many older replies", (_USAGE,), _usage
    ),
    Measurement(
        "prompt-snippet",
        "the line of docs/terminal.md, run again and again by one bash",
        (_SNIPPET,),
        _snippet,
    ),
)
