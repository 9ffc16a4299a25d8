"""An outcome that an agent gave as its last message: a JSON object, alone or in one fenced block."""

import re
from typing import Final

from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.model.outcomes import ReadOutcome
from runward.handlers.outcomes.reading import LARGEST, InvalidOutcome, OutcomeProblem, checked

NAME: Final = "final_message"
"""The name of such an outcome if it has none."""

_FENCE: Final = re.compile(r"^```(json)?[ \t]*\r?$", re.MULTILINE)
_KEY: Final = '"outcome_kind"'


def outcome_in(message: str, source: str) -> ReadOutcome | InvalidOutcome | None:
    """The outcome in an agent's last message. Complaints about it use the name `source`.

    None if the message contains no JSON object of a registered kind: most messages are not outcomes.
    """
    text = _json_in(message)
    if text is None or _KEY not in text:
        return None
    content = text.encode(errors="replace")
    if len(content) > LARGEST:
        return InvalidOutcome(source, (OutcomeProblem("", "is larger than an outcome may be (256 KiB)"),))
    value = read_json(content)
    if isinstance(value, NotJson) or not isinstance(value, dict):
        return None
    from runward.config.outcome import kinds

    kind = value.get("outcome_kind")
    if not isinstance(kind, str) or kind not in kinds():
        return None
    read = checked(value, source, NAME)
    return read._replace(is_file=False) if isinstance(read, ReadOutcome) else read


def _json_in(message: str) -> str | None:
    """The text that may be the object: the whole message, or its only fenced block of JSON."""
    whole = message.strip()
    if whole.startswith("{"):
        return whole
    blocks: list[str] = []
    begin: int | None = None
    for fence in _FENCE.finditer(message):
        if begin is None:
            begin = fence.end() if fence[1] else None
        elif not fence[1]:
            blocks.append(message[begin : fence.start()])
            begin = None
    return blocks[0].strip() if len(blocks) == 1 else None
