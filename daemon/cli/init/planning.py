"""The one list of steps of `runward init`: what each would make, read from the machine as it is. Nothing is changed here."""

import os
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from runward.config.path_rule import names_in
from runward.config.playbook import read_playbook
from runward.config.settings import Settings
from runward.daemon.cli.init import texts
from runward.daemon.cli.init.finding import Agent, Found
from runward.daemon.cli.init.record import Change, Directory, Entry, Unit, hash_of, missing_directories
from runward.daemon.configuration.settings import settings_file, settings_places, working_directory
from runward.daemon.hooks.agents import AGENTS, Hooked, files_of
from runward.daemon.hooks.settings_file import (
    Refused,
    SettingsFile,
    read_settings_file,
    words_of,
)
from runward.daemon.units import installing, rendering
from runward.daemon.units.installing import UNIT, Systemctl, is_untouched, sealed

SETTINGS: Final = "settings"
PLAYBOOK: Final = "playbook"
RULE: Final = "rule"
SERVICE: Final = "service"


class Wanted(NamedTuple):
    """What a person asked for. `project` is a real path, with the file that its sessions must leave."""

    has_hooks: bool = True
    has_service: bool = True
    project: str | None = None
    deliver: str = texts.USUAL_FILE


class Service(NamedTuple):
    """What systemd is to do, and what the unit is before."""

    calls: tuple[tuple[str, ...], ...]
    was_enabled: bool
    was_active: bool


class Step(NamedTuple):
    """One thing to do. `text` is what the file is to hold; None: the file stays as it is.

    `problem` says why it can't be done. `needs` are the steps without which it makes no sense.
    """

    name: str
    verb: str
    path: str
    detail: str = ""
    file: SettingsFile | None = None
    text: str | None = None
    service: Service | None = None
    agent: Agent | None = None
    problem: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether anything is to be done, or can't be."""
        return self.text is not None or self.service is not None or self.problem is not None

    def entries(self) -> Iterator[Entry]:
        """What is recorded before it is done."""
        if self.file is not None and self.text is not None:
            yield from missing_directories(self.file.path)
            yield Change(self.file.path, self.file.text, hash_of(self.text))
        if self.service is not None and self.file is not None:
            held = self.file.text if self.text is None else self.text
            yield Unit(UNIT, self.file.path, hash_of(held), *self.service[1:])


def steps_of(settings: Settings, config: str | None, found: Found, wanted: Wanted) -> list[Step]:
    """The steps, in the order in which they are done."""
    there = settings_file(config, os.environ, working_directory())
    file = there or settings_places(config, os.environ, working_directory())[1]
    playbooks = os.path.join(os.path.dirname(file), "playbooks") if there is None else settings.playbooks[0]
    steps = [_new_file(SETTINGS, file, texts.settings_text(found.no_desktop is None))]
    if there is not None:
        steps = [Step(SETTINGS, "write", there)]
    name = texts.playbook_name(wanted.deliver)
    text = texts.playbook_text(wanted.deliver)
    is_project = wanted.project is not None
    step = _new_file(PLAYBOOK, f"{playbooks}/{name}.playbook.yaml", text)
    if is_project and step.file is not None and not _asks_for(step, wanted.deliver):
        step = step._replace(problem=f"is there, and doesn't ask for {wanted.deliver}: add it by hand")
    steps.append(step)
    if wanted.project is not None:
        text = texts.rule_text(wanted.project, wanted.deliver)
        path = texts.rule_file(file, wanted.project)
        steps.append(_new_file(RULE, path, text, (SETTINGS, PLAYBOOK)))
        return steps
    if wanted.has_hooks:
        steps += _hooks(found.agents, settings.state_dir)
    if wanted.has_service and found.silence is None:
        steps += _service(settings, installing.settings_to_name(file), found)
    return steps


def entries_of(steps: Iterable[Step]) -> list[Entry]:
    """What is recorded before the first of them is done."""
    entries = [entry for step in steps if step.problem is None for entry in step.entries()]
    return list(dict.fromkeys(entries))


