"""A second reader of transcripts, which counts what replies used in the plainest way: it reads whole files, and adds reply by reply."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """One reply of a model, as the file has it. `at` is when it was written, in Unix seconds.

    `reported_nanousd` is what the agent says that it cost, in billionths of a dollar.
    """

    at: float
    model: str
    fast: bool
    fresh_input: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int
    reported_nanousd: int | None = None

    @property
    def request(self) -> int:
        return self.fresh_input + self.cache_read + self.cache_write_5m + self.cache_write_1h


def claude_code_replies(session: str, contents: Iterable[bytes]) -> list[Reply]:
    """The replies in one file: what its last line says of each, at the time of its first."""
    replies: dict[str, Reply] = {}
    for line in contents:
        record = json.loads(line)
        message = record.get("message")
        if record["type"] != "assistant" or record.get("isApiErrorMessage") or "usage" not in message:
            continue
        if record["sessionId"] != session or "forkedFrom" in record or message["model"] == "<synthetic>":
            continue
        usage = message["usage"]
        hour = usage.get("cache_creation", {}).get("ephemeral_1h_input_tokens", 0)
        first = replies.get(message["id"])
        replies[message["id"]] = Reply(
            at=_moment(record["timestamp"]) if first is None else first.at,
            model=message["model"],
            fast=usage.get("speed") == "fast",
            fresh_input=usage["input_tokens"],
            cache_read=usage["cache_read_input_tokens"],
            cache_write_5m=usage["cache_creation_input_tokens"] - hour,
            cache_write_1h=hour,
            output=usage["output_tokens"],
        )
    return list(replies.values())


def codex_replies(contents: Iterable[bytes]) -> list[Reply]:
    """The replies in one rollout. Where they have records of their own, the totals repeat them."""
    records = [json.loads(line) for line in contents]
    own = any(each["type"] == "token_usage_record" for each in records)
    replies, model = [], ""
    before: dict[str, int]
    total: dict[str, int] = {}
    for record in records:
        payload = record["payload"]
        usage = None
        if record["type"] == "turn_context":
            model = payload["model"]
        elif record["type"] == "token_usage_record":
            usage = payload["usage"]
        elif payload.get("type") == "token_count" and payload.get("info") and not own:
            before, total = total, payload["info"]["total_token_usage"]
            usage = None if total == before else payload["info"]["last_token_usage"]
        if usage is not None:
            replies.append(_of_codex(_moment(record["timestamp"]), model, usage))
    return replies


def _of_codex(at: float, model: str, usage: dict[str, Any]) -> Reply:
    cached, written = usage["cached_input_tokens"], usage.get("cache_write_input_tokens", 0)
    return Reply(
        at=at,
        model=model,
        fast=False,
        fresh_input=usage["input_tokens"] - cached - written,
        cache_read=cached,
        cache_write_5m=written,
        cache_write_1h=0,
        output=usage["output_tokens"],
    )


def pi_replies(contents: Iterable[bytes]) -> list[Reply]:
    """The replies in one session of Pi. A request that failed used nothing, and says so."""
    return [
        Reply(
            at=_moment(record["timestamp"]),
            model=message["model"],
            fast=False,
            fresh_input=message["usage"]["input"],
            cache_read=message["usage"]["cacheRead"],
            cache_write_5m=message["usage"]["cacheWrite"],
            cache_write_1h=0,
            output=message["usage"]["output"],
            reported_nanousd=_nanousd(message["usage"]["cost"]["total"]),
        )
        for record in map(json.loads, contents)
        if (message := record.get("message", {})).get("usage", {}).get("totalTokens")
    ]


def qwen_replies(contents: Iterable[bytes]) -> list[Reply]:
    """The replies in one session of Qwen Code, or of its sub-agent, and its own requests, which only its telemetry has.

    What came from the cache is in the prompt's count. The id of a sub-agent that a session asked for has that of its call.
    """
    replies = []
    for record in map(json.loads, contents):
        if usage := record.get("usageMetadata"):
            kinds = ("promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount")
            model = record["model"]
        else:
            usage = record.get("systemPayload", {}).get("uiEvent", {})
            if usage.get("event.name") != "qwen-code.api_response" or "call_" in usage.get(
                "subagent_id", "call_"
            ):
                continue
            kinds = ("input_token_count", "cached_content_token_count", "output_token_count")
            model = usage["model"]
        prompt, cached, output = (usage[kind] for kind in kinds)
        replies.append(
            Reply(
                at=_moment(record["timestamp"]),
                model=model,
                fast=False,
                fresh_input=prompt - cached,
                cache_read=cached,
                cache_write_5m=0,
                cache_write_1h=0,
                output=output,
            )
        )
    return replies


def kimi_replies(contents: Iterable[bytes]) -> list[Reply]:
    """The replies in one session of Kimi Code. A request names the model, and the record of its usage an alias."""
    replies, model = [], ""
    for record in map(json.loads, contents):
        if record["type"] == "llm.request":
            model = record["model"]
        elif record["type"] == "usage.record":
            usage = record["usage"]
            replies.append(
                Reply(
                    at=record["time"] / 1000,
                    model=model,
                    fast=False,
                    fresh_input=usage["inputOther"],
                    cache_read=usage["inputCacheRead"],
                    cache_write_5m=usage["inputCacheCreation"],
                    cache_write_1h=0,
                    output=usage["output"],
                )
            )
    return replies


def copilot_replies(contents: Iterable[bytes]) -> list[Reply]:
    """The replies in one session of Copilot, also those of sub-agents. A credit is a cent; they are counted in billionths."""
    return [
        Reply(
            at=_moment(record["timestamp"]),
            model=usage["model"],
            fast=False,
            fresh_input=usage["inputTokens"] - usage["cacheReadTokens"] - usage["cacheWriteTokens"],
            cache_read=usage["cacheReadTokens"],
            cache_write_5m=usage["cacheWriteTokens"],
            cache_write_1h=0,
            output=usage["outputTokens"],
            reported_nanousd=round(usage["copilotUsage"]["totalNanoAiu"] / 100)
            if usage.get("aiCreditsStatus") == "complete"
            else None,
        )
        for record in map(json.loads, contents)
        if record["type"] == "session.usage_record" and (usage := record["data"]["usage"])
    ]


def cline_replies(document: bytes) -> list[Reply]:
    """The replies in the messages of one session of Cline. What came from the cache or went there is in the input's count."""
    return [
        Reply(
            at=message["ts"] / 1000,
            model=message["modelInfo"]["id"],
            fast=False,
            fresh_input=used["inputTokens"] - used["cacheReadTokens"] - used["cacheWriteTokens"],
            cache_read=used["cacheReadTokens"],
            cache_write_5m=used["cacheWriteTokens"],
            cache_write_1h=0,
            output=used["outputTokens"],
            reported_nanousd=_nanousd(used.get("cost", 0)),
        )
        for message in json.loads(document)["messages"]
        if (used := message.get("metrics"))
    ]


