"""Pages from templates: foreign text is escaped, and nothing in it is invisible."""

import hashlib
import json
import re
import time
import uuid
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from runward.config.json_value import JsonValue
from runward.daemon import __version__
from runward.daemon.views.requests import RequestResult
from runward.daemon.views.text import ago, duration, json_text, lag, size, visible
from runward.handlers.times import moment_of

MOST: Final = 64 << 10
"""Characters of one text."""

_DEEPEST: Final = 16
_LEFT_OUT: Final = "…"


class Room:
    """How many characters a page still has for texts of one subject."""

    def __init__(self, most: int) -> None:
        self._left = most

    def text(self, value: JsonValue, indent: int | None = None) -> str:
        """A text as it is, or the JSON of another value; cut where there is no room left."""
        most = min(self._left, MOST)
        text = cut(value, most) if isinstance(value, str) else bounded_json(value, most, indent)
        self._left -= min(len(text), most)
        return text


def bounded_json(value: JsonValue, most: int = MOST, indent: int | None = 2) -> str:
    """The JSON of a value; what is nested too deeply or comes too late is left out."""
    encoder = json.JSONEncoder(ensure_ascii=False, indent=indent)
    parts: list[str] = []
    length = 0
    # Each level of indentation repeats itself on every line, so the whole text may be much longer than the value.
    for part in encoder.iterencode(_shallow(value, _DEEPEST)):
        parts.append(part)
        length += len(part)
        if length > most:
            break
    return cut("".join(parts), most)


def cut(text: str, most: int) -> str:
    """A text without what comes too late."""
    return text if len(text) <= most else text[:most] + _LEFT_OUT


def _shallow(value: JsonValue, levels: int) -> JsonValue:
    if not value or not isinstance(value, dict | list):
        return value
    if levels == 0:
        return _LEFT_OUT
    if isinstance(value, dict):
        return {key: _shallow(each, levels - 1) for key, each in value.items()}
    return [_shallow(each, levels - 1) for each in value]


PAGE: Final = 100
"""Rows of a list."""

_SHORT: Final = 600

_AGES: Final = re.compile("<time [^>]*>[^<]*</time>")
"""What differs between two pages of the same data. The moments themselves are in the data."""

_ONCE_OF_EACH: Final = uuid.uuid4().hex
"""Stands in a rendered page for what is new each time that it is sent. Nobody else knows it."""

_HERE: Final = Path(__file__).parent


_LONGEST_LINE: Final = 100
"""Characters of a text's first line."""

REQUEST: Final = "request"
"""In an address: the request whose result the page says."""

ONCE: Final = "once"
"""The hidden field of every form: a UUID of this rendering. A form that is sent twice makes the same request."""


class Link(NamedTuple):
    """A page in the menu; `waiting` is how much there waits for a person."""

    name: str
    path: str
    waiting: int


class Around(NamedTuple):
    """What stands around a page's data: the menu, and what came of the request that its address names."""

    menu: list[Link]
    result: RequestResult | None


def address(request: Request, /, **changed: str | None) -> str:
    """The address of the page, percent-encoded as it was asked for, with other values of these filters; None drops one.

    What came of a request is not part of it.
    """
    dropped = {REQUEST, *changed}
    kept = [pair for pair in request.query_params.multi_items() if pair[0] not in dropped]
    query = urlencode([*kept, *((key, value) for key, value in changed.items() if value is not None)])
    path: str = request.scope["raw_path"].decode("latin-1")
    return f"{path}?{query}" if query else path


def wants_json(request: Request) -> bool:
    """Whether the address asks for the data of the page."""
    return request.query_params.get("format") == "json"


