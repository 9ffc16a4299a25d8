"""The YAML block between two `---` lines at the head of a Markdown file, read at its place in that file."""

from runward.config.document import Document, Mark
from runward.config.problem import Parsed, Problem
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
