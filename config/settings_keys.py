"""The keys of `runward.toml`: what each may hold, and which ones this version doesn't support yet."""

from types import MappingProxyType
from typing import Final

from runward.config.action import ACTIONS
from runward.config.bundle import BUNDLE
from runward.config.duration import MAX_DURATION_S
from runward.config.executor import EXCHANGE
from runward.config.listening import HTTP, WEBHOOKS
from runward.config.notification import NOTIFY
from runward.config.shape import (
    Choice,
    DurationText,
    Glob,
    ListOf,
    Shape,
    Share,
    SizeText,
    Table,
    Text,
    TrueOrFalse,
    WholeNumber,
)
from runward.config.studio import STUDIO

PLAYBOOK_SUFFIX: Final = ".playbook.yaml"
"""What the files of playbooks end with."""

DEFAULT_LAYOUT: Final = "native"

FOREIGN_LAYOUTS: Final = ("ctcp", "adjutant", "lionagi", "show", "claude-code", "codex")
"""The layouts of other tools: the values for a rule of `[[contracts]]`."""

AUTO: Final = "auto"
"""The layout of a root in which the layout of each session of another tool is recognised separately."""

LAYOUTS: Final = (DEFAULT_LAYOUT, AUTO, *FOREIGN_LAYOUTS)
"""What a root's layout may be."""

FOREIGN_ROOT_KEYS: Final = ("settle", "stale_after", "start_within")
"""The keys of a root that only apply to other tools' layouts."""

DEFAULT_SETTLE_S: Final = 2.0
DEFAULT_BATCH: Final = 256
DEFAULT_STEPS_AT_ONCE: Final = 16
DEFAULT_STEP_MS: Final = 2
DEFAULT_DEBOUNCE_MS: Final = 5
DEFAULT_LIMIT_SHARE: Final = 0.5
DEFAULT_SCAN_PERIOD_S: Final = 30.0
DEFAULT_LOW_DISK: Final = 256 << 20
"""Bytes: room for a hundred thousand more sessions, and for their pending work."""

DEFAULT_RETENTION_S: Final = 365 * 86_400.0

DEFAULT_LOG_LIMIT: Final = 100 << 20
"""Bytes of each log of a run."""

_LONGEST_PATH = 4096
_MOST_DIRECTORIES = 100
_MOST_ROOTS = 100
_MOST_RULES = 1000
_LONGEST_GLOB = 4096

_PATH: Final = Text("A path, absolute, from ~, or relative to the directory of this file.", _LONGEST_PATH)

PATHS: Final = ("state_dir", "playbooks", "agents", "chains")
"""Top-level keys that hold a path or a list of them."""

ROOT_NAME: Final = Text(
    "The root's name, unique; part of its sessions' keys. Default: the last part of its path.", 100, "/:#"
)

_ROOT: Final = Table(
    "A directory that the daemon watches, with the runs in it.",
    {
        "name": ROOT_NAME,
        "path": Text(
            "The directory: absolute, from ~, or relative to the directory of this file.", _LONGEST_PATH
        ),
        "layout": Choice(
            "How the runs in it are written; 'auto' recognises each foreign session by its files. Default: native.",
            LAYOUTS,
        ),
        "history": Choice(
            "What happens to runs that ended before the root was first seen: 'live' judges them like any other, "
            "'record' only records their status. Default: live for native roots, record for other tools'.",
            ("live", "record"),
        ),
        "ignore": ListOf(
            "Run directories to ignore, as globs of their names; for transcripts, also names of directories above them.",
            Glob("A glob of one name.", 255, forbidden="/"),
            100,
        ),
        "settle": DurationText(
            "How long a growing file of a foreign session must not change before an end in it counts. Default: 2s.",
            0.1,
        ),
        "stale_after": DurationText(
            "The silence after which a foreign session is ended, if it is not known whether its process is alive. "
            "Default: never.",
            1.0,
        ),
        "start_within": DurationText(
            "How long a foreign session may take to write its first line if it is not known "
            "whether its process is alive. Default: no limit.",
            1.0,
        ),
        "bundle": TrueOrFalse(
            "Whether each live session gets a bundle: replay, receipt and summary. Default: true."
        ),
    },
    required=("path",),
)