def made_for(path: str) -> list[Directory]:
    """What is recorded of a directory that is made before there is a record."""
    return [] if os.path.lexists(path) else [*missing_directories(path), Directory(path)]


def _read(path: str) -> SettingsFile | str:
    """The file, or why it can't be used."""
    try:
        return read_settings_file(path)
    except Refused as refusal:
        return str(refusal)
    except OSError as error:
        return f"{path} can't be read: {error.strerror}"


def _new_file(name: str, path: str, text: str, needs: tuple[str, ...] = ()) -> Step:
    """A file that is written unless there is one."""
    step = Step(name, "write", path, needs=needs)
    file = _read(path)
    if isinstance(file, str):
        return step._replace(problem=file)
    if file.text is None:
        return step._replace(file=file, text=text, detail=f"new, {text.count(chr(10))} lines")
    return step._replace(file=file)


def _asks_for(step: Step, deliver: str) -> bool:
    """Whether the playbook asks for the file: it may be a person's, and ask for more."""
    assert step.file is not None, "asked by the caller"
    text = step.file.text if step.text is None else step.text
    playbook = read_playbook(text or "", step.path).value
    paths = (each.path for each in (playbook.artifacts or ())) if playbook is not None else ()
    return names_in(deliver) in [names_in(path) for path in paths]


def _hooks(agents: Iterable[Agent], state: str) -> Iterator[Step]:
    for agent in agents:
        name = agent.layout
        for path, hooked in (files_of(agent.layout, os.environ) if agent.layout in AGENTS else {}).items():
            step = _hook(agent, path, hooked, state)._replace(name=name)
            name = f"{agent.layout}-hooks"
            # Its version may know none of the hooks of this file.
            if step.is_needed or step.file is None or step.file.text is not None:
                yield step


def _hook(agent: Agent, path: str, hooked: Hooked, state: str) -> Step:
    step = Step(agent.layout, "change", path, agent=agent)
    words = words_of(agent.layout, state)
    # A newline in such a path would end the command in the agent's settings, and begin another one.
    if not "".join(words).isprintable():
        return step._replace(problem="the path of Python, Runward or its state can't be used in a command")
    file = _read(path)
    if isinstance(file, str):
        return step._replace(problem=file)
    try:
        events = hooked.known(agent.program)
        text = hooked.install(file.text, path, state, events).text
    except Refused as refusal:
        return step._replace(problem=str(refusal))
    if text == file.text:
        return step._replace(file=file)
    added = f"{events[0]} calls Runward" if len(events) == 1 else f"{len(events)} hooks"
    if text is not None and hooked.is_trusted and not hooked.is_trusted(path, text, agent.program):
        added = f"{added}; {hooked.trust}"
    return step._replace(file=file, text=text, detail=added)


def _service(settings: Settings, named: str | None, found: Found) -> Iterator[Step]:
    path = f"{rendering.user_units()}/{UNIT}"
    step = Step(SERVICE, "install", path)
    file = _read(path)
    if isinstance(file, str):
        yield step._replace(problem=file)
        return
    if file.text is None and found.daemon is not None:
        return  # it works already, and another one would only wait for it to end
    try:
        (text,) = map(sealed, installing.user_files(rendering.program(), named, settings).values())
    except rendering.NoProgram as error:
        yield step._replace(
            problem=f"{error}: install Runward (`pipx install .`), and call the installed one"
        )
        return
    if file.text is not None and file.text != text and not is_untouched(file.text):
        yield step._replace(file=file, detail="yours: it stays")
        return
    systemctl = Systemctl(is_user=True)
    was_enabled = systemctl.property("UnitFileState", UNIT) == "enabled"
    was_active = systemctl.property("ActiveState", UNIT) in ("active", "activating", "reloading")
    is_new = file.text != text
    calls: list[tuple[str, ...]] = [("daemon-reload",)] if is_new else []
    calls += [] if was_enabled else [("enable", UNIT)]
    calls += [("restart", UNIT)] if is_new or not was_active else []
    yield step._replace(
        file=file,
        text=text if is_new else None,
        detail="enable, start" if calls else "",
        service=Service(tuple(calls), was_enabled, was_active) if calls else None,
    )
