"""Other durable queues: how long they take to start as many commands as the steps of chain runs, in as many chains.

The extra `bench` installs them. Both keep their rows in SQLite and sync each commit. Nothing is installed while something
is measured: a figure whose peer is missing is not measured, and says so.
"""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from tests.bench.figure import Figure, NotMeasured
from tests.bench.scratch import scratch
from tests.bench.yardstick import YardstickFailed

_TIMEOUT_S: Final = 120

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

_PROGRAMS: Final = {"huey": _HUEY, "dbos": _DBOS}
"""By the names of their distributions."""


def without_peer(figure: Figure) -> NotMeasured | None:
    """What a figure gets whose peer is not installed; None where it is, or where there is none."""
    if not figure.peer:
        return None
    try:
        distribution(figure.peer)
    except PackageNotFoundError:
        return NotMeasured(figure, f"peer missing: {figure.peer} (pip install -e '.[bench]' installs it)")
    return None


def peer_s(disk: Path, peer: str, runs: int, steps: int) -> float:
    """Seconds that a peer takes for `runs` chains of `steps` commands. Raises `YardstickFailed`."""
    with scratch(disk) as place:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAMS[peer], str(runs), str(steps)],
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
