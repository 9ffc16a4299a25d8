"""`receipt verify`: whether the three parts of a bundle belong together and nothing in them was changed.

The caller reads the files; this module says what follows from them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from runward.config.json_value import JsonValue
from runward.config.problem import quoted
from runward.handlers.bundle.canonical import NotCanonical, has_plain_numbers, parse
from runward.handlers.bundle.parts import RECEIPT, REPLAY, SUMMARY
from runward.handlers.bundle.receipt import (
    ReceiptForm,
    field_problems,
    file_entry,
    form_of,
    hash_form_of,
    receipt_hash,
    receipt_text,
)
from runward.handlers.bundle.replay_check import (
    BundleProblem,
    HashCounts,
    ReplayedCall,
    ReplayFacts,
    quoted_hash,
)
from runward.handlers.bundle.replay_lines import is_number
from runward.handlers.bundle.summary import names_session

SignatureState: TypeAlias = Literal["valid", "invalid", "absent", "unknown_key"]
Proof: TypeAlias = Literal["consistent", "unchanged", "recorded", "signed"]
"""What a valid bundle proves.

- consistent: its parts agree with each other
- unchanged: no byte of them has changed since the receipt was made
- recorded: they are those that the store recorded
- signed: an authorized key signed the receipt
"""
MOST_FIELD_PROBLEMS: Final = 200


class Unread(NamedTuple):
    """Why a part could not be read."""

    why: str


class FileFacts(NamedTuple):
    """A part as a file. `sha256` is in hex, None if the file is too large to hash."""

    sha256: str | None
    size: int


class Recorded(NamedTuple):
    """What the store recorded about a bundle: the receipt's hash, and the other parts by their plain names.

    Without a hash it recorded that there is no receipt, and `why`.
    """

    receipt_hash: str | None
    files: dict[str, FileFacts]
    why: str | None = None


@dataclass(frozen=True, slots=True)
class ReadReceipt:
    """A receipt as it was read, with the problems of the receipt alone. `fields` is None if it cannot be read."""

    fields: dict[str, JsonValue] | None
    problems: tuple[BundleProblem, ...]

    @property
    def form(self) -> ReceiptForm | None:
        return None if self.fields is None else form_of(self.fields)


class Verified(NamedTuple):
    """The answer of `receipt verify`. `is_compared` says whether the store knew the bundle."""

    valid: bool
    form: ReceiptForm | None
    signature: SignatureState
    hashes: HashCounts
    problems: tuple[BundleProblem, ...]
    is_compared: bool

    @property
    def proves(self) -> tuple[Proof, ...]:
        """What the bundle proves, if it is valid."""
        held: dict[Proof, bool] = {
            "consistent": True,
            "unchanged": self.form == "runward",
            "recorded": self.is_compared,
            "signed": self.signature == "valid",
        }
        return tuple(each for each, holds in held.items() if holds and self.valid)

    def as_json(self) -> dict[str, JsonValue]:
        """The answer as `receipt verify --json` prints it."""
        return {
            "valid": self.valid,
            "form": self.form,
            "proves": list(self.proves),
            "compared": self.is_compared,
            "signature": self.signature,
            "hashes": self.hashes.as_json(),
            "problems": [
                {"part": each.part, "line": each.line, "field": each.field, "message": each.message}
                for each in self.problems
                if each.severity == "error"
            ],
        }


def read_receipt(content: bytes) -> ReadReceipt:
    """The fields of a receipt, and what is wrong with them and their text."""
    if not content:
        return ReadReceipt(None, (_of_receipt("the file is empty"),))
    own = _with_its_one_text(content)
    try:
        value = parse(content) if own is None else own
    except NotCanonical as refused:
        return ReadReceipt(None, (BundleProblem(RECEIPT, refused.line, None, refused.message),))
    if not isinstance(value, dict):
        return ReadReceipt(None, (_of_receipt("not a JSON object"),))
    problems = [BundleProblem(RECEIPT, None, each.field, each.message) for each in field_problems(value)]
    if len(problems) > MOST_FIELD_PROBLEMS:
        left = len(problems) - MOST_FIELD_PROBLEMS
        problems = [*problems[:MOST_FIELD_PROBLEMS], _of_receipt(f"{left} more problems are not listed")]
    if form_of(value) == "runward":
        if own is None:
            line = _first_difference(content, receipt_text(value))
            message = "the text of the receipt does not match its fields"
            problems.append(BundleProblem(RECEIPT, line, None, message))
        problems += _own_hash(value)
    return ReadReceipt(value, tuple(problems))


def _with_its_one_text(content: bytes) -> dict[str, JsonValue] | None:
    """The fields of a receipt whose text is the only valid one, so that no strict reader is needed; else None."""
    try:
        value: JsonValue = msgspec.json.decode(content)
        # If the fields give this very text, reading lost nothing, and no strict reader is needed.
        is_own = isinstance(value, dict) and receipt_text(value) == content
    except (ValueError, RecursionError):
        return None  # the strict reader reports what is wrong with it
    return value if isinstance(value, dict) and is_own and has_plain_numbers(value) else None


def _own_hash(fields: dict[str, JsonValue]) -> Iterator[BundleProblem]:
    """Whether a receipt in Runward's form has its own hash."""
    try:
        computed = receipt_hash(fields, hash_form_of(fields))
    except NotCanonical as refused:
        yield BundleProblem(RECEIPT, None, "receipt_hash", f"no hash can be computed: {refused}")
        return
    if fields.get("receipt_hash") != computed:
        stated = quoted_hash(fields.get("receipt_hash"))
        message = f"the receipt was changed: its hash is {computed}, not {stated}"
        yield BundleProblem(RECEIPT, None, "receipt_hash", message)


