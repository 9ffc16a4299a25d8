"""What all hosts reported, as lists: of a fleet's hosts, and of their sessions. Text of other hosts does no harm there."""

import json
import random
import shlex
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.daemon.cli.calling import Place, Result
from tests.daemon.cli.drawn import draw, widest
from tests.daemon.cli.everyday import Everyday
from tests.daemon.fleet.database import Server, free_port
from tests.daemon.fleet.places import joined
from tests.waiting import wait_for

from runward.config.json_value import JsonValue
from runward.daemon.fleet import lists
from runward.daemon.fleet.connecting import in_time
from runward.daemon.fleet.serving import PERIOD_S
from runward.daemon.store.tables.session_lists import Wanted
from runward.handlers.times import iso


class Told(NamedTuple):
    """A session as a host tells of it."""

    host: str
    key: str
    started_at: float
    body: JsonValue


def _told(host: str, name: str, at: float, status: str = "completed", **further: JsonValue) -> Told:
    ended = None if status == "running" else at + 20
    body: dict[str, JsonValue] = {
        "session_id": name,
        "status": status,
        "activity": "active" if status == "running" else None,
        "layout": "native",
        "root": "runs",
        "path": None,
        "playbook": None,
        "agent": None,
        "reason": {"code": f"run.{status}", "summary": f"it {status}", "evidence_refs": []},
        "started_at": iso(at),
        "finished_at": iso(ended),
        "ended_by": None if ended is None else "declared",
        "delivery": None,
        "verified": None,
        **further,
    }
    return Told(host, f"native:runs/{name}", at, body)


class Fleet:
    """A fleet, of which `place` is the host `laptop`; whatever else it has is written by its owner."""

    def __init__(self, server: Server, database: str, place: Place) -> None:
        self.server, self.database, self.place = server, database, place

    def admin(self) -> "psycopg.Connection[tuple[Any, ...]]":
        return self.server.admin(self.database)

    def has_host(self, name: str, seen: str | None = "0 s", **further: object) -> None:
        """A host that was heard of so long ago; None: that never was."""
        with self.admin() as admin:
            admin.execute(
                "insert into runward.hosts (name, login, labels, joined_at, program, last_seen, owes, problems) values"
                " (%s, %s, %s, now(), %s, clock_timestamp() - %s::interval, %s, %s) on conflict (name) do update set"
                " last_seen = excluded.last_seen, program = excluded.program",
                (
                    name,
                    f"host_{name}",
                    further.get("labels", []),
                    further.get("program", "1.0"),
                    seen,
                    further.get("owes", 0),
                    further.get("problems", []),
                ),
            )

    def has(self, *sessions: Told) -> None:
        with self.admin() as admin, admin.cursor() as cursor:
            cursor.executemany(
                "insert into runward.sessions (host, key, version, started_at, body) values (%s, %s, 1, %s, %s)",
                [(*each[:3], Jsonb(each.body)) for each in sessions],
            )

    def lists(self, *options: str) -> Result:
        return self.place.call("session", "list", "--fleet", *options)

    def listed(self, *options: str) -> list[tuple[str, str]]:
        """Host and id of what is listed."""
        told = self.lists("--json", *options)
        assert (told.code, told.err) == (0, "")
        return [(str(each["host"]), str(each["session_id"])) for each in told.objects()]


@pytest.fixture
def fleet(postgresql: Server, database: str, office: Place, laptop: Place) -> Fleet:
    made = Fleet(postgresql, database, joined(office, laptop, "laptop"))
    made.has_host("laptop")
    made.has_host("gpu-box", labels=["big", "gpu"])
    return made


