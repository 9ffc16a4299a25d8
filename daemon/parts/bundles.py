"""Bundles: drafting them in the background, sealing their receipts one after another, putting their parts in place.

A draft is a bundle without its receipt, in files under temporary names. Each receipt names the one before it, so it is
made under a lock that is held until the receipt is durable. The parts get their names after that commit. If a daemon
was killed after recording parts and before placing them, its successor places them. A missing part is made again from
the session's files and its actions in the exchange, and must be identical.
"""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import ClassVar, Final, NamedTuple, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from msgspec.structs import replace

from runward.config.bundle import Scheme
from runward.config.json_value import JsonValue
from runward.daemon.configuration.extras import how_to_install
from runward.daemon.disk.in_thread import in_thread
from runward.daemon.disk.receipt_keys import KeyRefused
from runward.daemon.engine.deciding import FIRST_WAIT, LONGEST_WAIT
from runward.daemon.engine.part import InPasses, Slices
from runward.daemon.faults import point
from runward.daemon.rundir.bundle_parts import PartMissing, PartsPlaced
from runward.daemon.rundir.call_reading import CannotReadNow
from runward.daemon.rundir.opening import Gone, Halted, unreadable
from runward.daemon.store.batch import JobResult
from runward.daemon.store.reading import StoreUnreadable
from runward.daemon.store.tables import receipts
from runward.daemon.store.tables.receipts import UnplacedBundle
from runward.daemon.store.tables.replays import NOTHING, LastTold
from runward.daemon.store.transaction import Row, Statement
from runward.daemon.world.files import Files
from runward.handlers.bundle.orders import MOVED
from runward.handlers.bundle.parts import RECEIPT, REPLAY, SUMMARY, part_name, part_names
from runward.handlers.bundle.receipt import receipt_text, sealed
from runward.handlers.bundle.replay import Replay, receipt_body, summary_of
from runward.handlers.bundle.signatures import NoLibrary, NotSignable, SecretKey, sign
from runward.handlers.bundle.summary import Summary, dump_summary, summary_text
from runward.handlers.calls import Told, as_shown
from runward.handlers.journal.place import journal_directory, own_directory
from runward.handlers.model.bundle import (
    BundleOrder,
    Draft,
    DraftOf,
    Grown,
    NoDraft,
    RecordReceipt,
    Sealed,
    load_order,
)
from runward.handlers.model.files import Unreadable
from runward.handlers.model.part import Part as BundlePart

BATCH: Final = 64
"""Bundles that are put in place before they are marked."""

FEW: Final = 8
"""Receipts that are made, or bundles that are put in place, before verdicts are given way to again."""

MANY_BYTES: Final = 1 << 20
"""Bytes of parts from which on a bundle is the last one of a few: parts are read, and may have to be made again."""

PERIOD: Final = 5.0
"""Seconds before something that the machine refused is tried again."""

REFUSED_FOR: Final = 30.0
"""Seconds since it was recorded for which a bundle is tried in a directory that may not be written to."""

GONE: Final = "its directory is gone"

STOPS: Final = "the daemon stops: the next one makes its parts again"

KEPT_ASIDE: Final = "the file that had its name is kept as "

CHANGED: Final = "the session's files changed after its replay had been shown: what was shown stays, and the rest follows it"

SHOWN_IS_GONE: Final = "the session's files changed after its replay had been begun, and the lines that were shown, if any, were lost"

LAST_SHOWN_IS_GONE: Final = "the session's files changed after its replay had been shown: what was shown stays, but its last lines, if they were shown, were lost"

IS_BEING_SHOWN: Final = "lines of running replays are being written, its own may be among them"

LOST: Final = "its parts were lost, and the new ones differ: the session's files have changed since"

OTHER_KEY: Final = "its receipt was lost, and can't be signed as it was: the signing key has changed, see `runward receipt key`"


ToldActions: TypeAlias = Callable[[str, int, LastTold], Generator[Told]]
"""The first actions of a session, up to a number, as calls, without those up to the last one that is shown already.

Raises `sqlite3.Error` and `StoreUnreadable`.
"""


def no_actions(key: str, count: int, last: LastTold) -> Generator[Told]:
    """Stands in if there is no exchange."""
    yield from ()


class Settled(NamedTuple):
    """Where the parts of a bundle are or should be, why they never can be there, and what is wrong with the place."""

    directory: str
    why_never: str | None
    problem: str | None
    aside: tuple[str, ...] = ()


Placing: TypeAlias = "PartsPlaced | str | NoDraft | Unreadable"
"""`str`: why the parts can never be placed. `NoDraft`: their directory refuses them."""


