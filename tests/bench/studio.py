"""The Studio: what pages cost beside their data and beside a command, and what it costs those who only judge runs."""

import contextlib
import http.client
import math
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
from tests.bench.figure import Figure, Goal, names, of_ratio, of_samples, percentile
from tests.bench.fixtures import finish, make, run_name
from tests.bench.idle import bare_imports
from tests.bench.product import daemon
from tests.bench.scratch import Scratch, scratch
from tests.bench.usage import usage
from tests.bench.yardstick import fixture

from runward.daemon.disk.credentials import new_cookie, own_name, studio_key
from runward.daemon.studio.guard import COOKIE

SETTINGS: Final = "[studio]\n"

_PAGE = Goal("at most", 2.0)
_FIRST = Goal("at most", 3.0)
_BESIDE = Goal("at most", 1.2)
_QUIET_CPU = Goal("at most", 0.5)
_QUIET_MEMORY = Goal("at most", 1.6)
_NOBODY_MEMORY = Goal("at most", 1.02)
_NOBODY_READY = Goal("at most", 1.05)
_CHANGED = Goal("at most", 250.0)
_CHANGED_LATE = Goal("at most", 500.0)
_PAGES_OPEN: Final = 16
_PAGES_A_BROWSER: Final = 4
_STREAMS: Final = 200
_READERS: Final = 20
_RATE: Final = 50.0
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
        assert answer.status == 200, f"{path}: {answer.status} {body[:500]!r}"
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


def studio(disk: Path, memory: Path, seconds: float, repeats: int) -> list[Figure]:
    """All figures but those of a large store, which `million` measures."""
    return [
        *_pages(memory, repeats),
        *_nobody(memory, repeats),
        *_quiet(memory, seconds, repeats),
        _beside_verdicts(disk, seconds, repeats),
        *_in_browser(disk, seconds, repeats),
    ]


