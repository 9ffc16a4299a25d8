"""The settings in force (`runward.toml`, its drop-ins, the environment): read, merged, checked, and their origins."""

import posixpath
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

from runward.config.action import Action, action_of, action_to_json
from runward.config.bundle import BundleRules, authorized_keys_of, bundle_rules_of, bundle_rules_to_json
from runward.config.contract_rules import ContractRule
from runward.config.exchange import ExchangeRules, exchange_rules_of, exchange_rules_to_json
from runward.config.executor import Executor, executor_of, executor_to_json
from runward.config.json_value import JsonValue
from runward.config.listening import HTTP, Http, github_secret_file_of, http_of, http_to_json
from runward.config.notification import Recipient, recipient_of, recipient_to_json
from runward.config.problem import Parsed, Problem, Severity, has_errors
from runward.config.root_rules import OWN_ROOTS, misplaced_roots
from runward.config.settings_keys import (
    DEFAULT_BATCH,
    DEFAULT_DEBOUNCE_MS,
    DEFAULT_LAYOUT,
    DEFAULT_LIMIT_SHARE,
    DEFAULT_LOG_LIMIT,
    DEFAULT_LOW_DISK,
    DEFAULT_RETENTION_S,
    DEFAULT_SCAN_PERIOD_S,
    DEFAULT_SETTLE_S,
    DEFAULT_STEP_MS,
    DEFAULT_STEPS_AT_ONCE,
)
from runward.config.settings_layers import (
    DEFAULT,
    Layer,
    Placed,
    Source,
    layer_of_file,
    layers_of_environment,
    merge_layers,
)
from runward.config.shape import NEVER
from runward.config.studio import StudioSettings, studio_of, studio_to_json

__all__ = [
    "ContractRule",
    "Root",
    "Scan",
    "Settings",
    "Source",
    "Watch",
    "changed_keys",
    "read_settings",
    "settings_from_json",
    "settings_to_json",
]


_BUNDLE = "bundle."
_EXCHANGE = "exchange."
_EXECUTOR = "exchange.executor."
_STUDIO = "studio."


class Root(NamedTuple):
    """A directory that the daemon watches. `path` is absolute; `ignore` are globs of names.

    `settle`, `stale_after` and `start_within` are seconds, and only for other tools' sessions: the quiet time before
    an end in a growing file counts, the silence that ends a session whose end can't be detected, and how long a
    session may take to write its first line (None: no limit). `bundle` says whether live sessions get one."""

    name: str
    path: str
    layout: str = DEFAULT_LAYOUT
    history: Literal["live", "record"] = "live"
    ignore: tuple[str, ...] = ()
    settle: float = DEFAULT_SETTLE_S
    stale_after: float | None = None
    start_within: float | None = None
    bundle: bool = True


class Watch(NamedTuple):
    """How changes are noticed: quiet time and longest wait (milliseconds), and the share of inotify watches to take."""

    step: int = DEFAULT_STEP_MS
    debounce: int = DEFAULT_DEBOUNCE_MS
    limit_share: float = DEFAULT_LIMIT_SHARE


class Scan(NamedTuple):
    """The periodic scan: at least `period` seconds apart."""

    period: float = DEFAULT_SCAN_PERIOD_S


