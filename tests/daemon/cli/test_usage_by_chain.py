"""`runward usage --by chain`: what the agents used that the steps of real chain runs started."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.daemon.cli.calling import SETTINGS, Place
from tests.demo import agents
from tests.waiting import wait_for

_ROOTS: Final = (
    '[[roots]]\nname = "runs"\npath = "state/runs"\nlayout = "native"\n'
    '[[roots]]\nname = "codex"\npath = ".codex"\nlayout = "codex"\nhistory = "live"\n'
)
_CHAIN: Final = "name: {}\ntrigger: {{event: work.asked}}\nsteps: [{{id: work, skill: agent, with: {{session: '{{{{ trigger.session }}}}'}}}}]\n"
_SESSION: Final = "01a2175a-e6c4-751a-8cb5-d6b41ca5e8{:02d}"


def furnish(place: Place) -> None:
    """Two chains, whose step is an agent that replies once, and then works until it is cancelled."""
    place.furnish()
    (place.directory / "runward.toml").write_text(SETTINGS + _ROOTS)
    home, works_in = str(place.directory / ".codex"), str(place.directory)
    command = [sys.executable, agents.__file__, "codex", home, "{{ with.session }}", works_in]
    (place.directory / "playbooks/agent.playbook.yaml").write_text(f"command: {json.dumps(command)}\n")
    for name in ("deliver", "tidy"):
        (place.directory / f"{name}.yaml").write_text(_CHAIN.format(name))


def test_each_chain_has_what_the_agents_of_its_runs_used(tmp_path: Path) -> None:
    place = Place(tmp_path)
    furnish(place)
    alone = [agents.__file__, "codex", str(tmp_path / ".codex"), _SESSION.format(9), str(tmp_path), "-"]
    subprocess.run([sys.executable, *alone], check=True)
    with place.daemon():
        for name in ("deliver", "tidy"):
            assert place.call("chain", "define", f"{name}.yaml").code == 0
        try:
            for number, name in enumerate(("deliver", "tidy", "deliver")):
                fired = place.call("chain", "fire", name, f"session={_SESSION.format(number)}")
                assert fired.code == 0, fired.err
            # What an agent is part of is asked of its living process.
            wait_for(lambda: place.rows("select count(*) from links") == [(3,)], "agents that are linked")
            wait_for(
                lambda: place.rows("select sum(replies) from usage") == [(5,)], "replies that are counted"
            )
        finally:
            for (key,) in place.rows("select session_key from chain_steps where session_key is not null"):
                assert place.call("session", "cancel", str(key)).code == 0
            ended = "select count(*) from chain_runs where status not in ('running', 'waiting_approval')"
            wait_for(lambda: place.rows(ended) == [(3,)], "runs that have ended")
    answer = place.call("usage", "--by", "chain", "--json")
    found = {row["key"]: (row["sessions"], row["replies"]) for row in answer.items("rows")}
    assert found == {"deliver": (2, 2), "tidy": (1, 1), None: (1, 2)}
    shown = [line.split() for line in place.call("usage", "--by", "chain").out.splitlines()]
    assert [line[0] for line in shown[:4]] == ["CHAIN", "-", "deliver", "tidy"]
