"""What always holds: checked against the store and the journals, by plain means."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from tests.simulation.agent_laws import check_agents
from tests.simulation.broken import Broken
from tests.simulation.bundles import check_bundles
from tests.simulation.chains import OPEN_JOBS
from tests.simulation.economy import check_exchange
from tests.simulation.kernel import Node
from tests.simulation.places import CANCELLED, GONE, VANISHED, Pairs, Place, Places
from tests.simulation.ports import Written, journal_path
from tests.simulation.produced import check_files
from tests.simulation.rebuilt import check_rebuilt
from tests.simulation.restored_stores import LINES, fact, tellings
from tests.simulation.timers import Timers
from tests.simulation.universe import Universe

from runward.daemon.backup import MAYBE_BEGUN
from runward.daemon.rundir.journals import Appended, JournalLine, NotAppended
from runward.daemon.store.hash_chain import GENESIS, event_hash
from runward.handlers.chains.continuing import WITHDRAWN
from runward.handlers.journal.place import journal_directory

ALWAYS: Final[dict[str, str]] = {
    "a lane's jobs are done in order": (
        "select b.id, b.lane from jobs a join jobs b on b.lane = a.lane and b.id > a.id"
        " where a.state in ('waiting', 'running', 'held') and b.state = 'done'"
    ),
    "an open attempt is the session's last": (
        "select s.key from sessions s join attempts a on a.session_key = s.key"
        " where (a.ended_by is null) != (a.attempt = s.attempt and s.status = 'running')"
    ),
    "the first open job of each lane is its head, and no other is": (
        "select id from jobs j where is_head <> (state in ('waiting', 'held') and not exists (select 1 from jobs b"
        " where b.lane = j.lane and b.id < j.id and b.state in ('waiting', 'held')))"
    ),
    "a job runs under a token or not at all": "select id from jobs where (state = 'running') != (token is not null)",
}
"""Questions to which the store must never have an answer, whatever happens."""

AT_REST: Final[dict[str, str]] = {
    "no job is open": OPEN_JOBS,
    "a session has the status of its last attempt": (
        "select s.key, s.status, a.status from sessions s"
        " join attempts a on a.session_key = s.key and a.attempt = s.attempt where a.status != s.status"
    ),
    "an attempt ends at most once": (
        "select session_key, attempt from status_history where status != 'running'"
        " group by session_key, attempt having count(*) > 1"
    ),
    "an attempt begins exactly once": (
        "select a.session_key, a.attempt from attempts a left join status_history h"
        " on h.session_key = a.session_key and h.attempt = a.attempt and h.status = 'running'"
        " group by a.session_key, a.attempt having count(h.id) != 1"
    ),
    "attempts are numbered without gaps": (
        "select session_key from attempts group by session_key having max(attempt) != count(*)"
    ),
    "a job decides once": (
        "select event, handler, count(*) from decisions where handler not like 'chains/%' group by event, handler having count(*) > 1"
    ),
    "no run is still to be started": "select key, name from starts where state = 'owed'",
    "what was asked for is ordered or refused, once": (
        "select e.key from events e join jobs j on j.event = e.seq and j.state = 'done'"
        " left join decisions d on d.event = e.seq and d.subject like 'start %'"
        " left join starts s on s.event = e.seq where e.type = 'PlayRunRequested'"
        " group by e.key having count(d.id) != 1 or max(d.verdict = 'decided') != count(s.key)"
    ),
    "nobody is still to be told to end": "select session_key from cancellations where carried_out_at is null",
    "an order to end a run is accepted or refused, once": (
        "select e.key from events e join jobs j on j.event = e.seq and j.state = 'done'"
        " left join decisions d on d.event = e.seq and d.handler = 'requests/cancel'"
        " left join cancellations c on c.event = e.seq where e.type = 'SessionCancelRequested'"
        " group by e.key having count(d.id) != 1 or max(d.verdict = 'decided') != count(c.event)"
    ),
    "a contract that legs were folded into says so once": (
        "select key from sessions where folded != (select count(*) from decisions"
        " where subject = key and handler = 'contracts/planned' and verdict = 'decided')"
    ),
    "each live attempt that ended has one receipt": (
        "select e.key from events e where e.type = 'SessionFinished' and e.payload ->> 'origin' = 'live'"
        " and 1 != (select count(*) from receipts r where e.key = r.session_key || '#' || r.attempt || '/finished')"
        " and not exists (select 1 from jobs j where j.event = e.seq and j.state = 'discarded')"
    ),
    "the chain of receipts is unbroken": (
        "select seq from (select seq, prev, lag(receipt_hash) over (order by seq) as head from receipts"
        " where receipt_hash is not null) where prev is not head"
    ),
    "every bundle is in its place": "select session_key, attempt from receipts where placed_at is null",
    "every produced file has its hash, or the problem that it has none": (
        "select a.session_key, a.attempt, p.value ->> 0 from attempts a join json_each(a.produced) p"
        " left join files f on f.session_key = a.session_key and f.attempt = a.attempt and f.id = p.value ->> 0"
        " where f.id is null and not exists (select 1 from events e join jobs j on j.event = e.seq"
        " where e.key = a.session_key || '#' || a.attempt || '/finished' and j.state = 'discarded')"
    ),
    "every verdict is an event": (
        "select session_key, attempt from attempts where ended_by is not null"
        " and session_key || '#' || attempt || '/finished' not in (select key from events)"
    ),
}
"""The same, once everything is quiet."""


class Laws:
    """The laws of one history. Each check raises `Broken`."""

    def __init__(self, universe: Universe, places: Places) -> None:
        self._universe = universe
        self._places = places
        self._contracts: dict[str, tuple[str | None, bool]] = {}
        self._raced: list[Node | None] = []
        self._version: list[tuple[int, ...]] = []
        self._lives_over = 0
        self._timers = Timers(universe)
        self._known: set[bytes] = set()
        """Our lines that the store knows, looked for once it was restored."""

    def always(self) -> None:
        """What must hold after every step, checked where the store changed since it was checked last.

        A store that was restored may have other contracts than the one before it: they were read anew.
        """
        version = self._universe.peek("pragma data_version")
        if self._lives_over != self._universe.lives.over:
            self._lives_over = self._universe.lives.over
            self._contracts.clear()
        elif version == self._version:
            self._timers.looked()
            return
        self._version = version
        self._timers.check()
        for law, question in ALWAYS.items():
            self._none(law, question)
        for key, contract, folded in self._universe.peek(
            "select key, artifact_contract_json, folded from sessions"
        ):
            before = self._contracts.setdefault(key, (contract, folded))
            if before == (contract, folded):
                continue
            if (
                before[1]
                or not folded
                or (pairs(contract) or ())[: len(pairs(before[0]) or ())] != (pairs(before[0]) or ())
            ):
                raise Broken(f"the contract of {key} changed from {before} to {(contract, folded)}")
            self._contracts[key] = (contract, folded)

    def _may_lack(self, line: JournalLine) -> bool:
        """Whether a line may be missing: its directory was gone for a while, or the run is in the middle of its own."""
        waiting = self.waiting_for_newline().values()
        settled = self._is_settled(journal_path(line.directory, line.name))
        return self._was_away(line.directory) or settled or (line.directory, line.name) in waiting

    def _is_settled(self, path: str) -> bool:
        """Whether a journal was harmed when it counted as out of reach: soon where sessions are packed soon."""
        return self._universe.packs and path in self._universe.harmed

    def uncompared(self) -> list[tuple[str, str]]:
        """The journals that the store lists as not compared yet."""
        return [
            (str(row[0]), str(row[1]))
            for row in self._universe.peek("select directory, name from uncompared")
        ]

    def waiting(self) -> set[int]:
        """The numbers of lines that are owed by right: to a run in the middle of a line, or to one that is away."""
        away = {each for each in self.uncompared() if self._is_away(each)}
        owed = self._universe.peek("select id, directory, name from outbox")
        return {row[0] for row in owed if (row[1], row[2]) in away} | self.waiting_for_newline().keys()

    def _is_away(self, journal: tuple[str, str]) -> bool:
        """Whether the run's directory is gone: while its root is empty, nobody knows whether it will be back."""
        return not self._universe.kernel.exists(journal_path(journal[0]))

    def waiting_for_newline(self) -> dict[int, tuple[str, str]]:
        """Lines that are owed by right: the run lives, and is in the middle of a line of its own."""
        kernel = self._universe.kernel
        running = dict(self._universe.peek("select path, key from sessions where status = 'running'"))
        found = {}
        for number, directory, name in self._universe.peek("select id, directory, name from outbox"):
            path = journal_path(directory, name)
            if directory in running and kernel.exists(path) and kernel.content(path)[-1:] not in (b"", b"\n"):
                found[number] = (directory, name)
        return found

    def _none(self, law: str, question: str) -> None:
        found = self._universe.peek(question)
        if found:
            raise Broken(f"{law}, but: {found[:5]}")

    def at_rest(self) -> None:
        """What must hold once all faults are off and everything is quiet."""
        self.always()
        with self._universe.whole_record():
            self._at_rest()

    def _at_rest(self) -> None:
        for law, question in AT_REST.items():
            self._none(law, question)
        left = [row for row in self.uncompared() if not self._is_away(row)]
        if left:
            raise Broken(f"every journal is compared, but: {left[:5]}")
        waiting = self.waiting()
        owed = [
            row
            for row in self._universe.peek("select id, directory, name from outbox")
            if row[0] not in waiting
        ]
        if owed:
            raise Broken(f"nothing is owed, but: {owed[:5]}")
        self._chain()
        self._history()
        self._verdicts()
        self._orders()
        self._journals()
        check_files(self._universe, self._places)
        check_rebuilt(self._universe)
        check_bundles(self._universe, self._places, self._was_away)
        check_agents(self._universe)
        check_exchange(self._universe, self._places)
        self._universe.chains.at_rest()
        self._universe.recipients.at_rest()
        self._universe.worktrees.at_rest()
        self._universe.launchers.check(dict(self._universe.peek(STARTS, (MAYBE_BEGUN, WITHDRAWN))))
        self._epochs()

    def _chain(self) -> None:
        head = GENESIS
        rows = self._universe.peek(
            "select seq, key, type, version, recorded_at, cause, depth, payload, hash from events order by seq"
        )
        for number, row in enumerate(rows, start=1):
            expected = event_hash(head, *row[1:8])
            if row[0] != number or row[8] != expected:
                raise Broken(f"the chain breaks at event {row[0]} ({row[1]})")
            head = row[8]

    def _history(self) -> None:
        last: dict[str, str] = {}
        for key, replaced, status in self._universe.peek(
            "select session_key, replaced, status from status_history order by id"
        ):
            if replaced != last.get(key):
                raise Broken(f"{key} went from {last.get(key)} to {status}, said to replace {replaced}")
            last[key] = status
        statuses = dict(self._universe.peek("select key, status from sessions"))
        if statuses != last:
            raise Broken("the history doesn't lead to the sessions' statuses")

    def _epochs(self) -> None:
        """No two daemons rule under the same epoch, also where the store of one of them was restored."""
        epochs = [each.store.epoch for each in self._universe.daemons if each.store.epoch]
        if len(set(epochs)) != len(epochs):
            raise Broken(f"two daemons had the same epoch: {epochs}")

    def _orders(self) -> None:
        """A process that is said to have been told was told; then the attempt is over, and if nobody said how, by that order."""
        heard = {process.pid for process in self._universe.table.told}
        orders = [
            (key, {each[0] for each in json.loads(named).values() if isinstance(each, list)}, told, *rest)
            for key, told, named, *rest in self._universe.peek(ORDERS)
        ]
        for key, pids, told, status, reason, evidence, before in orders:
            if told and not pids & heard:
                raise Broken(f"{key} was told to end, it is said, but nobody of {sorted(pids)} heard it")
            if told and status == "running" and not self._is_free(key):
                raise Broken(f"{key} was told to end, and is {status}")
            silent = evidence == "process_gone" and reason not in (CANCELLED[1], VANISHED[1])
            # A run that was moved is two sessions with the same processes, and only one of them was ordered to end.
            elsewhere = any(other != key and pids & theirs for other, theirs, *_ in orders)
            # An order that was carried out and then lost by a restore is followed by one that finds nobody.
            is_lost = told == 0 and bool(self._universe.peek("select 1 from restores"))
            if pids & heard and silent and not before and not elsewhere and not is_lost:
                raise Broken(f"{key} was told to end and went in silence, but is {status} ({reason})")

    def _is_free(self, key: str) -> bool:
        agents = self._universe.foreign_agents.by_key
        return agents[key].free if key in agents else self._places.by_key[key].free

    # The plain model.

    def _verdicts(self) -> None:
        found = {
            row[0]: row
            for row in self._universe.peek(
                "select key, status, reason_code, attempt, artifact_contract_json, folded from sessions"
                " where layout = 'native'"
            )
        }
        for key, place in self._places.by_key.items():
            self._verdict(place, found.pop(key, None))
        if found:
            raise Broken(f"sessions that nobody began: {sorted(found)}")

    def _verdict(self, place: Place, row: tuple[str, str, str, int, str | None, int] | None) -> None:
        told = self._universe.peek(TOLD)
        gone = CANCELLED if row is not None and (row[0], row[3]) in told else GONE
        expected = self._places.expected(place, pairs(row[4]) if row is not None else None, gone)
        if row is None:
            if expected.session:
                raise Broken(f"{place.key} was never noticed: {expected}")
            return
        key, status, reason, attempt, contract, folded = row
        if (key, attempt) in self._universe.peek(UNSURE):
            expected.verdicts.add(GONE)
        # A store that was restored may have forgotten the order that its launcher followed.
        if place.cancelled and self._universe.lives.over and (key, attempt) not in told:
            expected.verdicts.add(("failed", "run.failed.signal"))
        if not place.begun:
            raise Broken(f"{key} never began, but has a session")
        if any(agent.inside is place for agent in self._universe.foreign_agents.by_key.values()):
            expected.verdicts |= expected.inside
        fair = self._places.contracts(place)
        if (pairs(contract), bool(folded)) not in fair:
            raise Broken(f"{key} has the contract {contract} (folded: {folded}); fair is one of {fair}")
        if place.free:
            return
        if (status, reason) not in expected.verdicts or attempt > expected.most_attempts:
            raise Broken(f"{key} is {status} ({reason}) in attempt {attempt}; fair is {expected}")

    # Journals.

    def _journals(self) -> None:
        self._raced = [
            each.node
            for each in self._universe.written
            if isinstance(each.answer, NotAppended) and "wrote in the middle" in each.answer.why
        ]
        written: dict[int, list[Written]] = defaultdict(list)
        nodes: dict[int, Node] = {}
        for each in self._universe.written:
            if each.node is not None and isinstance(each.answer, Appended):
                written[id(each.node)].append(each)
                nodes[id(each.node)] = each.node
        if self._universe.lives.over:
            rows = self._universe.peek(LINES)
            self._known = {line for *_, content in rows for line in content.splitlines(keepends=True)}
        for number, node in nodes.items():
            self._journal(node, written[number])
        self._places_of_lines()
        self._damage()
        self._told_once()

    def _journal(self, node: Node, written: list[Written]) -> None:
        """Each line of ours stands exactly once where it was said to be, in order, and all else is foreign.

        In a store that was restored a line is the one that was adopted; what is owed then may say something else
        than stands there, and comes behind it, so the order is not a law where lines stood at a restore. And nobody
        knows any more of a line that only the forgotten store knew: it isn't written again where it was lost.
        """
        data = bytes(node.data)
        # A line that was owed again counts where it was met last.
        last = reversed([line for each in written for line in _standing(each).splitlines(keepends=True)])
        ours = list(dict.fromkeys(last))[::-1]
        places = []
        least = 0 if any(self._may_lack(each.line) for each in written) else 1
        for content in ours:
            at = [place for place in _occurrences(data, content) if place == 0 or data[place - 1] == 10]
            if not (least and not self._is_forgotten(content)) <= len(at) <= 1:
                raise Broken(f"{node.path}: a line of ours stands {len(at)} times: {content!r} in {data!r}")
            places += at
        out_of_order = self._raced + self._universe.lives.journals
        if places != sorted(places) and least and node not in out_of_order and not node.meddled:
            raise Broken(f"{node.path}: our lines stand in another order than they were ordered in")
        self._foreign(node, data)

    def _is_forgotten(self, line: bytes) -> bool:
        """Whether only a store that was replaced by a backup knew this line of ours."""
        return bool(self._universe.lives.over) and line not in self._known

    def _was_away(self, directory: str) -> bool:
        """Whether a run's directory was gone at some time.

        A line that was given up then is owed again if that wasn't recorded before a crash, and comes
        after later ones; and what a power cut tore off may stay so. Likewise where a person gave its repair up,
        or had the record pruned.
        """
        given_up = {row[0] for row in (*self._universe.peek(GIVEN_UP), *self._universe.peek(PRUNED))}
        if any(journal_directory(key.partition(":")[0], key, "") == directory for key in given_up):
            return True
        return any(
            place.shaken or place.hidden or place.key in given_up
            for place in self._places.by_key.values()
            if place.path == directory
        )

    def _foreign(self, node: Node, data: bytes) -> None:
        """Every byte is accounted for by somebody who appended it."""
        if sum(length for _, length in node.pieces) != len(data):
            raise Broken(f"{node.path}: {len(data)} bytes, but {node.pieces} were appended")

    def count_rare_paths(self) -> None:
        """Note which rare paths this history took, as the store and the answers about lines tell."""
        reached = self._universe.tally.reached
        with self._universe.whole_record():
            for path, question in RARE_ROWS.items():
                reached[path] += self._universe.peek(question)[0][0]
        short: set[tuple[int, bytes]] = set()
        for each in self._universe.written:
            line = (id(each.node), each.line.content)
            match each.answer:
                case Appended(adopted=bytes()):
                    reached["a line that stood before a restore, adopted"] += 1
                case Appended(already=True):
                    reached["a line found that was written already"] += 1
                case Appended():
                    reached["a short write completed"] += line in short
                case NotAppended(why=why) if "whole line" in why:
                    short.add(line)
                case NotAppended(why="the run is in the middle of a line"):
                    reached["a line refused while the run is in the middle of one"] += 1
                case NotAppended(why="another writer has its lock"):
                    reached["a journal that a frozen daemon has locked"] += 1

    def _places_of_lines(self) -> None:
        """What the store says of a journal's lines is what stands there, where the run's directory stayed."""
        by_path = {place.path: place for place in self._places.by_key.values()}
        for directory, name, content, offset, places in self._universe.peek(
            'select l.directory, l.name, coalesce(a.content, l.content), l."offset", l.places from journal_lines l'
            ' left join adopted_lines a on a.id = l.id where l."offset" is not null'
        ):
            path = journal_path(directory, name)
            if (
                directory not in by_path
                or self._was_away(directory)
                or self._is_settled(path)
                or not self._universe.kernel.exists(path)
            ):
                continue
            data = self._universe.kernel.content(path)
            pieces = json.loads(places) if places is not None else [[offset, len(content)]]
            found = b"".join(data[start : start + length] for start, length in pieces)
            if found != content:
                raise Broken(f"{path}: at {pieces} stands {found!r}, the store says {content!r}")

    def _told_once(self) -> None:
        """No fact is told more often in a journal than the store of one life knew it: what was told before a restore,
        and is found out again after it, is adopted. What differs in more than when it was learned is another fact.
        """
        lives, kernel = self._universe.lives, self._universe.kernel
        if not lives.over:
            return
        now = tellings(self._universe.peek(LINES))
        for directory, name in now:
            path = journal_path(directory, name)
            if not kernel.exists(path) or self._was_away(directory):
                continue  # it may be another run's
            stands = Counter(map(fact, self._ours(kernel.node(path))))
            for each, count in stands.items():
                most = max(life.get((directory, name), Counter())[each] for life in (*lives.told, now))
                if count > most:
                    raise Broken(f"{path} tells {count} times, where it should at most {most} times: {each}")

    def _ours(self, node: Node) -> Iterator[bytes]:
        """The lines of ours that stand in a journal."""
        ours = {
            line
            for each in self._universe.written
            if each.node is node and isinstance(each.answer, Appended)
            for line in _standing(each).splitlines()
        }
        return (line for line in bytes(node.data).splitlines() if line in ours)

    def _damage(self) -> None:
        """What was synced stays, so a journal is found damaged only where a disk lied or somebody was at it."""
        for directory, name, key in self._universe.peek(
            "select json_extract(payload, '$.directory'), json_extract(payload, '$.name'), key from events"
            " where type = 'JournalDamaged'"
        ):
            if journal_path(directory, name) not in self._universe.harmed and not self._was_away(directory):
                raise Broken(f"{directory}/{name} was found damaged, and nobody harmed it: {key}")


