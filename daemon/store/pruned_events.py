"""Events whose rows were removed, as the chain sees them: unbroken stretches, each with the hash of its last one.

The rows are pruned, or packed and can be put back. Stretches that touch are merged.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from runward.daemon.store.store import Store
from runward.daemon.store.transaction import Statement
from runward.daemon.store.values import as_int, listed

_DELETE: Final = "delete from absent_events where last = ?"
_INSERT: Final = "insert into absent_events (last, first, hash) values (?, ?, ?)"


class Stretch(NamedTuple):
    """An unbroken run of events that were removed, with the hash of the last one."""

    last: int
    first: int
    hash: str


async def absent(store: Store, events: Mapping[int, str]) -> list[Statement]:
    """Mark these events (numbers and hashes) as removed."""
    rows = await store.read(
        "select last, first, hash from absent_events where last between ?1 - 1 and ?2"
        " union all select * from (select last, first, hash from absent_events where last > ?2 order by last limit 1)",
        (min(events), max(events)),
    )
    before = {Stretch(as_int(last), as_int(first), str(digest)) for last, first, digest in rows}
    after = merged([*before, *(Stretch(seq, seq, digest) for seq, digest in events.items())])
    return _changed(before, set(after))


async def present(store: Store, events: Iterable[int], before: Mapping[int, str]) -> list[Statement]:
    """Mark these events as present again. `before` has the hash of the event before each, if that one isn't present."""
    numbers = sorted(events)
    rows = await store.read(
        "select distinct g.last, g.first, g.hash from json_each(?) k join absent_events g"
        " on g.last = (select min(last) from absent_events where last >= k.value)",
        (listed(numbers),),
    )
    known = {Stretch(as_int(last), as_int(first), str(digest)) for last, first, digest in rows}
    left = set()
    for stretch in known:
        first = stretch.first
        for seq in (each for each in numbers if stretch.first <= each <= stretch.last):
            if first < seq:
                left.add(Stretch(seq - 1, first, before[seq]))
            first = seq + 1
        if first <= stretch.last:
            left.add(stretch._replace(first=first))
    return _changed(known, left)


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The stretches, with touching ones merged."""
    found: list[Stretch] = []
    for each in sorted(stretches, key=lambda stretch: stretch.first):
        if found and found[-1].last + 1 == each.first:
            each = each._replace(first=found.pop().first)
        found.append(each)
    return found


def _changed(before: set[Stretch], after: set[Stretch]) -> list[Statement]:
    return [
        Statement(_DELETE, [(each.last,) for each in sorted(before - after)]),
        Statement(_INSERT, sorted(after - before)),
    ]
