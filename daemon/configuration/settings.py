"""Finding what people wrote: the settings file, its drop-ins, playbooks and agent profiles, on disk.

`runward.config` says what they mean; here they are found and read. Imports stay cheap if there is no settings file, for
the launcher's start-up.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache

from runward.daemon.configuration.agent_homes import homes_there

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from runward.config.problem import Problem
    from runward.config.settings import Settings

    Identity: TypeAlias = tuple[int, int]


def overlapping_roots(settings: Settings) -> Iterator[Problem]:
    """A problem for each pair of roots that overlap on the disk, and for each that overlaps the state directory."""
    ways = {root.name: _way_to(root.path) for root in settings.roots}
    paths = {root.name: root.path for root in settings.roots}
    earlier: list[str] = []
    for name, way in ways.items():
        for other in earlier:
            if _overlap(way, ways[other]):
                told = f"{paths[name]!r} is, contains or is inside the root {other!r}, {paths[other]!r}"
                yield _problem(settings, name, told, "watch each directory through one root only")
        earlier.append(name)
    state = _way_to(settings.state_dir)
    for name, way in ways.items():
        if _overlap(way, state) and not _is_own_root(paths[name], settings.state_dir):
            told = f"{paths[name]!r} is, contains or is inside the state directory, {settings.state_dir!r}"
            yield _problem(settings, name, told, "keep Runward's own state out of the roots")


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


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Final, TypeVar

    from runward.config.agent import AgentProfile
    from runward.config.chain import Chain
    from runward.config.contract import ExpectedArtifact
    from runward.config.playbook import Playbook
    from runward.config.problem import Parsed, Problem
    from runward.config.settings import Settings
    from runward.config.step import Callables

    T = TypeVar("T")


SYSTEM_FILE: Final = "/etc/runward/runward.toml"
MAXIMUM_FILE: Final = 1 << 20
"""Bytes of the largest settings file, playbook or agent profile that is read."""


class NotFound(LookupError):
    """There is no playbook or agent of this name, or no such file."""


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
        text = (None if is_named else _not_to_be_obeyed(path)) or _read(path)
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
    known = dict(files)
    try:
        there = [files[0][0], *drop_ins(files[0][0])] if files else []
    except OSError:
        there = []
    first = [path for path in absent if os.path.exists(path)]
    return [path for path in dict.fromkeys([*first, *known, *there]) if _checksum_of(path) != known.get(path)]


def _checksum_of(path: str) -> int | None:
    text = _read(path)
    return checksum(text) if isinstance(text, str) else None


def state_dir_of_broken(config: str | None, environment: Mapping[str, str], cwd: str) -> str | None:
    """The state directory that broken settings name, from their own lines for it and the environment alone."""
    from runward.config.settings_layers import Source, read_settings

    sources: list[Source] = []
    try:
        files = settings_files(config, environment, cwd)
    except OSError:
        files = []
    for path in files:
        text = _read(path)
        if isinstance(text, str):
            sources.append(Source(path, _line_of_state_dir(text), os.path.dirname(path)))
    said = {key: value for key, value in environment.items() if key in _OF_STATE_DIR}
    parsed = read_settings(sources, said, home=home_of(environment), working_directory=cwd)
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


def _not_to_be_obeyed(path: str) -> Problem | None:
    """Why a settings file that nobody named is refused: settings decide which commands are run.

    It must belong to this user or to root, as must a link to it, and it must not be world-writable.
    """
    try:
        link, file = os.lstat(path), os.stat(path)
    except OSError:
        return None  # reading it gives the reason
    for each in (link, file):
        if each.st_uid not in (os.geteuid(), 0):
            from runward.daemon.users import name_of

            message = f"belongs to {name_of(each.st_uid)}: settings that you did not name are used only if they belong to you or to root"
            return _refused(path, message, "name it if you trust it: --config FILE, or RUNWARD_CONFIG")
    if file.st_mode & 0o002:
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


def find_playbook(
    settings: Settings, name: str, parse: Callable[[str, str], Parsed[Playbook]] | None = None
) -> Parsed[Playbook]:
    """The playbook of this name, or in the file of this name. Raises `NotFound`.

    `parse` is called with the text and the path, in place of `read_playbook`.
    """
    from dataclasses import replace

    from runward.config.playbook import read_playbook
    from runward.config.problem import Parsed, Problem

    path = playbook_file(settings, name)
    text = _read(path)
    if isinstance(text, Problem):
        return Parsed(None, (text,))
    parsed = (parse or read_playbook)(text, path)
    if parsed.value is None:
        return parsed
    artifacts, problems = _with_schemas(parsed.value.artifacts, path)
    if artifacts is None:
        return parsed
    found = replace(parsed.value, artifacts=artifacts)
    return Parsed(None if problems else found, (*parsed.problems, *problems))


def find_agent(
    settings: Settings, name: str, parse: Callable[[str, str], Parsed[AgentProfile]] | None = None
) -> Parsed[AgentProfile]:
    """The agent profile of this name, or in the file of this name. Raises `NotFound`.

    `parse` is called with the text and the path, in place of `read_agent`.
    """
    from dataclasses import replace

    from runward.config.agent import read_agent
    from runward.config.problem import Parsed, Problem

    path = agent_file(settings, name)
    text = _read(path)
    if isinstance(text, Problem):
        return Parsed(None, (text,))
    parsed = (parse or read_agent)(text, path)
    if parsed.value is None:
        return parsed
    artifacts, problems = _with_schemas(parsed.value.artifact_defaults, path)
    if artifacts is None:
        return parsed
    found = replace(parsed.value, artifact_defaults=artifacts)
    return Parsed(None if problems else found, (*parsed.problems, *problems))


def _with_schemas(
    artifacts: tuple[ExpectedArtifact, ...] | None, file: str
) -> tuple[tuple[ExpectedArtifact, ...] | None, tuple[Problem, ...]]:
    """The declared artifacts with the schemas that they name, and what is wrong with those. None if none names any."""
    if not any(each.rules is not None and each.rules.schema_file for each in artifacts or ()):
        return None, ()
    from runward.daemon.configuration.artifact_schemas import with_schemas

    return with_schemas(artifacts or (), file, _read)


def playbook_file(settings: Settings, name: str) -> str:
    """Where the playbook of this name is. Raises `NotFound`."""
    from runward.config.settings import PLAYBOOK_SUFFIX

    return _find(name, settings.playbooks, [f"{name}{PLAYBOOK_SUFFIX}"], PLAYBOOK_SUFFIX, "playbook")


def agent_file(settings: Settings, name: str) -> str:
    """Where the agent profile of this name is. Raises `NotFound`."""
    return _find(name, settings.agents, [f"{name}.md", f"{name}/{name}.md"], ".md", "agent")


def only_a_name(name: str) -> str:
    """A name that isn't the operator's own word here, and must not become a path of somebody's choosing.

    Raises `NotFound`.
    """
    from runward.config.settings import PLAYBOOK_SUFFIX

    if "/" in name or name.endswith((PLAYBOOK_SUFFIX, ".md")):
        raise NotFound(f"{name!r} is a file; only the name of a playbook or an agent is allowed here")
    return name


def playbook_names(settings: Settings) -> tuple[str, ...]:
    """The names of all playbooks in the directories of the settings."""
    from runward.config.settings import PLAYBOOK_SUFFIX

    return _names(settings.playbooks, PLAYBOOK_SUFFIX)


def find_chain(
    settings: Settings, name: str, parse: Callable[[str, str], Parsed[Chain]] | None = None
) -> Parsed[Chain]:
    """The chain of this name, or in the file of this name. Raises `NotFound`.

    `parse` is called with the text and the path, in place of `read_chain`.
    """
    from runward.config.chain import read_chain

    return named_chain(
        settings, name, parse or (lambda text, path: read_chain(text, path, callables(settings)))
    )


def named_chain(settings: Settings, name: str, parse: Callable[[str, str], Parsed[T]]) -> Parsed[T]:
    """What `parse` finds in the text of the chain of this name, or in the file of this name, and its path.

    Raises `NotFound`.
    """
    from runward.config.chain import CHAIN_SUFFIX
    from runward.config.problem import Parsed, Problem

    path = _find(name, settings.chains, [f"{name}{CHAIN_SUFFIX}"], CHAIN_SUFFIX, "chain")
    text = _read(path)
    return Parsed(None, (text,)) if isinstance(text, Problem) else parse(text, path)


def callables(settings: Settings) -> Callables:
    """What steps of chains can name now."""
    from runward.config.step import Callables

    actions = tuple(each.name for each in settings.actions)
    return Callables(playbook_names(settings), actions, machines_zone(), _directory(settings))


def _directory(settings: Settings) -> str:
    """Where relative paths of chains start: next to the settings file, as the default directory of chains is."""
    if settings.files:
        return os.path.dirname(settings.files[0][0])
    return os.path.dirname(settings.chains[0]) if settings.chains else "/"


@lru_cache(maxsize=1)
def machines_zone() -> str:
    """The name of the machine's time zone, as it was at the first call; UTC if it has none."""
    from tzlocal import get_localzone_name

    try:
        return get_localzone_name() or "UTC"
    except (OSError, LookupError, ValueError):
        return "UTC"