class Page(Response):
    """A page that many may get: each with forms of its own, and 304 if it has the same already.

    Two pages are the same if `compared` is.
    """

    def __init__(self, text: str, compared: str, media_type: str) -> None:
        digest = hashlib.sha256(compared.encode(errors="surrogatepass")).hexdigest()[:32]
        self._tag = f'"{digest}"'
        # The script sends it back: a browser does not by itself, because it may not store the page.
        self._text = text.replace('data-etag=""', f"data-etag='{self._tag}'", 1)
        super().__init__(media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        headers = {"etag": self._tag}
        if Headers(scope=scope).get("if-none-match") == self._tag:
            await Response(status_code=304, headers=headers)(scope, receive, send)
            return
        text = self._text.replace(_ONCE_OF_EACH, str(uuid.uuid4()))
        await Response(text, headers=headers, media_type=self.media_type)(scope, receive, send)


def page(request: Request, template: str, data: dict[str, JsonValue], **shown: object) -> Page:
    """A page, or with `format=json` its data: one object as it is, several under their nouns.

    `shown` is what the template needs beyond the data. The data must have been read with `Pages.read`.
    """
    content = json_text(next(iter(data.values())) if len(data) == 1 else data)
    if wants_json(request):
        return Page(content, content, "application/json")
    around: Around = request.state.around
    text = (
        _templates()
        .get_template(template)
        .render(
            **data,
            **shown,
            path=request.url.path,
            json_url=address(request, format="json"),
            menu=around.menu,
            result=around.result,
            once=_ONCE_OF_EACH,
            may_change=not request.scope["runward.studio"].read_only,
            now=time.time(),
        )
    )
    return Page(text, content + _AGES.sub("", text), "text/html")


def template_called(name: str) -> Template:
    """One of our own templates."""
    return _templates().get_template(name)


@cache
def template_at(path: str) -> Template:
    """The template in a file. Raises `OSError`."""
    return _templates().from_string(Path(path).read_text())


def message_page(status: int, heading: str, message: str, fix: str = "") -> HTMLResponse:
    """A page that only says something."""
    text = (
        _templates()
        .get_template("message.html")
        .render(heading=heading, message=message, fix=fix, now=time.time())
    )
    return HTMLResponse(text, status)


def static_file(name: str) -> tuple[str, bytes] | None:
    """The address of a file that never changes under that address, and the file. None if there is none."""
    return _static().get(name)


def _static_url(name: str) -> str:
    return _static()[name][0]


@cache
def _static() -> dict[str, tuple[str, bytes]]:
    files = {each.name: each.read_bytes() for each in (_HERE / "static").iterdir()}
    return {
        name: (f"/static/{hashlib.sha256(content).hexdigest()[:16]}/{name}", content)
        for name, content in files.items()
    }


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,  # else a name that is misspelt in a template would just show nothing
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "size": size,
        "duration": duration,
        "time": _time,
        "clock": _clock,
        "short": _short,
        "first_line": _first_line,
        "words": _words,
        "pretty": bounded_json,
        "urlencode": in_address,
        "lag": lag,
        "commands": _commands,
    }
    made.globals |= {"static_url": _static_url, "version": __version__}
    return made


def _shown(value: object) -> object:
    """What a template prints: markup as it is, text without anything invisible."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


def _time(at: JsonValue, now: float) -> Markup:
    """A moment, relative to now; its title has the whole time. `at` is what `iso` made, or Unix seconds."""
    moment = float(at) if isinstance(at, int | float) else moment_of(at)
    return Markup("&ndash;") if moment is None else _moment(moment, ago(moment, now), is_age=True)


def _clock(at: JsonValue) -> Markup:
    """The time of day of a moment; its title has the whole time."""
    moment = moment_of(at)
    if moment is None:
        return Markup("&ndash;")
    return _moment(moment, datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S"))


def _moment(moment: float, text: str, *, is_age: bool = False) -> Markup:
    whole = datetime.fromtimestamp(moment, UTC)
    return Markup('<time{} datetime="{}" title="{}">{}</time>').format(
        Markup(' class="age"') if is_age else "",
        whole.isoformat(timespec="milliseconds"),
        whole.strftime("%Y-%m-%d %H:%M:%S UTC"),
        text,
    )


def in_address(text: str) -> str:
    """A text as part of an address. What no address can have, such as a byte of a path that is not UTF-8, is `?`."""
    return quote(text.encode(errors="replace"))


def _first_line(text: str) -> str:
    """The beginning of a text."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"


def _short(value: object) -> str:
    """A text in a list: what is longer than a few lines is cut, because a list has many. Its own page has all of it."""
    text = str(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def _words(value: JsonValue) -> str:
    """A word of the JSON as people write it: `timed_out` is `timed out`."""
    return str(value).replace("_", " ")


def _commands(text: str) -> Markup:
    """A fix: what is between backticks is a command."""
    pieces = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(visible(piece)) if number % 2 else visible(piece)
        for number, piece in enumerate(pieces)
    )
