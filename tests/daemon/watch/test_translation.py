"""From changed paths to the run directories that somebody should look into."""

import time
from pathlib import Path

from runward.config.root import Root
from runward.daemon.watch.hints import ITSELF
from runward.daemon.watch.notifications import Translator
from runward.daemon.watch.roots import WatchedRoot
from runward.handlers.layouts.places import shape_of
from runward.handlers.layouts.registry import LAYOUTS

INBOX = "/state/inbox"


def translator(*seen: str) -> Translator:
    roots = [WatchedRoot(Root("runs", "/runs", "native")), WatchedRoot(Root("deep", "/else/deep", "native"))]
    roots[0].seen.update(dict.fromkeys(seen, 1))
    return Translator(INBOX, roots)


def test_a_change_anywhere_below_a_run_directory_is_a_hint_at_it() -> None:
    paths = ["/runs/a", "/runs/b/run.json", "/runs/b/exit.json", "/else/deep/c/x/y/z"]
    assert translator()(paths) == ([("runs", "a"), ("runs", "b"), ("deep", "c")], False)


def test_the_growing_files_of_a_run_that_is_known_are_no_hint() -> None:
    paths = ["/runs/a/stdout.log", "/runs/a/artifacts/x", "/runs/a/REPLAY.2.jsonl", "/runs/b/stdout.log"]
    assert translator("a")(paths) == ([("runs", "b")], False)


def test_outcomes_among_the_artifacts_of_a_known_run_are_a_hint() -> None:
    for path in (
        "outcome.json",
        "artifacts/outcome.json",
        "artifacts/outcomes",
        "artifacts/outcomes/unit.xml",
    ):
        assert translator("a")([f"/runs/a/{path}"])[0] == [("runs", "a")]
    for path in (
        "artifacts",
        "artifacts/outcome.json.tmp",
        "artifacts/x/outcome.json",
        "artifacts/outcomes.md",
    ):
        assert translator("a")([f"/runs/a/{path}"])[0] == []


def test_the_documents_of_a_known_run_and_the_directory_itself_always_are() -> None:
    assert translator("a")(["/runs/a/exit.json"])[0] == [("runs", "a")]
    assert translator("a")(["/runs/a"])[0] == [("runs", "a")]


def test_hidden_names_and_strangers_are_nobodys_runs() -> None:
    assert translator()(["/runs/.hidden/run.json", "/runs-too/a/run.json", "/elsewhere", "/state/log/x"]) == (
        [],
        False,
    )


def test_what_is_to_be_ignored_is_no_hint_either() -> None:
    root = WatchedRoot(Root("runs", "/runs", "native", ignore=("scratch-*",)))
    assert Translator(INBOX, [root])(["/runs/scratch-1/exit.json", "/runs/a/exit.json"])[0] == [("runs", "a")]


def test_of_transcripts_each_path_tells_of_the_session_that_it_belongs_to() -> None:
    root = WatchedRoot(
        Root("home", "/p", "claude-code", ignore=("-tmp*",)), shape_of(LAYOUTS.named("claude-code"))
    )
    paths = ["/p/-a/s.jsonl", "/p/-a/s/subagents/agent-1.jsonl", "/p/-a/notes.md", "/p/-tmp-x/s.jsonl"]
    assert Translator(INBOX, [root])(paths)[0] == [("home", "-a/s.jsonl")]


def test_a_directory_of_transcripts_that_came_or_went_puts_its_whole_root_in_doubt(tmp_path: Path) -> None:
    root = WatchedRoot(Root("home", str(tmp_path), "claude-code"), shape_of(LAYOUTS.named("claude-code")))
    root.seen["-old/s.jsonl"] = 1
    translate = Translator(INBOX, [root])
    (tmp_path / "-new").mkdir()
    assert translate([f"{tmp_path}/-new"])[0] == [("home", ITSELF)]
    assert translate([f"{tmp_path}/-old"])[0] == [("home", ITSELF)]
    assert translate([f"{tmp_path}/-never", f"{tmp_path}/-old/notes"])[0] == []


def test_a_change_of_the_inbox_is_told() -> None:
    assert translator()(["/state/inbox/1.json", "/runs/a/run.json"]) == ([("runs", "a")], True)


def test_many_small_changes_beside_many_transcripts_cost_no_look_at_each_of_them(tmp_path: Path) -> None:
    """Each change was held against each place: 20,000 temporary files beside 15,000 rollouts took a minute."""
    root = WatchedRoot(Root("home", str(tmp_path), "codex"), shape_of(LAYOUTS.named("codex")))
    root.seen.update({f"2026/02/{number % 28:02}/rollout-{number}.jsonl": 1 for number in range(15_000)})
    translate = Translator(INBOX, [root])
    paths = [f"{tmp_path}/2026/02/03/.tmp-{number}" for number in range(20_000)]
    began = time.process_time()
    for start in range(0, len(paths), 100):
        assert translate(paths[start : start + 100]) == ([], False)
    assert time.process_time() - began < 10.0
    assert translate([f"{tmp_path}/2026/02"])[0] == [("home", ITSELF)]
    del root.seen["2026/02/00/rollout-0.jsonl"]
    root.seen["2027/01/01/rollout-new.jsonl"] = 1
    assert translate([f"{tmp_path}/2027"])[0] == [("home", ITSELF)]
