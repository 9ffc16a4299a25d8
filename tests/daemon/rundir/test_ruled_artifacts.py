"""What the disk says of a contract's rules, with real files, and with files made to cost something."""

import os
from pathlib import Path

import pytest

from runward.config.artifact_rules import ArtifactRules
from runward.daemon.rundir import ruled_artifacts
from runward.daemon.rundir.artifacts import artifact_facts
from runward.handlers.model.files import FileFact, RootFacts, RuledPath, RuleFact

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(40)
DOUBLING = (
    '{"$ref": "#/$defs/d0", "$defs": {'
    + ", ".join(
        f'"d{at}": {{"allOf": [{{"$ref": "#/$defs/d{at + 1}"}}, {{"$ref": "#/$defs/d{at + 1}"}}]}}'
        for at in range(60)
    )
    + ', "d60": {"type": "string"}}}'
)
"""A schema that takes two to the power of sixty steps."""


def look(root: Path, *asked: RuledPath | str) -> tuple[FileFact, ...]:
    found = artifact_facts(str(root), "", asked)
    assert isinstance(found, RootFacts)
    return found.files


def fact(root: Path, rules: ArtifactRules, path: str = "a", since_ns: int = 0) -> FileFact:
    (found,) = look(root, RuledPath(path, rules, since_ns))
    return found


def broken(found: FileFact) -> list[tuple[str, str, int | None]]:
    return [(rule.rule, rule.reason, rule.line) for rule in found.rules if not rule.holds]


@pytest.mark.parametrize(
    ("content", "rules", "said"),
    [
        (b"x" * 5, ArtifactRules(min_size=5), []),
        (b"x" * 4, ArtifactRules(min_size=5), [("min_size", "4 bytes, 5 are required", None)]),
        (PNG, ArtifactRules(mime_type="image/png"), []),
        (PNG, ArtifactRules(mime_type="image/*"), []),
        (PNG, ArtifactRules(mime_type="application/pdf"), [("mime_type", "its content is image/png", None)]),
        (b"??", ArtifactRules(mime_type="image/*"), [("mime_type", "its content is unknown", None)]),
        ("grüße\n".encode(), ArtifactRules(mime_type="text/markdown"), []),
        (
            b"a\nb\n\xff\n",
            ArtifactRules(mime_type="text/plain"),
            [("mime_type", "not text: byte 4 is not UTF-8", 3)],
        ),
        (b"a\n\0", ArtifactRules(mime_type="text/plain"), [("mime_type", "not text: byte 2 is NUL", 2)]),
        (b'{"a": 1}', ArtifactRules(mime_type="application/json"), []),
        (b"\n<svg/>", ArtifactRules(mime_type="image/svg+xml"), []),
        (b"svg", ArtifactRules(mime_type="image/svg+xml"), [("mime_type", "does not begin with '<'", 1)]),
        (b"3", ArtifactRules(schema='{"type": "integer"}'), []),
        (b"3", ArtifactRules(schema="true"), []),
        (
            b'{"a": [\n1,\n"x"]}',
            ArtifactRules(schema='{"properties": {"a": {"items": {"type": "integer"}}}}'),
            [("schema", 'a[1]: "x" is not of type "integer"', 3)],
        ),
        (b"{}", ArtifactRules(schema='{"required": ["a"]}'), [("schema", '"a" is a required property', 1)]),
    ],
)
def test_a_rule_holds_or_says_what_was_found(
    tmp_path: Path, content: bytes, rules: ArtifactRules, said: list[tuple[str, str, int | None]]
) -> None:
    (tmp_path / "a").write_bytes(content)
    found = fact(tmp_path, rules)
    assert broken(found) == said
    assert found.state == ("unfit" if said else "file")
    assert found.rules


@pytest.mark.parametrize("rule", [ArtifactRules(mime_type="application/json"), ArtifactRules(schema="true")])
def test_what_is_not_json_breaks_the_rule_on_its_line(tmp_path: Path, rule: ArtifactRules) -> None:
    (tmp_path / "a").write_text('{"a":\n1,,}')
    ((_, reason, line),) = broken(fact(tmp_path, rule))
    assert "JSON" in reason
    assert line == 2


def test_fresh_is_what_was_written_since_the_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.utime(tmp_path / "a", ns=(0, 1000))
    assert fact(tmp_path, ArtifactRules(fresh=True), since_ns=1000).state == "file"
    assert fact(tmp_path, ArtifactRules(fresh=True), since_ns=1001).state == "unfit"


def test_a_file_that_is_absent_or_empty_is_that_and_no_rule_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    rules = ArtifactRules(min_size=5)
    assert fact(tmp_path, rules) == FileFact("absent")
    assert fact(tmp_path, rules, "empty").state == "empty"


