"""A second reader of transcripts, which counts what replies used in the plainest way: it reads whole files, and adds reply by reply."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """One reply of a model, as the file has it. `at` is when it was written, in Unix seconds."""

    at: float
    model: str
    fast: bool
    fresh_input: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int

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
        )
        for record in map(json.loads, contents)
        if (message := record.get("message", {})).get("usage", {}).get("totalTokens")
    ]


def qwen_replies(contents: Iterable[bytes]) -> list[Reply]:
    """The replies in one session of Qwen Code. What came from the cache is in the prompt's count."""
    return [
        Reply(
            at=_moment(record["timestamp"]),
            model=record["model"],
            fast=False,
            fresh_input=usage["promptTokenCount"] - usage["cachedContentTokenCount"],
            cache_read=usage["cachedContentTokenCount"],
            cache_write_5m=0,
            cache_write_1h=0,
            output=usage["candidatesTokenCount"],
        )
        for record in map(json.loads, contents)
        if (usage := record.get("usageMetadata"))
    ]


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


def _moment(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
