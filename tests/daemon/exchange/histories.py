"""Random histories of an exchange: several principals act at once, in runs and for people, and people mint."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from hypothesis import strategies as st

FROM_THE_BEGINNING: Final = ("a", "b", "c")
"""Principals that a person creates first. `d` becomes one with its first intent, or when somebody spawns it."""

IN_RUNS: Final = ("a", "b", "d")
FOR_PEOPLE: Final = ("a", "b", "c", "nobody")
OFTEN: Final = ("x", "y")
SELDOM: Final = ("z", "a", "d", "X", "D", "mint", "genesis_ledger", "genesis_contract_public", "genesis_none")
OWNERS: Final = ("a", "b", "c", "d", "nobody", "mint")
CODES: Final = ("succeed 0.5", "succeed 0.25", "fail 0.5", "succeed 2")
"""Code that stands for code: what becomes of it, and the CPU time that it takes (seconds)."""


class Act(NamedTuple):
    """Somebody wants something done. `intent` is None where the text is not an intent."""

    who: str
    in_run: bool
    text: str
    intent: Mapping[str, Any] | None


class Mint(NamedTuple):
    """A person makes scrip, or takes it back."""

    who: str
    amount: int


Round: TypeAlias = tuple[list[Mint], list[Act], float]
"""What happens at the same time, and the seconds until the next."""

WRONG: Final = (
    "nonsense",
    "[]",
    "{}",
    '{"action_type": "fly"}',
    '{"action_type": "transfer", "artifact_id": "x", "to": "a"}',
    '{"action_type": "read_artifact"}',
    '{"action_type": "read_artifact", "artifact_id": ""}',
    '{"action_type": "read_artifact", "artifact_id": 7}',
    '{"action_type": "read_artifact", "artifact_id": "x", "artifact_id": "y"}',
    '{"action_type": "write_artifact", "artifact_id": "x", "price": -1}',
    '{"action_type": "write_artifact", "artifact_id": "x", "price": 1.5}',
    '{"action_type": "write_artifact", "artifact_id": "x", "executable": true, "price": 1}',
    '{"action_type": "write_artifact", "artifact_id": "x", "executable": true, "code": "succeed 1"}',
    '{"action_type": "write_artifact", "artifact_id": "x", "policy": []}',
    '{"action_type": "write_artifact", "artifact_id": "x", "depends_on": "y"}',
    '{"action_type": "invoke_artifact", "artifact_id": "x"}',
    '{"action_type": "invoke_artifact", "artifact_id": "x", "method": "run", "args": {}}',
    '{"action_type": "invoke_artifact", "artifact_id": "x", "method": "run", "budget": -1}',
    '{"action_type": "transfer_artifact", "artifact_id": "x"}',
    '{"action_type": "noop", "id": "\\ud800"}',
    '{"action_type": "noop", "budget": NaN}',
)
"""What is not an intent."""


def mostly(*weighted: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of these, each as often as its weight says."""
    places = [place for place, (weight, _) in enumerate(weighted) for _ in range(weight)]
    return st.sampled_from(places).flatmap(lambda place: weighted[place][1])


