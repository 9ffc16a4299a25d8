"""What was hashed in the background: one log line for each batch."""

from collections.abc import Sequence

import structlog

from runward.daemon.ports.clock import Clock
from runward.daemon.store.tables.jobs import JobResult
from runward.handlers.model.contracts import RecordFiles


def log_hashed_files(
    log: structlog.typing.FilteringBoundLogger, clock: Clock, results: Sequence[JobResult], took: float
) -> None:
    """Log how many files these jobs hashed, and that it took `took` seconds."""
    files = [
        file
        for result in results
        for effect in result.effects
        if isinstance(effect, RecordFiles)
        for file in effect.files
    ]
    hashed = [each.size for each in files if each.sha256 is not None]
    if files:
        said = {"files": len(hashed), "of": len(files), "bytes": sum(hashed)}
        log.info("files.hashed", **said, at=clock.now(), took_s=took)
