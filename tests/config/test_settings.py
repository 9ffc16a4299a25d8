from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.config.action import Action
from runward.config.bundle import DEFAULT_VERIFICATION
from runward.config.problem import Parsed
from runward.config.root import LAYOUTS, Root
from runward.config.settings import SETTINGS, Scan, Settings, Watch, settings_from_json, settings_to_json
from runward.config.settings_layers import Source, read_settings
from runward.config.shape import ListOf, Shape
from runward.config.table import NamedTables, Table

FILE = "/etc/runward/runward.toml"


def read(*texts: str, environment: Mapping[str, str] | None = None) -> Parsed[Settings]:
    """The settings of a file and its drop-ins `0.toml`, `1.toml`, …"""
    files = [FILE, *(f"{FILE}.d/{number}.toml" for number in range(len(texts) - 1))]
    sources = [Source(file, text, "/etc/runward") for file, text in zip(files, texts, strict=False)]
    return read_settings(sources, environment or {}, home="/home/me", working_directory="/work")


def good(*texts: str, environment: Mapping[str, str] | None = None) -> Settings:
    parsed = read(*texts, environment=environment)
    assert parsed.problems == ()
    assert parsed.value is not None
    return parsed.value


def complaints(*texts: str, environment: Mapping[str, str] | None = None) -> list[str]:
    parsed = read(*texts, environment=environment)
    assert (parsed.value is None) == bool(parsed.errors)
    assert all(problem.fix for problem in parsed.problems)
    return [problem.render().removeprefix("/etc/runward/") for problem in parsed.problems]


def test_without_file_and_environment_everything_has_a_default() -> None:
    settings = good()
    assert settings == Settings(
        state_dir="/home/me/.local/state/runward",
        playbooks=("/home/me/.config/runward/playbooks",),
        agents=("/home/me/.config/runward/agents",),
        chains=("/home/me/.config/runward/chains",),
        roots=(Root("runs", "/home/me/.local/state/runward/runs"),),
        batch=256,
        watch=Watch(step=2, debounce=5, limit_share=0.5),
        scan=Scan(period=30),
        origin=settings.origin,
    )
    assert settings.origin == {}


@pytest.mark.parametrize(
    ("state_home", "state_dir"),
    [
        ("/var/state", "/var/state/runward"),
        ("relative", "/home/me/.local/state/runward"),
        ("", "/home/me/.local/state/runward"),
    ],
)
def test_the_xdg_directories_are_obeyed_where_they_are_absolute(state_home: str, state_dir: str) -> None:
    settings = good(environment={"XDG_STATE_HOME": state_home, "XDG_CONFIG_HOME": "/cfg/"})
    assert (settings.state_dir, settings.playbooks) == (state_dir, ("/cfg/runward/playbooks",))


def test_a_whole_file_is_read() -> None:
    text = """\
state_dir = "state"
playbooks = ["playbooks", "~/books", "/srv/books/../b"]
agents = []
batch = 1
retention = "30d"
low_disk = "1 GB"
log_limit = "0B"

[[roots]]
path = "runs/"
[[roots]]
name = "other"
path = "~/runs"
layout = "native"
history = "record"
ignore = [".*", "tmp-[0-9]"]

[watch]
step = 7
debounce = 20
limit_share = 1
[scan]
period = "1min"
"""
    settings = good(text)
    assert settings == Settings(
        state_dir="/etc/runward/state",
        playbooks=("/etc/runward/playbooks", "/home/me/books", "/srv/b"),
        agents=(),
        chains=("/etc/runward/chains",),
        roots=(
            Root("runs", "/etc/runward/runs"),
            Root("other", "/home/me/runs", history="record", ignore=(".*", "tmp-[0-9]")),
        ),
        batch=1,
        retention=30 * 86_400.0,
        low_disk=1 << 30,
        log_limit=0,
        watch=Watch(7, 20, 1.0),
        scan=Scan(60),
        origin=settings.origin,
    )
    assert settings.launch_root == settings.roots[0]
    assert dict(settings.origin) == {
        "state_dir": f"{FILE}:1",
        "playbooks": f"{FILE}:2",
        "agents": f"{FILE}:3",
        "batch": f"{FILE}:4",
        "retention": f"{FILE}:5",
        "low_disk": f"{FILE}:6",
        "log_limit": f"{FILE}:7",
        "roots.runs": f"{FILE}:9",
        "roots.other": f"{FILE}:11",
        "watch.step": f"{FILE}:19",
        "watch.debounce": f"{FILE}:20",
        "watch.limit_share": f"{FILE}:21",
        "scan.period": f"{FILE}:23",
    }


