"""The exchange: what is shared, who acts, what was paid, and what was done and why. Content is never shown: it costs."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.daemon.store.reading import LAST
from runward.daemon.store.tables.actions import WantedActions, latest_actions
from runward.daemon.store.tables.ledger import latest_entries
from runward.daemon.store.tables.principals import has_principals, principals
from runward.daemon.store.tables.shared_artifacts import some_artifacts
from runward.daemon.studio.filters import Filters
from runward.daemon.studio.pages import Entry, Pages
from runward.daemon.studio.rendering import PAGE, Room, address, page
from runward.daemon.views.exchange import (
    action_as_json,
    artifact_with_id,
    ledger_as_json,
    listed_artifact,
    shown_artifact,
    shown_principal,
)

_ROOM: Final = 256 << 10
_MOST: Final = 100
"""Methods, and examples of each thing, that a page shows."""
_MOST_FACTS: Final = 20

_NAMES: Final = {"inputSchema": "Input", "outputSchema": "Output", "cost": "Cost", "errors": "Errors"}

T = TypeVar("T")


class Method(NamedTuple):
    """A method: the other fields of its description by name, as text or JSON."""

    name: str
    description: str
    facts: list[tuple[str, str]]
    examples: list[str]


class Interface(NamedTuple):
    """The fields that pages know; the text of those that are absent is empty. `rest` is the JSON of everything else.

    `left_out` says how many methods and examples there are beside those that are shown.
    """

    description: str
    data_type: str
    methods: list[Method]
    examples: list[str]
    rest: str
    left_out: int


def interface_of(artifact: Mapping[str, JsonValue]) -> Interface:
    """The interface of an artifact; a genesis artifact has only methods."""
    room = Room(_ROOM)
    value = artifact.get("interface")
    rest = dict(value) if isinstance(value, dict) else {}
    described, data_type = (_taken(rest, name, str) or "" for name in ("description", "dataType"))
    methods = _taken(rest, "methods", list) or _listed(artifact.get("genesis_methods"))
    examples = _taken(rest, "examples", list) or []
    return Interface(
        description=room.text(described),
        data_type=room.text(data_type),
        methods=[_method(room, each) for each in methods[:_MOST]],
        examples=[room.text(each) for each in examples[:_MOST]],
        rest=room.text(rest, 2) if rest else "",
        left_out=sum(max(0, len(each) - _MOST) for each in (methods, examples)),
    )


def _method(room: Room, value: JsonValue) -> Method:
    if not isinstance(value, dict):
        return Method(room.text(value), "", [], [])
    rest = dict(value)
    name, described = (_taken(rest, key, str) or "" for key in ("name", "description"))
    examples = _taken(rest, "examples", list) or []
    shown = list(rest.items())[:_MOST_FACTS]
    return Method(
        room.text(name or "(no name)"),
        room.text(described),
        [(_NAMES.get(key) or room.text(key), room.text(each)) for key, each in shown],
        [room.text(each) for each in examples[:_MOST]],
    )


def _taken(fields: dict[str, JsonValue], name: str, kind: type[T]) -> T | None:
    """A field of this kind, which is then no longer among the fields. One of another kind stays there."""
    value = fields.get(name)
    return None if not isinstance(value, kind) or fields.pop(name, None) is None else value


def _listed(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else []


_LOG: Final = "log_before"
_LEDGER: Final = "ledger_before"
_ARTIFACTS: Final = "artifacts_after"
_PRINCIPALS: Final = "principals_after"
_FILTERS: Final = ("owner", "type", "deleted", _ARTIFACTS, _PRINCIPALS, _LEDGER, _LOG)
_MOST_ARTIFACTS: Final = 1000
"""Artifacts that are listed of a principal."""
_MOST_NAMES: Final = 2000
"""Characters of who is allowed something."""


class ExchangePages(Pages):
    """The exchange, an artifact, and a principal."""

    entry = Entry("Exchange", "/exchange", lambda connection, _: has_principals(connection))

    def routes(self) -> list[Route]:
        """The lists, one artifact and one principal."""
        return [
            self.route("/exchange", self.listing),
            self.route("/exchange/artifacts/{identifier:path}", self.artifact),
            self.route("/exchange/principals/{name:path}", self.principal),
        ]

    async def listing(self, request: Request) -> Response:
        """Artifacts and principals by their ids, and the newest of the ledger and of the log."""
        given = Filters(request, _FILTERS)
        owner, kind = given.one("owner"), given.one("type")
        with_deleted = given.one("deleted", ("true", "false")) == "true"
        after = {name: given.one(name) or "" for name in (_ARTIFACTS, _PRINCIPALS)}
        ledger_before, log_before = given.number(_LEDGER), given.number(_LOG)
        older: dict[str, str] = {}

        def look(connection: sqlite3.Connection, settings: Settings) -> dict[str, JsonValue]:
            shared = some_artifacts(
                connection, owner, kind, with_deleted=with_deleted, after=after[_ARTIFACTS], limit=PAGE
            )
            acting = principals(
                connection, None, after[_PRINCIPALS], PAGE + 1, most_artifacts=_MOST_ARTIFACTS
            )
            if shared.last is not None:
                older["search" if shared.is_searched else "artifacts"] = address(
                    request, **{_ARTIFACTS: shared.last}
                )
            if len(acting) > PAGE:
                older["principals"] = address(request, **{_PRINCIPALS: acting[PAGE - 1].id})
            return {
                "artifacts": [listed_artifact(connection, each) for each in shared.rows],
                "principals": [shown_principal(connection, each, settings) for each in acting[:PAGE]],
                "ledger": _ledger(request, connection, None, ledger_before, older),
                "log": _log(request, connection, WantedActions(), log_before, older),
            }

        rows = await self.read(request, look)
        return page(request, "exchange.html", rows, older=older, chosen=dict(request.query_params))

    async def artifact(self, request: Request) -> Response:
        """What an artifact says of itself, and what was done with it."""
        identifier = request.path_params["identifier"]
        before = Filters(request, (_LOG,)).number(_LOG)
        older: dict[str, str] = {}

        def look(connection: sqlite3.Connection, _: Settings) -> dict[str, JsonValue] | None:
            shared = artifact_with_id(connection, identifier)
            if shared is None:
                return None
            wanted = WantedActions(artifact=identifier)
            return {
                "artifact": shown_artifact(connection, shared),
                "log": _log(request, connection, wanted, before, older),
            }

        shown = await self.read(request, look)
        if shown is None:
            raise HTTPException(404, f"There is no artifact {identifier} in the exchange.")
        artifact = shown["artifact"]
        assert isinstance(artifact, dict), "our own JSON"
        return page(
            request,
            "exchange_artifact.html",
            shown,
            interface=interface_of(artifact),
            allowed=_allowed(artifact.get("policy")),
            older=older,
        )

    async def principal(self, request: Request) -> Response:
        """What a principal has, what it was paid and paid, and what it did."""
        name = request.path_params["name"]
        given = Filters(request, (_LEDGER, _LOG))
        ledger_before, log_before = given.number(_LEDGER), given.number(_LOG)
        older: dict[str, str] = {}

        def look(connection: sqlite3.Connection, settings: Settings) -> dict[str, JsonValue] | None:
            rows = principals(connection, name, most_artifacts=_MOST_ARTIFACTS)
            if not rows:
                return None
            return {
                "principal": shown_principal(connection, rows[0], settings),
                "ledger": _ledger(request, connection, name, ledger_before, older),
                "log": _log(request, connection, WantedActions(name), log_before, older),
            }

        shown = await self.read(request, look)
        if shown is None:
            raise HTTPException(404, f"There is no principal {name}.")
        return page(request, "exchange_principal.html", shown, older=older)


def _ledger(
    request: Request,
    connection: sqlite3.Connection,
    account: str | None,
    before: int | None,
    older: dict[str, str],
) -> list[JsonValue]:
    """The newest entries, oldest first as the command prints them; and where the older ones are."""
    rows = latest_entries(connection, account, before or LAST, PAGE + 1)
    if len(rows) > PAGE:
        older["ledger"] = address(request, **{_LEDGER: str(rows[1].seq)})
    return ledger_as_json(rows[-PAGE:])


def _log(
    request: Request,
    connection: sqlite3.Connection,
    wanted: WantedActions,
    before: int | None,
    older: dict[str, str],
) -> list[JsonValue]:
    """The same of actions."""
    rows = latest_actions(connection, wanted._replace(before=before or LAST, limit=PAGE + 1))
    if len(rows) > PAGE:
        older["log"] = address(request, **{_LOG: str(rows[1].seq)})
    return [action_as_json(each) for each in rows[-PAGE:]]


def _allowed(policy: JsonValue) -> dict[str, str]:
    """Who may read, write and invoke an artifact, in words."""
    if not isinstance(policy, dict):
        return {}
    return {use: _who(use, policy.get(f"allow_{use}")) for use in ("read", "write", "invoke")}


def _who(use: str, value: JsonValue) -> str:
    room = Room(_MOST_NAMES)
    if isinstance(value, str) and value.startswith("@"):
        return f"as the contract {room.text(value.removeprefix('@'))} decides"
    if use != "write" and value in (["*"], "*"):
        return "everyone"
    if value in ([], ["*"], "*"):
        return "the owner"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return f"the owner, {room.text(', '.join(map(str, value)))}"
    return room.text(value)
