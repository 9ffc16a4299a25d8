"""The daemon as its service builds it, with a heartbeat in its own event loop: how long was the loop busy with something else?

    beating.py FILE        settings and state as the environment says; at the end FILE has a line a beat

Each beat asks for a millisecond. A line holds when the beat came (Unix seconds), and how much too late (seconds).
"""

import os
import sys
import time
from pathlib import Path
from typing import Final

# Run as a script, like the installed program: nothing of the tests is needed.
import anyio

from runward.config.settings import Settings
from runward.daemon.configuration.settings import load_settings
from runward.daemon.configuration.settings_files import SettingsFiles
from runward.daemon.host.service import serve
from runward.daemon.host.signals import Signals
from runward.daemon.log import LOG, JsonStream, LogFile, Sinks, open_log
from runward.daemon.store.ownership import prepare

_BEAT_S: Final = 0.001


async def beat(beats: list[tuple[float, float]]) -> None:
    """Beat until cancelled."""
    while True:
        asked = time.perf_counter()
        await anyio.sleep(_BEAT_S)
        beats.append((time.time(), time.perf_counter() - asked - _BEAT_S))


async def _be(settings: Settings, signals: Signals, beats: list[tuple[float, float]]) -> None:
    sinks = Sinks(LogFile(Path(settings.state_dir) / LOG), JsonStream(sys.stderr))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat, beats)
        await serve(
            settings,
            open_log(sinks),
            sinks,
            SettingsFiles(None, os.environ),
            signals,
        )
        tasks.cancel_scope.cancel()


def main(file: str) -> None:
    parsed = load_settings(None, os.environ, str(Path.cwd()))
    assert parsed.value is not None, parsed.errors
    prepare(Path(parsed.value.state_dir))
    beats: list[tuple[float, float]] = []
    signals = Signals()
    signals.listen()
    signals.hold()
    anyio.run(_be, parsed.value, signals, beats)
    Path(file).write_text("".join(f"{at:.6f} {late:.6f}\n" for at, late in beats))


if __name__ == "__main__":
    main(sys.argv[1])
