"""What a session is held to, one check after another: for the reports that CI systems read."""

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from runward.config.json_value import JsonValue, objects
from runward.daemon.views.outcomes import ExpectedArtifact, expected_artifacts

Kind: TypeAlias = Literal["end", "artifact", "rule"]
State: TypeAlias = Literal["passed", "failed", "skipped"]


class Check(NamedTuple):
    """One thing that a session is held to; `why` says why it failed, or was skipped."""

    kind: Kind
    name: str
    state: State
    why: str = ""


def checks_of(
    contract: JsonValue, verification: JsonValue, rules: JsonValue, why: Mapping[str, str]
) -> list[Check]:
    """A check for each artifact of a contract, and for each rule that was applied to one; none without a contract.

    `why` gives the reason, by path, why a file doesn't count as delivered, if that is known. What is optional is skipped, and
    doesn't fail.
    """
    artifacts = expected_artifacts(contract, verification, why) or []
    optional = {each.id for each in artifacts if not each.is_required}
    checks = [_of_artifact(each) for each in artifacts]
    # Without their directory nothing is delivered, also where everything is optional.
    is_failed = isinstance(verification, dict) and verification["status"] == "failed"
    if is_failed and not any(each.state == "failed" for each in checks):
        checks.append(Check("artifact", "the artifacts' directory", "failed", "it is missing"))
    return checks + [_of_rule(each, str(each["id"]) in optional) for each in objects(rules)]


def check_of_end(status: str, reason_code: str, summary: str) -> Check:
    """Whether the session's command ended well: what it didn't deliver fails elsewhere."""
    if status == "running":
        return Check("end", "ended well", "skipped", "it is not over")
    is_well = status == "completed" or reason_code == "run.failed.missing_artifact"
    return Check("end", "ended well", "passed") if is_well else Check("end", "ended well", "failed", summary)


def _of_artifact(entry: ExpectedArtifact) -> Check:
    name = f"{entry.id} ({entry.path})"
    if entry.state == "delivered":
        return Check("artifact", name, "passed")
    if entry.state == "not yet":
        return Check("artifact", name, "skipped", "not verified")
    why = entry.why if entry.state == "not delivered" else "; ".join(filter(None, ["absent", entry.why]))
    return Check("artifact", name, "failed" if entry.is_required else "skipped", why)


def _of_rule(rule: Mapping[str, JsonValue], is_optional: bool) -> Check:
    name = f"{rule['id']}: {rule['rule']} ({rule['path']})"
    if rule["holds"]:
        return Check("rule", name, "passed")
    place = "" if rule["line"] is None else f"line {rule['line']}: "
    return Check("rule", name, "skipped" if is_optional else "failed", f"{place}{rule['reason']}")
