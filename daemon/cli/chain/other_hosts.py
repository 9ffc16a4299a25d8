"""Steps of other hosts, as far as is known here of what those accept from this one."""

from collections.abc import Iterator

from runward.config.chain import Chain
from runward.config.fleet import Labelled
from runward.config.settings import Settings
from runward.config.step import Step
from runward.daemon.configuration.offers import offers_of


def not_offered(settings: Settings, step: Step, host: str | Labelled | None) -> str | None:
    """Why nobody may begin the step; None if somebody may. Without a `host`, it is not known yet which one is wanted."""
    if settings.fleet is None:
        return "it is for another host, and this one is in no fleet: `runward fleet join` says how"
    what = f"the {'action' if step.skill is None else 'skill'} {step.name} from this one"
    offers = offers_of(settings.state_dir, "action" if step.skill is None else "skill", step.name)
    if any(host is None or each.is_of(host) for each in offers):
        return None
    if isinstance(host, str):
        return f"{host} is not known to accept {what}"
    return f"no host is known{'' if host is None else f' with {host.what}'} that accepts {what}"


def warnings(settings: Settings, chain: Chain) -> Iterator[str]:
    """The steps of a chain that nobody may begin."""
    for step in chain.steps:
        is_known = isinstance(step.host, Labelled) or (step.host is not None and "{{" not in step.host)
        why = None if step.host is None else not_offered(settings, step, step.host if is_known else None)
        if why is not None:
            yield f"step {step.id}: {why}"
