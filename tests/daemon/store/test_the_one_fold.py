"""The one fold of a flow's legs, by plain SQL: what else anybody may try, the database refuses."""

import json
import sqlite3

import pytest

from runward.config.json_value import JsonValue

COLUMNS = (
    "key, session_id, layout, root, path, kind, status, attempt, origin, started_at, reason_code,"
    " reason_summary, evidence_refs, artifacts_path, artifact_contract_json, contract_basis"
)
INSERT = f"into sessions ({COLUMNS}) values ('k', 's', 'native', 'runs', '/r', 'agent', 'running', 1, 'live', 1.0, 'c', 's', '[]', '/a', ?, ?)"
FOLD = "update sessions set folded = 1, artifact_contract_json = ?, contract_basis = ?"
REFUSED = "a contract never changes"


def entry(identifier: str, source: str = "role_default", **changed: JsonValue) -> dict[str, JsonValue]:
    named: dict[str, JsonValue] = {"id": identifier, "path": f"{identifier}.md", "required": True}
    return {**named, "description": "", "source": source, **changed}


def contract(*entries: JsonValue) -> str:
    return json.dumps({"expected": list(entries)}, separators=(",", ":"))


OWN = entry("own", "playbook")
OTHER = entry("other", "agent_profile", required=False)
BEFORE = contract(OWN, OTHER)
AFTER = contract(OWN, OTHER, entry("leg__a"), entry("leg__b"))


def opened(store: sqlite3.Connection, text: str | None = BEFORE, basis: str | None = "launcher") -> None:
    store.execute(f"insert {INSERT}", (text, basis))
    store.execute(
        "insert into attempts (session_key, attempt, started_at, status) values ('k', 1, 1.0, 'running')"
    )


def found(store: sqlite3.Connection) -> tuple[str | None, str | None, int]:
    (row,) = store.execute("select artifact_contract_json, contract_basis, folded from sessions").fetchall()
    text, basis, folded = row
    return text, basis, folded


def test_entries_of_legs_are_put_behind_those_that_are_there_once(store: sqlite3.Connection) -> None:
    opened(store)
    store.execute(FOLD, (AFTER, "launcher"))
    assert found(store) == (AFTER, "launcher", 1)
    for again in (AFTER, BEFORE, contract(OWN, OTHER, entry("leg__a"), entry("leg__b"), entry("leg__c"))):
        with pytest.raises(sqlite3.IntegrityError, match=REFUSED):
            store.execute("update sessions set folded = 0, artifact_contract_json = ?", (again,))
        if again != AFTER:
            with pytest.raises(sqlite3.IntegrityError, match=REFUSED):
                store.execute(FOLD, (again, "launcher"))
    assert found(store) == (AFTER, "launcher", 1)


@pytest.mark.parametrize("text", [None, contract(), contract(entry("leg__a"))])
def test_a_session_without_a_contract_may_get_one_by_the_fold(
    store: sqlite3.Connection, text: str | None
) -> None:
    opened(store, None, None)
    store.execute(FOLD, (text, None if text is None else "first_look"))
    assert found(store) == (text, None if text is None else "first_look", 1)


def test_legs_that_are_to_leave_nothing_are_folded_once_as_well(store: sqlite3.Connection) -> None:
    opened(store)
    store.execute(FOLD, (BEFORE, "launcher"))
    with pytest.raises(sqlite3.IntegrityError, match=REFUSED):
        store.execute(FOLD, (AFTER, "launcher"))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{}",
        contract(),
        contract(OWN),
        contract(OTHER, OWN, entry("leg__a")),
        contract(entry("leg__a"), OWN, OTHER),
        contract({**OWN, "required": False}, OTHER, entry("leg__a")),
        contract({**OWN, "path": "easier.md"}, OTHER),
        contract({**OWN, "description": "changed"}, OTHER),
        contract(OWN, {**OTHER, "source": "playbook"}),
        contract(OWN, OTHER, entry("more", "playbook")),
        contract(OWN, OTHER, entry("more", "agent_profile")),
        contract(OWN, OTHER, {"id": "more", "path": "more.md"}),
        contract(OWN, OTHER, "role_default"),
        '{"expected":{"0":1}}',
        AFTER.replace("{", '{"note":1,', 1),
    ],
)
def test_a_fold_changes_nothing_that_was_expected_and_adds_only_what_legs_are_to_leave(
    store: sqlite3.Connection, text: str | None
) -> None:
    opened(store)
    with pytest.raises(sqlite3.DatabaseError):
        store.execute(FOLD, (text, "launcher"))
    assert found(store) == (BEFORE, "launcher", 0)