def _in_browser(disk: Path, seconds: float, repeats: int) -> list[Figure]:
    """From the rename of `exit.json` to the changed page of the session in a real browser, beyond the verdict."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("changed pages: left out, there is no chromium", file=sys.stderr)
        return []
    count = int(_RATE * seconds)
    shown: list[float] = []
    verdicts: list[float] = []
    problems: list[str] = []
    for _ in range(repeats):
        with scratch(disk) as place:
            make(str(place.runs), range(count))
            with daemon(place, SETTINGS) as running:
                running.wait_running(count)
                begin = time.time()
                renamed_at, changed_at = _looked_at(place, chromium, count)
                running.wait_judged(count)
                running.settle()
                committed_at = running.record.log(since=begin).committed_at
            problems += running.record.problems(names(count))
        verdicts += [(committed_at.get(run, math.inf) - at / 1e9) * 1e3 for run, at in renamed_at.items()]
        shown += [at - renamed_at[run] / 1e6 for run, at in changed_at.items()]
    figures = []
    for share, goal in ((0.5, _CHANGED), (0.99, _CHANGED_LATE)):
        after, judged = percentile(shown, share), percentile(verdicts, share)
        beside = f"{after:.0f} ms, the verdict {judged:.0f} ms, {len(shown)} pages"
        name = f"changed page in Chromium at {_RATE:g}/s, p{share * 100:g}"
        value = after - judged
        figures.append(Figure(name, value, "ms more", (value, value), goal, beside, problems))
    return figures


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


PAGES: Final = {"Attention": "/", "Sessions": "/sessions", "a session": key_of(run_name(500))}


def _pages(memory: Path, repeats: int) -> list[Figure]:
    """Each page against its data, and the first one against `session list`."""
    times = 5 * repeats
    figures = []
    with scratch(memory) as place:
        make(str(place.runs), range(1_000))
        finish(str(place.runs), range(1_000))
        firsts, lists = [], []
        for _ in range(repeats):
            with daemon(place, SETTINGS) as running:
                running.wait_judged(1_000)
                running.settle()
                firsts.append(Visitor(place.directory / "state").seconds("/sessions"))
                lists.append(_session_list(place))
        with daemon(place, SETTINGS) as running:
            running.settle()
            visitor = Visitor(place.directory / "state")
            for name, path in PAGES.items():
                visitor.get(path)
                # A request in the address makes each page one of its own: it is rendered, not taken from a cache.
                page, data = [], []
                for _ in range(times):
                    page.append(visitor.seconds(f"{path}?request={uuid.uuid4()}"))
                    data.append(visitor.seconds(f"{path}?format=json"))
                beside = f"{statistics.median(page) * 1e3:.1f} ms"
                figures.append(
                    of_ratio(f"Studio, page {name}", page, data, _PAGE, beside, unit="x its `?format=json`")
                )
    beside = f"{statistics.median(firsts):.2f} s"
    return [
        of_ratio("Studio, first page after a start", firsts, lists, _FIRST, beside, unit="x `session list`"),
        *figures,
    ]


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


def _nobody(memory: Path, repeats: int) -> list[Figure]:
    """The daemon with the Studio and nobody connected, against one without."""
    ready: dict[str, list[float]] = {"": [], SETTINGS: []}
    taken: dict[str, list[float]] = {"": [], SETTINGS: []}
    with scratch(memory) as place:
        make(str(place.runs), range(1_000))
        for _ in range(2 * repeats):
            for settings in ("", SETTINGS):
                with daemon(place, settings) as running:
                    ready[settings].append(running.ready_at - running.started_at)
                    running.wait_running(1_000)
                    taken[settings].append(running.usage().rss_mb)
    megabytes = f"{statistics.median(taken[SETTINGS]):.1f} MB"
    return [
        of_ratio("Studio, daemon's memory while nobody is connected", taken[SETTINGS], taken[""], _NOBODY_MEMORY, megabytes, unit="x without"),
        of_ratio("Studio, READY while nobody is connected", ready[SETTINGS], ready[""], _NOBODY_READY, unit="x without"),
    ]  # fmt: skip  # a figure on one line


def _quiet(memory: Path, seconds: float, repeats: int) -> list[Figure]:
    """The program while many pages are open and nothing happens."""
    shares, ours, bare = [], [], []
    with scratch(memory) as place, daemon(place, SETTINGS) as running:
        running.settle()
        visitor = Visitor(place.directory / "state")
        with _streams(visitor, _STREAMS):
            (pid,) = _programs(place)
            time.sleep(2)
            for _ in range(repeats):
                before, begin = usage(pid).cpu_s, time.monotonic()
                time.sleep(seconds)
                after = usage(pid)
                shares.append((after.cpu_s - before) / (time.monotonic() - begin) * 100)
                ours.append(after.rss_mb)
                bare.append(bare_imports(_IMPORTS).rss_mb)
    name = f"Studio, {_STREAMS} open pages and nothing happens"
    beside = f"{statistics.median(ours):.1f} MB"
    return [
        of_samples(f"{name}, processor", shares, "% of a core", _QUIET_CPU, f"over {seconds:g} s each"),
        of_ratio(f"{name}, memory", ours, bare, _QUIET_MEMORY, beside, unit="x bare imports"),
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


def _beside_verdicts(disk: Path, seconds: float, repeats: int) -> Figure:
    """p50 of a verdict at a steady rate, while pages re-read and streams are open, against the same without."""
    count = int(_RATE * seconds)
    watched: list[float] = []
    alone: list[float] = []
    problems: list[str] = []
    for _ in range(repeats):
        alone.append(percentile(_latencies(disk, count, problems, is_watched=False), 0.5))
        watched.append(percentile(_latencies(disk, count, problems, is_watched=True), 0.5))
    name = f"verdicts at {_RATE:g}/s while {_READERS} pages re-read and {_STREAMS} streams are open, p50"
    beside = f"{statistics.median(watched):.1f} ms, {statistics.median(alone):.1f} ms without"
    return of_ratio(name, watched, alone, _BESIDE, beside, problems, unit="x without")


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
    return [(committed_at.get(run, float("inf")) - at / 1e9) * 1e3 for run, at in renamed_at.items()]


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
