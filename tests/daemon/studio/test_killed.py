"""A change is done once or not at all, also if the program or the daemon is killed between the click and the commit."""

import http.client
import json
import signal
import threading
import time
import uuid
from urllib.parse import urlencode

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.studio.conftest import Studio
from tests.daemon.studio.test_attention_pages import before_now
from tests.daemon.studio.test_session_pages import path_of
from tests.waiting import PATIENCE_S, wait_for

from runward.daemon.disk.credentials import new_cookie, own_name, studio_key
from runward.daemon.inbox.spool import INBOX, SUFFIX
from runward.daemon.studio.guard import COOKIE

KILLS = 8
LATEST_S = 0.03
"""A click takes some ten milliseconds: the kills are spread over it."""


def click(place: Place, path: str, fields: dict[str, str]) -> str | None:
    """Send a form; the address that the answer leads to, None if there was no answer."""
    key = studio_key(place.state)
    name = own_name(key)
    headers = {
        "host": name,
        "cookie": f"{COOKIE}={new_cookie(key, name, time.time())}",
        "sec-fetch-site": "same-origin",
    }
    port = int((place.state / "studio" / "port").read_text())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("POST", path, urlencode(fields), headers)
        answer = connection.getresponse()
        assert answer.status == 303, answer.read()
        return answer.getheader("location")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def answers(place: Place) -> bool:
    try:
        port = int((place.state / "studio" / "port").read_text())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, ValueError, http.client.HTTPException):
        return False


def seen(place: Place) -> set[str]:
    return {str(key) for (key,) in place.rows("select lane from events where type = 'SessionSeenRequested'")}


@pytest.mark.prove
async def test_a_click_is_done_once_or_not_at_all_whenever_the_program_is_killed(
    place: Place, studio: Studio
) -> None:
    for number in range(KILLS):
        place.add_run(f"crashed-{number}", exit_code=3, finished_at=before_now(0))
    place.daemon_once()
    promised, stored = set(), set()
    for number in range(KILLS):
        key = f"native:runs/crashed-{number}"
        program = place.start_process("studio", "--print")
        wait_for(lambda: answers(place), "the Studio")
        killer = threading.Timer(LATEST_S * number / KILLS, program.send_signal, [signal.SIGKILL])
        killer.start()
        once = str(uuid.uuid4())
        if click(place, path_of(key), {"once": once, "action": "seen"}) is not None:
            promised.add(key)
        killer.join()
        program.communicate()
        whole = list((place.state / INBOX).glob(f"*{SUFFIX}"))
        stored = {json.loads(each.read_text())["payload"]["session_key"] for each in whole}
        assert len(whole) == len(stored)
        assert promised <= stored
    place.daemon_once()
    assert seen(place) == stored
    for number in range(KILLS):
        key = f"native:runs/crashed-{number}"
        has_form = "<button>Seen</button>" in (await studio.get(path_of(key))).text
        assert has_form == (key not in stored)


@pytest.mark.prove
async def test_a_click_is_done_once_when_the_daemon_is_killed_before_or_after_it_commits(
    place: Place, studio: Studio
) -> None:
    for number in range(KILLS):
        place.add_run(f"crashed-{number}", exit_code=3, finished_at=before_now(0))
    place.daemon_once()
    for number in range(KILLS):
        key = f"native:runs/crashed-{number}"
        with place.daemon_process() as daemon:
            asked = await studio.send(path_of(key), action="seen")
            time.sleep(LATEST_S * number / KILLS)
            daemon.send_signal(signal.SIGKILL)
            daemon.wait()
        page = (await studio.get(asked.headers["location"])).text
        assert ("It is stored, and not decided yet." in page) or ("recorded" in page) or ("Done" in page)
    place.daemon_once()
    recorded = place.rows("select lane from events where type = 'SessionSeenRequested'")
    assert sorted(str(lane) for (lane,) in recorded) == sorted(
        f"native:runs/crashed-{each}" for each in range(KILLS)
    )
    assert list((place.state / INBOX).glob(f"*{SUFFIX}")) == []
