"""The `[[contracts]]` rules: which foreign sessions are held to which playbook.

Everything that a rule names must match, and the first matching rule applies. What a session doesn't say matches
nothing, not even `*`. Whether the playbook exists is for its reader to check.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from runward.config.settings_layers import DEFAULT, Placed

MATCH_KEYS: Final = ("layout", "cwd", "agent", "prompt")
"""The properties of a session that a rule may name."""


class ContractRule(NamedTuple):
    """One rule: the globs that it names, and the playbook. `named_at` is where the playbook is written."""

    playbook: str
    layout: str | None = None
    cwd: str | None = None
    agent: str | None = None
    prompt: str | None = None
    named_at: Placed = Placed(None, DEFAULT)

    @property
    def match(self) -> dict[str, str]:
        """The globs by the property that they are for, as written, except for an absolute `cwd`."""
        globs = zip(MATCH_KEYS, (self.layout, self.cwd, self.agent, self.prompt), strict=True)
        return {key: glob for key, glob in globs if glob is not None}

    def matches(self, layout: str, cwd: str | None, agent: str | None, prompt: str | None) -> bool:
        """Whether a session that says this about itself falls under the rule. `cwd` is absolute."""
        from runward.config.glob_rule import path_matches, text_matches  # loaded only for rules

        return (
            (self.layout is None or text_matches(layout, self.layout))
            and (self.cwd is None or (cwd is not None and path_matches(cwd, self.cwd)))
            and (self.agent is None or (agent is not None and text_matches(agent, self.agent)))
            and (self.prompt is None or (prompt is not None and text_matches(prompt, self.prompt)))
        )


def rule_for(
    rules: Sequence[ContractRule], layout: str, cwd: str | None, agent: str | None, prompt: str | None
) -> ContractRule | None:
    """The first rule that such a session falls under."""
    return next((rule for rule in rules if rule.matches(layout, cwd, agent, prompt)), None)
