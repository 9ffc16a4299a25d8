"""The rule for a contract's paths: relative, and inside the directory they are relative to.

It judges the text alone, as ADR-0029's `_safe_join` does before it looks at the disk. The code that opens the file
must check that no link leads out."""

from runward.config.problem import TextError

GLOB_CHARACTERS = "*?[]"
MAX_PATH_BYTES = 1024
PATH_PATTERN = r"^(?!/)(?!(.*/)?\.\.(/|$))(?!(\.?/)*\.?$)[^*?\[\]\u0000]+$"
"""The rule as a regular expression for JSON Schemas, as far as one can say it."""

MAX_NAME_BYTES = 255
"""Linux's own limit (NAME_MAX) for one part of a path."""


class PathRuleError(TextError):
    """A path that the rule refuses."""


def relative_parts(path: str) -> tuple[str, ...]:
    """The names from the root down to the file, at least one. Raises `PathRuleError`.

    As in ADR-0029, which reads a path as `PurePosixPath` does, `a//b`, `./a/b` and `a/b/` are all `a/b`.
    """
    if not path:
        raise PathRuleError("is empty", "name the file, relative to the run's artifacts")
    if path.startswith("/"):
        raise PathRuleError("is an absolute path", "write it relative to the run's artifacts")
    _refuse_characters(path)
    parts = tuple(names_in(path))
    if ".." in parts:
        raise PathRuleError("has a '..' in it", "name a file below the run's artifacts")
    if not parts:
        raise PathRuleError("is the directory itself", "name a file in it")
    _refuse_length(path, parts)
    return parts


def names_in(path: str) -> list[str]:
    """The names that a path goes through, as `PurePosixPath` reads it."""
    return [name for name in path.split("/") if name not in ("", ".")]


def _refuse_characters(path: str) -> None:
    glob_characters = [char for char in GLOB_CHARACTERS if char in path]
    if glob_characters:
        raise PathRuleError(
            f"has a glob character in it: {' '.join(glob_characters)}", "list each file by its own name"
        )
    if "\0" in path:
        raise PathRuleError("has a NUL character in it", "remove it")


def _refuse_length(path: str, parts: tuple[str, ...]) -> None:
    try:
        # In bytes, as the kernel counts.
        longest, whole = max(len(part.encode()) for part in parts), len(path.encode())
    except UnicodeEncodeError:
        raise PathRuleError("is not valid Unicode text", "remove the lone surrogate") from None
    if longest > MAX_NAME_BYTES:
        raise PathRuleError(f"has a name of more than {MAX_NAME_BYTES} bytes in it", "shorten it")
    if whole > MAX_PATH_BYTES:
        raise PathRuleError(f"is longer than {MAX_PATH_BYTES} bytes", "shorten it")
