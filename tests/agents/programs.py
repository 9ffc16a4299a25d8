"""The agents beside Claude Code and Codex, one line each: how it is told where its model is, started, and resumed."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.agents.homes import Home
from tests.agents.installed import CLINE, COPILOT, DROID, KILO, KIMI, OPENCODE, PI, QWEN, Pinned
from tests.waiting import PATIENCE_S

KEY: Final = "k"
MODEL: Final = "scripted-model"


class Program(NamedTuple):
    """An agent's program.

    `sessions` is the root of its sessions below its home, and `logs` a pattern for what it writes about them there, which
    has all the texts `call` as soon as a call is recorded. `settle` sends it to the model at an address, and `words` are those
    that start it with a prompt, in a new session or in one that is resumed, and `fork` those that fork one. `asked` is what is there as soon as the prompt is
    recorded, besides its text. `has_launcher`: the agent is a child of what
    is started. `plugins` is a package that it fetches from npm when it first meets a plugin. `without` says why some situations
    can't be tried, by their names. `at_once` says how many may run at the same time, and `patience` how many seconds the program
    may take for what it is started for. Neither is a bound on Runward: until the program has written something, there
    is nothing that Runward could read, and the test waits for Runward with the usual patience.
    """

    pinned: Pinned
    sessions: str
    logs: str
    call: tuple[bytes, ...]
    settle: Callable[[Home, str], None]
    words: Callable[[str, str | None], tuple[str, ...]]
    has_launcher: bool = False
    asked: tuple[bytes, ...] = ()
    plugins: str = ""
    without: Mapping[str, str] = MappingProxyType({})
    fork: Callable[[str, str], tuple[str, ...]] = lambda prompt, session: ()
    at_once: int = 4
    patience: float = PATIENCE_S


def _write(home: Home, path: str, content: object) -> None:
    file = home.home / path
    file.parent.mkdir(parents=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def _copilot(home: Home, model: str) -> None:
    home.variables.update(
        COPILOT_OFFLINE="true",
        COPILOT_PROVIDER_BASE_URL=f"{model}/v1",
        COPILOT_PROVIDER_API_KEY=KEY,
        COPILOT_MODEL=MODEL,
    )


def _qwen(home: Home, model: str) -> None:
    home.variables.update(OPENAI_API_KEY=KEY, OPENAI_BASE_URL=f"{model}/v1", OPENAI_MODEL=MODEL)
    # Else it asks the model once more for what it should remember, if it still has the time. That is not the session's.
    _write(home, ".qwen/settings.json", {"memory": {"enableManagedAutoMemory": False}})


def _pi(home: Home, model: str) -> None:
    scripted = {
        "baseUrl": f"{model}/v1",
        "api": "openai-completions",
        "apiKey": KEY,
        "models": [{"id": MODEL}],
    }
    _write(home, ".pi/agent/models.json", {"providers": {"scripted": scripted}})


def _droid(home: Home, model: str) -> None:
    # Else it waits for services of Factory's that can't be reached.
    home.variables.update(FACTORY_API_KEY=KEY, FACTORY_AIRGAP_ENABLED="true")
    scripted = {
        "model": MODEL,
        "displayName": MODEL,
        "baseUrl": f"{model}/v1",
        "apiKey": KEY,
        "provider": "generic-chat-completion-api",
    }
    _write(home, ".factory/settings.json", {"customModels": [scripted]})


def _kimi(home: Home, model: str) -> None:
    settings = f"""\
default_model = "own"

[providers.scripted]
type = "openai"
base_url = "{model}/v1"
api_key = "{KEY}"