def test_hosts_are_listed_with_what_is_known_of_each(fleet: Fleet, office: Place) -> None:
    fleet.has_host("build", seen="3 h", owes=12, problems=["the disk is full", "fleet: slow"])
    fleet.has_host("new", seen=None, program=None)
    for name in ("laptop", "gpu-box"):
        fleet.has_host(name, seen="61 s")  # in minutes, it stays the same for as long as this may take
    assert office.call("fleet", "invite", "never-joined").code == 0
    with fleet.admin() as admin:
        admin.execute("update runward.hosts set slots = 3 where name = 'gpu-box'")
    told = fleet.place.call("fleet", "hosts")
    assert (told.code, told.err) == (0, "")
    assert _lines(told) == [
        "HOST STATE SEEN SLOTS OWES VERSION LABELS PROBLEMS",
        "build silent 3h ago - 12 1.0 - the disk is full; fleet: slow",
        "gpu-box reporting 1m ago 3 0 1.0 big, gpu -",
        "laptop reporting 1m ago - 0 1.0 - -",
        "never-joined invited never - 0 - - -",
        "new joined never - 0 - - -",
    ]
    build, gpu, *_, new = fleet.place.call("fleet", "hosts", "--json").objects()
    assert {name: value for name, value in build.items() if not name.endswith(("_at", "_s"))} == {
        "host": "build",
        "state": "silent",
        "labels": [],
        "version": "1.0",
        "slots": None,
        "owes": 12,
        "problems": ["the disk is full", "fleet: slow"],
    }
    assert isinstance(build["unheard_s"], float)
    assert 3 * 3600 <= build["unheard_s"] < 3 * 3600 + 600
    assert (gpu["state"], gpu["labels"]) == ("reporting", ["big", "gpu"])
    assert (new["last_seen_at"], new["unheard_s"]) == (None, None)
    # Who made the fleet sees the same.
    assert office.call("fleet", "hosts", "--columns", "HOST,STATE").out == (
        fleet.place.call("fleet", "hosts", "--columns", "HOST,STATE").out
    )


def test_the_list_of_hosts_is_as_long_as_one_wants(fleet: Fleet) -> None:
    told = fleet.place.call("fleet", "hosts", "--limit", "1", "--columns", "HOST")
    assert told.out.split() == ["HOST", "gpu-box"]
    assert told.err == "runward: there are more than these 1: `--limit 0` shows all\n"
    told = fleet.place.call("fleet", "hosts", "--limit", "2")
    assert told.err == ""


def test_a_host_is_silent_after_three_signs_of_life_that_did_not_come() -> None:
    assert lists.SILENT_AFTER_S == 3 * PERIOD_S


def test_sessions_of_all_hosts_are_one_list_the_newest_first(fleet: Fleet) -> None:
    now = time.time()
    fleet.has(
        _told("gpu-box", "old", now - 7200),
        _told("laptop", "new", now - 120, "failed", playbook="review", verified="failed", delivery="missing"),
        _told("gpu-box", "runs", now - 600, "running", layout="codex", cwd="/src", prompt="Go", model="m"),
    )
    told = fleet.lists()
    assert (told.code, told.err) == (0, "")
    assert _lines(told) == [
        "HOST SESSION STATUS REASON VERIFIED DELIVERY EVIDENCE STARTED TOOK CWD MODEL TOKENS PROMPT",
        "laptop new failed run.failed failed missing declared 2m ago 20.0s - - - -",
        "gpu-box runs running run.running - - - 10m ago 10m 00s /src m - Go",
        "gpu-box old completed run.completed - - declared 2h ago 20.0s - - - -",
    ]


def _lines(told: Result) -> list[str]:
    """What was printed, without the blanks that align it."""
    return [" ".join(line.split()) for line in told.out.splitlines()]


NOW = 1_790_000_000.0

MANY = [
    _told("laptop", "passed", NOW - 5, layout="codex", root="codex", playbook="review"),
    _told("gpu-box", "broken", NOW - 10, "failed", agent="ann", cwd="/src/web/app", prompt="x"),
    _told("gpu-box", "late", NOW - 20, "timed_out", playbook="train"),
    _told("laptop", "gone", NOW - 30, "aborted", playbook="review", agent="ann", cwd="/src/website"),
    _told("build", "running", NOW - 40, "running", root="other", path="/runs/Running"),
    _told("gpu-box", "same-time-a", NOW - 50, playbook="train"),
    _told("build", "same-time-b", NOW - 50),
    _told("laptop", "by-hand", NOW - 60, "cancelled", cwd="/src/web"),
]


@pytest.fixture
def full(fleet: Fleet) -> Fleet:
    fleet.has_host("build")
    fleet.has(*random.Random(1).sample(MANY, len(MANY)))
    return fleet


