"""What can be set, called, recorded or ordered is documented; and what is documented is there."""

import re
import sqlite3
import tomllib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args

import click
from tests.docs.pages import ROOT, codes, documentation, page, pages

from runward.config.keys import known_keys
from runward.config.playbook import Playbook
from runward.config.root import LAYOUTS
from runward.config.settings import SETTINGS
from runward.config.settings_layers import OTHER_VARIABLES, PREFIX
from runward.config.shape import ListOf
from runward.config.table import Table
from runward.daemon.cli.commands import COMMANDS
from runward.daemon.cli.run_launch import _WITH_VALUE, _WITHOUT_VALUE
from runward.daemon.store.schema import migrations
from runward.handlers.ctcp.rules import RULES
from runward.handlers.journal import lines
from runward.handlers.layouts import registry
from runward.handlers.model.files import FileState
from runward.handlers.model.reasons import MEANINGS

ARCHITECTURE = page("docs/architecture.md")
REFERENCE = page("docs/reference.md")
SETTINGS_PAGE = page("docs/settings.md")


def _first_codes(rows: list[list[str]]) -> list[str]:
    return [code for row in rows for code in codes(row[0])]


def _schema() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for migration in migrations():
        connection.executescript(migration.sql)
    return connection


def _leaves(table: Table[Any], prefix: str = "") -> Iterator[str]:
    for key, shape in table.keys.items():
        if isinstance(shape, Table):
            yield from _leaves(shape, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def test_every_key_of_the_settings_is_in_their_table_and_no_other() -> None:
    rows = SETTINGS_PAGE.table("## Keys")
    assert sorted(_first_codes(rows)) == sorted(_leaves(SETTINGS))


def _defaults(table: Table[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, shape in table.keys.items():
        if isinstance(shape, Table):
            yield from _defaults(shape, f"{prefix}{key}.")
        elif (default := table.default_of(key)) is not None and not isinstance(shape, ListOf):
            yield f"{prefix}{key}", default


def test_every_default_of_the_settings_is_in_their_table() -> None:
    cells = {codes(row[0])[0]: row[2].replace(",", "") for row in SETTINGS_PAGE.table("## Keys")}
    defaults = dict(_defaults(SETTINGS))
    assert defaults["watch.step"] == "2"
    assert {key: cells[key] for key, default in defaults.items() if default not in cells[key]} == {}


def test_every_key_of_a_root_is_in_its_table_and_no_other() -> None:
    roots = SETTINGS.keys["roots"]
    assert isinstance(roots, ListOf)
    assert isinstance(roots.item, Table)
    section = SETTINGS_PAGE.section("## Keys").partition("Each `[[roots]]`:")[2]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(code for row in rows for code in codes(row)) == sorted(roots.item.keys)


def test_every_variable_with_our_prefix_is_in_the_table_and_no_other() -> None:
    said = {name for name in _first_codes(SETTINGS_PAGE.table("## Environment")) if name.startswith(PREFIX)}
    assert said == {*OTHER_VARIABLES, *(PREFIX + key.upper() for key in SETTINGS.keys)}


def test_every_key_of_a_playbook_is_in_its_table_and_no_other() -> None:
    assert _first_codes(page("docs/playbooks.md").table("## Playbooks")) == list(known_keys(Playbook))


def test_every_answer_about_a_file_is_named() -> None:
    said = REFERENCE.section("## Questions").partition("contract's path is one of")[2]
    assert codes(said) == list(get_args(FileState))


def test_every_reason_is_in_the_table_with_its_status_and_meaning() -> None:
    told = {
        codes(row[0])[0]: (codes(row[1])[0], row[2]) for row in page("docs/sessions.md").table("## Reasons")
    }
    assert told == dict(MEANINGS)


def test_every_table_of_the_store_is_in_the_list_and_no_other() -> None:
    names = [
        row[0] for row in _schema().execute("select name from sqlite_master where type in ('table', 'view')")
    ]
    assert sorted(_first_codes(REFERENCE.table("## The tables of the store"))) == sorted(names)


def test_the_states_that_are_drawn_are_those_of_the_database() -> None:
    for table, column, section in (
        ("jobs", "state", ARCHITECTURE.section("### The states of a job")),
        ("sessions", "status", page("docs/sessions.md").section("## The states of a session")),
    ):
        ((sql,),) = _schema().execute("select sql from sqlite_master where name = ?", (table,))
        found = re.search(rf"\b{column} in \(([^)]*)\)", sql)
        assert found is not None
        drawn = re.findall(r"^ +(\S+) --> (\S+)", section, re.MULTILINE)
        assert {name for pair in drawn for name in pair} - {"[*]"} == set(
            re.findall(r"'(\w+)'", found.group(1))
        )


def test_every_point_is_in_the_table_and_no_other() -> None:
    sources = [path.read_text() for path in (ROOT / "daemon").rglob("*.py") if path.name != "faults.py"]
    called = {name for text in sources for name in re.findall(r'\bpoint\(f?"([^"]+)"\)', text)}
    named = {name.replace("{name}", "NAME") for name in called}
    assert set(_first_codes(REFERENCE.table("## Points"))) == named
    transactions = {
        name
        for text in sources
        for name in re.findall(
            r'(?:store\.run|_attempt|(?<=await self)\._run)\([^"]*?"(\w+)"',
            re.sub(r'"(?:insert|select)[^"]*"', "", text),
        )
    }
    assert (
        set(codes(REFERENCE.section("## Points").partition("NAME is")[2].partition(".")[0])) == transactions
    )


def test_every_line_of_a_journal_is_in_the_table_and_no_other() -> None:
    text = (ROOT / "handlers/journal/lines.py").read_text()
    assert lines.EVENTS == "events.jsonl"
    written = set(re.findall(r'_line\(\s*event,\s*"(\w+)"', text))
    said = page("docs/native-layout.md").text
    rows = said[said.index("| line | when |") :].partition("\n\n")[0].splitlines()[2:]
    assert {codes(row)[0] for row in rows} == written


def _commands() -> Iterator[tuple[str, click.Command]]:
    for name, (module, _) in COMMANDS.items():
        command = getattr(import_module(f"runward.daemon.cli.{module}"), name)
        yield from _below(name, command)


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for inner, each in command.commands.items():
            yield from _below(f"{name} {inner}", each)


def test_every_command_is_documented() -> None:
    said = documentation()
    missing = [name for name, _ in _commands() if not re.search(rf"runward {name}\b", said)]
    assert missing == []


def test_every_option_of_a_command_is_documented() -> None:
    said = page("docs/commands.md").text
    options = {
        option
        for _, command in _commands()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    options |= {f"--{name}" for name in (*_WITH_VALUE, *_WITHOUT_VALUE)}
    assert sorted(option for option in options - {"--help"} if option not in said) == []


def test_every_layout_that_is_read_is_documented() -> None:
    for layout in LAYOUTS:
        assert f"`{layout}`" in SETTINGS_PAGE.text


def test_every_layout_that_inspect_reads_has_its_rows() -> None:
    said = page("docs/layouts.md").text
    assert [name for name in ("native", *registry.LAYOUTS.names()) if f"`{name}`" not in said] == []


def test_every_rule_of_the_ctcp_contracts_is_in_the_table_as_the_code_has_it() -> None:
    rows = page("docs/ctcp.md").table("## Rules")
    assert [[row[0].strip("`"), *row[1:]] for row in rows] == [list(rule) for rule in RULES.values()]


def test_every_dependency_has_its_reason_and_every_file_that_is_named_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = page("docs/dependencies.md")
    listed = set(_first_codes(text.table("## At run time"))) | {
        name
        for heading in ("## Extras", "## For development")
        for row in text.table(heading)
        for name in codes(" ".join(row))
    }
    extras = (each for extra in project["optional-dependencies"].values() for each in extra)
    wanted = [*project["dependencies"], *extras]
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_-]+", requirement)
        assert name is not None
        assert name.group(0) in {each.lower() for each in listed} | listed, requirement


def test_every_path_that_a_page_names_is_there() -> None:
    missing = [
        f"{each.name}: {name}"
        for each in pages()
        for name in re.findall(r"`((?:config|handlers|daemon|tests|systemd|docs)/[\w./-]+\.\w+)`", each.text)
        if not (ROOT / name).exists()
    ]
    assert missing == []
