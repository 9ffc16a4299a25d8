"""Files that are named on the command line: what has no end, or no writer, is refused and waited for by nobody."""

import os
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place

COMMANDS = (
    ("chain", "define"),
    ("chain", "show"),
    ("play", "check"),
    ("outcome", "check"),
    ("receipt", "hash"),
    ("replay", "check"),
    ("replay", "convert", "--to", "jsonl", "--output", "out"),
    ("exchange", "execute"),
    ("chain", "fire", "c", "--dry-run", "--event"),
    ("artifact", "add", "--session", "s", "--kind", "summary", "--name", "s", "--content"),
    ("exchange", "submit", "--dry-run"),
    ("--config",),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_file_without_an_end_is_refused_by_every_command_that_reads_one(
    place: Place, words: tuple[str, ...], kind: str
) -> None:
    """Without that, the command would wait for ever, and this test with it."""
    (place.directory / "chains").mkdir()
    (place.directory / "chains/c.yaml").write_text("name: c\ntrigger: {event: x}\nsteps: [{skill: review}]\n")
    file = place.directory / "endless"
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    told = place.call(*words, str(file), *(["status"] if words == ("--config",) else []))
    assert told.code in (2, 3, 78)
    assert "not a regular file" in told.err


def test_a_pipe_that_a_shell_passes_open_is_read(place: Place) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"a": 1}')
    os.close(writing)
    try:
        assert place.call("receipt", "hash", f"/dev/fd/{reading}").code == 0
    finally:
        os.close(reading)


def test_what_is_defined_is_what_was_checked_even_if_it_is_large(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("# " + "x" * (1 << 20) + "\nname: a\n")
    told = place.call("chain", "define", str(file))
    assert (told.code, "is larger than 1048576 bytes" in told.err) == (2, True)