class Made(NamedTuple):
    """A bundle under temporary names: its receipt before sealing, the other parts, and what is wrong with it."""

    body: dict[str, JsonValue]
    parts: tuple[BundlePart, ...]
    summary: Summary
    problem: str | None


@dataclass(slots=True)
class Bundles(InPasses):
    """The bundles that this daemon makes. One task puts them in place."""

    wakes_on: ClassVar = (RecordReceipt,)
    concern: ClassVar = "bundles"
    not_marked: ClassVar = "bundles.not_marked"

    files: Files
    go_on: Callable[[int], bool]
    """Called while files are read, with the number of bytes read; says whether to continue."""
    own_key: Callable[[Scheme], SecretKey]
    """Our key of this kind, which is made on first use. Raises `KeyRefused`, `NoLibrary` and `OSError`."""
    actions: ToldActions
    give_way: Callable[[], Awaitable[None]]
    """Awaited before each step: verdicts go first."""
    low_disk: Callable[[], str | None] = lambda: None
    """Why nothing can be written now; None if there is enough space."""
    _bodies: dict[tuple[str, int], dict[str, JsonValue]] = field(default_factory=dict)
    """The receipts of drafts, by session and attempt.

    They are kept until the next draft: a commit may be tried again.
    """
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
        self._bodies.pop((order.key, order.attempt), None)
        made = _tried(self._make, order)
        if isinstance(made, Gone):
            return NoDraft(GONE)
        if not isinstance(made, Made):
            return made
        self._bodies[order.key, order.attempt] = made.body
        return Draft(made.parts, dump_summary(made.summary), made.problem)

    def _make(self, order: BundleOrder, *, is_again: bool = False) -> Made | NoDraft | Unreadable | Gone:
        # A daemon that was replaced must not write over the parts that its successor makes.
        self.files.check_epoch(self.store.epoch)
        # A crash may have left some under their temporary names.
        cleared = self.files.clear_parts(order.directory, part_names(order.attempt))
        if cleared is not None:
            return cleared
        replay, written = self._replayed(order, is_again)
        if not isinstance(written, BundlePart):
            return written
        point("bundle.replay.after")
        summary = summary_of(replay)
        text = summary_text(summary).encode()
        name = part_name(SUMMARY, order.attempt)
        # A draft is synced when it is sealed, with those of its batch.
        summary_part = self.files.write_part(order.directory, name, [text], is_synced=is_again)
        if not isinstance(summary_part, BundlePart):
            return summary_part
        point("bundle.summary.after")
        parts = (written, summary_part)
        return Made(receipt_body(replay, parts, (REPLAY, SUMMARY)), parts, summary, replay.problem)

    def _replayed(
        self, order: BundleOrder, is_again: bool
    ) -> tuple[Replay, BundlePart | NoDraft | Unreadable | Gone]:
        """Write the replay."""
        name, grown = part_name(REPLAY, order.attempt), order.grown
        replay = Replay(order)
        beginning = _Beginning(0 if grown is None else grown.length)
        lines = beginning.of(self._lines(replay))
        written = self.files.write_part(order.directory, name, lines, is_synced=is_again)
        # What was shown while the session ran is the beginning of the complete replay: nobody may find that a
        # line changed afterwards.
        if grown is None or not isinstance(written, BundlePart) or beginning.sha256 == grown.sha256:
            return replay, written
        if self.placing.locked() and not is_again:  # it may be recorded but not written yet
            return replay, Unreadable(IS_BEING_SHOWN)
        standing = journal_directory(order.layout, order.key, order.path)
        shown, is_whole = self._shown_of(standing, name, grown)
        if isinstance(shown, Unreadable):
            return replay, shown
        if shown is None:
            replay.found_changed(SHOWN_IS_GONE)
            return replay, written
        cleared = self.files.clear_parts(order.directory, [name])
        if cleared is not None:
            return replay, cleared
        # The session's files no longer say what was shown. The shown lines stay, and the replay says that
        # they differ.
        replay = Replay(order)
        replay.found_changed(CHANGED if is_whole else LAST_SHOWN_IS_GONE)
        lines = chain(_adopted(replay, shown), self._lines(replay))
        return replay, self.files.write_part(order.directory, name, lines, is_synced=is_again)

    def _shown_of(
        self, directory: str, name: str, grown: Grown
    ) -> tuple[Iterator[bytes] | Unreadable | None, bool]:
        """The lines that were shown, and whether they are all that was recorded.

        A crash may have come between recording the last of them and writing them, or before they were synced.
        """
        shown = self.files.shown_lines(directory, name, grown.length, grown.sha256)
        if shown is not None:
            return shown, True
        for step in grown.steps[-1:]:
            if step.length:
                shown = self.files.shown_lines(directory, name, step.length, step.sha256)
        return shown, False

    def _lines(self, replay: Replay) -> Iterator[bytes]:
        order = replay.order
        calls = self.files.told(order.layout, order.path, self.go_on)
        with closing(self.actions(order.key, order.actions, NOTHING)) as actions:
            steps = () if order.grown is None else order.grown.steps
            yield from replay.lines(as_shown(calls, actions, steps))

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
            for first in range(0, len(orders), FEW):
                await self.give_way()
                few = await in_thread(self._seal_few, orders[first : first + FEW], prev)
                answers += few
                prev = _last_hash(few, prev)
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

    def _seal_few(self, orders: Sequence[BundleOrder], prev: str | None) -> list[Sealed | str]:
        """Make these receipts, each with the one before it in its text. Runs in a thread."""
        answers: list[Sealed | str] = []
        for order in orders:
            # They form a chain among themselves, although none of them is in the store yet.
            answers.append(self._seal(order, _last_hash(answers, prev)))
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
        name = part_name(RECEIPT, order.attempt)
        self.files.check_epoch(self.store.epoch)
        cleared = self.files.clear_parts(order.directory, [name])
        if cleared is not None:
            return _why(cleared)
        receipt = sealed(body, prev, order.rules.canonical_form)
        text = receipt.text
        if order.rules.sign is not None:
            try:
                text = receipt_text(sign(receipt.fields, self.own_key(order.rules.sign)))
            except NoLibrary:
                return f"its receipt can't be signed without more libraries: {how_to_install('sign')}"
            except (KeyRefused, NotSignable) as refused:
                return f"its receipt can't be signed: {refused}"
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
        for few in _small_together(unplaced):
            await self.give_way()
            async with self.placing:
                # A thread can't be cancelled, and which parts got their names must be known.
                with anyio.CancelScope(shield=True):
                    answers = await anyio.to_thread.run_sync(self._settle_few, few)
            for bundle, answer in zip(few, answers, strict=True):
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
            self._bodies.pop((bundle.key, bundle.attempt), None)
            self._say(bundle, answer)
            # Marked after the parts have their names. A crash in between places them again, which changes
            # nothing.
            problem = answer.why_never or answer.problem
            rows.append((self.clock.now(), problem, answer.directory, bundle.seq))
        return rows

    def _settle_few(self, bundles: Sequence[UnplacedBundle]) -> list[Settled | Unreadable]:
        return [self._settled(self._place_all, bundle) for bundle in bundles]

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
            return _tried(place, bundle)
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


