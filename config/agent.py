"""Agent profiles: Markdown whose frontmatter may hold an agent's default artifacts (ADR-0029).

Profiles belong primarily to the agents' own tools: keys that Runward doesn't know are allowed, but a key that looks
like a misspelled key of Runward's causes a warning.
"""

from typing import Annotated, NamedTuple

from runward.config.contract import ExpectedArtifact, declaration_schema, declared_artifacts
from runward.config.document import AGENT_SUFFIX, Document, Mark, name_from_file
from runward.config.json_value import JsonValue
from runward.config.keys import Key, known_keys, optional, read_keys, shared_table_schema, text
from runward.config.problem import SLIP, Complaint, Parsed, Problem, nearest, unknown_key


def read_frontmatter(text: str, name: str) -> Parsed[Document]:
    """The frontmatter of file `name`; its root is None if there is none or an empty one. Never raises."""
    from runward.config.yaml_document import read_yaml  # yaml is imported only for a file

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


class AgentProfile(NamedTuple):
    """The frontmatter of an agent profile: what its runs usually leave behind.

    `artifacts` is None where the profile declares none.
    """

    name: Annotated[
        str,
        optional("Name", {"type": "string"}, "The agent's name. Default: the file's name without .md.", text),
    ]
    model: Annotated[
        str | None,
        optional(
            "Model",
            {"type": "string"},
            "The model that the agent's tool starts; kept for the record.",
            text,
        ),
    ] = None
    artifacts: Annotated[
        tuple[ExpectedArtifact, ...] | None,
        Key(
            {
                **declaration_schema(),
                "default": None,
                "description": "What a run of this agent usually leaves behind; "
                "a playbook's entries override these by id.",
            },
            name="artifact_defaults",
        ),
    ] = None


def agent_schema() -> dict[str, JsonValue]:
    """What the frontmatter of a profile may look like, as JSON Schema."""
    return shared_table_schema(AgentProfile, "Runward agent profile")


def read_agent(text: str, name: str) -> Parsed[AgentProfile]:
    """The profile in `text`, which came from file `name` (any path), or everything that is wrong with it."""
    parsed = read_frontmatter(text, name)
    if parsed.value is None:
        return Parsed(None, parsed.problems)
    complaints: list[Complaint] = []
    return parsed.value.parsed(_profile(parsed.value, complaints), complaints)


def _profile(document: Document, complaints: list[Complaint]) -> AgentProfile | None:
    root = document.root if document.root is not None else {}
    if not isinstance(root, dict):
        complaints.append(
            Complaint((), "the frontmatter must be a table of keys", "write 'name: …', or remove it")
        )
        return None
    defaults = declared_artifacts(root.get("artifact_defaults"), ("artifact_defaults",), complaints)
    known = known_keys(AgentProfile)
    complaints += [
        unknown_key((key,), known) for key in root if key not in known and nearest(key, known, cutoff=SLIP)
    ]
    before = len(complaints)
    read = read_keys(AgentProfile, root, (), complaints.append)
    if len(complaints) > before:
        return None
    name = read.pop("name", None) or name_from_file(document.name, (AGENT_SUFFIX,))
    return AgentProfile(name, artifacts=defaults, **read)
