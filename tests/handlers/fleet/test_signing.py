"""A signature of an order covers who orders what from whom, and counts only as it was made."""

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.json_value import JsonValue
from runward.handlers.bundle.signatures import SecretKey, named
from runward.handlers.fleet.signing import Wanted, signed, signer_of

KEY = SecretKey("ed25519", bytes(range(32)))
OTHER = SecretKey("ed25519", bytes(32))
WANTED = Wanted("gpu-box", (), 7200.0, 1.5)
BODY: dict[str, JsonValue] = {
    "name": "train",
    "with": {"data": "one", "x": 1e23, "n": -0.0},
    "timeout": 600.0,
}


def _signed(wanted: Wanted = WANTED, body: dict[str, JsonValue] = BODY) -> dict[str, JsonValue]:
    return signed("laptop", "cr_1-0-1", wanted, body, KEY)


def _signer(
    body: JsonValue, origin: str = "laptop", order: str = "cr_1-0-1", own: str = "gpu-box"
) -> str | None:
    return signer_of(origin, order, body, own)


def test_an_order_is_signed_by_its_key() -> None:
    assert _signer(_signed()) == named(KEY)
    assert _signer(BODY) is None
    assert _signer(signed("laptop", "cr_1-0-1", WANTED, BODY, OTHER)) == named(OTHER)


def test_the_labels_that_are_wanted_are_those_of_any_host() -> None:
    assert _signer(_signed(Wanted(None, ("gpu",), None, 1.0)), own="farm") == named(KEY)


Change = Callable[[dict[str, JsonValue]], object]
CHANGES: dict[str, Change] = {
    "other values": lambda body: body.update({"with": {"data": "two"}}),
    "another skill": lambda body: body.update({"name": "erase"}),
    "a further key": lambda body: body.update({"env": {}}),
    "a longer timeout": lambda body: body.update({"timeout": 601.0}),
    "another time to begin": lambda body: _of(body).update({"begin_within": None}),
    "another time of placing": lambda body: _of(body).update({"placed_at": 9.0}),
    "another host": lambda body: _of(body).update({"host": None}),
    "labels": lambda body: _of(body).update({"labels": ["gpu"]}),
    "a signature of nothing": lambda body: _of(body).update({"signature": f"sig:{named(KEY)}:{'0' * 128}"}),
    "another key's name": lambda body: _of(body).update(
        {"signature": str(_of(body)["signature"]).replace(named(KEY), named(OTHER))}
    ),
    "no signature": lambda body: _of(body).pop("signature"),
    "no object": lambda body: body.update({"signed": []}),
}


def _of(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    said = body["signed"]
    assert isinstance(said, dict)
    return said


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_signature_counts_for_nothing_else(change: Change) -> None:
    body = _signed()
    change(body)
    assert _signer(body) is None


def test_it_counts_for_no_other_origin_order_or_host() -> None:
    body = _signed()
    assert _signer(body, origin="build") is None
    assert _signer(body, order="cr_1-0-2") is None
    assert _signer(body, own="farm") is None


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), _JSON, max_size=4))
def test_it_counts_however_the_body_is_written(values: dict[str, JsonValue]) -> None:
    body = _signed(body={"with": values})
    turned = dict(reversed(json.loads(json.dumps(body, indent=1)).items()))
    assert _signer(turned) == named(KEY)
