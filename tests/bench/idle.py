"""What the daemon takes while nothing happens over run directories that it watches."""

import subprocess
import sys
import time
from pathlib import Path

from tests.bench.figure import Figure, Goal, of_ratio, of_samples
from tests.bench.fixtures import make
from tests.bench.product import daemon
from tests.bench.scratch import scratch
from tests.bench.usage import Usage, usage

_PROCESSOR = Goal("at most", 0.6)
_MEMORY = Goal("at most", 1.8)
_PACKAGES = "anyio, click, msgspec, structlog, zstandard"


def idle(memory: Path, count: int, seconds: float, repeats: int) -> list[Figure]:
    """Share of a core over `seconds` (more than the 30 s between periodic scans), and memory against bare imports."""
    shares: list[float] = []
    ours: list[Usage] = []
    imports: list[Usage] = []
    with scratch(memory) as place:
        make(str(place.runs), range(count))
        for _ in range(repeats):
            imports.append(bare_imports(_PACKAGES))
            with daemon(place) as running:
                running.wait_running(count)
                before, begin = running.usage().cpu_s, time.monotonic()
                time.sleep(seconds)
                after = running.usage()
                shares.append((after.cpu_s - before) / (time.monotonic() - begin) * 100)
                ours.append(after)
    daemon_mb, imports_mb = [it.rss_mb for it in ours], [it.rss_mb for it in imports]
    beside = f"resident {daemon_mb[-1]:.1f} MB against {imports_mb[-1]:.1f}, proportional {ours[-1].pss_mb:.1f} against {imports[-1].pss_mb:.1f}"
    name = f"idle over {count:,} run directories"
    return [
        of_samples(f"{name}, processor", shares, "% of a core", _PROCESSOR, f"over {seconds:g} s each"),
        of_ratio(f"{name}, memory", daemon_mb, imports_mb, _MEMORY, beside, unit="x bare imports"),
    ]


def bare_imports(packages: str) -> Usage:
    """A process that imports these packages and does nothing else."""
    program = f"import {packages}; print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        taken = usage(process.pid)
        process.communicate(b"\n")
    return taken
