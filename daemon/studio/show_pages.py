"""Shows: their plays, what these wait for, and what their gates decided."""

import sqlite3
from typing import Final, NamedTuple

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runward.config.json_value import JsonValue, objects
from runward.config.settings import Settings
from runward.daemon.store.tables.artifacts import artifact_with
from runward.daemon.store.tables.sessions import session
from runward.daemon.store.tables.shows import (
    PlayRow,
    ShowRow,
    has_shows,
    plan_of,
    play_called,
    plays_of,
    show_in,
    shows,
    shows_called,
)
from runward.daemon.studio.cards import card
from runward.daemon.studio.filters import Filters, place_of
from runward.daemon.studio.pages import DOWNLOAD, Entry, Opened, Pages, file_page, opened_file
from runward.daemon.studio.rendering import PAGE, address, bounded_json, page
from runward.daemon.views.outcomes import outcomes_as_json
from runward.daemon.views.session_files import NoFile, play_file
from runward.daemon.views.shows import whole_show
from runward.handlers.model.files import Unreadable

_FILTERS: Final = ("path", "play", "file", DOWNLOAD, "after")


class ShowPages(Pages):
    """The list, a show, and one of its plays."""

    entry = Entry("Shows", "/shows", lambda connection, _: has_shows(connection))

    def routes(self) -> list[Route]:
        """The list, and one show: `path` is its directory, `play` one of its plays."""
        return [self.route("/shows", self.listing), self.route("/shows/{topic:path}", self.one)]

    async def listing(self, request: Request) -> Response:
        """The shows that began last."""
        after = Filters(request, ("after",)).after("after")

        def look(connection: sqlite3.Connection, _: Settings) -> list[ShowRow]:
            return shows(connection, after, PAGE + 1)

        rows = await self.read(request, look)
        last = rows[PAGE - 1] if len(rows) > PAGE else None
        return page(
            request,
            "shows.html",
            {"shows": [each.as_json() for each in rows[:PAGE]]},
            older=None if last is None else address(request, after=place_of(last.created_at, last.path)),
            topic=None,
        )

    async def one(self, request: Request) -> Response:
        """A show, or one of its plays; the shows to choose from if several have this topic."""
        topic = request.path_params["topic"]
        given = Filters(request, _FILTERS)
        path, name, after = given.one("path"), given.one("play"), given.one("after") or ""
        file = given.one("file")
        if name is not None and file is not None:
            return await self._file(request, topic, path, name, file)
        if name is not None:
            return await self._play(request, topic, path, name)

        def look(connection: sqlite3.Connection, settings: Settings) -> list[ShowRow] | _Show:
            rows = _shows(connection, topic, path)
            if len(rows) > 1:
                return rows
            plan = plan_of(connection, rows[0].path)
            plays = plays_of(connection, rows[0].path, after, PAGE + 1)
            show = whole_show(settings, rows[0], plan, plays[:PAGE])
            cards = [(each.name, _card(connection, settings, each)) for each in plays[:PAGE]]
            last = plays[PAGE - 1].name if len(plays) > PAGE else None
            return _Show(show, [each for each in cards if each[1]], last)

        show_read = await self.read(request, look)
        if not isinstance(show_read, _Show):
            choice: list[JsonValue] = [each.as_json() for each in show_read]
            return page(request, "shows.html", {"shows": choice}, older=None, topic=topic)
        older = None if show_read.last is None else address(request, after=show_read.last)
        return page(request, "show.html", {"show": show_read.show}, cards=show_read.cards, older=older)

    async def _play(self, request: Request, topic: str, path: str | None, name: str) -> Response:
        from runward.daemon.rundir.play_files import texts_of_play  # imports the types of events

        def look(connection: sqlite3.Connection, settings: Settings) -> _Play:
            show, row = _called(connection, topic, path, name)
            (shown,) = objects(whole_show(settings, show, None, [row])["plays"])
            by = session(connection, row.session_key)
            files = [] if by is None else texts_of_play(by.path)
            return _Play(shown, _card(connection, settings, row), files)

        play = await self.read(request, look)
        meta = play.play["meta"]
        assert isinstance(meta, dict), "our own JSON"
        return page(
            request,
            "play.html",
            {"play": play.play},
            card=play.card,
            files=[] if isinstance(play.files, Unreadable) else _links(request, play.files),
            problem=play.files.why if isinstance(play.files, Unreadable) else None,
            further=None if meta["further"] is None else bounded_json(meta["further"]),
            topic=topic,
            back=address(request, play=None),
        )

    async def _file(self, request: Request, topic: str, path: str | None, name: str, file: str) -> Response:
        def look(connection: sqlite3.Connection, settings: Settings) -> Opened:
            _, row = _called(connection, topic, path, name)
            by = session(connection, row.session_key)
            assert by is not None, "a play has a session"
            try:
                return opened_file(request, play_file(settings, by, file))
            except NoFile as error:
                raise HTTPException(404, str(error)) from error

        back = address(request, **{"file": None, DOWNLOAD: None})
        return file_page(request, await self.read(request, look), f"{back}#files")


class _Show(NamedTuple):
    """`last` is the last play of this part, if there are more."""

    show: dict[str, JsonValue]
    cards: list[tuple[str, Markup]]
    last: str | None


class _Play(NamedTuple):
    play: dict[str, JsonValue]
    card: Markup
    files: list[str] | Unreadable


def _shows(connection: sqlite3.Connection, topic: str, path: str | None) -> list[ShowRow]:
    """The shows that an address can mean. Raises `HTTPException` if there is none."""
    if path is None:
        rows = shows_called(connection, topic)
    else:
        # Both must fit: a page under the name of one show must not have what another one says.
        row = show_in(connection, path)
        rows = [] if row is None or row.topic != topic else [row]
    if not rows:
        raise HTTPException(404, f"There is no show {topic}{'' if path is None else f' in {path}'}.")
    return rows


def _called(
    connection: sqlite3.Connection, topic: str, path: str | None, name: str
) -> tuple[ShowRow, PlayRow]:
    """The play of this name in the show that an address means. Raises `HTTPException` if there is none."""
    show = _shows(connection, topic, path)[0]
    row = play_called(connection, show.path, name)
    if row is None:
        raise HTTPException(404, f"There is no play {name} in {show.path}.")
    return show, row


def _links(request: Request, files: list[str]) -> list[tuple[str, str]]:
    return [(each, address(request, file=each)) for each in files]


def _card(connection: sqlite3.Connection, settings: Settings, row: PlayRow) -> Markup:
    """What the gate of a play decided; empty if it has not."""
    outcome = None if row.artifact_id is None else artifact_with(connection, row.artifact_id)
    if outcome is None:
        return Markup()
    return card(objects(outcomes_as_json(settings, [outcome]))[0], None)
