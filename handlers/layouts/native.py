"""The native layout, version 1: `run.json`, `process.json`, `exit.json` and `flow.json` of a run directory.

Each is written whole to a temporary name and renamed, so each counts as soon as it is there. The
files are the agent's side of the story and hostile until proven otherwise: malformed content
becomes a `Complaint` that names the file and the fix.

The scanner is a parser without input and output: it gets what is new, and returns items. `daemon/rundir/` reads;
`handlers/sessions/observe.py` draws the conclusions.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.flow import Leg, flow_from_json
from runward.config.json_value import JsonValue
from runward.config.root import NATIVE
from runward.config.run_schema import CAUSES, KINDS, LONGEST_TEXT, SCHEMA
from runward.config.short_hash import sha256_hex
from runward.handlers.bundle.parts import is_part_or_temporary
from runward.handlers.foreign_json import NotJson, parse_time, read_json, sane_time
from runward.handlers.model.files import Signature
from runward.handlers.model.processes import RecordedProcess, host_with_namespace, is_ticket
from runward.handlers.model.reasons import ReasonCode, status_of
from runward.handlers.model.sessions import Complaint, Document, SessionDeclaration, Status


class Started(NamedTuple):
    """`file` says that a run began. `digest` tells one beginning from another."""

    file: str
    digest: str
    at: float
    declaration: SessionDeclaration
    launcher: RecordedProcess | None
    host: str | None


class ProcessNamed(NamedTuple):
    """The files name the process of the command itself."""

    process: RecordedProcess


class Ended(NamedTuple):
    """`file` says that the run is over, and how. `digest` tells one end from another.

    `secret` is what only the launcher of the run could know, if the file says it.
    """

    file: str
    digest: str
    at: float
    status: Status
    reason_code: ReasonCode
    reason_summary: str
    exit_code: int | None
    signal: int | None
    declared_by: Literal["daemon", "launcher"]
    secret: str | None = None


class Planned(NamedTuple):
    """`file` plans the legs of a flow. `digest` tells one plan from another.

    `modified_ns` and `changed_ns` are the file's times: what is in a leg's directory may not be older.
    """

    file: str
    digest: str
    at: float
    legs: tuple[Leg, ...]
    modified_ns: int
    changed_ns: int


Item: TypeAlias = Started | ProcessNamed | Planned | Ended | Complaint


LAYOUT: Final = NATIVE
SHOWN_BY: Final = "a `run.json`"
RUN: Final = "run.json"
PROCESS: Final = "process.json"
EXIT: Final = "exit.json"
OF_A_RUN: Final = frozenset({RUN, PROCESS, EXIT})
"""Files by which a directory is known as a native run, whatever else is in it."""
FLOW: Final = "flow.json"
DOCUMENTS: Final = (RUN, PROCESS, EXIT, FLOW)
"""What a look reads, in this order: a run that ends meanwhile is seen as ended or as running, and a plan that was
there before the end is seen with it.
"""

ARTIFACTS: Final = "artifacts"
OUTCOME_NAMES: Final = ("outcome.json", "outcomes")
"""Where outcomes are, in a run directory and among its artifacts: a file, and a directory of files."""

UNTELLING: Final = frozenset(
    {
        ARTIFACTS,
        "events.jsonl",
        "results.jsonl",
        "stdout.log",
        "stdout.log.tail",
        "stderr.log",
        "stderr.log.tail",
        "trace.jsonl",
    }
)
"""Names in a known run directory whose change alone says nothing about start or end."""

_MOST_COMPLAINTS: Final = 20


class RunName(NamedTuple):
    """What a run is known by: who it is, and when it began (Unix seconds)."""

    session_id: str
    started_at: float


class RunSays(NamedTuple):
    """What `run.json` says of who the run is: its name, if it says both its id and its start, and its launcher's."""

    name: RunName | None = None
    launcher: RunName | None = None


def session_key(root: str, directory: str) -> str:
    """The key of the session in `directory` of the root named `root`."""
    return f"{LAYOUT}:{root}/{directory}"


def place_of(key: str) -> tuple[str, str]:
    """The root's name and the directory of the session with this key."""
    root, _, directory = key.removeprefix(f"{LAYOUT}:").partition("/")
    return root, directory


