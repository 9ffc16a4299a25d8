"""Everything that is wrong with what the operator wrote: settings, playbooks, agent profiles, chains, and rules."""

from runward.config.problem import Parsed, Problem
from runward.config.settings import Settings
from runward.daemon.cli.play.declared import declared
from runward.daemon.configuration.settings import (
    agent_names,
    chain_names,
    find_agent,
    find_chain,
    playbook_names,
)


def complaints_about(parsed: Parsed[Settings]) -> tuple[Problem, ...]:
    """Every complaint, each once; where the settings can't be used, those about them alone."""
    if parsed.value is None:
        return parsed.problems
    found = [parsed.problems]
    found += [declared(parsed.value, name, None).problems for name in playbook_names(parsed.value)]
    found += [find_agent(parsed.value, name).problems for name in agent_names(parsed.value)]
    found += [find_chain(parsed.value, name).problems for name in chain_names(parsed.value)]
    found.append(_rules_without_playbook(parsed.value))
    found.append(_secret_of_webhooks(parsed.value))
    found.append(_library_of_tools(parsed.value))
    return tuple(dict.fromkeys(problem for each in found for problem in each))


def _secret_of_webhooks(settings: Settings) -> tuple[Problem, ...]:
    """What is wrong with the file of the secret, and that nothing listens for deliveries that it signs."""
    path = settings.github_secret_file
    if path is None:
        return ()
    from runward.daemon.configuration.secret_file import SecretUnusable, secret_of

    written = settings.origin.get("webhooks.github", path)
    if settings.http is None:
        message = "[webhooks.github] is set, but nothing listens"
        return (Problem(written, None, None, message, "add [http] to the settings", "warning"),)
    try:
        secret_of(path)
    except SecretUnusable as error:
        fix = "write the secret into a file of mode 0600"
        return (Problem(written, None, None, f"webhooks.github.secret_file: {error}", fix),)
    return ()


def _library_of_tools(settings: Settings) -> tuple[Problem, ...]:
    """That tools are to be served without the library for it."""
    from runward.daemon.configuration.mcp_library import FIX, why_not_over_http

    without = why_not_over_http(settings.http)
    if without is None:
        return ()
    return (Problem(settings.origin.get("http.mcp", "http.mcp"), None, None, without, FIX),)


def _rules_without_playbook(settings: Settings) -> tuple[Problem, ...]:
    """The rules whose playbook isn't there; what is wrong with one that is, is said at the playbook itself."""
    from runward.daemon.configuration.declarations import Declarer

    there, declarer = playbook_names(settings), Declarer(settings)
    return tuple(
        rule.named_at.problem(
            ("contracts", number, "playbook"),
            str(declarer(rule.playbook, None).problem),
            "write the playbook, or correct the rule",
        )
        for number, rule in enumerate(settings.contracts)
        if rule.playbook not in there
    )
