"""The settings on the disk: finding the file and its drop-ins, reading what people wrote, and where the roots are.

`runward.config` says what it means. Imports stay cheap if there is no settings file, for the launcher's start-up.
"""

from __future__ import annotations

import os
import stat

from runward.daemon.configuration.agent_homes import homes_there

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final, TypeAlias

    from runward.config.bundle import BundleRules
    from runward.config.problem import Parsed, Problem
    from runward.config.root import Root
    from runward.config.settings import Settings

    Identity: TypeAlias = tuple[int, int]


SYSTEM_FILE: Final = "/etc/runward/runward.toml"
MAXIMUM_FILE: Final = 1 << 20
"""Bytes of the largest settings file, playbook or agent profile that is read."""


def load_settings(config: str | None, environment: Mapping[str, str], cwd: str) -> Parsed[Settings]:
    """The settings in force: `--config`, `$RUNWARD_CONFIG`, then the usual places; then the environment."""
    from runward.config.problem import Parsed, Problem
    from runward.config.settings_layers import Source, read_settings

    home = home_of(environment)
    sources: list[Source] = []
    problems: list[Problem] = []
    try:
        files = settings_files(config, environment, cwd)
    except OSError as error:
        return Parsed(None, (_unreadable(str(error.filename), error),))
    is_named = bool(config or environment.get("RUNWARD_CONFIG"))
    for path in files:
        text = text_of(path, None if is_named else _not_to_be_obeyed)
        if isinstance(text, Problem):
            problems.append(text)
        else:
            sources.append(Source(path, text, os.path.dirname(path)))
    if problems:
        return Parsed(None, tuple(problems))
    agents = homes_there(environment, home, cwd)
    parsed = read_settings(sources, environment, home=home, working_directory=cwd, agents=agents)
    if parsed.value is None:
        return parsed
    overlaps = tuple(overlapping_roots(parsed.value))
    if overlaps:
        return Parsed(None, (*parsed.problems, *overlaps))
    read = tuple((source.file, checksum(source.text)) for source in sources)
    places = settings_places(config, environment, cwd)
    absent = places[: places.index(files[0])] if files else places
    return parsed._replace(value=parsed.value._replace(files=read, absent=absent))


def checksum(text: str) -> int:
    """Changes whenever the content of a settings file changes."""
    from binascii import crc32

    return crc32(text.encode())


def changed_files(files: Sequence[tuple[str, int]], absent: Sequence[str] = ()) -> list[str]:
    """Which of the settings files that were read, each with its checksum, have changed since.

    So have new drop-ins, and files at places that come first and were `absent`.
    """
    checksums = dict(files)
    try:
        present = [files[0][0], *drop_ins(files[0][0])] if files else []
    except OSError:
        present = []
    first = [path for path in absent if os.path.exists(path)]
    paths = dict.fromkeys([*first, *checksums, *present])
    return [path for path in paths if _checksum_of(path) != checksums.get(path)]


def _checksum_of(path: str) -> int | None:
    text = text_of(path)
    return checksum(text) if isinstance(text, str) else None


def state_dir_of_broken(config: str | None, environment: Mapping[str, str], cwd: str) -> str | None:
    """The state directory that broken settings name, from their own lines for it and the environment alone."""
    from runward.config.settings_layers import Source, read_settings

    sources: list[Source] = []
    try:
        files = settings_files(config, environment, cwd)
    except OSError:
        files = []
    # Commands must find the daemon that runs on under its old settings while somebody repairs the file.
    for path in files:
        text = text_of(path)
        if isinstance(text, str):
            sources.append(Source(path, _line_of_state_dir(text), os.path.dirname(path)))
    variables = {key: value for key, value in environment.items() if key in _OF_STATE_DIR}
    parsed = read_settings(sources, variables, home=home_of(environment), working_directory=cwd)
    return parsed.value.state_dir if parsed.value is not None else None


_OF_STATE_DIR: Final = ("RUNWARD_STATE_DIR", "XDG_STATE_HOME")


