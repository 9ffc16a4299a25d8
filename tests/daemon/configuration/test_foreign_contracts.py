"""Sessions of another tool under the `[[contracts]]` rules, in a whole daemon.

No layout but the native one is read yet, so the scan here is native's, told that the run was another tool's.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.daemon.in_process import Daemon, StillClock, ToldProcesses, daemon

from runward.config.problem import Problem
from runward.config.settings import Settings
from runward.config.settings_layers import Source, read_settings
from runward.daemon.configuration.declarations import Declarer
from runward.handlers.layouts import native
from runward.handlers.layouts.native import Item, Started
from runward.handlers.model.sessions import Document

PLAYBOOK = "artifacts:\n  expected:\n    - {id: review, path: review.md}\n"
RULE = '[[contracts]]\nmatch = {layout = "claude-code", cwd = "app/**"}\nplaybook = "feature"\n'


@pytest.fixture(autouse=True)
def another_tools_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is Claude Code's, in the directory that its name says, where its artifacts lie too."""
    scan = native.scan

    def told(root: str, path: str, documents: Sequence[Document]) -> Iterator[Item]:
        for item in scan(root, path, documents):
            if isinstance(item, Started):
                cwd = f"{tmp_path}/{path.rsplit('/', 1)[-1]}"
                said = replace(item.declaration, layout="claude-code", cwd=cwd, artifacts_path=cwd)
                yield item._replace(declaration=said)
            else:
                yield item

    monkeypatch.setattr(native, "scan", told)


def settings_of(base: Path, text: str) -> Settings:
    (base / "playbooks").mkdir(exist_ok=True)
    source = Source(f"{base}/runward.toml", text, str(base))
    parsed = read_settings([source], {}, home=str(base), working_directory=str(base))
    assert parsed.value is not None, [Problem.render(each) for each in parsed.problems]
    return parsed.value


def finished(base: Path, directory: str, delivers: bool = False) -> None:
    """A run that ended cleanly, in a working directory of the same name."""
    (base / directory).mkdir()
    if delivers:
        (base / directory / "review.md").write_text("fine")
    run = base / "runs" / directory
    run.mkdir()
    (run / "run.json").write_text('{"schema": "runward-run-v1"}')
    (run / "exit.json").write_text('{"exit_code": 0}')


async def told(running: Daemon, columns: str) -> dict[str, tuple[object, ...]]:
    rows = await running.rows(f"select key, {columns} from sessions")
    return {str(key).removeprefix("native:runs/"): tuple(rest) for key, *rest in rows}


async def test_a_session_is_held_to_the_playbook_of_its_rule_in_its_own_directory(tmp_path: Path) -> None:
    declarer = Declarer(settings_of(tmp_path, RULE))
    (tmp_path / "playbooks" / "feature.playbook.yaml").write_text(PLAYBOOK)
    processes, clock = ToldProcesses(), StillClock()
    async with daemon(tmp_path, clock, processes, declared=declarer, ruled=declarer.ruled) as running:
        finished(tmp_path, "app", delivers=True)
        finished(tmp_path, "apple")
        await running.settle()
        assert await told(running, "status, playbook, contract_basis, delivery") == {
            "app": ("completed", "feature", "late", "passed"),
            "apple": ("completed", None, None, None),
        }


async def test_rules_that_a_reload_brings_hold_for_sessions_that_begin_afterwards(tmp_path: Path) -> None:
    declarer = Declarer(settings_of(tmp_path, ""))
    (tmp_path / "playbooks" / "feature.playbook.yaml").write_text(PLAYBOOK)
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), declared=declarer, ruled=declarer.ruled
    ) as running:
        run = tmp_path / "runs" / "app"
        run.mkdir()
        (run / "run.json").write_text('{"schema": "runward-run-v1"}')
        await running.settle()
        declarer.use(settings_of(tmp_path, RULE.replace("app/**", "**")))
        (run / "exit.json").write_text('{"exit_code": 0}')
        finished(tmp_path, "later")
        await running.settle()
        assert await told(running, "status, reason_code, contract_basis") == {
            "app": ("completed", "run.completed.ok", None),
            "later": ("failed", "run.failed.missing_artifact", "late"),
        }


async def test_a_rule_that_names_no_playbook_that_is_there_shows_the_problem_and_fails_nobody(
    tmp_path: Path,
) -> None:
    declarer = Declarer(settings_of(tmp_path, RULE))
    (tmp_path / "playbooks" / "featur.playbook.yaml").write_text(PLAYBOOK)
    async with daemon(
        tmp_path, StillClock(), ToldProcesses(), declared=declarer, ruled=declarer.ruled
    ) as running:
        finished(tmp_path, "app")
        await running.settle()
        found = await told(running, "status, playbook, contract_basis, contract_problem")
        assert found["app"][:3] == ("completed", "feature", None)
        said = str(found["app"][3])
        assert said.startswith("there is no playbook 'feature' in ")
        assert said.endswith(f"did you mean 'featur'? (named by the rule at {tmp_path}/runward.toml:3)")
        ((known,),) = await running.rows("select known from decisions where verdict = 'refused'")
        assert json.loads(str(known))["contract_rule"] == f"{tmp_path}/runward.toml:3"
