"""`runward.toml`: its keys, the settings in force, and their stored form. The keys of a table are declared by its subject.

Adding a key takes its line here or there, and the file that uses it; `table.py` says what follows from the line.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple

from runward.config.action import ACTIONS, Action
from runward.config.bundle import ED25519_KEY, Bundle, PublicKey
from runward.config.contract_rules import RULE, ContractRule
from runward.config.exchange import ExchangeRules
from runward.config.json_value import JsonValue
from runward.config.listening import Http, Webhooks
from runward.config.notification import NOTIFY, Recipient
from runward.config.prices import PRICES, ModelPrice
from runward.config.problem import Complaint, Location, Problem, Severity, TextError, quoted
from runward.config.root import NATIVE, ROOT, Root
from runward.config.shape import (
    Choice,
    Complain,
    DurationText,
    ListOf,
    Path,
    Share,
    SizeText,
    Text,
    TrueOrFalse,
    UnknownForm,
    WholeNumber,
    described,
)
from runward.config.studio import StudioSettings
from runward.config.table import DEFAULT, Table

_PATH: Final = Path("A path, absolute, from ~, or relative to the directory of this file.")


class Watch(NamedTuple):
    """How changes in the roots are noticed."""

    step: Annotated[int, WholeNumber("Milliseconds without a change before the daemon looks.", 1, 10_000)] = 2
    debounce: Annotated[
        int, WholeNumber("Milliseconds after which the daemon looks in any case.", 1, 10_000)
    ] = 5
    limit_share: Annotated[float, Share("The share of the user's inotify watches that may be used.")] = 0.5


class Scan(NamedTuple):
    """The scan that finds what notifications missed."""

    period: Annotated[float, DurationText("The time between two scans, at least.", 1.0)] = 30.0


class MetricsSettings(NamedTuple):
    """Figures for a collector of metrics."""

    textfile: Annotated[
        str | None,
        Path(
            "A file that the daemon replaces every 15 seconds, for the textfile collector of Prometheus's node_exporter, which"
            " reads names that end in .prom."
        ),
    ] = None


class _HostName(Text):
    """A host's name."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        import re

        from runward.config.fleet import HOST_NAME, HOST_NAME_FIX

        if re.fullmatch(HOST_NAME, text) is None:
            complain(Complaint(loc, f"{quoted(text)} is not the name of a host", HOST_NAME_FIX))
            return None
        return text

    def json_schema(self) -> dict[str, JsonValue]:
        from runward.config.fleet import HOST_NAME

        return {"type": "string", "pattern": f"^{HOST_NAME}$"}


class _Address(Text):
    """The address of a database."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        from runward.config.fleet import database_of

        try:
            database_of(text)
        except TextError as error:
            # Not quoted, since it may contain a secret.
            complain(Complaint(loc, str(error), error.fix))
            return None
        return text


class _Origin(_HostName):
    """A host's name, or all of them."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        return text if text == ANY_HOST else super().meant(text, loc, complain)

    def json_schema(self) -> dict[str, JsonValue]:
        return {"anyOf": [{"const": ANY_HOST}, super().json_schema()]}


ANY_HOST: Final = "*"

_GLOB: Final = Text("A glob over names.", 200)


