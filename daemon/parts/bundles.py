"""Bundles: drafting them in the background, sealing their receipts one after another, putting their parts in place.

A draft is a bundle without its receipt, in files under temporary names. Each receipt names the one before it, so it is
made under a lock that is held until the receipt is durable. The parts get their names after that commit. If a daemon
was killed after recording parts and before placing them, its successor places them. A missing part is made again from
the session's files and its actions in the exchange, and must be identical.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeAlias

import anyio
import anyio.to_thread
from msgspec.structs import replace

from runward.config.bundle import Scheme
from runward.config.json_value import JsonValue
from runward.daemon.configuration.extras import how_to_install
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.engine.background import AT_ONCE, BATCH
from runward.daemon.engine.deciding import FIRST_WAIT, LONGEST_WAIT
from runward.daemon.engine.part import InPasses, Slices
from runward.daemon.faults import point
from runward.daemon.parts.drafting import IS_BEING_SHOWN, Drafting, Made, MakingAnswer, ToldActions, tried
from runward.daemon.parts.drafting_elsewhere import MOST_HERE, DraftingElsewhere, Order, TooMuchHere
from runward.daemon.rundir.bundle_parts import PartMissing, PartsPlaced
from runward.daemon.rundir.opening import Gone, Halted
from runward.daemon.store.batch import JobResult
from runward.daemon.store.tables import receipts
from runward.daemon.store.tables.receipts import UnplacedBundle
from runward.daemon.store.transaction import Row, Statement
from runward.daemon.world.files import Files
from runward.handlers.bundle.orders import MOVED
from runward.handlers.bundle.parts import RECEIPT, part_name, part_names
from runward.handlers.journal.place import own_directory
from runward.handlers.model.bundle import (
    BundleOrder,
    Draft,
    DraftOf,
    NoDraft,
    RecordReceipt,
    Sealed,
    load_order,
)
from runward.handlers.model.files import Unreadable
from runward.handlers.model.part import Part as BundlePart

if TYPE_CHECKING:
    from runward.handlers.bundle.signatures import SecretKey

AS_HASHED: Final = 16
"""Drafting a byte of a session takes as long as hashing so many."""

PERIOD: Final = 5.0
"""Seconds before something that the machine refused is tried again."""

REFUSED_FOR: Final = 30.0
"""Seconds since it was recorded for which a bundle is tried in a directory that may not be written to."""

GONE: Final = "its directory is gone"

STOPS: Final = "the daemon stops: the next one makes its parts again"

KEPT_ASIDE: Final = "the file that had its name is kept as "

LOST: Final = "its parts were lost, and the new ones differ: the session's files have changed since"

OTHER_KEY: Final = "its receipt was lost, and can't be signed as it was: the signing key has changed, see `runward receipt key`"


class Settled(NamedTuple):
    """Where the parts of a bundle are or should be, why they never can be there, and what is wrong with the place."""

    directory: str
    why_never: str | None
    problem: str | None
    aside: tuple[str, ...] = ()


Placing: TypeAlias = "PartsPlaced | str | NoDraft | Unreadable"
"""`str`: why the parts can never be placed. `NoDraft`: their directory refuses them."""


@dataclass(slots=True)
class Bundles(InPasses):
    """The bundles that this daemon makes. One task puts them in place."""

    wakes_on: ClassVar = (RecordReceipt,)
    concern: ClassVar = "bundles"
    not_marked: ClassVar = "bundles.not_marked"

    files: Files
    go_on: Callable[[int], bool]
    """Called while files are read, with the number of bytes read; says whether to continue."""
    own_key: "Callable[[Scheme], SecretKey]"
    """Our key of this kind, which is made on first use. Raises `KeyRefused`, `NoLibrary` and `OSError`."""
    actions: ToldActions
    give_way: Callable[[], Awaitable[None]]
    """Awaited before each step: verdicts go first."""
    elsewhere: DraftingElsewhere | None = None
    """Makes the bundles of large sessions."""
    low_disk: Callable[[], str | None] = lambda: None
    """Why nothing can be written now; None if there is enough space."""
    _bodies: dict[tuple[str, int], dict[str, JsonValue]] = field(default_factory=dict)
    """The receipts of drafts, by session and attempt.

    They are kept until the next draft: a commit may be tried again.
    """
    _sealed: set[tuple[str, int]] = field(default_factory=set)
    """Those for which a receipt was written: if it is sealed once more, that one is removed first."""
    _chain: anyio.Lock = field(default_factory=anyio.Lock)
    placing: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while parts get their names: a replay that grows is not written to meanwhile."""

    def draft(self, asked: DraftOf) -> Draft | NoDraft | Unreadable:
        """Write a bundle without its receipt under temporary names. Runs in a thread."""
        low = self.low_disk()
        if low is not None:
            return Unreadable(low)
        order = asked.order
        # An earlier try may have left one. It would be sealed over parts that are written anew now.
        self._forget(order.key, order.attempt)
        made = tried(self._make, order)
        if isinstance(made, Gone):
            return NoDraft(GONE)
        if not isinstance(made, Made):
            return made
        self._bodies[order.key, order.attempt] = made.body
        return Draft(made.parts, made.summary, made.problem)

    def _forget(self, key: str, attempt: int) -> None:
        self._bodies.pop((key, attempt), None)
        self._sealed.discard((key, attempt))

    def _make(self, order: BundleOrder, *, is_again: bool = False) -> MakingAnswer:
        if self.elsewhere is None:
            return self._drafting(self.go_on).make(order, is_again=is_again)
        read = 0

        def go_on(count: int) -> bool:
            nonlocal read
            read += count
            if read > MOST_HERE:
                raise TooMuchHere
            return self.go_on(count)

        try:
            return self._drafting(go_on).make(order, is_again=is_again)
        except TooMuchHere:
            # If it takes long, it is done by the loop for that, and from its beginning. So that is said before it begins.
            if not self._drafts(self.files.length_of_log(order.path)):
                raise Halted from None
            return self._make_elsewhere(self.elsewhere, order, is_again)

    def _drafts(self, count: int) -> bool:
        """So many bytes are drafted; says whether to continue."""
        return self.go_on(count * AS_HASHED)

    def _drafting(self, go_on: Callable[[int], bool]) -> Drafting:
        return Drafting(self.files, self.store.epoch, self.actions, go_on, self.placing.locked)

    def _make_elsewhere(
        self, elsewhere: DraftingElsewhere, order: BundleOrder, is_again: bool
    ) -> MakingAnswer:
        told = Order(
            order, is_again, is_being_shown=True, epoch=self.store.epoch, roots=self.files.known_roots
        )
        answer = elsewhere.make(told, self._drafts)
        if answer != Unreadable(IS_BEING_SHOWN) or self.placing.locked():
            return answer
        # Asked at the moment when it matters, as in this process: what was being written is written by now.
        return elsewhere.make(replace(told, is_being_shown=False), self._drafts)

    @asynccontextmanager
    async def sealed(self, results: Sequence[JobResult]) -> AsyncIterator[Sequence[JobResult]]:
        """The results with their receipts, each naming the one before. Nobody else makes a receipt until this exits."""
        if not any(_drafted(result) for result in results):
            yield results
            return
        async with self._chain:
            # Read under the lock, which is held until the results are durable: no other receipt can name the
            # same predecessor.
            prev = await receipts.receipts_head(self.store)
            orders = [effect.order for effect in map(_drafted, results) if effect is not None]
            answers: list[Sealed | str] = []
            while len(answers) < len(orders):
                await self.give_way()
                answers += await in_thread(self._seal_some, orders[len(answers) :], _last_hash(answers, prev))
            sealed_results = list(self._with_receipts(results, answers))
            await self.give_way()
            yield await self._durable(sealed_results)

    def _with_receipts(
        self, results: Sequence[JobResult], answers: Sequence[Sealed | str]
    ) -> Iterator[JobResult]:
        """The results with the receipts that were made for their drafts, in order."""
        left = iter(answers)
        for result in results:
            effect = _drafted(result)
            if effect is None:
                yield result
                continue
            answer = next(left)
            if not isinstance(answer, Sealed):
                # The others go on without it: the chain needs no gap, because its receipt was never made.
                yield self._put_off(result, answer)
                continue
            effects = [replace(effect, sealed=answer) if each is effect else each for each in result.effects]
            yield result._replace(effects=effects)

    async def _durable(self, results: Sequence[JobResult]) -> Sequence[JobResult]:
        """The results, once the parts of their bundles are durable: those after one that the disk refused wait, too."""
        written: dict[str, list[str]] = {}
        for result in results:
            if (
                (effect := _drafted(result)) is not None
                and effect.draft is not None
                and effect.sealed is not None
            ):
                parts = (*effect.draft.parts, effect.sealed.part)
                written.setdefault(effect.order.directory, []).extend(part.temporary for part in parts)
        if not written:
            return results
        refused = await in_thread(self.files.sync_parts, written)
        durable: list[JobResult] = []
        why: str | None = None
        for result in results:
            effect = _drafted(result)
            if effect is not None:
                # The next receipt names this one. If that isn't recorded, the next one must not be, either.
                why = why or refused.get(effect.order.directory)
            durable.append(result if effect is None or why is None else self._put_off(result, why))
        return durable

    def _seal_some(self, orders: Sequence[BundleOrder], prev: str | None) -> list[Sealed | str]:
        """Make the first of these receipts, each with the one before it in its text. Runs in a thread."""
        answers: list[Sealed | str] = []
        until = self.clock.monotonic() + AT_ONCE
        for order in orders:
            # They form a chain among themselves, although none of them is in the store yet.
            answers.append(self._seal(order, _last_hash(answers, prev)))
            if self.clock.monotonic() >= until:
                break
        return answers

    def _seal(self, order: BundleOrder, prev: str | None) -> Sealed | str:
        """Make the receipt for a draft; returns why that can't be done now."""
        try:
            sealed_body = self._seal_body(order, self._bodies[order.key, order.attempt], prev)
        except OSError as error:
            return error.strerror or str(error)
        return sealed_body.why if isinstance(sealed_body, NoDraft) else sealed_body

    def _seal_body(
        self,
        order: BundleOrder,
        body: Mapping[str, JsonValue],
        prev: str | None,
        *,
        is_again: bool = False,
    ) -> Sealed | NoDraft | str:
        from runward.handlers.bundle.receipt import receipt_text, sealed  # with the first bundle

        name = part_name(RECEIPT, order.attempt)
        self.files.check_epoch(self.store.epoch)
        # The draft has removed what an earlier one left.
        if (order.key, order.attempt) in self._sealed:
            cleared = self.files.clear_parts(order.directory, [name])
            if cleared is not None:
                return _why(cleared)
        receipt = sealed(body, prev, order.rules.canonical_form)
        text = receipt.text
        if order.rules.sign is not None:
            from runward.daemon.disk.receipt_keys import KeyRefused
            from runward.handlers.bundle.signatures import NoLibrary, NotSignable, sign

            try:
                text = receipt_text(sign(receipt.fields, self.own_key(order.rules.sign)))
            except NoLibrary:
                return f"its receipt can't be signed without more libraries: {how_to_install('sign')}"
            except (KeyRefused, NotSignable) as refused:
                return f"its receipt can't be signed: {refused}"
        if not is_again:
            self._sealed.add((order.key, order.attempt))
        part = self.files.write_part(order.directory, name, [text], is_synced=is_again)
        if not isinstance(part, BundlePart):
            return _why(part)
        point("bundle.receipt.after")
        return Sealed(receipt.receipt_hash, prev, part)

    def _put_off(self, result: JobResult, why: str) -> JobResult:
        """Have the job decided again later, because its draft may have been removed by then."""
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(result.job.tries, 10))
        return JobResult(result.job, "waiting", error=why, run_after=self.clock.now() + wait)

    def pause(self) -> float | None:
        return PERIOD if self.trouble is not None else None

    async def carry_on(self, after: int) -> int:
        """Put the next bundles in place."""
        unplaced = await receipts.unplaced(self.store, after, BATCH)
        placed: list[tuple[UnplacedBundle, Settled]] = []
        left: Sequence[UnplacedBundle] = unplaced
        while left:
            await self.give_way()
            async with self.placing:
                # A thread can't be cancelled, and which parts got their names must be known.
                with anyio.CancelScope(shield=True):
                    answers = await anyio.to_thread.run_sync(self._settle_some, left)
            some, left = left[: len(answers)], left[len(answers) :]
            for bundle, answer in zip(some, answers, strict=True):
                if isinstance(answer, Unreadable):
                    self._say_trouble(bundle, answer.why)
                else:
                    placed.append((bundle, answer))
        if rows := await self._durably_placed(placed):
            await self.give_way()
            await self.store.run([Statement(receipts.RECEIPT_PLACED, rows)], "place")
        return unplaced[-1].seq if unplaced else 0

    async def _durably_placed(self, placed: Sequence[tuple[UnplacedBundle, Settled]]) -> list[Row]:
        """The rows that mark these bundles, once the names of their parts are durable."""
        named: dict[str, Sequence[str]] = {
            answer.directory: () for _, answer in placed if answer.why_never is None
        }
        if named:
            await self.give_way()
        refused = await in_thread(self.files.sync_parts, named) if named else {}
        rows: list[Row] = []
        for bundle, answer in placed:
            if answer.why_never is None and (why := refused.get(answer.directory)) is not None:
                self._say_trouble(bundle, why)
                continue
            self._forget(bundle.key, bundle.attempt)
            self._say(bundle, answer)
            # Marked after the parts have their names. A crash in between places them again, which changes
            # nothing.
            problem = answer.why_never or answer.problem
            rows.append((self.clock.now(), problem, answer.directory, bundle.seq))
        return rows

    def _settle_some(self, bundles: Sequence[UnplacedBundle]) -> list[Settled | Unreadable]:
        """Put the first of these bundles in place: their parts are read, and may have to be made again."""
        answers: list[Settled | Unreadable] = []
        until = self.clock.monotonic() + AT_ONCE
        for bundle in bundles:
            answers.append(self._settled(self._place_all, bundle))
            if self.clock.monotonic() >= until:
                break
        return answers

    def place_missing(self, bundle: UnplacedBundle) -> Settled | Unreadable:
        """Make the missing parts of a bundle that was in place. Runs in a thread."""
        return self._settled(self._place_missing, bundle)

    def _settled(
        self, place: Callable[[UnplacedBundle], Placing], bundle: UnplacedBundle
    ) -> Settled | Unreadable:
        """Place the parts: in our state directory if their own refuses them, because the run may have seen to that."""
        answer, moved = self._trying(place, bundle), None
        elsewhere = own_directory(bundle.key.partition(":")[0], bundle.key)
        if isinstance(answer, NoDraft) and bundle.directory != elsewhere:
            # The run's own directory comes first. Only a refusal that lasts moves the bundle into our own
            # state.
            if answer.may_pass and self.clock.now() < bundle.recorded_at + REFUSED_FOR:
                return Unreadable(answer.why)
            moved, bundle = f"{answer.why}: {MOVED}", bundle._replace(directory=elsewhere)
            answer = self._trying(place, bundle)
        match answer:
            case PartsPlaced(aside=aside):
                kept = KEPT_ASIDE + ", ".join(aside) if aside else None
                return Settled(bundle.directory, None, moved or kept, aside)
            case str():
                return Settled(bundle.directory, answer, None)
            case _:
                return Unreadable(answer.why)

    def _trying(self, place: Callable[[UnplacedBundle], Placing], bundle: UnplacedBundle) -> Placing:
        try:
            return tried(place, bundle)
        except Halted:
            return Unreadable(STOPS)

    def _place_all(self, bundle: UnplacedBundle) -> Placing:
        self.files.check_epoch(self.store.epoch)
        answer = self.files.place_parts(bundle.directory, bundle.parts, is_synced=False)
        # The run may have removed a draft. It is made again from the recorded order, and counts only if it is
        # the same.
        if isinstance(answer, PartMissing):
            made = self._make_again(bundle)
            if not isinstance(made, list):
                return made
            answer = self.files.place_parts(bundle.directory, made, is_synced=False)
        return _placed(answer)

    def _place_missing(self, bundle: UnplacedBundle) -> Placing:
        self.files.check_epoch(self.store.epoch)
        missing = self.files.missing_parts(bundle.directory, [part.name for part in bundle.parts])
        if isinstance(missing, Gone):
            return GONE
        if isinstance(missing, Unreadable) or not missing:
            return PartsPlaced() if isinstance(missing, list) else missing
        made = self._make_again(bundle)
        if not isinstance(made, list):
            return made
        # What has the name of a part stays: it may be a receipt that was signed later.
        answer = self.files.place_parts(bundle.directory, [part for part in made if part.name in missing])
        self.files.clear_parts(bundle.directory, [part.name for part in made])
        return _placed(answer)

    def _make_again(self, bundle: UnplacedBundle) -> list[BundlePart] | str | NoDraft | Unreadable:
        """Make the parts of a recorded bundle again, or return why they can't be identical."""
        try:
            order = load_order(bundle.facts)._replace(directory=bundle.directory)
        except ValueError:
            return (
                "its parts are gone, and what they are made from was recorded by another version of Runward"
            )
        low = self.low_disk()
        if low is not None:
            return Unreadable(low)
        made = self._make(order, is_again=True)
        if isinstance(made, Gone):
            return GONE
        if isinstance(made, Unreadable):
            return made
        if isinstance(made, NoDraft):
            return made if made.is_place else made.why
        again = self._seal_body(order, made.body, bundle.prev, is_again=True)
        if isinstance(again, NoDraft):
            return again
        if isinstance(again, str):
            return Unreadable(again)
        parts = [*made.parts, again.part]
        if [each[:3] for each in parts] != [each[:3] for each in bundle.parts]:
            # Another content under the recorded hashes would be worse than none.
            self.files.clear_parts(bundle.directory, part_names(order.attempt))
            # The hash of a receipt covers all of it but its signature.
            return OTHER_KEY if again.receipt_hash == bundle.receipt_hash else LOST
        return parts

    def _say(self, bundle: UnplacedBundle, answer: Settled) -> None:
        fields = {"session": bundle.key, "attempt": bundle.attempt}
        if answer.why_never is not None:
            self.log.warning("bundle.not_placed", **fields, why=answer.why_never)
        elif answer.directory != bundle.directory:
            self.log.warning("bundle.moved", **fields, why=answer.problem, directory=answer.directory)
        elif answer.aside:
            self.log.warning("bundle.kept_aside", **fields, files=list(answer.aside))
        else:
            self.log.info("bundle.written", **fields, bytes=sum(part.size for part in bundle.parts))

    def _say_trouble(self, bundle: UnplacedBundle, why: str) -> None:
        self.trouble = f"{bundle.directory}: {why}"
        self.log.warning("bundle.delayed", session=bundle.key, why=why)


