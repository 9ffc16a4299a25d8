"""Where foreign sessions are: under a root, with their signatures, and under the path that `runward inspect` gets."""

import fnmatch
import os
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.config.json_value import is_text
from runward.config.run_schema import SCHEMA
from runward.daemon.rundir.opening import (
    ABSENT,
    DIRECTORY,
    LINK,
    LISTED,
    ROOT,
    Gone,
    NotRegular,
    held,
    open_in_run,
    open_place,
    open_regular,
    opened,
    opened_below,
    unreadable,
)
from runward.daemon.rundir.run_directories import Listing
from runward.daemon.rundir.session_logs import CannotUnpack, Unpacked
from runward.handlers.layouts import native
from runward.handlers.layouts.layout import Database, DirectoryLayout, Earlier, Layouts, LogLayout, declared
from runward.handlers.layouts.places import (
    DATABASE,
    LEVELS,
    LOG,
    PACKED,
    DatabaseShape,
    DirectoryShape,
    LogShape,
    MixedShape,
    Shape,
    directory_shape,
    named,
    unpacked_name,
)
from runward.handlers.model.files import Signature, Unreadable, signature_of

if TYPE_CHECKING:
    from runward.daemon.rundir.database_sessions import Found

HEAD: Final = 256 << 10
"""Bytes of a file that are looked at; the first line of a transcript alone may have a tenth of that."""

_FIRST: Final = 32 << 10
"""Bytes that are usually enough: looking at them first is much cheaper than reading the whole head."""


def recognise_log(path: str, layouts: Layouts) -> LogLayout | None:
    """The layout of the log at `path`. Raises `OSError`, `NotRegular`, and `CannotUnpack` for a packed one."""
    directory, name = os.path.split(path)
    with held(open_in_run(directory, name)) as descriptor:
        return recognise_head(descriptor, name, layouts)[0]


def recognise_head(descriptor: int, name: str, layouts: Layouts) -> tuple[LogLayout | None, bytes]:
    """The layout of an open log with this name, and the first bytes that identified it.

    Raises `OSError`, and `CannotUnpack` for a packed one.
    """
    head = b""
    for most in (_FIRST, HEAD):
        head = head_of(descriptor, most, is_packed=name.endswith(PACKED))
        plain = head.removeprefix(BOM_UTF8)
        for layout in layouts.logs:
            if layout.recognises(unpacked_name(name), plain):
                return layout, plain
        if len(head) < most:
            break
    return None, head


def log_by_its_place(path: str, layouts: Layouts) -> LogLayout | None:
    """The layout whose logs usually are at such a path: the best guess for one that can't be read."""
    plain = unpacked_name(path)
    return next((each for each in layouts.logs if each.usual_place.search(plain)), None)


def recognise_directory(path: str, names: Iterable[str], layouts: Layouts) -> DirectoryLayout | str | None:
    """The layout of the directory at `path`, which has these names; `"native"` for our own."""
    try:
        with opened(path, DIRECTORY) as within:
            return recognise_inside(within, os.path.basename(path), frozenset(names), layouts)
    except OSError:
        return None  # it no longer exists


def recognise_inside(
    within: int, name: str, names: frozenset[str], layouts: Layouts
) -> DirectoryLayout | str | None:
    """Like `recognise_directory`, for an open directory of this name."""
    if says_native(within, names):
        return native.LAYOUT
    for layout in layouts.directories:
        if layout.recognises(names, _heads(within, name, names, layout.markers)):
            return layout
    return native.LAYOUT if native.RUN in names else None


def says_native(within: int, names: frozenset[str]) -> bool:
    """Whether an open directory's own `run.json` says that it is one of our runs."""
    return SCHEMA.encode() in _heads(within, "", names, (native.RUN,)).get(native.RUN, b"")


