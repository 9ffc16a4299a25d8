"""Signing receipts on request, one after another, alongside the worker.

The receipt in place is read, compared with the recorded one, signed with our own key and put in its place. The same key
makes the same signature. So if a daemon is killed in between, its successor does exactly the same. A receipt that can
never be signed is settled with the reason; what the world refuses is retried, and shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import anyio
import anyio.to_thread

from runward.config.bundle import Scheme
from runward.config.json_value import stored_json
from runward.daemon.configuration.extras import NO_SIGNING
from runward.daemon.engine.part import InPasses
from runward.daemon.faults import point
from runward.daemon.rundir.opening import Gone, unreadable
from runward.daemon.store.tables.receipts import SIGNING_SETTLED, OwedSigning, owed_signings
from runward.daemon.store.transaction import Row, Statement
from runward.daemon.world.files import Files
from runward.handlers.bundle.parts import RECEIPT, part_name
from runward.handlers.model.bundle import NoDraft, SignReceipt
from runward.handlers.model.files import Unreadable
from runward.handlers.model.part import Part as BundlePart

if TYPE_CHECKING:
    from runward.handlers.bundle.signatures import SecretKey

BATCH: Final = 64
"""Receipts that are signed before they are marked."""

PERIOD: Final = 5.0
"""Seconds before something that the machine refused is tried again."""

SOON: Final = 0.5
"""Seconds between two checks for a receipt that is still being made."""


class Signed(NamedTuple):
    """A receipt that is signed, and its file."""

    signature: str
    part: BundlePart


@dataclass(slots=True)
class Signings(InPasses):
    """The signatures that this daemon still has to make."""

    wakes_on: ClassVar = (SignReceipt,)
    concern: ClassVar = "signatures"
    not_marked: ClassVar = "receipts.not_marked"

    files: Files
    own_key: "Callable[[Scheme], SecretKey]"
    """Our key of this kind, which is made on first use. Raises `KeyRefused`, `NoLibrary` and `OSError`."""
    _waits: bool = False
    """Whether a receipt to sign is still being made."""

    def pause(self) -> float | None:
        if self._waits:
            return SOON
        return PERIOD if self.trouble is not None else None

    async def carry_on(self, after: int) -> int:
        """Sign the next receipts."""
        if after == 0:
            self._waits = False
        owed_now = await owed_signings(self.store, after, BATCH)
        settled: list[Row] = []
        for owed in owed_now:
            # Its receipt may still be recorded: to say now that there is none would be final.
            if owed.is_coming:
                self._waits = True
                continue
            with anyio.CancelScope(shield=True):
                answer = await anyio.to_thread.run_sync(self._sign, owed)
            if isinstance(answer, Unreadable):
                self.trouble = f"{owed.key}: {answer.why}"
                self.log.warning("receipt.sign_delayed", session=owed.key, why=answer.why)
            else:
                settled.append(self._settled(owed, answer))
        if settled:
            await self.store.run([Statement(SIGNING_SETTLED, settled)], "sign")
        return owed_now[-1].id if owed_now else 0

    def _settled(self, owed: OwedSigning, answer: Signed | str) -> Row:
        now = self.clock.now()
        if isinstance(answer, str):
            self.log.warning("receipt.not_signed", session=owed.key, attempt=owed.attempt, why=answer)
            return (now, None, None, answer, owed.id)
        self.log.info("receipt.signed", session=owed.key, attempt=owed.attempt, scheme=owed.scheme)
        return (now, answer.signature, stored_json(answer.part).decode(), None, owed.id)

    def _sign(self, owed: OwedSigning) -> Signed | str | Unreadable:
        """Sign it; returns why that can't be done, now or ever. Runs in a thread."""
        from runward.daemon.disk.receipt_keys import KeyRefused  # few receipts are signed
        from runward.handlers.bundle.signatures import NoLibrary, NotSignable

        self.files.check_epoch(self.store.epoch)
        if owed.receipt_hash is None:
            return f"there is no receipt of attempt {owed.attempt}"
        try:
            return self._signed(owed, owed.receipt_hash)
        except OSError as error:
            return unreadable(error)
        except NoLibrary:
            return NO_SIGNING
        except (KeyRefused, NotSignable) as refused:
            return str(refused)

    def _signed(self, owed: OwedSigning, recorded: str) -> Signed | str | Unreadable:
        from runward.handlers.bundle.canonical import FORMS, NotCanonical
        from runward.handlers.bundle.receipt import receipt_hash, receipt_text
        from runward.handlers.bundle.signatures import sign

        fields = self.files.receipt(owed.directory, owed.attempt)
        if isinstance(fields, Unreadable):
            return fields
        form = next((each for each in FORMS if fields and fields.get("canonical_form") == each), None)
        try:
            is_recorded = fields is not None and form is not None and receipt_hash(fields, form) == recorded
        except NotCanonical:
            is_recorded = False
        if fields is None or not is_recorded:
            return "the receipt in the directory is not the one that was recorded"
        signed = sign(fields, self.own_key(owed.scheme))
        name = part_name(RECEIPT, owed.attempt)
        cleared = self.files.clear_parts(owed.directory, [name])
        part = (
            self.files.write_part(owed.directory, name, [receipt_text(signed)])
            if cleared is None
            else cleared
        )
        if isinstance(part, Gone):
            return "its directory is gone"
        if isinstance(part, NoDraft):
            return part.why
        if isinstance(part, Unreadable):
            return part
        # Put in place before it is recorded. A successor of a daemon that was killed in between signs it again, and the
        # same key makes the same signature.
        point("sign.rename.before")
        refused = self.files.replace_parts(owed.directory, [part])
        point("sign.rename.after")
        return Signed(str(signed["signature"]), part) if refused is None else refused
