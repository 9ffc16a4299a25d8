"""The layer rule, and what keeps handlers pure: by their imports, by their text, and by the machine itself."""

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.project.repository import PACKAGES, ROOT, parsed, sources

LINTER = Path(sys.executable).with_name("lint-imports")
IMPURE = frozenset(
    {
        "anyio", "apscheduler", "asyncio", "glob", "http", "io", "logging", "multiprocessing", "os", "pathlib",
        "random", "secrets", "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "structlog", "subprocess",
        "sys", "tempfile", "threading", "time", "urllib", "uuid", "watchfiles",
    }
)  # fmt: skip
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__", "breakpoint"})
CLOCKS = frozenset({"now", "utcnow", "today", "time_ns", "monotonic", "perf_counter"})


def lint(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINTER, "--no-cache", "--config", "pyproject.toml"],
        cwd=project,
        env={
            "PYTHONPATH": str(project / "src"),
            "PATH": "/usr/bin:/bin",
            "HOME": str(project),
            "COLUMNS": "200",
        },
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The three packages in a project of their own, for planting."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src" / "runward").mkdir(parents=True)
    for package in PACKAGES:
        (tmp_path / "src" / "runward" / package).symlink_to(f"../../{package}")
    return tmp_path


def test_each_package_imports_only_those_to_its_left() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 kept, 0 broken" in result.stdout


PLANTED = {
    "config/up.py": (
        "from runward.handlers.model import events",
        "runward.config.up -> runward.handlers.model.events",
    ),
    "config/far_up.py": ("import runward.daemon.world", "runward.config.far_up -> runward.daemon.world"),
    "handlers/up.py": (
        "from runward.daemon.world import processes",
        "runward.handlers.up -> runward.daemon.world",
    ),
    "handlers/sessions/impure.py": ("import sqlite3", "runward.handlers.sessions.impure -> sqlite3"),
    "handlers/late.py": ("def late() -> None:\n    import time", "runward.handlers.late -> time"),
}


def test_planted_imports_are_caught(copy: Path) -> None:
    for file, (planted, _) in PLANTED.items():
        (copy / file).write_text(planted + "\n")
    result = lint(copy)
    assert result.returncode == 1, result.stdout + result.stderr
    assert [broken for _, broken in PLANTED.values() if broken not in result.stdout] == []


def impurities(tree: ast.AST) -> list[str]:
    """What in this code could open, print, wait, roll dice, or read a clock."""
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [each.name for each in names if each.name.partition(".")[0] in IMPURE]
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in IMPURE:
                found.append(module)
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                found.append(f"{name}()")
            case ast.Attribute(attr=name) if name in CLOCKS:
                found.append(f".{name}")
            case ast.AsyncFunctionDef(name=name) | ast.Await(value=ast.Name(id=name)):
                found.append(f"async {name}")
            case ast.Global(names=names):
                found.append(f"global {', '.join(names)}")
            case _:
                pass
    return found


@pytest.mark.parametrize("package", ["config", "handlers"])
def test_nothing_in_the_pure_packages_can_touch_the_world_or_read_a_clock(package: str) -> None:
    found = {str(path.relative_to(ROOT)): impurities(parsed(path)) for path in sources(package)}
    assert {path: what for path, what in found.items() if what} == {}
    assert len(found) > 10


@pytest.mark.parametrize(
    "planted",
    [
        "import os.path",
        "from time import sleep",
        "from datetime import datetime\nat = datetime.now()",
        "import datetime as d\nat = d.date.today()",
        "text = open('x').read()",
        "def f():\n    print('x')",
        "async def f():\n    pass",
        "cache = {}\ndef f():\n    global cache\n    cache = {}",
    ],
)
def test_a_planted_impurity_is_caught(planted: str) -> None:
    assert impurities(ast.parse(planted)) != []


def test_what_is_pure_is_let_through() -> None:
    pure = "from datetime import UTC, datetime\nimport hashlib, json\ndef f(now):\n    return datetime.fromtimestamp(now, UTC)"
    assert impurities(ast.parse(pure)) == []


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """What a process says of a run's whole life through the handlers, and of each in which a handler does something.

    It may do nothing else meanwhile.
    """
    result = subprocess.run(
        [sys.executable, "-m", "tests.project.life_under_guard"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, list[str]] = json.loads(result.stdout)
    return found


def test_handlers_live_a_whole_run_in_a_process_that_may_not_touch_the_world(
    told: dict[str, list[str]],
) -> None:
    assert told[""] == [
        "run.started.ok",
        "run.failed.missing_artifact",
        "run.started.resumed",
        "run.failed.signal",
    ]


@pytest.mark.parametrize("planted", ["open", "socket", "subprocess", "listdir", "import", "sqlite3"])
def test_a_handler_that_touches_the_world_is_caught_by_the_machine(
    told: dict[str, list[str]], planted: str
) -> None:
    (refused,) = told[planted]
    assert refused.startswith("TouchedTheWorld: ")
