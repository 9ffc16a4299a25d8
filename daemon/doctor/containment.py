"""How a run's whole process tree can be contained here: each method is tried on a run."""

from collections.abc import Iterator
from typing import Final

from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.doctor.private_place import PrivatePlace, private_place

METHODS: Final = {
    "scope": "run it in a session of `systemd --user` (XDG_RUNTIME_DIR is set there)",
    "cgroup": "run the daemon as a unit with Delegate=yes",
    "pidns": "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces)",
    "subreaper": "this needs Linux 3.4 and /proc",
}
"""Each means, the strongest first, and what lets it work."""

_IDLE: Final = ("sh", "-c", ":")


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """One run per method, in a private place. On its own, each launcher uses the strongest one that works."""
    with private_place(installation.environment, patience) as place:
        there = []
        for means, fix in METHODS.items():
            why = _refusal(place, means)
            if why is None:
                there.append(means)
            elif means == "subreaper":
                yield Finding("failed", f"no containment works, not even {means}: {why}", fix)
            else:
                yield Finding("skipped", f"no {means}: {why}", fix)
    if "scope" in there or "cgroup" in there:
        yield Finding("ok", f"runs are contained by {there[0]}; {', '.join(there)} work")
    elif there:
        said = f"runs are contained by their launcher alone ({', '.join(there)} work)"
        yield Finding(
            "warning",
            f"{said}: a process that escapes while its launcher is killed keeps running",
            METHODS["scope"],
        )


def _refusal(place: PrivatePlace, means: str) -> str | None:
    """Why a run can't be contained by `means`; None if it can."""
    ended = place.call("run", "--containment", means, "--no-verify", "--", *_IDLE)
    if ended.code == 0:
        return None
    lines = ended.err.strip().splitlines() or [f"the run ended with {ended.code}"]
    return lines[-1].removeprefix("runward run: ")