def chain_names(settings: Settings) -> tuple[str, ...]:
    """The names of all chains in the directories of the settings, by their files."""
    from runward.config.chain import CHAIN_SUFFIX

    return _names(settings.chains, CHAIN_SUFFIX)


def agent_names(settings: Settings) -> tuple[str, ...]:
    """The names of all agent profiles in the directories of the settings: `NAME.md` or `NAME/NAME.md`."""
    found = set(_names(settings.agents, ".md"))
    for directory in settings.agents:
        if os.path.isdir(directory):
            found.update(
                each for each in os.listdir(directory) if os.path.isfile(f"{directory}/{each}/{each}.md")
            )
    return tuple(sorted(found))


def _names(directories: tuple[str, ...], suffix: str) -> tuple[str, ...]:
    found: set[str] = set()
    for directory in directories:
        if os.path.isdir(directory):
            # An editor's lock or a link to nothing is not a playbook: a lookup by name would not find it either.
            found.update(
                each.removesuffix(suffix)
                for each in os.listdir(directory)
                if each.endswith(suffix)
                and not each.startswith(".")
                and os.path.isfile(os.path.join(directory, each))
            )
    return tuple(sorted(found))


def _find(name: str, directories: tuple[str, ...], files: list[str], suffix: str, noun: str) -> str:
    """An existing path: `name` itself if it looks like one, else the first in the directories."""
    if "/" in name or name.endswith(suffix):
        if os.path.isfile(name):
            return name
        if os.path.exists(name):
            raise NotFound(f"{name} is not a regular file")
        raise NotFound(f"there is no {noun} file {name}")
    if "\0" not in name and name not in ("", ".", ".."):
        for directory in directories:
            for file in files:
                path = os.path.join(directory, file)
                if os.path.isfile(path):
                    return path
    places = ", ".join(directories) or "no directory"
    raise NotFound(f"there is no {noun} {name!r} in {places}{_suggestion(name, directories, suffix)}")


def _suggestion(name: str, directories: tuple[str, ...], suffix: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, _names(directories, suffix), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _read(path: str) -> str | Problem:
    """The text of one of the operator's files, or what is wrong with it."""
    from runward.config.problem import Problem

    try:
        # Without waiting, because a FIFO may have no writer; O_NONBLOCK changes nothing for a regular file.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return Problem(path, None, None, "is not a regular file", "put a file there, or remove it")
            content = file.read(MAXIMUM_FILE + 1)
    except OSError as error:
        return _unreadable(path, error)
    if len(content) > MAXIMUM_FILE:
        return Problem(path, None, None, f"is larger than {MAXIMUM_FILE} bytes", "make it smaller")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return Problem(path, line, None, "is not UTF-8", "save it as UTF-8")


def _unreadable(path: str, error: OSError) -> Problem:
    from runward.config.problem import Problem

    return Problem(path, None, None, f"can't be read: {error.strerror}", "check its path and its permissions")
