"""What Claude Code's account of a fork began with.

An account (`cost-state`) goes on over a resume and over a fork: that of a fork begins with the last one that its origin's
transcript had when the fork began. Accounts have no time of their own, so that one is only taken if it is certain.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from runward.handlers.foreign_json import parse_time
from runward.handlers.layouts.call_readers import LinesBeside
from runward.handlers.layouts.claude_code_records import (
    LONGEST_ID,
    NOT_DECODED,
    SESSION_ID,
    SYNTHETIC,
    Message,
    Record,
    Tokens,
    Usage,
    clipped,
)


class Account(NamedTuple):
    """What a session had cost until then, when the first process began that is in it, for how long they lived (both in
    seconds), and the tokens that were made.
    """

    usd: float
    began: float
    lasted: float
    output: int


class _Made(msgspec.Struct, rename="camel", gc=False):
    output_tokens: Tokens = 0


_models: Final = msgspec.json.Decoder(dict[str, _Made]).decode


def account_in(record: Record) -> Account | None:
    """The account in a `cost-state`; None if it isn't whole."""
    usd, began, lasted = record.total_cost_usd, record.start_time, record.total_duration
    if usd is None or began is None or lasted is None:
        return None
    try:
        models = _models(record.model_usage)
    except NOT_DECODED:
        return None
    return Account(usd, began / 1000, lasted / 1000, sum(each.output_tokens for each in models.values()))


class Fork:
    """What a fork's records say until its first account: its origin, and what it did itself.

    `copied_at` is when the last copied reply was written, `asked_at` when the fork was asked for something first, `said_at`
    when its last record was written.
    """

    def __init__(self) -> None:
        self.origin: str | None = None
        self.is_branch = False
        """Whether a process that went on made it: what that had cost until then is in no account of the origin's."""
        self.copied_at = 0.0
        self._begin()

    def _begin(self) -> None:
        self.asked_at: float | None = None
        self.said_at: float | None = None
        self._replies: dict[str | None, int] = {}

    @property
    def output(self) -> int:
        """Tokens of its own replies."""
        return sum(self._replies.values())

    def copied(self, record: Record) -> None:
        """A record of its origin's. All before it was copied, too."""
        self.origin = clipped(record.request_session_id, LONGEST_ID) or self.origin
        self.is_branch = self.is_branch or record.forked_from is not None
        self.copied_at = parse_time(record.timestamp) or self.copied_at
        self._begin()

    def own(self, record: Record) -> None:
        """A record that no mark says to be copied."""
        at, message = parse_time(record.timestamp), record.message
        self.said_at = self.said_at if at is None else at
        if not self._replies:
            self.asked_at = self.said_at
        if record.type == "assistant" and isinstance(message, Message) and message.model != SYNTHETIC:
            self._replies[message.id] = (message.usage or Usage()).output_tokens

    def began_with(self, account: Account, lines_beside: LinesBeside) -> float | None:
        """What its origin's part of its first account cost; None if that isn't certain."""
        if self.is_branch or self.asked_at is None or self.said_at is None:
            return None
        # The origin had no account: its process was killed.
        if account.began > self.copied_at and account.began + account.lasted >= self.said_at:
            return 0.0
        if self.origin is None or not SESSION_ID.fullmatch(self.origin):
            return None
        last = _last_before(self.asked_at, lines_beside(f"{self.origin}.jsonl"))
        if last is None or last.began != account.began:
            return None
        is_possible = last.usd <= account.usd and last.lasted <= account.lasted
        return last.usd if is_possible and last.output + self.output <= account.output else None


class _Line(msgspec.Struct, rename="camel", gc=False):
    """Just what tells when an origin's accounts were written."""

    type: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    request_session_id: str | None = None


_line: Final = msgspec.json.Decoder(_Line).decode
_record: Final = msgspec.json.Decoder(Record).decode


def _last_before(moment: float, lines: Iterable[bytes]) -> Account | None:
    """The last account that was written before this moment; None if it is not certain which one that was.

    A process began before its first record, and lived for as long as its account has more than the one before it. So it wrote
    that account at most so long after its first record.
    """
    last: Account | None = None
    began: float | None = None
    """When the process that writes now wrote its first record."""
    is_certain = True
    """Whether the last account is known to be older. If it isn't, an older record that follows it shows that."""
    for content in filter(None, lines):
        try:
            line = _line(content)
            account = account_in(_record(content)) if line.type == "cost-state" else None
        except NOT_DECODED:
            return None
        at = parse_time(line.timestamp)
        if line.type == "cost-state":
            if began is not None and began > moment:
                break
            if account is None or not is_certain:
                return None
            goes_on = last is not None and last.began == account.began
            lived = account.lasted - (last.lasted if last is not None and goes_on else 0.0)
            is_certain = began is not None and lived >= 0 and began + lived <= moment
            last, began = account, None
        elif line.request_session_id not in (None, line.session_id):
            began = None  # it was copied
        elif at is not None:
            is_certain = is_certain or at <= moment
            began = at if began is None else began
    return last if is_certain else None