class Settings(NamedTuple):
    """All settings in force; every path is absolute.

    `retention` are the seconds for which the record of a session is kept after its end, None: forever.
    `low_disk` are the bytes that must be free on the disk of `state_dir` before runs are looked at.
    `log_limit` are the bytes that each log of a run may take, 0 for no limit.
    `contracts` are the rules in the order in which they are tried. `origin` says for each key (`state_dir`,
    `watch.step`, `roots.<name>`, `contracts[0]`, …) where it was set: `file:line`, `environment VARIABLE` or `default`.
    `files` are the paths that were read, each with a checksum of what it held; `absent` are the places that come
    before these and had no file.
    """

    state_dir: str
    playbooks: tuple[str, ...]
    agents: tuple[str, ...]
    roots: tuple[Root, ...]
    batch: int = DEFAULT_BATCH
    retention: float | None = DEFAULT_RETENTION_S
    low_disk: int = DEFAULT_LOW_DISK
    log_limit: int = DEFAULT_LOG_LIMIT
    watch: Watch = Watch()
    scan: Scan = Scan()
    contracts: tuple[ContractRule, ...] = ()
    origin: Mapping[str, str] = MappingProxyType({})
    files: tuple[tuple[str, int], ...] = ()
    absent: tuple[str, ...] = ()
    chains: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    notify: tuple[Recipient, ...] = ()
    steps_at_once: int = DEFAULT_STEPS_AT_ONCE
    bundle: BundleRules = BundleRules()
    http: Http | None = None
    github_secret_file: str | None = None
    exchange: ExchangeRules = ExchangeRules()
    executor: Executor = Executor()
    authorized_keys: tuple[str, ...] = ()
    studio: StudioSettings | None = None

    def problem(self, key: str, message: str, fix: str, severity: Severity = "error") -> Problem:
        """A complaint about the value of this key, at its place."""
        origin = self.origin.get(key, DEFAULT)
        file, _, line = origin.rpartition(":")
        if file and line.isdigit():
            return Problem(file, int(line), None, message, fix, severity)
        return Problem(origin, None, None, message, fix, severity)

    @property
    def launch_root(self) -> Root | None:
        """Where new native runs go: the first native root."""
        return next((root for root in self.roots if root.layout == "native"), None)


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
        layer, found = layer_of_file(source, home)
        layers.append(layer)
        problems.extend(found)
    of_environment, found_there = layers_of_environment(environment, working_directory, home)
    layers.extend(of_environment)
    problems.extend(found_there)
    merged = _with_defaults(merge_layers(layers), _defaults(sources, environment, home), agents)
    state_dir = None if has_errors(problems) else merged.values["state_dir"]
    problems.extend(misplaced_roots(merged.roots or {}, state_dir))
    return Parsed(None if has_errors(problems) else _settings(merged), tuple(problems))


def settings_to_json(settings: Settings) -> JsonValue:
    """The settings as `runward config show --json` prints them: durations are seconds."""
    roots: list[JsonValue] = [
        {
            "name": root.name,
            "path": root.path,
            "layout": root.layout,
            "history": root.history,
            "ignore": list(root.ignore),
            "settle": root.settle,
            "stale_after": root.stale_after,
            "start_within": root.start_within,
            "bundle": root.bundle,
        }
        for root in settings.roots
    ]
    return {
        "state_dir": settings.state_dir,
        "playbooks": list(settings.playbooks),
        "agents": list(settings.agents),
        "chains": list(settings.chains),
        "roots": roots,
        "contracts": [{"match": dict(rule.match), "playbook": rule.playbook} for rule in settings.contracts],
        "batch": settings.batch,
        "steps_at_once": settings.steps_at_once,
        "retention": settings.retention,
        "low_disk": settings.low_disk,
        "log_limit": settings.log_limit,
        "watch": {
            "step": settings.watch.step,
            "debounce": settings.watch.debounce,
            "limit_share": settings.watch.limit_share,
        },
        "scan": {"period": settings.scan.period},
        "bundle": {
            **bundle_rules_to_json(settings.bundle),
            "authorized_keys": list(settings.authorized_keys),
        },
        "actions": {each.name: action_to_json(each) for each in settings.actions},
        "notify": [recipient_to_json(each) for each in settings.notify],
        "http": http_to_json(settings.http),
        "webhooks": _webhooks_to_json(settings.github_secret_file),
        "exchange": {
            **exchange_rules_to_json(settings.exchange),
            "executor": executor_to_json(settings.executor),
        },
        "studio": studio_to_json(settings.studio),
    }


def changed_keys(before: Settings, after: Settings) -> list[str]:
    """The keys whose values differ, in tables one by one: `retention`, `watch.step`, `roots`."""
    old, new = settings_to_json(before), settings_to_json(after)
    assert isinstance(old, dict), "our own JSON"
    assert isinstance(new, dict), "our own JSON"
    changed: list[str] = []
    for key, value in new.items():
        other = old[key]
        if value != other and isinstance(value, dict) and isinstance(other, dict):
            inner = dict.fromkeys((*other, *value))
            changed += [f"{key}.{each}" for each in inner if value.get(each) != other.get(each)]
        elif value != other:
            changed.append(key)
    return changed


