"""What every template has in common."""

from jinja2 import nodes

from runward.daemon.studio import rendering


def test_every_filter_that_a_template_uses_exists() -> None:
    environment = rendering._templates()
    loader = environment.loader
    assert loader is not None
    for name in environment.list_templates():
        if not name.endswith(".html"):
            continue
        source, _, _ = loader.get_source(environment, name)
        used = {each.name for each in environment.parse(source).find_all(nodes.Filter)}
        assert used <= set(environment.filters), name
