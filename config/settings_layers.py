"""The settings from all layers: the file, its drop-ins, the environment; what each says, and how a later one overrides.

Across files a later value replaces an earlier one key by key (`watch.step` by itself), a later list replaces the
whole list, and `[[roots]]` are added, where one of the same name takes the other's position. `[[contracts]]` are added
too, a later file's before an earlier one's, because the first match applies. An environment variable replaces its
whole key.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from runward.config.contract_rules import RULE, ContractRule
from runward.config.document import Document
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, Parsed, Problem, has_errors, nearest, quoted
from runward.config.root import OWN_ROOTS, ROOT, ROOT_NAME, Root, misplaced_roots, root_of
from runward.config.settings import SETTINGS, Settings
from runward.config.shape import Start, Text
from runward.config.table import DEFAULT, Placed, dotted_key, joined, parts

PREFIX: Final = "RUNWARD_"
OTHER_VARIABLES: Final = (
    "RUNWARD_CONFIG",
    "RUNWARD_SESSION_ID",
    "RUNWARD_RUN_DIR",
    "RUNWARD_ARTIFACTS_DIR",
    "RUNWARD_FAULT",
    "RUNWARD_RUN_FAULT",
    "RUNWARD_FLEET_FAULT",
    "RUNWARD_TEST_MATERIAL",
)
"""Variables with our prefix that are not settings."""


class Source(NamedTuple):
    """The text of one settings file. Its relative paths start from `base`, its own absolute directory."""

    file: str
    text: str
    base: str


class Layer(NamedTuple):
    """What one source says: values by dotted key, roots by name, rules, each placed where it names its playbook.

    `whole` are the keys that it replaces entirely.
    """

    values: Mapping[str, Placed] = MappingProxyType({})
    roots: Mapping[str, Placed] | None = None
    whole: frozenset[str] = frozenset()
    contracts: tuple[Placed, ...] = ()


def read_settings(
    sources: Sequence[Source],
    environment: Mapping[str, str],
    *,
    home: str,
    working_directory: str,
    agents: Mapping[str, str] = MappingProxyType({}),
) -> Parsed[Settings]:
    """The settings from `sources` (the file, then its drop-ins in order) and the environment together.

    `home` and `working_directory` are absolute; relative paths in variables start from the latter. `agents` are the
    directories, by layout, in which tools keep their sessions: they become roots if the settings name none. The
    problems are everything that is wrong anywhere, in the order of the sources. Never raises.
    """
    layers: list[Layer] = []
    problems: list[Problem] = []
    for source in sources:
        layer, problems_of_file = _layer_of_file(source, home)
        layers.append(layer)
        problems.extend(problems_of_file)
    of_environment, problems_of_variables = _layers_of_environment(environment, working_directory, home)
    layers.extend(of_environment)
    problems.extend(problems_of_variables)
    merged = _with_defaults(merge_layers(layers), _defaults(sources, environment, home), agents)
    # A state directory from settings that are wrong elsewhere may not be the intended one, so no root is held to it.
    state_dir = None if has_errors(problems) else merged.values["state_dir"]
    problems.extend(misplaced_roots(merged.roots or {}, state_dir))
    return Parsed(None if has_errors(problems) else _settings(merged), tuple(problems))


def merge_layers(layers: Iterable[Layer]) -> Layer:
    """All layers as one, later ones winning as the module says."""
    values: dict[str, Placed] = {}
    roots: dict[str, Placed] | None = None
    contracts: tuple[Placed, ...] = ()
    for layer in layers:
        # A variable replaces the whole table: what a file says about its other keys counts no more.
        values = {key: value for key, value in values.items() if key.split(".")[0] not in layer.whole}
        values.update(layer.values)
        if "roots" in layer.whole:
            roots = None
        if layer.roots is not None:
            roots = {**(roots or {}), **layer.roots}
        # The first rule that matches applies, so those of a later file must come first to win.
        contracts = layer.contracts + (() if "contracts" in layer.whole else contracts)
    return Layer(values, roots, contracts=contracts)


def _layer_of_file(source: Source, home: str) -> tuple[Layer, tuple[Problem, ...]]:
    """The valid part of a settings file, and everything that is wrong."""
    from runward.config.toml_document import read_toml  # a millisecond or two, only if there is a file

    parsed = read_toml(source.text, source.file)
    if parsed.value is None:
        return Layer(), parsed.problems
    return _layer(parsed.value, Start(source.base, home), frozenset())


def _layers_of_environment(
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
            layer, problems_of_value = _layer(parsed.value, Start(working_directory, home), frozenset((key,)))
            layers.append(layer)
            problems.extend(problems_of_value)
    return layers, problems


def _defaults(sources: Sequence[Source], environment: Mapping[str, str], home: str) -> dict[str, Placed]:
    """Playbooks, agents and chains are next to the settings file, or where the user's file would be."""
    base = (
        sources[0].base if sources else f"{_base_directory(environment, 'CONFIG', home, '.config')}/runward"
    )
    state = f"{_base_directory(environment, 'STATE', home, '.local/state')}/runward"
    return {
        "state_dir": Placed(state, DEFAULT),
        **{key: Placed([posixpath.join(base, key)], DEFAULT) for key in ("playbooks", "agents", "chains")},
    }


