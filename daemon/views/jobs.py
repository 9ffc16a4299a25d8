"""Jobs as programs read them."""

from runward.config.json_value import JsonValue
from runward.daemon.store.reading_causes import JobRow
from runward.daemon.views.units import iso


def job_as_json(job: JobRow) -> dict[str, JsonValue]:
    """A job as `queue list --json` prints it."""
    return {
        "id": job.id,
        "event": job.event_key,
        "type": job.event_type,
        "handler": job.handler,
        "lane": job.lane,
        "state": job.state,
        "tries": job.tries,
        "error": job.error,
        "recorded_at": iso(job.recorded_at),
        "due_at": iso(job.run_after) if job.run_after else None,
        "updated_at": iso(job.updated_at),
        "blocked_by": job.blocked_by,
    }
