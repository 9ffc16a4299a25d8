"""A session's checks as a JUnit report. It is valid by Ant's schema, and by the one of Jenkins."""

import os
import time
from collections.abc import Callable, Sequence
from xml.etree import ElementTree

from runward.config.problem import printable
from runward.daemon.disk.durable import write_durably
from runward.daemon.views.checks import Check

LONGEST = 2000
"""Characters of a text in a report."""


def write_junit(
    path: str,
    name: str,
    checks: Sequence[Check],
    started_at: float,
    took_s: float,
    clean: Callable[[str], str] = str,
) -> None:
    """Write the report to the file `path`, which is replaced as a whole. Raises `OSError`.

    `name` is the suite's; `clean` takes out of a text what nobody may see.
    """
    content = _junit(name, checks, started_at, took_s, clean)
    directory, file = os.path.split(os.path.abspath(path))
    write_durably(directory, file, content)


def _junit(
    name: str, checks: Sequence[Check], started_at: float, took_s: float, clean: Callable[[str], str]
) -> bytes:
    def shown(text: str) -> str:
        # Agents write these texts, and XML has no place for control characters, not even escaped.
        return printable(clean(text))[:LONGEST]

    states = [each.state for each in checks]
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": shown(name),
            "package": "runward",
            "id": "0",
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(started_at)),
            "hostname": "localhost",
            "tests": str(len(checks)),
            "failures": str(states.count("failed")),
            "errors": "0",
            "skipped": str(states.count("skipped")),
            "time": f"{max(0.0, took_s):.3f}",
        },
    )
    ElementTree.SubElement(suite, "properties")
    for check in checks:
        words = {"name": shown(check.name), "classname": f"runward.{check.kind}", "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", words)
        if check.state == "failed":
            ElementTree.SubElement(case, "failure", {"message": shown(check.why), "type": check.kind})
        elif check.state == "skipped":
            ElementTree.SubElement(case, "skipped", {"message": shown(check.why)})
    for stream in ("system-out", "system-err"):
        ElementTree.SubElement(suite, stream)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"
