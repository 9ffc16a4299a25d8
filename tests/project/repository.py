"""Where the project's own files are, for tests that look at them."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("config", "handlers", "daemon")
_NOT_OURS: Final = frozenset({"build", "dist", "__pycache__", "node_modules"})


def sources(*packages: str) -> Iterator[Path]:
    """The Python files of these packages, of all of them without a name."""
    for package in packages or PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def texts() -> Iterator[Path]:
    """Every text that people may read here: no hidden directory but `.ci`, no link, nothing that was built."""
    for directory, names, files in os.walk(ROOT):
        names[:] = [
            name
            for name in names
            if name not in _NOT_OURS
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name == ".ci")
        ]
        for file in files:
            path = Path(directory, file)
            if not path.is_symlink() and path.suffix not in (".pyc", ".png", ".db"):
                yield path
