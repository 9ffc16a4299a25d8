"""The diagrams of the architecture page that are made from the code's own tables.

`PYTHONPATH=src:. python -m tests.docs.diagrams` writes them into the page, each between its two comments.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final, get_args

from tests.docs.pages import ROOT

from runward.handlers import effects, facts
from runward.handlers.route import HANDLERS
from runward.handlers.sessions.reasons import MEANINGS

PAGE: Final = ROOT / "docs/architecture.md"
_EFFECTS: Final = {kind.__name__ for kind in get_args(effects.Effect)}
_QUESTIONS: Final = {kind.__name__ for kind in facts.QUESTIONS}
# The function behind a handler's name, where it isn't `decide` in the file of that name.
_ENTRIES: Final = {
    "requests/retry": ("requests/queue", "retry"),
    "requests/discard": ("requests/queue", "discard"),
    "requests/scan": ("requests/queue", "scan"),
    "requests/cancel": ("requests/cancel", "cancel"),
    "requests/play": ("requests/play", "run"),
    "requests/prune": ("requests/prune", "prune"),
    "requests/accept": ("requests/accept", "accept"),
    "requests/seen": ("requests/seen", "seen"),
}


def events_to_effects() -> str:
    """From each event by its handlers to the effects that these can order."""
    lines = ["flowchart LR"]
    for event, handlers in HANDLERS.items():
        lines += [f"    {event} --> {_box(handler)}" for handler in handlers]
    for handler in _handlers():
        lines += [
            f"    {_box(handler)} --> {name}([{name}])" for name in sorted(_made_by(handler) & _EFFECTS)
        ]
    return "\n".join(lines)


def handlers_to_questions() -> str:
    """What each handler may have to ask before it can decide."""
    lines = ["flowchart LR"]
    for handler in _handlers():
        lines += [
            f"    {_box(handler)} -. asks .-> {name}" for name in sorted(_made_by(handler) & _QUESTIONS)
        ]
    return "\n".join(lines)


def states_of_a_session() -> str:
    """The states, with the codes of the reasons that lead into each."""
    into: dict[str, list[str]] = {}
    for code in sorted(MEANINGS):
        status = code.split(".")[1]
        into.setdefault("running" if status == "started" else status, []).append(code.split(".")[2])
    ends = sorted(status for status in into if status not in ("running", "unknown"))
    lines = ["stateDiagram-v2", f"    [*] --> running : {', '.join(into['running'])}"]
    lines += [f"    running --> {status} : {', '.join(into[status])}" for status in ends]
    lines += [f"    {status} --> running : the next attempt" for status in ends]
    return "\n".join(lines)


DIAGRAMS: Final[dict[str, Callable[[], str]]] = {
    "events to effects": events_to_effects,
    "handlers to questions": handlers_to_questions,
    "states of a session": states_of_a_session,
}


def written(text: str) -> str:
    """The page with each diagram as the code has it now. Raises `LookupError` where its place is missing."""
    for name, make in DIAGRAMS.items():
        place = re.compile(rf"(<!-- made from the code: {name} -->\n```mermaid\n).*?(```\n)", re.DOTALL)
        if not place.search(text):
            raise LookupError(f"docs/architecture.md has no place for the diagram {name!r}")
        diagram = make()
        text = place.sub(lambda found, diagram=diagram: f"{found[1]}{diagram}\n{found[2]}", text)  # type: ignore[misc] # bound now
    return text


def _handlers() -> Iterator[str]:
    return (handler for handlers in HANDLERS.values() for handler in handlers)


def _box(handler: str) -> str:
    return f'{handler.replace("/", "_")}["{handler}"]'


def _made_by(handler: str) -> set[str]:
    """The names of all that a handler calls, itself or by functions of its own and of other handlers' files."""
    found, open_ones = set[tuple[str, str]](), [_ENTRIES.get(handler, (handler, "decide"))]
    while open_ones:
        module, name = open_ones.pop()
        if (module, name) in found:
            continue
        found.add((module, name))
        tree = _parsed(module)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                brought = _brought(tree)
                open_ones += [brought.get(called, (module, called)) for called in _called(node)]
    return {name for _, name in found}


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse((ROOT / "handlers" / f"{module}.py").read_text())


def _brought(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """What a file imports from others of this package, with where it is from."""
    return {
        name.asname or name.name: (path, name.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("runward.handlers.")
        if (
            ROOT
            / "handlers"
            / f"{(path := str(node.module).removeprefix('runward.handlers.').replace('.', '/'))}.py"
        ).is_file()
        for name in node.names
    }


def _called(tree: ast.AST) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
