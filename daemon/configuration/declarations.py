"""What the operator's files currently declare: playbooks, agent profiles, and the rules of the settings."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from runward.config.agent import AgentProfile, read_agent
from runward.config.bundle import BundleRules
from runward.config.chain import Chain, read_chain
from runward.config.contract import ExpectedArtifact
from runward.config.contract_rules import rule_for
from runward.config.document import AGENT_SUFFIX, CHAIN_SUFFIX, PLAYBOOK_SUFFIX
from runward.config.exchange import ExchangeRules, Executor
from runward.config.notification import Recipient
from runward.config.playbook import Playbook, read_playbook
from runward.config.problem import Parsed, Problem
from runward.config.settings import FleetSettings, Settings
from runward.daemon.configuration.checked_chains import CheckedChain, CheckedChains, schedules_of
from runward.daemon.configuration.complaints import Reading, Wrong, complaints_about
from runward.daemon.configuration.declared_files import (
    NotFound,
    agent_file,
    callables,
    chain_file,
    chain_names,
    first_place,
    named_chain,
    only_a_name,
    playbook_file,
    read_declaration,
    read_text,
)
from runward.daemon.configuration.settings import bundle_rules, innermost_root, text_of
from runward.daemon.configuration.settings_files import Look, look_at, look_into, wait_until_quiet
from runward.handlers.model.bundle import BundleRulesOf
from runward.handlers.model.contracts import Declarations, Ruled, RuledPlaybook
from runward.handlers.model.invocations import Play
from runward.handlers.model.schedules import Scheduled, chain_and_item
from runward.handlers.model.sessions import CoveringRoot, RootOf
from runward.handlers.schedules import PATIENCE

if TYPE_CHECKING:
    from runward.config.step import Callables
    from runward.daemon.configuration.declared_files import TextOf

NO_ROOT: Final = "no root of the settings has the layout 'native', for new runs to go to"

D = TypeVar("D", Playbook, AgentProfile)
T = TypeVar("T")


class KnownFiles(Generic[T]):
    """What was read from files. It is known as long as their marks and what was `given` stay: each use costs one `stat`."""

    MOST: Final = 20_000
    """Files that are known. With more of them, each reading of all reads them all."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, Look, T]] = {}

    def known(self, path: str, given: object) -> T | None:
        """What was read from the file at `path`, if that is known and still true."""
        known = self._known.get(path)
        is_true = known is not None and known[0] == given and known[1] == look_at(*known[1])
        return known[2] if known is not None and is_true else None

    def __call__(self, path: str, given: object, read: "Callable[[TextOf], T]") -> T:
        """What `read` makes of the file at `path`, and of any other file whose text it takes through its argument."""
        known = self.known(path, given)
        if known is not None:
            return known
        paths = {path}

        def noted(path: str) -> str | Problem:
            paths.add(path)
            return text_of(path)

        while True:
            # The look comes before the reading. A file that changes in between then differs from the look, and is read
            # again; a look after the reading would take the change as read. And nothing that is half written is read.
            look = wait_until_quiet(partial(look_at, *paths))
            value = read(noted)
            # Only the reading shows which schemas a file names. They were not in the look, so it begins again.
            if paths == look.keys():
                break
        if len(self._known) >= self.MOST:
            self._known.clear()
        self._known[path] = given, look, value
        return value