def _base_directory(environment: Mapping[str, str], kind: str, home: str, below_home: str) -> str:
    """`$XDG_<KIND>_HOME`. As the XDG specification says, a relative one is ignored."""
    declared = environment.get(f"XDG_{kind}_HOME", "")
    return declared.rstrip("/") if declared.startswith("/") else f"{home.rstrip('/')}/{below_home}"


def _with_defaults(merged: Layer, defaults: Mapping[str, Placed], agents: Mapping[str, str]) -> Layer:
    """The written settings, and the defaults that depend on the place.

    Without roots: the native one in the state directory, and tools' own.
    """
    values = {**defaults, **merged.values}
    if merged.roots is not None:
        return merged._replace(values=values)
    state_dir = values["state_dir"]
    path = f"{state_dir.value}/{OWN_ROOTS}"
    roots = {OWN_ROOTS: Placed({"name": OWN_ROOTS, "path": path}, DEFAULT)}
    for layout, sessions in agents.items():
        root = Placed({"name": layout, "path": sessions, "layout": layout}, DEFAULT)
        # One that overlaps another root is left out, without a problem: nobody wrote it, so nobody could fix it.
        if not any(misplaced_roots({**roots, layout: root}, state_dir)):
            roots[layout] = root
    return merged._replace(values=values, roots=roots)


def _settings(merged: Layer) -> Settings:
    """The typed settings of a layer in which everything is valid."""
    roots = merged.roots or {}
    places = {
        **merged.values,
        **{f"roots.{name}": placed for name, placed in roots.items()},
        **{f"contracts[{number}]": placed for number, placed in enumerate(merged.contracts)},
    }
    origin = {key: placed.origin for key, placed in places.items() if placed.file != DEFAULT}
    settings = SETTINGS.from_json(
        joined(SETTINGS, {key: placed.value for key, placed in merged.values.items()})
    )
    return settings._replace(
        roots=tuple(_root(placed) for placed in roots.values()),
        contracts=tuple(_rule(placed) for placed in merged.contracts),
        origin=MappingProxyType(origin),
    )


def _root(placed: Placed) -> Root:
    assert isinstance(placed.value, dict)
    return root_of(placed.value)


def _rule(placed: Placed) -> ContractRule:
    return RULE.from_json(placed.value, named_at=placed)