def _first_difference(content: bytes, expected: bytes) -> int:
    left, right = content.split(b"\n"), expected.split(b"\n")
    pairs = zip(left, right, strict=False)
    return next((number for number, (a, b) in enumerate(pairs, 1) if a != b), min(len(left), len(right)))


def replay_problems(
    receipt: ReadReceipt, facts: ReplayFacts, file_facts: FileFacts, checked: Iterable[BundleProblem]
) -> Iterator[BundleProblem]:
    """The problems of the replay alone, and those in comparison with the receipt."""
    yield from _file(receipt, REPLAY, file_facts)
    yield from (each for each in checked if each.severity == "error")
    if receipt.fields is not None:
        yield from differences(receipt.fields, facts)


def summary_problems(receipt: ReadReceipt, content: bytes, file_facts: FileFacts) -> Iterator[BundleProblem]:
    """What is wrong with the summary, compared with the receipt."""
    yield from _file(receipt, SUMMARY, file_facts)
    if receipt.fields is None:
        return
    session_id = receipt.fields.get("session_id")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        yield BundleProblem(SUMMARY, None, None, "not UTF-8")
        return
    if isinstance(session_id, str) and not names_session(text, session_id):
        yield BundleProblem(
            SUMMARY, None, "session_id", f"the summary does not name the session of {RECEIPT}"
        )


def _file(receipt: ReadReceipt, part: str, file_facts: FileFacts) -> Iterator[BundleProblem]:
    """Whether a part is the file whose hash and size a receipt in Runward's form records."""
    files = receipt.fields.get("files") if receipt.fields is not None and receipt.form == "runward" else None
    entry = files.get(part) if isinstance(files, dict) else None
    if not isinstance(entry, dict):
        return
    if entry.get("size") != file_facts.size:
        message = f"the file has {file_facts.size} bytes, and {RECEIPT} says {entry.get('size')}"
        yield BundleProblem(part, None, f"files.{part}.size", message)
    stated = f"sha256:{file_facts.sha256}"
    if entry.get("sha256") != stated:
        message = f"the file was changed: its hash is {stated}, not {quoted_hash(entry.get('sha256'))}"
        yield BundleProblem(part, None, f"files.{part}.sha256", message)