def is_untelling(path: str) -> bool:
    """Whether a change of this path alone, relative to a run that is already known, can't start or end it.

    This is false for the places of outcomes: they are read while the run continues.
    """
    name, _, below = path.partition("/")
    if name == ARTIFACTS and below.partition("/")[0] in OUTCOME_NAMES:
        return False
    return name in UNTELLING or is_part_or_temporary(name)


def scan(root: str, path: str, documents: Sequence[Document]) -> Iterator[Item]:
    """What the documents say, the end last; `root` is the root's name, `path` the absolute run directory."""
    # The end comes last, whatever the order of the documents is: what began, and what was planned, must be known before
    # it.
    ends: list[tuple[Document, dict[str, JsonValue]]] = []
    for document in documents:
        value = _object(document)
        if isinstance(value, Complaint):
            yield value
        elif document.name == RUN:
            yield from _run(root, path, document, value)
        elif document.name == PROCESS:
            yield from _process(document, value)
        elif document.name == FLOW:
            yield from _flow(document, value)
        else:
            ends.append((document, value))
    for document, value in ends:
        yield from _exit(document, value)


def _object(document: Document) -> dict[str, JsonValue] | Complaint:
    if document.problem is not None:
        return Complaint(
            document.name, None, document.problem, "write a small regular JSON file, then rename it"
        )
    value = read_json(document.content)
    if isinstance(value, NotJson):
        return Complaint(
            document.name, value.line, value.message, "write it whole, then rename it into place"
        )
    if not isinstance(value, dict):
        return Complaint(document.name, 1, "does not contain a JSON object", 'write an object: {"…": …}')
    return value


def _run(root: str, path: str, document: Document, run: dict[str, JsonValue]) -> Iterator[Item]:
    schema = run.get("schema")
    if schema != SCHEMA:
        yield Complaint(
            RUN, None, f"schema is {_short(schema)}, not {SCHEMA!r}", f'write "schema": "{SCHEMA}"'
        )
        return
    complaints: list[Complaint] = []
    launcher = _recorded(run.get("launcher"))
    if "launcher" in run and run["launcher"] is not None and launcher is None:
        complaints.append(Complaint(RUN, None, "launcher is not {pid, start_ticks, boot_id}", "leave it out"))
    kind = run.get("kind", "agent")
    if kind not in KINDS:
        complaints.append(Complaint(RUN, None, f"kind is {_short(kind)}", f"use one of {', '.join(KINDS)}"))
        kind = "agent"
    started_at = _started_at(run.get("started_at"), document, complaints)
    directory = path.rsplit("/", 1)[-1]
    declaration = SessionDeclaration(
        session_id=_text(run, "session_id", complaints) or directory,
        layout=LAYOUT,
        root=root,
        path=path,
        kind=str(kind),
        artifacts_path=_artifacts_path(run.get("artifacts_path"), path, launcher is not None, complaints),
        playbook=_text(run, "playbook", complaints),
        agent=_text(run, "agent", complaints),
        invocation_id=_text(run, "invocation_id", complaints),
        containment=_text(run, "containment", complaints),
        has_snapshot="contract" in run,
        contract=run.get("contract"),
        cwd=_text(run, "cwd", complaints),
    )
    # A start that names its time or its launcher differs in its content from any other one. A start that doesn't may
    # have the very same bytes as an earlier one, if the directory is used again.
    is_named = launcher is not None or parse_time(run.get("started_at")) is not None
    digest = _digest(document) if is_named else dated_digest(document.content, document.signature.modified_ns)
    host = host_with_namespace(_text(run, "host", complaints), _namespace(run.get("launcher")))
    yield Started(
        file=RUN, digest=digest, at=started_at, declaration=declaration, launcher=launcher, host=host
    )
    yield from complaints


def who_it_is(document: Document | None) -> RunSays:
    """What a `run.json` says itself of who the run is. Nothing is taken from its place or its times there."""
    run = None if document is None else _object(document)
    if not isinstance(run, dict):
        return RunSays()
    # The place and the times of a directory change when it is copied. What it says itself doesn't.
    session_id, at = _text(run, "session_id", []), parse_time(run.get("started_at"))
    launcher = _recorded(run.get("launcher"))
    return RunSays(
        None if session_id is None or at is None else RunName(session_id, at),
        None if launcher is None else name_by_launcher(launcher),
    )


