"""The `[[contracts]]` rules: which foreign sessions are held to which playbook.

Everything that a rule names must match, and the first matching rule applies. What a session doesn't say matches
nothing, not even `*`. Whether the playbook exists is for its reader to check.
"""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from runward.config.problem import Complaint, Location, quoted
from runward.config.root import FOREIGN_LAYOUTS, NATIVE
from runward.config.shape import Complain, Glob, PathGlob, Text
from runward.config.table import DEFAULT, Placed, Table

_LONGEST_GLOB: Final = 4096


class _LayoutGlob(Glob):
    """A glob that matches some other tool's layout."""

    def meant(self, text: str, loc: Location, complain: Complain) -> str | None:
        from runward.config.glob_rule import text_matches

        if super().meant(text, loc, complain) is None:
            return None
        if any(text_matches(layout, text) for layout in FOREIGN_LAYOUTS):
            return text
        if text_matches(NATIVE, text):
            message, fix = "native runs name their playbook themselves", "name another tool's layout"
            complain(Complaint(loc, f"{quoted(text)} matches nothing: {message}", fix))
        else:
            fix = f"one of: {', '.join(FOREIGN_LAYOUTS)}, or a glob of them"
            complain(Complaint(loc, f"{quoted(text)} is not a known layout", fix))
        return None


class Match(NamedTuple):
    """What a session must say about itself: everything named here must match. Case matters."""

    layout: Annotated[str | None, _LayoutGlob("A glob of the session's layout.", _LONGEST_GLOB)] = None
    cwd: Annotated[
        str | None,
        PathGlob(
            "A glob of the session's working directory: absolute, from ~, relative to the directory of "
            "this file, or beginning with **/ for anywhere. DIR/** is DIR and all below it.",
            _LONGEST_GLOB,
        ),
    ] = None
    agent: Annotated[str | None, Glob("A glob of the agent's name.", _LONGEST_GLOB)] = None
    prompt: Annotated[
        str | None, Glob("A glob of the whole first prompt; * is anything in it.", _LONGEST_GLOB)
    ] = None


class ContractRule(NamedTuple):
    """Which playbook applies to which foreign sessions. The first rule that matches counts.

    `named_at` is where the playbook is written.
    """

    match: Annotated[Match, Table(Match, some=True, sparse=True)]
    playbook: Annotated[str, Text("The playbook's name.", 255, "/")]
    named_at: Placed = Placed(None, DEFAULT)

    def matches(self, layout: str, cwd: str | None, agent: str | None, prompt: str | None) -> bool:
        """Whether a session that says this about itself falls under the rule. `cwd` is absolute."""
        from runward.config.glob_rule import path_matches, text_matches  # loaded only for rules

        wanted = self.match
        return (
            (wanted.layout is None or text_matches(layout, wanted.layout))
            and (wanted.cwd is None or (cwd is not None and path_matches(cwd, wanted.cwd)))
            and (wanted.agent is None or (agent is not None and text_matches(agent, wanted.agent)))
            and (wanted.prompt is None or (prompt is not None and text_matches(prompt, wanted.prompt)))
        )


RULE: Final = Table(ContractRule)


def rule_for(
    rules: Sequence[ContractRule], layout: str, cwd: str | None, agent: str | None, prompt: str | None
) -> ContractRule | None:
    """The first rule that such a session falls under."""
    return next((rule for rule in rules if rule.matches(layout, cwd, agent, prompt)), None)
