"""What `runward init` writes: the first settings, a playbook that asks for a file, and the rule that holds a project to it."""

import json
import re
from hashlib import sha256
from typing import Final

from runward.config.glob_rule import ANY_DEPTH, escaped
from runward.config.notification import KINDS
from runward.config.path_rule import names_in
from runward.daemon.hooks.toml_text import quoted_in_toml

TOLD: Final = tuple(each for each in ("approval.asked", "session.waiting", "session.failed") if each in KINDS)
"""The notices that a desktop shows: somebody is waited for, or a session failed."""

USUAL_FILE: Final = "report.md"

_SETTINGS: Final = """\
# Runward's settings. `runward config show --origin` prints all of them, and where each comes from.
# The daemon applies a change within seconds; `runward status` says if one is wrong.
# No [[roots]] are named, so it follows every agent that it knows, wherever it finds one, later ones, too.

# How long the record of a session is kept after its end:
# retention = "365d"

"""
_DESKTOP: Final = """\
# What the desktop shows (`runward notify test` tries it):
{lead}[[notify]]
{lead}on = [{on}]
{lead}desktop = true

"""
_RULE_EXAMPLE: Final = """\
# Hold every session in a project to a file (`runward init --project DIR --deliver FILE` writes such a rule):
# [[contracts]]
# match = { cwd = "~/work/app/**" }
# playbook = "report"
"""


def settings_text(has_desktop: bool) -> str:
    """The first settings. What can't work here, or is for later, is commented out."""
    on = ", ".join(quoted_in_toml(each) for each in TOLD)
    return _SETTINGS + _DESKTOP.format(lead="" if has_desktop else "# ", on=on) + _RULE_EXAMPLE


def playbook_name(file: str) -> str:
    """The name of the playbook that asks for this file."""
    path = "/".join(names_in(file))
    return "report" if path == USUAL_FILE else f"deliver-{_name_of(path)}"


def playbook_text(file: str) -> str:
    """A playbook that asks for one file."""
    path = "/".join(names_in(file))
    return (
        "# What a run must leave behind. `runward run --playbook NAME -- COMMAND` holds one command to it.\n"
        f"name: {playbook_name(file)}\n"
        "artifacts:\n"
        "  expected:\n"
        f"    - {{id: {_id_of(path)}, path: {json.dumps(path)}, description: What was done and what is open}}\n"
    )


def rule_file(settings: str, project: str) -> str:
    """The drop-in of these settings that holds a project to its file."""
    return f"{settings}.d/project-{_name_of(project, last_name(project))}.toml"


def last_name(path: str) -> str:
    """The last name of a path."""
    return (names_in(path) or ["root"])[-1]


def rule_text(project: str, file: str) -> str:
    """The rule: every session in the project, and below it, gets the playbook."""
    glob = f"{escaped(project.rstrip('/'))}/{ANY_DEPTH}"
    return (
        "# Every session in this directory must leave the file that the playbook asks for.\n"
        "[[contracts]]\n"
        f"match = {{ cwd = {quoted_in_toml(glob)} }}\n"
        f"playbook = {quoted_in_toml(playbook_name(file))}\n"
    )


def _name_of(path: str, shown: str | None = None) -> str:
    """A name for a file: what can be read of the path, and what tells it from others that read alike."""
    readable = _plain(path if shown is None else shown)
    return f"{readable}-{sha256(path.encode()).hexdigest()[:6]}" if readable != path else readable


def _id_of(path: str) -> str:
    return _plain(last_name(path).partition(".")[0]) or "file"


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-")[:60]