def test_a_glob_finds_regular_files_and_counts_them(tmp_path: Path) -> None:
    (tmp_path / "notes/deep").mkdir(parents=True)
    for name in ("notes/b.md", "notes/a.md", "notes/deep/c.md", "notes/d.txt", "top.md"):
        (tmp_path / name).write_text(name)
    (tmp_path / "notes/link.md").symlink_to("a.md")
    (tmp_path / "notes/away").symlink_to("/etc")
    os.mkfifo(tmp_path / "notes/fifo.md")
    found = fact(tmp_path, ArtifactRules(glob="notes/*.md", min_count=2), "notes/*.md")
    assert found.state == "file"
    assert sorted(each.path for each in found.matches) == ["notes/a.md", "notes/b.md"]
    deep = fact(tmp_path, ArtifactRules(glob="**/*.md"), "**/*.md")
    assert len(deep.matches) == 4
    few = fact(tmp_path, ArtifactRules(glob="notes/*.md", min_count=3), "notes/*.md")
    assert broken(few) == [("min_count", "2 files, at least 3 required", None)]
    many = fact(tmp_path, ArtifactRules(glob="notes/*.md", max_count=1), "notes/*.md")
    assert broken(many) == [("max_count", "2 files, at most 1 allowed", None)]
    none = fact(tmp_path, ArtifactRules(glob="*.rst"), "*.rst")
    assert none.state == "absent"
    assert broken(none) == [("min_count", "0 files, at least 1 required", None)]


def test_each_file_of_a_glob_is_held_to_the_rules(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "b.md").touch()
    (tmp_path / "c.md").write_bytes(b"\xff")
    found = fact(tmp_path, ArtifactRules(glob="*.md", mime_type="text/markdown"), "*.md")
    assert found.state == "unfit"
    assert [(rule.path, rule.rule) for rule in found.rules if not rule.holds] == [
        ("b.md", "glob"),
        ("c.md", "mime_type"),
    ]


def test_entries_with_and_without_rules_are_answered_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("3")
    asked = (
        RuledPath("a", ArtifactRules(min_size=9), 0),
        "b",
        RuledPath("b", ArtifactRules(schema="true"), 0),
    )
    assert [each.state for each in look(tmp_path, *asked, "c")] == ["unfit", "file", "file", "absent"]


def test_a_path_does_not_lead_outside_for_its_content_either(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "root/a").symlink_to("../secret")
    assert fact(tmp_path / "root", ArtifactRules(schema="true")) == FileFact("outside")


@pytest.mark.parametrize(
    "schema",
    [
        '{"$ref": "http://127.0.0.1:1/schema"}',
        '{"$ref": "file:///etc/passwd"}',
        '{"pattern": "("}',
        '{"type": "made up"}',
    ],
)
def test_a_schema_that_is_none_or_leads_elsewhere_breaks_the_rule(tmp_path: Path, schema: str) -> None:
    (tmp_path / "a").write_text('"x"')
    ((rule, reason, _),) = broken(fact(tmp_path, ArtifactRules(schema=schema)))
    assert rule == "schema"
    assert reason.startswith("the schema can't be used: ")


def test_a_schema_that_takes_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ruled_artifacts, "PATIENCE_S", 2.0)
    (tmp_path / "a").write_text('"x"')
    (tmp_path / "b").write_text("3")
    asked = (
        RuledPath("b", ArtifactRules(schema='{"type": "integer"}'), 0),
        RuledPath("a", ArtifactRules(schema=DOUBLING), 0),
    )
    first, second = look(tmp_path, *asked)
    assert first.state == "file"
    assert broken(second) == [
        ("schema", "could not be checked against its schema within 10 s and 1 GB", None)
    ]


def test_a_glob_goes_through_no_more_names_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(30):
        (tmp_path / f"{at}.txt").touch()
    monkeypatch.setattr(ruled_artifacts.RuledLook, "__init__", _with(names_left=10))
    found = fact(tmp_path, ArtifactRules(glob="*.md"), "*.md")
    assert ("glob", f"more than {ruled_artifacts.MOST_NAMES} names to go through", None) in broken(found)


def test_no_more_is_read_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("x" * 100)
    monkeypatch.setattr(ruled_artifacts.RuledLook, "__init__", _with(bytes_left=50))
    assert broken(fact(tmp_path, ArtifactRules(mime_type="text/plain"))) == [
        ("mime_type", "too large to be read", None)
    ]


def _with(**limits: int) -> object:
    made = ruled_artifacts.RuledLook.__init__

    def init(self: ruled_artifacts.RuledLook, root: int) -> None:
        made(self, root)
        for name, value in limits.items():
            setattr(self, name, value)

    return init


def test_the_facts_of_rules_are_told_in_the_order_of_the_keys(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    found = fact(tmp_path, ArtifactRules(min_size=2, mime_type="text/plain", fresh=True))
    assert found.rules == (
        RuleFact("min_size", "a", True, "4 bytes, 2 are required"),
        RuleFact("fresh", "a", True, "written since the start"),
        RuleFact("mime_type", "a", True, "its content can be text/plain"),
    )