_allowed = st.sampled_from((["*"], ["*"], "*", "*", [], ["b"], ["b", "c"], ["d"], "@x", 7, None))
_policies = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "read_price": st.sampled_from((1, 0, 4, 7, 9, 2, 3, -1)),
        "invoke_price": st.sampled_from((2, 0, 5, 1, 3, 4, True)),
        "allow_read": _allowed,
        "allow_write": st.sampled_from((["a", "b", "c"], ["*"], [], "*", ["b"], ["d"], "@x", "@")),
        "allow_invoke": _allowed,
    },
)
_ids = mostly((6, st.sampled_from(OFTEN)), (1, st.sampled_from(SELDOM)))
_writes = st.fixed_dictionaries(
    {"action_type": st.sampled_from(("write_artifact", "Write_Artifact")), "artifact_id": _ids},
    optional={
        "content": st.sampled_from(
            ("text", "", "ü", "twenty-four characters..", "more than anyone's quota" * 3)
        ),
        "policy": _policies,
        "depends_on": st.lists(_ids, max_size=1) | st.just(["y", "z"]),
        "price": st.integers(0, 5),
        "access_contract_id": st.sampled_from((None, None, None, "x")),
    },
)
_code = st.fixed_dictionaries(
    {
        "action_type": st.just("write_artifact"),
        "artifact_id": _ids,
        "executable": st.just(True),
        "code": st.sampled_from(CODES),
        "price": st.integers(0, 5),
    },
    optional={"interface": st.just({"methods": ["other"]}), "depends_on": st.lists(_ids, max_size=1)},
)
_uses = st.fixed_dictionaries(
    {
        "action_type": st.sampled_from(
            ("read_artifact", "read_artifact", "read_artifact", "delete_artifact")
        ),
        "artifact_id": _ids,
    }
)
_gifts = st.fixed_dictionaries(
    {"action_type": st.just("transfer_artifact"), "artifact_id": _ids, "to": st.sampled_from(OWNERS)}
)
_invocations = st.fixed_dictionaries(
    {
        "action_type": st.just("invoke_artifact"),
        "artifact_id": _ids,
        "method": st.sampled_from(("run", "run", "run", "run", "other", "missing")),
    },
    optional={"budget": st.integers(0, 3)},
)


def _calls(artifact: str, method: str, *args: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    said = {"action_type": "invoke_artifact", "artifact_id": artifact, "method": method}
    return st.tuples(*args).map(lambda values: {**said, "args": list(values)})


_owners = st.sampled_from(OWNERS)
_genesis = st.one_of(
    _calls("genesis_ledger", "transfer", _owners, _owners | _ids, st.integers(-1, 12)),
    _calls("genesis_ledger", "transfer_ownership", _ids, _owners),
    _calls(
        "genesis_ledger", "spawn_principal", st.sampled_from(("d", "D", "e", "x", "mint", "genesis_none"))
    ),
    _calls("genesis_ledger", "balance", _owners | _ids),
    _calls("genesis_ledger", "all_balances"),
    _calls("genesis_store", "get", _ids),
    _calls("genesis_store", "count"),
    _calls("genesis_store", "list_by_owner", _owners),
    _calls("genesis_store", "list_principals"),
)
_noops = st.fixed_dictionaries(
    {"action_type": st.just("noop")}, optional={"principal_id": st.sampled_from(("a", "b"))}
)
_intents: st.SearchStrategy[Mapping[str, Any]] = mostly(
    (3, _writes), (4, _code), (6, _uses), (2, _gifts), (9, _invocations), (3, _genesis), (1, _noops)
)


def _payments(who: str) -> st.SearchStrategy[Mapping[str, Any]]:
    """Payments that may succeed."""
    return _calls("genesis_ledger", "transfer", st.just(who), _owners | _ids, st.integers(1, 12))


def act(who: str, in_run: bool, **intent: Any) -> Act:
    return Act(who, in_run, json.dumps(intent), intent)


BEGINNING: Final[Round] = (
    [],
    [
        act(
            "a", True, action_type="write_artifact", artifact_id="x", executable=True, code=CODES[0], price=2
        ),
        act("b", True, action_type="write_artifact", artifact_id="y", content="y", policy={"read_price": 3}),
    ],
    1.0,
)
"""Something to use."""


@st.composite
def _acts(draw: st.DrawFn) -> Act:
    in_run = draw(st.booleans())
    who = draw(st.sampled_from(IN_RUNS if in_run else FOR_PEOPLE))
    if draw(st.integers(0, 19)) == 7:
        return Act(who, in_run, draw(st.sampled_from(WRONG)), None)
    intent = draw(_payments(who) if draw(st.integers(0, 9)) == 7 else _intents)
    return Act(who, in_run, json.dumps(intent), intent)


def histories(rounds: int) -> st.SearchStrategy[list[Round]]:
    """Histories of so many rounds at most."""
    mints = st.lists(
        st.builds(Mint, st.sampled_from((*FROM_THE_BEGINNING, "d")), st.integers(-6, 6).filter(bool)),
        max_size=1,
    )
    one = st.tuples(mints, st.lists(_acts(), min_size=3, max_size=12), st.sampled_from((0.0, 1.0, 61.0)))
    return st.lists(one, min_size=2, max_size=rounds).map(lambda those: [BEGINNING, *those])