class _EventName(Text):
    """The name of an event."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        from runward.config.trigger import is_event_name

        if is_event_name(text):
            return text
        complain(Complaint(loc, f"{quoted(text)} is not the name of an event", "as in session.finished"))
        return None


_EVENT: Final = _EventName("The name of an event.", 128)


class Accept(NamedTuple):
    """What this host starts for others. Without such an entry, it starts nothing for anybody."""

    from_: Annotated[
        tuple[str, ...], ListOf("The hosts, or '*' for all.", _Origin("The name of a host, or '*'.", 32), 100)
    ]
    skills: Annotated[tuple[str, ...], ListOf("Globs over this host's playbooks.", _GLOB, 100)] = ()
    actions: Annotated[tuple[str, ...], ListOf("Globs over this host's actions.", _GLOB, 100)] = ()
    allow: Annotated[
        tuple[str, ...],
        ListOf(
            "What an order may bring besides values: variables, which can replace any program, and the directory.",
            Choice("'env' or 'cwd'.", ("env", "cwd")),
            2,
        ),
    ] = ()
    longest: Annotated[float | None, DurationText("Timeouts are cut to this.", 1.0)] = None
    key: Annotated[
        str | None,
        PublicKey("Only orders that this key signed (extra `sign`).", ED25519_KEY, "ed25519:"),
    ] = None
    events: Annotated[
        tuple[str, ...], ListOf("The events of these hosts that may fire chains here, by name.", _EVENT, 100)
    ] = ()

    def is_from(self, origin: str) -> bool:
        """Whether it is about this host."""
        return origin in self.from_ or ANY_HOST in self.from_

    def has(self, origin: str, kind: Literal["skill", "action"], name: str) -> bool:
        """Whether it accepts this playbook or action from this host."""
        globs = self.skills if kind == "skill" else self.actions
        return self.is_from(origin) and any(fnmatchcase(name, glob) for glob in globs)


class FleetSettings(NamedTuple):
    """The fleet that this host reports to. `runward fleet join` writes this table. Without it, nothing is reported."""

    host: Annotated[str, _HostName("This host's name in the fleet, as it was invited.", 32)]
    database: Annotated[
        str,
        _Address(
            "The database that the fleet shares, without a password. It is reached with TLS, whose certificate is checked,"
            " or through a Unix socket.",
            4096,
        ),
    ]
    password_file: Annotated[
        str, Path("A file with the login's password in its first line, which only its owner may read.")
    ]
    ca_file: Annotated[
        str | None,
        Path("A file with the certificates that the database's is checked by. Default: the system's."),
    ] = None
    titles: Annotated[
        bool, TrueOrFalse("Whether prompts, directories and paths of sessions are reported, too.")
    ] = False
    slots: Annotated[
        int, WholeNumber("Steps of other hosts that may run here at the same time.", 0, 1000)
    ] = 2
    accept: Annotated[
        tuple[Accept, ...], ListOf("What this host starts for others.", Table(Accept), 100)
    ] = ()


class Settings(NamedTuple):
    """The settings of Runward (runward.toml).

    Every path is absolute. `contracts` are the rules in the order in which they are tried. `origin` says for each key
    that was set (`state_dir`, `watch.step`, `roots.<name>`, `contracts[0]`, …) where: `file:line` or
    `environment VARIABLE`. `files` are the paths that were read, each with a checksum of what it held; `absent` are the
    places that come before these and had no file.
    """

    state_dir: Annotated[
        str,
        Path(
            "Where Runward keeps its own state. Default: $XDG_STATE_HOME/runward, or ~/.local/state/runward."
        ),
    ]
    playbooks: Annotated[
        tuple[str, ...],
        ListOf("Directories of NAME.playbook.yaml. Default: ['playbooks'].", _PATH, 100),
    ] = ()
    agents: Annotated[
        tuple[str, ...],
        ListOf("Directories of agent profiles, NAME.md or NAME/NAME.md. Default: ['agents'].", _PATH, 100),
    ] = ()
    chains: Annotated[
        tuple[str, ...], ListOf("Directories of chains, NAME.yaml. Default: ['chains'].", _PATH, 100)
    ] = ()
    roots: Annotated[
        tuple[Root, ...],
        ListOf(
            "The directories to watch. Default: <state_dir>/runs, and Claude Code's and Codex's own if they are there.",
            ROOT,
            100,
        ),
    ] = ()
    contracts: Annotated[tuple[ContractRule, ...], ListOf("Playbooks for foreign sessions.", RULE, 1000)] = ()
    batch: Annotated[int, WholeNumber("The most jobs that one turn of the worker takes.", 1, 256)] = 256
    steps_at_once: Annotated[
        int,
        WholeNumber(
            "Steps of chains that may run at the same time; the others wait in firing order.", 1, 1000
        ),
    ] = 16
    retention: Annotated[
        float | None,
        DurationText(
            "How long the record of a session is kept after its end, or 'never' to prune none.",
            3600.0,
            or_never=True,
        ),
    ] = 365 * 86_400.0
    low_disk: Annotated[
        int,
        SizeText(
            "Free space on the disk of state_dir below which no run is looked at; at most a tenth of that disk. "
            "0B: never checked."
        ),
    ] = 256 << 20  # room for a hundred thousand more sessions, and for their pending work
    log_limit: Annotated[
        int,
        SizeText(
            "The most space that each log of a run takes; its beginning and its end are kept. 0B: no limit."
        ),
    ] = 100 << 20
    watch: Annotated[Watch, Table(Watch)] = Watch()
    scan: Annotated[Scan, Table(Scan)] = Scan()
    bundle: Annotated[Bundle, Table(Bundle)] = Bundle()
    actions: Annotated[tuple[Action, ...], ACTIONS] = ()
    notify: Annotated[tuple[Recipient, ...], NOTIFY] = ()
    prices: Annotated[tuple[ModelPrice, ...], PRICES] = ()
    http: Annotated[Http | None, Table(Http, some=True)] = None
    webhooks: Annotated[Webhooks, Table(Webhooks, sparse=True)] = Webhooks()
    exchange: Annotated[ExchangeRules, Table(ExchangeRules)] = ExchangeRules()
    studio: Annotated[StudioSettings | None, Table(StudioSettings)] = None
    metrics: Annotated[MetricsSettings, Table(MetricsSettings)] = MetricsSettings()
    fleet: Annotated[FleetSettings | None, Table(FleetSettings, is_one_value=True)] = None
    origin: Mapping[str, str] = MappingProxyType({})
    files: tuple[tuple[str, int], ...] = ()
    absent: tuple[str, ...] = ()

    def problem(self, key: str, message: str, fix: str, severity: Severity = "error") -> Problem:
        """A complaint about the value of this key, at its place."""
        origin = self.origin.get(key, DEFAULT)
        file, _, line = origin.rpartition(":")
        if file and line.isdigit():
            return Problem(file, int(line), None, message, fix, severity=severity)
        return Problem(origin, None, None, message, fix, severity=severity)

    @property
    def launch_root(self) -> Root | None:
        """Where new native runs go: the first native root."""
        return next((root for root in self.roots if root.layout == NATIVE), None)

    @property
    def github_secret_file(self) -> str | None:
        """The file with the secret that GitHub signs its deliveries with."""
        return None if self.webhooks.github is None else self.webhooks.github.secret_file


SETTINGS: Final = Table(Settings, required=())
"""The whole file."""

USUAL: Final = Settings(state_dir="")
"""The defaults, except those that depend on where the settings file is."""


def settings_schema() -> dict[str, JsonValue]:
    """What `runward.toml` may look like, as JSON Schema."""
    return {"title": "Runward settings", **described(SETTINGS)}


def settings_to_json(settings: Settings) -> dict[str, JsonValue]:
    """The settings as `runward config show --json` prints them: durations are seconds."""
    return SETTINGS.to_json(settings)


def settings_from_json(value: JsonValue) -> Settings | None:
    """The settings that `settings_to_json` wrote. None for what another version of it wrote."""
    if not SETTINGS.has_all_keys(value):
        return None
    try:
        return SETTINGS.from_json(value)
    except UnknownForm:
        return None


def changed_keys(before: Settings, after: Settings) -> list[str]:
    """The keys whose values differ, in tables one by one: `retention`, `watch.step`, `roots`."""
    old, new = settings_to_json(before), settings_to_json(after)
    changed: list[str] = []
    for key, value in new.items():
        other = old[key]
        if value != other and isinstance(value, dict) and isinstance(other, dict):
            inner = dict.fromkeys((*other, *value))
            changed += [f"{key}.{each}" for each in inner if value.get(each) != other.get(each)]
        elif value != other:
            changed.append(key)
    return changed
