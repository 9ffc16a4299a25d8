"""The Studio: what pages cost beside their data and beside a command, and what it costs those who only judge runs."""

import contextlib
import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Final
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright
from tests.bench.figure import (
    CannotMeasure,
    Conditions,
    Figure,
    Goal,
    Measured,
    Measurement,
    names,
    of_ratio,
    of_samples,
    percentile,
)
from tests.bench.fixtures import finish, lacks_nothing, make, run_name
from tests.bench.idle import bare_imports
from tests.bench.product import daemon
from tests.bench.record import waits_ms
from tests.bench.scratch import Scratch, scratch
from tests.bench.usage import usage
from tests.bench.yardstick import fixture

from runward.daemon.disk.credentials import new_cookie, own_name, studio_key
from runward.daemon.studio.guard import COOKIE

SETTINGS: Final = "[studio]\n"

_FIRST: Final = Figure(
    "studio-first",
    "Studio, first page after the program starts",
    "x `session list`",
    Goal("at most", 3.0),
    "Starlette, uvicorn, Jinja2 and structlog are imported",
)
_BESIDE: Final = Figure(
    "studio-verdicts",
    "verdicts at 50/s while 20 pages re-read and 200 streams are open, p50",
    "x without",
    Goal("at most", 1.2),
)
_QUIET_CPU: Final = Figure(
    "studio-quiet",
    "Studio, 200 open streams and nothing happens, processor",
    "% of a core",
    Goal("at most", 0.5),
    "the program looks for commits 20 times a second, and each stream has timers of its own",
)
_QUIET_MEMORY: Final = Figure(
    "studio-quiet-memory",
    "Studio, 200 open streams and nothing happens, memory",
    "x bare imports",
    Goal("at most", 1.6),
)
_NOBODY_MEMORY: Final = Figure(
    "studio-nobody-memory",
    "Studio, the daemon's memory while nobody is connected",
    "x without",
    Goal("at most", 1.02),
)
_NOBODY_READY: Final = Figure(
    "studio-nobody-ready", "Studio, READY while nobody is connected", "x without", Goal("at most", 1.05)
)
_BROWSERS: Final = "four browsers with sixteen pages, drawn without a graphics card, share the two cores with what serves them"
_CHANGED: Final = {
    0.5: Figure(
        "studio-changed-p50",
        "changed page in Chromium at 50/s, p50",
        "ms after the verdict's",
        Goal("at most", 250.0),
        _BROWSERS,
    ),
    0.99: Figure(
        "studio-changed-p99",
        "changed page in Chromium at 50/s, p99",
        "ms after the verdict's",
        Goal("at most", 500.0),
        _BROWSERS,
    ),
}
_PAGES_OPEN: Final = 16
_PAGES_A_BROWSER: Final = 4
_STREAMS: Final = 200
_READERS: Final = 20
_RATE: Final = 50
_IMPORTS: Final = (
    "starlette.applications, starlette.routing, uvicorn, jinja2, anyio, structlog, sqlite3, pydantic"
)