FILTERED: dict[str, list[str]] = {
    "": [each.key.rpartition("/")[2] for each in sorted(MANY, key=lambda it: (-it.started_at, it.host))],
    "--failed": ["broken", "late", "gone"],
    "--status running --status cancelled": ["running", "by-hand"],
    "--status failed --status failed": ["broken"],
    "--layout codex": ["passed"],
    "--root other --root codex": ["passed", "running"],
    "--playbook review": ["passed", "gone"],
    "--playbook review --playbook train --failed": ["late", "gone"],
    "--agent ann --host gpu-box": ["broken"],
    "--host build": ["running", "same-time-b"],
    "--host build --host laptop --playbook review": ["passed", "gone"],
    "--search RUNNING": ["running"],
    "--search it\\ timed": ["late"],
    "--search 100%": [],
    "--cwd /src/web": ["broken", "by-hand"],
    "--cwd /": ["broken", "gone", "by-hand"],
    f"--since @{NOW - 20:.0f}": ["passed", "broken", "late"],
    f"--since @{NOW - 45:.0f} --failed --host laptop": ["gone"],
    "--limit 3": ["passed", "broken", "late"],
    "--failed --playbook none": [],
}


@pytest.mark.parametrize("at_once", [1, 100])
def test_each_filter_shows_its_sessions_in_order_however_many_are_read_at_once(
    monkeypatch: pytest.MonkeyPatch, full: Fleet, at_once: int
) -> None:
    monkeypatch.setattr(lists, "_AT_ONCE", at_once)
    for options, expected in FILTERED.items():
        told = full.lists("--json", *shlex.split(options))
        assert told.code == 0
        assert [each["session_id"] for each in told.objects()] == expected, options
        assert ("there are more" in told.err) == ("--limit" in options)


def test_a_row_has_what_its_host_said_and_its_host(fleet: Fleet) -> None:
    said = _told("gpu-box", "one", NOW, further=[1, {"a": None}])
    liar = Told("laptop", "native:runs/two", NOW - 1, {"host": "gpu-box", "key": said.key})
    fleet.has(said, liar)
    assert isinstance(said.body, dict)
    one, two = fleet.lists("--json").objects()
    assert one == {**said.body, "host": "gpu-box", "key": said.key}
    assert (two["host"], two["key"]) == ("laptop", liar.key)
    assert fleet.place.call("session", "list", "--fleet", "--jq", ".[].host").out == "gpu-box\nlaptop\n"


EVIL = "\x1b[31m\x9b2J\r\nx\u202e\x07"


def test_text_of_other_hosts_is_escaped(fleet: Fleet) -> None:
    fleet.has_host("gpu-box", program=EVIL)
    fleet.has_host("evil", problems=[EVIL], seen="1 h")
    fields = dict.fromkeys(("playbook", "layout", "verified", "delivery", "cwd", "prompt", "model"), EVIL)
    reason: JsonValue = {"code": EVIL, "summary": EVIL}
    fleet.has(
        _told("gpu-box", EVIL, NOW, "failed", reason=reason, ended_by=EVIL, **fields),
        _told(
            "evil", EVIL, NOW, "running", chain={"chain": EVIL, "step": EVIL}, contract_problem=EVIL, **fields
        ),
        _told("gpu-box", "odd", NOW, EVIL, **fields),
    )
    for words in (("fleet", "hosts"), ("session", "list", "--fleet")):
        for options in ((), ("--json",), ("--wide",)):
            told = fleet.place.call(*words, *options)
            assert told.code == 0
            for text in (told.out, told.err):
                assert not set(EVIL.replace("\n", "").replace("x", "")) & set(text) - set("[31m2J"), text
                assert "\\x1b[31m" in text or "\\u001b[31m" in text or text == told.err
            if options != ("--json",):
                assert len(told.out.splitlines()) == 1 + 3