class Declarer:
    """Answers what a playbook and an agent declare under the settings in force. Used in threads."""

    def __init__(
        self, settings: Settings, patience: float = PATIENCE, checked: CheckedChains | None = None
    ) -> None:
        self._settings = settings
        self.patience = patience
        self._checked = CheckedChains() if checked is None else checked
        self._playbooks, self._agents = KnownFiles[Parsed[Playbook]](), KnownFiles[Parsed[AgentProfile]]()
        self._valid_chains = KnownFiles[Parsed[Chain]]()
        self.wrong: tuple[Wrong, ...] | None = None
        """What the last check found wrong with all configuration; None before the first one."""
        self._degraded: tuple[str, ...] = ()
        # One tuple, replaced as a whole: no thread sees new chains with an old basis, or it would keep them for good.
        self._chains: tuple[object, _Chains] = (None, _NO_CHAINS)
        self._reading_chains = threading.Lock()
        self._schedules: tuple[object, dict[str, str]] = (None, {})

    def use(self, settings: Settings) -> None:
        """Answer under these settings from now on."""
        self._settings = settings

    @property
    def settings(self) -> Settings:
        """Show the settings in force."""
        return self._settings

    def check(self) -> None:
        """Read all playbooks, agent profiles and chains; anything wrong with them is a problem until it is fixed."""
        settings = self._settings
        wait_until_quiet(self.look)
        reading = Reading(
            lambda name: _known(self._playbooks, playbook_file(settings, name), read_playbook),
            lambda name: _known(self._agents, agent_file(settings, name), read_agent),
            lambda: [problem for each in self._all_chains().wrong.values() for problem in each],
        )
        self.wrong = complaints_about(Parsed(settings), reading)
        # Now, for the report asks each second.
        self._degraded = tuple(_lines(self.wrong))

    def look(self) -> Look:
        """What exists in the directories of playbooks, agent profiles and chains."""
        return look_into((*self._settings.playbooks, *self._settings.agents, *self._settings.chains))

    def degraded(self) -> list[str]:
        """What is wrong with the operator's files, and what follows, for `status`."""
        return [*self._degraded]

    def quarantined(self) -> list[tuple[str, str]]:
        """The chains whose files are wrong, each with the reason. Raises `OSError` for a directory that can't be read."""
        return [(name, _rendered(problems)) for name, problems in self._all_chains().wrong.items()]

    def _playbook(self, settings: Settings, name: str) -> Playbook:
        first = first_place(settings.playbooks, name, PLAYBOOK_SUFFIX)
        return _named(settings, name, first, playbook_file, self._playbooks, read_playbook)

    def _defaults(self, settings: Settings, agent: str) -> tuple[ExpectedArtifact, ...] | None:
        first = first_place(settings.agents, agent, AGENT_SUFFIX)
        return _named(settings, agent, first, agent_file, self._agents, read_agent).artifacts

    def __call__(self, playbook: str | None, agent: str | None) -> Declarations:
        """What they declare; a missing or wrong file is reported as the operator's to fix."""
        settings = self._settings
        read = defaults = None
        try:
            if playbook is not None:
                read = self._playbook(settings, playbook)
                agent = agent or read.agent
            if agent is not None:
                defaults = self._defaults(settings, agent)
        except _Unusable as error:
            return Declarations(None, None, str(error))
        return Declarations(read.artifacts if read is not None else None, defaults)

    def play(self, name: str) -> Play:
        """What the playbook of this name would start, and in which root; or what the operator must fix first."""
        settings = self._settings
        root = settings.launch_root
        if root is None:
            return Play(None, problem=NO_ROOT)
        try:
            playbook = self._playbook(settings, name)
            agent = playbook.agent
            defaults = self._defaults(settings, agent) if agent is not None else None
        except _Unusable as error:
            return Play(None, problem=str(error))
        return Play(playbook, agent, defaults, root.name, root.path)

    def action(self, name: str) -> Play:
        """What the action of this name would start, and in which root; or what the operator must fix first."""
        root = self._settings.launch_root
        if root is None:
            return Play(None, problem=NO_ROOT)
        action = next((each for each in self._settings.actions if each.name == name), None)
        if action is None:
            return Play(None, problem=f"there is no action {name!r} in the settings")
        shell = action.command if isinstance(action.command, str) else None
        command = ("sh",) if isinstance(action.command, str) else action.command
        playbook = Playbook(name, command, action.timeout, action.grace)
        return Play(playbook, root_name=root.name, root_path=root.path, shell=shell)

    def listening(self, event: str) -> tuple[Chain, ...]:
        """The valid chains that an event of this name may fire, by name."""
        files = [file for file, each in self._all_chains().right.items() if event in each.events]
        return tuple(self._usable(files))

    def _usable(self, files: Sequence[str]) -> Iterator[Chain]:
        """The chains in the files of these names, which were found valid, except those that are valid no longer."""
        if not files:
            return
        settings = self._settings
        given = callables(settings)
        for file in files:
            chain = self._still_valid(settings, file, given)
            if chain is not None:
                yield chain

    def _still_valid(self, settings: Settings, file: str, given: "Callables") -> Chain | None:
        try:
            return self._chain(settings, file, given)
        except _Unusable:
            # The file was known as valid, so what is known of checked files is wrong: all are checked again.
            self._checked.forget()
            self._chains = (None, _NO_CHAINS)
            return None

    def _all_chains(self) -> "_Chains":
        """The chains, by their files' names. The files are read again once one of them, or what they can name, changed.

        Raises `OSError` if a directory can't be listed.
        """
        settings = self._settings
        if not chain_names(settings):
            return _NO_CHAINS
        with self._reading_chains:  # or each thread would read thousands of files after one change
            given = callables(settings)
            basis = (given, settings.chains, look_into(settings.chains))
            known, chains = self._chains
            if known != basis:
                # The look comes before the reading. A file that changes in between then differs from the look, and is read
                # again; a look after the reading would take the change as read.
                basis = (*basis[:2], wait_until_quiet(lambda: look_into(settings.chains)))
                right: dict[str, CheckedChain] = {}
                wrong: dict[str, tuple[Problem, ...]] = {}
                files: dict[str, str] = {}
                reading = self._checked.reading(given)
                # Names from before the look would miss a file that the look has seen, and so miss it for good.
                for name in chain_names(settings):

                    def checked(text: str, path: str, name: str = name) -> Parsed[CheckedChain]:
                        files[name] = path
                        return reading(text, path)

                    try:
                        read = named_chain(settings, name, checked)
                    except NotFound as error:
                        wrong[name] = (Problem(name, None, None, str(error), None),)
                    else:
                        if read.value is None:
                            wrong[name] = read.errors
                        else:
                            right[name] = read.value
                chains = _Chains(right, wrong, files)
                self._checked.keep(reading)
                self._chains = basis, chains
            return chains

    def _chain(self, settings: Settings, name: str, given: "Callables") -> Chain:
        first = self._valid_chains.known(first_place(settings.chains, name, CHAIN_SUFFIX), given)
        if first is not None and first.value is not None:
            return first.value
        try:
            file = chain_file(settings, name)
            return _value(
                self._valid_chains(
                    file, given, partial(read_text, file, lambda text, path: read_chain(text, path, given))
                )
            )
        except NotFound as error:
            raise _Unusable(str(error)) from error

    def scheduled(self, name: str) -> Scheduled | None:
        """The schedule of this name: that of the chain of this name, or an item of its trigger."""
        called, _ = chain_and_item(name)
        chain = self.chain(called)
        schedules = {} if isinstance(chain, str) else schedules_of(chain)
        return Scheduled(*schedules[name], self.patience) if name in schedules else None

    def schedules(self) -> dict[str, str]:
        """What the files of all valid chains with schedules say about them, by the names of the schedules.

        It is the very same object as long as no file changes.
        """
        chains = self._all_chains()
        if self._schedules[0] is not chains:
            schedules = {
                name: words for each in chains.right.values() for name, words in each.schedules.items()
            }
            self._schedules = chains, schedules
        return self._schedules[1]

    def watched_paths(self) -> Mapping[str, list[str]]:
        """The globs of the files whose changes fire valid chains, each with the files of these chains."""
        chains = self._all_chains()
        files: dict[str, list[str]] = {}
        for name, each in chains.right.items():
            for path in each.paths:
                files.setdefault(path, []).append(chains.files[name])
        return files

    def steps_at_once(self) -> int:
        """How many steps of chains may run at the same time."""
        return self._settings.steps_at_once

    def fleet(self) -> FleetSettings | None:
        """What the settings say of the fleet; None if this host is in none."""
        return self._settings.fleet

    def chain(self, name: str) -> Chain | str:
        """The chain of this name, or why none can be fired. Usually its file has the same name."""
        try:
            settings = self._settings
            chain = self._chain(settings, only_a_name(name), callables(settings))
            if chain.name == name:
                return chain
            why = f"there is no chain {name!r}: its file calls it {chain.name!r}"
        except (NotFound, _Unusable) as error:
            why = str(error)
        files = [file for file, each in self._all_chains().right.items() if each.name == name]
        return next(self._usable(files), why)

    def ruled(self, session: RuledPlaybook) -> Ruled:
        """The `[[contracts]]` rules that apply to a session."""
        settings = self._settings
        rule = rule_for(settings.contracts, session.layout, session.cwd, session.agent, session.prompt)
        agent = session.agent
        if agent is not None:
            try:
                # The session chose this name itself: it must not lead to a file outside the operator's directories.
                agent_file(settings, only_a_name(agent))
            except NotFound:
                agent = None
        return Ruled(agent=agent) if rule is None else Ruled(rule.playbook, agent, rule.named_at.origin)

    def notified(self) -> tuple[Recipient, ...]:
        """Who is notified of what happens."""
        return self._settings.notify

    def redacted(self) -> tuple[str, ...]:
        """The patterns of what counts as a secret, in addition to the known ones."""
        return self._settings.bundle.rules.redact

    def covering(self, session: RootOf) -> CoveringRoot | None:
        """The innermost root that watches sessions of this layout and contains the file, links followed or not."""
        innermost = innermost_root(self._settings, session.layout, session.path)
        return None if innermost is None else CoveringRoot(innermost.name)

    def exchange(self) -> ExchangeRules:
        """What the settings say about the exchange."""
        return self._settings.exchange

    def executor(self) -> Executor:
        """How code of the exchange is run."""
        return self._settings.exchange.executor

    def bundled(self, session: BundleRulesOf) -> BundleRules | None:
        """How the bundle of a session is made; None if its root wants none, or if it is no longer under a root."""
        return bundle_rules(self._settings, session.layout, session.path)


