"""The architecture page's diagrams are those of the code."""

import pytest
from tests.docs.diagrams import DIAGRAMS, PAGE, written


def test_the_page_has_the_diagrams_that_the_code_makes() -> None:
    text = PAGE.read_text()
    assert written(text) == text, "write them anew: PYTHONPATH=src:. python -m tests.docs.diagrams"


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_has_an_arrow_for_more_than_one_thing(name: str) -> None:
    assert DIAGRAMS[name]().count("->") > 5


def test_a_page_without_a_place_for_a_diagram_is_told_of() -> None:
    with pytest.raises(LookupError, match="events to effects"):
        written("# Architecture\n")
