"""The last report of each foreign session's hook."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.tables.jobs import Job
from runward.daemon.store.tables.table import Table, Write, answers_by
from runward.daemon.store.transaction import Value, as_float, listed, stored_text
from runward.handlers.model.processes import RecordedProcess, Whereabouts
from runward.handlers.model.sessions import DeclaredToHook, HookDeclaration, HookKind, NoteHook
from runward.handlers.model.stored import Stored, as_json

if TYPE_CHECKING:
    from runward.daemon.store.batch import Batch

NOTE: Final = Write(
    "insert into hooks (session_key, at, kind, ancestors, launcher_session, declared, whereabouts)"
    " values (?, ?, ?, ?, ?, ?, ?)"
    " on conflict (session_key) do update set"
    " at = max(at, excluded.at),"
    " kind = case when excluded.at >= at then excluded.kind else kind end,"
    " ancestors = case when excluded.at >= at and excluded.ancestors <> '[]' then excluded.ancestors else ancestors end,"
    " whereabouts = case when excluded.at >= at and excluded.ancestors <> '[]' then excluded.whereabouts"
    " else whereabouts end,"
    " launcher_session = coalesce(launcher_session, excluded.launcher_session),"
    " declared = coalesce(declared, excluded.declared)"
)

_DECLARED: Final = Stored(HookDeclaration)

_ANCESTORS: Final = Stored(tuple[RecordedProcess, ...])

_WHEREABOUTS: Final = Stored(Whereabouts)

_AGENTS: Final = MappingProxyType({"claude-code": 1, "codex": 0})


class Hook(NamedTuple):
    """What a session's hook said last: when (Unix seconds), what, under which processes, and in which launched run."""

    at: float
    kind: HookKind
    ancestors: tuple[RecordedProcess, ...]
    launcher_session: str | None
    whereabouts: Whereabouts | None = None
    """Where the numbers of these processes are valid; None for what was noted before that was recorded."""

    def callers(self, layout: str) -> tuple[RecordedProcess, ...]:
        """The processes from the hook's parent up to the agent. Claude Code calls hooks through a shell, Codex itself.

        Empty if the agent is not among the ancestors. A shell may have become the hook: then the agent is its parent.
        """
        place = _AGENTS.get(layout)
        return self.ancestors[: place + 1] if place is not None and place < len(self.ancestors) else ()


async def last(store: Store, keys: Iterable[str]) -> dict[str, Hook]:
    """What the hooks of these sessions said last, by session key."""
    rows = await store.read(
        "select session_key, at, kind, cast(ancestors as blob), launcher_session, cast(whereabouts as blob)"
        " from hooks"
        " where session_key in (select value from json_each(?))",
        (listed(keys),),
    )
    return {
        str(key): Hook(
            as_float(at),
            kind,  # type: ignore[arg-type] # the schema's own words
            _ancestors(ancestors),
            None if launcher is None else str(launcher),
            _whereabouts(whereabouts),
        )
        for key, at, kind, ancestors, launcher, whereabouts in rows
    }


async def declarations(store: Store, keys: Iterable[str]) -> dict[str, HookDeclaration]:
    """What was declared for these sessions when their hooks reported their first prompts, by session key."""
    rows = await store.read(
        "select session_key, declared from hooks"
        " where session_key in (select value from json_each(?)) and declared is not null",
        (listed(keys),),
    )
    return {str(key): _DECLARED.load(str(text)) for key, text in rows}


def _ancestors(stored: Value) -> tuple[RecordedProcess, ...]:
    """The processes that a hook ran under; empty if that can't be read."""
    try:
        return _ANCESTORS.load(stored_text(stored))
    except ValueError:
        return ()


def _whereabouts(stored: Value) -> Whereabouts | None:
    """Where a hook ran; None if that was not recorded, or can't be read."""
    try:
        return None if stored is None else _WHEREABOUTS.load(stored_text(stored))
    except ValueError:
        return None


def _note_hook(batch: "Batch", job: Job, effect: NoteHook) -> None:
    ancestors = as_json(effect.ancestors)
    declared = None if effect.declared is None else as_json(effect.declared)
    whereabouts = as_json(effect.whereabouts)
    row = (effect.key, effect.at, effect.kind, ancestors, effect.launcher_session, declared, whereabouts)
    batch.row(NOTE, row)


HOOKS: Final = Table(
    writes=(NOTE,),
    appliers={NoteHook: _note_hook},
    answers={DeclaredToHook: answers_by(declarations, lambda asked: asked.key)},
    goes_with_session=("delete from hooks where session_key = ?",),
)
