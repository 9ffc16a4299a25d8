"""The terms of a launch: where its run directory goes, and what settings, playbook and agent profile say about it.

Reading these files takes libraries that the launcher, which waits for hours alongside its command, should not carry. So
a forked child reads them, and returns the terms as JSON. Without a settings file, a variable of ours, a playbook or an
agent there is nothing to read, and the defaults are used at once.
"""

from __future__ import annotations

import os

from runward.daemon.configuration.settings import home_of, settings_file
from runward.daemon.processes.stand_ins import Value

TYPE_CHECKING = False  # importing typing would cost the launcher a third of its start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal, NoReturn, TypeAlias

    from runward.config.json_value import JsonValue
    from runward.config.problem import Problem
    from runward.config.settings import Settings

    Blame: TypeAlias = Literal["settings", "not_found", "wrong_input"]


_STATE_DIR = "RUNWARD_STATE_DIR"
_NO_SETTINGS = frozenset(
    {"RUNWARD_SESSION_ID", "RUNWARD_RUN_DIR", "RUNWARD_ARTIFACTS_DIR", "RUNWARD_RUN_FAULT", _STATE_DIR}
)
_OWN_ROOTS = "runs"


class Terms(Value):
    """The terms of a launch. `root` is absolute; `contract` is the snapshot; durations are seconds."""

    root: str
    playbook: str | None = None
    agent: str | None = None
    contract: JsonValue = None
    timeout: float | None = None
    grace: float | None = None
    warnings: tuple[str, ...] = ()
    low_disk: int | None = None
    log_limit: int | None = None
    state: str | None = None
    root_name: str = _OWN_ROOTS


class TermsRefused(Exception):
    """The user's files or options can't be used; `messages` are all complaints, a line each."""

    def __init__(self, blame: Blame, messages: list[str]) -> None:
        super().__init__("\n".join(messages))
        self.blame = blame
        self.messages = messages


def begin_terms(
    playbook: str | None, agent: str | None, config: str | None, environment: Mapping[str, str], cwd: str
) -> Callable[[], Terms]:
    """Begins to read the terms for a playbook and an agent, by name or by file; the result waits for them.

    That raises TermsRefused. In between the launcher has something better to do.
    """
    if playbook is None and agent is None and not _has_settings(config, environment, cwd):
        root = default_root(environment, cwd)
        return lambda: Terms(root, state=os.path.dirname(root))
    # In a child, alongside the launcher's own preparation. What reads them does not stay in the memory of a launcher,
    # which lives as long as its run.
    answer = _begin_in_a_child(lambda: _read(playbook, agent, config, environment, cwd))
    return lambda: _understood(answer())


def _understood(answer: JsonValue) -> Terms:
    assert isinstance(answer, dict)
    if "broken" in answer:
        raise RuntimeError(f"the settings or playbooks could not be read: {answer['broken']}")
    if "refused" in answer:
        raise TermsRefused(answer["refused"], answer["messages"])  # type: ignore[arg-type]  # our own JSON
    return Terms(**{**answer, "warnings": tuple(answer["warnings"])})  # type: ignore[arg-type]  # our own JSON


def default_root(environment: Mapping[str, str], cwd: str) -> str:
    """Where native runs go without a settings file; the same as `read_settings` says then."""
    state = environment.get(_STATE_DIR)
    if not state:
        base = environment.get("XDG_STATE_HOME", "")
        base = base if base.startswith("/") else os.path.join(home_of(environment), ".local/state")
        state = os.path.join(base, "runward")
    return os.path.join(os.path.normpath(os.path.join(cwd, state)), _OWN_ROOTS)


def _has_settings(config: str | None, environment: Mapping[str, str], cwd: str) -> bool:
    """Whether anything but the state directory's location is set. A `~` in that counts: only the reader expands it."""
    if settings_file(config, environment, cwd) is not None or environment.get(_STATE_DIR, "").startswith("~"):
        return True
    return any(name.startswith("RUNWARD_") and name not in _NO_SETTINGS for name in environment)


