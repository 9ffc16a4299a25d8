"""How quick the command feels: what it costs to start, and what it must not import for that."""

import resource
import subprocess
import sys
from typing import Final

import pytest
from tests.daemon.cli.calling import Place
from tests.waiting import PATIENCE_S, wait_for

_ENDS_WITH: Final = {"status": 3, "contract": 1}
"""The exit codes of those commands that don't end with 0 here: no daemon runs, and the review is missing."""


def _imported(place: Place, *arguments: str) -> set[str]:
    """The modules that a call of the command has imported at its end."""
    program = (
        "import sys\nfrom runward.daemon.cli import main\n"
        f"sys.argv[1:] = {list(arguments)!r}\n"
        "code = 0\ntry:\n    main()\nexcept SystemExit as end:\n    code = end.code\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=place.directory,
        env=place.environment,
        check=False,
    )
    assert ended.returncode == _ENDS_WITH.get(arguments[0], 0), ended.stdout
    return set(ended.stderr.split())


def test_the_version_costs_hardly_more_than_python(place: Place) -> None:
    imported = _imported(place, "--version")
    assert not imported & {"click", "sqlite3", "pydantic", "anyio", "runward.config.settings"}


def test_a_launched_run_costs_hardly_more_than_python(place: Place) -> None:
    # It ends without shutting its interpreter down, so it can't be asked at its end.
    program = "from runward.daemon.cli import main; main()"
    command = [sys.executable, "-X", "importtime", "-c", program, "run", "--", "true"]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=place.directory,
        env=place.environment,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
    assert "runward.daemon.launch.supervision" in imported
    heavy = {"click", "dataclasses", "hashlib", "pathlib", "subprocess", "threading"}
    assert imported & heavy == set()


@pytest.mark.parametrize(
    "arguments",
    [("status",), ("session", "list"), ("session", "show", "silent"), ("queue",), ("why", "silent")],
)
def test_reading_the_store_imports_nothing_heavy(recorded: Place, arguments: tuple[str, ...]) -> None:
    imported = _imported(recorded, *arguments)
    assert "sqlite3" in imported
    assert not imported & {
        "pydantic",
        "pydantic_core",
        "anyio",
        "asyncio",
        "structlog",
        "watchfiles",
    }


def test_a_contract_is_checked_without_what_only_the_daemon_needs(place: Place) -> None:
    check = ("exchange", "contract", "check", "freeware", "--caller", "ann", "--action", "read")
    imported = _imported(place, *check, "--target", "note", "--context", "{}")
    assert not imported & {"anyio", "asyncio", "structlog", "watchfiles"}


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("session", "list"), 81),
        (("session", "show", "silent"), 101),
        (("why", "silent"), 90),
        (("queue",), 54),
        (("status",), 99),
    ],
)
def test_a_command_that_reads_imports_few_of_our_modules(
    recorded: Place, arguments: tuple[str, ...], most: int
) -> None:
    ours = {each for each in _imported(recorded, *arguments) if each.startswith("runward.")}
    assert len(ours) <= most, sorted(ours)


def test_a_list_does_without_what_finds_secrets_and_what_writes(recorded: Place) -> None:
    imported = _imported(recorded, "session", "list")
    assert not imported & {
        "dataclasses",
        "hashlib",
        "signal",
        "runward.handlers.secrets",
        "runward.handlers.model.chains",
        "runward.daemon.store.tables.jobs",
    }


def test_a_list_with_a_run_that_no_daemon_has_judged_imports_little_more(place: Place) -> None:
    place.daemon_once()
    without = _imported(place, "session", "list")
    place.start_process("run", "--containment", "subreaper", "--", "true").communicate(timeout=PATIENCE_S)
    assert "not judged yet" in place.call("session", "list").out
    further = _imported(place, "session", "list") - without
    assert "runward.daemon.views.native_run" in further
    assert not further & {
        "_hashlib",
        "runward.config.glob_rule",
        "runward.daemon.launch.cgroup",
        "runward.daemon.rundir.artifacts",
        "runward.daemon.world.processes",
        "runward.handlers.contracts.verify",
        "runward.handlers.layouts.transcript",
        "runward.handlers.model.contracts",
    }
    assert sum(each.startswith("runward.") for each in further) <= 30, sorted(further)


