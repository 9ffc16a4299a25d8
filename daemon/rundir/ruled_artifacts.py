"""Facts about artifacts whose contract asks for more than a non-empty file: globs, types, schemas.

The run is hostile, and its files are read. So what is searched and read for all entries together is bounded, and
whatever exceeds the bounds breaks its rule.
"""

import codecs
import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from runward.config.artifact_rules import TEXT_TYPES, ArtifactRules
from runward.config.glob_rule import path_matches
from runward.config.path_rule import names_in
from runward.config.problem import counted
from runward.daemon.rundir import schema_child
from runward.daemon.rundir.opening import LISTED, REGULAR, held, opened, opened_below
from runward.daemon.rundir.resolving import fact_at, modified_ns, refusal, resolve
from runward.handlers.foreign_json import NotJson, line_of, read_json
from runward.handlers.model.files import FileFact, Match, RuledPath, RuleFact

MOST_NAMES: Final = 20_000
"""The maximum number of names that are examined for all globs of a contract."""

DEEPEST: Final = 32
"""Directories that a glob goes down."""

MOST_MATCHES: Final = 1000
"""Files that one glob may find."""

MOST_READ: Final = 64 << 20
"""Bytes that are read for all rules of a contract."""

LARGEST_JSON: Final = 4 << 20
"""Bytes of a file that is checked against a JSON Schema."""

PATIENCE_S: Final = 20.0
"""How long the process may take that checks documents against schemas. Its processor time is limited, too."""

_HEAD: Final = 8192
_CHUNK: Final = 1 << 20


@dataclass
class _Check:
    """A document to check against a schema, and the fact that waits for it."""

    schema: str
    path: str
    document: str
    result: RuleFact | None = None


