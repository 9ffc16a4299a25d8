"""Other durable queues: how long they take to start as many commands as the steps of chain runs, in as many chains.

They get an environment of their own (`.venv/peers`), so that their dependencies and ours don't limit each other. Both keep
their rows in SQLite and sync each commit. Where they can't be installed, their figures are left out, and that is said.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.bench.scratch import scratch
from tests.bench.yardstick import YardstickFailed

_VERSIONS: Final = ("huey==3.5.4", "dbos==3.4.0")
_ENVIRONMENT: Final = Path(__file__).parents[2] / ".venv" / "peers"
_TIMEOUT_S: Final = 900

_HUEY: Final = """\
import logging, os, subprocess, sys, time
from huey import SqliteHuey
runs, steps = int(sys.argv[1]), int(sys.argv[2])
logging.disable(logging.CRITICAL)
queue = SqliteHuey(filename="queue.db")  # WAL and SQLite's default, synchronous=FULL
done = []
@queue.task()
def step(before=None):
    subprocess.run(["true"], check=True)
    done.append(time.monotonic())
    return 1
consumer = queue.create_consumer(workers=os.cpu_count() or 1, periodic=False, check_worker_health=False)
consumer._set_signal_handlers = lambda: None
consumer.start()
begin = time.monotonic()
for _ in range(runs):
    chain = step.s()
    for _ in range(steps - 1):
        chain = chain.then(step)
    queue.enqueue(chain)
while len(done) < runs * steps:
    time.sleep(0.01)
print(max(done) - begin, flush=True)
os._exit(0)
"""

_DBOS: Final = """\
import logging, os, subprocess, sys, time
from dbos import DBOS
runs, steps = int(sys.argv[1]), int(sys.argv[2])
logging.disable(logging.CRITICAL)
address = f"sqlite:///{os.getcwd()}/queue.sqlite"  # a rollback journal and SQLite's default, synchronous=FULL
DBOS(config={"name": "bench", "system_database_url": address, "run_admin_server": False, "log_level": "CRITICAL"})
done = []
@DBOS.step()
def step():
    subprocess.run(["true"], check=True)
@DBOS.workflow()
def chain():
    for _ in range(steps):
        step()
    done.append(time.monotonic())
DBOS.launch()
begin = time.monotonic()
for handle in [DBOS.start_workflow(chain) for _ in range(runs)]:
    handle.get_result()
assert len(done) == runs
print(time.monotonic() - begin, flush=True)
os._exit(0)
"""

PEERS: Final = {"huey": _HUEY, "DBOS": _DBOS}


def installed() -> bool:
    """Whether the peers can be measured; installs them where they are missing."""
    mark = _ENVIRONMENT / "versions.json"
    if mark.exists() and json.loads(mark.read_text()) == list(_VERSIONS):
        return True
    made = subprocess.run([sys.executable, "-m", "venv", str(_ENVIRONMENT)], check=False).returncode == 0
    pip = [str(_ENVIRONMENT / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not made or subprocess.run([*pip, *_VERSIONS], check=False).returncode != 0:
        print("huey and DBOS are left out: pip could not install them", file=sys.stderr)
        return False
    mark.write_text(json.dumps(_VERSIONS))
    return True


def peer_s(disk: Path, peer: str, runs: int, steps: int) -> float:
    """Seconds that a peer takes for `runs` chains of `steps` commands. Raises `YardstickFailed`."""
    with scratch(disk) as place:
        done = subprocess.run(
            [str(_ENVIRONMENT / "bin/python"), "-c", PEERS[peer], str(runs), str(steps)],
            cwd=place.directory,
            env={"PATH": os.environ["PATH"], "HOME": str(place.directory)},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        raise YardstickFailed(f"{peer} failed: {done.stderr.strip()[-300:]}")
    return float(done.stdout)
