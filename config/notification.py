"""`[[notify]]` in the settings: who gets notices, and how."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.action import CommandWords
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, quoted
from runward.config.shape import Complain, Glob, ListOf, Table, Text, TrueOrFalse

Means: TypeAlias = Literal["command", "desktop", "ntfy", "slack", "webhook"]

ADDRESSED: Final = ("ntfy", "slack", "webhook")
"""The kinds of recipients that need an address: in the key, or in a file that the same key with `_file` names."""

CHANNELS: Final = ("command", "desktop", *ADDRESSED)

KINDS: Final = (
    "approval.asked",
    "job.held",
    "chain.quarantined",
    *(f"chain.{status}" for status in ("completed", "failed", "timed_out", "aborted", "cancelled")),
    *(f"session.{status}" for status in ("completed", "failed", "timed_out", "aborted", "cancelled")),
)
"""What notices can be about."""

FILES: Final = (*(f"{each}_file" for each in ADDRESSED), "secret_file")
"""The keys that hold paths."""

_LONGEST: Final = 4096
_MOST: Final = 100


class Recipient(NamedTuple):
    """A recipient, who gets the notices that the globs of `KINDS` in `on` name. Its address is in `address` or
    `address_file`.

    `command` has the words with their templates (`{{ with.title }}`).
    """

    on: tuple[str, ...]
    means: Means
    command: tuple[str, ...] = ()
    address: str | None = None
    address_file: str | None = None
    secret_file: str | None = None

    @property
    def name(self) -> str:
        """Its id: the same for as long as its settings stay as they are, whatever other settings surround them."""
        import hashlib  # loaded only for recipients

        told = "\0".join((*self.command, self.address or "", self.address_file or "", self.secret_file or ""))
        return f"{self.means}-{hashlib.sha256(told.encode()).hexdigest()[:6]}"

    def wants(self, kind: str) -> bool:
        """Whether it gets notices of this kind."""
        from runward.config.glob_rule import text_matches

        return any(text_matches(kind, glob) for glob in self.on)


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
    _check_globs(table.get("on"), (*loc, "on"), complain)


def _check_globs(on: JsonValue, loc: Location, complain: Complain) -> None:
    from runward.config.glob_rule import text_matches

    for index, glob in enumerate(on if isinstance(on, list) else ()):
        if isinstance(glob, str) and not any(text_matches(kind, glob) for kind in KINDS):
            fix = f"one of: {', '.join(KINDS)}, or a glob of them"
            complain(Complaint((*loc, index), f"{quoted(glob)} matches no kind of notice", fix))


_ADDRESS: Final = "The address. Default: the first line of the file that this key with _file names."
_FILE: Final = "A file with the address in its first line, which only its owner may read."

NOTIFY: Final = ListOf(
    "Who is notified, and of what.",
    Table(
        "A recipient, with exactly one way to reach them.",
        {
            "on": ListOf(
                "The kinds of notices that it gets: globs.",
                Glob("As in chain.failed or chain.*.", 255),
                _MOST,
            ),
            "command": CommandWords(
                "A program and its arguments. '{{ with.title }}', '{{ with.text }}', '{{ with.kind }}', "
                "'{{ with.subject }}', '{{ with.id }}' and '{{ with.url }}' stand for the notice."
            ),
            "desktop": TrueOrFalse("Whether notify-send shows it."),
            **{each: Text(_ADDRESS, _LONGEST) for each in ADDRESSED},
            **{f"{each}_file": Text(_FILE, _LONGEST) for each in ADDRESSED},
            "secret_file": Text(
                "A file with the secret (whsec_…) that signs a webhook, which only its owner may read.",
                _LONGEST,
            ),
        },
        required=("on",),
        check_whole=_check_whole,
    ),
    _MOST,
)
"""The shape of `[[notify]]`."""


def recipient_of(value: JsonValue) -> Recipient:
    """The recipient in a valid table."""
    assert isinstance(value, dict)
    on, command = value["on"], value.get("command")
    assert isinstance(on, list)
    means = next(each for each in CHANNELS if each in value or f"{each}_file" in value)
    return Recipient(
        tuple(str(each) for each in on),
        means,  # type: ignore[arg-type] # one of CHANNELS
        tuple(str(word) for word in command) if isinstance(command, list) else (),
        _text(value.get(means)),
        _text(value.get(f"{means}_file")),
        _text(value.get("secret_file")),
    )


def recipient_to_json(recipient: Recipient) -> JsonValue:
    """The recipient as `recipient_of` reads it."""
    told: dict[str, JsonValue] = {"on": list(recipient.on)}
    if recipient.command:
        told["command"] = list(recipient.command)
    elif recipient.means == "desktop":
        told["desktop"] = True
    elif recipient.address is not None:
        told[recipient.means] = recipient.address
    else:
        told[f"{recipient.means}_file"] = recipient.address_file
    if recipient.secret_file is not None:
        told["secret_file"] = recipient.secret_file
    return told


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None
