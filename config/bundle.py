"""`[bundle]`: how bundles are made: the form of the hashes, what is cut or redacted, what counts as verification.

Also how their receipts are signed.
"""

import re
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, quoted
from runward.config.shape import Choice, Complain, Glob, ListOf, Shape, Text, WholeNumber
from runward.config.table import Table

CanonicalForm: TypeAlias = Literal["seed", "rfc8785"]
Scheme: TypeAlias = Literal["ed25519", "nostr"]

SCHEMES: Final[tuple[Scheme, ...]] = ("ed25519", "nostr")
ED25519_KEY: Final = re.compile(r"ed25519:[0-9a-f]{64}", re.ASCII)
PUBLIC_KEY: Final = re.compile(r"(ed25519|nostr):[0-9a-f]{64}", re.ASCII)

DEFAULT_VERIFICATION: Final[tuple[str, ...]] = (
    "pytest*",
    "python -m pytest*",
    "python3 -m pytest*",
    "python -m unittest*",
    "python3 -m unittest*",
    "uv run pytest*",
    "tox*",
    "nox*",
    "cargo test*",
    "cargo nextest*",
    "cargo check*",
    "cargo clippy*",
    "go test*",
    "go vet*",
    "jest*",
    "npx jest*",
    "npm test*",
    "npm run test*",
    "yarn test*",
    "pnpm test*",
    "vitest*",
    "npx vitest*",
    "make test*",
    "make check*",
    "mypy*",
    "ruff check*",
)
"""The commands that count as verification unless the settings name others, as globs."""


class _Pattern(Text):
    """A regular expression in RE2's syntax."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        from runward.config.linear_pattern import BadPattern, compiled  # few settings have patterns

        try:
            compiled(text)
        except BadPattern as error:
            complain(Complaint(loc, f"{quoted(text)} is not a regular expression: {error}", "correct it"))
            return None
        return text

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest, "format": "regex"}


class PublicKey(Shape):
    """A public key with its scheme, as `runward receipt key` prints it."""

    def __init__(
        self, description: str, pattern: re.Pattern[str] = PUBLIC_KEY, schemes: str = "ed25519: or nostr:"
    ) -> None:
        super().__init__(description)
        self._pattern, self._schemes = pattern, schemes

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, str) and self._pattern.fullmatch(value):
            return value
        fix = (
            f"write {self._schemes} and 64 lower-case hexadecimal digits (`runward receipt key` prints yours)"
        )
        complain(Complaint(loc, f"{quoted(value)} is not a public key", fix))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": f"^{self._pattern.pattern}$"}


class BundleRules(NamedTuple):
    """How a bundle is made."""

    # The store keeps these rules as an array while a replay grows: a new field goes to the end, and has a default.
    canonical_form: Annotated[
        CanonicalForm,
        Choice("The canonical JSON of every hash in a bundle; its receipt names it.", ("seed", "rfc8785")),
    ] = "seed"
    policy_bundle_id: Annotated[str, Text("The policy that a bundle names if the run names none.", 255)] = (
        "local-dev"
    )
    longest_text: Annotated[
        int,
        WholeNumber(
            "Characters; a longer text in a replay is cut in the middle. Its hash covers the whole text.",
            16,
            16_777_216,
        ),
    ] = 65_536
    verification: Annotated[
        tuple[str, ...],
        ListOf(
            "Globs of the commands that count as verification. Default: the usual test runners and checkers.",
            Glob("A glob of a command.", 1000),
            1000,
        ),
    ] = DEFAULT_VERIFICATION
    redact: Annotated[
        tuple[str, ...],
        ListOf(
            "Regular expressions of secrets, in addition to those that are known by name or shape.",
            _Pattern("A regular expression.", 1000),
            100,
        ),
    ] = ()
    sign: Annotated[
        Scheme | None, Choice("How the daemon signs each receipt. Default: not at all.", SCHEMES)
    ] = None


class Bundle(NamedTuple):
    """How the bundle of a session is made: its replay, its receipt and its summary."""

    rules: Annotated[BundleRules, Table(BundleRules, inlined=True)] = BundleRules()
    authorized_keys: Annotated[
        tuple[str, ...],
        ListOf(
            "Public keys whose signatures count, in addition to the daemon's own.",
            PublicKey("A public key, as `runward receipt key` prints it."),
            1000,
        ),
    ] = ()
