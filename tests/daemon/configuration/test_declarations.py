"""What the operator's files declare now, by names that runs and rules give."""

from itertools import product
from pathlib import Path

import pytest

from runward.config.chain import Chain, read_chain
from runward.config.contract_rules import ContractRule, Match
from runward.config.problem import Parsed
from runward.config.root import Root
from runward.config.settings import Settings
from runward.config.step import Callables
from runward.config.table import Placed
from runward.daemon.configuration import checked_chains, declarations
from runward.daemon.configuration.declarations import Declarer, KnownFiles
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.contracts import Ruled, RuledPlaybook
from runward.handlers.model.sessions import CoveringRoot, RootOf

PLAYBOOK = "agent: reviewer\nartifacts:\n  expected:\n    - {id: review, path: review.md}\n"
PROFILE = "---\nartifact_defaults:\n  expected:\n    - {id: report, path: report.md}\n---\n"
RULE = ContractRule(Match(layout="codex"), "feature", named_at=Placed(None, "/etc/runward.toml", (9, 1)))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name in ("playbooks", "agents"):
        (tmp_path / name).mkdir()
    (tmp_path / "playbooks/feature.playbook.yaml").write_text(PLAYBOOK)
    (tmp_path / "agents/reviewer.md").write_text(PROFILE)
    (tmp_path / "agents/broken.md").write_text("---\nartifact_defaults: 7\n---\n")
    return Settings(
        str(tmp_path / "state"),
        (str(tmp_path / "playbooks"),),
        (str(tmp_path / "agents"),),
        contracts=(RULE,),
    )


def test_a_playbook_declares_its_own_artifacts_and_its_agents_defaults(settings: Settings) -> None:
    declared = Declarer(settings)("feature", None)
    assert declared.playbook is not None
    assert declared.agent is not None
    assert ([each.id for each in declared.playbook], [each.id for each in declared.agent]) == (
        ["review"],
        ["report"],
    )


def test_what_is_missing_or_wrong_is_said_and_declares_nothing(settings: Settings) -> None:
    for names, said in (
        (("featur", None), "there is no playbook 'featur'"),
        ((None, "nobody"), "there is no agent 'nobody'"),
        ((None, "broken"), "broken.md:2:20: "),
    ):
        declared = Declarer(settings)(*names)
        assert (declared.playbook, declared.agent) == (None, None)
        assert said in str(declared.problem)