@dataclass
class RuledLook:
    """A look at the entries of one contract, and what it may still search and read."""

    root: int
    names_left: int = MOST_NAMES
    bytes_left: int = MOST_READ
    _checks: list[_Check] = field(default_factory=list)

    def facts(self, ruled: Sequence[RuledPath]) -> list[FileFact]:
        """A fact for each entry. Raises `OSError` if the machine is at fault: then nothing is known."""
        looked = [self._look(each) for each in ruled if each.rules.profile is None]
        _hold(self._checks)
        settled = (_settled(*each) for each in looked)
        of_profile = iter(self._of_profile([each.path for each in ruled if each.rules.profile is not None]))
        return [next(settled if each.rules.profile is None else of_profile) for each in ruled]

    def _of_profile(self, paths: Sequence[str]) -> list[FileFact]:
        if not paths:
            return []
        from runward.daemon.rundir.ctcp_run import ctcp_facts  # imported here because only profiles need it

        return ctcp_facts(self.root, paths)

    def _look(self, ruled: RuledPath) -> tuple[FileFact, list["RuleFact | _Check"]]:
        if ruled.rules.glob is not None:
            return self._look_at_all(ruled, ruled.rules.glob)
        if ruled.rules.is_outcome:
            return FileFact("absent"), []
        fact = fact_at(self.root, ruled.path)
        if fact.state != "file":
            return fact, []
        return fact, self._held(ruled, Match(ruled.path, fact.size, fact.modified_ns))

    def _look_at_all(self, ruled: RuledPath, glob: str) -> tuple[FileFact, list["RuleFact | _Check"]]:
        wanted = "/" + "/".join(names_in(glob))
        matches: list[Match] = []
        complete = True
        for path, status in self._walk():
            if len(matches) > MOST_MATCHES:
                break
            if path is None:
                complete = False
                break
            if stat.S_ISREG(status.st_mode) and path_matches(f"/{path}", wanted):
                matches.append(Match(path, status.st_size, modified_ns(status)))
        rules: list[RuleFact | _Check] = [_count(ruled.rules, glob, matches)]
        if not complete:
            rules.append(RuleFact("glob", glob, False, f"more than {MOST_NAMES} names to go through"))
        for each in matches[:MOST_MATCHES]:
            if each.size == 0:
                rules.append(RuleFact("glob", each.path, False, "empty"))
            else:
                rules += self._held(ruled, each)
        if not matches and complete:
            return FileFact("absent", rules=()), rules
        return FileFact(
            "file", sum(each.size for each in matches), 0, (), tuple(matches[:MOST_MATCHES])
        ), rules

    def _walk(self) -> Iterator[tuple[str | None, os.stat_result]]:
        """Everything below the root with its path; no link is followed. A path of None: there is more."""
        todo: list[tuple[str, int]] = [("", 0)]
        while todo:
            directory, depth = todo.pop()
            try:
                names = self._names(directory)
            except OSError as error:
                refusal(error)  # raises if the machine is at fault
                continue
            for name, status in names:
                path = f"{directory}/{name}" if directory else name
                self.names_left -= 1
                yield (path if self.names_left >= 0 else None), status
                if stat.S_ISDIR(status.st_mode) and depth < DEEPEST:
                    todo.append((path, depth + 1))

    def _names(self, directory: str) -> list[tuple[str, os.stat_result]]:
        with (
            opened_below(self.root, names_in(directory)) as place,
            opened(".", LISTED, place) as descriptor,
        ):
            with os.scandir(descriptor) as entries:
                names: list[str] = []
                for each in entries:
                    if len(names) > self.names_left:
                        break
                    names.append(each.name)
            statuses = []
            # The order of a directory is by chance. A search that ends early must find the same files again.
            for name in sorted(names):
                try:
                    name.encode()
                    statuses.append((name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)))
                except (FileNotFoundError, UnicodeEncodeError):
                    continue
            return statuses

    def _held(self, ruled: RuledPath, file: Match) -> list["RuleFact | _Check"]:
        """The rules for one existing file."""
        rules = ruled.rules
        results: list[RuleFact | _Check] = []
        if rules.min_size:
            what = f"{counted(file.size, 'byte', 'bytes')}, {rules.min_size} are required"
            results.append(RuleFact("min_size", file.path, file.size >= rules.min_size, what))
        if rules.fresh:
            fresh = file.modified_ns >= ruled.since_ns
            what = "written since the start" if fresh else "not written since the start"
            results.append(RuleFact("fresh", file.path, fresh, what))
        if rules.mime_type is not None or rules.schema is not None:
            results += self._of_content(rules, file)
        return results

    def _of_content(self, rules: ArtifactRules, file: Match) -> list["RuleFact | _Check"]:
        keys = [key for key in ("mime_type", "schema") if getattr(rules, key) is not None]
        try:
            descriptor = _open(self.root, file.path)
        except OSError as error:
            refusal(error)
            descriptor = None
        if descriptor is None:
            return [RuleFact(key, file.path, False, "can't be read") for key in keys]
        results: list[RuleFact | _Check] = []
        with held(descriptor):
            if rules.mime_type is not None:
                results.append(self._type(rules.mime_type, file.path, descriptor))
            if rules.schema is not None:
                results.append(self._schema(rules.schema, file.path, descriptor))
        return results

    def _read(self, descriptor: int, most: int) -> bytes | None:
        """All of the file, None if it is larger."""
        most = min(most, self.bytes_left)
        content = b""
        while len(content) <= most and (piece := os.pread(descriptor, _CHUNK, len(content))):
            content += piece
        self.bytes_left -= len(content)
        return content if len(content) <= most else None

    def _type(self, wanted: str, path: str, descriptor: int) -> RuleFact:
        head = os.pread(descriptor, _HEAD, 0)
        if wanted.startswith("text/") or wanted in TEXT_TYPES:
            return self._text(wanted, path, descriptor)
        import filetype

        mime_type = filetype.guess_mime(head)
        return RuleFact(
            "mime_type",
            path,
            fnmatchcase(mime_type or "", wanted),
            f"its content is {mime_type or 'unknown'}",
        )

    def _text(self, wanted: str, path: str, descriptor: int) -> RuleFact:
        content = self._read(descriptor, MOST_READ)
        if content is None:
            return RuleFact("mime_type", path, False, "too large to be read")
        try:
            codecs.utf_8_decode(content, "strict", True)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            return RuleFact("mime_type", path, False, f"not text: byte {error.start} is not UTF-8", line)
        at = content.find(b"\0")
        if at != -1:
            line = content.count(b"\n", 0, at) + 1
            return RuleFact("mime_type", path, False, f"not text: byte {at} is NUL", line)
        if wanted == "application/json":
            value = read_json(content)
            if isinstance(value, NotJson):
                return RuleFact("mime_type", path, False, value.message, value.line)
        elif wanted in TEXT_TYPES and not content.lstrip().startswith(b"<"):
            return RuleFact("mime_type", path, False, "does not begin with '<'", 1)
        return RuleFact("mime_type", path, True, f"its content can be {wanted}")

    def _schema(self, schema: str, path: str, descriptor: int) -> "RuleFact | _Check":
        content = self._read(descriptor, LARGEST_JSON)
        if content is None:
            return RuleFact("schema", path, False, f"larger than {LARGEST_JSON >> 20} MiB")
        value = read_json(content)
        if isinstance(value, NotJson):
            return RuleFact("schema", path, False, value.message, value.line)
        check = _Check(schema, path, content.decode("utf-8-sig"))
        self._checks.append(check)
        return check


