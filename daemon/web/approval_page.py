"""The page of an approval: plain HTML that runs nothing, with all foreign text escaped."""

import base64
import hashlib
import time
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from runward.daemon.inbox.approval_answers import LONGEST_NOTE
from runward.daemon.store.reading_chains import ApprovalRow
from runward.daemon.views.approvals import shown_approval, step_id

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:50rem;padding:0 1rem;color:#111;background:#fff}"
    "pre{background:#f4f4f4;padding:.75rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem}dd{margin:0}"
    "input{font:inherit;display:block;width:100%;box-sizing:border-box;margin:.25rem 0 1rem}"
    "button{font:inherit;padding:.4rem 1.2rem;margin-right:.5rem}.small{font-size:.85rem;color:#555}"
    "@media(prefers-color-scheme:dark){body{color:#eee;background:#111}pre{background:#222}.small{color:#aaa}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex",
}

_TEMPLATE: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
).get_template("approval_page.html")


def said_page(status: int, heading: str, said: str) -> Response:
    """A page that only shows a message."""
    return _page(status, heading=heading, said=said, row=None)


def question_page(row: ApprovalRow) -> Response:
    """The page that shows what will run, and asks."""
    shown = shown_approval(row)
    return _page(
        200,
        heading=f"{row.chain}: step {step_id(row)} waits for a person",
        said="",
        row=row,
        step=step_id(row),
        asked=_moment(row.asked_at),
        expires=None if row.expires_at is None else _moment(row.expires_at),
        command=shown.command,
        shown=shown.parts,
        unbound=shown.unbound,
        longest_note=LONGEST_NOTE,
    )


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def _page(status: int, **values: object) -> Response:
    return HTMLResponse(_TEMPLATE.render(style=_STYLE, **values), status, headers=_HEADERS)
