"""The end of a session's log, read for what the agent said last."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from tests.handlers.layouts import cline_lines, kimi_lines
from tests.handlers.layouts.claude_code_lines import Transcript, headless_run

from runward.daemon.rundir import session_reading
from runward.daemon.rundir.call_reading import told_by
from runward.daemon.rundir.message_reading import messages_of
from runward.daemon.rundir.session_reading import final_message
from runward.handlers.calls import Called


def written(path: Path, transcript: Transcript) -> str:
    path.write_bytes(transcript.content())
    return str(path)


def test_the_last_message_stands_at_the_end_of_the_log(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", headless_run())
    assert final_message("claude-code", path) == "Done."
    assert final_message("native", path) is None
    with open(path, "ab") as log:
        log.write(b'{"type": "user", "message"')
    assert final_message("claude-code", path) == "Done."


def test_only_the_end_of_a_large_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = headless_run()
    transcript.prompt("x" * 10_000)
    transcript.text("Large.")
    path = written(tmp_path / "a.jsonl", transcript)
    monkeypatch.setattr(session_reading, "END_BYTES", 2000)
    assert final_message("claude-code", path) == "Large."
    monkeypatch.setattr(session_reading, "END_BYTES", 100)
    assert final_message("claude-code", path) is None


def test_links_pipes_directories_and_what_is_gone_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(written(tmp_path / "a.jsonl", headless_run()))
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "directory.jsonl").mkdir()
    (tmp_path / "through").symlink_to(tmp_path)
    for name in (
        "link.jsonl",
        "pipe.jsonl",
        "directory.jsonl",
        "gone.jsonl",
        "gone/a.jsonl",
        "through/a.jsonl",
    ):
        assert final_message("claude-code", str(tmp_path / name)) is None


@pytest.mark.parametrize("link", ["agents", "agents/main", "agents/main/wire.jsonl"])
def test_no_link_on_the_way_to_a_log_in_a_directory_is_followed(tmp_path: Path, link: str) -> None:
    session, elsewhere = tmp_path / kimi_lines.SESSION, tmp_path / "elsewhere"
    log = session / "agents/main/wire.jsonl"
    log.parent.mkdir(parents=True)
    log.write_bytes(
        b"".join(line + b"\n" for line in kimi_lines.Log().prompt().call().result().say().lines())
    )
    path = str(session)
    assert final_message("kimi", path) == "Done."
    assert [each.said.text for each in messages_of("kimi", path)] == ["make a file", "Done."]
    assert any(isinstance(each, Called) for each in told_by("kimi", path, lambda read: True))
    (session / link).rename(elsewhere)
    (session / link).symlink_to(elsewhere)
    assert final_message("kimi", path) is None
    assert list(messages_of("kimi", path)) == []
    assert not any(isinstance(each, Called) for each in told_by("kimi", path, lambda read: True))


def test_a_packed_log_is_unpacked_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = headless_run()
    content = transcript.content()
    packed = tmp_path / "a.jsonl.zst"
    packed.write_bytes(zstandard.compress(content))
    for name in ("a.jsonl.zst", "a.jsonl"):
        assert final_message("claude-code", str(tmp_path / name)) == "Done."
    monkeypatch.setattr(session_reading, "END_BYTES", len(content) - 10)
    assert final_message("claude-code", str(packed)) == "Done."
    packed.write_bytes(zstandard.compress(content)[:-9] + b"not packed")
    assert final_message("claude-code", str(packed)) is None
    packed.write_bytes(zstandard.compress(content))
    monkeypatch.setattr(session_reading, "MOST_UNPACKED", len(content) - 1)
    assert final_message("claude-code", str(packed)) is None


def test_what_the_recorded_agents_said_last_is_found(material: Path, tmp_path: Path) -> None:
    for path in ("ok.jsonl", "tool.jsonl"):
        said = final_message("claude-code", str(material / "samples/claude-code" / path))
        assert said == "Done. The work is finished."
    for path in ("rollout-ok.jsonl", "rollout-tool.jsonl"):
        said = final_message("codex", str(material / "samples/codex" / path))
        assert said == "Done. The work is finished."
        packed = tmp_path / f"{path}.zst"
        packed.write_bytes(zstandard.compress((material / "samples/codex" / path).read_bytes()))
        assert final_message("codex", str(packed)) == said
    assert final_message("claude-code", str(material / "samples/claude-code/err400.jsonl")) is None
    assert final_message("codex", str(material / "samples/codex/rollout-err400.jsonl")) is None
    for layout, home in (
        ("copilot", "copilot-cli/{}/.copilot/session-state"),
        ("cline", "cline-cli/{}/.cline/data/sessions"),
    ):
        for name, wanted in (("ok", said), ("tool", said), ("err400", None)):
            (directory,) = (material / "samples" / home.format(name)).glob("[!.]*")
            assert final_message(layout, str(directory)) == wanted


def test_the_last_message_in_a_document_is_that_of_its_last_reply(tmp_path: Path) -> None:
    log = cline_lines.Log().prompt()
    path = tmp_path / cline_lines.SESSION
    assert final_message("cline", str(path)) is None
    path.mkdir()
    file = path / f"{cline_lines.SESSION}.messages.json"
    add: tuple[tuple[Callable[[], object], str | None], ...] = (
        (lambda: log, None),
        (lambda: log.call().result(), None),
        (lambda: log.say("Two\nlines."), "Two\nlines."),
        (lambda: log.prompt("and now?"), None),
        (lambda: log.say("Done.").fail(), None),
    )
    for go_on, wanted in add:
        go_on()
        file.write_bytes(log.messages().content)
        assert final_message("cline", str(path)) == wanted
    file.write_bytes(b"{")
    assert final_message("cline", str(path)) is None
