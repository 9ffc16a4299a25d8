"""The links by which approvals are answered: signed, and bound to an approval and to what was shown."""

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from runward.config.chain import chain_of
from runward.daemon.disk.credentials import KeyUnusable, secret_key
from runward.daemon.notices.messenger import NoLink
from runward.daemon.store.reading import StoreUnreadable, reading
from runward.daemon.store.reading_chains import ApprovalRow, approvals_called
from runward.daemon.store.tables.notices import PendingNotice
from runward.daemon.web.sockets import CannotListen

KEY: Final = "links.key"
APPROVALS: Final = "/approvals/"


class Links:
    """Makes links and checks them. `base` gives their current beginning; None if they can't be reached from outside."""

    def __init__(self, state: Path, base: Callable[[], str | None]) -> None:
        self._state = state
        self._key = _key(state)
        self._base = base

    def of_notice(self, notice: PendingNotice) -> str | None:
        """The link for a notice that asks for an approval; None for others. Raises `NoLink`. For a thread."""
        base = self._base()
        if notice.kind != "approval.asked" or base is None:
            return None
        try:
            row = self.approval(notice.subject)
        except StoreUnreadable as error:
            raise NoLink(f"its link can't be made: {error}") from error
        if row is None or row.status != "asked" or needs_a_name(row):
            return None
        return f"{base}{APPROVALS}{row.id}?signature={self.signature(row)}"

    def approval(self, approval: str) -> ApprovalRow | None:
        """The approval of this very id. For a thread."""
        with reading(str(self._state)) as connection:
            found = approvals_called(connection, approval)
        return next((each for each in found if each.id == approval), None)

    def signature(self, row: ApprovalRow) -> str:
        """Proves that we made the link of this approval for what it shows."""
        signed = f"approval\n{row.id}\n{row.shown_hash}".encode()
        return hmac.new(self._key, signed, hashlib.sha256).hexdigest()

    def is_ours(self, row: ApprovalRow, signature: str) -> bool:
        """Whether the signature is right."""
        return hmac.compare_digest(self.signature(row).encode(), signature.encode(errors="replace"))


def needs_a_name(row: ApprovalRow) -> bool:
    """Whether it matters who answers: a link can't tell."""
    rule = chain_of(json.loads(row.definition)).steps[row.step].approval
    return rule is not None and rule.not_by_launcher


def _key(state: Path) -> bytes:
    """Raises `CannotListen` and `OSError`."""
    try:
        return secret_key(state, KEY, "links of old notices then no longer work")
    except KeyUnusable as error:
        raise CannotListen(str(error)) from error