def droid_total(settings: bytes, at: float) -> Reply:
    """All replies of one session of Droid together, as the settings beside it have them."""
    content = json.loads(settings)
    used = content["tokenUsage"]
    return Reply(
        at=at,
        model=content["model"],
        fast=False,
        fresh_input=used["inputTokens"],
        cache_read=used["cacheReadTokens"],
        cache_write_5m=used["cacheCreationTokens"],
        cache_write_1h=0,
        output=used["outputTokens"],
    )


def opencode_replies(database: Path, session: str) -> list[Reply]:
    """The complete replies in one session of opencode. Reasoning is output."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("select data from message where session_id = ?", (session,)).fetchall()
    return [
        Reply(
            at=message["time"]["completed"] / 1000,
            model=message["modelID"],
            fast=False,
            fresh_input=used["input"],
            cache_read=used["cache"]["read"],
            cache_write_5m=used["cache"]["write"],
            cache_write_1h=0,
            output=used["output"] + used["reasoning"],
            reported_nanousd=_nanousd(message["cost"]),
        )
        for message in (json.loads(data) for (data,) in rows)
        if message["role"] == "assistant" and "completed" in message["time"] and (used := message["tokens"])
    ]


def _nanousd(usd: float) -> int | None:
    """Who knows no price says that a reply cost 0."""
    return round(usd * 1e9) or None


def _moment(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