def test_a_daemon_imports_only_what_it_needs_without_runs() -> None:
    code = "import sys, runward.daemon.host.service\nprint(*sys.modules, sep='\\n')"
    imported = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert "runward.daemon.host.service" in imported
    assert not imported & {
        "apscheduler",
        "http.client",
        "jinja2",
        "pydantic",
        "pydantic_core",
        "re2",
        "rich",
        "starlette",
        "urllib.request",
        "uvicorn",
        "yaml",
        "runward.daemon.rundir.bundle_verifying",
        "runward.daemon.rundir.liveness",
        "runward.handlers.layouts.codex",
        "runward.handlers.layouts.registry",
    }
    assert sum(each.startswith("runward.") for each in imported) <= 299


@pytest.mark.prove
@pytest.mark.parametrize(("arguments", "most"), [(("--version",), 3), (("status",), 30)])
def test_the_command_starts_in_time(recorded: Place, arguments: tuple[str, ...], most: int) -> None:
    """It costs at most so many starts of a bare interpreter, which tell how fast the machine is."""

    def cost(words: list[str]) -> float:
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            words,
            stdout=subprocess.DEVNULL,
            cwd=recorded.directory,
            env=recorded.environment,
            timeout=PATIENCE_S,
            check=False,
        )
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime - began.ru_utime + ended.ru_stime - began.ru_stime

    bare = min(cost([sys.executable, "-c", "pass"]) for _ in range(9))
    # What it costs is the least: the machine's other work only adds to it.
    wait_for(
        lambda: cost(recorded.argv(*arguments)) < most * bare,
        f"a start that costs less than {most} bare ones",
    )


@pytest.mark.parametrize(
    "arguments",
    [("log",), ("contract", "verify", "--playbook", "review", "--root", "."), ("daemon", "--help")],
)
def test_what_needs_no_events_does_not_pay_for_their_types(
    recorded: Place, arguments: tuple[str, ...]
) -> None:
    imported = _imported(recorded, *arguments)
    assert "runward.daemon.cli" in imported
    assert not imported & {
        "runward.handlers.model.events",
        "runward.handlers.registry",
        "runward.handlers.model.effects",
    }


def test_the_launcher_does_not_pay_for_the_types_of_events_when_it_verifies(place: Place) -> None:
    program = (
        "import sys\nfrom runward.daemon.cli import run_launch as run\n"
        "run.main(['--playbook', 'review', '--', 'true'])\n"
        "print(*sorted(sys.modules), sep='\\n', file=sys.stderr)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=place.directory,
        env=place.environment,
        check=False,
    )
    imported = set(ended.stderr.split())
    assert "runward.handlers.contracts.verify" in imported
    assert not imported & {"runward.handlers.model.events", "runward.handlers.registry"}
    assert not imported & {"pydantic_core", "dataclasses", "inspect"}


def test_the_first_page_of_the_studio_does_not_wait_for_the_types_of_events() -> None:
    program = "import sys, runward.daemon.studio.app\nprint(*sorted(sys.modules), sep='\\n')\n"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    imported = set(ended.stdout.split())
    assert "runward.daemon.studio.session_pages" in imported
    assert "runward.handlers.registry" not in imported


def test_the_daemon_imports_nothing_of_the_studio(place: Place) -> None:
    imported = _imported(place, "daemon", "--once", "--quiet")
    assert "runward.daemon.host" in imported
    assert not imported & {"runward.daemon.studio", "starlette", "uvicorn"}
    assert "pydantic" not in imported, "it is for outcomes alone"


def test_verifying_a_session_needs_no_types_of_events(recorded: Place) -> None:
    imported = _imported(recorded, "session", "verify", "silent")
    assert "runward.daemon.cli.session.verify" in imported
    assert not imported & {"pydantic", "runward.handlers.registry"}