def name_by_launcher(launcher: RecordedProcess) -> RunName:
    """The name that a run has from its launcher's process, which starts one run only, or one with this ticket."""
    ticket = f" {launcher.ticket}" if launcher.ticket else ""
    return RunName(f"process {launcher.boot_id} {launcher.pid}{ticket}", float(launcher.start_ticks))


def _namespace(launcher: JsonValue) -> int | None:
    number = launcher.get("pid_namespace") if isinstance(launcher, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _started_at(value: JsonValue, document: Document, complaints: list[Complaint]) -> float:
    """When a run says that it began, or else when that was written (Unix seconds)."""
    at = parse_time(value)
    if at is not None:
        return at
    if value is not None:
        fix = "write ISO 8601 with a zone: 2026-01-31T12:00:00Z"
        complaints.append(Complaint(RUN, None, "started_at is not a time", fix))
    return sane_time(document.modified_at)


def _process(document: Document, value: dict[str, JsonValue]) -> Iterator[Item]:
    recorded = _recorded(value)
    if recorded is None:
        yield Complaint(document.name, None, "is not {pid, start_ticks, boot_id}", "leave it to the launcher")
    else:
        yield ProcessNamed(recorded)


def _flow(document: Document, value: dict[str, JsonValue]) -> Iterator[Item]:
    parsed = flow_from_json(value, FLOW)
    for problem in parsed.problems[:_MOST_COMPLAINTS]:
        yield Complaint(FLOW, None, problem.message, problem.fix)
    if parsed.value is not None:
        at, modified_ns = sane_time(document.modified_at), document.signature.modified_ns
        yield Planned(
            file=FLOW,
            digest=_plan_digest(parsed.value),
            at=at,
            legs=parsed.value,
            modified_ns=modified_ns,
            changed_ns=document.signature.changed_ns,
        )


def _plan_digest(legs: tuple[Leg, ...]) -> str:
    """A digest that stays while the legs are the same."""
    # Only the legs count, whatever else a planner keeps in the file: a plan that is only touched is not another one.
    text = repr([(leg.id, leg.agent, leg.path) for leg in legs])
    return sha256_hex(text.encode())[:16]


def _exit(document: Document, value: dict[str, JsonValue]) -> Iterator[Item]:
    exit_code, signal = value.get("exit_code"), value.get("signal")
    if not _is_whole(exit_code, 0, 0xFFFFFFFF) and exit_code is not None:
        yield _bad_exit(f"exit_code is {_short(exit_code)}", "write a number from 0 to 255, or null")
        return
    if not _is_whole(signal, 1, 127) and signal is not None:
        yield _bad_exit(f"signal is {_short(signal)}", "write the signal's number, or null")
        return
    cause = value.get("cause")
    # Only a launcher says the cause. A run that was written by hand has its exit code or its signal.
    if cause is None:
        cause = "signalled" if signal is not None else "exited"
    if cause not in CAUSES:
        yield _bad_exit(f"cause is {_short(cause)}", f"use one of {', '.join(CAUSES)}")
        return
    if cause == "exited" and exit_code is None:
        yield _bad_exit("it names neither exit_code nor signal", 'write "exit_code": 0')
        return
    error, secret = value.get("error"), value.get("secret")
    at = parse_time(value.get("finished_at"))
    code, summary = conclusion(
        str(cause),
        exit_code if isinstance(exit_code, int) else None,
        signal if isinstance(signal, int) else None,
        _clip(error) if isinstance(error, str) and error else None,
    )
    yield Ended(
        file=EXIT,
        digest=_digest(document),
        at=at if at is not None else sane_time(document.modified_at),
        status=status_of(code),
        reason_code=code,
        reason_summary=summary,
        exit_code=exit_code if isinstance(exit_code, int) else None,
        signal=signal if isinstance(signal, int) else None,
        declared_by="launcher" if "cause" in value else "daemon",
        secret=secret if isinstance(secret, str) else None,
    )


def conclusion(
    cause: str, exit_code: int | None, signal: int | None, error: str | None
) -> tuple[ReasonCode, str]:
    """How `exit.json` is read: reason code and summary."""
    detail = f": {error}" if error else ""
    # The launcher's own words may be followed by what else there is to say.
    word, semicolon, rest = (error or "").partition("; ")
    match cause:
        case "not_started":
            return "run.failed.not_started", f"it could not be started{detail}"
        case "timed_out" if word == "stale":
            return (
                "run.timed_out.stale",
                f"it was silent for longer than allowed (stale_after){semicolon}{rest}",
            )
        case "timed_out":
            return "run.timed_out.deadline", f"its deadline passed{detail}"
        case "signalled":
            which = "a signal" if signal is None else f"signal {signal}"
            return "run.failed.signal", f"killed by {which}{detail}"
        case "cancelled" if signal == 2:
            return "run.aborted.user", f"interrupted{detail}"
        case "cancelled" if signal is not None:
            return "run.cancelled.sigterm", f"told to stop by signal {signal}{detail}"
        case "cancelled" if word == "shutdown":
            return "run.cancelled.system", f"the system was shutting down{semicolon}{rest}"
        case "cancelled":
            return "run.cancelled.user", f"told to stop{detail}"
    if error:
        return "run.failed.exception", error
    if exit_code == 0:
        return "run.completed.ok", "exited with 0"
    return "run.failed.exit_nonzero", f"exited with {exit_code}"


def _digest(document: Document) -> str:
    """A digest of the content alone: it survives a move, a touch and any copy."""
    return sha256_hex(document.content)[:16]


def dated_digest(content: bytes, modified_ns: int) -> str:
    """A digest that survives a move or a faithful copy, and changes when the file is rewritten."""
    return sha256_hex(b"%d:%s" % (modified_ns, content))[:16]


def in_todays_digest(digest: str, document: Document, before: Signature | None, reported: str) -> str:
    """What is remembered about a file whose digest is `reported` now.

    `digest` is what is remembered, `before` the file's signature then.
    """
    # Earlier versions remembered a digest of content and time for every file. It is recognised by the file's time then.
    if before is None or reported == dated_digest(document.content, document.signature.modified_ns):
        return digest
    return reported if digest == dated_digest(document.content, before.modified_ns) else digest


def _bad_exit(message: str, fix: str) -> Complaint:
    return Complaint(EXIT, None, message, fix)


def _recorded(value: JsonValue) -> RecordedProcess | None:
    if not isinstance(value, dict):
        return None
    pid, ticks, boot = value.get("pid"), value.get("start_ticks"), value.get("boot_id")
    if not _is_whole(pid, 1, 2**31 - 1) or not _is_whole(ticks, 0, 2**63 - 1):
        return None
    if not isinstance(boot, str) or not boot or len(boot) > 64:
        return None
    assert isinstance(pid, int)
    assert isinstance(ticks, int)
    ticket = value.get("ticket", "")
    return RecordedProcess(pid, ticks, boot, ticket if isinstance(ticket, str) and is_ticket(ticket) else "")


def _is_whole(value: JsonValue, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _text(run: dict[str, JsonValue], key: str, complaints: list[Complaint]) -> str | None:
    value = run.get(key)
    if value is None:
        return None
    if isinstance(value, str) and 0 < len(value) <= LONGEST_TEXT and "\0" not in value:
        return value
    complaints.append(Complaint(RUN, None, f"{key} is {_short(value)}", f"write {key} as a short text"))
    return None


def _artifacts_path(value: JsonValue, path: str, launched: bool, complaints: list[Complaint]) -> str:
    if value is None:
        return f"{path}/artifacts"
    if isinstance(value, str) and 0 < len(value) <= LONGEST_TEXT and "\0" not in value:
        if value.startswith("/"):
            if launched:
                return value
        elif not any(part in ("", ".", "..") for part in value.split("/")):
            return f"{path}/{value}"
    complaints.append(
        Complaint(
            RUN,
            None,
            f"artifacts_path is {_short(value)}",
            "name a directory inside the run directory; only the launcher may name another",
        )
    )
    return f"{path}/artifacts"


def _short(value: JsonValue) -> str:
    return _clip(repr(value))


def _clip(text: str) -> str:
    return text if len(text) <= 200 else text[:200] + "…"
