"""What the launcher imports must cost it next to nothing: each module in a fresh interpreter."""

import subprocess
import sys

import pytest

HEAVY = {"pydantic", "yaml", "dataclasses", "inspect", "difflib", "decimal", "pathlib"}


def modules_after(code: str) -> set[str]:
    report = "import sys; print('\\n'.join(sys.modules))"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    "module", ["problem", "duration", "contract", "path_rule", "settings", "settings_layers", "shape"]
)
def test_what_the_launcher_reads_first_imports_nothing_heavy(module: str) -> None:
    loaded = modules_after(f"import runward.config.{module}")
    assert f"runward.config.{module}" in loaded
    assert loaded & HEAVY == set()


def test_settings_without_a_file_read_neither_toml_nor_json() -> None:
    code = (
        "from runward.config.settings_layers import read_settings\n"
        "environment = {'RUNWARD_STATE_DIR': '/s'}\n"
        "assert read_settings([], environment, home='/h', working_directory='/w').value is not None"
    )
    loaded = modules_after(code)
    assert loaded & (HEAVY | {"tomllib", "json"}) == set()


def test_settings_from_a_file_import_nothing_heavy_either() -> None:
    code = (
        "from runward.config.settings_layers import Source, read_settings\n"
        "sources = [Source('f', 'batch = 3', '/')]\n"
        "assert read_settings(sources, {}, home='/h', working_directory='/w').value.batch == 3"
    )
    assert modules_after(code) & HEAVY == set()


def test_a_playbook_and_an_agent_profile_are_read_without_pydantic_and_dataclasses() -> None:
    code = (
        "from runward.config.agent import read_agent\n"
        "from runward.config.playbook import read_playbook\n"
        "text = 'artifacts: {expected: [{id: a, glob: a*}]}'\n"
        "assert read_playbook(text, 'a.playbook.yaml').value.artifacts[0].rules.glob == 'a*'\n"
        "assert read_agent('---\\nmodel: m\\n---\\n', 'a.md').value.model == 'm'"
    )
    assert modules_after(code) & {"pydantic", "pydantic_core", "dataclasses", "inspect"} == set()
