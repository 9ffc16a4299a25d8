"""The figures for a collector, as Prometheus's own client reads them."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from tests.daemon.cli.calling import Place
from tests.daemon.cli.conftest import place
from tests.daemon.cli.test_usage import Used

from runward.config.json_value import JsonValue
from runward.daemon.store.tables.usage import OTHERS, Tokens
from runward.daemon.views import metrics
from runward.daemon.views.metrics import FIGURES, lines_of, tokens_lines
from runward.daemon.views.text import visible

__all__ = ["place"]

TOKENS: Final = "runward_usage_tokens_total"


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The values, by the names and the values of the labels. Each metric has its help and its type, once."""
    found: dict[tuple[str, ...], float] = {}
    families = list(text_string_to_metric_families(text))
    assert len({each.name for each in families}) == len(families)
    for family in families:
        assert family.documentation
        assert family.type in ("gauge", "counter")
        for each in family.samples:
            key = (each.name, *each.labels.values())
            assert key not in found
            found[key] = each.value
    return found


def printed(place: Place) -> dict[tuple[str, ...], float]:
    return samples(place.call("metrics").out)


def test_the_figures_are_those_of_status(place: Place) -> None:
    with place.daemon():
        place.add_run("one", exit_code=0)
        assert place.call("session", "wait", "one").code == 0
        told = printed(place)
    assert told["runward_up",] == 1
    assert told["runward_sessions", "completed"] == 1
    assert told["runward_jobs", "held"] == 0
    assert told["runward_approvals_waiting",] == 0
    assert told["runward_fences_refused_total",] == 0
    assert printed(place)["runward_up",] == 0


def test_a_store_that_was_never_made_has_figures_too(place: Place) -> None:
    assert printed(place)["runward_up",] == 0


def test_every_figure_has_its_place_in_the_status(place: Place) -> None:
    status = place.call("status", "--json").object()
    names = [each.name for each in FIGURES]
    assert len(set(names)) == len(names)
    for figure in FIGURES:
        assert figure.at[0] in status
        assert figure.name.endswith("_total") == (figure.type == "counter")
    lag: JsonValue = {
        "event_to_verdict_p50_s": 0.05,
        "event_to_verdict_p99_s": 1.5,
        "awaited_p50_s": None,
        "awaited_p99_s": None,
    }
    told = samples(
        "".join(lines_of({**status, "lag": lag, "degraded": ["a", "b"], "since": "1970-01-01T00:00:07.000Z"}))
    )
    assert told["runward_event_to_verdict_seconds", "0.99"] == 1.5
    assert told["runward_degraded",] == 2
    assert told["runward_start_time_seconds",] == 7
    assert not [key for key in told if key[0] == "runward_awaited_event_to_verdict_seconds"]


def test_a_label_can_not_end_its_line_or_its_quotes() -> None:
    evil = 'a"} 1\nrunward_up 0\\'
    told = samples("".join(lines_of({"sessions": {evil: 1}, "running": True})))
    assert told == {("runward_up",): 1, ("runward_sessions", evil): 1}


@given(st.dictionaries(st.text(min_size=1), st.tuples(*[st.integers(0, 1 << 60)] * 4), max_size=5))
def test_whatever_a_model_is_called_its_samples_are_its_own(models: dict[str, tuple[int, ...]]) -> None:
    told = samples("".join(tokens_lines({model: Tokens(*counts) for model, counts in models.items()})))
    expected: dict[tuple[str, ...], int] = {}
    for model, counts in models.items():
        for kind, count in zip(("input", "cache_read", "cache_write", "output"), counts, strict=True):
            key = (TOKENS, visible(model), kind)
            expected[key] = expected.get(key, 0) + count
    assert told == expected


def test_models_whose_names_look_the_same_are_one_sample() -> None:
    one = Tokens(1, 2, 3, 4)
    told = samples("".join(tokens_lines({"": one, "?": one, "a\x01": one, "a\\u0001": one})))
    assert {key[1]: value for key, value in told.items() if key[2] == "output"} == {"?": 8, "a\\u0001": 8}


@pytest.fixture
def used(place: Place) -> Used:
    made = Used(place.directory / "used")
    made.directory.mkdir()
    made.fill()
    return made


def of_models(place: Place) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in printed(place).items() if key[0] == TOKENS}


def test_tokens_are_those_that_a_naive_reader_counts(used: Used) -> None:
    expected: dict[tuple[str, ...], float] = {}
    for each in used.replies:
        written = each.cache_write_5m + each.cache_write_1h
        for kind, count in (
            ("input", each.fresh_input),
            ("cache_read", each.cache_read),
            ("cache_write", written),
            ("output", each.output),
        ):
            key = (str(each.model), kind)
            expected[key] = expected.get(key, 0) + count
    assert of_models(used) == expected


def test_what_a_pruned_session_used_stays_counted_and_is_shown_nowhere_else(used: Used) -> None:
    before = of_models(used)
    assert used.call("prune", "--older-than", "1h").code == 0
    used.daemon_once()
    assert used.rows("select count(*) from tombstones") == [(4,)]
    assert of_models(used) == before
    total = used.call("usage", "--since", "1970-01-01", "--json").object()["total"]
    assert isinstance(total, dict)
    assert total["replies"] == 0


def test_models_that_are_too_many_are_counted_together_and_keep_their_names(
    used: Used, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = sum(of_models(used).values())
    monkeypatch.setattr(metrics, "MOST_MODELS", 2)
    first = of_models(used)
    for number in range(3):
        used.change_store(
            "insert into usage values (9999999, 's', ?, 'standard', 0, 0, 1, 1000, 0, 0, 0, 0, null)",
            f"m{number}",
        )
    others: dict[tuple[str, ...], float] = {
        (OTHERS, "input"): 3000.0,
        (OTHERS, "cache_read"): 0.0,
        (OTHERS, "cache_write"): 0.0,
    }
    assert of_models(used) == {**first, **others, (OTHERS, "output"): 0.0}
    assert sum(first.values()) == total