class Visitor:
    """A browser that is logged in at the Studio of a daemon."""

    def __init__(self, state: Path) -> None:
        self.port = int((state / "studio" / "port").read_text())
        key = studio_key(state)
        name = own_name(key)
        self.headers = {
            "Host": f"{name}:{self.port}",
            "Cookie": f"{COOKIE}={new_cookie(key, name, time.time())}",
        }

    def get(self, path: str) -> bytes:
        """A page, which must be there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=self.headers)
            answer = connection.getresponse()
            body = answer.read()
        assert answer.status == 200, f"{path}: {answer.status} {body[-900:]!r}"
        return body

    def seconds(self, path: str) -> float:
        """How long a page takes."""
        begin = time.perf_counter()
        self.get(path)
        return time.perf_counter() - begin

    def stream(self) -> socket.socket:
        """An open stream of changes, whose headers have arrived."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        lines = [f"{name}: {value}" for name, value in self.headers.items()]
        connection.sendall("\r\n".join(["GET /events HTTP/1.1", *lines, "", ""]).encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 200"), "the stream was refused"
        return connection


def _in_browser(conditions: Conditions) -> list[Measured]:
    """From the rename of `exit.json` to the changed page of the session in a real browser, beyond the verdict."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise CannotMeasure("there is no chromium")
    count = _RATE * conditions.size(15, 3)
    shown: list[float] = []
    verdicts: list[float] = []
    problems: list[str] = []
    for _ in range(conditions.repeats):
        with scratch(conditions.disk) as place:
            make(str(place.runs), range(count))
            with daemon(place, SETTINGS) as running:
                running.wait_running(count)
                begin = time.time()
                renamed_at, changed_at = _looked_at(place, chromium, count)
                running.wait_judged(count)
                running.settle()
                committed_at = running.record.log(since=begin).committed_at
            problems += running.record.problems(names(count))
        verdicts += waits_ms(renamed_at, committed_at)
        shown += [at - renamed_at[run] / 1e6 for run, at in changed_at.items() if lacks_nothing(run)]
    measured = []
    for share, figure in _CHANGED.items():
        after, judged = percentile(shown, share), percentile(verdicts, share)
        beside = f"{after:.0f} ms, the verdict {judged:.0f} ms, {len(shown)} pages"
        value = after - judged
        measured.append(Measured(figure, value, (value, value), beside, problems, {"measured": shown}))
    return measured


def _looked_at(place: Scratch, chromium: str, count: int) -> tuple[dict[str, int], dict[str, float]]:
    """When each run ended (ns), and when the pages of some of them had changed (ms), Unix time."""
    visitor = Visitor(place.directory / "state")
    cookie = SimpleCookie(visitor.headers["Cookie"])[COOKIE].value
    base = f"http://{visitor.headers['Host']}"
    pages: dict[str, Page] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for index in range(0, count, max(1, count // _PAGES_OPEN)):
            if len(pages) % _PAGES_A_BROWSER == 0:  # one has six connections to a host
                context = browser.new_context()
                context.add_cookies([{"name": COOKIE, "value": cookie, "url": base}])
            page = pages[run_name(index)] = context.new_page()
            page.goto(base + key_of(run_name(index)))
            page.locator("#live", has_text="live").wait_for()
            page.evaluate(_NOTE_CHANGE)
        renamed_at = fixture("finish", place.runs, count, rate=_RATE)
        changed_at = {}
        for run, page in pages.items():
            while not (at := page.evaluate("window.changedAt ?? 0")):
                page.wait_for_timeout(20)  # its own waiting needs eval, which the page's policy forbids
            changed_at[run] = float(at)
        browser.close()
    return renamed_at, changed_at


_NOTE_CHANGE: Final = """() => new MutationObserver(() => {
    if (!window.changedAt && !document.querySelector(".banner.running"))
        window.changedAt = performance.timeOrigin + performance.now();
}).observe(document.body, {childList: true, subtree: true, attributes: true, characterData: true})"""


def key_of(run: str) -> str:
    """The address of the page of a run of the fixtures."""
    return f"/sessions/{quote(f'native:runs/{run}')}"


PAGES: Final = {"attention": "/", "sessions": "/sessions", "session": key_of(run_name(500))}
_PAGES: Final = {
    name: Figure(f"studio-{name}", f"Studio, page {path}", "x its `?format=json`", Goal("at most", 2.0))
    for name, path in (("attention", "Attention"), ("sessions", "Sessions"), ("session", "of a session"))
}


def _pages(conditions: Conditions) -> list[Measured]:
    """Each page against its data, and the first one against `session list`."""
    times = 5 * conditions.repeats
    measured = []
    with scratch(conditions.memory) as place:
        make(str(place.runs), range(1_000))
        finish(str(place.runs), range(1_000))
        firsts, lists = [], []
        for _ in range(conditions.repeats):
            with daemon(place, SETTINGS) as running:
                running.wait_judged(1_000)
                firsts.append(Visitor(place.directory / "state").seconds("/sessions"))
                lists.append(_session_list(place))
        with daemon(place, SETTINGS) as running:
            running.settle()  # both a page and its data are read many times, from the same store
            visitor = Visitor(place.directory / "state")
            for name, path in PAGES.items():
                visitor.get(path)
                # A request in the address makes each page one of its own: it is rendered, not taken from a cache.
                page, data = [], []
                for _ in range(times):
                    page.append(visitor.seconds(f"{path}?request={uuid.uuid4()}"))
                    data.append(visitor.seconds(f"{path}?format=json"))
                beside = f"{statistics.median(page) * 1e3:.1f} ms"
                measured.append(of_ratio(_PAGES[name], page, data, beside))
    return [of_ratio(_FIRST, firsts, lists, f"{statistics.median(firsts):.2f} s"), *measured]


def _programs(place: Scratch) -> list[int]:
    """The processes of the Studio over this place."""
    state = str(place.directory / "state").encode()
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0") if entry.isdigit() else []
            if b"runward.daemon.studio.program" in words and state in words:
                found.append(int(entry))
    return found


def _session_list(place: Scratch) -> float:
    installed = str(Path(sys.executable).parent / "runward")
    begin = time.perf_counter()
    subprocess.run(
        [installed, "session", "list", "--config", str(place.directory / "runward.toml")],
        env=os.environ | {"RUNWARD_STATE_DIR": str(place.directory / "state")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - begin


def _nobody(conditions: Conditions) -> list[Measured]:
    """The daemon with the Studio and nobody connected, against one without."""
    ready: dict[str, list[float]] = {"": [], SETTINGS: []}
    taken: dict[str, list[float]] = {"": [], SETTINGS: []}
    with scratch(conditions.memory) as place:
        make(str(place.runs), range(1_000))
        for _ in range(2 * conditions.repeats):
            for settings in ("", SETTINGS):
                with daemon(place, settings) as running:
                    ready[settings].append(running.ready_at - running.started_at)
                    running.wait_running(1_000)
                    running.settle()  # what it holds while it works varies more than what is compared
                    taken[settings].append(running.usage().rss_mb)
    megabytes = f"{statistics.median(taken[SETTINGS]):.1f} MB"
    return [
        of_ratio(_NOBODY_MEMORY, taken[SETTINGS], taken[""], megabytes),
        of_ratio(_NOBODY_READY, ready[SETTINGS], ready[""]),
    ]


def _quiet(conditions: Conditions) -> list[Measured]:
    """The program while many pages are open and nothing happens."""
    shares, ours, bare = [], [], []
    seconds = conditions.size(20, 3)
    with scratch(conditions.memory) as place, daemon(place, SETTINGS):
        visitor = Visitor(place.directory / "state")
        with _streams(visitor, _STREAMS):
            (pid,) = _programs(place)
            time.sleep(2)
            for _ in range(conditions.repeats):
                before, begin = usage(pid).cpu_s, time.monotonic()
                time.sleep(seconds)
                after = usage(pid)
                shares.append((after.cpu_s - before) / (time.monotonic() - begin) * 100)
                ours.append(after.rss_mb)
                bare.append(bare_imports(_IMPORTS).rss_mb)
    return [
        of_samples(_QUIET_CPU, shares, f"over {seconds} s each"),
        of_ratio(_QUIET_MEMORY, ours, bare, f"{statistics.median(ours):.1f} MB"),
    ]


@contextmanager
def _streams(visitor: Visitor, count: int) -> Iterator[list[socket.socket]]:
    """Open streams whose contents are read, as browsers do."""
    opened = [visitor.stream() for _ in range(count)]
    is_over = threading.Event()

    def read() -> None:
        for each in opened:
            each.setblocking(False)
        while not is_over.wait(0.1):
            for each in opened:
                with contextlib.suppress(BlockingIOError):
                    each.recv(65_536)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield opened
    finally:
        is_over.set()
        reader.join()
        for each in opened:
            each.close()


def _beside_verdicts(conditions: Conditions) -> list[Measured]:
    """p50 of a verdict at a steady rate, while pages re-read and streams are open, against the same without."""
    count = _RATE * conditions.size(10, 3)
    watched: list[float] = []
    alone: list[float] = []
    problems: list[str] = []
    for _ in range(conditions.repeats):
        alone.append(percentile(_latencies(conditions.disk, count, problems, is_watched=False), 0.5))
        watched.append(percentile(_latencies(conditions.disk, count, problems, is_watched=True), 0.5))
    beside = f"{statistics.median(watched):.1f} ms, {statistics.median(alone):.1f} ms without"
    return [of_ratio(_BESIDE, watched, alone, beside, problems)]


def _latencies(disk: Path, count: int, problems: list[str], *, is_watched: bool) -> list[float]:
    """Milliseconds from the rename of each `exit.json` to the durable verdict."""
    with scratch(disk) as place:
        make(str(place.runs), range(count))
        with daemon(place, SETTINGS) as running:
            running.wait_running(count)
            begin = time.time()
            with _watching(place) if is_watched else contextlib.nullcontext():
                renamed_at = fixture("finish", place.runs, count, rate=_RATE)
                running.wait_judged(count)
            running.settle()
            committed_at = running.record.log(since=begin).committed_at
        problems += running.record.problems(names(count))
    return waits_ms(renamed_at, committed_at)


@contextmanager
def _watching(place: Scratch) -> Iterator[None]:
    """Many streams, and readers that read their page again each second, as pages do while runs end."""
    visitor = Visitor(place.directory / "state")
    with _streams(visitor, _STREAMS):
        is_over = threading.Event()

        def re_read() -> None:
            while not is_over.wait(1.0):
                visitor.get("/sessions")

        readers = [threading.Thread(target=re_read) for _ in range(_READERS)]
        for each in readers:
            each.start()
        try:
            yield
        finally:
            is_over.set()
            for each in readers:
                each.join()


MEASUREMENTS: Final = (
    Measurement(
        "studio-pages",
        "each page of the Studio over 1,000 sessions against its data, and the first one against `session list`",
        (_FIRST, *_PAGES.values()),
        _pages,
    ),
    Measurement(
        "studio-nobody",
        "a daemon with the Studio and nobody connected, against one without it",
        (_NOBODY_MEMORY, _NOBODY_READY),
        _nobody,
    ),
    Measurement(
        "studio-quiet",
        "the Studio's program while 200 pages are open and nothing happens",
        (_QUIET_CPU, _QUIET_MEMORY),
        _quiet,
    ),
    Measurement(
        "studio-verdicts",
        "verdicts while many look at the Studio, against verdicts while nobody does",
        (_BESIDE,),
        _beside_verdicts,
    ),
    Measurement(
        "studio-changed",
        "from the rename of `exit.json` to the changed page in a real browser, beyond the verdict",
        tuple(_CHANGED.values()),
        _in_browser,
    ),
)
