"""What is wrong with the parts of an interface that claim to be JSON Schema. It is shown beside the artifact, never refused."""

from collections.abc import Iterator
from typing import Final

from runward.config.json_value import JsonValue

_SCHEMAS: Final = ("inputSchema", "outputSchema")
_DIALECT: Final = "$schema"
_DIALECTS: Final = (
    *(f"http://json-schema.org/draft-0{number}/schema" for number in (4, 6, 7)),
    *(f"https://json-schema.org/draft/{name}/schema" for name in ("2019-09", "2020-12")),
)
"""Known ones: for another, the library would ask the network."""


def interface_problems(interface: JsonValue) -> list[str]:
    """What is wrong, each with its place. An interface is foreign: it may be anything."""
    return [f"{place}: {why}" for place, part in _parts(interface) if (why := _why_no_schema(part))]


def _parts(interface: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    if not isinstance(interface, dict):
        return
    if _DIALECT in interface:
        yield "interface", interface
    yield from ((name, interface[name]) for name in _SCHEMAS if name in interface)
    methods = interface.get("methods")
    for number, method in enumerate(methods if isinstance(methods, list) else ()):
        if isinstance(method, dict):
            yield from ((f"methods[{number}].{name}", method[name]) for name in _SCHEMAS if name in method)


def _why_no_schema(part: JsonValue) -> str | None:
    if not isinstance(part, dict | bool):
        return "is not a JSON Schema: it is neither an object, nor true or false"
    import jsonschema_rs  # few artifacts have schemas

    dialect = part.get(_DIALECT) if isinstance(part, dict) else None
    if dialect is not None and (not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS):
        return f"{_DIALECT} names no known version of JSON Schema"
    try:
        jsonschema_rs.meta.validate(part)
    except jsonschema_rs.ValidationError as error:
        where = "/".join(str(each) for each in error.instance_path)
        return f"is not a JSON Schema: {f'{where}: ' if where else ''}{error.message}"
    return None
