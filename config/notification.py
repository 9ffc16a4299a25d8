"""`[[notify]]` in the settings: who gets notices, and how."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from runward.config.action import CommandWords
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, quoted
from runward.config.shape import Complain, DurationText, Glob, ListOf, Path, Text, TrueOrFalse
from runward.config.table import Table

Means: TypeAlias = Literal["command", "desktop", "ntfy", "slack", "webhook"]

ADDRESSED: Final = ("ntfy", "slack", "webhook")
"""The kinds of recipients that need an address: in the key, or in a file that the same key with `_file` names."""

CHANNELS: Final = ("command", "desktop", *ADDRESSED)

WAITING: Final = "session.waiting"
OVERDUE: Final = "attention.overdue"

ENDED: Final = ("completed", "failed", "timed_out", "aborted", "cancelled")
"""How sessions and chain runs end."""

KINDS: Final = (
    "approval.asked",
    WAITING,
    OVERDUE,
    "job.held",
    "chain.quarantined",
    *(f"chain.{status}" for status in ENDED),
    *(f"session.{status}" for status in ENDED),
)
"""What notices can be about."""


def _check_whole(table: Mapping[str, JsonValue], loc: Location, complain: Complain) -> None:
    named = [each for each in CHANNELS if each in table or f"{each}_file" in table]
    doubled = [each for each in ADDRESSED if each in table and f"{each}_file" in table]
    if len(named) != 1 or doubled:
        fix = "write [[notify]] once for each"
        complain(Complaint(loc, f"must have exactly one of {', '.join(CHANNELS)}", fix))
    if table.get("desktop") is False:
        complain(Complaint((*loc, "desktop"), "must be true", "leave the entry out"))
    if "secret_file" in table and named != ["webhook"]:
        complain(Complaint((*loc, "secret_file"), "belongs to a webhook", "leave it out", at_key=True))
    for each in ADDRESSED:
        address = table.get(each)
        if isinstance(address, str) and not address.startswith(("http://", "https://")):
            fix = "write the whole address, as in https://ntfy.sh/TOPIC"
            complain(Complaint((*loc, each), f"{quoted(address)} is not an address", fix))
    on = table.get("on")
    _check_globs(on, (*loc, "on"), complain)
    if "after" in table and not _names(on, OVERDUE):
        fix = f'add "{OVERDUE}" to on, or leave it out'
        complain(Complaint((*loc, "after"), f"belongs to {OVERDUE}", fix, at_key=True))


def _names(on: JsonValue, kind: str) -> bool:
    from runward.config.glob_rule import text_matches

    return any(
        isinstance(each, str) and text_matches(kind, each) for each in (on if isinstance(on, list) else ())
    )


def _check_globs(on: JsonValue, loc: Location, complain: Complain) -> None:
    from runward.config.glob_rule import text_matches

    for index, glob in enumerate(on if isinstance(on, list) else ()):
        if isinstance(glob, str) and not any(text_matches(kind, glob) for kind in KINDS):
            fix = f"one of: {', '.join(KINDS)}, or a glob of them"
            complain(Complaint((*loc, index), f"{quoted(glob)} matches no kind of notice", fix))


def _file(what: str) -> Path:
    return Path(f"A file with {what}, which only its owner may read.")


_Address: TypeAlias = Annotated[
    str | None,
    Text("The address. Default: the first line of the file that this key with _file names.", 4096),
]
_AddressFile: TypeAlias = Annotated[str | None, _file("the address in its first line")]


USUAL_AFTER_S: Final = 3600.0
"""Seconds for which something must have needed a person before it is overdue, unless `after` says otherwise."""


class Recipient(NamedTuple):
    """A recipient, with exactly one way to reach them."""

    on: Annotated[
        tuple[str, ...],
        ListOf("The kinds of notices that it gets: globs.", Glob("As in chain.failed or chain.*.", 255), 100),
    ]
    command: Annotated[
        tuple[str, ...],
        CommandWords(
            "A program and its arguments. '{{ with.title }}', '{{ with.text }}', '{{ with.kind }}', "
            "'{{ with.subject }}', '{{ with.id }}', '{{ with.url }}' and '{{ with.cost }}' stand for the notice."
        ),
    ] = ()
    desktop: Annotated[bool | None, TrueOrFalse("Whether notify-send shows it.")] = None
    ntfy: _Address = None
    slack: _Address = None
    webhook: _Address = None
    ntfy_file: _AddressFile = None
    slack_file: _AddressFile = None
    webhook_file: _AddressFile = None
    secret_file: Annotated[str | None, _file("the secret (whsec_…) that signs a webhook")] = None
    after: Annotated[
        float | None,
        DurationText("How long something must have needed a person to be overdue. Default: 1h.", 1.0),
    ] = None

    @property
    def means(self) -> Means:
        """How it is reached."""
        if self.command:
            return "command"
        if self.ntfy or self.ntfy_file:
            return "ntfy"
        if self.slack or self.slack_file:
            return "slack"
        return "webhook" if self.webhook or self.webhook_file else "desktop"

    @property
    def address(self) -> str | None:
        """Its address, unless that is in a file."""
        return self.ntfy or self.slack or self.webhook

    @property
    def address_file(self) -> str | None:
        """The file with its address."""
        return self.ntfy_file or self.slack_file or self.webhook_file

    @property
    def name(self) -> str:
        """Its id: the same for as long as its settings stay as they are, whatever other settings surround them."""
        import hashlib  # loaded only for recipients

        # Owed notices are stored under it, so it must not depend on anything that may change without changing who gets them.
        reached = (*self.command, self.address or "", self.address_file or "", self.secret_file or "")
        digest = hashlib.sha256("\0".join(reached).encode()).hexdigest()
        return f"{self.means}-{digest[:6]}"

    def wants(self, kind: str) -> bool:
        """Whether it gets notices of this kind."""
        from runward.config.glob_rule import text_matches

        return any(text_matches(kind, glob) for glob in self.on)


NOTIFY: Final = ListOf(
    "Who is notified, and of what.", Table(Recipient, sparse=True, check_whole=_check_whole), 100
)
"""The shape of `[[notify]]`."""
