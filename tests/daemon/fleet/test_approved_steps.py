"""A step of another host waits for a person, who is asked again if the playbook there was changed since."""

import json

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.fleet.test_remote_steps import ACCEPT, CHAIN, TRAIN, Pair, pair
from tests.waiting import wait_for

__all__ = ["pair"]

pytestmark = [pytest.mark.prove, pytest.mark.longest]
"""It starts daemons with programs, and waits until they look again."""


def _asked(place: Place) -> list[tuple[str, dict[str, object]]]:
    rows = place.rows("select id, shown from approvals where status = 'asked' order by asked_at")
    return [(str(name), json.loads(str(shown))) for name, shown in rows]


def _offered(pair: Pair) -> str:
    path = pair.laptop.state / "fleet/offers.json"
    if not path.exists():
        return ""
    hosts = json.loads(path.read_bytes())["hosts"]
    return str(hosts.get("gpu-box", {}).get("skills", {}).get("train", ""))


def test_a_changed_playbook_of_another_host_is_approved_again(pair: Pair) -> None:
    chain = pair.laptop.directory / "chains/show.yaml"
    chain.write_text(CHAIN.replace("host: gpu-box,", "host: gpu-box, requires_approval: true,"))
    settings = pair.gpu.directory / "runward.toml.d/fleet.toml"
    pair.let_go()
    with pair.laptop.daemon():
        with pair.gpu.daemon():
            wait_for(lambda: _offered(pair), "what the other host offers")
        # It is down now: nobody here learns of the change.
        offered = _offered(pair)
        playbook = TRAIN.replace("PLACE", str(pair.gpu.directory)) + "timeout: 50m\n"
        (pair.gpu.directory / "playbooks/train.playbook.yaml").write_text(playbook)
        pair.fire()
        wait_for(lambda: _asked(pair.laptop), "a question")
        ((first, shown),) = _asked(pair.laptop)
        assert shown["hosts"] == {"gpu-box": offered}
        assert pair.laptop.call("chain", "approve", first).code == 0
        wait_for(lambda: pair.orders() == [("open", 0, False)], "an open order")
        assert ACCEPT in settings.read_text()
        with pair.gpu.daemon():
            wait_for(lambda: _asked(pair.laptop), "another question")
            assert pair.did(pair.gpu) == []
            wait_for(lambda: _offered(pair) != offered, "what it offers now")

            # The first question may be void already: what is offered has changed since.
            def approve() -> bool:
                for name, _ in _asked(pair.laptop):
                    pair.laptop.call("chain", "approve", name)
                return pair.did(pair.gpu) == ["one"]

            wait_for(approve, "the approved step")
            wait_for(pair.is_over, "the end of the chain run")
            assert pair.orders() == [("declined", 1, True), ("ended", 1, True)]
            assert pair.runs()[0][0] == "completed"
