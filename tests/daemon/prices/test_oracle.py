"""The sessions of each agent cost what their replies cost one by one, as a second, naive reader finds them and the library prices them.

The sessions are those that were recorded, and such as the agents could write. The readers share nothing.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from genai_prices import Usage, calc_price
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.layouts import (
    claude_code_lines,
    cline_lines,
    codex_lines,
    copilot_lines,
    droid_lines,
    kimi_lines,
    opencode_rows,
    pi_lines,
    qwen_lines,
)
from tests.handlers.layouts.directories import document, recorded
from tests.handlers.layouts.pi_lines import BEGAN
from tests.handlers.usage.naive import (
    Reply,
    claude_code_replies,
    cline_replies,
    codex_replies,
    copilot_replies,
    droid_total,
    kimi_replies,
    opencode_replies,
    pi_replies,
    qwen_replies,
)
from tests.handlers.usage.test_counting import (
    Sums,
    counted_in,
    of_replies,
    summed,
    transcript_of,
    with_reply,
)

from runward.config.json_value import JsonValue
from runward.daemon.prices.kept import KeptPrices
from runward.daemon.prices.pricing import Prices
from runward.daemon.rundir.session_reading import read_session
from runward.handlers.layouts import claude_code, cline, codex, copilot, droid, kimi, pi, qwen
from runward.handlers.layouts.registry import LAYOUTS
from runward.handlers.layouts.transcript import TranscriptScanner
from runward.handlers.model.sessions import Document
from runward.handlers.times import iso_time
from runward.handlers.usage.counting import Counted

PRICES: Final = Prices((), KeptPrices("/nowhere"))
MODELS: Final = ("claude-sonnet-4-5", "claude-opus-4-8", "gpt-5.4", "gemini-2.5-pro")
SCRIPTED: Final = (b'"mock-model"', b'"custom:Mock-0"')
"""Models of the recordings that have no price. Where they stand, one that has a price is put."""


class Used(NamedTuple):
    """What a request used. `is_elsewhere`: it was a sub-agent's. `hour` was written to the cache for an hour."""

    model: str
    fresh: int
    read: int
    written: int
    hour: int
    output: int
    nanousd: int
    is_elsewhere: bool
    is_fast: bool
    pause: int

    @property
    def usd(self) -> float:
        return self.nanousd / 1e9


TOKENS: Final = st.sampled_from([0, 1, 7, 1_000, 199_999, 200_001, 272_001])
USED: Final = st.lists(
    st.builds(
        Used,
        st.sampled_from(MODELS),
        TOKENS,
        TOKENS,
        TOKENS,
        TOKENS,
        st.sampled_from([1, 20, 3_000]),
        st.sampled_from([0, 0, 80_000, 1_250_000_000]),
        st.booleans(),
        st.booleans(),
        st.sampled_from([0, 1800, 90_000]),
    ),
    min_size=1,
    max_size=6,
)
CUTS: Final = st.lists(st.integers(1, 30), max_size=3)


class Session(NamedTuple):
    """What an agent wrote: a log, or documents, each of them whole and one after the other."""

    name: str
    lines: Sequence[bytes] = ()
    documents: Sequence[Document] = ()


def cost(counted: Iterable[Counted]) -> Decimal:
    """What Runward says that it cost."""
    costs = [PRICES.cost(each) for each in counted]
    assert None not in costs
    return sum((each for each in costs if each is not None), Decimal(0))


def by_the_library(reply: Reply) -> Decimal:
    """What a single reply costs: what the agent reports, else what the library says."""
    if reply.reported_nanousd is not None:
        return Decimal(reply.reported_nanousd) / 10**9
    usage = Usage(
        input_tokens=reply.request,
        cache_read_tokens=reply.cache_read,
        cache_write_tokens=reply.cache_write_5m + reply.cache_write_1h,
        cache_write_1h_tokens=reply.cache_write_1h,
        output_tokens=reply.output,
    )
    at = datetime.fromtimestamp(reply.at, UTC)
    speed = "fast" if reply.fast else "standard"
    return calc_price(
        usage, reply.model, genai_request_timestamp=at, price_context={"speed": speed}
    ).total_price