def _heads(within: int, name: str, names: frozenset[str], markers: tuple[str, ...]) -> dict[str, bytes]:
    """The first bytes of those markers that exist and can be read, in a directory of this name."""
    heads = {}
    for marker, path in zip(markers, named(markers, name), strict=True):
        *parents, last = path.split("/")
        if (parents[0] if parents else last) not in names:
            continue
        try:
            heads[marker] = _head_below(within, parents, last)
        except (OSError, NotRegular):
            continue  # what can't be read marks nothing
    return heads


def _head_below(within: int, parents: list[str], name: str) -> bytes:
    with opened_below(within, parents) as directory:
        descriptor = open_regular(directory, name)
    with held(descriptor):
        return head_of(descriptor, HEAD, is_packed=False).removeprefix(BOM_UTF8)


def head_of(descriptor: int, most: int, *, is_packed: bool) -> bytes:
    """The first bytes of an open file, unpacked. Raises `OSError`, and `CannotUnpack` if nothing can be unpacked."""
    if not is_packed:
        return os.pread(descriptor, most, 0)
    head, unpacked = b"", Unpacked(descriptor)
    try:
        while len(head) < most and (piece := unpacked.read(most - len(head))):
            head += piece
    except CannotUnpack:
        if not head:
            raise
    return head


def recognise_place(directory: int, name: str, shape: MixedShape) -> DirectoryLayout | str | None:
    """The layout of an open directory; `"native"` only for our own run that says so: any tool may have a `run.json`."""
    names = frozenset(each for each in shape.telling_names(name) if _stands(each, directory))
    layout = recognise_inside(directory, name, names, shape.layouts) if names else None
    return None if layout == native.LAYOUT and not says_native(directory, names) else layout


def shape_inside(directory: int, name: str, shape: MixedShape) -> DirectoryShape:
    """Which files tell what an open directory is; for one that is not a session's yet, those that may make it one."""
    layout = recognise_place(directory, name, shape)
    return directory_shape(layout) if isinstance(layout, DirectoryLayout) else shape.directories()


def is_inside_session(top: int, parents: list[str], shape: MixedShape) -> bool:
    """Whether one of the directories on the way to a place, from an open root, is a session's. Raises `OSError`."""
    for level in range(1, len(parents) + 1):
        with opened_below(top, parents[:level]) as directory:
            if recognise_place(directory, parents[level - 1], shape) is not None:
                return True
    return False