ORDERS: Final = (
    "select c.session_key, c.told, c.processes, a.status, a.reason_code, a.ended_by, exists ("
    "  select 1 from cancellations b where b.session_key = c.session_key and b.attempt < c.attempt and b.told"
    ") from cancellations c join attempts a on a.session_key = c.session_key and a.attempt = c.attempt"
)
UNSURE: Final = "select session_key, attempt from cancellations where told is null and outcome is not null"
"""Orders that found nobody, after a daemon that may have told somebody: the run may have gone before."""

TOLD: Final = "select session_key, attempt from cancellations where told is not 0"

PRUNED: Final = "select session_key from tombstones"
STARTS: Final = "select key, case when why in (?, ?) then 'given up' else state end from starts"
"""Each start's state; for those that were given up at a restore, it is not known whether they began."""

GIVEN_UP: Final = "select lane from jobs where handler = 'journal/repair' and state = 'discarded'"
RARE_ROWS: Final[dict[str, str]] = {
    "a repair that a person gave up": f"select count(*) from ({GIVEN_UP})",
    "a repair of which a daemon was killed": (
        "select count(*) from jobs j join events e on e.seq = j.event where j.handler = 'journal/repair'"
        " and j.state = 'done' and j.epoch > json_extract(e.payload, '$.epoch')"
    ),
    "a held job retried": "select count(*) from decisions where summary like 'retried by %'",
    "a held job discarded": "select count(*) from jobs where state = 'discarded'",
    "an event of a newer version held": "select count(*) from jobs where handler = 'future' and state = 'held'",
    "a resumed session": "select count(*) from status_history where reason_code = 'run.started.resumed'",
    "a vanished run": "select count(*) from attempts where reason_code = 'run.aborted.vanished'",
    "a run whose process is gone": "select count(*) from attempts where reason_code = 'run.aborted.process_gone'",
    "a missing artifact": "select count(*) from attempts where reason_code = 'run.failed.missing_artifact'",
    "a flow's legs folded into the contract": "select count(*) from sessions where folded = 1",
    "a flow whose leg left something out": (
        "select count(*) from sessions where folded = 1 and reason_code = 'run.failed.missing_artifact'"
    ),
    "a plan that came after a leg worked": "select count(*) from decisions where summary like '%which is older'",
    "a plan whose leg was seen at work before it": "select count(*) from decisions where summary like '%before it'",
    "a second plan": "select count(*) from decisions where summary like '%it is not the plan%'",
    "a plan after the end": "select count(*) from decisions where summary like '%after the session was over%'",
    "a plan with an agent that nobody knows": "select count(*) from decisions where summary like '%no agent%'",
    "a hashed file": "select count(*) from files where sha256 is not null",
    "a file that changed after its verdict": "select count(*) from files where problem = 'changed'",
    "a file that went after its verdict": "select count(*) from files where problem = 'gone'",
    "a run of before": "select count(*) from sessions where origin = 'history'",
    "a started run": "select count(*) from starts where state = 'begun'",
    "a refused start": "select count(*) from decisions where subject like 'start %' and verdict = 'refused'",
    "a refused order to end a run": (
        "select count(*) from decisions where handler = 'requests/cancel' and verdict = 'refused'"
    ),
    "an order that found nobody": "select count(*) from cancellations where told = 0",
    "a run told to end that went in silence": (
        "select count(*) from attempts where reason_code = 'run.cancelled.user' and ended_by = 'process_gone'"
    ),
    "a packed session": "select count(*) from sessions where packed",
    "a packed session that was unpacked": "select count(*) from unpacked",
    "a packed session that was pruned": "select count(*) from gone_packed",
    "a pruned session": "select count(*) from tombstones",
    "a pruned session that was resumed": (
        "select count(*) from tombstones t join attempts a on a.session_key = t.session_key and a.attempt > t.attempt"
    ),
    "a correction": (
        "select count(*) from attempts a join attempts b on b.session_key = a.session_key and b.attempt = a.attempt + 1"
        " where a.reason_code = 'run.aborted.process_gone' and b.ended_by = 'declared'"
    ),
}
"""Rare paths that leave rows in the store."""


def _standing(written: Written) -> bytes:
    """The lines as they stand, for an answer that they do."""
    answer = written.answer
    adopted = answer.adopted if isinstance(answer, Appended) else None
    return written.line.content if adopted is None else adopted


def pairs(contract: str | None) -> Pairs | None:
    """What a stored contract expects: paths, and whether they are required."""
    if contract is None:
        return None
    return tuple((each["path"], each["required"]) for each in json.loads(contract)["expected"])


def _occurrences(data: bytes, content: bytes) -> list[int]:
    found, at = [], data.find(content)
    while at >= 0:
        found.append(at)
        at = data.find(content, at + 1)
    return found
