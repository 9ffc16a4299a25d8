"""The worktree of a step: a fresh checkout of a git repository, in which its command starts."""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from runward.config.chain_checks import check_keys
from runward.config.json_value import JsonValue
from runward.config.problem import Complaint, Location, kind, quoted
from runward.config.shape import Complain

Keep: TypeAlias = Literal["never", "on_failure", "always"]
KEEPS: Final[tuple[Keep, ...]] = ("never", "on_failure", "always")


class Worktree(NamedTuple):
    """The repository and the revision to check out, as they were written: texts with expressions in them.

    `keep` says when the worktree stays after the step's end.
    """

    repo: str
    ref: str
    keep: Keep = "on_failure"

    def is_kept(self, has_failed: bool) -> bool:
        """Whether it stays after the end of a step that failed or did not."""
        return self.keep == "always" or (self.keep == "on_failure" and has_failed)


def read_worktree(
    value: JsonValue, loc: Location, check_text: Callable[[str, Location], object], complain: Complain
) -> Worktree | None:
    """What a step says about its worktree. None if it says nothing, or after a complaint."""
    if value is None:
        return None
    if not isinstance(value, dict):
        fix = "as in worktree: {repo: /srv/app, ref: main}"
        complain(Complaint(loc, f"is {kind(value)}, not a table of keys", fix))
        return None
    check_keys(value, loc, ("repo", "ref", "keep"), (), complain)
    repo, ref, keep = value.get("repo"), value.get("ref"), value.get("keep", "on_failure")
    for key, each in (("repo", repo), ("ref", ref)):
        at = (*loc, key) if key in value else loc
        if not isinstance(each, str) or not each:
            what = f"has no {key!r}" if key not in value else f"must be a text, not {quoted(each)}"
            complain(Complaint(at, what, "as in worktree: {repo: /srv/app, ref: main}"))
        elif key == "repo" and not each.startswith(("/", "{{")):
            fix = "write an absolute path, or an expression that gives one"
            complain(Complaint(at, f"{quoted(each)} is not an absolute path", fix))
        elif key == "ref" and each.startswith("-"):
            complain(Complaint(at, f"{quoted(each)} begins with '-'", "write a branch, a tag or a commit"))
        else:
            check_text(each, at)
    kept = next((each for each in KEEPS if each == keep), None)
    if kept is None:
        complain(Complaint((*loc, "keep"), f"{quoted(keep)} is not known", f"one of: {', '.join(KEEPS)}"))
    if not isinstance(repo, str) or not isinstance(ref, str) or kept is None:
        return None
    return Worktree(repo, ref, kept)
