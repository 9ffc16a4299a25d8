"""What pages have of the code's own tables is what the code has now."""

import pytest
from tests.docs.made_from_code import PAGES, PARTS, written
from tests.docs.pages import ROOT


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_tables_that_the_code_makes(page: str) -> None:
    text = (ROOT / page).read_text()
    assert written(page, text) == text, (
        "write them anew: PYTHONPATH=src:. python -m tests.docs.made_from_code"
    )


@pytest.mark.parametrize("name", PARTS)
def test_a_table_has_more_than_a_few_rows_and_no_empty_cell(name: str) -> None:
    _, make = PARTS[name]
    lines = make().splitlines()
    assert len(lines) > 5
    assert [line for line in lines if "|  |" in line] == []


def test_a_page_without_a_place_for_a_table_is_named() -> None:
    with pytest.raises(LookupError, match=r"docs/reference\.md has no place for 'folders'"):
        written("docs/reference.md", "# Reference\n")