def record_problems(receipt: ReadReceipt, recorded: Recorded) -> Iterator[BundleProblem]:
    """Whether a receipt is the one that the store recorded."""
    if receipt.fields is None:
        return  # it was reported that it cannot be read
    stated = receipt.fields.get("receipt_hash")
    if recorded.receipt_hash is None:
        yield _of_receipt(f"the store recorded that there is no receipt: {recorded.why}")
        return
    # A receipt that was made again from changed files is right in itself. Only the store shows that it is another one.
    if stated != recorded.receipt_hash:
        message = f"the store recorded {recorded.receipt_hash}, not {quoted_hash(stated)}"
        yield BundleProblem(RECEIPT, None, "receipt_hash", message)
    files = receipt.fields.get("files")
    for part, file in recorded.files.items():
        entry = files.get(part) if isinstance(files, dict) else None
        if entry != file_entry(str(file.sha256), file.size):
            message = (
                f"the store recorded sha256:{file.sha256} and {file.size} bytes, not what {RECEIPT} says"
            )
            yield BundleProblem(part, None, f"files.{part}", message)


def missing_part(part: str, why: str) -> BundleProblem:
    """The problem of a part that cannot be read."""
    return BundleProblem(part, None, None, why)


def _of_receipt(message: str) -> BundleProblem:
    return BundleProblem(RECEIPT, None, None, message)


def verdict(
    receipt: ReadReceipt,
    hashes: HashCounts,
    problems: Iterable[BundleProblem],
    signature: SignatureState,
    require_signature: bool,
    is_compared: bool,
) -> Verified:
    """The answer, from everything that was found."""
    every = [*receipt.problems, *problems]
    # It counts as what was reported first. Unchecked does not mean valid.
    if any(each.field == "signature" for each in every):
        pass  # it was reported why the signature does not count
    elif signature == "invalid":
        every.append(BundleProblem(RECEIPT, None, "signature", "the signature is wrong"))
    elif require_signature and signature != "valid":
        why = (
            "the receipt is not signed"
            if signature == "absent"
            else "the signature is by a key that is not authorized"
        )
        every.append(BundleProblem(RECEIPT, None, "signature", why))
    valid = not any(each.severity == "error" for each in every)
    hashes.parts = _hashed_parts(receipt)
    return Verified(
        valid=valid,
        form=receipt.form,
        signature=signature,
        hashes=hashes,
        problems=tuple(every),
        is_compared=is_compared,
    )


def _hashed_parts(receipt: ReadReceipt) -> int:
    """How many hashes over the receipt and whole parts were recomputed: none in the seed's form, which has none."""
    if receipt.fields is None or receipt.form != "runward":
        return 0
    files = receipt.fields.get("files")
    return 1 + (len({REPLAY, SUMMARY} & files.keys()) if isinstance(files, dict) else 0)


TOLERANCE: Final = 1e-6
"""How far utilities may differ: some writers keep them in 32 bits."""
_NAMED: Final = 100
"""Missing or extra calls that are named; the rest are counted."""


def differences(fields: dict[str, JsonValue], facts: ReplayFacts) -> Iterator[BundleProblem]:
    """Every difference between the two, with the line of the replay and the field of the receipt."""
    start = facts.start or {}
    if facts.start is not None and fields.get("session_id") != start.get("session_id"):
        yield _differ(facts.start_line, "session_id", start.get("session_id"), fields.get("session_id"))
    yield from _calls(fields.get("tool_calls"), facts.calls)
    yield from _verification(fields.get("verification"), facts)
    if facts.end is not None:
        last_confidence, confidence = facts.end.get("confidence"), fields.get("final_confidence")
        if not _same_number(last_confidence, confidence):
            yield _differ(facts.end_line, "final_confidence", last_confidence, confidence)


def _differ(line: int | None, field: str, in_replay: JsonValue, in_receipt: JsonValue) -> BundleProblem:
    message = f"{_said(in_replay)} in the replay, {_said(in_receipt)} in {RECEIPT}"
    return BundleProblem(REPLAY, line, field, message)


def _said(value: JsonValue) -> str:
    if value is None:
        return "null"
    return (
        value if isinstance(value, str) and value.startswith("sha256:") and len(value) < 80 else quoted(value)
    )


