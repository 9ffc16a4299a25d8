"""The tables and diagrams of the pages that are made from the code.

`PYTHONPATH=src:. python -m tests.docs.made_from_code` writes each between its two comments.
"""

import ast
import inspect
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from tests.bench.measurements import MEASUREMENTS
from tests.bench.report import page_table
from tests.docs.pages import ROOT

from runward.daemon.hooks.events import SINCE
from runward.daemon.hooks.programs import Version, name_of
from runward.handlers.layouts import native
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.model.chains import RUN_STATUSES, STEP_STATUSES
from runward.handlers.model.reasons import MEANINGS
from runward.handlers.registry import EFFECTS, EVENTS, QUESTIONS
from runward.handlers.route import HANDLERS, ROUTES

Status = TypeVar("Status", bound=str)
_EFFECTS: Final = {kind.__name__ for kind in EFFECTS}
_QUESTIONS: Final = {kind.__name__ for kind in QUESTIONS}
_DECIDES: Final = {route.handler: route.decide for route in ROUTES}
"""Each handler's name, with its function."""


def folders() -> str:
    """Each folder of the packages, with what its docstring says. Those of the command's nouns are left out."""
    lines = ["| folder | what it is for |", "| -- | -- |"]
    for package in ("config", "handlers", "daemon"):
        for path in sorted((ROOT / package).rglob("__init__.py")):
            name = str(path.parent.relative_to(ROOT))
            if name != "daemon" and not name.startswith("daemon/cli/"):
                lines.append(f"| `{name}/` | {_cell(_docstring(path))} |")
    return "\n".join(lines)


def _layers(package: str) -> str:
    """The order of the rooms of a package, as import-linter checks it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (ordered,) = (each for each in contracts if package in each.get("containers", ()))
    return "\n".join(["```text", *(each.replace(" | ", "  ") for each in ordered["layers"]), "```"])


def events() -> str:
    """Each event, with its key and its handlers."""
    lines = ["| event | key | what happened | handlers |", "| -- | -- | -- | -- |"]
    for kind in EVENTS.values():
        name = kind.__name__
        handlers = ", ".join(f"`{handler}`" for handler in HANDLERS[name])
        lines.append(f"| `{name}` | {_key(kind)} | {_cell(kind.__doc__)} | {handlers} |")
    return "\n".join(lines)


def handlers() -> str:
    """Each handler, with what it decides, may ask and may order."""
    lines = ["| handler | takes | what it decides | asks | orders |", "| -- | -- | -- | -- | -- |"]
    for event, names in HANDLERS.items():
        for handler in names:
            made = _made_by(handler)
            columns = (
                f"`{handler}`",
                f"`{event}`",
                _cell(_DECIDES[handler].__doc__),
                _names(made & _QUESTIONS),
                _names(made & _EFFECTS),
            )
            lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def effects_table() -> str:
    """Each effect, with what it orders."""
    kinds = sorted(EFFECTS, key=lambda kind: kind.__name__)
    rows = [f"| `{kind.__name__}` | {_cell(kind.__doc__)} |" for kind in kinds]
    return "\n".join(["| effect | what it orders |", "| -- | -- |", *rows])


def questions() -> str:
    """Each question, with its answer."""
    lines = ["| question | what is asked | answer |", "| -- | -- | -- |"]
    for kind in sorted(QUESTIONS, key=lambda kind: kind.__name__):
        asked, _, answer = " ".join((kind.__doc__ or "").split("\n\n")[0].split()).partition(" Answer: ")
        asked = asked.removeprefix("Question: ").rstrip(".?")
        lines.append(f"| `{kind.__name__}` | {_escaped(asked)} | {_escaped(answer.rstrip('.'))} |")
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


def _what_shows_a_layout() -> str:
    shown_by = [(each.name, each.shown_by) for each in (*LAYOUTS.logs, *LAYOUTS.directories)]
    rows = [f"| `{name}` | {shown} |" for name, shown in (*shown_by, (native.LAYOUT, native.SHOWN_BY))]
    return "\n".join(["| layout | what its file or directory has |", "| -- | -- |", *rows])


def _hooks() -> str:
    """Each agent's events, with the versions that know them."""
    lines = ["| agent | events, with the first version that is known to call them |", "| -- | -- |"]
    for agent, since in SINCE.items():
        by_version: dict[Version, list[str]] = {}
        for event, version in since.items():
            by_version.setdefault(version, []).append(f"`{event}`")
        shown = (", ".join(events) + _of_version(version) for version, events in by_version.items())
        lines.append(f"| {name_of(agent)} | {'; '.join(shown)} |")
    return "\n".join(lines)


