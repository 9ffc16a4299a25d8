"""What the results of one run of a SARIF log refer to: its rules with their levels, its texts, and its files.

Section numbers are those of the standard, SARIF 2.1.0.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.handlers.outcomes.sarif_stream import A_LIST, BOOLEAN, NUMBER, TEXT, ListOf, MapOf, Shape, Word

LEVEL: Final = Word(("error", "warning", "note", "none"))
_CONFIGURATION: Final[Shape] = {"level": LEVEL, "rank": NUMBER}
_TEXTS: Final[Shape] = MapOf({"text": TEXT})
_DESCRIPTOR: Final[Shape] = {
    "id": TEXT,
    "guid": TEXT,
    "defaultConfiguration": _CONFIGURATION,
    "messageStrings": _TEXTS,
}
_COMPONENT: Final[Shape] = {
    "name": TEXT,
    "guid": TEXT,
    "rules": ListOf(_DESCRIPTOR),
    "notifications": ListOf(_DESCRIPTOR),
    "globalMessageStrings": _TEXTS,
}
REFERENCE: Final[Shape] = {
    "id": TEXT,
    "index": NUMBER,
    "guid": TEXT,
    "toolComponent": {"name": TEXT, "index": NUMBER, "guid": TEXT},
}
MESSAGE: Final[Shape] = {"text": TEXT, "markdown": TEXT, "id": TEXT, "arguments": ListOf(TEXT)}
_OVERRIDES: Final[Shape] = ListOf({"descriptor": REFERENCE, "configuration": _CONFIGURATION})
_NOTIFICATIONS: Final[Shape] = ListOf({"level": LEVEL, "descriptor": REFERENCE, "message": MESSAGE})
LOCATION: Final[Shape] = {"uri": TEXT, "uriBaseId": TEXT, "index": NUMBER}
_INVOCATIONS: Final[Shape] = ListOf(
    {
        "executionSuccessful": BOOLEAN,
        "ruleConfigurationOverrides": _OVERRIDES,
        "notificationConfigurationOverrides": _OVERRIDES,
        "toolExecutionNotifications": _NOTIFICATIONS,
        "toolConfigurationNotifications": _NOTIFICATIONS,
        "workingDirectory": LOCATION,
    }
)
_ARTIFACTS: Final[Shape] = ListOf({"location": LOCATION})
OUTSIDE: Final[Mapping[str, Shape]] = {
    "guid": TEXT,
    "driver": _COMPONENT,
    "extensions": ListOf(_COMPONENT),
    "invocations": _INVOCATIONS,
    "artifacts": _ARTIFACTS,
    "results": A_LIST,
}
"""Parts of runs that are in the log, but outside of its runs (3.13.5)."""
MATTERING: Final = ("driver", "extensions", "invocations", "results")
"""Those that matter for the verdict. They may also be in other files (3.15)."""
_ELSEWHERE: Final[Shape] = {"location": {"uri": TEXT}, "guid": TEXT}
RUN: Final[Shape] = {
    "tool": {"driver": _COMPONENT, "extensions": ListOf(_COMPONENT)},
    "invocations": _INVOCATIONS,
    "artifacts": _ARTIFACTS,
    "originalUriBaseIds": MapOf(LOCATION),
    "externalPropertyFileReferences": {
        "driver": _ELSEWHERE,
        **dict.fromkeys(("extensions", "invocations", "artifacts", "results"), ListOf(_ELSEWHERE)),
    },
    "results": A_LIST,
}

_DEEPEST: Final = 16
"""How many bases a file's place is followed through, and how many parts the id of a rule has that are tried."""
_LONGEST_PATH: Final = 1000
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{(\d{1,9})\}")

Object: TypeAlias = Mapping[str, JsonValue]
_Found: TypeAlias = tuple[int, int]
"""The numbers of a component and of a rule in it."""


class _Component(NamedTuple):
    """The tool's driver or one of its extensions, with the rules or the notifications that it declares."""

    described: Object
    descriptors: list[Object]
    by_id: Mapping[str, int]


