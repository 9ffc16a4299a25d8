"""From changed paths to the run directories that somebody should look into."""

from runward.daemon.watch.notifications import Translator
from runward.daemon.watch.roots import WatchedRoot

INBOX = "/state/inbox"


def translator(*seen: str) -> Translator:
    roots = [WatchedRoot("runs", "/runs", "native"), WatchedRoot("deep", "/else/deep", "native")]
    roots[0].seen.update(dict.fromkeys(seen, 1))
    return Translator(INBOX, roots)


def test_a_change_anywhere_below_a_run_directory_is_a_hint_at_it() -> None:
    paths = ["/runs/a", "/runs/b/run.json", "/runs/b/exit.json", "/else/deep/c/x/y/z"]
    assert translator()(paths) == ([("runs", "a"), ("runs", "b"), ("deep", "c")], False)


def test_the_growing_files_of_a_run_that_is_known_are_no_hint() -> None:
    paths = ["/runs/a/stdout.log", "/runs/a/artifacts/x", "/runs/a/REPLAY.2.jsonl", "/runs/b/stdout.log"]
    assert translator("a")(paths) == ([("runs", "b")], False)


def test_the_documents_of_a_known_run_and_the_directory_itself_always_are() -> None:
    assert translator("a")(["/runs/a/exit.json"])[0] == [("runs", "a")]
    assert translator("a")(["/runs/a"])[0] == [("runs", "a")]


def test_hidden_names_and_strangers_are_nobodys_runs() -> None:
    assert translator()(["/runs/.hidden/run.json", "/runs-too/a/run.json", "/elsewhere", "/state/log/x"]) == (
        [],
        False,
    )


def test_a_change_of_the_inbox_is_told() -> None:
    assert translator()(["/state/inbox/1.json", "/runs/a/run.json"]) == ([("runs", "a")], True)
