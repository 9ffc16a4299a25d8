"""The examples of the pages: commands are run, what people write is read by what reads it in earnest."""

import json
import re
from pathlib import Path

import pytest
from tests.docs.pages import Block, pages
from tests.docs.scratch import Home, script_of

from runward.config.agent import read_agent
from runward.config.chain import Chain, read_chain
from runward.config.playbook import read_playbook
from runward.config.problem import Parsed
from runward.config.settings_layers import Source, read_settings
from runward.config.step import Callables

COMMANDS = ("sh", "console")
WRITTEN = ("toml", "yaml", "markdown")
OTHER = ("json", "text", "mermaid")
PAGES = pages()
BLOCKS = [block for page in PAGES for block in page.blocks()]


def _is_run(block: Block) -> bool:
    return block.language in COMMANDS and "not run" not in block.notes


def test_a_block_says_what_it_is() -> None:
    for block in BLOCKS:
        assert block.language in (*COMMANDS, *WRITTEN, *OTHER), f"{block.place}: ```{block.language}"
        if block.language == "text" and "demo" not in block.notes:
            first = block.text.lstrip()
            assert not first.startswith(("$ ", "runward ")), f"{block.place}: commands are `sh` or `console`"
        if block.language == "console":
            assert script_of(block).strip(), f"{block.place}: a console without a command after `$ `"


RUN_ELSEWHERE = {
    "docs/commands.md": "tests/daemon/cli/test_help.py, beside a daemon that runs",
    "docs/fleet.md": "tests/docs/test_fleet_page.py, with a database and three machines",
}


@pytest.mark.parametrize(
    "name",
    [page.name for page in PAGES if page.name not in RUN_ELSEWHERE and any(map(_is_run, page.blocks()))],
    ids=lambda name: name,
)
def test_the_commands_of_a_page_can_be_followed_from_its_top(name: str, tmp_path: Path) -> None:
    home = Home(tmp_path)
    for block in BLOCKS:
        if block.page != name:
            continue
        if block.file is not None and "not run" not in block.notes:
            home.write(block)
        elif _is_run(block):
            ended = home.run(script_of(block))
            assert ended.returncode == int(block.notes.get("ends", "0")), (
                f"{block.place} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
            )


def test_the_first_page_has_examples_that_are_run() -> None:
    assert sum(_is_run(block) for block in BLOCKS if block.page == "README.md") >= 3


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "toml"], ids=lambda block: block.place
)
def test_settings_that_are_shown_are_right(block: Block) -> None:
    directory = "/home/reader/.config/runward"
    source = Source(f"{directory}/runward.toml", block.text, directory)
    parsed = read_settings([source], {}, home="/home/reader", working_directory="/home/reader")
    assert [problem.render() for problem in parsed.problems] == []


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "yaml"], ids=lambda block: block.place
)
def test_playbooks_and_chains_that_are_shown_are_right(block: Block) -> None:
    file = block.file or f"{_declared_name(block)}.playbook.yaml"
    parsed = read_playbook(block.text, file) if file.endswith(".playbook.yaml") else _chain(block.text, file)
    assert [problem.render() for problem in parsed.problems] == []


def _chain(text: str, file: str) -> Parsed[Chain]:
    """The chain, where every playbook and action that it names exists."""
    named = re.findall(r"(?:skill|action): ([\w-]+)", text)
    return read_chain(text, file, Callables(named, named))


def _declared_name(block: Block) -> str:
    names = [line.removeprefix("name: ") for line in block.text.splitlines() if line.startswith("name: ")]
    return names[0] if names else "playbook"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language == "markdown"], ids=lambda block: block.place
)
def test_agent_profiles_that_are_shown_declare_something(block: Block) -> None:
    parsed = read_agent(block.text, block.file or "agent.md")
    assert [problem.render() for problem in parsed.problems] == []
    assert parsed.value is not None
    assert parsed.value.artifacts


def test_json_that_is_shown_is_json() -> None:
    shown = [json.loads(block.text) for block in BLOCKS if block.language == "json"]
    assert shown, "no page shows JSON any more: then this test has nothing to hold"
