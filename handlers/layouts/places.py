"""Where sessions of a layout are under a root: a shape, by which a path alone shows which session it belongs to.

A *place* is a path relative to the root: that of a session's log, as if it weren't packed, or of its directory.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate
from functools import cache
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from runward.config.json_value import is_text
from runward.handlers.layouts import native
from runward.handlers.layouts.layout import Database, DirectoryLayout, Layouts, LogLayout

LEVELS: Final = 6
"""Levels of directories below a root that are searched for logs: a Codex home has five."""

LOG: Final = ".jsonl"
PACKED: Final = ".zst"

NAME: Final = "{name}"
"""Stands for the name of the session's directory, or of its log without the suffix, in the files of a layout."""


def named(files: Iterable[str], name: str) -> tuple[str, ...]:
    """These files of a layout, for a session of this name."""
    return tuple(each.replace(NAME, name) for each in files)


def unpacked_name(name: str) -> str:
    """The name that a log has when it isn't packed."""
    return name.removesuffix(PACKED)


class LogShape(NamedTuple):
    """Sessions that are logs, anywhere under the root.

    `owned` are the names of the directories in a session's own directory that hold its further logs. Logs whose names
    begin with one of `no_sessions` do not belong to any session. `documents` are what the names of the documents beside a
    log end in, after the log's own name. `among` are globs for the ends of paths of logs that are sessions all the same.
    """

    owned: tuple[str, ...] = ()
    no_sessions: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    among: tuple[str, ...] = ()

    def place_of(self, path: str) -> str | None:
        """The place that a path belongs to: a log's own, that of a sub-agent's log or of a document beside a log, or none."""
        log = self._log_of(path)
        if self._is_among(log):
            return self._stored(log)
        *parents, name = path.split("/")
        for level, each in enumerate(parents):
            if each in self.owned:
                is_of_session = level > 0 and level + 1 == len(parents) and name.endswith(LOG)
                return self._stored("/".join(parents[:level]) + LOG) if is_of_session else None
        if name in self.owned and parents:
            return self._stored("/".join(parents) + LOG)
        return self._stored(log) if self.is_log(log) else None

    def is_log(self, path: str) -> bool:
        """Whether a file at this path is a session's log."""
        *parents, name = path.split("/")
        if not name.endswith((LOG, LOG + PACKED)) or name.startswith("."):
            return False
        is_free = not name.startswith(self.no_sessions) and not any(each in self.owned for each in parents)
        return is_free or self._is_among(path)

    def is_entered(self, path: str) -> bool:
        """Whether a directory at this path is searched for logs."""
        parts = path.split("/")
        if parts[-1].startswith("."):
            return False
        owned = next((level for level, each in enumerate(parts) if each in self.owned), None)
        return owned is None or any(_may_lead(parts[owned:], each.split("/")[:-1]) for each in self.among)

    def _log_of(self, path: str) -> str:
        """The log that a document is beside, as if it weren't packed; the path itself if it is not a document."""
        document = next((each for each in self.documents if path.endswith(each)), None)
        return unpacked_name(path) if document is None else path.removesuffix(document) + LOG

    def _is_among(self, path: str) -> bool:
        parts = path.split("/")
        return any(
            len(parts) >= len(wanted) and all(map(fnmatchcase, parts[-len(wanted) :], wanted))
            for wanted in (each.split("/") for each in self.among)
        )

    def _stored(self, place: str) -> str | None:
        """A place that can be listed and stored. None if it is hidden, too deep, or not text."""
        if place.startswith(".") or "/." in place or place.count("/") > LEVELS:
            return None
        return place if is_text(place) else None


def _may_lead(parts: list[str], wanted: list[str]) -> bool:
    """Whether a directory is on the way to what is wanted."""
    return len(parts) <= len(wanted) and all(map(fnmatchcase, parts, wanted))


class DirectoryShape(NamedTuple):
    """Sessions that are directories, this many levels below the root. `files` are those that show that there is one; their
    names, and those of the directories that they are in, may be globs.
    """

    files: tuple[str, ...] = ()
    levels: int = 1

    def place_of(self, path: str) -> str | None:
        """The place that a path belongs to: a session's directory, for the directory itself and for its `files`."""
        parts = path.split("/")
        places, rest = parts[: self.levels], parts[self.levels :]
        if len(places) < self.levels or any(not each or each.startswith(".") for each in places):
            return None
        place = "/".join(places)
        if not is_text(place):
            return None
        evidence = "/".join((places[-1], *rest))
        return place if not any(rest) or _telling(self.files).fullmatch(evidence) else None

    def beneath(self, name: str) -> tuple[str, ...]:
        """The files and directories in the session's directory of this name whose change is the session's. A glob
        stands for the directory that it is in."""
        return named(_beneath(self.files), name)


DATABASE: Final = ".db"
WAL: Final = "-wal"
"""What the name of the file ends in to which SQLite writes first."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", re.ASCII)


def is_session_id(name: str) -> bool:
    """Whether a session may have this id: it becomes part of a path."""
    return _ID.fullmatch(name) is not None


class DatabaseShape(NamedTuple):
    """Sessions that are rows of databases directly in the root.

    Their places are below the database's file, as if it were a directory.
    """

    database: Database

    def place_of(self, path: str) -> str | None:
        """The place that a path belongs to. What is written to a database doesn't show whose rows it is."""
        file, _, session = path.partition("/")
        is_place = fnmatchcase(file, self.database.files) and is_session_id(session) and is_text(file)
        return path if is_place else None

    def holds_all(self, path: str) -> bool:
        """Whether any session may have changed if this file did."""
        return fnmatchcase(path.removesuffix(WAL), self.database.files)


