"""`runward usage`: each reply once, by whatever it is shown, at its list price."""

import os
from datetime import datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.everyday import SESSION, Everyday
from tests.daemon.prices.test_prices import by_the_library
from tests.handlers.layouts import codex_lines, pi_lines
from tests.handlers.layouts.claude_code_lines import Transcript
from tests.handlers.usage.naive import Reply, claude_code_replies, codex_replies

from runward.config.json_value import JsonValue
from runward.handlers.usage.counting import counted

IDS = tuple(f"5d0f8a52-1c7e-4b7b-9a63-0f2d6c1e8b{number:02d}" for number in range(3))
KINDS = ("day", "week", "month", "project", "model", "agent", "playbook", "chain", "session")
BEGAN = 1_795_600_000.0
WHOLE = ("--since", "2026-01-01", "--until", "2027-01-01")


class Used(Place):
    """A place in which agents have worked in two projects, over two days."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.replies: list[Reply] = []

    def fill(self, model: str = "gpt-5-codex") -> None:
        roots = "".join(
            f'[[roots]]\nname = "{name}"\npath = "{name}"\nlayout = "{layout}"\n'
            for name, layout in (("claude", "claude-code"), ("codex", "codex"))
        )
        self.furnish()
        (self.directory / "runward.toml").write_text(f'state_dir = "state"\n{roots}')
        (self.directory / "app/inner").mkdir(parents=True)
        (self.directory / "app/.git").mkdir()
        for number, session in enumerate(IDS):
            transcript = Transcript(session=session, now=BEGAN + number * 40_000)
            transcript.prompt("look")
            for _ in range(number + 1):
                transcript.text("Well.", stop=None)
            transcript.text("Done.")
            where = str(self.directory / ("app/inner" if number else "elsewhere"))
            self._write(f"claude/-home-{number}/{session}.jsonl", transcript.lines, where)
            self.replies += claude_code_replies(session, transcript.lines)
        log = codex_lines.Log().meta().start(1).prompt("look", 1)
        log.put("turn_context", {"model": model, "cwd": "/home/dev/app"})
        log.say().tokens(300_000, 70).complete(1)
        contents = [codex_lines.write(each) for each in log.records]
        self._write(f"codex/2026/11/21/{codex_lines.NAME}", contents, str(self.directory / "app"))
        self.replies += codex_replies(contents)
        self.daemon_once()

    def _write(self, name: str, lines: list[bytes], where: str) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"".join(line + b"\n" for line in lines).replace(b"/home/dev/app", where.encode()))
        os.utime(path, (BEGAN, BEGAN))

    def cost(self) -> Decimal:
        """What the replies cost one by one."""
        return sum(
            (
                by_the_library(
                    counted(
                        each.at,
                        each.model,
                        "standard",
                        fresh_input=each.fresh_input,
                        cache_read=each.cache_read,
                        cache_write_5m=each.cache_write_5m,
                        cache_write_1h=each.cache_write_1h,
                        output=each.output,
                    )
                )
                for each in self.replies
            ),
            Decimal(0),
        )


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Used:
    made = Used(tmp_path_factory.mktemp("used"))
    made.fill()
    return made


def test_what_is_shown_is_what_a_naive_reader_counts_and_the_library_prices(used: Used) -> None:
    total = used.call("usage", *WHOLE, "--json").object()["total"]
    assert total == {
        "sessions": 4,
        "replies": len(used.replies),
        "input_tokens": sum(each.request for each in used.replies),
        "cache_read_tokens": sum(each.cache_read for each in used.replies),
        "cache_write_tokens": sum(each.cache_write_5m + each.cache_write_1h for each in used.replies),
        "output_tokens": sum(each.output for each in used.replies),
        "cost_usd": float(used.cost()),
        "cost_is_estimate": True,
        "unpriced_tokens": 0,
    }


@pytest.mark.parametrize("by", KINDS)
def test_the_rows_of_each_kind_have_the_same_sum(used: Used, by: str) -> None:
    answer = used.call("usage", *WHOLE, "--by", by, "--json")
    rows, total = answer.items("rows"), answer.object()["total"]
    assert isinstance(total, dict)
    for key in total.keys() - {"sessions", "cost_usd", "cost_is_estimate"}:
        assert sum(int(str(row[key])) for row in rows) == total[key], key
    assert sum(Decimal(str(row["cost_usd"])) for row in rows) == Decimal(str(total["cost_usd"]))


AROUND_MIDNIGHT = (
    # Local time in Berlin: 23:30 and 00:30, before and after a day of 23 hours, and before and after a month.
    *("2026-03-28T22:30Z", "2026-03-28T23:30Z", "2026-03-29T21:30Z", "2026-03-29T22:30Z"),
    *("2026-03-31T21:30Z", "2026-03-31T22:30Z"),
    # A day of 25 hours, and a month.
    *("2026-10-24T21:30Z", "2026-10-24T22:30Z", "2026-10-25T22:30Z", "2026-10-25T23:30Z"),
    *("2026-10-31T22:30Z", "2026-10-31T23:30Z"),
)


def test_days_weeks_and_months_are_local_also_where_the_clock_changes(tmp_path: Path) -> None:
    used = Used(tmp_path)
    used.furnish()
    (tmp_path / "runward.toml").write_text(
        'state_dir = "state"\n[[roots]]\nname = "claude"\npath = "claude"\nlayout = "claude-code"\n'
    )
    transcript = Transcript(session=IDS[0], now=datetime.fromisoformat(AROUND_MIDNIGHT[0]).timestamp() - 60)
    transcript.prompt("look")
    for stamp in AROUND_MIDNIGHT:
        transcript.now = datetime.fromisoformat(stamp).timestamp()
        transcript.text("Well.")
    used._write(f"claude/-home/{IDS[0]}.jsonl", transcript.lines, str(tmp_path))
    used.daemon_once()

    def replies(by: str, zone: str = "Europe/Berlin") -> dict[object, object]:
        rows = used.call("usage", *WHOLE, "--by", by, "--json", TZ=zone).items("rows")
        return {row["key"]: row["replies"] for row in rows}

    assert replies("day") == {
        "2026-03-28": 1,
        "2026-03-29": 2,
        "2026-03-30": 1,
        "2026-03-31": 1,
        "2026-04-01": 1,
        "2026-10-24": 1,
        "2026-10-25": 2,
        "2026-10-26": 1,
        "2026-10-31": 1,
        "2026-11-01": 1,
    }
    assert replies("week") == {"2026-03-23": 3, "2026-03-30": 3, "2026-10-19": 3, "2026-10-26": 3}
    assert replies("month") == {"2026-03": 5, "2026-04": 1, "2026-10": 5, "2026-11": 1}
    assert replies("month", "UTC") == {"2026-03": 6, "2026-10": 6}


def test_a_sub_agent_counts_for_the_playbook_of_what_launched_it_unless_it_has_one(tmp_path: Path) -> None:
    used = Used(tmp_path)
    used.fill()
    origin, inner, own = (f"claude-code:{each}" for each in IDS)
    for linked, launcher in ((inner, origin), (own, inner)):
        used.change_store("insert into links (linked, launcher) values (?, ?)", linked, launcher)
    for key, playbook in ((origin, "review"), (own, "fix")):
        used.change_store("update sessions set playbook = ? where key = ?", playbook, key)
    rows = used.call("usage", *WHOLE, "--by", "playbook", "--json").items("rows")
    assert {row["key"]: row["replies"] for row in rows} == {"review": 2 + 3, "fix": 4, None: 1}


def test_a_project_is_the_top_of_its_repository(used: Used) -> None:
    rows = used.call("usage", *WHOLE, "--by", "project", "--json").items("rows")
    assert {row["key"]: row["sessions"] for row in rows} == {
        str(used.directory / "app"): 3,
        str(used.directory / "elsewhere"): 1,
    }


def test_the_screen_is_a_table_that_says_at_whose_prices(used: Used) -> None:
    lines = used.call("usage", *WHOLE, "--by", "model").out.splitlines()
    assert lines[0].split() == ["MODEL", "SESSIONS", "INPUT", "CACHED", "OUTPUT", "COST"]
    assert lines[1].split() == ["gpt-5-codex", "1", "300,000", "0", "70", "~$0.3757"]
    assert lines[-2].split()[-5:] == ["4", "300,999", "9", "250", "~$0.3853"]
    assert lines[-1].startswith("At list prices of 2026-11 (genai-prices 0.")
    assert ") where marked ~. A subscription costs its price." in lines[-1]


def test_filters_choose_sessions_and_times_choose_replies(used: Used) -> None:
    def replies(*words: str) -> int:
        total = used.call("usage", "--json", *words).object()["total"]
        assert isinstance(total, dict)
        return int(str(total["replies"]))

    assert replies(*WHOLE, "--layout", "codex") == 1
    assert replies(*WHOLE, "--cwd", str(used.directory / "elsewhere")) == 2
    assert replies("--since", "2026-01-01", "--until", "2026-01-02") == 0
    assert replies("--since", f"@{BEGAN + 80_000 - 3600:.0f}", "--until", "2027-01-01") == 4


def test_a_model_without_a_price_is_a_question_mark_until_the_settings_have_one(tmp_path: Path) -> None:
    used = Used(tmp_path)
    used.fill("nobodys-own")
    shown = used.call("usage", *WHOLE, "--by", "model").out
    assert ["nobodys-own", "1", "300,000", "0", "70", "?"] in [line.split() for line in shown.splitlines()]
    assert "~$0.0096 + ?" in shown
    assert 'No price is known of nobodys-own: [prices."MODEL"] in the settings sets one.' in shown
    rows = used.call("usage", *WHOLE, "--by", "model", "--json").items("rows")
    assert [(row["cost_usd"], row["unpriced_tokens"]) for row in rows if row["key"] == "nobodys-own"] == [
        (None, 300_070)
    ]
    settings = tmp_path / "runward.toml"
    settings.write_text(f'{settings.read_text()}\n[prices."nobodys-own"]\ninput = 2\noutput = 10.5\n')
    rows = used.call("usage", *WHOLE, "--by", "model", "--json").items("rows")
    assert [row["cost_usd"] for row in rows if row["key"] == "nobodys-own"] == [0.600735]


def test_a_cost_that_the_agent_reported_looks_other_than_an_estimate(tmp_path: Path) -> None:
    used = Used(tmp_path)
    used.fill()
    settings = tmp_path / "runward.toml"
    settings.write_text(f'{settings.read_text()}[[roots]]\nname = "pi"\npath = "pi"\nlayout = "pi"\n')
    used._write(f"pi/{pi_lines.NAME}", pi_lines.Log().prompt().say().lines(), str(tmp_path / "app"))
    used.daemon_once()
    shown = used.call("session", "list", "--limit", "0", "--columns", "SESSION,COST").out
    costs = {line.split()[0][-8:]: line.split()[1] for line in shown.splitlines()[1:]}
    assert (costs[pi_lines.SESSION[-8:]], costs[IDS[0][-8:]]) == ("$0.0001", "~$0.0021")
    for session, words, is_estimate in (
        (pi_lines.SESSION, "$0.0001", False),
        (IDS[0], f"~$0.0021 at list prices of 2026-11 (genai-prices {version('genai-prices')})", True),
    ):
        lines = used.call("session", "show", session, "--all").out.splitlines()
        assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("Cost:")] == [words]
        usage = used.call("session", "show", session, "--json").object()["usage"]
        assert isinstance(usage, dict)
        assert usage["cost_is_estimate"] is is_estimate
    rows = used.call("usage", *WHOLE, "--by", "agent", "--json").items("rows")
    assert {row["key"]: row["cost_is_estimate"] for row in rows} == {
        "claude-code": True,
        "codex": True,
        "pi": False,
    }
    in_all = used.call("usage", *WHOLE, "--by", "month").out
    assert "  ~$0.3853\nAt list prices" in in_all, "a sum with one is one"
    only_pi = used.call("usage", *WHOLE, "--layout", "pi").out
    assert "~" not in only_pi
    assert "list prices" not in only_pi


@pytest.mark.parametrize(
    ("model", "words", "json"),
    [("gpt-5-codex", "~$0.0003", (0.00026, 0)), ("nobodys-own", "$0.0001 + ?", (0.00008, 110))],
)
def test_a_reply_without_a_reported_cost_is_not_free_because_another_has_one(
    tmp_path: Path, model: str, words: str, json: tuple[float, int]
) -> None:
    used = Used(tmp_path)
    used.furnish()
    (tmp_path / "runward.toml").write_text(
        'state_dir = "state"\n[[roots]]\nname = "pi"\npath = "pi"\nlayout = "pi"\n'
    )
    unpriced: JsonValue = {**pi_lines.USAGE, "cost": {"total": 0}}
    log = pi_lines.Log().prompt().reply("toolUse", model=model)
    log.reply("stop", {"type": "text", "text": "Done."}, model=model, usage=unpriced)
    used._write(f"pi/{pi_lines.NAME}", log.lines(), str(tmp_path / "app"))
    used.daemon_once()
    assert words in used.call("usage", *WHOLE, "--by", "session").out
    total = used.call("usage", *WHOLE, "--json").object()["total"]
    assert isinstance(total, dict)
    assert (total["cost_usd"], total["unpriced_tokens"], total["replies"]) == (*json, 2)


def test_what_is_not_counted_yet_is_named(tmp_path: Path) -> None:
    used = Used(tmp_path)
    used.fill()
    used.change_store("update usage_read set looks = 0 where session_key = 'claude-code:' || ?", IDS[0])
    shown = used.call("usage", *WHOLE)
    assert "1 session is missing: they were read by an older version" in " ".join(shown.out.split())
    assert used.call("usage", *WHOLE, "--json").object()["missing_sessions"] == 1


def test_a_chain_run_has_the_tokens_and_the_cost_of_the_agents_that_its_steps_started(
    everyday: Everyday,
) -> None:
    listed = everyday.call("session", "list", "--json").objects()
    (agent,) = [each for each in listed if each["session_id"] == SESSION.format(0xAA)]
    (waiting,) = everyday.call("chain", "approvals", "--json").objects()
    run, usage = str(waiting["chain_run_id"]), agent["usage"]
    assert isinstance(usage, dict)

    def cells() -> list[str]:
        shown = everyday.call("session", "list", "--wide", "--columns", "SESSION,TOKENS,COST").out
        return next(line.split() for line in shown.splitlines() if line.startswith(run))[1:]

    assert cells() == ["-", "-"]
    link = "insert into links (linked, launcher) select ?, session_key from chain_steps where run = ? and step = 0"
    (worker,) = [each for each in listed if each["session_id"] == SESSION.format(0xCC)]
    assert (worker["usage"], worker["linked"]) == (usage, ["native:runs/nightly"])
    move = "update links set launcher = ? where linked = ?"
    everyday.change_store(link, agent["key"], run)
    try:
        assert cells() == ["131", "~$0.0011"]
        everyday.change_store(move, agent["key"], worker["key"])
        assert cells() == ["262", "~$0.0021"], "with that of its sub-agent"
    finally:
        everyday.change_store("delete from links where linked = ?", agent["key"])
        everyday.change_store(move, "native:runs/nightly", worker["key"])
    assert (usage["input_tokens"], usage["output_tokens"]) == (111, 20)


def test_the_columns_that_are_asked_for_stand_alone_and_in_their_order(used: Used) -> None:
    shown = used.call("usage", *WHOLE, "--by", "model", "--columns", "cost,model")
    lines = shown.out.splitlines()
    assert lines[0].split() == ["COST", "MODEL"]
    assert any(line.endswith("gpt-5-codex") for line in lines)


def test_a_column_of_another_kind_of_row_is_refused(used: Used) -> None:
    refused = used.call("usage", "--by", "model", "--columns", "DAY")
    assert (refused.code, "a table by model has no column DAY" in refused.err) == (2, True)
