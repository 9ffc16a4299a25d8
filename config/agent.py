"""Agent profiles: Markdown whose frontmatter may hold an agent's default artifacts (ADR-0029).

Profiles belong primarily to the agents' own tools: keys that Runward doesn't know are allowed, but a key that looks
like a misspelled key of Runward's causes a warning.
"""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, WithJsonSchema

from runward.config.contract import ExpectedArtifact, declaration_schema, declared_artifacts
from runward.config.document import Document, Mark
from runward.config.playbook_file import complaints_of
from runward.config.problem import SLIP, Complaint, Parsed, Problem, has_errors, nearest, unknown_key
from runward.config.yaml_document import read_yaml


def read_frontmatter(text: str, name: str) -> Parsed[Document]:
    """The frontmatter of file `name`; its root is None if there is none or an empty one. Never raises."""
    first, _, rest = text.removeprefix("\ufeff").partition("\n")
    if first.rstrip() != "---":
        return Parsed(Document(name, None, {(): Mark((1, 1))}))
    block: list[str] = []
    for line in rest.split("\n"):
        if line.rstrip() == "---":
            # A blank line replaces the first fence, so every line keeps its number in the file.
            return read_yaml("\n" + "\n".join(block), name)
        block.append(line)
    problem = Problem(name, 1, 1, "the frontmatter never ends", "close it with a line of three dashes: ---")
    return Parsed(None, (problem,))


_SUFFIX = ".md"


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """One agent profile. `artifact_defaults` is None where the profile declares none."""

    name: str
    model: str | None = None
    artifact_defaults: tuple[ExpectedArtifact, ...] | None = None


class AgentFrontmatter(BaseModel):
    """The frontmatter of an agent profile: what its runs usually leave behind."""

    model_config = ConfigDict(strict=True, extra="ignore", title="Runward agent profile")

    name: str | None = Field(None, description="The agent's name. Default: the file's name without .md.")
    model: str | None = Field(
        None, description="The model that the agent's tool starts; kept for the record."
    )
    artifact_defaults: Annotated[JsonValue, WithJsonSchema(declaration_schema())] = Field(
        None,
        description="What a run of this agent usually leaves behind; a playbook's entries override these by id.",
    )


KNOWN_KEYS: Final = tuple(AgentFrontmatter.model_fields)


def agent_schema() -> dict[str, JsonValue]:
    """What the frontmatter of a profile may look like, as JSON Schema."""
    return AgentFrontmatter.model_json_schema()


def read_agent(text: str, name: str) -> Parsed[AgentProfile]:
    """The profile in `text`, which came from file `name` (any path), or everything that is wrong with it."""
    parsed = read_frontmatter(text, name)
    if parsed.value is None:
        return Parsed(None, parsed.problems)
    document = parsed.value
    complaints: list[Complaint] = []
    profile = _profile(document, complaints)
    problems = document.problems(complaints)
    return Parsed(None if has_errors(problems) else profile, problems)


def name_from_file(file: str) -> str:
    """What an agent is called unless its profile says otherwise: its file's name without `.md`."""
    base = file.rsplit("/", 1)[-1]
    return base.removesuffix(_SUFFIX) if base != _SUFFIX else base


def _profile(document: Document, complaints: list[Complaint]) -> AgentProfile | None:
    root = document.root if document.root is not None else {}
    if not isinstance(root, dict):
        complaints.append(
            Complaint((), "the frontmatter must be a table of keys", "write 'name: …', or remove it")
        )
        return None
    defaults = declared_artifacts(root.get("artifact_defaults"), ("artifact_defaults",), complaints)
    for key in root:
        if key not in KNOWN_KEYS and nearest(key, KNOWN_KEYS, cutoff=SLIP):
            complaints.append(unknown_key((key,), KNOWN_KEYS))
    try:
        frontmatter = AgentFrontmatter.model_validate(root)
    except ValidationError as error:
        complaints.extend(complaints_of(error, KNOWN_KEYS))
        return None
    return AgentProfile(frontmatter.name or name_from_file(document.name), frontmatter.model, defaults)