def agree(counted: list[Counted], replies: list[Reply], wanted: Sums | None = None) -> None:
    assert summed(counted) == (of_replies(replies) if wanted is None else wanted)
    assert cost(counted) == sum(map(by_the_library, replies), Decimal(0))


def stamped(used: Sequence[Used]) -> Iterator[tuple[Used, float]]:
    """Each with the moment at which it was written, in Unix seconds."""
    at = BEGAN
    for each in used:
        at += each.pause + 1
        yield each, at


def claude_code_session(used: Sequence[Used]) -> Session:
    replies = [
        {
            "input_tokens": each.fresh,
            "cache_read_input_tokens": each.read,
            "five": each.written,
            "hour": each.hour,
            "output_tokens": each.output,
            "speed": "fast" if each.is_fast else "standard",
            "model": each.model,
            "lines": 1 + each.output % 3,
            "pause": each.pause,
            "is_agent": each.is_elsewhere,
        }
        for each in used
    ]
    return Session(f"{claude_code_lines.SESSION}.jsonl", transcript_of(replies).lines)


def codex_session(used: Sequence[Used]) -> Session:
    log, styles = codex_lines.Log(), ("total", "total") if used[0].is_fast else ("own", "again")
    for each, at in stamped(used):
        before = len(log.records)
        log.put("turn_context", {"model": each.model, "cwd": "/x"})
        with_reply(log, each.fresh, each.read, each.written, each.output, styles[each.is_elsewhere])
        for record in log.records[before:]:
            record["timestamp"] = iso_time(at)
    return Session(codex_lines.NAME, [codex_lines.write(each) for each in log.records])


def pi_session(used: Sequence[Used]) -> Session:
    log = pi_lines.Log().prompt()
    for each, at in stamped(used):
        usage: JsonValue = {
            "input": each.fresh,
            "output": each.output,
            "cacheRead": each.read,
            "cacheWrite": each.written,
            "totalTokens": each.fresh + each.read + each.written + each.output,
            "cost": {"total": each.usd},
        }
        log.reply("toolUse", model=each.model, usage=usage)
        log.records[-1]["timestamp"] = iso_time(at)
    return Session(pi_lines.NAME, log.lines())


def qwen_session(used: Sequence[Used]) -> Session:
    """Its telemetry has each request, also those that a reply shows."""
    log = qwen_lines.Log().prompt()
    for each, at in stamped(used):
        event: dict[str, JsonValue] = {
            "event.name": "qwen-code.api_response",
            "model": each.model,
            "input_token_count": each.fresh + each.read,
            "cached_content_token_count": each.read,
            "output_token_count": each.output,
            "prompt_id": f"{qwen_lines.SESSION}########0",
        }
        if each.is_elsewhere:
            event |= {
                "prompt_id": f"{qwen_lines.SESSION}#extractor-0a1b2c3d#0",
                "subagent_id": "extractor-0a1b2c3d",
            }
        log.put("system", "system", subtype="ui_telemetry", systemPayload={"uiEvent": event})
        log.records[-1]["timestamp"] = iso_time(at)
        if not each.is_elsewhere:
            usage: JsonValue = {
                "promptTokenCount": each.fresh + each.read,
                "cachedContentTokenCount": each.read,
                "candidatesTokenCount": each.output,
            }
            log.say().records[-1] |= {
                "model": each.model,
                "usageMetadata": usage,
                "timestamp": iso_time(at),
            }
    return Session(qwen_lines.NAME, log.lines())


def copilot_session(used: Sequence[Used]) -> Session:
    """`cost` is not money: it multiplies requests."""
    log = copilot_lines.Log().prompt()
    for each, at in stamped(used):
        before = len(log.records)
        log.say()
        usage: dict[str, JsonValue] = {
            "model": each.model,
            "inputTokens": each.fresh + each.read + each.written,
            "outputTokens": each.output,
            "cacheReadTokens": each.read,
            "cacheWriteTokens": each.written,
            "cost": 1.0,
            "aiCreditsStatus": "complete" if each.nanousd else "unavailable",
        }
        if each.nanousd:
            usage["copilotUsage"] = {"totalNanoAiu": each.nanousd * 100}
        for record in log.records[before:]:
            record["timestamp"] = iso_time(at)
            if record["type"] == "session.usage_record":
                record["data"] = {"usage": usage}
            if each.is_elsewhere:
                record["agentId"] = "a1"
    return Session(copilot_lines.NAME, log.lines())