[models.own]
provider = "scripted"
model = "{MODEL}"
max_context_size = 100000
"""
    _write(home, ".kimi-code/config.toml", settings)


def _cline(home: Home, model: str) -> None:
    # Else it would leave a hub behind, a process that outlives it.
    home.variables.update(CLINE_SESSION_BACKEND_MODE="local")
    name = "openai-compatible"
    settings = {"provider": name, "apiKey": KEY, "model": MODEL, "baseUrl": f"{model}/v1"}
    scripted = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: scripted}}
    _write(home, ".cline/data/settings/providers.json", providers)


def _opencode(name: str) -> Callable[[Home, str], None]:
    """opencode, or a fork of it that has another name."""

    def settle(home: Home, model: str) -> None:
        home.variables.update(
            {f"{name.upper()}_DISABLE_{what}": "true" for what in ("AUTOUPDATE", "MODELS_FETCH")}
        )
        scripted = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{model}/v1", "apiKey": KEY},
            "models": {MODEL: {}},
        }
        named = f"scripted/{MODEL}"
        settings = {
            "autoupdate": False,
            "permission": "allow",
            "model": named,
            "small_model": named,
            "provider": {"scripted": scripted},
        }
        _write(home, f".config/{name}/{name}.json", settings)

    return settle


_NO_FORKS: Final = dict.fromkeys(("forks", "forks-while-open"), "its sessions are forked only in a terminal")


def _resumed(option: str, session: str | None) -> tuple[str, ...]:
    return () if session is None else (option, session)


PROGRAMS: Final[Mapping[str, Program]] = {
    "copilot": Program(
        COPILOT,
        ".copilot/session-state",
        "*/events.jsonl",
        (b'"toolRequests":[{',),
        _copilot,
        lambda prompt, session: ("-p", prompt, "--allow-all-tools", *_resumed("--resume", session)),
        asked=(b'"user.message"',),  # with a hook, the prompt is in a record before that
        without=_NO_FORKS,
    ),
    "qwen": Program(
        QWEN,
        ".qwen/projects",
        "*/chats/*.jsonl",
        (b'"functionCall"',),
        _qwen,
        lambda prompt, session: (
            "-p",
            prompt,
            "--yolo",
            "--auth-type",
            "openai",
            *_resumed("--resume", session),
        ),
        has_launcher=True,
        fork=lambda prompt, session: (
            *("-p", prompt, "--yolo", "--auth-type", "openai", "--resume", session, "--fork-session"),
        ),
    ),
    "pi": Program(
        PI,
        ".pi/agent/sessions",
        "*/*.jsonl",
        (b'"toolCall"',),
        _pi,
        lambda prompt, session: (
            "-p",
            "--provider",
            "scripted",
            "--model",
            MODEL,
            *_resumed("--session", session),
            prompt,
        ),
        without={"delegates": "Pi has no sub-agents"},
        fork=lambda prompt, session: (
            *("-p", "--provider", "scripted", "--model", MODEL, "--fork", session, prompt),
        ),
    ),
    "kimi": Program(
        KIMI,
        ".kimi-code/sessions",
        "*/*/agents/main/wire.jsonl",
        (b'"tool.call"',),
        _kimi,
        lambda prompt, session: ("-p", prompt, *_resumed("--session", session)),
        fork=lambda prompt, session: ("fork", session),
    ),
    "droid": Program(
        DROID,
        ".factory/sessions",
        "*/*.jso*[ln]",
        (b'"tool_use"', b'"inputTokens": 120'),
        _droid,
        lambda prompt, session: (
            "exec",
            "--model",
            f"custom:{MODEL}",
            "--skip-permissions-unsafe",
            *_resumed("--session-id", session),
            prompt,
        ),
        without={
            "resumed": "Droid asks Factory's service for a session that it resumes, which needs an account",
        },
        fork=lambda prompt, session: (
            *("exec", "--model", f"custom:{MODEL}", "--skip-permissions-unsafe", "--fork", session, prompt),
        ),
    ),
    "opencode": Program(
        OPENCODE,
        ".local/share/opencode",
        "opencode.db*",
        (b'"status":"running"',),
        _opencode("opencode"),
        lambda prompt, session: ("run", *_resumed("--session", session), prompt),
        plugins="@opencode-ai/plugin",
        fork=lambda prompt, session: ("run", "--session", session, "--fork", prompt),
    ),
    "kilo": Program(
        KILO,
        ".local/share/kilo",
        "kilo.db*",
        (b'"status":"running"',),
        _opencode("kilo"),
        lambda prompt, session: ("run", *_resumed("--session", session), prompt),
        plugins="@kilocode/plugin",
        fork=lambda prompt, session: ("run", "--session", session, "--fork", prompt),
        at_once=1,
        patience=4 * PATIENCE_S,
    ),
    "cline": Program(
        CLINE,
        ".cline/data/sessions",
        "*/*.json",
        (b'"tool_use"',),
        _cline,
        lambda prompt, session: (*_resumed("--id", session), prompt),
        without={
            "resumed": "Cline resumes a session only in a terminal",
            **_NO_FORKS,
            "term-in-request": "Cline goes on to wait for its model after SIGTERM",
        },
    ),
}
