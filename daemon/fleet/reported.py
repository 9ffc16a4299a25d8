"""What another host reported of a session. It may have written anything there: here each field has its type, or is missing."""

from decimal import Decimal
from typing import Final, NamedTuple

from runward.config.json_value import JsonValue
from runward.config.problem import shortened
from runward.daemon.store.tables.sessions import About
from runward.daemon.views.rows import CONTRACT_PROBLEM, GOOD, IN_SHORT, MOST_SHOWN, STATES, Row, agent_of
from runward.daemon.views.sessions import SESSION_STATUSES
from runward.daemon.views.text import ESTIMATE, UNKNOWN
from runward.daemon.views.usage import dollars
from runward.handlers.foreign_json import parse_time, read_json

_MOST_NUMBER: Final = 1e12
"""No session has as many tokens, or costs as much."""


class Reported(NamedTuple):
    """A session of a host. `body` is what the host said of it, None if that is not what Runward reads as JSON."""

    host: str
    key: str
    started_at: float
    body: dict[str, JsonValue] | None

    def text(self, name: str, of: str | None = None) -> str | None:
        """The text of a field, or of a field of the object `of`."""
        value = self._object(of).get(name)
        return value if isinstance(value, str) and value else None

    def number(self, name: str, of: str | None = None) -> float | None:
        """The number of a field, or of a field of the object `of`, if it is not negative."""
        value = self._object(of).get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return value if 0 <= value < _MOST_NUMBER else None

    def _object(self, name: str | None) -> dict[str, JsonValue]:
        value = self.body if name is None else (self.body or {}).get(name)
        return value if isinstance(value, dict) else {}

    @property
    def id(self) -> str:
        return self.text("session_id") or self.key

    @property
    def status(self) -> str:
        status = self.text("status")
        return status if status in SESSION_STATUSES else "unknown"

    @property
    def activity(self) -> str | None:
        activity = self.text("activity")
        return activity if activity in STATES else None

    @property
    def state(self) -> str:
        """What it does, or how it ended."""
        return STATES[self.activity] if self.status == "running" else self.status

    def took(self, now: float) -> float:
        """Seconds; of a running one, until now."""
        finished_at = parse_time(self.text("finished_at"))
        return max(0.0, (finished_at or now) - self.started_at)

    @property
    def about(self) -> About:
        """What it is about, as far as it is known."""
        return About(self.text("cwd"), self.text("prompt"), self.text("model"), self.tokens)

    @property
    def tokens(self) -> JsonValue:
        """As `usage` has them in lists of this host; None if they are not known."""
        counts = [self.number(name, "usage") for name in ("input_tokens", "output_tokens")]
        into, out = counts
        return None if into is None or out is None else {"input_tokens": int(into), "output_tokens": int(out)}

    @property
    def cost(self) -> str | None:
        """Dollars, as a list shows them; None if no tokens are known."""
        if self.tokens is None:
            return None
        cost = self.number("cost_usd", "usage")
        if cost is None:
            return UNKNOWN
        is_estimate = self._object("usage").get("cost_is_estimate") is not False
        rest = " + ?" if self.number("unpriced_tokens", "usage") else ""
        return f"{ESTIMATE if is_estimate else ''}{dollars(Decimal(str(cost)))}{rest}"

    def row(self, now: float, *, is_silent: bool) -> Row:
        """As a row of a list. It is not known what a silent host does."""
        layout, prompt = self.text("layout") or UNKNOWN, self.text("prompt")
        step = (
            f"{self.text('chain', 'chain')}/{self.text('step', 'chain')}" if self._object("chain") else None
        )
        is_bad = self.status not in ("running", *GOOD)
        what = self._why() if is_bad else prompt or ""
        state = self.state
        return Row(
            noun="session",
            state="unknown" if is_silent and self.status == "running" else state,
            id=self.id,
            key=self.key,
            purpose=step or self.text("playbook") or self.text("agent") or agent_of(layout),
            at=self.started_at,
            took=self.took(now),
            what=shortened(what, MOST_SHOWN),
            directory=self.text("cwd"),
            is_within=not is_bad and prompt is not None,
            remark=CONTRACT_PROBLEM if self.text("contract_problem") else "",
            usage=self.tokens,
            cost=self.cost,
            model=self.text("model"),
        )

    def _why(self) -> str:
        """Why it ended badly."""
        code = self.text("code", "reason")
        summary = self.text("summary", "reason") or "its host does not say why"
        return summary if code is None else IN_SHORT.get(code, summary)

    def as_json(self) -> dict[str, JsonValue]:
        """What its host said, with the host and the key that the database knows."""
        return {**(self.body or {}), "host": self.host, "key": self.key}


def reported(host: str, key: str, started_at: float, body: str) -> Reported:
    """A session of a host, from a row of the database."""
    value = read_json(body.encode())
    return Reported(host, key, started_at, value if isinstance(value, dict) else None)