def kimi_session(used: Sequence[Used]) -> Session:
    log = kimi_lines.Log().prompt()
    for each, at in stamped(used):
        usage: JsonValue = {
            "inputOther": each.fresh,
            "output": each.output,
            "inputCacheRead": each.read,
            "inputCacheCreation": each.written,
        }
        log.put("llm.request", kind="loop", model=each.model)
        log.put("usage.record", model="alias", usage=usage, usageScope="turn")
        for record in log.records[-2:]:
            record["time"] = int(at * 1000)
    return Session(kimi_lines.NAME, log.lines())


def cline_session(used: Sequence[Used]) -> Session:
    """Its document is written anew with each message."""
    log, documents = cline_lines.Log().prompt(), []
    for each, at in stamped(used):
        log.say(
            inputTokens=each.fresh + each.read + each.written,
            outputTokens=each.output,
            cacheReadTokens=each.read,
            cacheWriteTokens=each.written,
            cost=each.usd,
        )
        log.records[-1] |= {"modelInfo": {"id": each.model}, "ts": int(at * 1000)}
        documents.append(log.messages())
    return Session(cline_lines.SESSION, documents=documents)


def droid_session(used: Sequence[Used]) -> Session:
    """Its settings are written anew with all that was used until then, by one model."""
    totals, documents = [0, 0, 0, 0], []
    for each in used:
        more = (each.fresh, each.read, each.output, each.written)
        totals = [one + other for one, other in zip(totals, more, strict=True)]
        settings = droid_lines.settings(*totals, model=used[0].model)
        documents.append(document(droid_lines.SETTINGS, settings, BEGAN))
    return Session(droid_lines.NAME, droid_lines.Log().prompt().lines(), documents)


class Agent(NamedTuple):
    """How an agent's sessions are counted, by the scanner and by the naive reader. `recordings` are its files below the samples."""

    scanner: TranscriptScanner[Any]
    naive: Callable[[Session], list[Reply]]
    write: Callable[[Sequence[Used]], Session]
    recordings: str
    is_total: bool = False


def of_lines(read: Callable[[Iterable[bytes]], list[Reply]]) -> Callable[[Session], list[Reply]]:
    return lambda session: read(session.lines)


def of_claude_code(session: Session) -> list[Reply]:
    return claude_code_replies(session.name.removesuffix(".jsonl"), session.lines)


AGENTS: Final = {
    "claude-code": Agent(claude_code.SCANNER, of_claude_code, claude_code_session, "claude-code/*[!m].jsonl"),
    "codex": Agent(codex.SCANNER, of_lines(codex_replies), codex_session, "codex/rollout-*.jsonl"),
    "pi": Agent(pi.LOG.SCANNER, of_lines(pi_replies), pi_session, "pi/*/.pi/agent/sessions/*/*.jsonl"),
    "qwen": Agent(
        qwen.LOG.SCANNER, of_lines(qwen_replies), qwen_session, "qwen-code/*/.qwen/projects/*/chats/*.jsonl"
    ),
    "copilot": Agent(
        copilot.DIRECTORY.SCANNER,
        of_lines(copilot_replies),
        copilot_session,
        "copilot-cli/*/.copilot/session-state/*/events.jsonl",
    ),
    "kimi": Agent(
        kimi.DIRECTORY.SCANNER,
        of_lines(kimi_replies),
        kimi_session,
        "kimi-code/*/.kimi-code/sessions/*/*/agents/main/wire.jsonl",
    ),
    "cline": Agent(
        cline.SCANNER,
        lambda session: cline_replies(session.documents[-1].content),
        cline_session,
        "cline-cli/*/.cline/data/sessions/*/*.messages.json",
    ),
    "droid": Agent(
        droid.LOG.SCANNER,
        lambda session: [droid_total(session.documents[-1].content, session.documents[-1].modified_at)],
        droid_session,
        "droid/*/.factory/sessions/*/*.settings.json",
        is_total=True,
    ),
}
EACH = pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)