class Descriptors:
    """The rules, or the notifications, that a run's tool declares."""

    def __init__(self, tool: Object, kind: str) -> None:
        self._components = [
            _component(each, kind) for each in (object_in(tool, "driver"), *objects_in(tool, "extensions"))
        ]

    def find(self, reference: Object) -> _Found | None:
        """The descriptor that a reference names (3.52), by its index, its guid or its id."""
        component = self._component_of(object_in(reference, "toolComponent"))
        if component is None:
            return None
        name, index, guid = (
            text_in(reference, "id"),
            number_in(reference, "index"),
            text_in(reference, "guid"),
        )
        descriptors = self._components[component].descriptors
        if index is not None and 0 <= index < len(descriptors):
            its_id = text_in(descriptors[index], "id")
            if not (name and its_id) or name == its_id or name.startswith(f"{its_id}/"):
                return component, index
        if guid:
            for number, each in enumerate(descriptors):
                if text_in(each, "guid").lower() == guid.lower():
                    return component, number
        is_named = bool(object_in(reference, "toolComponent"))
        for number in (component,) if is_named else range(len(self._components)):
            for part in _hierarchy(name):
                if part in self._components[number].by_id:
                    return number, self._components[number].by_id[part]
        return None

    def at(self, descriptor: _Found) -> Object:
        """The descriptor there."""
        return self._components[descriptor[0]].descriptors[descriptor[1]]

    def text(self, descriptor: _Found | None, name: str) -> str | None:
        """The text of this id: the descriptor's, or else one of its component or the driver (3.11.7)."""
        mine = [] if descriptor is None else [object_in(self.at(descriptor), "messageStrings")]
        numbers = (0,) if descriptor is None else (descriptor[0], 0)
        shared = [object_in(self._components[each].described, "globalMessageStrings") for each in numbers]
        for texts in (*mine, *shared):
            text = text_in(object_in(texts, name), "text")
            if text:
                return text
        return None

    def _component_of(self, reference: Object) -> int | None:
        """The component that a reference names (3.54); without a name it is the driver."""
        index, guid, name = (
            number_in(reference, "index"),
            text_in(reference, "guid").lower(),
            text_in(reference, "name"),
        )
        if index is not None and index >= 0:
            return index + 1 if index + 1 < len(self._components) else None
        if not (guid or name):
            return 0
        for number, each in enumerate(self._components):
            if guid and text_in(each.described, "guid").lower() == guid:
                return number
            if not guid and text_in(each.described, "name") == name:
                return number
        return None


def _component(described: Object, kind: str) -> _Component:
    descriptors = objects_in(described, kind)
    by_id: dict[str, int] = {}
    for number, each in enumerate(descriptors):
        by_id.setdefault(text_in(each, "id"), number)
    by_id.pop("", None)
    return _Component(described, descriptors, by_id)


def _hierarchy(name: str) -> Iterator[str]:
    """The id, and those that it is below: `CA1/a` is an id below `CA1` (3.27.5)."""
    for _ in range(_DEEPEST):
        if not name:
            return
        yield name
        name = name.rpartition("/")[0]


class Configurations:
    """How severe results are, or notifications: what they say, what their invocation overrides, what their rule says."""

    def __init__(self, descriptors: Descriptors, invocations: list[Object], overrides: str) -> None:
        self._descriptors = descriptors
        self._overrides: list[dict[_Found, Object]] = []
        for invocation in invocations:
            mine: dict[_Found, Object] = {}
            for each in objects_in(invocation, overrides):
                descriptor = descriptors.find(object_in(each, "descriptor"))
                if descriptor is not None:
                    mine.setdefault(descriptor, object_in(each, "configuration"))
            self._overrides.append(mine)

    def _configured(self, descriptor: _Found | None, invocation: int | None) -> Iterator[Object]:
        if descriptor is None:
            return
        if invocation is not None and 0 <= invocation < len(self._overrides):
            yield self._overrides[invocation].get(descriptor, {})
        yield object_in(self._descriptors.at(descriptor), "defaultConfiguration")

    def level(self, item: Object, descriptor: _Found | None, invocation: int | None) -> str:
        """The level by the procedure of 3.27.10."""
        if text_in(item, "kind") not in ("", "fail"):
            return "none"
        levels = (text_in(each, "level") for each in (item, *self._configured(descriptor, invocation)))
        return next((each for each in levels if each), "warning")

    def rank(self, item: Object, descriptor: _Found | None, invocation: int | None) -> float:
        """The rank from 0 to 100 by the procedure of 3.27.25, or -1."""
        for each in (item, *self._configured(descriptor, invocation)):
            rank = each.get("rank")
            if isinstance(rank, int | float):
                return float(rank)
        return -1.0


def message_text(message: Object, descriptors: Descriptors, descriptor: _Found | None) -> str:
    """The text of a message (3.11), with its arguments in place of `{0}`, `{1}`."""
    name = text_in(message, "id")
    text = text_in(message, "text") or (descriptors.text(descriptor, name) if name else None) or ""
    text = text or text_in(message, "markdown") or name
    arguments = message.get("arguments")
    given = arguments if isinstance(arguments, list) else []

    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        number = int(match[1])
        return str(given[number]) if number < len(given) else match[0]

    return _PLACEHOLDER.sub(put, text)


