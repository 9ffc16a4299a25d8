"""Layers of settings: the file, its drop-ins, the environment; what each says, and how a later one overrides.

Across files a later value replaces an earlier one key by key (`watch.step` by itself), a later list replaces the
whole list, and `[[roots]]` are added, where one of the same name takes the other's position. `[[contracts]]` are added
too, a later file's before an earlier one's, because the first match applies. An environment variable replaces its
whole key.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from runward.config.document import Document
from runward.config.json_value import JsonValue
from runward.config.listening import LONGEST_SOCKET_PATH, UNIX
from runward.config.problem import Complaint, Location, Parsed, Place, Problem, nearest, quoted
from runward.config.settings_keys import (
    DEFAULT_LAYOUT,
    FOREIGN_LAYOUTS,
    FOREIGN_ROOT_KEYS,
    PATHS,
    ROOT_NAME,
    SETTINGS,
)

DEFAULT: Final = "default"
LISTENING: Final = ("http", "webhooks")
"""The tables about what the daemon listens to."""

EXCHANGE: Final = "exchange"
"""The table whose tables are also merged key by key."""

PREFIX: Final = "RUNWARD_"
OTHER_VARIABLES: Final = (
    "RUNWARD_CONFIG",
    "RUNWARD_SESSION_ID",
    "RUNWARD_RUN_DIR",
    "RUNWARD_ARTIFACTS_DIR",
    "RUNWARD_FAULT",
    "RUNWARD_RUN_FAULT",
    "RUNWARD_TEST_MATERIAL",
)
"""Variables with our prefix that are not settings."""


class Source(NamedTuple):
    """The text of one settings file. Its relative paths start from `base`, its own absolute directory."""

    file: str
    text: str
    base: str


class Placed(NamedTuple):
    """A value in force, and where it was written."""

    value: JsonValue
    file: str
    place: Place | None = None

    @property
    def origin(self) -> str:
        """`file:line`, `environment VARIABLE` or `default`."""
        if self.place is not None:
            return f"{self.file}:{self.place[0]}"
        return self.file if self.file == DEFAULT else f"environment {self.file}"

    def problem(self, loc: Location, message: str, fix: str) -> Problem:
        """A complaint about this value."""
        return Complaint(loc, message, fix).problem(self.file, self.place)


class Layer(NamedTuple):
    """What one source says: values by dotted key, roots by name, rules, each placed where it names its playbook.

    `whole` are the keys that it replaces entirely.
    """

    values: Mapping[str, Placed] = MappingProxyType({})
    roots: Mapping[str, Placed] | None = None
    whole: frozenset[str] = frozenset()
    contracts: tuple[Placed, ...] = ()


def merge_layers(layers: Iterable[Layer]) -> Layer:
    """All layers as one, later ones winning as the module says."""
    values: dict[str, Placed] = {}
    roots: dict[str, Placed] | None = None
    contracts: tuple[Placed, ...] = ()
    for layer in layers:
        values = {key: value for key, value in values.items() if key.split(".")[0] not in layer.whole}
        values.update(layer.values)
        if "roots" in layer.whole:
            roots = None
        if layer.roots is not None:
            roots = {**(roots or {}), **layer.roots}
        contracts = layer.contracts + (() if "contracts" in layer.whole else contracts)
    return Layer(values, roots, contracts=contracts)


def layer_of_file(source: Source, home: str) -> tuple[Layer, tuple[Problem, ...]]:
    """The valid part of a settings file, and everything that is wrong."""
    from runward.config.toml_document import read_toml  # a millisecond or two, only if there is a file

    parsed = read_toml(source.text, source.file)
    if parsed.value is None:
        return Layer(), parsed.problems
    return _layer(parsed.value, source.base, home, frozenset())


def layers_of_environment(
    environment: Mapping[str, str], working_directory: str, home: str
) -> tuple[list[Layer], list[Problem]]:
    """What the variables `RUNWARD_<KEY>` say, one layer each. An empty variable counts as not set."""
    layers: list[Layer] = []
    problems: list[Problem] = []
    for variable in sorted(name for name in environment if name.startswith(PREFIX) and environment[name]):
        key = variable.removeprefix(PREFIX).lower()
        if key not in SETTINGS.keys:
            problems.extend(_perhaps_misspelt(variable))
            continue
        parsed = _variable(variable, key, environment[variable])
        problems.extend(parsed.problems)
        if parsed.value is not None:
            layer, found = _layer(parsed.value, working_directory, home, frozenset((key,)))
            layers.append(layer)
            problems.extend(found)
    return layers, problems


def resolve_path(path: str, base: str, home: str) -> str:
    """The intended absolute path, by its text alone. Raises ValueError for another user's home."""
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    elif path.startswith("~"):
        raise ValueError("names the home of another user")
    return "/" + posixpath.normpath(posixpath.join(base, path)).lstrip("/")


