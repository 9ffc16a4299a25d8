"""Every check, in the order that is useful to a person: what is written, where it is, what it can do."""

from typing import Final

from runward.daemon.doctor import (
    canary,
    clocks,
    configuration,
    containment,
    daemons,
    database,
    durability,
    file_systems,
    hooks,
    listener,
    lock,
    notices,
    notifications,
    queue,
    rights,
    roots,
    sandbox,
    store,
    unit,
)
from runward.daemon.doctor.examining import Check

CHECKS: Final = (
    Check("settings", "settings, playbooks and agent profiles are read", 10, configuration.examine),
    Check("rights", "permissions are checked", 10, rights.examine),
    Check("file_systems", "file systems are checked", 10, file_systems.examine),
    Check("lock", "a lock is tried against another process", 20, lock.examine),
    Check("fsync", "files are written durably", 20, durability.examine),
    Check("clocks", "clocks are compared", 10, clocks.examine),
    Check("sqlite", "a database is made", 20, database.examine),
    Check("store", "every page of the store is checked", 60, store.examine),
    Check("roots", "the roots are read", 20, roots.examine),
    Check("notifications", "the directories of the roots are counted", 60, notifications.examine),
    Check("unit", "systemd is asked", 20, unit.examine),
    Check("daemon", "processes are looked at", 20, daemons.examine),
    Check("listener", "what listens is asked, or opened", 20, listener.examine),
    Check("notices", "recipients of notices are checked", 10, notices.examine),
    Check("queue", "the queue is read", 20, queue.examine),
    Check("hooks", "Claude Code is asked for its version", 40, hooks.examine),
    Check("containment", "runs are launched in each containment", 90, containment.examine),
    Check("sandbox", "code is run in the sandbox", 60, sandbox.examine),
    Check("canary", "runs are launched and judged from start to end", 120, canary.examine),
)