Asked = TypeVar("Asked")
Result = TypeVar("Result")


def _tried(make: Callable[[Asked], Result], asked: Asked) -> Result | Unreadable:
    """What is made, or why that can't be done now."""
    try:
        return make(asked)
    except CannotReadNow as error:
        return Unreadable(str(error))
    except OSError as error:
        return unreadable(error)
    except (sqlite3.Error, StoreUnreadable) as error:
        return Unreadable(f"its actions in the exchange can't be read: {error}")


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


def _small_together(bundles: Sequence[UnplacedBundle]) -> Iterator[list[UnplacedBundle]]:
    few: list[UnplacedBundle] = []
    size = 0
    for bundle in bundles:
        few.append(bundle)
        size += sum(part.size for part in bundle.parts)
        if len(few) == FEW or size >= MANY_BYTES:
            yield few
            few, size = [], 0
    if few:
        yield few


def _last_hash(answers: Sequence[Sealed | str], before: str | None) -> str | None:
    """The hash of the last receipt that was made; without one, that of the receipt before them."""
    return next((each.receipt_hash for each in reversed(answers) if isinstance(each, Sealed)), before)


def _adopted(replay: Replay, shown: Iterator[bytes]) -> Iterator[bytes]:
    for line in shown:
        replay.adopt(line)
        yield line


class _Beginning:
    """Hashes the first bytes of the lines that pass through."""

    def __init__(self, length: int) -> None:
        self._left = length
        self._digest = sha256()

    @property
    def sha256(self) -> str | None:
        """The hash; None if there were fewer bytes."""
        return None if self._left else self._digest.hexdigest()

    def of(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the lines through unchanged."""
        for line in lines:
            if self._left:
                start = line[: self._left]
                self._digest.update(start)
                self._left -= len(start)
            yield line


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