def _layer(
    document: Document, base: str, home: str, whole: frozenset[str]
) -> tuple[Layer, tuple[Problem, ...]]:
    complaints: list[Complaint] = []
    checked = SETTINGS.check(document.root, (), complaints.append)
    values: dict[str, Placed] = {}
    roots: dict[str, Placed] | None = None
    contracts: list[Placed] = []
    for key, value in checked.items() if isinstance(checked, dict) else ():
        if key == "roots" and isinstance(value, list):
            roots = _roots(document, value, base, home, complaints)
        elif key == "contracts" and isinstance(value, list):
            contracts = _rules(document, value, base, home, complaints)
        elif key == "notify" and isinstance(value, list):
            values[key] = _placed(document, _with_whole_paths(key, value, base, home, complaints), (key,))
        elif isinstance(value, dict) and value:
            if key in LISTENING:
                value = _with_listening_paths(key, value, base, home, complaints)
            for inner, item in value.items():
                if key == EXCHANGE and isinstance(item, dict):
                    for last, each in item.items():
                        values[f"{key}.{inner}.{last}"] = _placed(document, each, (key, inner, last))
                else:
                    values[f"{key}.{inner}"] = _placed(document, item, (key, inner))
        elif key in PATHS:
            values[key] = _placed(document, _resolved(value, (key,), base, home, complaints), (key,))
        else:
            values[key] = _placed(document, value, (key,))
    right = {key: value for key, value in values.items() if value.value is not None}
    return Layer(right, roots, whole, tuple(contracts)), document.problems(complaints)


def _roots(
    document: Document, items: Sequence[JsonValue], base: str, home: str, complaints: list[Complaint]
) -> dict[str, Placed]:
    """The roots by name, each with its absolute path; those without either are left out."""
    roots: dict[str, Placed] = {}
    for index, item in enumerate(items):
        loc: Location = ("roots", index)
        if not isinstance(item, dict):
            continue
        path = _resolved(item.get("path"), (*loc, "path"), base, home, complaints)
        _check_foreign(item, loc, complaints)
        name = item["name"] if "name" in item else _name_of(path, (*loc, "path"), complaints)
        if not isinstance(path, str) or not isinstance(name, str):
            continue
        if name in roots:
            where = "name" if "name" in item else "path"
            message = f"{quoted(name)} is already the name of another root"
            complaints.append(Complaint((*loc, where), message, "give each root a name of its own"))
        else:
            roots[name] = _placed(document, {**item, "name": name, "path": path}, loc)
    return roots


def _with_whole_paths(
    key: str, items: Sequence[JsonValue], base: str, home: str, complaints: list[Complaint]
) -> JsonValue:
    """The tables of a list with absolute paths in their keys that end in `_file`."""
    return [
        {
            name: _resolved(each, (key, index, name), base, home, complaints)
            if name.endswith("_file")
            else each
            for name, each in item.items()
        }
        for index, item in enumerate(items)
        if isinstance(item, dict)
    ]


def _with_listening_paths(
    key: str, value: Mapping[str, JsonValue], base: str, home: str, complaints: list[Complaint]
) -> dict[str, JsonValue]:
    """`[http]` or `[webhooks]` with absolute paths."""
    checked = dict(value)
    listen, github = checked.get("listen"), checked.get("github")
    if isinstance(listen, list):
        checked["listen"] = [_listened(each, base, home, complaints) for each in listen]
    if isinstance(github, dict) and "secret_file" in github:
        loc = (key, "github", "secret_file")
        file = _resolved(github["secret_file"], loc, base, home, complaints)
        checked["github"] = {"secret_file": file}
    return checked


def _listened(address: JsonValue, base: str, home: str, complaints: list[Complaint]) -> JsonValue:
    """The address; that of a socket in the file system gets an absolute path."""
    if not isinstance(address, str) or not address.startswith(UNIX):
        return address
    loc = ("http", "listen")
    path = _resolved(address.removeprefix(UNIX), loc, base, home, complaints)
    if isinstance(path, str) and len(path.encode()) > LONGEST_SOCKET_PATH:
        message = f"the path of a socket may have {LONGEST_SOCKET_PATH} bytes, and {path} has more"
        complaints.append(Complaint(loc, message, "put it into a directory with a shorter path"))
    return None if path is None else f"{UNIX}{path}"