def test_a_file_without_playbooks_has_them_beside_it() -> None:
    assert good("batch = 3").playbooks == ("/etc/runward/playbooks",)


def test_no_root_at_all_can_be_asked_for() -> None:
    settings = good("roots = []")
    assert (settings.roots, settings.launch_root) == ((), None)


def test_drop_ins_win_key_by_key_and_add_roots() -> None:
    settings = good(
        'agents = ["a"]\n[watch]\nstep = 1\ndebounce = 2\n[[roots]]\npath = "a"\n[[roots]]\npath = "b"\n',
        'agents = ["b"]\n[watch]\nstep = 3\n[[roots]]\npath = "c"\n',
        '[[roots]]\nname = "a"\npath = "d"\n',
    )
    assert settings.agents == ("/etc/runward/b",)
    assert settings.watch == Watch(3, 2, 0.5)
    assert settings.roots == (
        Root("a", "/etc/runward/d"),
        Root("b", "/etc/runward/b"),
        Root("c", "/etc/runward/c"),
    )
    assert settings.origin["roots.a"] == f"{FILE}.d/1.toml:1"
    assert settings.origin["watch.step"] == f"{FILE}.d/0.toml:3"


def test_a_variable_replaces_its_whole_key() -> None:
    settings = good(
        'batch = 3\n[watch]\nstep = 1\ndebounce = 2\n[[roots]]\npath = "a"\n',
        environment={
            "RUNWARD_STATE_DIR": "state",
            "RUNWARD_BATCH": "12",
            "RUNWARD_WATCH": '{"debounce": 9}',
            "RUNWARD_ROOTS": '[{"path": "b"}]',
            "RUNWARD_PLAYBOOKS": '["~"]',
            "RUNWARD_AGENTS": "",
            "RUNWARD_CONFIG": "/elsewhere",
            "RUNWARD_SESSION_ID": "x",
            "OTHER": "x",
        },
    )
    assert settings.state_dir == "/work/state"
    assert settings.batch == 12
    assert settings.watch == Watch(2, 9, 0.5)
    assert settings.roots == (Root("b", "/work/b"),)
    assert settings.playbooks == ("/home/me",)
    assert settings.agents == ("/etc/runward/agents",)
    assert settings.origin["roots.b"] == "environment RUNWARD_ROOTS"
    assert "watch.step" not in settings.origin


