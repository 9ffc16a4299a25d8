"""Links between the pages, and to files of the repository, lead somewhere."""

from tests.docs.pages import ROOT, page, pages


def test_the_links_of_a_page_resolve() -> None:
    for each, link in [(linking, link) for linking in pages() for link in linking.links()]:
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (each.path.parent / path).resolve() if path else each.path
        assert target.exists(), f"{each.name}: {link}"
        assert target.is_relative_to(ROOT), f"{each.name}: {link} leads out of the repository"
        if anchor:
            assert anchor in page(str(target.relative_to(ROOT))).anchors(), f"{each.name}: {link}"


def test_every_page_of_the_documentation_is_reached_from_the_first_one() -> None:
    reached: set[str] = set()
    waiting = ["README.md"]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for link in page(name).links():
            target = (ROOT / name).parent / link.partition("#")[0]
            if target.suffix == ".md" and target.exists():
                waiting.append(str(target.resolve().relative_to(ROOT)))
    assert {each.name for each in pages()} == reached


def test_decisions_have_a_number_each_and_their_three_parts() -> None:
    decisions = [each for each in pages() if each.name.startswith("docs/decisions/0")]
    numbers = [int(each.path.name[:4]) for each in decisions]
    assert numbers == sorted(set(numbers))
    for number, each in zip(numbers, decisions, strict=True):
        assert each.text.startswith(f"# {number}. "), each.name
        assert [line for line in each.text.splitlines() if line.startswith("## ")] == [
            "## Context",
            "## Decision",
            "## Consequences",
        ], each.name
