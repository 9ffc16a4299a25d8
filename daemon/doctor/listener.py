"""Listening: whether the addresses of `[http]` are available or answer, and whether a webhook's secret is usable."""

import http.client
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from typing import Final

from runward.config.listening import Http, TcpAddress, address_of
from runward.daemon.configuration.mcp_library import FIX, why_not_over_http
from runward.daemon.configuration.secret_file import SecretUnusable, secret_of
from runward.daemon.doctor.findings import Finding, Installation, Patience
from runward.daemon.host.report import read_report
from runward.daemon.store.ownership import holder
from runward.daemon.web.report import HttpReport
from runward.daemon.web.sockets import CannotListen, open_sockets

_ANSWER_S: Final = 5.0
"""Seconds that a daemon that runs may take to answer."""

_EXPOSED: Final = "listen on 127.0.0.1, and put a proxy with TLS in front of it"


def examine(installation: Installation, patience: Patience) -> Iterator[Finding]:
    """Ask the running daemon, or open what one would open."""
    settings = installation.settings
    if settings.http is None:
        yield Finding("ok", "nothing listens: the settings have no [http]")
        if settings.github_secret_file is not None:
            said = "[webhooks.github] is set but nothing listens: no delivery can arrive"
            yield Finding("warning", said, "add [http] to the settings")
        return
    report = read_report(installation.state) if holder(installation.state) is not None else None
    if report is not None and report.http is not None:
        yield _answers(report.http, min(_ANSWER_S, patience.left()))
    elif report is not None:
        said = "the running daemon does not listen: it runs under other settings"
        yield Finding("warning", said, "restart it")
    else:
        yield _can_be_had(settings.http.listen)
    for text in settings.http.listen:
        address = address_of(text)
        if isinstance(address, TcpAddress) and not ipaddress.ip_address(address.host).is_loopback:
            yield Finding(
                "warning", f"{text}: other machines can reach the daemon there, unencrypted", _EXPOSED
            )
    if settings.github_secret_file is not None:
        yield _of_secret(settings.github_secret_file)
    if settings.http.mcp:
        yield _of_tools(settings.http)


def _of_tools(http: Http) -> Finding:
    without = why_not_over_http(http)
    if without is not None:
        return Finding("failed", without, FIX)
    return Finding("ok", "the library that serves tools over HTTP is installed")


def _can_be_had(addresses: Sequence[str]) -> Finding:
    try:
        open_sockets(addresses).close()
    except CannotListen as error:
        return Finding("failed", str(error), "see `runward config show --origin` for where it is written")
    return Finding("ok", f"a daemon can listen on {', '.join(addresses)}")


def _answers(told: HttpReport, seconds: float) -> Finding:
    where = told.address or told.socket
    try:
        status = _status(told, seconds)
    except (OSError, http.client.HTTPException) as error:
        return Finding("failed", f"the daemon does not answer on {where}: {error}", "see `runward log`")
    return Finding("ok", f"the daemon answers on {where} ({status} for /)")


def _status(told: HttpReport, seconds: float) -> int:
    """What the daemon answers to a request for `/`. Raises `OSError` and `HTTPException`."""
    with _connected(told, seconds) as reached:
        connection = http.client.HTTPConnection("runward", timeout=seconds)
        connection.sock = reached
        connection.request("GET", "/")
        with connection.getresponse() as answer:
            return answer.status


def _connected(told: HttpReport, seconds: float) -> socket.socket:
    if told.address is not None:
        host, _, port = told.address.removeprefix("http://").rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), seconds)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.settimeout(seconds)
        made.connect(told.socket or "")
    except OSError:
        made.close()
        raise
    return made


def _of_secret(path: str) -> Finding:
    try:
        secret_of(path)
    except SecretUnusable as error:
        return Finding("failed", f"webhooks.github: {error}", "write the secret into a file of mode 0600")
    return Finding("ok", f"the secret of GitHub's webhook ({path}) can be read only by its owner")