def _read(
    playbook: str | None, agent: str | None, config: str | None, environment: Mapping[str, str], cwd: str
) -> JsonValue:
    from runward.daemon.configuration.declared_files import NotFound
    from runward.daemon.configuration.settings import load_settings

    try:
        parsed = load_settings(config, environment, cwd)
        if parsed.value is None:
            return _refused("settings", parsed.errors)
        return _read_declarations(playbook, agent, parsed.value, parsed.warnings)
    except NotFound as error:
        return {"refused": "not_found", "messages": [str(error)]}


def _read_declarations(
    playbook: str | None, agent: str | None, settings: Settings, warnings: tuple[Problem, ...]
) -> JsonValue:
    from runward.config.contract import contract_to_json, resolve_contract
    from runward.daemon.configuration.declared_files import NotFound, find_agent, find_playbook

    root = settings.launch_root
    if root is None:
        message = "no root of the settings has the layout 'native': add one for new runs to go to"
        return {"refused": "settings", "messages": [message]}
    terms = Terms(
        root.path,
        low_disk=settings.low_disk,
        log_limit=settings.log_limit,
        state=settings.state_dir,
        root_name=root.name,
    )
    expected = defaults = None
    is_named = agent is not None
    if playbook is not None:
        read = find_playbook(settings, playbook)
        if read.value is None:
            return _refused("wrong_input", read.errors)
        warnings += read.warnings
        expected, agent = read.value.artifacts, agent or read.value.agent
        terms = terms._replace(playbook=read.value.name, timeout=read.value.timeout, grace=read.value.grace)
    if agent is not None:
        holders = _holders_of(settings.state_dir, agent) if is_named else {}
        try:
            profile = find_agent(settings, agent)
        except NotFound:
            if not (holders if is_named else _holders_of(settings.state_dir, agent).get(agent)):
                raise
            terms = terms._replace(agent=agent)  # an agent that acts in the exchange needs no profile
        else:
            if profile.value is None:
                return _refused("wrong_input", profile.errors)
            warnings += profile.warnings
            defaults = profile.value.artifacts
            if is_named and profile.value.name != agent:
                holders = _holders_of(settings.state_dir, profile.value.name)
            terms = terms._replace(agent=profile.value.name)
        if is_named and holders and not holders.get(str(terms.agent)):
            message = f"the name of the agent {terms.agent} is taken in the exchange, by the artifact {min(holders)}"
            return {"refused": "wrong_input", "messages": [f"{message}: it could not act as a principal"]}
    contract = resolve_contract(playbook=expected, agent=defaults)
    if contract is not None:
        terms = terms._replace(contract=contract_to_json(contract))
    return {**terms._asdict(), "warnings": [warning.render() for warning in warnings]}


def _holders_of(state: str, name: str) -> dict[str, bool]:
    """The artifacts that have this name in the exchange, and whether each of them is a principal."""
    import sqlite3
    from contextlib import closing

    from runward.daemon.store import reading
    from runward.daemon.store.tables import shared_artifacts

    try:
        with closing(reading.open_to_read(os.path.join(state, reading.STORE))) as connection:
            return shared_artifacts.holders_of(connection, name)
    except (reading.StoreUnreadable, sqlite3.Error):
        return {}


def _refused(blame: Blame, problems: tuple[Problem, ...]) -> JsonValue:
    return {"refused": blame, "messages": [problem.render() for problem in problems]}


def _begin_in_a_child(read: Callable[[], JsonValue]) -> Callable[[], JsonValue]:
    """Calls `read` in a forked child; the result waits for the answer, or fails if the child did."""
    answer_out, answer_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(read, answer_in)
    os.close(answer_in)

    def wait() -> JsonValue:
        import json  # only where somebody wrote something

        with open(answer_out, encoding="utf-8") as file:
            text = file.read()
        os.waitpid(pid, 0)
        value: JsonValue = json.loads(text or '{"broken": "its reader was killed"}')
        return value

    return wait


def _answer(read: Callable[[], JsonValue], descriptor: int) -> NoReturn:
    """Writes the answer, or what went wrong; whatever happens, the child never returns into its parent's stack."""
    try:
        import json

        with open(descriptor, "w", encoding="utf-8") as file:
            try:
                answer = json.dumps(read())
            except Exception as error:  # noqa: BLE001  # the parent raises it
                answer = json.dumps({"broken": f"{type(error).__name__}: {error}"})
            file.write(answer)
    finally:
        os._exit(0)