@pytest.mark.parametrize("name", ["./own.playbook.yaml", "own.playbook.yaml", "/etc/x.playbook.yaml"])
def test_a_run_cannot_name_a_file_of_its_own_as_its_playbook(
    settings: Settings, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.playbook.yaml").write_text(PLAYBOOK)
    (tmp_path / "own.md").write_text(PROFILE)
    for names in ((name, None), (None, name.replace(".playbook.yaml", ".md"))):
        declared = Declarer(settings)(*names)
        assert (declared.playbook, declared.agent) == (None, None)
        assert "is a file; only the name" in str(declared.problem)


def test_a_session_falls_under_the_first_rule_that_matches_and_is_told_where_it_stands(
    settings: Settings,
) -> None:
    declarer = Declarer(settings)
    assert declarer.ruled(RuledPlaybook("codex", None, None, None)) == Ruled(
        "feature", None, "/etc/runward.toml:9"
    )
    assert declarer.ruled(RuledPlaybook("lionagi", None, None, None)) == Ruled()


@pytest.mark.parametrize(
    ("agent", "kept"),
    [("reviewer", "reviewer"), ("broken", "broken"), ("nobody", None), ("a/b", None), ("x\0", None)],
)
def test_another_tools_agent_counts_where_a_profile_has_its_name(
    settings: Settings, agent: str, kept: str | None
) -> None:
    assert Declarer(settings).ruled(RuledPlaybook("codex", None, agent, None)).agent == kept


def test_a_reload_brings_other_rules_into_force(settings: Settings) -> None:
    declarer = Declarer(settings)
    declarer.use(settings._replace(contracts=()))
    assert declarer.ruled(RuledPlaybook("codex", None, None, None)) == Ruled()


def test_the_innermost_root_of_the_layout_that_holds_a_file_watches_it(
    settings: Settings, tmp_path: Path
) -> None:
    projects = tmp_path / "home" / "projects"
    projects.mkdir(parents=True)
    (tmp_path / "link").symlink_to("home")
    roots = (
        Root("all", str(tmp_path / "home"), "auto"),
        Root("claude", f"{tmp_path}/link/projects/", "claude-code"),
        Root("codex", str(projects / "x"), "codex"),
        Root("native", str(projects / "x"), "native"),
    )
    covering = Declarer(settings._replace(roots=roots)).covering
    told = {
        f"{tmp_path}/link/projects/x/s.jsonl": "claude",
        f"{projects}/x/s.jsonl": "claude",
        f"{projects}/../s.jsonl": "all",
        f"{tmp_path}/home/s.jsonl": "all",
        f"{tmp_path}/homely/s.jsonl": None,
        str(projects): "all",
        f"{projects}/../../s.jsonl": None,
    }
    for path, name in told.items():
        assert covering(RootOf("claude-code", path)) == (None if name is None else CoveringRoot(name)), path
    assert covering(RootOf("codex", f"{projects}/x/s.jsonl")) == CoveringRoot("codex")
    assert Declarer(settings).covering(RootOf("codex", "/s.jsonl")) is None


@pytest.mark.parametrize("wanted", [*product((True, False), repeat=3)])
def test_the_innermost_root_says_whether_a_session_gets_a_bundle(
    settings: Settings, tmp_path: Path, wanted: tuple[bool, bool, bool]
) -> None:
    runs = tmp_path / "home" / "runs"
    runs.mkdir(parents=True)
    (tmp_path / "link").symlink_to("home")
    outer, inner, other = wanted
    roots = (
        Root("outer", str(tmp_path / "home"), "native", bundle=outer),
        Root("inner", f"{tmp_path}/link/runs/", "native", bundle=inner),
        Root("other", str(runs), "codex", bundle=other),
    )
    bundled = Declarer(settings._replace(roots=roots)).bundled
    told = {
        f"{tmp_path}/link/runs/r": inner,
        f"{runs}/r": inner,
        f"{runs}/../r": outer,
        f"{tmp_path}/link/r": outer,
        f"{tmp_path}/homely/r": False,
        f"{runs}/../../r": False,
    }
    for path, is_wanted in told.items():
        assert (bundled(BundleRulesOf("native", path)) is not None) == is_wanted, path
    assert (bundled(BundleRulesOf("codex", f"{runs}/s.jsonl")) is not None) == other
    assert bundled(BundleRulesOf("ctcp", f"{runs}/s")) is None


def test_a_wrong_file_is_a_problem_until_it_is_fixed_though_nobody_names_it(
    settings: Settings, tmp_path: Path
) -> None:
    declarer = Declarer(settings)
    declarer.check()
    (problem,) = declarer.degraded()
    assert "broken.md:2:20: " in problem
    assert problem.endswith("; runs that name it have no contract")
    (tmp_path / "agents/broken.md").write_text(PROFILE)
    (tmp_path / "playbooks/feature.playbook.yaml").write_text("artefacts: {}\n")
    declarer.check()
    (problem,) = declarer.degraded()
    assert "feature.playbook.yaml:1:1: artefacts: unknown key" in problem
    (tmp_path / "playbooks/feature.playbook.yaml").write_text("agent: nobody\n")
    declarer.check()
    (problem,) = declarer.degraded()
    assert "feature.playbook.yaml: agent: there is no agent 'nobody'" in problem
    (tmp_path / "playbooks/feature.playbook.yaml").unlink()
    declarer.check()
    (problem,) = declarer.degraded()
    assert "/etc/runward.toml:9:1: contracts[0].playbook: there is no playbook 'feature'" in problem
    assert problem.endswith("; sessions that it matches have no contract")
    declarer.use(settings._replace(contracts=()))
    declarer.check()
    assert declarer.degraded() == []


def test_a_wrong_chain_is_a_problem_until_it_is_fixed(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "agents/broken.md").write_text(PROFILE)
    (tmp_path / "chains").mkdir()
    declarer = Declarer(settings._replace(chains=(str(tmp_path / "chains"),)))
    (tmp_path / "chains/a.yaml").write_text("name: a\n")
    declarer.check()
    assert "a.yaml" in declarer.degraded()[0]
    assert declarer.degraded()[0].endswith("; the chain does not fire")
    (tmp_path / "chains/a.yaml").write_text("name: a\ntrigger: {manual: true}\nsteps: [{skill: feature}]\n")
    declarer.check()
    assert declarer.degraded() == []


def test_many_chains_are_read_once_though_they_are_checked_and_followed_again_and_again(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chains").mkdir()
    for number in range(30):
        text = f"name: c-{number}\ntrigger: {{schedule: every 6h}}\nsteps: [{{skill: feature}}]\n"
        (tmp_path / f"chains/c-{number}.yaml").write_text(text)
    monkeypatch.setattr(KnownFiles, "MOST", 10)
    parsed: list[str] = []

    def counted(text: str, path: str, given: Callables) -> Parsed[Chain]:
        parsed.append(path)
        return read_chain(text, path, given)

    monkeypatch.setattr(checked_chains, "read_chain", counted)
    declarer = Declarer(settings._replace(chains=(str(tmp_path / "chains"),)))
    for _ in range(3):
        declarer.check()
        assert len(declarer.schedules()) == 30
    assert len(parsed) == 30
    (tmp_path / "chains/c-7.yaml").unlink()
    declarer.check()
    assert len(declarer.schedules()) == 29


def test_a_chain_that_goes_while_the_chains_are_read_is_a_problem_and_stops_nothing(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chains").mkdir()
    (tmp_path / "chains/there.yaml").write_text(
        "name: there\ntrigger: {schedule: every 6h}\nsteps: [{skill: feature}]\n"
    )
    monkeypatch.setattr(declarations, "chain_names", lambda settings: ("gone", "there"))
    declarer = Declarer(settings._replace(chains=(str(tmp_path / "chains"),)))
    declarer.check()
    (why,) = [each for each in declarer.degraded() if each.endswith("the chain does not fire")]
    assert "there is no chain 'gone'" in why
    assert list(declarer.schedules()) == ["there"]


def test_a_directory_that_can_not_be_listed_is_a_problem(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("runward.daemon.configuration.listings.os.scandir", refuse)
    declarer = Declarer(settings)
    declarer.check()
    assert all("can't be read: Permission denied" in each for each in declarer.degraded())
    assert len(declarer.degraded()) == 2