def _calls(stated: JsonValue, replayed: list[ReplayedCall]) -> Iterator[BundleProblem]:
    if not isinstance(stated, list) or not all(isinstance(each, dict) for each in stated):
        return  # the check of the fields reported it
    calls = [each for each in stated if isinstance(each, dict)]
    ids = [_text(call.get("id")) for call in calls]
    in_replay = [call.id for call in replayed]
    if ids == in_replay:
        for index, (call, other) in enumerate(zip(calls, replayed, strict=True)):
            yield from _call(index, call, other)
        return
    yield from _missing_or_extra(ids, replayed)
    yield from _matching(calls, ids, replayed)


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _missing_or_extra(ids: list[str], replayed: list[ReplayedCall]) -> Iterator[BundleProblem]:
    missing = Counter(call.id for call in replayed) - Counter(ids)
    extra = Counter(ids) - Counter(call.id for call in replayed)
    # The same calls are there, so only their order differs.
    if not missing and not extra:
        index = next(index for index, call in enumerate(replayed) if call.id != ids[index])
        message = f"the calls are in another order: {quoted(replayed[index].id)} in the replay, {quoted(ids[index])} in {RECEIPT}"
        yield BundleProblem(REPLAY, replayed[index].line, f"tool_calls[{index}].id", message)
        return
    named = 0
    for call in reversed(replayed):
        if missing[call.id] > 0 and named < _NAMED:
            missing[call.id] -= 1
            named += 1
            yield BundleProblem(
                REPLAY, call.line, "tool_calls", f"the call {quoted(call.id)} is not in {RECEIPT}"
            )
    for index in range(len(ids) - 1, -1, -1):
        if extra[ids[index]] > 0 and named < _NAMED:
            extra[ids[index]] -= 1
            named += 1
            message = f"the call {quoted(ids[index])} of {RECEIPT} is not in the replay"
            yield BundleProblem(REPLAY, None, f"tool_calls[{index}]", message)
    left = sum(missing.values()) + sum(extra.values())
    if left:
        yield BundleProblem(REPLAY, None, "tool_calls", f"{left} more calls are in only one of the two")


def _matching(
    calls: list[dict[str, JsonValue]], ids: list[str], replayed: list[ReplayedCall]
) -> Iterator[BundleProblem]:
    """The differences in the calls that both have, matched by their ids."""
    waiting: dict[str, list[int]] = {}
    # Two calls may have one id. They are paired in order, so the last of the list is the first one.
    for index in range(len(ids) - 1, -1, -1):
        waiting.setdefault(ids[index], []).append(index)
    for other in replayed:
        queue = waiting.get(other.id)
        if queue:
            index = queue.pop()
            yield from _call(index, calls[index], other)


def _call(index: int, call: dict[str, JsonValue], other: ReplayedCall) -> Iterator[BundleProblem]:
    within = f"tool_calls[{index}]."
    if call.get("tool") != other.tool:
        yield _differ(other.line, f"{within}tool", other.tool, call.get("tool"))
    if call.get("params_hash") != other.params_hash:
        yield _differ(other.line, f"{within}params_hash", other.params_hash, call.get("params_hash"))
    line = other.result_line or other.line
    if call.get("output_hash") != other.output_hash:
        yield _differ(line, f"{within}output_hash", other.output_hash, call.get("output_hash"))
    if not _same_number(other.step_utility, call.get("step_utility"), TOLERANCE):
        yield _differ(line, f"{within}step_utility", other.step_utility, call.get("step_utility"))
    if not _same_number(other.latency_ms, call.get("latency_ms")):
        yield _differ(line, f"{within}latency_ms", other.latency_ms, call.get("latency_ms"))


def _same_number(left: JsonValue, right: JsonValue, tolerance: float = 0.0) -> bool:
    if is_number(left) and is_number(right):
        return left == right or abs(left - right) <= tolerance
    return left is None and right is None


def _verification(stated: JsonValue, facts: ReplayFacts) -> Iterator[BundleProblem]:
    if not isinstance(stated, dict):
        return
    verification = facts.verification or {}
    line = facts.verification_line
    for key, in_receipt in (("commands", "commands_run"), ("exit_codes", "exit_codes")):
        if (verification.get(key) or []) != (stated.get(in_receipt) or []):
            yield _differ(line, f"verification.{in_receipt}", verification.get(key), stated.get(in_receipt))
    delta = stated.get("verification_delta")
    if not _same_number(verification.get("verification_delta"), delta):
        yield _differ(line, "verification.verification_delta", verification.get("verification_delta"), delta)