def _placed(answer: PartsPlaced | PartMissing | NoDraft | Unreadable | Gone) -> Placing:
    if isinstance(answer, PartMissing):
        return Unreadable(f"{answer.name} was removed while it was put in place")
    return GONE if isinstance(answer, Gone) else answer


def _why(refused: NoDraft | Unreadable | Gone) -> NoDraft | str:
    """Why a receipt can't be written now; a directory that refuses it is told apart."""
    if isinstance(refused, Gone):
        return GONE
    return refused if isinstance(refused, NoDraft) else refused.why


def _drafted(result: JobResult) -> RecordReceipt | None:
    """The bundle that a job drafted."""
    drafted = [each for each in result.effects if isinstance(each, RecordReceipt) and each.draft is not None]
    return drafted[0] if drafted else None


def _last_hash(answers: Sequence[Sealed | str], before: str | None) -> str | None:
    """The hash of the last receipt that was made; without one, that of the receipt before them."""
    return next((each.receipt_hash for each in reversed(answers) if isinstance(each, Sealed)), before)


RESTORED_BATCH: Final = 64
"""The maximum number of bundles that are looked for before they are marked."""

RESTORED_PERIOD: Final = 60.0
"""Seconds before something that the machine refused is tried again."""


# The restore marks each bundle whose parts were in place when the backup was made. A mark is removed once
# the parts were looked for, so a successor continues where a daemon stopped. New bundles never wait for
# these: `Bundles` places them meanwhile.
@dataclass(slots=True)
class RestoredBundles(InPasses):
    """The bundles that a restored store had in place. One task looks for their parts."""

    concern: ClassVar = "bundles of the restored store"
    not_marked: ClassVar = "bundles.not_marked"

    bundles: Bundles
    busy: Callable[[], bool]
    """Whether verdicts, or their journals, are on their way."""
    _slices: Slices = field(init=False)

    def __post_init__(self) -> None:
        self._slices = Slices(self.clock, self.busy, RESTORED_BATCH)

    def pause(self) -> float | None:
        return RESTORED_PERIOD if self.trouble is not None else None

    async def carry_on(self, after: int) -> int:
        """Look for the next ones."""
        unplaced = await receipts.unplaced(self.store, after, self._slices.size, was_placed=True)
        if not unplaced:
            return 0
        await self._slices.begin()
        looked_for = [row for bundle in unplaced if (row := await self._look_for(bundle)) is not None]
        if looked_for:
            await self.store.run([Statement(receipts.RECEIPT_PLACED, looked_for)], "place")
        await self._slices.end()
        return unplaced[-1].seq

    async def _look_for(self, bundle: UnplacedBundle) -> Row | None:
        """The row that ends the search for its parts; None if it continues later."""
        with anyio.CancelScope(shield=True):
            answer = await anyio.to_thread.run_sync(self.bundles.place_missing, bundle)
        if isinstance(answer, Unreadable):
            self.trouble = f"{bundle.directory}: {answer.why}"
            self.log.warning("bundle.delayed", session=bundle.key, why=answer.why)
            return None
        if answer.why_never is not None:
            self.log.warning(
                "bundle.not_placed", session=bundle.key, attempt=bundle.attempt, why=answer.why_never
            )
            return (self.clock.now(), answer.why_never, answer.directory, bundle.seq)
        is_moved = answer.directory != bundle.directory
        problem = answer.problem if is_moved else _still_true(bundle.place_problem)
        return (self.clock.now(), problem, answer.directory, bundle.seq)


def _still_true(problem: str | None) -> str | None:
    """The earlier problem with the place, if it still exists: files that were kept aside, or another directory."""
    still_true = problem is not None and (problem.startswith(KEPT_ASIDE) or problem.endswith(MOVED))
    return problem if still_true else None