_RULE: Final = Table(
    "Which playbook applies to which foreign sessions. The first rule that matches counts.",
    {
        "match": Table(
            "What a session must say about itself: everything named here must match. Case matters.",
            {
                "layout": Glob("A glob of the session's layout.", _LONGEST_GLOB),
                "cwd": Glob(
                    "A glob of the session's working directory: absolute, from ~, relative to the directory of "
                    "this file, or beginning with **/ for anywhere. DIR/** is DIR and all below it.",
                    _LONGEST_GLOB,
                    of_path=True,
                ),
                "agent": Glob("A glob of the agent's name.", _LONGEST_GLOB),
                "prompt": Glob("A glob of the whole first prompt; * is anything in it.", _LONGEST_GLOB),
            },
            some=True,
        ),
        "playbook": Text("The playbook's name.", 255, "/"),
    },
    required=("match", "playbook"),
)

_WATCH: Final = Table(
    "How changes in the roots are noticed.",
    {
        "step": WholeNumber("Milliseconds without a change before the daemon looks. Default: 5.", 1, 10_000),
        "debounce": WholeNumber(
            "Milliseconds after which the daemon looks in any case. Default: 5.", 1, 10_000
        ),
        "limit_share": Share("The share of the user's inotify watches that may be used. Default: 0.5."),
    },
)

_SCAN: Final = Table(
    "The scan that finds what notifications missed.",
    {"period": DurationText("The time between two scans, at least. Default: 30s.", 1.0)},
)

_KEYS: Final[dict[str, Shape]] = {
    "state_dir": Text(
        "Where Runward keeps its own state. Default: $XDG_STATE_HOME/runward, or ~/.local/state/runward.",
        _LONGEST_PATH,
    ),
    "playbooks": ListOf(
        "Directories of NAME.playbook.yaml. Default: ['playbooks'].", _PATH, _MOST_DIRECTORIES
    ),
    "agents": ListOf(
        "Directories of agent profiles, NAME.md or NAME/NAME.md. Default: ['agents'].",
        _PATH,
        _MOST_DIRECTORIES,
    ),
    "chains": ListOf("Directories of chains, NAME.yaml. Default: ['chains'].", _PATH, _MOST_DIRECTORIES),
    "roots": ListOf(
        "The directories to watch. Default: <state_dir>/runs, and Claude Code's and Codex's own if they are there.",
        _ROOT,
        _MOST_ROOTS,
    ),
    "contracts": ListOf("Playbooks for foreign sessions.", _RULE, _MOST_RULES),
    "batch": WholeNumber("The most jobs that one turn of the worker takes. Default: 256.", 1, 256),
    "steps_at_once": WholeNumber(
        "Steps of chains that may run at the same time; the others wait in firing order. Default: 16.",
        1,
        1000,
    ),
    "retention": DurationText(
        "How long the record of a session is kept after its end, or 'never' to prune none. Default: 365d.",
        3600.0,
        or_never=True,
        longest=MAX_DURATION_S,
    ),
    "low_disk": SizeText(
        "Free space on the disk of state_dir below which no run is looked at; at most a tenth of that disk. "
        "0B: never checked. Default: 256MB."
    ),
    "log_limit": SizeText(
        "The most space that each log of a run takes; its beginning and its end are kept. 0B: no limit. Default: 100MB."
    ),
    "watch": _WATCH,
    "scan": _SCAN,
    "bundle": BUNDLE,
    "actions": ACTIONS,
    "notify": NOTIFY,
    "http": HTTP,
    "webhooks": WEBHOOKS,
    "exchange": EXCHANGE,
    "studio": STUDIO,
}

SETTINGS: Final = Table("The settings of Runward (runward.toml).", MappingProxyType(_KEYS))
"""The whole file."""
