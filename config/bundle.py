"""`[bundle]`: how bundles are made: the form of the hashes, what is cut or redacted, what counts as verification.

Also how their receipts are signed.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue
from runward.config.linear_pattern import BadPattern, compiled
from runward.config.problem import Complaint, Location, quoted
from runward.config.shape import Choice, Complain, Glob, ListOf, Table, Text, WholeNumber

CanonicalForm: TypeAlias = Literal["seed", "rfc8785"]
Scheme: TypeAlias = Literal["ed25519", "nostr"]

SCHEMES: Final[tuple[Scheme, ...]] = ("ed25519", "nostr")
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


class BundleRules(NamedTuple):
    """How bundles are made. `verification` are globs of commands, `redact` regular expressions of secrets.

    `sign` is how their receipts are signed; None means not at all.
    """

    form: CanonicalForm = "seed"
    policy_bundle_id: str = "local-dev"
    longest_text: int = 65_536
    verification: tuple[str, ...] = DEFAULT_VERIFICATION
    redact: tuple[str, ...] = ()
    sign: Scheme | None = None


class Pattern(NamedTuple):
    """A regular expression in RE2's syntax, of 1 to `longest` characters."""

    description: str
    longest: int

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        text = Text(self.description, self.longest).check(value, loc, complain)
        if not isinstance(text, str):
            return None
        try:
            compiled(text)
        except BadPattern as error:
            complain(Complaint(loc, f"{quoted(text)} is not a regular expression: {error}", "correct it"))
            return None
        return text

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "minLength": 1, "maxLength": self.longest, "format": "regex"}


class PublicKey(NamedTuple):
    """A public key with its scheme, as `runward receipt key` prints it."""

    description: str

    def check(self, value: JsonValue, loc: Location, complain: Complain) -> JsonValue:
        if isinstance(value, str) and PUBLIC_KEY.fullmatch(value):
            return value
        fix = "write ed25519: or nostr: and 64 lower-case hexadecimal digits (`runward receipt key` prints yours)"
        complain(Complaint(loc, f"{quoted(value)} is not a public key", fix))
        return None

    def json_schema(self) -> dict[str, JsonValue]:
        return {"type": "string", "pattern": f"^{PUBLIC_KEY.pattern}$"}


BUNDLE: Final = Table(
    "How the bundle of a session is made: its replay, its receipt and its summary.",
    {
        "canonical_form": Choice(
            "The canonical JSON of every hash in a bundle; its receipt names it. Default: seed.",
            ("seed", "rfc8785"),
        ),
        "policy_bundle_id": Text(
            "The policy that a bundle names if the run names none. Default: local-dev.", 255
        ),
        "longest_text": WholeNumber(
            "Characters; a longer text in a replay is cut in the middle. Its hash covers the whole text. Default: 65536.",
            16,
            16_777_216,
        ),
        "verification": ListOf(
            "Globs of the commands that count as verification. Default: the usual test runners and checkers.",
            Glob("A glob of a command.", 1000),
            1000,
        ),
        "redact": ListOf(
            "Regular expressions of secrets, in addition to those that are known by name or shape.",
            Pattern("A regular expression.", 1000),
            100,
        ),
        "sign": Choice("How the daemon signs each receipt. Default: not at all.", SCHEMES),
        "authorized_keys": ListOf(
            "Public keys whose signatures count, in addition to the daemon's own.",
            PublicKey("A public key, as `runward receipt key` prints it."),
            1000,
        ),
    },
)


def bundle_rules_of(values: Mapping[str, JsonValue]) -> BundleRules:
    """The rules in the checked keys of `[bundle]`."""
    usual = BundleRules()
    form, longest = values.get("canonical_form", usual.form), values.get("longest_text", usual.longest_text)
    assert isinstance(longest, int)
    return BundleRules(
        "rfc8785" if form == "rfc8785" else "seed",
        str(values.get("policy_bundle_id", usual.policy_bundle_id)),
        longest,
        _texts(values.get("verification"), usual.verification),
        _texts(values.get("redact"), usual.redact),
        next((scheme for scheme in SCHEMES if scheme == values.get("sign")), None),
    )


def authorized_keys_of(values: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The keys whose signatures count, by the checked keys of `[bundle]`."""
    return _texts(values.get("authorized_keys"), ())


def bundle_rules_to_json(rules: BundleRules) -> dict[str, JsonValue]:
    """The rules as `runward config show --json` prints them."""
    return {
        "canonical_form": rules.form,
        "policy_bundle_id": rules.policy_bundle_id,
        "longest_text": rules.longest_text,
        "verification": list(rules.verification),
        "redact": list(rules.redact),
        "sign": rules.sign,
    }


def _texts(value: JsonValue, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else otherwise