def checked(agent: Agent, session: Session, cuts: Sequence[int] = ()) -> list[Counted]:
    counted = counted_in(agent.scanner, session.name, session.lines, cuts, session.documents)
    replies = agent.naive(session)
    totals = of_replies(replies)
    if agent.is_total:
        # Nobody knows how many replies they are of, or how large each request was.
        totals = {
            (*key[:3], 0, key[4]): (0, *values[1:]) for key, values in totals.items() if any(values[1:])
        }
        replies = [each for each in replies if each.request <= 200_000]
        if not replies:
            assert summed(counted) == totals
            return counted
    agree(counted, replies, totals)
    return counted


@EACH
@given(used=USED, cuts=CUTS)
def test_a_session_that_an_agent_could_write_costs_what_its_replies_cost(
    agent: Agent, used: list[Used], cuts: list[int]
) -> None:
    counted = checked(agent, agent.write(used), cuts)
    assert agent.is_total or sum(each.replies for each in counted) == len(used)


@pytest.mark.parametrize("name", ["opencode", "kilo"])
@given(used=USED)
def test_a_session_in_a_database_costs_what_its_replies_cost(name: str, used: list[Used]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / f"{name}.db"
        with closing(opencode_rows.made(database)) as connection:
            sessions = opencode_rows.Sessions(connection)
            log = sessions.session().prompt()
            for each, at in stamped(used):
                sessions.clock = int(at * 1000)
                tokens: JsonValue = {
                    "input": each.fresh,
                    "output": each.output,
                    "reasoning": each.hour,
                    "cache": {"read": each.read, "write": each.written},
                }
                log.begin(modelID=each.model).end("tool-calls", cost=each.usd, tokens=tokens)
            log.begin()
            found = read_session(LAYOUTS.named(name), f"{database}/{opencode_rows.SESSION}").told
            replies = opencode_replies(database, opencode_rows.SESSION)
    assert len(replies) == len(used), "one is not complete"
    agree(list(found.counted), replies)


def recorded_sessions(material: Path, agent: Agent) -> Iterator[tuple[Path, Session]]:
    """With a model that has a price."""
    for path in sorted((material / "samples").glob(agent.recordings)):
        content = path.read_bytes()
        for model in SCRIPTED:
            content = content.replace(model, b'"claude-sonnet-4-5"')
        if path.suffix == ".json":
            (seen,) = recorded(path.parent, [path.name])
            name = path.name.removesuffix(".messages.json")
            yield path, Session(name, documents=[seen._replace(content=content)])
            continue
        lines = content.splitlines()
        session = next(
            (each["sessionId"] for each in map(msgspec.json.decode, lines) if "sessionId" in each), ""
        )
        yield path, Session(f"{session}.jsonl", lines)


@EACH
def test_a_recorded_session_costs_what_its_replies_cost(material: Path, agent: Agent) -> None:
    found = 0
    for path, session in recorded_sessions(material, agent):
        counted = checked(agent, session, range(1, len(session.lines)))
        has_failed = "err400" in str(path.relative_to(material))
        assert bool(counted) != has_failed, path
        assert (cost(counted) > 0) != has_failed, path
        found += 1
    assert found >= 3


def test_what_qwen_code_says_of_a_whole_process_is_what_was_counted(material: Path) -> None:
    """`usage_record.jsonl` is written when the process ends, and has its requests as it counted them itself."""
    agent, samples = AGENTS["qwen"], material / "samples"
    found = 0
    for path, session in recorded_sessions(material, agent):
        own = session.name.removesuffix(".jsonl")
        home = next(each for each in path.parents if each.name == ".qwen")
        processes = [
            each
            for line in (home / "usage_record.jsonl").read_bytes().splitlines()
            if (each := msgspec.json.decode(line))["sessionId"] == own
        ]
        assert processes, path.relative_to(samples)
        models = [model for each in processes for model in each["models"].values()]
        counted = counted_in(agent.scanner, session.name, session.lines)
        given = sum(each.fresh_input + each.cache_read for each in counted)
        assert given == sum(each["inputTokens"] for each in models), path
        assert sum(each.cache_read for each in counted) == sum(each["cachedTokens"] for each in models)
        assert sum(each.output for each in counted) == sum(each["outputTokens"] for each in models)
        if given:  # a request that failed is one, and has no reply
            assert sum(each.replies for each in counted) == sum(each["requests"] for each in models)
            found += 1
    assert found == 3