def _line_of_state_dir(text: str) -> str:
    """The line before any table that names the state directory, or nothing."""
    for line in text.splitlines():
        word = line.strip()
        if word.startswith("["):
            break
        if word.partition("=")[0].strip() == "state_dir":
            return line
    return ""


def settings_files(config: str | None, environment: Mapping[str, str], cwd: str) -> list[str]:
    """The settings file, if there is one, and its drop-ins, later ones winning. Raises `OSError`."""
    file = settings_file(config, environment, cwd)
    return [file, *drop_ins(file)] if file is not None else []


def working_directory() -> str:
    """The working directory; if it was deleted, `/`, so that whatever names no path of its own still works."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def home_of(environment: Mapping[str, str]) -> str:
    """The home that `~` and the defaults mean."""
    return environment.get("HOME") or os.path.expanduser("~")


def settings_file(config: str | None, environment: Mapping[str, str], cwd: str) -> str | None:
    """The first of the places that exists; a named file counts whether it exists or not."""
    places = settings_places(config, environment, cwd)
    if config or environment.get("RUNWARD_CONFIG"):
        return places[0]
    return next((path for path in places if os.path.exists(path)), None)


def settings_places(config: str | None, environment: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    """Where the settings file may be, the place that counts first at the front; a named file is the only place."""
    named = config or environment.get("RUNWARD_CONFIG")
    if named:
        return (os.path.join(cwd, named),)
    user = environment.get("XDG_CONFIG_HOME") or ""
    if not user.startswith("/"):
        user = f"{home_of(environment)}/.config"
    return (f"{cwd}/runward.toml", f"{user}/runward/runward.toml", SYSTEM_FILE)


def _not_to_be_obeyed(path: str, opened: os.stat_result) -> Problem | None:
    """Why a settings file that nobody named is refused: settings decide which commands are run.

    It must belong to this user or to root, as must a link to it, and it must not be world-writable.
    """
    # The link's owner counts, too: in /tmp, anybody can make ./runward.toml a link to a file of root's.
    for each in (os.lstat(path), opened):
        if each.st_uid not in (os.geteuid(), 0):
            from runward.daemon.users import name_of

            message = f"belongs to {name_of(each.st_uid)}: settings that you did not name are used only if they belong to you or to root"
            return _refused(path, message, "name it if you trust it: --config FILE, or RUNWARD_CONFIG")
    if opened.st_mode & 0o002:
        fix = f"chmod o-w {path}, or name it if you trust it: --config FILE, or RUNWARD_CONFIG"
        return _refused(path, "is writable by every user of this machine", fix)
    return None


def _refused(path: str, message: str, fix: str) -> Problem:
    from runward.config.problem import Problem

    return Problem(path, None, None, message, fix)


def drop_ins(file: str) -> list[str]:
    """What `<file>.d/*.toml` means to a shell, in order of name."""
    try:
        names = sorted(os.listdir(f"{file}.d"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [f"{file}.d/{name}" for name in names if name.endswith(".toml") and not name.startswith(".")]


def text_of(
    path: str, refusal: Callable[[str, os.stat_result], Problem | None] | None = None
) -> str | Problem:
    """The text of one of the operator's files, or what is wrong with it; `refusal` says why it may not be used."""
    from runward.config.problem import Problem

    try:
        with open(path, "rb", opener=_without_waiting) as file:
            # Asked of what was opened: the name may lead to another file by now.
            opened = os.fstat(file.fileno())
            refused = None if refusal is None else refusal(path, opened)
            if refused is not None:
                return refused
            if not stat.S_ISREG(opened.st_mode):
                return Problem(path, None, None, "is not a regular file", "put a file there, or remove it")
            content = file.read(MAXIMUM_FILE + 1)
    except OSError as error:
        return _refused_unopened(path, refusal) or _unreadable(path, error)
    if len(content) > MAXIMUM_FILE:
        return Problem(path, None, None, f"is larger than {MAXIMUM_FILE} bytes", "make it smaller")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Problem(path, line, None, "is not UTF-8", "save it as UTF-8")