def test_an_own_state_directory_brings_its_runs_along() -> None:
    settings = good(environment={"RUNWARD_STATE_DIR": "/s"})
    assert settings.roots == (Root("runs", "/s/runs"),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("state_dir = 3", "1:13: state_dir: must be a text, not a number (put it in quotes)"),
        ('state_dir = ""', "1:13: state_dir: is empty (leave it out for the default)"),
        ('state_dir = "a\\u0000"', "1:13: state_dir: 'a\\x00' has a control character in it (remove it)"),
        ('state_dir = "~you/x"', "1:13: state_dir: '~you/x' names the home of another user (write the whole path)"),
        ('playbooks = "p"', "1:13: playbooks: must be a list, not a text (put it in square brackets)"),
        ("agents = [1]", "1:11: agents[0]: must be a text, not a number (put it in quotes)"),
        ("batch = 0", "1:9: batch: must be a whole number from 1 to 256, not 0 (write a number within these bounds)"),
        ("batch = true", "1:9: batch: must be a whole number from 1 to 256, not true (write a number within these bounds)"),
        ("batch = 1.0", "1:9: batch: must be a whole number from 1 to 256, not 1 (write a number within these bounds)"),
        ('batch = "9"', "1:9: batch: must be a whole number from 1 to 256, not '9' (write the number without quotes)"),
        ("watch = 3", "1:9: watch: must be a table of keys, not a number (give it keys of its own)"),
        ("[watch]\nstpe = 3", "2:1: watch.stpe: unknown key (did you mean 'step'?)"),
        ("[watch]\nlimit_share = 1.5", "2:15: watch.limit_share: must be above 0 and at most 1, not 1.5 (write a number within these bounds)"),
        ("[scan]\nperiod = 30", '2:10: scan.period: must be a duration, not a number (write it with its unit and in quotes: "30s")'),
        ('[scan]\nperiod = "30"', "2:10: scan.period: is not a duration: '30' has no unit (write a number with its unit, as in 30s, 5min, 1h30m or 2d)"),
        ('[scan]\nperiod = "1ms"', "2:10: scan.period: must be at least 1s, not '1ms' (write \"1s\" or more)"),
        ("plabooks = []", "1:1: plabooks: unknown key (did you mean 'playbooks'?)"),
        ("roots = 3", "1:9: roots: must be a list, not a number (put it in square brackets)"),
        ('[roots]\npath = "a"', "1:2: roots: must be a list, not a table of keys (put it in square brackets)"),
        ('[[roots]]\nname = "a"', "1:1: roots[0]: has no 'path' (add path = …)"),
        ('[[roots]]\nname = "a/b"\npath = "a"', "2:8: roots[0].name: 'a/b' has '/' in it (write it without /:#)"),
        ('[[roots]]\nname = "a:b"\npath = "a"', "2:8: roots[0].name: 'a:b' has ':' in it (write it without /:#)"),
        ('[[roots]]\nname = "a#b"\npath = "a"', "2:8: roots[0].name: 'a#b' has '#' in it (write it without /:#)"),
        ('[[roots]]\nname = "a\\n"\npath = "a"', "2:8: roots[0].name: 'a\\n' has a control character in it (remove it)"),
        ('[[roots]]\npath = "a:b"', "2:8: roots[0].path: the last part of '/etc/runward/a:b' can't be a name (give the root a name)"),
        ('[[roots]]\npath = "/"', "2:8: roots[0].path: the last part of '/' can't be a name (give the root a name)"),
        ('[[roots]]\npath = "a/x"\n[[roots]]\npath = "b/x"', "4:8: roots[1].path: 'x' is already the name of another root (give each root a name of its own)"),
        ('[[roots]]\npath = "a"\nlayout = "nativ"', f"3:10: roots[0].layout: 'nativ' is not known (one of: {', '.join(LAYOUTS)})"),
        ('[[roots]]\npath = "a"\nsettle = "2s"', "3:10: roots[0].settle: 'settle' has no effect here: native runs say themselves when they end (leave it out, or name the root's layout)"),
        ('[[roots]]\npath = "a"\nstale_after = "1d"', "3:15: roots[0].stale_after: 'stale_after' has no effect here: native runs say themselves when they end (leave it out, or name the root's layout)"),
        ('[[roots]]\npath = "a"\nhistory = "none"', "3:11: roots[0].history: 'none' is not known (one of: live, record)"),
        ('[[roots]]\npath = "a"\nignore = ["a["]', "3:11: roots[0].ignore[0]: 'a[' has a '[' that is never closed (close it; '[[]' is the character itself)"),
        ('[bundle]\nverification = ["[z-a]"]', "2:17: bundle.verification[0]: '[z-a]' has an empty range in it: 'z-a' (write the lower end first)"),
        ('[[roots]]\npath = "a"\nignore = ["a/b"]', "3:11: roots[0].ignore[0]: 'a/b' has '/' in it (write it without /)"),
        ("steps_at_once = 1001", "1:17: steps_at_once: must be a whole number from 1 to 1000, not 1001 (write a number within these bounds)"),
        ("batch = 1\nbatch = 2", "2:10: is not TOML: cannot overwrite a value (correct it; texts and durations need quotes)"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_place_with_its_fix(text: str, complaint: str) -> None:
    assert complaints(text) == [f"runward.toml:{complaint}"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1:10: actions.merge: has no 'command' (add command = …)"),
        ("command = []", "2:11: actions.merge.command: names no program"),
        ('command = ["gh", "{{ who }}"]', "2:18: actions.merge.command[1]: 'who' between braces is not a look-up"),
        ('command = "gh pr merge"', "2:11: actions.merge.command: is one text, but no shell splits it into words"),
        ('command = ["gh"]\nshell = true', "2:11: actions.merge.command: is a list of words, but a shell reads one"),
        ('command = "gh {{ with.pr }}"\nshell = true', "2:11: actions.merge.command: has a template in it, but a shell"),
        ('command = ["gh"]\ntimout = "3s"', "3:1: actions.merge.timout: unknown key"),
        ('command = 3', "2:11: actions.merge.command: must be a list of words, not a number"),
    ],
)  # fmt: skip
def test_a_wrong_action_is_refused_at_its_place(text: str, complaint: str) -> None:
    (found,) = complaints(f"[actions.merge]\n{text}")
    assert found.startswith(f"runward.toml:{complaint}")


def test_an_action_is_a_command_under_a_name() -> None:
    text = '[actions.merge]\ncommand = ["gh", "{{ with.pr }}"]\ntimeout = "5m"\n[actions.note]\ncommand = "echo $WITH_PR"\nshell = true'
    settings = good(text)
    assert settings.actions == (
        Action("merge", ("gh", "{{ with.pr }}"), timeout=300.0),
        Action("note", "echo $WITH_PR", shell=True),
    )
    assert settings_from_json(settings_to_json(settings)) == settings._replace(origin=MappingProxyType({}))


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("RUNWARD_BATCH", "many", "RUNWARD_BATCH:1:1: is not JSON: Expecting value (write it as JSON)"),
        ("RUNWARD_BATCH", "0", "RUNWARD_BATCH: batch: must be a whole number from 1 to 256, not 0 (write a number within these bounds)"),
        ("RUNWARD_STATE_DIR", "~you", "RUNWARD_STATE_DIR: state_dir: '~you' names the home of another user (write the whole path)"),
        ("RUNWARD_ROOTS", '[{"path": 1}]', "RUNWARD_ROOTS: roots[0].path: must be a text, not a number (put it in quotes)"),
        ("RUNWARD_SCAN", '{"period": null}', 'RUNWARD_SCAN: scan.period: must be a duration, not nothing (write it with its unit and in quotes: "30s")'),
        ("RUNWARD_ACTIONS", '{"a": {}}', "RUNWARD_ACTIONS: actions.a: has no 'command' (add command = …)"),
        ("RUNWARD_STATEDIR", "/x", "RUNWARD_STATEDIR: warning: no setting has this name (did you mean RUNWARD_STATE_DIR?)"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_named_as_the_file(variable: str, value: str, complaint: str) -> None:
    assert complaints(environment={variable: value}) == [complaint]


def test_everything_wrong_in_every_source_is_said_at_once() -> None:
    found = complaints(
        'batch = 0\nactions = 1\n[[roots]]\npath = "a"\nlayout = "x"\n',
        "batch = [",
        'agents = 1\n[[roots]]\nname = "inner"\npath = "a/b"\n',
        environment={"RUNWARD_BATCH": "x"},
    )
    assert [complaint.split(" ")[0] for complaint in found] == [
        "runward.toml:1:9:",
        "runward.toml:2:11:",
        "runward.toml:5:10:",
        "runward.toml.d/0.toml:1:10:",
        "runward.toml.d/1.toml:1:10:",
        "RUNWARD_BATCH:1:1:",
        "runward.toml.d/1.toml:2:1:",
    ]


@pytest.mark.parametrize(
    ("state_dir", "roots", "complaint"),
    [
        ("/s", ["/a", "/b", "/ab"], None),
        ("/s", ["/s/runs"], None),
        ("/s", ["/s/runs-nightly", "/s/runs"], None),
        ("/s", ["/a", "/a"], "5:1: roots: '/a' overlaps the root 'r0', '/a'"),
        ("/s", ["/a", "/a/b/../c"], "5:1: roots: '/a/c' overlaps the root 'r0', '/a'"),
        ("/s", ["/a/b", "/a"], "5:1: roots: '/a' overlaps the root 'r0', '/a/b'"),
        ("/s", ["/", "/a"], "5:1: roots: '/a' overlaps the root 'r0', '/'"),
        ("/s", ["/s"], "1:1: state_dir: '/s' is inside the root 'r0', '/s'"),
        ("/a/s", ["/a"], "1:1: state_dir: '/a/s' is inside the root 'r0', '/a'"),
        ("/s", ["/s/inbox"], "2:1: roots: '/s/inbox' is inside Runward's own state, '/s'"),
        ("/s", ["/s/runsome"], "2:1: roots: '/s/runsome' is inside Runward's own state, '/s'"),
    ],
)
def test_roots_keep_out_of_each_other_and_of_the_state(
    state_dir: str, roots: list[str], complaint: str | None
) -> None:
    tables = "".join(f'[[roots]]\npath = "{path}"\nname = "r{n}"\n' for n, path in enumerate(roots))
    found = complaints(f'state_dir = "{state_dir}"\n{tables}')
    if complaint is None:
        assert found == []
    else:
        assert found[0].startswith(f"runward.toml:{complaint}")
        assert all(" overlaps " in each or " is inside " in each for each in found)


def test_a_root_with_a_name_may_have_any_path() -> None:
    assert good('[[roots]]\nname = "odd"\npath = "/a:b#c"').roots == (Root("odd", "/a:b#c"),)


def test_a_root_around_the_default_state_directory_is_the_one_to_fix() -> None:
    (complaint,) = complaints('[[roots]]\npath = "~"')
    assert complaint.startswith(
        "runward.toml:1:1: roots: '/home/me/.local/state/runward' is inside the root 'me'"
    )


AGENTS = {"claude-code": "/home/me/.claude/projects", "codex": "/home/me/.codex"}


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("", ["runs", "claude-code", "codex"]),
        ("batch = 9", ["runs", "claude-code", "codex"]),
        ('[[roots]]\npath = "/srv/runs"', ["runs"]),
        ('state_dir = "/home/me/.codex/state"', ["runs", "claude-code"]),
    ],
    ids=["no settings", "settings without roots", "settings with roots", "the state in one of them"],
)
def test_where_no_root_is_named_the_agents_own_directories_are_roots(text: str, roots: list[str]) -> None:
    source = Source(FILE, text, "/etc/runward")
    parsed = read_settings([source], {}, home="/home/me", working_directory="/work", agents=AGENTS)
    assert parsed.value is not None
    assert [each.name for each in parsed.value.roots] == roots
    for root in parsed.value.roots[1:]:
        assert (root.layout, root.path, root.history) == (root.name, AGENTS[root.name], "record")


