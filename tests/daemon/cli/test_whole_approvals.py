"""Nobody is offered to approve what was cut: wherever a command is not shown to its end, the whole of it is offered instead."""

import json
import shutil

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.drawn import draw
from tests.daemon.cli.everyday import Everyday
from tests.daemon.cli.test_chain_approvals import furnished
from tests.waiting import wait_for

from runward.daemon.cli.terminal.notices import notice_text
from runward.daemon.store.tables.chain_runs import ChainRunRow, ChainStepRow
from runward.daemon.views.answers import MOST
from runward.daemon.views.chain_rows import step_lines

_HARM = "rm -rf /important"
_SCREENS = {"home": (), "why": ("why", "chain:@last")}


@pytest.fixture(scope="module")
def asking(everyday: Everyday, tmp_path_factory: pytest.TempPathFactory) -> Everyday:
    """The day's work, whose approval may be replaced."""
    directory = tmp_path_factory.mktemp("asking")
    shutil.copytree(everyday.directory, directory, dirs_exist_ok=True, symlinks=True)
    place = Everyday(directory)
    place.now = everyday.now
    place.change_store("drop trigger approvals_are_decided_once")
    return place


def _asks(place: Everyday, script: str) -> None:
    shown = json.dumps({"argv": ["sh", "-c", script]})
    place.change_store("update approvals set shown = json_patch(shown, ?) where status = 'asked'", shown)


def _without_blanks(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("screen", _SCREENS)
@pytest.mark.parametrize(("columns", "variables"), [(80, {}), (40, {"LANG": "C"})], ids=str)
def test_approval_is_offered_only_below_the_whole_command(
    asking: Everyday, screen: str, columns: int, variables: dict[str, str]
) -> None:
    (row,) = asking.rows("select id from approvals where status = 'asked'")
    offered = set()
    # The harmful part is whole, lies across the cut, and just beyond it; the last one has 10,000 columns.
    for length in (0, *range(20, 400, 18), 10_000):
        _asks(asking, f"echo {'a ' * (length // 2)}; {_HARM}")
        text = draw(asking, (columns, 24), *_SCREENS[screen], **variables).text
        is_whole = _without_blanks(f"; {_HARM}'") in _without_blanks(text)
        is_offered = _without_blanks(f"runward chain approve {row[0]}") in _without_blanks(text)
        assert is_offered == is_whole, text
        if not is_offered:
            assert ("..." if variables else "…") in text
            assert "runwardchainapprovals" in _without_blanks(text)
        offered.add(is_offered)
    assert False in offered
    assert columns == 40 or True in offered
    whole = draw(asking, (columns, 24), "chain", "approvals", **variables).written
    assert _without_blanks(f"{'a ' * 5000}; {_HARM}'") in _without_blanks("".join(whole))


@pytest.mark.parametrize("command", ["chain runs", "session list", "session list --columns WHAT", "top"])
def test_a_list_that_cuts_a_command_says_so_and_offers_nothing(asking: Everyday, command: str) -> None:
    _asks(asking, f"echo {'a ' * 5000}; {_HARM}")
    drawn = draw(asking, (80, 24), *command.split(), keys="q" if command == "top" else "")
    (line, *_) = [each for each in drawn.lines if "asks: sh -c" in each]
    assert line.endswith("…")
    assert "chain approve" not in drawn.text


@pytest.mark.parametrize(("before", "after"), [(3, 4), (6, 1), (12, 0), (0, 20), (30, 30)])
def test_the_step_that_waits_is_told_however_many_there_are(before: int, after: int) -> None:
    steps = [{"id": f"s{number}", "action": "merge"} for number in range(before + 1 + after)]
    definition = json.dumps({"steps": steps})
    run = ChainRunRow(
        "cr_1", "c", "e", "waiting_approval", "", "", before, 0.0, 1.0, None, "{}", definition, 1
    )
    states = ["skipped" if number % 2 else "completed" for number in range(before)] + ["waiting_approval"]
    tries = [
        ChainStepRow(number, 1, state, None, None, None, None, None, 0.0, 1.0, None, None, None, None, None)
        for number, state in enumerate(states)
    ]
    lines = step_lines(run, tries, _HARM, MOST - 1)
    assert len(lines) <= MOST - 1
    assert [text.split("  ")[-1] for _, text, state in lines if state == "waiting"] == [_HARM]
    named = [text for _, text, _ in lines if text.startswith("s")]
    counted = sum(int(text.split()[0]) for _, text, _ in lines if text[0].isdigit())
    assert len(named) + counted == len(steps), "each step is told, or counted"


def test_a_terminal_notice_that_is_cut_says_so() -> None:
    assert notice_text("a" * 131) == f"Runward: {'a' * 131}"
    assert notice_text("a" * 132) == f"Runward: {'a' * 130}…"


@pytest.mark.parametrize("length", [0, 1800, 1890, 10_000])
def test_a_notice_offers_approval_only_with_the_whole_command(place: Place, length: int) -> None:
    furnished(place, "{}")
    settings = place.directory / "runward.toml"
    told = place.directory / "told"
    action = f'command = ["sh", "-c", \'echo {"a" * length}; {_HARM}\']\n'
    notify = f'[[notify]]\non = ["approval.asked"]\ncommand = ["sh", "-c", \'echo "$1" >"$0.new"; mv "$0.new" "$0"\', "{told}", "{{{{ with.text }}}}"]\n'
    settings.write_text(f"{settings.read_text()}[actions.long]\n{action}{notify}")
    chain = place.directory / "long.yaml"
    chain.write_text(
        "name: long\ntrigger: {manual: true}\nsteps: [{action: long, requires_approval: true}]\n"
    )
    assert place.call("chain", "define", "long.yaml").code == 0
    with place.daemon():
        assert place.call("chain", "fire", "long").code == 0
        wait_for(told.exists, "the notice")
    command, offered = told.read_text().splitlines()
    (row,) = place.rows("select id from approvals")
    if command.endswith(f'; {_HARM}"]'):
        assert offered == f"runward chain approve {row[0]}"
    else:
        assert command.endswith("…")
        assert offered == "runward chain approvals"
    assert (length < 1850) == command.endswith(f'; {_HARM}"]')
