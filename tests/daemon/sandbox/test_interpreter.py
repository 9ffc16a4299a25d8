"""The interpreter inside the sandbox, where that of the machine is private: a copy that nobody but its owner may change."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from runward.daemon.sandbox import interpreter as module
from runward.daemon.sandbox.interpreter import Interpreter, interpreter
from runward.daemon.sandbox.isolated import NOBODY, NoSandbox


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where copies go, of a small interpreter in a home that only its owner may enter."""
    home = tmp_path / "home"
    library = home / "lib/python"
    for folder in ("json", "site-packages"):
        (library / folder).mkdir(parents=True)
        (library / folder / "__init__.py").write_text(folder)
        (library / folder / "__init__.py").chmod(0o600)
    program = home / "python"
    program.write_text("the program")
    program.chmod(0o700)
    home.chmod(0o700)
    found = Interpreter(((str(program), "bin/python"), (str(library), "lib/python")), (), "ld-linux.so.2")
    monkeypatch.setattr(module, "_found", lambda: found)
    copies = tmp_path / "copies"
    monkeypatch.setattr(module, "_COPIES", copies)
    interpreter.cache_clear()
    yield copies
    interpreter.cache_clear()


def test_a_copy_of_it_can_be_read_by_everybody_and_changed_by_nobody_else(private: Path) -> None:
    made = interpreter(NOBODY)
    (copy,) = private.iterdir()
    assert made.places == ((f"{copy}/bin/python", "bin/python"), (f"{copy}/lib/python", "lib/python"))
    assert (copy / "bin/python").read_text() == "the program"
    assert [each.name for each in (copy / "lib/python").iterdir()] == ["json"], (
        "no packages that were installed"
    )
    for each in (copy, *copy.rglob("*")):
        mode = stat.S_IMODE(each.stat().st_mode)
        assert (mode & 0o044, mode & 0o022, each.stat().st_uid) == (0o044, 0, os.geteuid()), each


def test_a_copy_is_made_once_and_again_when_the_interpreter_changed(private: Path) -> None:
    first = interpreter(NOBODY)
    interpreter.cache_clear()
    assert interpreter(NOBODY) == first
    (private.parent / "home/python").write_text("a newer program")
    interpreter.cache_clear()
    assert interpreter(NOBODY) != first
    assert len(list(private.iterdir())) == 2


def test_a_copy_that_others_could_change_is_refused(private: Path) -> None:
    interpreter(NOBODY)
    (copy,) = private.iterdir()
    copy.chmod(0o777)
    interpreter.cache_clear()
    with pytest.raises(NoSandbox, match="others could change"):
        interpreter(NOBODY)


def test_where_it_can_not_be_copied_the_reason_and_the_fix_are_named(private: Path) -> None:
    private.write_text("a file is in the way")
    with pytest.raises(NoSandbox, match="is private, and can't be copied") as refused:
        interpreter(NOBODY)
    assert str(private) in refused.value.fix
