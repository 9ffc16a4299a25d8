"""Notices: whether each recipient of `[[notify]]` can be told, and whether any notice was given up. Nothing is sent."""

import shutil
from collections.abc import Iterator, Mapping

from runward.config.counting import counted
from runward.config.notification import Recipient
from runward.daemon.configuration.secret_file import SecretUnusable, first_line, secret_of
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.store import reading
from runward.daemon.store.reading_notices import notices_by_state

_DESKTOP = "notify-send"


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """What each recipient needs, then what the store says."""
    recipients = installation.settings.notify
    if not recipients:
        yield Finding("ok", "nobody is told of anything: the settings have no [[notify]]")
    for each in recipients:
        why = _why_not(each, installation.environment)
        if why is None:
            said = f"{each.name} has what it needs; `runward notify test` sends a notice"
            yield Finding("ok", said)
        else:
            yield Finding("failed", f"{each.name} can't be told: {why[0]}", why[1])
    try:
        with reading.reading(installation.settings.state_dir) as connection:
            dead = notices_by_state(connection)["dead"]
    except reading.StoreUnreadable as error:
        yield Finding("skipped", str(error))
        return
    if isinstance(dead, int) and dead:
        fix = "`runward notify list --state dead` says why, `runward notify retry ID` tries one again"
        yield Finding("warning", f"{counted(dead, 'notice', 'notices')} could not be delivered", fix)


def _why_not(recipient: Recipient, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Why a recipient can't be told, and what to do."""
    program = (
        _DESKTOP if recipient.means == "desktop" else recipient.command[0] if recipient.command else None
    )
    is_known = program is not None and "{{" not in program
    if is_known and program is not None and shutil.which(program, path=environment.get("PATH")) is None:
        return f"there is no program {program}", "install it, or give its whole path"
    try:
        if recipient.address_file is not None:
            first_line(recipient.address_file)
        if recipient.secret_file is not None:
            secret_of(recipient.secret_file)
    except SecretUnusable as error:
        return str(error), "write it into a file of mode 0600"
    return None