class _Chains(NamedTuple):
    """What the valid chains wait for, and what is wrong with the others, both by their files' names."""

    right: Mapping[str, CheckedChain]
    wrong: Mapping[str, tuple[Problem, ...]]
    files: Mapping[str, str]
    """Where the files are."""


_NO_CHAINS: Final = _Chains({}, {}, {})


class _Unusable(Exception):
    """What was declared can't be used; the message says why, to the operator."""


def _lines(wrong: Iterable[Wrong]) -> Iterator[str]:
    """One line for what is wrong with each file, and what follows."""
    errors = [each for each in wrong if each.problem.severity == "error"]
    for (_, consequence), of_file in groupby(errors, lambda each: (each.problem.file, each.consequence)):
        yield "; ".join(filter(None, (_rendered([each.problem for each in of_file]), consequence)))


def _rendered(errors: Sequence[Problem]) -> str:
    return "; ".join(problem.render() for problem in errors[:3])


def _known(known: KnownFiles[Parsed[D]], file: str, parse: Callable[[str, str], Parsed[D]]) -> Parsed[D]:
    return known(file, None, partial(read_declaration, file, parse))


def _named(
    settings: Settings,
    name: str,
    first: str,
    file_of: Callable[[Settings, str], str],
    known: KnownFiles[Parsed[D]],
    parse: Callable[[str, str], Parsed[D]],
) -> D:
    """What the file of this name declares, which is looked for `first` at this path.

    A run's contract never changes once it is taken from here.
    """
    try:
        only_a_name(name)
        read = known.known(first, None)
        # One that could not be read may be elsewhere by now.
        if read is None or read.value is None:
            read = _known(known, file_of(settings, name), parse)
    except NotFound as error:
        raise _Unusable(str(error)) from error
    return _value(read)


def _value(read: Parsed[T]) -> T:
    if read.value is None:
        raise _Unusable(_rendered(read.errors))
    return read.value