def test_a_root_of_another_tools_layout_has_its_own_defaults_and_keys() -> None:
    said = '[[roots]]\npath = "/a"\nlayout = "claude-code"'
    (usual,) = good(said).roots
    assert (usual.history, usual.settle, usual.stale_after) == ("record", 2.0, None)
    (changed,) = good(f'{said}\nhistory = "live"\nsettle = "500ms"\nstale_after = "1d"').roots
    assert (changed.history, changed.settle, changed.stale_after) == ("live", 0.5, 86400.0)


def test_the_settings_as_json_hold_every_key() -> None:
    assert settings_to_json(good('[[roots]]\npath = "/a"\nignore = ["x"]')) == {
        "state_dir": "/home/me/.local/state/runward",
        "playbooks": ["/etc/runward/playbooks"],
        "agents": ["/etc/runward/agents"],
        "chains": ["/etc/runward/chains"],
        "roots": [
            {
                "name": "a",
                "path": "/a",
                "layout": "native",
                "history": "live",
                "ignore": ["x"],
                "settle": 2.0,
                "stale_after": None,
                "start_within": None,
                "bundle": True,
            }
        ],
        "contracts": [],
        "batch": 256,
        "steps_at_once": 16,
        "retention": 365 * 86_400.0,
        "low_disk": 256 << 20,
        "log_limit": 100 << 20,
        "watch": {"step": 2, "debounce": 5, "limit_share": 0.5},
        "scan": {"period": 30.0},
        "actions": {},
        "notify": [],
        "prices": {},
        "fleet": None,
        "bundle": {
            "canonical_form": "seed",
            "policy_bundle_id": "local-dev",
            "longest_text": 65536,
            "verification": list(DEFAULT_VERIFICATION),
            "redact": [],
            "sign": None,
            "authorized_keys": [],
        },
        "http": None,
        "studio": None,
        "metrics": {"textfile": None},
        "webhooks": {},
        "exchange": {
            "use_contracts": False,
            "invoke_depth": 5,
            "delegate": False,
            "dependency_depth": 10,
            "disk_quota": 100 << 20,
            "cpu_seconds": 5.0,
            "cpu_window": 60.0,
            "waiting_intents": 1000,
            "executor": {
                "sandbox": "bubblewrap",
                "timeout": 5.0,
                "memory": 256 << 20,
                "tmp": 16 << 20,
                "output": 64 << 10,
                "preloaded_imports": ["math", "json", "random", "datetime"],
                "workers": 2,
            },
        },
    }


