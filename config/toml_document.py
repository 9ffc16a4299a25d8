"""Strict TOML: `tomllib` reads it, and what it reads must be plain data with known places."""

import re
import tomllib
from itertools import islice
from typing import Final

from runward.config.document import Document
from runward.config.plain_data import MAX_BYTES, MAX_DEPTH, not_plain
from runward.config.problem import MAX_PROBLEMS, Parsed, Problem
from runward.config.toml_positions import toml_positions

_PLACE_IN_MESSAGE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


_PART: Final = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEP_KEY: Final = re.compile(
    rf"(?:^|[\[{{,])[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MAX_DEPTH}}}", re.MULTILINE
)
"""A key that is nested too deeply to be read. In a text it would be refused, too, which nobody has written yet."""


def line_of_deep_key(text: str) -> int | None:
    """The line of a key with so many parts that `tomllib`, which takes the square of their number, could take minutes."""
    found = _DEEP_KEY.search(text)
    return None if found is None else text.count("\n", 0, found.end()) + 1


def read_toml(text: str, name: str) -> Parsed[Document]:
    """The document in `text`, which came from file `name`, or everything that is wrong with it. Never raises."""
    text = text.removeprefix("\ufeff")
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        return _refused(name, f"is larger than {MAX_BYTES >> 20} MiB", "split it")
    line = line_of_deep_key(text)
    if line is not None:
        return Parsed(
            None, (Problem(name, line, None, f"a key is nested more than {MAX_DEPTH} deep", "nest less"),)
        )
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Parsed(None, (_syntax_problem(text, name, str(error)),))
    except ValueError:
        return _refused(name, "a number here is out of bounds", "put it in quotes")
    except RecursionError:
        return _refused(name, "is nested too deeply to be read", "nest less")
    faults = list(islice(not_plain(root), MAX_PROBLEMS))
    too_deep = any("nested" in fault.message for fault in faults)
    document = Document(name, root, {} if too_deep else toml_positions(text))
    return Parsed(None, document.problems(faults)) if faults else Parsed(document)


def _syntax_problem(text: str, name: str, message: str) -> Problem:
    found = _PLACE_IN_MESSAGE.search(message)
    line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
    if found and found[1]:
        line, column = int(found[1]), int(found[2])
    message = message[: found.start()] if found else message
    fix = "correct it; texts and durations need quotes"
    return Problem(name, line, column, f"is not TOML: {message[:1].lower()}{message[1:]}", fix)


def _refused(name: str, message: str, fix: str) -> Parsed[Document]:
    return Parsed(None, (Problem(name, None, None, message, fix),))