def settings_from_json(value: JsonValue) -> Settings | None:
    """The settings that `settings_to_json` wrote. None for what another version of it wrote."""
    match value:
        case {
            "state_dir": str(state_dir),
            "playbooks": list(playbooks),
            "agents": list(agents),
            "chains": list(chains),
            "roots": list(roots),
            "contracts": list(contracts),
            "batch": int(batch),
            "steps_at_once": int(steps_at_once),
            "retention": int() | float() | None as retention,
            "low_disk": int(low_disk),
            "log_limit": int(log_limit),
            "watch": {"step": int(step), "debounce": int(debounce), "limit_share": int() | float() as share},
            "scan": {"period": int() | float() as period},
            "actions": dict(actions),
            "notify": list(notify),
            "bundle": dict(bundle),
            "http": dict() | None as http,
            "webhooks": dict(webhooks),
            "exchange": dict(exchange),
            "studio": dict() | None as studio,
        }:
            return Settings(
                state_dir,
                _texts(playbooks),
                _texts(agents),
                tuple(_root(root) for root in roots),
                batch,
                retention,
                low_disk,
                log_limit,
                Watch(step, debounce, share),
                Scan(period),
                tuple(_rule(Placed(rule, DEFAULT)) for rule in contracts),
                chains=_texts(chains),
                actions=tuple(action_of(name, each) for name, each in actions.items()),
                notify=tuple(recipient_of(each) for each in notify),
                steps_at_once=steps_at_once,
                bundle=bundle_rules_of(bundle),
                http=http_of(http or {}),
                github_secret_file=github_secret_file_of(webhooks.get("github")),
                exchange=exchange_rules_of(exchange),
                executor=executor_of(exchange.get("executor")),
                authorized_keys=authorized_keys_of(bundle),
                studio=None if studio is None else studio_of(studio),
            )
        case _:
            return None


def _webhooks_to_json(github_secret_file: str | None) -> JsonValue:
    return {} if github_secret_file is None else {"github": {"secret_file": github_secret_file}}


def _defaults(sources: Sequence[Source], environment: Mapping[str, str], home: str) -> Mapping[str, Placed]:
    """Playbooks and agents are next to the settings file, or where the user's file would be."""
    base = (
        sources[0].base if sources else f"{_base_directory(environment, 'CONFIG', home, '.config')}/runward"
    )
    values: dict[str, JsonValue] = {
        "state_dir": f"{_base_directory(environment, 'STATE', home, '.local/state')}/runward",
        "playbooks": [posixpath.join(base, "playbooks")],
        "agents": [posixpath.join(base, "agents")],
        "chains": [posixpath.join(base, "chains")],
        "batch": DEFAULT_BATCH,
        "steps_at_once": DEFAULT_STEPS_AT_ONCE,
        "retention": DEFAULT_RETENTION_S,
        "low_disk": DEFAULT_LOW_DISK,
        "log_limit": DEFAULT_LOG_LIMIT,
        "watch.step": DEFAULT_STEP_MS,
        "watch.debounce": DEFAULT_DEBOUNCE_MS,
        "watch.limit_share": DEFAULT_LIMIT_SHARE,
        "scan.period": DEFAULT_SCAN_PERIOD_S,
        "notify": [],
        **{f"{_BUNDLE}{key}": value for key, value in bundle_rules_to_json(BundleRules()).items()},
        f"{_BUNDLE}authorized_keys": [],
        **{f"{_EXCHANGE}{key}": value for key, value in exchange_rules_to_json(ExchangeRules()).items()},
        **{f"{_EXECUTOR}{key}": value for key, value in executor_to_json(Executor()).items()},
    }
    return {key: Placed(value, DEFAULT) for key, value in values.items()}


def _base_directory(environment: Mapping[str, str], kind: str, home: str, below_home: str) -> str:
    """`$XDG_<KIND>_HOME`. As the XDG specification says, a relative one is ignored."""
    declared = environment.get(f"XDG_{kind}_HOME", "")
    return declared.rstrip("/") if declared.startswith("/") else f"{home.rstrip('/')}/{below_home}"


