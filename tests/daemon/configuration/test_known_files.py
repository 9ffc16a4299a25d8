"""Files and directories of the operator's that are known: they are read again once they changed, and only then."""

import builtins
import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runward.config.root import Root
from runward.config.settings import Settings
from runward.daemon.configuration import listings, settings_files
from runward.daemon.configuration.declarations import Declarer, KnownFiles
from runward.daemon.configuration.declared_files import playbook_names
from runward.daemon.configuration.listings import listed
from runward.handlers.model.files import Signature, signature_of

LONG_AGO_NS = 10**9


def _names(directory: Path) -> list[str]:
    return sorted(each.name for each in listed(str(directory)))


def _counted(known: KnownFiles[str], readings: list[str], path: Path) -> Callable[[], str]:
    """Reads the file; each reading of the disk is noted."""

    def read(text_of: Callable[[str], object]) -> str:
        readings.append(str(text_of(str(path))))
        return readings[-1]

    return lambda: known(str(path), None, read)


def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nothing had changed for a second."""
    clock = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: clock() + LONG_AGO_NS)


def test_a_file_is_read_again_after_any_change_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _later(monkeypatch)
    file, readings = tmp_path / "a", list[str]()
    file.write_text("one")
    now = _counted(KnownFiles(), readings, file)
    assert [now(), now(), now()] == ["one"] * 3
    assert readings == ["one"]
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of the file system goes in steps
        file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [now(), now()] == ["two"] * 2, "neither its size nor its time of modification shows this change"
    other = tmp_path / "b"
    other.write_text("new")
    other.replace(file)
    assert [now(), now()] == ["new"] * 2
    assert readings == ["one", "two", "new"]


def test_a_file_that_is_rewritten_within_the_tick_in_which_it_was_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, tick, readings = tmp_path / "a", time.time_ns(), list[str]()

    def write(text: str) -> None:
        file.write_text(text)
        os.utime(file, ns=(tick, tick))

    # The time of modification stands in for that of the change, which no test can set.
    monkeypatch.setattr(
        settings_files,
        "signature_of",
        lambda status: signature_of(status)._replace(changed_ns=status.st_mtime_ns),
    )
    monkeypatch.setattr(settings_files, "_LONGEST_S", 0)
    now = _counted(KnownFiles(), readings, file)
    write("one")
    assert now() == "one"
    write("two")
    assert now() == "two"


def test_a_schema_that_a_playbook_names_is_read_again_once_it_changed(tmp_path: Path) -> None:
    (tmp_path / "playbooks").mkdir()
    schema, playbook = tmp_path / "playbooks/s.json", tmp_path / "playbooks/p.playbook.yaml"
    playbook.write_text("artifacts:\n  expected:\n    - {id: a, path: a.json, schema: s.json}\n")
    declarer = Declarer(Settings(str(tmp_path / "state"), (str(tmp_path / "playbooks"),)))

    def in_force() -> str | None:
        declared = declarer("p", None)
        rules = None if declared.playbook is None else declared.playbook[0].rules
        return declared.problem if rules is None else rules.schema

    assert "s.json" in (in_force() or "")
    schema.write_text('{"type": "object"}')
    assert in_force() == '{"type":"object"}'
    schema.write_text('{"type": "number"}')
    assert in_force() == '{"type":"number"}'


def test_a_directory_is_listed_again_once_an_entry_came_or_went_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").touch()
    _later(monkeypatch)
    scans: list[str] = []
    scan = os.scandir

    def noted(path: str) -> object:
        scans.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", noted)
    assert [_names(tmp_path), _names(tmp_path)] == [["a"], ["a"]]
    assert len(scans) == 1
    before = tmp_path.stat()
    while tmp_path.stat().st_ctime_ns == before.st_ctime_ns:
        (tmp_path / "b").touch()
        (tmp_path / "b").unlink()
    (tmp_path / "b").touch()
    assert _names(tmp_path) == ["a", "b"]
    (tmp_path / "a").unlink()
    assert _names(tmp_path) == ["b"]


def test_a_file_that_comes_within_the_tick_in_which_its_directory_was_listed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tick = time.time_ns()

    def come(name: str) -> None:
        (tmp_path / name).touch()
        os.utime(tmp_path, ns=(tick, tick))

    # Likewise; a directory need not grow with its entries.
    monkeypatch.setattr(
        listings, "signature_of", lambda status: Signature(status.st_ino, 0, 0, 0, status.st_mtime_ns)
    )
    come("a")
    assert _names(tmp_path) == ["a"]
    come("b")
    assert _names(tmp_path) == ["a", "b"]


def test_a_link_is_followed_anew_although_its_directory_did_not_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, target = tmp_path / "playbooks", tmp_path / "p"
    directory.mkdir()
    (directory / "p.playbook.yaml").symlink_to(target)
    _later(monkeypatch)
    settings = Settings(str(tmp_path / "state"), (str(directory),))
    assert playbook_names(settings) == ()
    target.touch()
    assert playbook_names(settings) == ("p",)
    target.unlink()
    assert playbook_names(settings) == ()


@pytest.mark.parametrize(
    ("use", "file", "stats"),
    [
        (lambda declarer: declarer.play("p"), "playbooks/p.playbook.yaml", 1),
        (lambda declarer: declarer("p", None), "playbooks/p.playbook.yaml", 1),
        (lambda declarer: declarer(None, "a"), "agents/a.md", 1),
        (lambda declarer: declarer.chain("c"), "chains/c.yaml", 1),
        (lambda declarer: declarer.listening("x"), "chains/c.yaml", 2),
        (lambda declarer: declarer.listening("y"), "chains/c.yaml", 1),
    ],
)
def test_a_use_of_what_is_known_opens_no_file_and_costs_few_stats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Declarer], object], file: str, stats: int
) -> None:
    for name, text in (
        ("playbooks/p.playbook.yaml", "command: ['true']\n"),
        ("agents/a.md", "---\nname: a\n---\n"),
        ("chains/c.yaml", "name: c\ntrigger: {event: x}\nsteps:\n  - {skill: p}\n"),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    _later(monkeypatch)
    places = [(str(tmp_path / name),) for name in ("playbooks", "agents", "chains")]
    roots = (Root("runs", str(tmp_path)),)
    declarer = Declarer(
        Settings(str(tmp_path / "state"), places[0], places[1], chains=places[2], roots=roots)
    )
    first = use(declarer)
    opened: list[str] = []
    asked: list[str] = []

    def noted(into: list[str], call: Callable[..., object]) -> Callable[..., object]:
        def noting(path: object, *further: object, **named: object) -> object:
            into.append(str(path))
            return call(path, *further, **named)

        return noting

    for module, name in ((os, "open"), (os, "scandir"), (os, "listdir"), (io, "open"), (builtins, "open")):
        monkeypatch.setattr(module, name, noted(opened, getattr(module, name)))
    for name in ("stat", "lstat"):
        monkeypatch.setattr(os, name, noted(asked, getattr(os, name)))
    assert use(declarer) == first
    monkeypatch.undo()
    assert opened == []
    assert asked.count(str(tmp_path / file)) == stats, "for its mark; once more for the marks of all chains"


def test_a_file_that_comes_before_a_known_one_hides_it_and_one_that_goes_shows_the_next(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    declarer = Declarer(
        Settings(str(tmp_path / "state"), (str(first), str(second)), roots=(Root("runs", str(tmp_path)),))
    )
    (second / "p.playbook.yaml").write_text("command: [second]\n")
    for command, change in (
        ("second", lambda: None),
        ("first", lambda: (first / "p.playbook.yaml").write_text("command: [first]\n")),
        ("second", (first / "p.playbook.yaml").unlink),
    ):
        change()
        for _ in range(2):
            playbook = declarer.play("p").playbook
            assert playbook is not None
            assert playbook.command == (command,)