class Place(NamedTuple):
    """The path of a file relative to the sources, if it is below them, and where it is on the machine or in the world."""

    path: str | None
    whole: str = ""


class Places:
    """Where the files of a run are (3.4)."""

    def __init__(self, run: Object) -> None:
        self._artifacts = objects_in(run, "artifacts")
        self._bases = object_in(run, "originalUriBaseIds")
        used = [object_in(each, "workingDirectory") for each in objects_in(run, "invocations")]
        named = [object_in(self._bases, each) for each in self._bases]
        roots = [root for each in (*named, *used) if (root := _absolute(text_in(each, "uri")))]
        self._roots = list(dict.fromkeys(roots))[:_DEEPEST]

    def of(self, location: Object) -> Place:
        """The file that a location names."""
        index = number_in(location, "index")
        if not text_in(location, "uri") and index is not None and 0 <= index < len(self._artifacts):
            location = object_in(self._artifacts[index], "location")
        uri, base = text_in(location, "uri"), text_in(location, "uriBaseId")
        if not uri or len(uri) > _LONGEST_PATH:
            return Place(None)
        absolute = _absolute(uri)
        if absolute is not None:
            below = (path for root in self._roots if (path := path_below(absolute, root)) is not None)
            return Place(next(below, None), absolute)
        if _SCHEME.match(uri):
            return Place(None, uri)
        path, root = self._resolved(uri, base)
        inside = None if path is None else _inside(path)
        return Place(inside, "" if root is None or inside is None else f"{root.rstrip('/')}/{inside}")

    def _resolved(self, uri: str, base: str) -> tuple[str | None, str | None]:
        """The path below the outermost base, and that base if it is absolute (3.14.14)."""
        path = _decoded(uri)
        for _ in range(_DEEPEST):
            within = object_in(self._bases, base) if base else {}
            prefix = text_in(within, "uri")
            if path is None or not within or len(path) > _LONGEST_PATH:
                return path, None
            if _absolute(prefix) is not None or _SCHEME.match(prefix):
                return path, _absolute(prefix)
            before = _decoded(prefix) if prefix else ""
            path = None if before is None else f"{before.rstrip('/')}/{path}" if before else path
            base = text_in(within, "uriBaseId")
        return None, None


def _absolute(uri: str) -> str | None:
    """The absolute path that a URI names, if it is one of a file on a machine with such paths."""
    if uri[:5].lower() == "file:":
        uri = uri[5:]
        if uri.startswith("//"):
            uri = "/" + uri[2:].partition("/")[2]
        if re.match(r"/[A-Za-z]:", uri):
            return None
    return _decoded(uri) if uri.startswith("/") else None


def _decoded(uri: str) -> str | None:
    """The path of a URI without its percent encoding, query and fragment. None if that is not text."""
    path = re.split(r"[?#]", uri, maxsplit=1)[0]
    content = bytearray()
    at = 0
    for match in _ESCAPED.finditer(path):
        content += path[at : match.start()].encode(errors="replace")
        content.append(int(match[1], 16))
        at = match.end()
    content += path[at:].encode(errors="replace")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _inside(path: str) -> str | None:
    """The path without `.` and `..`; None if it leads outside or names no file."""
    parts: list[str] = []
    for each in path.split("/"):
        if each == "..":
            if not parts:
                return None
            parts.pop()
        elif each not in ("", "."):
            parts.append(each)
    return "/".join(parts) or None


def path_below(path: str, root: str) -> str | None:
    """The path relative to a directory that it is below; both are absolute."""
    whole, within = _inside(path), _inside(root) or ""
    if whole is None:
        return None
    return whole[len(within) + 1 :] if whole.startswith(f"{within}/") else whole if not within else None


def object_in(value: Object, key: str) -> Object:
    """The object under a key, or an empty one."""
    field = value.get(key)
    return field if isinstance(field, dict) else {}


def objects_in(value: Object, key: str) -> list[Object]:
    """The objects of the list under a key."""
    field = value.get(key)
    return [each if isinstance(each, dict) else {} for each in field] if isinstance(field, list) else []


def text_in(value: Object, key: str) -> str:
    """The text under a key, or an empty one."""
    field = value.get(key)
    return field if isinstance(field, str) else ""


def number_in(value: Object, key: str) -> int | None:
    """The whole number under a key."""
    field = value.get(key)
    return field if isinstance(field, int) and not isinstance(field, bool) else None
