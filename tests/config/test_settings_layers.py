import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.settings_layers import Layer, merge_layers
from runward.config.shape import resolve_path
from runward.config.table import Placed

dotted_keys = st.sampled_from(["batch", "agents", "watch.step", "watch.debounce"])
tops = st.sampled_from(["batch", "agents", "watch", "roots", "contracts"])
placed = st.integers(0, 9).map(lambda number: Placed(number, "f", (number + 1, 1)))
layers = st.builds(
    Layer,
    values=st.dictionaries(dotted_keys, placed, max_size=4),
    roots=st.none() | st.dictionaries(st.sampled_from("abc"), placed, max_size=3),
    whole=st.frozensets(tops, max_size=2),
    contracts=st.lists(placed, max_size=2).map(tuple),
)


def merged_as_nested_tables(all_layers: list[Layer]) -> dict[str, object]:
    """The rule over plain dicts: replaced keys go, tables and roots are updated, contracts put first, the rest is set."""
    model: dict[str, dict[str, object]] = {}
    for layer in all_layers:
        for top in layer.whole:
            model.pop(top, None)
        for key, value in layer.values.items():
            top, _, inner = key.partition(".")
            model.setdefault(top, {})[inner] = value
        if layer.roots is not None:
            model.setdefault("roots", {}).update(layer.roots)
        model["contracts"] = {"all": (*layer.contracts, *model.get("contracts", {}).get("all", ()))}  # type: ignore[misc] # it is a tuple
    return dict(model)


@given(st.lists(layers, max_size=4))
def test_layers_merge_as_plain_tables_do(all_layers: list[Layer]) -> None:
    merged = merge_layers(all_layers)
    model = merged_as_nested_tables(all_layers)
    assert merged.roots == model.pop("roots", None)
    assert merged.contracts == model.pop("contracts", {"all": ()})["all"]  # type: ignore[index] # it is a dict
    nested: dict[str, dict[str, object]] = {}
    for key, value in merged.values.items():
        top, _, inner = key.partition(".")
        nested.setdefault(top, {})[inner] = value
    assert nested == model


def test_a_replaced_root_keeps_its_position() -> None:
    first, second, third = (Placed(number, "f") for number in range(3))
    merged = merge_layers([Layer(roots={"a": first, "b": second}), Layer(roots={"a": third})])
    assert merged.roots is not None
    assert list(merged.roots.items()) == [("a", third), ("b", second)]


@pytest.mark.parametrize(
    ("path", "resolved"),
    [
        ("a", "/base/a"),
        ("./a/../b/", "/base/b"),
        ("/x//y", "/x/y"),
        ("//x", "/x"),
        ("~", "/home/me"),
        ("~/a", "/home/me/a"),
        ("a/~", "/base/a/~"),
        ("../../..", "/"),
    ],
)
def test_a_path_is_resolved_by_its_text_alone(path: str, resolved: str) -> None:
    assert resolve_path(path, "/base", "/home/me") == resolved


@pytest.mark.parametrize(
    ("value", "origin"),
    [
        (Placed(1, "/a.toml", (3, 1)), "/a.toml:3"),
        (Placed(1, "RUNWARD_BATCH"), "environment RUNWARD_BATCH"),
        (Placed(1, "default"), "default"),
    ],
)
def test_a_value_knows_where_it_was_set(value: Placed, origin: str) -> None:
    assert value.origin == origin
