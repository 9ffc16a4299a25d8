"""All that can be measured, in the order in which it is measured and shown."""

from typing import Final

from tests.bench import (
    agreement,
    beyond_watch_limit,
    bundles,
    bursts,
    chains,
    commands,
    exchange,
    growth,
    hashing,
    home,
    hook,
    idle,
    large_store,
    latency,
    launcher,
    memory,
    schedules,
    start,
    storms,
    studio,
    transcript,
)
from tests.bench.figure import Measurement

MEASUREMENTS: Final[tuple[Measurement, ...]] = (
    *chains.MEASUREMENTS,
    *launcher.MEASUREMENTS,
    *bursts.MEASUREMENTS,
    *latency.MEASUREMENTS,
    *storms.MEASUREMENTS,
    *schedules.MEASUREMENTS,
    *idle.MEASUREMENTS,
    *bundles.MEASUREMENTS,
    *exchange.MEASUREMENTS,
    *start.MEASUREMENTS,
    *beyond_watch_limit.MEASUREMENTS,
    *memory.MEASUREMENTS,
    *hashing.MEASUREMENTS,
    *commands.MEASUREMENTS,
    *hook.MEASUREMENTS,
    *transcript.MEASUREMENTS,
    *home.MEASUREMENTS,
    *studio.MEASUREMENTS,
    *large_store.MEASUREMENTS,
    *growth.MEASUREMENTS,
    *agreement.MEASUREMENTS,
)
