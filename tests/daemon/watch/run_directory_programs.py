"""Random programs of file-system operations on run directories, played on a real disk and on the model at once."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Final, TypeAlias

from hypothesis import strategies as st
from tests.daemon.in_process import StillClock, ToldProcesses
from tests.daemon.watch.run_directory_model import Contract, Doc, ExitSays, Place, RunSays, Story

from runward.config.json_value import JsonValue
from runward.daemon.watch.hints import Target

NAMES: Final = ("alpha", "beta")
PIDS: Final = (71, 72)
BOTH: Final[Contract] = (("review.md", True), ("sub/report.md", True), ("notes.md", False))
OPTIONAL: Final[Contract] = (("notes.md", False),)

Operation: TypeAlias = tuple[str, ...]
Step: TypeAlias = tuple[list[Operation], float]
"""What happens on the disk between two looks, and how many seconds that takes."""


def launcher(pid: int) -> JsonValue:
    return {"pid": pid, "start_ticks": 1, "boot_id": "b"}


def contract_json(contract: Contract) -> JsonValue:
    return {
        "expected": [
            {"id": f"a{index}", "path": path, "required": required}
            for index, (path, required) in enumerate(contract)
        ]
    }


GOOD: JsonValue = {"schema": "runward-run-v1"}
RUNS: Final[dict[str, tuple[JsonValue | bytes, RunSays | None]]] = {
    "plain": (GOOD, RunSays(None, None)),
    "launched": ({"schema": "runward-run-v1", "launcher": launcher(71)}, RunSays(None, 71)),
    "contract": ({"schema": "runward-run-v1", "contract": contract_json(BOTH)}, RunSays(BOTH, None)),
    "optional": (
        {"schema": "runward-run-v1", "contract": contract_json(OPTIONAL), "launcher": launcher(72)},
        RunSays(OPTIONAL, 72),
    ),
    "no contract": ({"schema": "runward-run-v1", "contract": {"expected": 7}}, RunSays(None, None)),
    "wrong schema": ({"schema": "runward-run-v9"}, None),
    "no object": ([], None),
    "twice": (b'{"schema": "runward-run-v1", "schema": "runward-run-v1"}', None),
    "huge": (b" " * (1 << 20) + b'{"schema": "runward-run-v1"}', None),
}  # fmt: skip
EXITS: Final[dict[str, tuple[JsonValue | bytes, ExitSays | None]]] = {
    "clean": ({"exit_code": 0}, ExitSays("completed", "run.completed.ok")),
    "also clean": ({"exit_code": 0, "cause": "exited"}, ExitSays("completed", "run.completed.ok")),
    "nonzero": ({"exit_code": 3}, ExitSays("failed", "run.failed.exit_nonzero")),
    "signal": ({"exit_code": None, "signal": 9}, ExitSays("failed", "run.failed.signal")),
    "late": ({"exit_code": None, "signal": 15, "cause": "timed_out"}, ExitSays("timed_out", "run.timed_out.deadline")),
    "cancelled": ({"cause": "cancelled"}, ExitSays("cancelled", "run.cancelled.user")),
    "says nothing": ({}, None),
    "not a number": (b'{"exit_code": NaN}', None),
    "deep": (b"[" * 5000, None),
}  # fmt: skip
PROCESSES: Final[dict[str, tuple[JsonValue | bytes, int | None]]] = {
    "71": (launcher(71), 71),
    "72": (launcher(72), 72),
    "wrong": ({"pid": "71"}, None),
}
CONTENTS: Final[dict[str, dict[str, tuple[JsonValue | bytes, RunSays | ExitSays | int | None]]]] = {
    "run.json": {**RUNS},
    "exit.json": {**EXITS},
    "process.json": {**PROCESSES},
}

_names = st.sampled_from(NAMES)
_contents = st.one_of(
    *(st.tuples(st.just(name), st.sampled_from(list(variants))) for name, variants in CONTENTS.items())
)
_documents = st.sampled_from(["run.json", "run.json", "exit.json", "exit.json", "process.json"])
_artifacts = st.sampled_from(["review.md", "sub/report.md", "notes.md"])
_states = st.sampled_from(
    ["file", "file", "empty", "directory", "fifo", "link inside", "link outside", "link upwards", "absent"]
)

_begun = st.sampled_from(["contract", "contract", "plain", "optional", "launched"])
_new_runs: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("begin"), _names, _begun),
    st.tuples(
        st.just("run"), _names, _begun, st.sampled_from(["clean", "clean", "nonzero"]), _states, _states
    ),
)
_ends: st.SearchStrategy[Operation] = st.builds(
    lambda name, end: ("write", name, "exit.json", end, "renamed"), _names, st.sampled_from(list(EXITS))
)
_documents_written: st.SearchStrategy[Operation] = st.builds(
    lambda name, what, how: ("write", name, *what, how),
    _names,
    _contents,
    st.sampled_from(["renamed", "renamed", "in part", "in place"]),
)
_small_changes: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(
        st.just("special"), _names, _documents, st.sampled_from(["fifo", "link", "directory", "dangling"])
    ),
    st.tuples(st.just("complete"), _names, _documents),
    st.tuples(st.just("touch"), _names, _documents),
    st.tuples(st.just("remove document"), _names, _documents),
    st.tuples(st.sampled_from(["junk", "line"]), _names),
)
_deliveries: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("artifact"), _names, _artifacts, _states),
    st.tuples(st.just("artifact"), _names, _artifacts, _states),
    st.tuples(st.just("artifacts"), _names, st.sampled_from(["remove", "link"])),
)
_whole_directories: st.SearchStrategy[Operation] = st.tuples(
    st.sampled_from(
        [
            "make",
            "remove",
            "make again",
            "move away",
            "move away",
            "move back",
            "move back",
            "copy back",
            "link",
            "file",
        ]
    ),
    _names,
)
_world: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(st.just("kill"), st.sampled_from([str(pid) for pid in PIDS])),
    st.sampled_from([("root away",), ("root back",), ("root back",), ("restart",), ("crash",)]),
)
operations: st.SearchStrategy[Operation] = st.one_of(
    _new_runs,
    _ends,
    _documents_written,
    _small_changes,
    _deliveries,
    _whole_directories,
    _whole_directories,
    _world,
)
steps: st.SearchStrategy[Step] = st.tuples(
    st.lists(operations, max_size=4), st.sampled_from([0.001, 1.0, 7.0, 7.0])
)
_beginnings: st.SearchStrategy[Step] = st.tuples(
    st.tuples(_new_runs, _documents_written | _new_runs).map(list), st.just(1.0)
)
# Most programs are long, for what matters happens late; an empty step shrinks a program as well as none would.
programs = st.builds(
    lambda first, some, many: [first, *(some + many)],
    _beginnings,
    st.lists(steps, max_size=4),
    st.lists(steps, min_size=8, max_size=8),
)


@dataclass
class Machine:
    """A disk, and the model of it. Every operation does the same to both, or nothing where it makes no sense."""

    base: Path
    clock: StillClock
    processes: ToldProcesses
    places: dict[str, Place] = field(default_factory=dict)
    moved: dict[str, Place] = field(default_factory=dict)
    occupied: set[str] = field(default_factory=set)
    """Names under which a link or a file stands in place of a directory."""
    stories: dict[str, Story] = field(default_factory=lambda: {name: Story() for name in NAMES})
    root_is_there: bool = True
    restart: bool = False
    crash: bool = False
    notified: list[Target] = field(default_factory=list)
    """Changes inside a file that its directory's own time doesn't tell: what a watch is for."""
    _counter: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        (self.base / "moved").mkdir()
        elsewhere = self.base / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "run.json").write_text(json.dumps(GOOD))
        (elsewhere / "review.md").write_text("not this run's work")

    @property
    def root(self) -> Path:
        return self.base / ("runs" if self.root_is_there else "runs-away")

    def do(self, operation: Operation) -> None:
        verb, *rest = operation
        if verb == "kill":
            self.processes.gone.add(int(rest[0]))
        elif verb in ("restart", "crash"):
            self.restart, self.crash = True, verb == "crash" and self.root_is_there
        elif verb in ("root away", "root back"):
            self._move_root(verb == "root back")
        elif verb in _ON_NAMES:
            _ON_NAMES[verb](self, rest[0])
            self._date(rest[0])
        elif verb in ("write", "begin", "run", "artifact", "special"):
            self.make(rest[0])
        if verb in _IN_PLACES and rest[0] in self.places:
            _IN_PLACES[verb](self, rest[0], *rest[1:])
            if verb not in ("complete", "touch"):
                self._date(rest[0])

    def look(self, started: bool, hinted: set[str]) -> None:
        """What the daemon must make of it now."""
        if not self.root_is_there:
            return
        for name, story in self.stories.items():
            story.look(
                self.places.get(name), self.clock.now(), self.processes.gone, started or name in hinted
            )

    def hinted(self) -> set[str]:
        """The names whose recorded processes aren't all alive, as far as the last look knows them."""
        return {
            name
            for name, story in self.stories.items()
            if story.running and set(story.pids()) & self.processes.gone
        }

    # --- the disk

    def _version(self) -> int:
        return next(self._counter)

    def _date(self, name: str) -> None:
        """Give a directory a time of its own, so that the test doesn't rest on how finely a kernel's clock ticks."""
        if name in self.places:
            moment = int(self.clock.now() * 1e9) + self._version()
            os.utime(self.root / name, ns=(moment, moment))

    def _stamp(self, path: Path) -> int:
        """Give a document a time of its own; its number is its version in the model."""
        version = self._version()
        moment = 1_700_000_000_000_000_000 + version * 1000
        os.utime(path, ns=(moment, moment), follow_symlinks=False)
        return version

    def _clear(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def _move_root(self, back: bool) -> None:
        if self.root_is_there != back:
            before = self.root
            self.root_is_there = back
            before.rename(self.root)

    def make(self, name: str) -> None:
        if name not in self.places and name not in self.occupied:
            (self.root / name).mkdir()
            self.places[name] = Place()

    def remove(self, name: str) -> None:
        if name in self.places or name in self.occupied:
            self._clear(self.root / name)
            self.places.pop(name, None)
            self.occupied.discard(name)

    def make_again(self, name: str) -> None:
        self.remove(name)
        self.make(name)

    def move_away(self, name: str) -> None:
        if name in self.places and name not in self.moved:
            (self.root / name).rename(self.base / "moved" / name)
            self.moved[name] = self.places.pop(name)

    def move_back(self, name: str) -> None:
        if name in self.moved and name not in self.places and name not in self.occupied:
            (self.base / "moved" / name).rename(self.root / name)
            self.places[name] = self.moved.pop(name)

    def copy_back(self, name: str) -> None:
        """As `cp -a` does: other inodes, the same bytes and times."""
        if name in self.moved and name not in self.places and name not in self.occupied:
            source = self.base / "moved" / name
            shutil.copytree(
                source, self.root / name, symlinks=True, copy_function=copy_anything, ignore=only_plain
            )
            self._clear(source)
            place = self.places[name] = self.moved.pop(name)
            place.docs = {
                each: doc for each, doc in place.docs.items() if (self.root / name / each).is_file()
            }
            if place.artifacts is not None:
                place.artifacts = {path: state for path, state in place.artifacts.items() if state != "fifo"}

    def link(self, name: str) -> None:
        if name not in self.places and name not in self.occupied:
            (self.root / name).symlink_to(self.base / "elsewhere", target_is_directory=True)
            self.occupied.add(name)

    def file(self, name: str) -> None:
        if name not in self.places and name not in self.occupied:
            (self.root / name).write_text("no directory")
            self.occupied.add(name)

    def junk(self, name: str) -> None:
        if name in self.places:
            deep = self.root / name / f"junk\n{self._version()}" / "run.json" / "exit.json"
            deep.mkdir(parents=True)
            (deep / "run.json").write_text(json.dumps(GOOD))
            (self.root / name / f".run.json.{self._version()}.tmp").write_text("{")

    def line(self, name: str) -> None:
        if name in self.places:
            with (self.root / name / "events.jsonl").open("a") as file:
                file.write('{"ts":"","role":"agent","event":"its own","path":""}\n')
            self.places[name].write_line("events.jsonl", "its own")

    def write(self, name: str, file: str, variant: str, how: str) -> None:
        value, says = CONTENTS[file][variant]
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        path = self.root / name / file
        if how == "renamed":
            temporary = path.with_name(f".{file}.tmp")
            temporary.write_bytes(content)
            version = self._stamp(temporary)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            temporary.rename(path)
        else:
            self._clear(path)
            whole = how == "in place"
            path.write_bytes(content if whole else content[: len(content) // 2])
            version, says = self._stamp(path), says if whole else None
        self.places[name].docs[file] = Doc(version, says, path.read_bytes())

    def begin(self, name: str, run: str) -> None:
        """A new run as a launcher writes it, also where an old one lay."""
        self.write(name, "run.json", run, "renamed")
        self.remove_document(name, "exit.json")

    def run(self, name: str, run: str, end: str, review: str, report: str) -> None:
        """A whole run, from its first file to its last."""
        self.write(name, "run.json", run, "renamed")
        self.artifact(name, "review.md", review)
        self.artifact(name, "sub/report.md", report)
        self.write(name, "exit.json", end, "renamed")

    def complete(self, name: str, file: str) -> None:
        """Rewrite in place what is not a document yet: the directory itself doesn't change, and a scan finds it all the same."""
        path = self.root / name / file
        doc = self.places[name].docs.get(file)
        if doc is not None and doc.says is None and path.is_file() and not path.is_symlink():
            value, says = CONTENTS[file][
                {"run.json": "contract", "exit.json": "clean", "process.json": "71"}[file]
            ]
            path.write_text(json.dumps(value))
            self.places[name].docs[file] = Doc(self._stamp(path), says, path.read_bytes())

    def touch(self, name: str, file: str) -> None:
        doc = self.places[name].docs.get(file)
        if doc is not None:
            self.places[name].docs[file] = replace(doc, version=self._stamp(self.root / name / file))
            self.notified.append(("runs", name))

    def remove_document(self, name: str, file: str) -> None:
        if self.places[name].docs.pop(file, None) is not None:
            self._clear(self.root / name / file)

    def special(self, name: str, file: str, kind: str) -> None:
        path = self.root / name / file
        self._clear(path)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "directory":
            path.mkdir()
        else:
            path.symlink_to(self.base / "elsewhere" / ("run.json" if kind == "link" else "nothing"))
        self.places[name].docs[file] = Doc(self._stamp(path), None)

    def artifact(self, name: str, path: str, state: str) -> None:
        place, top = self.places[name], self.root / name / "artifacts"
        if place.artifacts is None:
            self._clear(top)
            place.artifacts = {}
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        self._clear(file)
        place.artifacts.pop(path, None)
        match state:
            case "file" | "empty":
                file.write_text("work" if state == "file" else "")
            case "directory":
                file.mkdir()
            case "fifo":
                os.mkfifo(file)
            case "link inside":
                (top / "real").mkdir(exist_ok=True)
                (top / "real" / "work").write_text("work")
                file.symlink_to("../" * path.count("/") + "real/work")
            case "link outside":
                file.symlink_to(self.base / "elsewhere" / "review.md")
            case "link upwards":
                file.symlink_to(os.path.relpath(self.base / "elsewhere" / "review.md", file.parent))
            case _:
                return
        place.artifacts[path] = state

    def artifacts(self, name: str, what: str) -> None:
        top = self.root / name / "artifacts"
        self._clear(top)
        self.places[name].artifacts = None
        if what == "link":
            top.symlink_to(self.base / "elsewhere")


def copy_anything(source: str, target: str) -> None:
    shutil.copy2(source, target, follow_symlinks=False)


def only_plain(directory: str, names: list[str]) -> set[str]:
    """What a copy leaves out: FIFOs, and what is not a regular file under a document's name."""
    left_out = set()
    for name in names:
        path = Path(directory, name)
        special = not (path.is_symlink() or path.is_file() or path.is_dir())
        if special or (name in CONTENTS and (path.is_symlink() or not path.is_file())):
            left_out.add(name)
    return left_out


_ON_NAMES: Final[dict[str, Callable[[Machine, str], None]]] = {
    "make": Machine.make,
    "remove": Machine.remove,
    "make again": Machine.make_again,
    "move away": Machine.move_away,
    "move back": Machine.move_back,
    "copy back": Machine.copy_back,
    "link": Machine.link,
    "file": Machine.file,
    "junk": Machine.junk,
    "line": Machine.line,
}
_IN_PLACES: Final[dict[str, Callable[..., None]]] = {
    "write": Machine.write,
    "begin": Machine.begin,
    "run": Machine.run,
    "special": Machine.special,
    "complete": Machine.complete,
    "touch": Machine.touch,
    "remove document": Machine.remove_document,
    "artifact": Machine.artifact,
    "artifacts": Machine.artifacts,
}