def _layer(document: Document, start: Start, whole: frozenset[str]) -> tuple[Layer, tuple[Problem, ...]]:
    complaints: list[Complaint] = []
    checked = SETTINGS.check(document.root, (), complaints.append)
    values: dict[str, Placed] = {}
    roots: dict[str, Placed] | None = None
    contracts: list[Placed] = []
    for key, value in checked.items() if isinstance(checked, dict) else ():
        if key == "roots" and isinstance(value, list):
            roots = _roots(document, value, start, complaints)
        elif key == "contracts" and isinstance(value, list):
            contracts = _rules(document, value, start, complaints)
        else:
            shape = SETTINGS.keys[key]
            absolute = shape.with_whole_paths(value, (key,), start, complaints.append)
            # A table without keys has no parts, but that it is there can mean something: [studio].
            for loc, each in parts(shape, absolute, (key,)) if absolute != {} else (((key,), absolute),):
                values[dotted_key(loc)] = _placed(document, each, loc)
    right = {key: value for key, value in values.items() if value.value is not None}
    return Layer(right, roots, whole, tuple(contracts)), document.problems(complaints)


def _roots(
    document: Document, items: Sequence[JsonValue], start: Start, complaints: list[Complaint]
) -> dict[str, Placed]:
    """The roots by name, each with its absolute path; those without either are left out."""
    roots: dict[str, Placed] = {}
    for index, item in enumerate(items):
        loc: Location = ("roots", index)
        root = ROOT.with_whole_paths(item, loc, start, complaints.append)
        if not isinstance(root, dict):
            continue
        path = root.get("path")
        name = root["name"] if "name" in root else _name_of(path, (*loc, "path"), complaints)
        if not isinstance(path, str) or not isinstance(name, str):
            continue
        if name in roots:
            where = "name" if "name" in root else "path"
            message = f"{quoted(name)} is already the name of another root"
            complaints.append(Complaint((*loc, where), message, "give each root a name of its own"))
        else:
            roots[name] = _placed(document, {**root, "name": name, "path": path}, loc)
    return roots


def _rules(
    document: Document, items: Sequence[JsonValue], start: Start, complaints: list[Complaint]
) -> list[Placed]:
    """The rules, each with an absolute `cwd`. Rules without match or playbook are left out."""
    rules: list[Placed] = []
    for index, item in enumerate(items):
        loc: Location = ("contracts", index)
        rule = RULE.with_whole_paths(item, loc, start, complaints.append)
        if (
            isinstance(rule, dict)
            and isinstance(rule.get("match"), dict)
            and rule.get("playbook") is not None
        ):
            rules.append(Placed(rule, document.name, document.place((*loc, "playbook"))))
    return rules


def _name_of(path: JsonValue, loc: Location, complaints: list[Complaint]) -> JsonValue:
    """The last part of a root's path, if that can be a name."""
    if not isinstance(path, str):
        return None
    refused: list[Complaint] = []
    name = ROOT_NAME.check(posixpath.basename(path), loc, refused.append)
    if refused:
        message = f"the last part of {quoted(path)} can't be a name"
        complaints.append(Complaint(loc, message, "give the root a name"))
    return name


def _placed(document: Document, value: JsonValue, loc: Location) -> Placed:
    return Placed(value, document.name, document.place(loc, key=True))


def _variable(variable: str, key: str, text: str) -> Parsed[Document]:
    """The variable as a document with its one key. Texts are taken as they are, everything else is JSON."""
    if isinstance(SETTINGS.keys[key], Text):
        return Parsed(Document(variable, {key: text}, {}))
    from runward.config.document import read_json

    parsed = read_json(text, variable)
    if parsed.value is None:
        return parsed
    return Parsed(Document(variable, {key: parsed.value.root}, {}))


def _perhaps_misspelt(variable: str) -> list[Problem]:
    # Only a warning, and only for what is nearly a name: other programs may use our prefix.
    known = [PREFIX + key.upper() for key in SETTINGS.keys]
    guess = nearest(variable, known, cutoff=0.9)
    if guess is None or variable in OTHER_VARIABLES:
        return []
    message = "no setting has this name"
    return [Problem(variable, None, None, message, f"did you mean {guess}?", severity="warning")]