@pytest.mark.parametrize(
    "key", ["batch", "studio", "roots", "watch.step", "bundle.sign", "exchange.executor.tmp"]
)
@pytest.mark.parametrize("is_there", [False, True])
def test_settings_that_another_version_stored_are_not_read(key: str, is_there: bool) -> None:
    stored: Any = settings_to_json(good("batch = 3"))
    assert settings_from_json(stored) is not None
    *tables, last = key.split(".")
    table = stored
    for name in tables:
        table = table[name]
    del table[last]
    if is_there:
        table[last] = "of another form"
    assert settings_from_json(stored) is None


def _tables(shape: Shape) -> Iterator[Table[Any]]:
    if isinstance(shape, ListOf | NamedTables):
        yield from _tables(shape.item)
    elif isinstance(shape, Table):
        yield shape
        for each in shape.fields.values():
            yield from _tables(each)


def test_a_field_without_a_shape_is_no_key_and_there_are_few_of_these() -> None:
    tables = list(_tables(SETTINGS))
    assert len(tables) > 10
    others = {
        f"{table.of.__name__}.{name}"
        for table in tables
        for name in table.of._fields
        if name.rstrip("_") not in table.fields
    }
    assert others == {
        "Settings.origin",
        "Settings.files",
        "Settings.absent",
        "Action.name",
        "ModelPrice.name",
        "ContractRule.named_at",
    }