def _open(root: int, path: str) -> int | None:
    """A descriptor to read the regular file from. Raises `OSError`."""
    target = resolve(root, names_in(path))
    if isinstance(target, FileFact):
        return None
    try:
        if not stat.S_ISREG(target.status.st_mode):
            return None
        return os.open(target.name, REGULAR, dir_fd=target.directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    finally:
        os.close(target.directory)


def _count(rules: ArtifactRules, glob: str, matches: Sequence[Match]) -> RuleFact:
    there = "more than 1000 files" if len(matches) > MOST_MATCHES else counted(len(matches), "file", "files")
    if len(matches) < rules.min_count:
        return RuleFact("min_count", glob, False, f"{there}, at least {rules.min_count} required")
    most = MOST_MATCHES if rules.max_count is None else rules.max_count
    if len(matches) > most:
        return RuleFact("max_count", glob, False, f"{there}, at most {most} allowed")
    return RuleFact("min_count", glob, True, there)


def _hold(checks: Sequence[_Check]) -> None:
    """Check the documents against their schemas, in a separate process."""
    if not checks:
        return
    words = [sys.executable, "-I", schema_child.__file__]
    checked = json.dumps([[each.schema, each.document] for each in checks]).encode()
    try:
        # A schema can take years and gigabytes. What ends that process leaves a line for each document before it.
        ran = subprocess.run(words, input=checked, capture_output=True, timeout=PATIENCE_S, check=False)
        output = ran.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    lines = output.split(b"\n")[:-1]
    for at, check in enumerate(checks):
        check.result = _result(check, json.loads(lines[at])) if at < len(lines) else RuleFact(
            "schema", check.path, False, "could not be checked against its schema within 10 s and 1 GB"
        )  # fmt: skip


def _result(check: _Check, answer: list[object] | None) -> RuleFact:
    if answer is None:
        return RuleFact("schema", check.path, True, "holds")
    message, path = answer
    assert isinstance(path, list)
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    problem = f"{where}: {message}" if where else str(message)
    return RuleFact("schema", check.path, False, problem, line_of(check.document, path))


def _settled(fact: FileFact, rules: Sequence[RuleFact | _Check]) -> FileFact:
    """The fact with the result of its rules."""
    results = tuple(
        each for each in (rule.result if isinstance(rule, _Check) else rule for rule in rules) if each
    )
    broken = fact.state == "file" and not all(each.holds for each in results)
    return fact._replace(rules=results, state="unfit" if broken else fact.state)
