"""Strict JSON: no duplicate keys, no NaN, bounded. For what people write into variables and options."""

import json
from itertools import islice
from typing import Final, NoReturn

from runward.config.document import Document
from runward.config.plain_data import MAX_BYTES, MAX_INTEGER, not_plain
from runward.config.problem import MAX_PROBLEMS, Parsed, Problem, quoted

_MAX_DIGITS: Final = 400


def read_json(text: str, name: str) -> Parsed[Document]:
    """The document in `text`, which came from `name`, or what is wrong with it. It has no places. Never raises."""
    if len(text) > MAX_BYTES:
        return _refused(name, f"is larger than {MAX_BYTES >> 20} MiB", "split it")
    try:
        root = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=_table,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=float,
        )
    except json.JSONDecodeError as error:
        message = f"is not JSON: {error.msg}"
        return Parsed(None, (Problem(name, error.lineno, error.colno, message, "write it as JSON"),))
    except _RefusedError as error:
        return _refused(name, str(error), "write each key once and finite numbers only")
    except RecursionError:
        return _refused(name, "is nested too deeply to be read", "nest less")
    document = Document(name, root, {})
    faults = list(islice(not_plain(root), MAX_PROBLEMS))
    return Parsed(None, document.problems(faults)) if faults else Parsed(document)


class _RefusedError(Exception):
    """JSON that Python's reader would accept, but that is ambiguous."""


def _table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in table if keys.count(key) > 1)
        raise _RefusedError(f"key {quoted(twice)} appears twice")
    return table


def _constant(word: str) -> NoReturn:
    raise _RefusedError(f"{word} is not JSON")


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else MAX_INTEGER + 1


def _refused(name: str, message: str, fix: str) -> Parsed[Document]:
    return Parsed(None, (Problem(name, None, None, message, fix),))
