"""What a session of Claude Code cost, by its own account: what the processes that worked on it say at their ends (`cost-state`).

An account goes on over a resume and over a fork. That of a fork begins with the last one that its origin's transcript had when
the fork began; accounts have no time of their own, so that one is only taken if it is certain. A process that was killed adds
nothing to it, and later ones do not say so.
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


class _Account(NamedTuple):
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


def _account_in(record: Record) -> _Account | None:
    """The account in a `cost-state`; None if it isn't whole."""
    usd, began, lasted = record.total_cost_usd, record.start_time, record.total_duration
    if usd is None or began is None or lasted is None:
        return None
    try:
        models = _models(record.model_usage)
    except NOT_DECODED:
        return None
    return _Account(usd, began / 1000, lasted / 1000, sum(each.output_tokens for each in models.values()))


class Accounts:
    """Takes the records of a session, and tells at each account what it adds."""

    def __init__(self, lines_beside: LinesBeside) -> None:
        self._lines_beside = lines_beside
        self._usd: float | None = None
        """What the session had cost by the last account; None before there is one."""
        self._account: _Account | None = None
        """The last one that was whole."""
        self._fork: _Fork | None = None
        self._began_at: float | None = None
        """When the session's first own record was written."""
        self._made: dict[str | None, int] = {}
        """Tokens of its own replies since the last account, as far as their records were taken."""

    @property
    def needs_all(self) -> bool:
        """Whether every record counts now, and not just accounts and calls."""
        return self._fork is not None and self._usd is None

    def copied(self, record: Record) -> None:
        """A record of a fork's origin. All before it was copied, too."""
        self._fork = self._fork or _Fork()
        self._fork.copied(record)
        self._made = {}

    def own(self, record: Record) -> None:
        """A record that no mark says to be copied."""
        message = record.message
        if self._fork is not None or self._began_at is None:
            at = parse_time(record.timestamp)
            self._began_at = at if self._began_at is None else self._began_at
            if self._fork is not None:
                self._fork.own(at, is_asked=not self._made)
        if record.type == "assistant" and isinstance(message, Message) and message.model != SYNTHETIC:
            self._made[message.id] = (message.usage or Usage()).output_tokens

    def added(self, record: Record) -> float | None:
        """What an account adds, in dollars; None if that is not known. Claude Code guesses prices that it doesn't know."""
        total = record.total_cost_usd
        if total is None:
            return 0.0
        account = _account_in(record)
        before = self._begun_with(account) if self._usd is None else self._usd
        is_known = before is not None and not record.has_unknown_model_cost and not self._lacks_some(account)
        self._usd = total if self._usd is None else max(total, self._usd)
        self._account, self._made = account or self._account, {}
        return max(0.0, total - before) if before is not None and is_known else None

    def _begun_with(self, account: _Account | None) -> float | None:
        """What the first account has that isn't the session's own; None if that is not known."""
        if self._fork is None:
            return 0.0
        if account is None:
            return None
        return self._fork.began_with(account, sum(self._made.values()), self._lines_beside)

    def _lacks_some(self, account: _Account | None) -> bool:
        """Whether a killed process has added nothing to the account.

        Then the session is older than the process that began the account, or its replies have tokens that the account lacks.
        """
        if account is None:
            return False
        before = self._account
        if before is None and self._fork is None and (self._began_at or account.began) < account.began:
            return True
        return account.output - (before.output if before is not None else 0) < sum(self._made.values())


class _Fork:
    """What a fork's records say until its first account: its origin, and when it did something itself.

    `copied_at` is when the last copied reply was written, `asked_at` when the fork was asked for something first, `said_at`
    when its last record was written.
    """

    def __init__(self) -> None:
        self.origin: str | None = None
        self.is_branch = False
        """Whether a process that went on made it: what that had cost until then is in no account of the origin's."""
        self.copied_at = 0.0
        self.asked_at: float | None = None
        self.said_at: float | None = None

    def copied(self, record: Record) -> None:
        """A record of its origin's."""
        self.origin = clipped(record.request_session_id, LONGEST_ID) or self.origin
        self.is_branch = self.is_branch or record.forked_from is not None
        self.copied_at = parse_time(record.timestamp) or self.copied_at
        self.asked_at = self.said_at = None

    def own(self, at: float | None, *, is_asked: bool) -> None:
        """A record of its own; `is_asked` until it has replied."""
        self.said_at = self.said_at if at is None else at
        if is_asked:
            self.asked_at = self.said_at

    def began_with(self, account: _Account, made: int, lines_beside: LinesBeside) -> float | None:
        """What its origin's part of its first account cost, if it made so many tokens itself; None if that isn't certain."""
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
        return last.usd if is_possible and last.output + made <= account.output else None


class _Line(msgspec.Struct, rename="camel", gc=False):
    """Just what tells when an origin's accounts were written."""

    type: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    request_session_id: str | None = None


_line: Final = msgspec.json.Decoder(_Line).decode
_record: Final = msgspec.json.Decoder(Record).decode


def _last_before(moment: float, lines: Iterable[bytes]) -> _Account | None:
    """The last account that was written before this moment; None if it is not certain which one that was.

    A process began before its first record, and lived for as long as its account has more than the one before it. So it wrote
    that account at most so long after its first record.
    """
    last: _Account | None = None
    began: float | None = None
    """When the process that writes now wrote its first record."""
    is_certain = True
    """Whether the last account is known to be older. If it isn't, an older record that follows it shows that."""
    for content in filter(None, lines):
        try:
            line = _line(content)
            account = _account_in(_record(content)) if line.type == "cost-state" else None
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
