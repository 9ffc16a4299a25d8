"""Contract D: `artifacts/find_result.json`, the workflow that the resolver selected."""

from typing import Final

from runward.config.problem import quoted
from runward.handlers.ctcp.documents import Documents
from runward.handlers.ctcp.json_fields import fields_of
from runward.handlers.ctcp.report import Report

PATH: Final = "artifacts/find_result.json"
SCHEMA: Final = "ctcp-find-result-v1"


def check(documents: Documents, report: Report) -> None:
    """Check the selection and its candidates."""
    fields = fields_of(documents, PATH, SCHEMA, report)
    if fields is None:
        return
    selected = fields.text("selected_workflow_id"), fields.text("selected_version")
    candidates: set[tuple[str, str]] = set()
    is_whole = isinstance(fields.optional("candidates"), list)
    for each in fields.tables("candidates"):
        workflow, version = each.text("workflow_id"), each.text("version")
        each.number("score")
        each.text("why")
        if workflow is None or version is None:
            is_whole = False
        else:
            candidates.add((workflow, version))
    if is_whole and None not in selected and selected not in candidates:
        message = f"{quoted(selected[0])} {quoted(selected[1])} is selected, and is not a candidate"
        fields.report("not_a_candidate", message)