def test_whatever_a_host_wrote_instead_of_a_session_is_shown_or_named(fleet: Fleet) -> None:
    deep: JsonValue = []
    for _ in range(70):
        deep = [deep]
    odd: JsonValue = {
        "session_id": 7,
        "status": "failed",
        "reason": "no object",
        "usage": {"input_tokens": 1e300, "output_tokens": True, "cost_usd": "1"},
        "chain": [1],
        "started_at": "never",
        "finished_at": -1,
        "prompt": {"a": 1},
    }
    fleet.has(
        Told("gpu-box", "k:deep", NOW, {"deep": deep}),
        Told("gpu-box", "k:odd", NOW, odd),
        Told("gpu-box", "k:empty", NOW, {}),
        _told("gpu-box", "sane", NOW, usage={"input_tokens": 1, "output_tokens": 2, "cost_usd": 1e11}),
    )
    with fleet.admin() as admin:
        admin.execute(
            "insert into runward.sessions (host, key, version, started_at, body)"
            " select 'gpu-box', 'k:huge', 1, 1, ('{\"n\": 1' || repeat('0', 5000) || '}')::jsonb"
        )
    for options in ([], ["--json"], ["--wide"]):
        told = fleet.lists(*options)
        assert told.code == 0
        assert "2 of them can't be read, such as k:deep of gpu-box" in told.err
        assert "k:odd" in told.out
        assert "sane" in told.out


BAD_ROWS = {
    "a time that is not a number": ("'NaN'", "'{}'"),
    "a time without end": ("'Infinity'", "'{}'"),
    "a time before all": ("-1", "'{}'"),
    "no object": ("1", "'[]'"),
}


