"""A flow's plan, `flow.json` of a native run: which agent runs which leg, and where that leg works (ADR-0029,
DAG-flow extension). Planners may store more in it than is read here.
"""

from dataclasses import dataclass
from typing import Final

from runward.config.contract import ID_PATTERN, MAX_ID, check_id
from runward.config.json_value import JsonValue, is_text
from runward.config.path_rule import MAX_PATH_BYTES, PATH_PATTERN, PathRuleError, relative_parts
from runward.config.problem import MAX_PROBLEMS, Complaint, Location, Parsed, has_errors, kind, quoted

MAX_LEGS: Final = 256
MAX_AGENT: Final = 200


@dataclass(frozen=True, slots=True)
class Leg:
    """One leg: `agent` names the profile that runs it, `path` is its own directory below the run's artifacts."""

    id: str
    agent: str
    path: str


_LEG_KEYS: Final[dict[str, JsonValue]] = {
    "id": {
        "type": "string",
        "pattern": ID_PATTERN,
        "maxLength": MAX_ID,
        "description": "Names the leg; what is expected of it has the ids '<leg>__<id>'.",
    },
    "agent": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_AGENT,
        "description": "The agent profile whose artifact_defaults the leg is held to.",
    },
    "path": {
        "type": "string",
        "pattern": PATH_PATTERN,
        "maxLength": MAX_PATH_BYTES,
        "description": "The leg's own directory, relative to the run's artifacts. Default: its id.",
    },
}


def flow_schema() -> dict[str, JsonValue]:
    """What `flow.json` may look like, as JSON Schema for planners."""
    legs: JsonValue = {
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_LEGS,
        "description": "The flow's legs, planned before any of them runs. "
        "No two legs share an id, and no leg's directory is the same as or inside another's.",
        "items": {"type": "object", "required": ["id", "agent"], "properties": _LEG_KEYS},
    }
    return {
        "title": "Runward flow",
        "type": "object",
        "required": ["legs"],
        "properties": {"legs": legs},
    }


def flow_from_json(value: JsonValue, name: str) -> Parsed[tuple[Leg, ...]]:
    """The legs in the plan that was read from file `name`, or everything that is wrong with it."""
    complaints: list[Complaint] = []
    legs: list[Leg] = []
    for index, spec in enumerate(_listed(value, complaints)):
        if len(complaints) > MAX_PROBLEMS:
            break
        leg = _leg(spec, ("legs", index), complaints)
        if leg is not None:
            legs.append(leg)
    if not complaints:
        _apart(legs, complaints)
    problems = tuple(complaint.problem(name) for complaint in complaints)
    return Parsed(None if has_errors(problems) else tuple(legs), problems)


def _listed(value: JsonValue, complaints: list[Complaint]) -> list[JsonValue]:
    legs = value.get("legs") if isinstance(value, dict) else None
    fix = 'write {"legs": [{"id": …, "agent": …, "path": …}]}'
    if not isinstance(legs, list):
        complaints.append(Complaint(("legs",), f"must be a list, not {kind(legs)}", fix))
    elif not legs:
        complaints.append(Complaint(("legs",), "names no leg", fix))
    elif len(legs) > MAX_LEGS:
        complaints.append(Complaint(("legs",), f"has more than {MAX_LEGS} legs", "plan fewer"))
    else:
        return legs
    return []


def _leg(spec: JsonValue, loc: Location, complaints: list[Complaint]) -> Leg | None:
    if not isinstance(spec, dict):
        complaints.append(Complaint(loc, f"must be an object, not {kind(spec)}", "write {…}"))
        return None
    before = len(complaints)
    identifier = _text(spec, "id", loc, complaints)
    agent = _text(spec, "agent", loc, complaints)
    if identifier:
        check_id(identifier, (*loc, "id"), complaints)
    if agent and (len(agent) > MAX_AGENT or "\0" in agent or not is_text(agent)):
        complaints.append(
            Complaint((*loc, "agent"), f"{quoted(agent)} is not a name", "name an agent profile")
        )
    path = _text(spec, "path", loc, complaints) if "path" in spec else identifier
    path = _path(path, (*loc, "path"), complaints)
    return Leg(identifier, agent, path) if len(complaints) == before else None


def _text(spec: dict[str, JsonValue], key: str, loc: Location, complaints: list[Complaint]) -> str:
    """The text under `key`. "" if a complaint about it was added."""
    value = spec.get(key)
    if isinstance(value, str) and value:
        return value
    if key not in spec:
        complaints.append(Complaint(loc, f"has no '{key}'", f"add '{key}'"))
    else:
        what = "an empty one" if value == "" else kind(value)
        complaints.append(Complaint((*loc, key), f"must be a text, not {what}", f"name the leg's {key}"))
    return ""


def _path(path: str, loc: Location, complaints: list[Complaint]) -> str:
    """The path without redundant parts. "" if there is none or a complaint was added."""
    if not path:
        return ""
    try:
        return "/".join(relative_parts(path))
    except PathRuleError as error:
        complaints.append(error.complaint(loc, path))
        return ""


def _apart(legs: list[Leg], complaints: list[Complaint]) -> None:
    """Add a complaint for each leg that isn't separate: with another one's id, or in another one's directory."""
    fix = "give each leg its own"
    by_id: dict[str, int] = {}
    for index, leg in enumerate(legs):
        if by_id.setdefault(leg.id, index) != index:
            message = f"{quoted(leg.id)} is the id of leg {by_id[leg.id]} already"
            complaints.append(Complaint(("legs", index, "id"), message, fix))
    # Sorted, a directory comes before everything inside it. The slash keeps a/bc from being inside a/b.
    around: tuple[str, int] | None = None
    for path, index in sorted((f"{leg.path}/", index) for index, leg in enumerate(legs)):
        if around is None or not path.startswith(around[0]):
            around = (path, index)
            continue
        how = "is" if path == around[0] else "is inside"
        message = f"{quoted(path[:-1])} {how} the directory of leg {around[1]}"
        complaints.append(Complaint(("legs", index, "path"), message, fix))
