"""Wrong chain files under a running daemon: each has one complaint with its place, none fires, and all else goes on."""

import os
import re
from pathlib import Path

from tests.config.test_chain import WRONG
from tests.daemon.cli.calling import Place
from tests.waiting import wait_for

GOOD = "name: good\ntrigger: {event: x}\nsteps:\n  - {skill: review}\n"
BYTES = {
    "latin-1": (b"name: \xe9\n", ":1: is not UTF-8"),
    "empty": (b"", ":1:1: a chain must be a table of keys"),
    "no-yaml": (b"name: [\n", ":2:1: is not YAML"),
    "nul": (b"name: a\0b\n", ":1:8: character"),
    "twice": (b"name: a\nname: b\n", ":2:1: key 'name' is already at 1:1"),
    "aliases": (b"a: &a [1]\nb: [*a, *a]\n", ":1:4: &a: anchors are not supported"),
    "deep": (b"[" * 5000, ":1:51: is nested more than 50 deep"),
    "huge": (b"# " + b"x" * 5_000_000, ": is larger than 1048576 bytes"),
}


def put_all(chains: Path) -> dict[str, str]:
    """All wrong files at once. Returns what must be said of each."""
    wanted = {}
    for number, (text, problem) in enumerate(WRONG):
        file = chains / f"wrong-{number}.yaml"
        file.write_text(text.replace("name: a\n", f"name: wrong-{number}\n"))
        wanted[str(file)] = problem.removeprefix("c.yaml")
    for name, (content, problem) in BYTES.items():
        file = chains / f"{name}.yaml"
        file.write_bytes(content)
        wanted[str(file)] = problem
    (chains / "directory.yaml").mkdir()
    (chains / "endless.yaml").symlink_to("/dev/zero")
    (chains / "nowhere.yaml").symlink_to("nowhere")
    os.mkfifo(chains / "pipe.yaml")
    return wanted


def complaints(place: Place) -> dict[str, list[str]]:
    """What `status` says of chain files, by file."""
    found: dict[str, list[str]] = {}
    degraded = place.call("status", "--json").object()["degraded"]
    assert isinstance(degraded, list)
    for each in map(str, degraded):
        if "/chains/" in each:
            found.setdefault(each.partition(":")[0], []).append(each)
    return found


def is_said(wanted: dict[str, str], found: dict[str, list[str]]) -> bool:
    """Whether of each file that is said which must be."""
    return all(problem in "\n".join(found.get(file, ())) for file, problem in wanted.items())


def test_each_wrong_chain_file_has_one_complaint_with_its_place_and_a_good_one_fires(place: Place) -> None:
    (place.directory / "playbooks/review.playbook.yaml").write_text("command: ['true']\n")
    with (place.directory / "runward.toml").open("a") as settings:
        settings.write("[actions.merge]\ncommand = ['true']\n")
    (place.directory / "playbooks/wrong.playbook.yaml").unlink()
    chains = place.directory / "chains"
    chains.mkdir()
    with place.daemon():
        wanted = put_all(chains)
        assert len(wanted) > 50
        # A look may have come while a file was being written.
        found = wait_for(lambda: found if is_said(wanted, found := complaints(place)) else None, "complaints")
        assert found.keys() == wanted.keys()
        for file, (said, *more) in found.items():
            assert re.match(rf"{re.escape(file)}:(\d+:|\d+:\d+:| is larger)", said), "its place"
            assert more == []
        assert {each["path"] for each in place.call("status", "--json").items("problems")} == wanted.keys()
        (chains / "good.yaml").write_text(GOOD)
        assert place.call("event", "emit", "x", "--id", "one").code == 0
        wait_for(lambda: place.rows("select status from chain_runs") == [("completed",)], "the good chain")
        assert place.call("chain", "fire", "wrong-0").code == 1
    assert place.rows("select chain from chain_runs") == [("good",)], "no wrong chain fired"