def _of_version(version: Version) -> str:
    """A version in brackets; nothing for that before all others."""
    return f" ({'.'.join(map(str, version))})" if any(version) else ""


def _states(table: Mapping[Status, tuple[Status, ...]], first: Sequence[str]) -> str:
    """A state diagram of a table of statuses. What may stay as it is has no arrow to itself."""
    lines = ["```mermaid", "stateDiagram-v2", *(f"    [*] --> {status}" for status in first)]
    lines += [f"    {status} --> {each}" for status in table for each in table[status] if each != status]
    return "\n".join([*lines, "```"])


PARTS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "layers": ("docs/architecture.md", lambda: _layers("runward.daemon")),
    "layers of handlers": ("docs/architecture.md", lambda: _layers("runward.handlers")),
    "what shows a layout": ("docs/layouts.md", _what_shows_a_layout),
    "hooks": ("docs/hooks.md", _hooks),
    "folders": ("docs/reference.md", folders),
    "events": ("docs/reference.md", events),
    "handlers": ("docs/reference.md", handlers),
    "effects": ("docs/reference.md", effects_table),
    "questions": ("docs/reference.md", questions),
    "states of a chain run": ("docs/chains.md", lambda: _states(RUN_STATUSES, ("running",))),
    "states of a step": (
        "docs/chains.md",
        lambda: _states(STEP_STATUSES, ("waiting", "waiting_approval", "skipped", "running")),
    ),
    "figures": ("docs/performance.md", lambda: page_table(MEASUREMENTS)),
    "states of a session": ("docs/sessions.md", lambda: f"```mermaid\n{states_of_a_session()}\n```"),
}
"""What is made from the code (and from what `make bench` recorded): its name, the page that it stands on, and how it is made."""

PAGES: Final = tuple(sorted({page for page, _ in PARTS.values()}))


def written(page: str, text: str) -> str:
    """The page with each part as the code has it now. Raises `LookupError` where a part's place is missing."""
    for name, (at, make) in PARTS.items():
        if at != page:
            continue
        place = re.compile(rf"(<!-- made from the code: {name} -->\n).*?(<!-- end -->\n)", re.DOTALL)
        if not place.search(text):
            raise LookupError(f"{page} has no place for {name!r}")
        part = make()
        text = place.sub(lambda found, part=part: f"{found[1]}{part}\n{found[2]}", text)  # type: ignore[misc] # bound now
    return text


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


def _names(found: set[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(found)) or "-"


def _cell(text: str | None) -> str:
    """The first paragraph of a docstring, up to the end of its first sentence."""
    paragraph = " ".join((text or "").split("\n\n")[0].split())
    return _escaped(re.split(r"(?<=[a-z)`])\.(?:\s|$)", paragraph, maxsplit=1)[0])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _key(kind: type) -> str:
    """The pattern of an event's key, from the text that computes it."""
    made = getattr(kind, "key", None)
    if not isinstance(made, property) or made.fget is None:
        return "the inbox file's name"
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(made.fget))).body
    assert isinstance(function, ast.FunctionDef)
    (returned,) = (node.value for node in ast.walk(function) if isinstance(node, ast.Return))
    if not isinstance(returned, ast.JoinedStr):
        assert isinstance(returned, ast.Attribute)
        assert returned.attr == "request"
        return "the inbox file's name"
    pieces = [
        str(each.value) if isinstance(each, ast.Constant) else f"<{ast.unparse(each).strip('{}')}>"
        for each in returned.values
    ]
    return _escaped(f"`{''.join(pieces).replace('self.', '')}`")


def _made_by(handler: str) -> set[str]:
    """The names of all that a handler calls, itself or by functions of its own and of other handlers' files."""
    decides = _DECIDES[handler]
    module = decides.__module__.removeprefix("runward.handlers.").replace(".", "/")
    found, open_ones = set[tuple[str, str]](), [(module, decides.__name__)]
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


@cache
def _brought(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """What a file imports from others of this package, with where it is from."""
    return {
        name.asname or name.name: (path, name.name)
        for node in ast.walk(tree)
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
    for name in PAGES:
        (ROOT / name).write_text(written(name, (ROOT / name).read_text()))