def _without_waiting(path: str, flags: int) -> int:
    # A FIFO may have no writer; O_NONBLOCK changes nothing for a regular file.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _refused_unopened(
    path: str, refusal: Callable[[str, os.stat_result], Problem | None] | None
) -> Problem | None:
    """Why a file that can't be opened would be refused anyway: whose it is says more than its permissions."""
    try:
        return None if refusal is None else refusal(path, os.stat(path))
    except OSError:
        return None  # that it can't be opened is the reason


def _unreadable(path: str, error: OSError) -> Problem:
    from runward.config.problem import Problem

    return Problem(path, None, None, f"can't be read: {error.strerror}", "check its path and its permissions")


def overlapping_roots(settings: Settings) -> Iterator[Problem]:
    """A problem for each pair of roots that overlap on the disk, and for each that overlaps the state directory."""
    # By device and inode, not by text: through a link or a bind mount, one directory has two paths, and each run in it
    # would be judged twice.
    ways = {root.name: _way_to(root.path) for root in settings.roots}
    paths = {root.name: root.path for root in settings.roots}
    earlier: list[str] = []
    for name, way in ways.items():
        for other in earlier:
            if _overlap(way, ways[other]):
                message = f"{paths[name]!r} is, contains or is inside the root {other!r}, {paths[other]!r}"
                yield _problem(settings, name, message, "watch each directory through one root only")
        earlier.append(name)
    state = _way_to(settings.state_dir)
    for name, way in ways.items():
        if _overlap(way, state) and not _is_own_root(paths[name], settings.state_dir):
            message = f"{paths[name]!r} is, contains or is inside the state directory, {settings.state_dir!r}"
            yield _problem(settings, name, message, "keep Runward's own state out of the roots")


def _way_to(path: str) -> list[Identity | None]:
    """The directories from the file system's root down to `path`, by device and inode; None if it doesn't exist."""
    place = os.path.realpath(path)
    way: list[Identity | None] = []
    while True:
        try:
            status = os.stat(place)
        except OSError:
            way.append(None)
        else:
            way.append((status.st_dev, status.st_ino))
        if place == os.path.dirname(place):
            return way[::-1]
        place = os.path.dirname(place)


def _overlap(way: list[Identity | None], other: list[Identity | None]) -> bool:
    return (way[-1] is not None and way[-1] in other) or (other[-1] is not None and other[-1] in way)


def _is_own_root(path: str, state_dir: str) -> bool:
    from runward.config.root import is_own_root

    path, state_dir = os.path.realpath(path), os.path.realpath(state_dir)
    return path.startswith(f"{state_dir}/") and is_own_root(path, state_dir)


def _problem(settings: Settings, name: str, message: str, fix: str) -> Problem:
    return settings.problem(f"roots.{name}", f"roots: {message}", fix)


def bundle_rules(settings: Settings, layout: str, path: str) -> BundleRules | None:
    """How these settings make the bundle of a session at `path`; None if its root wants none."""
    from runward.config.root import AUTO

    # Each verdict asks. Resolving links is needed only where the roots of this layout differ, or none seems to hold it.
    fitting = [each for each in settings.roots if each.layout in (layout, AUTO)]
    wanted = {each.bundle for each in fitting}
    if True not in wanted:
        return None
    plain = os.path.normpath(path)
    if False not in wanted and any(plain.startswith(each.path.rstrip("/") + "/") for each in fitting):
        return settings.bundle.rules
    root = innermost_root(settings, layout, path)
    return settings.bundle.rules if root is not None and root.bundle else None


def innermost_root(settings: Settings, layout: str, path: str) -> Root | None:
    """The innermost root for sessions of this layout that contains the path, with or without following links."""
    from runward.config.root import AUTO

    fitting = [each for each in settings.roots if each.layout in (layout, AUTO)]
    paths = {os.path.normpath(path), os.path.realpath(path)}
    holding = [each for each in fitting if any(_holds(each.path, one) for one in paths)]
    return max(holding, key=lambda each: len(each.path), default=None)


def _holds(root: str, path: str) -> bool:
    """Whether a path is under a root, as written or after resolving links."""
    return any(path.startswith(each.rstrip("/") + "/") for each in (root, os.path.realpath(root)))