@pytest.mark.parametrize(("at", "body"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_the_database_takes_nothing_that_lists_could_not_show(fleet: Fleet, at: str, body: str) -> None:
    insert = (
        "insert into runward.sessions (host, key, version, started_at, body)"
        f" values ('laptop', 'k', 1, {at}, {body}::jsonb)"
    )
    with fleet.admin() as admin, pytest.raises(psycopg.errors.CheckViolation):
        admin.execute(insert)


def test_what_a_silent_host_runs_is_unknown(fleet: Fleet) -> None:
    fleet.has_host("build", seen="3 h")
    fleet.has(_told("build", "there", NOW, "running"), _told("laptop", "here", NOW, "running"))
    told = fleet.lists("--columns", "STATE,HOST,SESSION")
    assert [line.split()[1:] for line in told.out.splitlines()[1:]] == [
        ["working", "laptop", "here"],
        ["unknown", "build", "there"],
    ]
    assert "build is silent for 3h 00m: it is not known what still runs there" in told.err
    assert fleet.lists("--failed").err == ""


def _drawn(fleet: Fleet, columns: int, *words: str, **environment: str) -> list[str]:
    place = Everyday(fleet.place.directory)
    place.environment, place.now = fleet.place.environment, NOW
    drawn = draw(place, (columns, 24), *words, **environment)
    assert drawn.code == 0
    assert widest(drawn) <= columns
    return drawn.lines


def _screen(fleet: Fleet) -> None:
    fleet.has(
        _told("gpu-box", "trains", NOW - 600, "running", playbook="train", prompt="Train it", model="fast"),
        _told("laptop", "silent-reviewer", NOW - 660, "failed", playbook="review"),
        _told(
            "gpu-box",
            "0199a213-81c0-7800-8aa1-bbab2a035a53",
            NOW - 720,
            layout="claude-code",
            prompt="Look at what changed since the last release, and say what is missing",
            cwd="/src/web",
            usage={"input_tokens": 1000, "output_tokens": 20, "cost_usd": 0.5, "cost_is_estimate": True},
            chain={"chain": "pr", "step": "look"},
        ),
    )


def test_a_terminal_shows_what_works_first_and_of_which_host_it_is(fleet: Fleet) -> None:
    _screen(fleet)
    assert _drawn(fleet, 80, "session", "list", "--fleet") == [
        "STATE        AGE  HOST     SESSION          FOR      WHAT",
        "● working    10m  gpu-box  trains           train    Train it",
        "✗ failed     11m  laptop   silent-reviewer  review   it failed",
        "✓ completed  12m  gpu-box  …2a035a53        pr/look  web: Look at what changed…",
    ]
    assert _drawn(fleet, 120, "session", "list", "--fleet") == [
        "STATE        AGE  TOOK  HOST     SESSION          FOR      DIRECTORY  TOKENS  COST      WHAT",
        "● working    10m  10m   gpu-box  trains           train    -          -       -         Train it",
        "✗ failed     11m  20s   laptop   silent-reviewer  review   -          -       -         it failed",
        "✓ completed  12m  20s   gpu-box  …2a035a53        pr/look  web        1,020   ~$0.5000  Look at what changed since the…",
        "runward: ~: an estimate at list prices, or at those of the settings of its host",
    ]
    plain = _drawn(fleet, 80, "session", "list", "--fleet", LANG="C")
    assert plain[1:3] == [
        "* working    10m  gpu-box  trains           train    Train it",
        "x failed     11m  laptop   silent-reviewer  review   it failed",
    ]


@pytest.mark.parametrize("columns", [40, 80, 120, 500])
def test_no_line_is_wider_than_the_terminal(fleet: Fleet, columns: int) -> None:
    _screen(fleet)
    fleet.has_host("gpu-box", seen="1 day", problems=["something is wrong " * 20] * 3)
    for words in ("session list --fleet", "session list --fleet --failed", "fleet hosts"):
        lines = _drawn(fleet, columns, *words.split())
        assert "gpu-box" in "\n".join(lines) or "--failed" in words


def test_the_limit_holds_for_what_works_and_for_what_ended(full: Fleet) -> None:
    full.has(_told("laptop", "works-too", NOW - 100, "running"))
    told = full.lists("--limit", "1", "--columns", "SESSION")
    assert told.out.split() == ["SESSION", "running", "passed"]
    assert "there are more than these 1" in told.err
    assert full.lists("--limit", "0", "--columns", "SESSION").out.split()[1:3] == ["running", "works-too"]
    assert full.lists("--status", "running", "--columns", "SESSION").out.split()[1:] == [
        "running",
        "works-too",
    ]
    assert full.lists("--failed", "--columns", "SESSION").out.split()[1:] == ["broken", "late", "gone"]


def _unreachable(place: Place) -> None:
    settings = place.directory / "runward.toml.d/fleet.toml"
    text = settings.read_text()
    port = text.partition("127.0.0.1:")[2].partition("/")[0]
    settings.write_text(text.replace(f":{port}/", f":{free_port()}/"))


def test_without_the_database_only_the_lists_of_the_fleet_fail(fleet: Fleet) -> None:
    fleet.place.add_run("own", exit_code=0)
    fleet.place.daemon_once()
    _unreachable(fleet.place)
    for words in ("session list --fleet", "session list --fleet --json", "fleet hosts"):
        told = fleet.place.call(*words.split())
        assert (told.code, told.out) == (75, "")
        assert "can't be reached" in told.err
        assert "try again later" in told.err
        assert len(told.err.splitlines()) == 1
    own = fleet.place.call("session", "list", "--json")
    assert (own.code, own.err, len(own.objects())) == (0, "", 1)


def test_a_database_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch, fleet: Fleet) -> None:
    with monkeypatch.context() as patch, fleet.admin() as admin, admin.transaction():
        patch.setattr(lists, "in_time", lambda connection: in_time(connection, 0.3))
        admin.execute("lock table runward.sessions, runward.hosts in access exclusive mode")
        for words in ("session list --fleet", "fleet hosts"):
            told = fleet.place.call(*words.split())
            assert (told.code, told.out) == (75, "")
            assert "the fleet's database does not answer" in told.err
            assert "try again later" in told.err
    assert fleet.lists().code == 0


def test_a_login_that_is_not_let_in_is_no_reason_to_try_again(fleet: Fleet) -> None:
    secret = fleet.place.directory / "runward.toml.d/fleet.secret"
    secret.write_text("wrong\n")
    for words in ("session list --fleet", "fleet hosts"):
        told = fleet.place.call(*words.split())
        assert told.code == 1
        assert "refuses the login host_laptop" in told.err


def test_a_machine_of_no_fleet_is_told_so(laptop: Place) -> None:
    for words in ("session list --fleet", "fleet hosts"):
        told = laptop.call(*words.split())
        assert told.code == 1
        assert "this machine belongs to no fleet: `runward fleet join INVITATION`" in told.err
    told = laptop.call("session", "list", "--host", "gpu-box")
    assert told.code == 2
    assert "--host needs --fleet" in told.err


def test_the_list_of_a_host_names_it_if_that_is_asked(office: Place, laptop: Place) -> None:
    laptop.add_run("own", exit_code=0)
    laptop.daemon_once()
    words = ("session", "list", "--columns", "SESSION,HOST")
    assert _lines(laptop.call(*words)) == ["SESSION HOST", "own -"]
    joined(office, laptop, "laptop")
    assert _lines(laptop.call(*words)) == ["SESSION HOST", "own laptop"]
    assert "HOST" not in laptop.call("session", "list", "--wide").out


def test_a_filter_that_is_no_text_is_refused(fleet: Fleet) -> None:
    told = fleet.lists("--search", "\udcff")
    assert told.code == 2
    assert "not valid UTF-8" in told.err


_MANY_ROWS = (
    "insert into runward.sessions (host, key, version, started_at, body)"
    " select case when n %% 3 = 0 then 'laptop' else 'gpu-box' end, 'k' || n, 1, n,"
    " jsonb_build_object('session_id', 's' || n, 'layout', 'native', 'playbook', 'p' || n %% 20, 'agent', 'a' || n %% 30,"
    " 'status', case when n %% 50 = 0 then 'failed' else 'completed' end) from generate_series(%s::int, %s::int) n"
)


def _blocks(fleet: Fleet, wanted: Wanted, hosts: Sequence[str]) -> list[int]:
    """How many blocks of the database each statement of the list touches."""
    touched: list[int] = []

    class Explaining:
        """A connection that also measures."""

        def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
            self._connection = connection

        def fileno(self) -> int:
            return self._connection.fileno()

        def execute(self, statement: psycopg.sql.SQL, given: dict[str, Any], **how: Any) -> Any:
            explain = psycopg.sql.SQL("explain (analyze, buffers, format json) ") + statement
            ((plan,),) = self._connection.execute(explain, given, **how).fetchall()
            touched.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
            return self._connection.execute(statement, given, **how)

    with fleet.admin() as admin:
        found = lists.sessions(Explaining(admin), wanted, hosts, 150)  # type: ignore[arg-type] # as much of it as is used
    assert len(found) >= 20
    return touched


LARGE = [
    (Wanted(), ()),
    (Wanted(statuses=("failed", "timed_out", "aborted")), ()),
    (Wanted(playbooks=("p3",)), ()),
    (Wanted(agents=("a3", "a4")), ()),
    (Wanted(), ("laptop",)),
    (Wanted(since=10.0), ()),
]


@pytest.mark.prove
def test_a_list_reads_no_more_of_a_hundred_times_as_many_rows(fleet: Fleet) -> None:
    with fleet.admin() as admin:
        admin.execute(_MANY_ROWS, (1, 1000))
        admin.execute("vacuum analyze runward.sessions")
    few = [_blocks(fleet, *each) for each in LARGE]
    with fleet.admin() as admin:
        admin.execute(_MANY_ROWS, (1001, 100_000))
        admin.execute("vacuum analyze runward.sessions")
    for before, wanted in zip(few, LARGE, strict=True):
        after = _blocks(fleet, *wanted)
        # An index of a hundred times as many rows is one level higher.
        assert max(after) <= 2 * max(before) + 100, (wanted, before, after)


@pytest.mark.prove
def test_the_list_of_the_fleet_says_what_the_hosts_own_list_says(fleet: Fleet) -> None:
    place = fleet.place
    place.add_run("good", exit_code=0)
    place.add_run("bad", exit_code=3)
    with place.daemon():
        wait_for(lambda: len(fleet.listed("--host", "laptop")) == 2, "both sessions")
        wait_for(lambda: not place.rows("select 1 from fleet_outbox"), "all that is known of them")
    own = {str(each["key"]): each for each in place.call("session", "list", "--json").objects()}
    for each in fleet.lists("--json", "--host", "laptop").objects():
        further = {"host": "laptop", "root": "runs", "verified": None}
        hidden = {"cwd": None, "prompt": None, "path": None}
        assert json.loads(json.dumps(each)) == {**own[str(each["key"])], **hidden, **further}