def _stands(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno in ABSENT or error.errno == LINK:
            return False
        raise
    return True


MOST_ENTRIES: Final = 1_000_000
"""Entries of directories that are looked at in all."""

_ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def found_in(database: Database, path: str) -> "Found":
    """The session of a database whose place is at `path`."""
    from runward.daemon.rundir.database_sessions import Found  # most agents have none

    file, _, session = path.rpartition("/")
    return Found(file, database, session)


def made_log(layout: str, path: str) -> "Found | None":
    """The log of the session whose place is at `path`; None if sessions of this layout are not rows."""
    database = declared(layout).database
    return None if database is None else found_in(database, path)


def all_places(place: str) -> bool:
    """Any place is asked for."""
    return True


def list_places(
    root: str, shape: Shape, asked: Callable[[str], bool] = all_places
) -> Listing | Unreadable | Gone:
    """All places under a root. No link below it is followed, and names that begin with a dot are ignored.

    The signature of a place is found out only if it is `asked` for: that takes most of the time. Where a listing itself says
    it, it is there all the same.
    """
    listing = _Listing(shape, asked)
    try:
        if isinstance(shape, DatabaseShape):
            return _in_databases(root, shape)
        with opened(root, _ROOT) as top:
            listing.look(top, "", LEVELS)
    except OSError as error:
        return Gone() if error.errno in ABSENT else unreadable(error)
    return Listing(
        listing.places,
        tuple(listing.unusable),
        tuple(listing.unlisted),
        tuple(listing.native),
        left_out=frozenset(listing.left_out),
    )


def _in_databases(root: str, shape: DatabaseShape) -> Listing:
    """The sessions in a root's databases. A database that can't be read hides its sessions, and is a problem."""
    from runward.daemon.rundir.database_sessions import databases_in, sessions_in  # most roots have none
    from runward.daemon.rundir.earlier_sessions import earlier_sessions

    places: dict[str, Signature] = {}
    unlisted, problems = [], []
    for name in databases_in(root, shape.database.files):
        path = f"{root}/{name}"
        try:
            found = sessions_in(path, shape.database)
        except CannotUnpack as error:
            unlisted.append(name)
            problems.append(f"{name} {error}")
        except OSError as error:
            if error.errno not in ABSENT:
                unlisted.append(name)
                problems.append(f"{name} can't be read: {error.strerror}")
        else:
            places |= {f"{name}/{session}": signature for session, signature in found.items()}
    if shape.database.earlier is not None and not unlisted:
        known = {place.rpartition("/")[2] for place in places}
        earlier = earlier_sessions(root, os.listdir(root), shape.database.earlier, known)
        problems += [] if earlier is None else [" ".join(earlier)]
    return Listing(places, (), tuple(unlisted), problems=tuple(problems))


def place_signature(root: str, place: str, shape: Shape) -> Signature | None:
    """The signature of a place, as `list_places` gives it; None if there is none or it can't be reached."""
    *parents, name = place.split("/")
    try:
        if isinstance(shape, MixedShape):
            return _signature_in_mixed(root, parents, name, shape)
        if isinstance(shape, DatabaseShape):
            return found_in(shape.database, f"{root}/{place}").signature()
        with held(open_place(root, parents)) as within:
            if isinstance(shape, DirectoryShape):
                return signature_in(within, name, shape)
            log_file = log_at(within, name)
            return signature_of(log_file[1]) if log_file is not None else None
    except (OSError, CannotUnpack):
        return None


def _signature_in_mixed(root: str, parents: list[str], name: str, shape: MixedShape) -> Signature | None:
    with opened(root, ROOT) as top:
        if is_inside_session(top, parents, shape):
            return None
        with opened_below(top, parents) as within:
            if name.endswith(LOG):
                log_file = log_at(within, name)
                return signature_of(log_file[1]) if log_file is not None else None
            with opened(name, DIRECTORY, within) as directory:
                return directory_signature(directory, name, shape_inside(directory, name, shape))[0]


def log_at(within: int, name: str) -> tuple[str, os.stat_result] | None:
    """The file that has the log `name` of an open directory, the plain one before the packed one, and its status.

    None if neither exists. Raises `OSError`.
    """
    # Both exist while a tool packs its log. The plain one is complete until it is removed.
    for each in (name, name + PACKED):
        try:
            return each, os.stat(each, dir_fd=within, follow_symlinks=False)
        except FileNotFoundError:
            continue
    return None


def signature_in(within: int, name: str, shape: DirectoryShape) -> Signature:
    """The signature of a session's directory: its own, with the sizes of the files that count, and their newest times.

    Raises `OSError`.
    """
    with opened(name, DIRECTORY, within) as directory:
        return directory_signature(directory, name, shape)[0]


def directory_signature(
    directory: int, name: str, shape: DirectoryShape
) -> tuple[Signature, dict[str, Signature]]:
    """Like `signature_in`, for an open directory of this name, and the signatures that it consists of."""
    # A directory's own time says nothing about what grows in it.
    own = os.fstat(directory)
    size, modified_ns, changed_ns = own.st_size, own.st_mtime_ns, own.st_ctime_ns
    signatures: dict[str, Signature] = {}
    for path in shape.beneath(name):
        try:
            each = os.stat(path, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue
        signatures[path] = signature_of(each)
        size += each.st_size
        modified_ns, changed_ns = max(modified_ns, each.st_mtime_ns), max(changed_ns, each.st_ctime_ns)
    return Signature(own.st_ino, size, modified_ns, own.st_dev, changed_ns), signatures


def _logs_of(shape: Shape) -> LogShape:
    """Which logs are looked for in directories of this shape."""
    if isinstance(shape, MixedShape):
        return shape.logs
    return shape if isinstance(shape, LogShape) else LogShape()


class _Listing:
    def __init__(self, shape: Shape, asked: Callable[[str], bool]) -> None:
        self._shape = shape
        self._asked = asked
        self._logs = _logs_of(shape)
        self._left = MOST_ENTRIES
        self.places: dict[str, Signature] = {}
        self.unusable: list[str] = []
        self.unlisted: list[str] = []
        self.native: list[str] = []
        self.left_out: set[str] = set()

    def look(self, within: int, prefix: str, levels: int) -> None:
        """What is in an open directory. Raises `OSError` if it can't be listed."""
        directories: list[str] = []
        logs: dict[str, os.stat_result | None] = {}
        telling: tuple[str, ...] = ()
        if isinstance(self._shape, MixedShape):
            telling = self._shape.telling_names(prefix.rstrip("/").rpartition("/")[2])
        may_tell = False
        with os.scandir(within) as entries:
            for entry in entries:
                self._left -= 1
                if self._left < 0:
                    self.unlisted.append(prefix.rstrip("/") or ".")
                    break
                name = entry.name
                may_tell = may_tell or name in telling
                if entry.is_dir(follow_symlinks=False):
                    directories.append(name)
                elif self._is_log(prefix, entry) and (name.endswith(LOG) or unpacked_name(name) not in logs):
                    log = unpacked_name(name)
                    try:
                        logs[log] = entry.stat(follow_symlinks=False) if self._asked(prefix + log) else None
                    except FileNotFoundError:
                        continue  # gone since the listing began
        if isinstance(self._shape, DirectoryShape):
            if prefix.count("/") + 1 == self._shape.levels:
                self._sessions(within, prefix, directories, self._shape)
                return
            for name in directories:
                if not name.startswith(".") and self._left >= 0:
                    self._descend(within, prefix + name, name, levels - 1)
            return
        if may_tell and prefix and self._is_session(within, prefix.rstrip("/")):
            return
        for name, status in logs.items():
            if status is None:
                self.left_out.add(prefix + name)
            else:
                self._add(prefix + name, signature_of(status))
        for name in directories:
            # What is called like a log holds files of that session, such as the logs of its sub-agents.
            if levels and self._logs.is_entered(prefix + name) and name + LOG not in logs and self._left >= 0:
                self._descend(within, prefix + name, name, levels - 1)

    def _is_log(self, prefix: str, entry: os.DirEntry[str]) -> bool:
        if isinstance(self._shape, DirectoryShape):
            return False
        return self._logs.is_log(prefix + entry.name) and entry.is_file(follow_symlinks=False)

    def _is_session(self, within: int, place: str) -> bool:
        """Whether an open directory with a file that indicates sessions belongs to a session; it is listed in any case.

        One that doesn't may become a session's without a change of its own.
        """
        shape = self._shape
        if not isinstance(shape, MixedShape) or place.endswith(LOG):
            return False
        name = place.rpartition("/")[2]
        layout = recognise_place(within, name, shape)
        told_by = directory_shape(layout) if isinstance(layout, DirectoryLayout) else shape.directories()
        self._add(place, directory_signature(within, name, told_by)[0])
        if layout == native.LAYOUT and is_text(place):
            self.native.append(place)
        return layout is not None

    def _descend(self, within: int, path: str, name: str, levels: int) -> None:
        try:
            with opened(name, LISTED, within) as directory:
                self.look(directory, path + "/", levels)
        except OSError as error:
            if error.errno not in ABSENT and error.errno != LINK:
                self.unlisted.append(path)

    def _sessions(self, within: int, prefix: str, directories: list[str], shape: DirectoryShape) -> None:
        for name in directories:
            if name.startswith("."):
                continue
            if not self._asked(prefix + name):
                self.left_out.add(prefix + name)
                continue
            try:
                self._add(prefix + name, signature_in(within, name, shape))
            except OSError as error:
                if error.errno not in ABSENT and error.errno != LINK:
                    self.unlisted.append(prefix + name)

    def _add(self, place: str, place_signature: Signature) -> None:
        if is_text(place):
            self.places[place] = place_signature
        else:
            self.unusable.append(place.encode("utf-8", "backslashreplace").decode())


_LOG_NAMES: Final = (LOG, LOG + PACKED)


class Place(NamedTuple):
    """Where a session's files are: its log, or its directory. A layout given as text is our own, `native`."""

    layout: LogLayout | DirectoryLayout | str
    path: str


class Obstacle(NamedTuple):
    """Why a path could not be searched; `message` is the end of a sentence that starts with the path."""

    path: str
    message: str


class CannotList(Exception):
    """The named path can't be listed or read; the message says why."""


def sessions_under(path: str, layouts: Layouts) -> Iterator[Place | Obstacle]:
    """The sessions at or under `path`, in the order of their paths.

    A file that is not a log means the directory that it is in, if that is a session's. Raises `FileNotFoundError`
    and `CannotList`.
    """
    place = os.path.realpath(path)
    if (database := database_of(place)) is not None:
        yield from (each for each in _rows(database, layouts) if each.path == place or each.path == database)
        return
    if not os.path.lexists(place):
        raise FileNotFoundError(path)
    if os.path.isdir(place):
        yield from _Walk(layouts).below(place)
        return
    rows = list(_rows(place, layouts)) if place.endswith(DATABASE) else []
    if rows:
        yield from rows
        return
    session = _log(place, layouts, is_named=True)
    if session is None:
        directory = os.path.dirname(place)
        layout = recognise_directory(directory, _list(directory).names, layouts)
        session = Place(layout, directory) if layout is not None else None
    if session is not None:
        yield session
        return
    if (message := not_read(place, layouts)) is not None:
        yield Obstacle(place, message)


def not_read(path: str, layouts: Layouts) -> str | None:
    """Why the file at `path` is not read, although it is a session's: the end of a sentence that begins with it."""
    from runward.daemon.rundir.earlier_sessions import earlier_session

    messages = (earlier_session(path, each) for each in _earlier_forms(layouts))
    return next(filter(None, messages), None)


def _earlier(
    directory: str, names: Iterable[str], rows: Iterable[Place | Obstacle], layouts: Layouts
) -> Iterator[Obstacle]:
    """Those that are still in files of their own, which are not among the rows of a database."""
    from runward.daemon.rundir.earlier_sessions import earlier_sessions

    known = {each.path.rpartition("/")[2] for each in rows}
    found = (earlier_sessions(directory, names, each, known) for each in _earlier_forms(layouts))
    yield from (Obstacle(f"{directory}/{name}", message) for name, message in filter(None, found))


def _earlier_forms(layouts: Layouts) -> list[Earlier]:
    every = (each.database.earlier for each in layouts.logs if each.database is not None)
    return [each for each in every if each is not None]


class _Listed(NamedTuple):
    names: list[str]
    directories: list[str]
    logs: list[str]
    databases: list[str]


class _Walk:
    """A walk through directories, with what it may still visit.

    Links are not followed, names that begin with a dot are skipped, and everything in a session's own directory belongs
    to that session.
    """

    def __init__(self, layouts: Layouts) -> None:
        self._layouts = layouts
        self._entries = MOST_ENTRIES
        self._is_over = False

    def below(self, directory: str) -> Iterator[Place | Obstacle]:
        """The sessions at or under a directory. Raises `CannotList` for this one only."""
        yield from self._look(directory, _list(directory), LEVELS)

    def _look(self, directory: str, listed: _Listed, levels: int) -> Iterator[Place | Obstacle]:
        layout = recognise_directory(directory, listed.names, self._layouts)
        if layout is not None:
            yield Place(layout, directory)
            return
        self._entries -= len(listed.names)
        if self._entries < 0:
            self._is_over = True
            yield Obstacle(directory, "is too large: name a directory further down")
            return
        owned = {unpacked_name(name).removesuffix(LOG) for name in listed.logs}
        rows = [each for name in listed.databases for each in _rows(f"{directory}/{name}", self._layouts)]
        earlier = list(_earlier(directory, listed.names, rows, self._layouts))
        owned |= {os.path.basename(each.path) for each in earlier}
        yield from (*rows, *earlier)
        for name in sorted((*listed.logs, *listed.directories)):
            if name in listed.logs:
                session = _log(f"{directory}/{name}", self._layouts, is_named=False)
                if session is not None:
                    yield session
            elif levels and name not in owned and not self._is_over:
                yield from self._descend(f"{directory}/{name}", levels - 1)

    def _descend(self, directory: str, levels: int) -> Iterator[Place | Obstacle]:
        try:
            listed = _list(directory)
        except CannotList as error:
            yield Obstacle(directory, str(error))
        else:
            yield from self._look(directory, listed, levels)


def names_in(directory: str) -> list[str]:
    """The names in a directory, as far as they are looked at. Raises `CannotList`."""
    return _list(directory).names


def _list(directory: str) -> _Listed:
    names: list[str] = []
    directories: list[str] = []
    logs: list[str] = []
    databases: list[str] = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                names.append(entry.name)
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                elif entry.name.endswith(_LOG_NAMES) and entry.is_file(follow_symlinks=False):
                    logs.append(entry.name)
                elif entry.name.endswith(DATABASE) and entry.is_file(follow_symlinks=False):
                    databases.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    break
    except OSError as error:
        raise CannotList(f"can't be listed: {error.strerror}") from error
    return _Listed(names, directories, logs, databases)


def database_of(place: str) -> str | None:
    """The database that a session's place is in; None if it can't be one."""
    database = os.path.dirname(place)
    return database if database.endswith(DATABASE) and os.path.isfile(database) else None


def database_layout(path: str, layouts: Layouts) -> LogLayout | None:
    """The layout of the database at `path`. Those with the same tables are told apart by its name.

    Raises `OSError` and `CannotUnpack` for one that has the name of a layout's, and can't be read.
    """
    from runward.daemon.rundir.database_sessions import sessions_in

    name = os.path.basename(path)
    candidates = [(each, each.database) for each in layouts.logs if each.database is not None]
    named = [(each, it) for each, it in candidates if fnmatch.fnmatchcase(name, it.files)]
    for layout, database in named:
        sessions_in(path, database)
        return layout
    for layout, database in candidates:
        try:
            sessions_in(path, database)
        except (OSError, CannotUnpack):
            continue
        return layout
    return None


def _rows(path: str, layouts: Layouts) -> Iterator[Place | Obstacle]:
    """The sessions in the database at `path`, if it is one of a layout."""
    from runward.daemon.rundir.database_sessions import sessions_in

    try:
        layout = database_layout(path, layouts)
        if layout is not None and layout.database is not None:
            for session in sorted(sessions_in(path, layout.database)):
                yield Place(layout, f"{path}/{session}")
    except (OSError, CannotUnpack) as error:
        yield Obstacle(path, why_unreadable(error))


def _log(path: str, layouts: Layouts, *, is_named: bool) -> Place | Obstacle | None:
    """The session whose log is at `path`. Both a named and a found file may be something else.

    Raises `CannotList` for one that is named and can't be read, if nothing else shows what it is.
    """
    try:
        layout = recognise_log(path, layouts)
    except (OSError, NotRegular, CannotUnpack) as error:
        if isinstance(error, OSError) and error.errno in ABSENT:
            return None  # gone since the listing
        layout = log_by_its_place(path, layouts)
        if layout is None and is_named and isinstance(error, OSError):
            raise CannotList(why_unreadable(error)) from error
        if layout is None and not (is_named and isinstance(error, NotRegular)):
            return Obstacle(path, why_unreadable(error))
    return Place(layout, path) if layout is not None else None


def why_unreadable(error: Exception) -> str:
    """The end of a sentence that begins with a path that couldn't be read."""
    return f"can't be read: {error.strerror}" if isinstance(error, OSError) else str(error)