def test_what_is_no_json_is_no_contract(store: sqlite3.Connection) -> None:
    opened(store, None, None)
    with pytest.raises(sqlite3.DatabaseError):
        store.execute(FOLD, ("{", "late"))
    assert found(store) == (None, None, 0)


@pytest.mark.parametrize(
    ("text", "basis"), [(AFTER, "late"), (AFTER, None), (None, "launcher"), (BEFORE, "first_look")]
)
def test_a_fold_doesnt_change_whose_word_the_contract_is(
    store: sqlite3.Connection, text: str | None, basis: str | None
) -> None:
    opened(store)
    with pytest.raises(sqlite3.IntegrityError):
        store.execute(FOLD, (text, basis))
    assert found(store) == (BEFORE, "launcher", 0)


@pytest.mark.parametrize("basis", [None, "nonsense"])
def test_a_contract_by_the_fold_says_whose_word_it_is(store: sqlite3.Connection, basis: str | None) -> None:
    opened(store, None, None)
    with pytest.raises(sqlite3.IntegrityError):
        store.execute(FOLD, (contract(entry("leg__a")), basis))


@pytest.mark.parametrize(
    "before",
    [
        "update sessions set status = 'completed'",
        "update sessions set attempt = 2",
        "update sessions set origin = 'history'",
        "update attempts set ended_by = 'declared', status = 'completed'",
        "insert into attempts (session_key, attempt, started_at, status) values ('k', 2, 1.0, 'running')",
        "delete from attempts",
    ],
)
def test_legs_are_folded_only_while_the_first_attempt_is_open(store: sqlite3.Connection, before: str) -> None:
    opened(store)
    store.execute(before)
    with pytest.raises(sqlite3.IntegrityError, match=REFUSED):
        store.execute(FOLD, (AFTER, "launcher"))
    assert found(store) == (BEFORE, "launcher", 0)


def test_an_attempt_that_ended_is_not_opened_again_for_a_fold(store: sqlite3.Connection) -> None:
    opened(store)
    store.execute("update attempts set ended_by = 'declared', status = 'completed'")
    store.execute("update sessions set status = 'completed'")
    store.execute("update sessions set status = 'running'")
    with pytest.raises(sqlite3.IntegrityError, match="an attempt ends once"):
        store.execute("update attempts set ended_by = null")
    with pytest.raises(sqlite3.IntegrityError, match=REFUSED):
        store.execute(FOLD, (AFTER, "launcher"))


@pytest.mark.parametrize("how", ["", "or ignore ", "or replace ", "or fail ", "or rollback "])
def test_no_way_to_write_an_update_goes_around_it(store: sqlite3.Connection, how: str) -> None:
    opened(store)
    with pytest.raises(sqlite3.IntegrityError, match=REFUSED):
        store.execute(f"update {how}sessions set artifact_contract_json = ?", (AFTER,))
    assert found(store) == (BEFORE, "launcher", 0)


@pytest.mark.parametrize(
    "cheat",
    [
        f"insert or replace {INSERT}",
        f"replace {INSERT}",
        f"insert {INSERT} on conflict (key) do update set artifact_contract_json = excluded.artifact_contract_json",
    ],
)
def test_no_other_session_is_put_in_its_place(store: sqlite3.Connection, cheat: str) -> None:
    opened(store)
    with pytest.raises(sqlite3.IntegrityError):
        store.execute(cheat, (AFTER, "launcher"))
    assert found(store) == (BEFORE, "launcher", 0)


def test_a_session_with_attempts_is_not_deleted(store: sqlite3.Connection) -> None:
    opened(store)
    with pytest.raises(sqlite3.IntegrityError):
        store.execute("delete from sessions")
