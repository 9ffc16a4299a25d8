"""The layouts of other tools that are read: one line each.

A layout is a separate file in this directory; `transcript.py` says what it must provide. The native layout isn't among
them: its runs are Runward's own, and read by `native.py`. This module imports them all, so what may get along without
them imports it where it needs it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from runward.handlers.layouts import (
    adjutant,
    claude_code,
    cline,
    codex,
    copilot,
    ctcp,
    droid,
    kimi,
    lionagi,
    opencode,
    pi,
    qwen,
    show,
)
from runward.handlers.layouts.conversation import ConversationDirectory
from runward.handlers.layouts.layout import (
    Declared,
    DirectoryLayout,
    InDirectory,
    Layouts,
    LogLayout,
)
from runward.handlers.layouts.transcript import Said

LAYOUTS: Final = Layouts(
    logs=(
        LogLayout(
            module=claude_code,
            usual_place=re.compile(r"/projects/[^/]+/[0-9a-f-]{36}\.jsonl$"),
            names_process=True,
            beside=("{name}/subagents/*.jsonl", "{name}/subagents/workflows/*/agent-*.jsonl"),
            no_sessions=("agent-",),
        ),
        LogLayout(module=codex, usual_place=re.compile(r"/rollout-[^/]+\.jsonl$"), names_process=True),
        LogLayout(
            module=pi.LOG,
            usual_place=re.compile(r"/--[^/]*--/[^/]+_[0-9a-f-]{36}\.jsonl$"),
            names_process=False,
        ),
        LogLayout(
            module=qwen.LOG,
            usual_place=re.compile(r"/chats/[0-9a-f-]{36}\.jsonl$|/subagents/[^/]+/agent-[^/]+\.jsonl$"),
            names_process=False,
            documents=("{name}.meta.json",),
            among=("subagents/*/agent-*.jsonl",),
            hosts_subagents=True,
        ),
        LogLayout(
            module=droid.LOG,
            usual_place=re.compile(r"/sessions/[^/]+/[0-9a-f-]{36}\.jsonl$"),
            names_process=False,
            documents=("{name}.settings.json",),
        ),
        LogLayout(
            module=opencode.OPENCODE,
            usual_place=re.compile(r"/opencode[^/]*\.db/[^/]+$"),
            names_process=False,
            database=opencode.OPENCODE_DATABASE,
        ),
        LogLayout(
            module=opencode.KILO,
            usual_place=re.compile(r"/kilo[^/]*\.db/[^/]+$"),
            names_process=False,
            database=opencode.KILO_DATABASE,
        ),
    ),
    directories=(
        DirectoryLayout(module=ctcp, goes_by_id=False),
        DirectoryLayout(module=adjutant, goes_by_id=False),
        DirectoryLayout(module=lionagi, goes_by_id=True, logs_come_and_go=True, artifacts="artifacts"),
        DirectoryLayout(
            module=copilot.DIRECTORY,
            goes_by_id=True,
            names_process=True,
            final_message=(copilot.LOG, copilot.DIRECTORY.final_message),
        ),
        DirectoryLayout(
            module=cline,
            goes_by_id=True,
            final_message=(cline.MESSAGES, cline.final_message),
            conversation=InDirectory(cline.MESSAGES, cline.message_in, cline.lines_of),
        ),
        DirectoryLayout(
            module=kimi.DIRECTORY,
            goes_by_id=True,
            levels=2,
            final_message=(kimi.LOG, kimi.DIRECTORY.final_message),
        ),
        DirectoryLayout(module=show, goes_by_id=False, outcomes=((show.VERDICT, show.gate_verdict),)),
    ),
)
"""What Runward reads. A new layout is a module and its entry here; everything else follows from the entry."""

DECLARED: Final[Mapping[str, Declared]] = {
    **{each.name: each.declared() for each in LAYOUTS.logs},
    **{each.name: each.declared() for each in LAYOUTS.directories},
}
"""What each declares about reading its sessions, by its name. `layout.declared` also knows the native layout."""

_CONVERSATIONS: Final = {
    each.name: InDirectory(each.module.LOGS[0], each.module.message_in)
    for each in LAYOUTS.directories
    if isinstance(each.module, ConversationDirectory)
} | {each.name: each.conversation for each in LAYOUTS.directories if each.conversation is not None}

MESSAGES: Final[Mapping[str, Callable[[bytes], Said | None]]] = {
    **{each.name: each.module.message_in for each in LAYOUTS.logs},
    **{name: each.message_in for name, each in _CONVERSATIONS.items()},
}
"""The text that a line of a layout's log adds to the conversation, by the layout's name."""


def conversation_in(layout: str) -> InDirectory | None:
    """The conversation in a session's directory; None if the session itself is the log."""
    return _CONVERSATIONS.get(layout)