toml_lines = st.sampled_from(
    ["batch = 3", 'state_dir = "x"', "[[roots]]", 'path = "a"', 'path = "~x"', "[watch]", "step = 1", "[scan]", "x", 'name = ""',
     "[[contracts]]", 'match = {cwd = "a/[b]"}', 'match = {agent = "["}', 'playbook = "p"']
)  # fmt: skip


@given(
    st.lists(st.lists(toml_lines, max_size=6).map("\n".join) | st.text(), max_size=3),
    st.dictionaries(
        st.sampled_from(
            [
                "RUNWARD_ROOTS",
                "RUNWARD_CONTRACTS",
                "RUNWARD_BATCH",
                "RUNWARD_WATCH",
                "RUNWARD_STATE_DIR",
                "RUNWARD_X",
            ]
        ),
        st.text(alphabet='[]{}"":,path10~/ \0\ud800') | st.text(),
    ),
)
def test_any_texts_and_variables_are_settings_or_complaints(
    texts: list[str], environment: dict[str, str]
) -> None:
    parsed = read(*texts, environment=environment)
    assert (parsed.value is None) == bool(parsed.errors)
    assert all(problem.fix for problem in parsed.problems)
    if parsed.value is not None:
        assert all(root.path.startswith("/") for root in parsed.value.roots)
        assert all(rule.match for rule in parsed.value.contracts)


def test_nothing_is_pruned_where_the_retention_is_never() -> None:
    assert good('retention = "never"').retention is None


def test_a_record_may_be_kept_for_many_years() -> None:
    assert good('retention = "3650d"').retention == 3650 * 86_400.0


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("0B", 0), ("512KB", 512 << 10), ("256MB", 256 << 20), ("2 GB", 2 << 30), ("1TB", 1 << 40)],
)
def test_a_size_has_its_unit(text: str, bytes_: int) -> None:
    assert good(f'low_disk = "{text}"').low_disk == bytes_


@pytest.mark.parametrize("text", ['"256"', '"a lot"', '"-1MB"', '"1.5GB"', '"256mb"', "256", '"9999999999B"'])
def test_what_is_no_size_is_refused_with_the_fix(text: str) -> None:
    (complaint,) = complaints(f"low_disk = {text}")
    assert complaint.startswith("runward.toml:1:12: ")
    assert "256MB" in complaint