def _check_foreign(root: Mapping[str, JsonValue], loc: Location, complaints: list[Complaint]) -> None:
    """Keys that only apply to foreign sessions are not allowed for a native root."""
    if root.get("layout", DEFAULT_LAYOUT) != DEFAULT_LAYOUT:
        return
    for key in FOREIGN_ROOT_KEYS:
        if root.get(key) is not None:
            message = f"{quoted(key)} has no effect here: native runs say themselves when they end"
            complaints.append(Complaint((*loc, key), message, "leave it out, or name the root's layout"))


def _rules(
    document: Document, items: Sequence[JsonValue], base: str, home: str, complaints: list[Complaint]
) -> list[Placed]:
    """The rules, each with an absolute `cwd`. Rules without match or playbook are left out."""
    rules: list[Placed] = []
    for index, item in enumerate(items):
        loc: Location = ("contracts", index)
        match = item.get("match") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(match, dict):
            continue
        cwd, layout = match.get("cwd"), match.get("layout")
        if isinstance(cwd, str):
            match = {**match, "cwd": _whole_glob(cwd, (*loc, "match", "cwd"), base, home, complaints)}
        if isinstance(layout, str):
            _check_layout(layout, (*loc, "match", "layout"), complaints)
        if item.get("playbook") is not None:
            place = document.place((*loc, "playbook"))
            rules.append(Placed({**item, "match": match}, document.name, place))
    return rules


def _whole_glob(pattern: str, loc: Location, base: str, home: str, complaints: list[Complaint]) -> JsonValue:
    """The glob as one of absolute paths. What is put before it is not a glob, whatever characters are in it."""
    from runward.config.glob_rule import ANY_DEPTH, escaped

    if pattern.split("/")[0] == ANY_DEPTH:
        return f"/{pattern}"
    return _resolved(pattern, loc, escaped(base), escaped(home), complaints)


def _check_layout(pattern: str, loc: Location, complaints: list[Complaint]) -> None:
    from runward.config.glob_rule import text_matches

    if any(text_matches(layout, pattern) for layout in FOREIGN_LAYOUTS):
        return
    if text_matches(DEFAULT_LAYOUT, pattern):
        message, fix = "native runs name their playbook themselves", "name another tool's layout"
        complaints.append(Complaint(loc, f"{quoted(pattern)} matches nothing: {message}", fix))
    else:
        fix = f"one of: {', '.join(FOREIGN_LAYOUTS)}, or a glob of them"
        complaints.append(Complaint(loc, f"{quoted(pattern)} is not a known layout", fix))


def _name_of(path: JsonValue, loc: Location, complaints: list[Complaint]) -> JsonValue:
    """The last part of a root's path, if that can be a name."""
    if not isinstance(path, str):
        return None
    found: list[Complaint] = []
    name = ROOT_NAME.check(posixpath.basename(path), loc, found.append)
    if found:
        message = f"the last part of {quoted(path)} can't be a name"
        complaints.append(Complaint(loc, message, "give the root a name"))
    return name


def _resolved(
    value: JsonValue, loc: Location, base: str, home: str, complaints: list[Complaint]
) -> JsonValue:
    """The path, or each of a list of paths, made absolute. None for what is not a path or is wrong."""
    if isinstance(value, list):
        return [_resolved(item, (*loc, index), base, home, complaints) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return None
    try:
        return resolve_path(value, base, home)
    except ValueError as error:
        complaints.append(Complaint(loc, f"{quoted(value)} {error}", "write the whole path"))
        return None


def _placed(document: Document, value: JsonValue, loc: Location) -> Placed:
    return Placed(value, document.name, document.place(loc, key=True))


def _variable(variable: str, key: str, text: str) -> Parsed[Document]:
    """The variable as a document with its one key. Texts are taken as they are, everything else is JSON."""
    if key == "state_dir":
        return Parsed(Document(variable, {key: text}, {}))
    from runward.config.document import read_json

    parsed = read_json(text, variable)
    if parsed.value is None:
        return parsed
    return Parsed(Document(variable, {key: parsed.value.root}, {}))


def _perhaps_misspelt(variable: str) -> list[Problem]:
    known = [PREFIX + key.upper() for key in SETTINGS.keys]
    guess = nearest(variable, known, cutoff=0.9)
    if guess is None or variable in OTHER_VARIABLES:
        return []
    message = "no setting has this name"
    return [Problem(variable, None, None, message, f"did you mean {guess}?", "warning")]
