"""Files of a run, read as outcomes: JSON, JUnit's XML and SARIF. And outcomes that an agent gave as its last message."""

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.handlers.foreign_json import NotJson, read_json
from runward.handlers.layouts.layout import NO_FILES, AsOutcome
from runward.handlers.model.outcomes import OutcomeFile, ReadOutcome
from runward.handlers.outcomes.findings import LARGEST_OUTCOME, NotAReport
from runward.handlers.outcomes.report import REPORTS, outcomes_of

LARGEST: Final = LARGEST_OUTCOME
"""Bytes of an outcome."""


class OutcomeProblem(NamedTuple):
    """What is wrong with an outcome, or with one of its `field`s, as in `findings[1].severity`."""

    field: str
    message: str

    def said(self) -> str:
        """In one line."""
        return f"{self.field}: {self.message}" if self.field else self.message


class InvalidOutcome(NamedTuple):
    """A file without a valid outcome."""

    file: str
    problems: tuple[OutcomeProblem, ...]


def read_outcome(
    file: OutcomeFile,
    kind: str | None = None,
    as_outcome: AsOutcome | None = None,
    wanted: Collection[str] = (),
    home: str | None = None,
) -> ReadOutcome | InvalidOutcome:
    """What the file says. With a `kind` it must hold that kind, and need not name it.

    `as_outcome` makes an outcome of an object in other words. A report that may become one of two kinds becomes the one
    that is `wanted`. Its absolute paths become relative to `home`, the directory that was checked, if that is known.
    """
    value = _value(file, wanted if kind is None else (kind,), home)
    if isinstance(value, str):
        return InvalidOutcome(file.path, (OutcomeProblem("", value),))
    if as_outcome is not None and isinstance(value, dict):
        value = as_outcome(value)
    stem = file.path.rpartition("/")[2].rpartition(".")[0]
    return checked(value, file.path, stem, kind)


def checked(value: JsonValue, file: str, name: str, kind: str | None = None) -> ReadOutcome | InvalidOutcome:
    """The outcome in a value. It gets this `name` if it has none."""
    from runward.config.outcome import CheckedOutcome, check_outcome

    parsed = check_outcome(value, kind)
    if isinstance(parsed, CheckedOutcome):
        return ReadOutcome(parsed.name or name, file, parsed)
    return InvalidOutcome(file, tuple(OutcomeProblem(*each) for each in parsed))


def _value(file: OutcomeFile, wanted: Collection[str], home: str | None) -> JsonValue:
    """The outcome in its written form. A text says why there is none."""
    if file.report is not None:
        return file.report if isinstance(file.report, str) else _chosen(file.path, file.report, wanted, home)
    is_report = file.path.endswith(REPORTS)
    if file.content is None:
        return f"is larger than {'a report may be (64 MiB)' if is_report else 'an outcome may be (256 KiB)'}"
    if is_report:
        content = file.content
        try:
            return _chosen(file.path, outcomes_of(file.path, lambda: (content,)), wanted, home)
        except NotAReport as error:
            return str(error)
    value = read_json(file.content)
    if isinstance(value, NotJson):
        return f"is not JSON: {value.message.removeprefix('not JSON: ')}"
    return value if isinstance(value, dict) else "is not a JSON object"


def _chosen(
    path: str, outcomes: Mapping[str, JsonValue], wanted: Collection[str], home: str | None
) -> JsonValue:
    """The outcome that a report becomes: the other one if the file is called so, or if that is wanted and not the usual."""
    usual, other = outcomes
    is_called_so = path.rpartition("/")[2].rpartition(".")[0] == other
    # The next step of a chain uses the last outcome of a session. So one file must not become two outcomes.
    chosen = outcomes[other if is_called_so or (other in wanted and usual not in wanted) else usual]
    if not (path.endswith(".sarif") and isinstance(chosen, dict)):
        return chosen
    from runward.handlers.outcomes.sarif import placed

    return placed(chosen, home)


def read_outcomes(
    files: tuple[OutcomeFile, ...],
    in_other_words: Mapping[str, AsOutcome] = NO_FILES,
    wanted: Collection[str] = (),
    home: str | None = None,
) -> tuple[list[ReadOutcome], list[InvalidOutcome]]:
    """What the files say, in their order. Those `in_other_words` are converted by their own functions.

    `wanted` are the kinds that the session's contract asks for, `home` is the session's working directory.
    """
    read = [read_outcome(each, None, in_other_words.get(each.path), wanted, home) for each in files]
    return (
        [each for each in read if isinstance(each, ReadOutcome)],
        [each for each in read if isinstance(each, InvalidOutcome)],
    )


FINAL_MESSAGE: Final = "final_message"
"""The name of such an outcome if it has none."""

_FENCE: Final = re.compile(r"^```(json)?[ \t]*\r?$", re.MULTILINE)
_KEY: Final = '"outcome_kind"'


def outcome_in(message: str, source: str) -> ReadOutcome | InvalidOutcome | None:
    """The outcome in an agent's last message: a JSON object, alone or in one fenced block. Complaints about it use the name `source`.

    None if the message contains no JSON object of a registered kind.
    """
    text = _json_in(message)
    # Most last messages are not outcomes, and need not be parsed.
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
    read = checked(value, source, FINAL_MESSAGE)
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
    # With several blocks it can't be told which one is meant.
    return blocks[0].strip() if len(blocks) == 1 else None
