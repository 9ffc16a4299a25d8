"""A file that a session recorded, as text on a page or as a download. It is never served as anything that a browser runs."""

import codecs
import os
import re
from typing import Final, NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from runward.config.json_value import JsonValue
from runward.daemon.studio.rendering import address, page
from runward.daemon.views.session_files import SHOWN, Ends, RecordedFile
from runward.daemon.views.text import visible

DOWNLOAD: Final = "download"

_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]")


class Opened(NamedTuple):
    """A file as its page needs it; for a download `pieces` instead of its `ends`."""

    name: str
    ends: Ends | None
    pieces: StreamingResponse | None = None


def opened_file(request: Request, file: RecordedFile) -> Opened:
    """What the address wants of a file. Raises `NoFile`."""
    if request.query_params.get(DOWNLOAD) != "1":
        return Opened(file.name, file.ends())
    pieces = StreamingResponse(file.open(), media_type="application/octet-stream")
    name = file.name.rpartition("/")[2]
    quoted = quote(os.fsencode(name) if name.isprintable() else name.encode(errors="replace"), safe="")
    plain = _PLAIN.sub("_", name)
    pieces.headers["content-disposition"] = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quoted}"
    return Opened(file.name, None, pieces)


def file_page(request: Request, file: Opened, back: str) -> Response:
    """The page, or the download. `back` is the address of what the file belongs to."""
    if file.pieces is not None:
        return file.pieces
    assert file.ends is not None, "one of both is there"
    size = file.ends.size
    start = text_in(file.ends.start, is_cut_after=file.ends.end is not None)
    end = None if file.ends.end is None else text_in(file.ends.end, is_cut_before=True)
    is_text = start is not None and (file.ends.end is None or end is not None)
    data: dict[str, JsonValue] = {
        "name": file.name,
        "size": size,
        "is_text": is_text,
        "text": start if is_text else None,
        "end": end if is_text else None,
    }
    return page(
        request,
        "file.html",
        {"file": data},
        back=back,
        download=address(request, **{DOWNLOAD: "1"}),
        start=as_it_is(start or ""),
        end=None if end is None else as_it_is(end),
        left_out=None if size is None or end is None else size - 2 * SHOWN,
    )


def text_in(content: bytes, *, is_cut_before: bool = False, is_cut_after: bool = False) -> str | None:
    """The content as UTF-8; None if it is not text. A character that was cut through is left out."""
    if is_cut_before:
        whole = next((at for at in range(min(4, len(content))) if content[at] & 0xC0 != 0x80), 0)
        content = content[whole:]
    if b"\0" in content:
        return None
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(content, final=not is_cut_after)
    except UnicodeDecodeError:
        return None


def as_it_is(text: str) -> Markup:
    """A file's text: escaped, with tabs and line ends as they are, and everything else that is invisible escaped."""
    parts = text.replace("\r\n", "\n").split("\t")
    return Markup("\t").join(escape(visible(each)) for each in parts)
