"""The Studio's application over a state directory that a real daemon has filled."""

import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlencode

import httpx2
import pytest
from tests.daemon.cli.calling import Place
from tests.daemon.cli.conftest import ended, place, recorded
from tests.daemon.in_process import SILENT

from runward.config.settings import Settings
from runward.config.studio import StudioSettings
from runward.daemon.configuration.settings import load_settings
from runward.daemon.disk.credentials import new_cookie, own_name, studio_key
from runward.daemon.studio.app import studio_app
from runward.daemon.studio.guard import COOKIE

OUR_SCRIPTS = re.compile(r'<script src="/static/[0-9a-f]{16}/[a-z.-]+"></script>\n')


class Answer(NamedTuple):
    """What a browser gets. The text is without our own scripts: any other one is a fault."""

    status: int
    headers: dict[str, str]
    text: str


__all__ = ["ended", "place", "recorded"]


@dataclass
class Studio:
    """A browser that is logged in; `settings` are those of the Studio."""

    place: Place
    settings: StudioSettings
    cookie: str | None = None

    @property
    def state(self) -> Path:
        return self.place.state

    def in_force(self) -> Settings:
        """The settings of the place, with those of the Studio."""
        environment = {"HOME": str(self.place.directory)}
        found = load_settings(
            str(self.place.directory / "runward.toml"), environment, str(self.place.directory)
        )
        assert found.value is not None
        return found.value._replace(studio=self.settings)

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] = MappingProxyType({}),
        host: str | None = None,
        body: bytes = b"",
    ) -> Answer:
        """An answer; `host` is instead of the Studio's own name."""
        app = studio_app(self.state, self.in_force, SILENT)
        name = host or f"{own_name(studio_key(self.state))}:8461"
        sent = {"host": name, **headers}
        if self.cookie is not None:
            sent["cookie"] = f"{COOKIE}={self.cookie}"
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://studio") as client:
            answer = await client.request(method, path, headers=sent, content=body)
        head, end, rest = answer.text.partition("</head>")
        return Answer(answer.status_code, dict(answer.headers), OUR_SCRIPTS.sub("", head) + end + rest)

    async def get(self, path: str, host: str | None = None) -> Answer:
        """A page."""
        return await self.ask("GET", path, host=host)

    async def send(self, path: str, **fields: str) -> Answer:
        """The answer to a form that a page of the Studio sent; `once` is new unless given."""
        body = urlencode({"once": str(uuid.uuid4()), **fields}).encode()
        return await self.ask("POST", path, {"sec-fetch-site": "same-origin"}, body=body)


@pytest.fixture
def studio(place: Place) -> Studio:
    """A Studio over a place in which no daemon has run yet."""
    return _logged_in(place)


@pytest.fixture
def filled(recorded: Place) -> Studio:
    """A Studio over one recorded run of each kind, for tests that only read."""
    return _logged_in(recorded)


@pytest.fixture
def studio_over() -> Callable[[Place], Studio]:
    """A Studio over any place."""
    return _logged_in


def _logged_in(place: Place) -> Studio:
    place.state.mkdir(mode=0o700, exist_ok=True)
    key = studio_key(place.state)
    return Studio(place, StudioSettings(), new_cookie(key, own_name(key), time.time()))
