"""The server itself: tools, how it lists and calls them, spoken through the official SDK on stdin and stdout."""

import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from starlette.requests import Request

from runward.config.json_value import JsonValue
from runward.daemon import __version__
from runward.daemon.cli.exits import GOOD, INTERRUPTED, READER_GONE
from runward.daemon.cli.terminal.output import Failed, to_stderr
from runward.daemon.disk.state_rights import StateDirectoryUnsafe
from runward.daemon.store.reading import StoreRefused, StoreUnreadable
from runward.handlers.secrets import text_without_secrets

Schema: TypeAlias = dict[str, JsonValue]
"""A JSON Schema."""


class Answer(NamedTuple):
    """What a tool answers: a JSON object, and whether the call failed."""

    value: dict[str, JsonValue]
    is_error: bool = False


class Refused(Exception):
    """A tool can't answer; the message says why, and what to do."""


class Tool(NamedTuple):
    """A tool. `keys` are the schemas of its arguments, `needed` those without which it can't be called."""

    name: str
    description: str
    keys: Mapping[str, JsonValue]
    needed: tuple[str, ...]
    call: Callable[[dict[str, JsonValue]], Awaitable[Answer]]
    is_reading: bool = False

    def schema(self) -> Schema:
        """The schema of its arguments."""
        return {
            "type": "object",
            "properties": dict(self.keys),
            "required": [*self.needed],
            "additionalProperties": False,
        }

    def check(self, arguments: dict[str, JsonValue]) -> None:
        """Refuse unknown arguments and missing ones. The tool itself checks their values."""
        unknown = [each for each in arguments if each not in self.keys]
        if unknown:
            known = ", ".join(self.keys) or "none"
            raise Refused(f"{self.name} has no argument {unknown[0]!r}; it has: {known}")
        for each in self.needed:
            if each not in arguments:
                raise Refused(f"{self.name} needs the argument {each!r}")


def text(description: str) -> Schema:
    """The schema of a text."""
    return {"type": "string", "description": description}


def flag(description: str) -> Schema:
    """The schema of true or false."""
    return {"type": "boolean", "description": description}


def text_of(arguments: Mapping[str, JsonValue], name: str) -> str | None:
    """A text among the arguments, None if there is none. Raises `Refused`."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise Refused(f"{name} must be a text")
    return value


def flag_of(arguments: Mapping[str, JsonValue], name: str) -> bool:
    """True or false among the arguments, by default false. Raises `Refused`."""
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refused(f"{name} must be true or false")
    return bool(value)


def count_of(arguments: Mapping[str, JsonValue], name: str, default: int, most: int) -> int:
    """A whole number from 1 to `most` among the arguments. Raises `Refused`."""
    value = arguments.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise Refused(f"{name} must be a whole number from 1 to {most}")
    return value


_NAME: Final = "runward"

ToolsFor: TypeAlias = Callable[[Request | None], Sequence[Tool]]


def serve(tools: Sequence[Tool], introduction: str) -> NoReturn:
    """Serve until the client ends. Then the process ends at once: threads that wait for results can't be cancelled."""
    # The SDK reads stdin in a thread, so an interrupt would only be noticed at the next line.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        anyio.run(_serve, server_of(lambda _: tools, introduction))
    except* OSError:
        os._exit(READER_GONE)
    os._exit(GOOD)


async def _serve(server: Server[dict[str, Any]]) -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())
        os._exit(GOOD)  # here, because leaving the block waits for the thread that reads stdin


def instructions(who: str) -> str:
    """What every client is told about the server; `who` says which principal it acts as."""
    return (
        "Runward knows whether agent runs delivered, and has an exchange in which agents share artifacts. "
        f"{who} Every action needs your reasoning; it is kept in the log. A failed action says so in error_code, and"
        " retriable says whether the same action may succeed later."
    )


def server_of(tools_for: ToolsFor, introduction: str) -> Server[dict[str, Any]]:
    """The server of these tools, on no stream yet. `tools_for` gives those for the HTTP request that asks, if one does."""

    async def list_tools(
        context: ServerRequestContext[dict[str, Any]], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_listed(each) for each in tools_for(context.request)])

    async def call_tool(
        context: ServerRequestContext[dict[str, Any]], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        named = {each.name: each for each in tools_for(context.request)}
        tool = named.get(params.name)
        if tool is None:
            return _error_result(f"there is no tool {params.name!r}; there are: {', '.join(named)}")
        return await _called(tool, params.arguments or {})

    return Server(
        _NAME,
        version=__version__,
        instructions=introduction,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema(),
        annotations=types.ToolAnnotations(read_only_hint=tool.is_reading),
    )


async def _called(tool: Tool, arguments: dict[str, JsonValue]) -> types.CallToolResult:
    """The answer to a call. Any failure is reported to the client, and the server continues."""
    try:
        tool.check(arguments)
        answer = await tool.call(arguments)
    except Refused as refused:
        return _error_result(str(refused))
    except Failed as failed:
        return _error_result(failed.message)
    except (StoreRefused, StateDirectoryUnsafe, StoreUnreadable) as error:
        return _error_result(str(error))
    except OSError as error:
        return _error_result(f"the machine refused: {error}")
    except Exception as error:  # noqa: BLE001  # the last one to hear of it
        message = f"a bug in Runward: {type(error).__name__}: {error}"
        to_stderr(f"runward: {message}")
        return _error_result(message)
    return _result(answer)


def _error_result(message: str) -> types.CallToolResult:
    shown = text_without_secrets(message)
    return types.CallToolResult(content=[types.TextContent(text=shown)], is_error=True)


def _result(answer: Answer) -> types.CallToolResult:
    content = json.dumps(answer.value, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(text=content)], structured_content=answer.value, is_error=answer.is_error
    )