def _with_defaults(merged: Layer, defaults: Mapping[str, Placed], agents: Mapping[str, str]) -> Layer:
    """The written settings over the defaults. Without roots: the native one in the state directory, and tools' own.

    A tool's directory that overlaps another root is left out: nobody wrote it, so nobody could fix it.
    """
    values = {**defaults, **merged.values}
    if merged.roots is not None:
        return merged._replace(values=values)
    state_dir = values["state_dir"]
    path = f"{state_dir.value}/{OWN_ROOTS}"
    roots = {OWN_ROOTS: Placed({"name": OWN_ROOTS, "path": path}, DEFAULT)}
    for layout, sessions in agents.items():
        root = Placed({"name": layout, "path": sessions, "layout": layout}, DEFAULT)
        if not any(misplaced_roots({**roots, layout: root}, state_dir)):
            roots[layout] = root
    return merged._replace(values=values, roots=roots)


def _settings(merged: Layer) -> Settings:
    """The typed settings of a layer in which everything is valid."""
    values = {key: placed.value for key, placed in merged.values.items()}
    roots = merged.roots or {}
    origin = {key: placed.origin for key, placed in merged.values.items()}
    origin |= {f"roots.{name}": placed.origin for name, placed in roots.items()}
    origin |= {f"contracts[{number}]": placed.origin for number, placed in enumerate(merged.contracts)}
    return Settings(
        state_dir=str(values["state_dir"]),
        playbooks=_texts(values["playbooks"]),
        agents=_texts(values["agents"]),
        roots=tuple(_root(placed.value) for placed in roots.values()),
        chains=_texts(values["chains"]),
        batch=int(_number(values["batch"])),
        steps_at_once=int(_number(values["steps_at_once"])),
        retention=None if values["retention"] == NEVER else _number(values["retention"]),
        low_disk=int(_number(values["low_disk"])),
        log_limit=int(_number(values["log_limit"])),
        watch=Watch(
            step=int(_number(values["watch.step"])),
            debounce=int(_number(values["watch.debounce"])),
            limit_share=_number(values["watch.limit_share"]),
        ),
        scan=Scan(period=_number(values["scan.period"])),
        contracts=tuple(_rule(placed) for placed in merged.contracts),
        actions=tuple(
            action_of(key.removeprefix("actions."), each)
            for key, each in values.items()
            if key.startswith("actions.")
        ),
        notify=tuple(recipient_of(each) for each in _list(values["notify"])),
        bundle=bundle_rules_of(_below(_BUNDLE, values)),
        authorized_keys=authorized_keys_of(_below(_BUNDLE, values)),
        http=http_of({key: values.get(f"http.{key}") for key in HTTP.keys}),
        github_secret_file=github_secret_file_of(values.get("webhooks.github")),
        exchange=exchange_rules_of(_below(_EXCHANGE, values)),
        executor=executor_of(_below(_EXECUTOR, values)),
        studio=studio_of(_below(_STUDIO, values))
        if any(f"{key}.".startswith(_STUDIO) for key in values)
        else None,
        origin=MappingProxyType(origin),
    )


def _root(value: JsonValue) -> Root:
    assert isinstance(value, dict)
    layout = str(value.get("layout", DEFAULT_LAYOUT))
    usual = "live" if layout == DEFAULT_LAYOUT else "record"
    stale_after, start_within = value.get("stale_after"), value.get("start_within")
    return Root(
        name=str(value["name"]),
        path=str(value["path"]),
        layout=layout,
        history="record" if value.get("history", usual) == "record" else "live",
        ignore=_texts(value.get("ignore", [])),
        settle=_number(value.get("settle", DEFAULT_SETTLE_S)),
        stale_after=None if stale_after is None else _number(stale_after),
        start_within=None if start_within is None else _number(start_within),
        bundle=value.get("bundle") is not False,
    )


def _rule(placed: Placed) -> ContractRule:
    assert isinstance(placed.value, dict)
    match = placed.value["match"]
    assert isinstance(match, dict)
    globs = {key: str(glob) for key, glob in match.items()}
    return ContractRule(str(placed.value["playbook"]), **globs, named_at=placed)


def _list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


def _below(prefix: str, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The keys with this prefix, without it."""
    return {key.removeprefix(prefix): each for key, each in values.items() if key.startswith(prefix)}


def _texts(value: JsonValue) -> tuple[str, ...]:
    assert isinstance(value, list)
    return tuple(str(item) for item in value)


def _number(value: JsonValue) -> float:
    assert isinstance(value, int | float)
    return value