class MixedShape(NamedTuple):
    """Sessions of any of these layouts, logs or directories, anywhere under the root.

    A directory's files show whether it is a session's; `logs` is the shape of the logs elsewhere. A place with a log's
    name is a log, any other is a directory.
    """

    layouts: Layouts
    logs: LogShape

    def place_of(self, path: str) -> str | None:
        """The place that a path belongs to: the outermost directory of a session that it would be evidence for, else
        that of a log. A directory's own path is not evidence; its files are.
        """
        parts = path.split("/")
        if "" in parts or any(part.startswith(".") for part in parts) or not is_text(path):
            return None
        telling = _telling(self.directories().files)
        for level in range(1, min(len(parts), LEVELS + 1)):
            if parts[level - 1].endswith(LOG):
                break
            if telling.fullmatch("/".join(parts[level - 1 :])):
                return "/".join(parts[:level])
        return self.logs.place_of(path)

    def directories(self) -> DirectoryShape:
        """The shape of a directory that is not a session's, but may become one of any layout."""
        return _any_directory(self.layouts)

    def telling_names(self, name: str) -> tuple[str, ...]:
        """The names that show whether a directory of this name is a session's."""
        return named(_telling_names(self.layouts), name)


Shape: TypeAlias = LogShape | DirectoryShape | DatabaseShape | MixedShape


def mixed_shape(layouts: Layouts) -> MixedShape:
    """Where sessions of any of these layouts are."""
    shapes = [log_shape(each) for each in layouts.logs]
    owned = dict.fromkeys(name for shape in shapes for name in shape.owned)
    no_sessions = dict.fromkeys(name for shape in shapes for name in shape.no_sessions)
    documents = dict.fromkeys(name for shape in shapes for name in shape.documents)
    among = dict.fromkeys(name for shape in shapes for name in shape.among)
    return MixedShape(layouts, LogShape(tuple(owned), tuple(no_sessions), tuple(documents), tuple(among)))


@cache
def shape_of(layout: LogLayout | DirectoryLayout) -> Shape:
    """Where the sessions of a layout are."""
    if isinstance(layout, LogLayout):
        return log_shape(layout) if layout.database is None else DatabaseShape(layout.database)
    return directory_shape(layout)


def log_shape(layout: LogLayout) -> LogShape:
    """Like `shape_of`, for a layout of logs."""
    owned = tuple(each.split("/")[1] for each in layout.beside if each.startswith(f"{NAME}/"))
    documents = tuple(each.removeprefix(NAME) for each in layout.documents)
    return LogShape(tuple(dict.fromkeys(owned)), layout.no_sessions, documents, layout.among)


@cache
def directory_shape(layout: DirectoryLayout) -> DirectoryShape:
    """Like `shape_of`, for a layout of directories."""
    return DirectoryShape(
        tuple(dict.fromkeys((*layout.documents, *layout.logs, *layout.markers))), layout.levels
    )


def beside(layout: LogLayout, name: str) -> tuple[str, ...]:
    """The globs of further logs of the session whose log has this name, relative to the log's directory."""
    return named(layout.beside, _stem(name))


def documents_beside(layout: LogLayout, name: str) -> tuple[str, ...]:
    """The documents of the session whose log has this name. A name that is a glob would match those of other sessions."""
    stem = _stem(name)
    return () if is_glob(stem) else named(layout.documents, stem)


def _stem(name: str) -> str:
    return unpacked_name(name).removesuffix(LOG)


def is_glob(path: str) -> bool:
    """Whether the last part of a wanted path makes it stand for several files."""
    last = path.rpartition("/")[2]
    return "*" in last or "?" in last or "[" in last


def before_globs(path: str) -> str:
    """The directory in which a wanted path stands for several files or directories; the path itself if it stands for one file."""
    parts = path.split("/")
    return "/".join(takewhile(lambda part: not is_glob(part), parts))


@cache
def _any_directory(layouts: Layouts) -> DirectoryShape:
    files = dict.fromkeys(file for each in layouts.directories for file in directory_shape(each).files)
    return DirectoryShape(tuple(files))


@cache
def _telling_names(layouts: Layouts) -> tuple[str, ...]:
    files = (*_any_directory(layouts).files, *native.DOCUMENTS)
    return tuple(dict.fromkeys(file.split("/")[0] for file in files))


@cache
def _beneath(files: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(before_globs, files)))


@cache
def _telling(files: tuple[str, ...]) -> re.Pattern[str]:
    """What matches these files, and the directories that they are in, after the name of the session's directory."""
    patterns: list[str] = []
    for path in files:
        parts = [
            translate(part).removesuffix(r"\Z").replace(".*", "[^/]*") if is_glob(part) else re.escape(part)
            for part in path.split("/")
        ]
        patterns += ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    every = "|".join(f"(?:{each})" for each in patterns).replace(re.escape(NAME), r"\1")
    return re.compile(f"([^/]*)/(?:{every})")
