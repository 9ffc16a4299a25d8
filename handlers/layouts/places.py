"""Where sessions of a layout lie under a root: its shape, by which a path tells whose it is without being opened.

A *place* is a path relative to the root: of a session's log, as if it weren't packed, or of its directory.
"""

import re
from fnmatch import translate
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from runward.handlers.layouts import native
from runward.handlers.layouts.registry import DirectoryLayout, Layouts, LogLayout

LEVELS: Final = 6
"""Levels of directories below a root in which logs are looked for: a Codex home has five."""

LOG: Final = ".jsonl"
PACKED: Final = ".zst"

_NAME: Final = "{name}"


def unpacked_name(name: str) -> str:
    """The name that a log has when it isn't packed."""
    return name.removesuffix(PACKED)


class LogShape(NamedTuple):
    """Sessions that are logs, anywhere under the root.

    `owned` are the names of the directories in a session's own one that hold its further logs, and `no_sessions`
    the beginnings of the names of logs that are no session's.
    """

    owned: tuple[str, ...] = ()
    no_sessions: tuple[str, ...] = ()

    def place_of(self, path: str) -> str | None:
        """The place that a path belongs to: a log's own, that of a sub-agent's log, or none."""
        *parents, name = path.split("/")
        for level, each in enumerate(parents):
            if each in self.owned:
                is_of_session = level > 0 and level + 1 == len(parents) and name.endswith(LOG)
                return self._stored("/".join(parents[:level]) + LOG) if is_of_session else None
        if name in self.owned and parents:
            return self._stored("/".join(parents) + LOG)
        return self._stored(unpacked_name(path)) if self.is_log(name) else None

    def is_log(self, name: str) -> bool:
        """Whether a file of this name is a session's log."""
        return name.endswith((LOG, LOG + PACKED)) and not name.startswith((".", *self.no_sessions))

    def is_entered(self, name: str) -> bool:
        """Whether logs are looked for in a directory of this name."""
        return not name.startswith(".") and name not in self.owned

    def _stored(self, place: str) -> str | None:
        """A place that can be listed and stored; none where it is hidden, too deep, or no text."""
        if place.startswith(".") or "/." in place or place.count("/") > LEVELS:
            return None
        return place if is_storable(place) else None


class DirectoryShape(NamedTuple):
    """Sessions that are directories, directly in the root. `files` are those that tell of one; the last part of
    such a path may be a glob.
    """

    files: tuple[str, ...] = ()

    def place_of(self, path: str) -> str | None:
        """The place that a path belongs to: a session's directory, for that itself and for what tells of it."""
        place, _, rest = path.partition("/")
        if place.startswith(".") or not place or not is_storable(place):
            return None
        return place if not rest or _telling(self.files).fullmatch(rest) else None

    def beneath(self) -> tuple[str, ...]:
        """The files and directories in a session's one whose change is the session's: a glob stands for its parent."""
        return _beneath(self.files)


class MixedShape(NamedTuple):
    """Sessions of any of these layouts, logs or directories, anywhere under the root.

    A directory's files tell whether it is a session's; `logs` is the shape of the logs elsewhere. A place whose name
    is a log's is one, any other a directory.
    """

    layouts: Layouts
    logs: LogShape

    def place_of(self, path: str) -> str | None:
        """The place that a path belongs to: where it would tell of a directory's session the outermost one, else that
        of a log. A directory's own path tells nothing: what is in it does.
        """
        parts = path.split("/")
        if "" in parts or any(part.startswith(".") for part in parts) or not is_storable(path):
            return None
        telling = _telling(self.directories().files)
        for level in range(1, min(len(parts), LEVELS + 1)):
            if parts[level - 1].endswith(LOG):
                break
            if telling.fullmatch("/".join(parts[level:])):
                return "/".join(parts[:level])
        return self.logs.place_of(path)

    def directories(self) -> DirectoryShape:
        """The shape of a directory that is not a session's, but may become one of any layout."""
        return _any_directory(self.layouts)

    def telling_names(self) -> tuple[str, ...]:
        """The names by which a directory is known for a session's, or for none."""
        return _telling_names(self.layouts)


Shape: TypeAlias = LogShape | DirectoryShape | MixedShape


def mixed_shape(layouts: Layouts) -> MixedShape:
    """Where sessions of any of these layouts lie."""
    shapes = [log_shape(each) for each in layouts.logs]
    owned = dict.fromkeys(name for shape in shapes for name in shape.owned)
    no_sessions = dict.fromkeys(name for shape in shapes for name in shape.no_sessions)
    return MixedShape(layouts, LogShape(tuple(owned), tuple(no_sessions)))


@cache
def shape_of(layout: LogLayout | DirectoryLayout) -> Shape:
    """Where the sessions of a layout lie."""
    return log_shape(layout) if isinstance(layout, LogLayout) else directory_shape(layout)


def log_shape(layout: LogLayout) -> LogShape:
    """As `shape_of`, of a layout of logs."""
    owned = tuple(each.split("/")[-2] for each in layout.beside if each.startswith(f"{_NAME}/"))
    return LogShape(owned, layout.no_sessions)


@cache
def directory_shape(layout: DirectoryLayout) -> DirectoryShape:
    """As `shape_of`, of a layout of directories."""
    return DirectoryShape(tuple(dict.fromkeys((*layout.documents, *layout.logs, *layout.markers))))


def beside(layout: LogLayout, name: str) -> tuple[str, ...]:
    """The globs of further logs of the session whose log has this name, relative to the directory that it is in."""
    stem = unpacked_name(name).removesuffix(LOG)
    return tuple(each.replace(_NAME, stem) for each in layout.beside)


def is_glob(path: str) -> bool:
    """Whether a wanted path stands for several files, by its last part."""
    last = path.rpartition("/")[2]
    return "*" in last or "?" in last or "[" in last


def is_storable(path: str) -> bool:
    """Whether a path is text: a name of other bytes can't be stored."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    return tuple(dict.fromkeys(each.rpartition("/")[0] if is_glob(each) else each for each in files))


@cache
def _telling(files: tuple[str, ...]) -> re.Pattern[str]:
    """What matches these files, and the directories that they are in."""
    patterns = []
    for path in files:
        parts = path.split("/")
        patterns += [re.escape("/".join(parts[:count])) for count in range(1, len(parts))]
        parent = "".join(re.escape(each) + "/" for each in parts[:-1])
        patterns.append(
            parent + translate(parts[-1]).replace(".*", "[^/]*") if is_glob(path) else re.escape(path)
        )
    return re.compile("|".join(f"(?:{each})" for each in patterns))
