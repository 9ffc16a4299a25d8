"""Whether a request was meant for us: a page of another site must not reach a service on this machine.

Such a page can have a browser send requests to us under a name of its own that leads here (DNS rebinding). The browser
names that name in `Host`, and the page's site in `Origin`.
"""

import ipaddress
from urllib.parse import urlsplit


def is_own_host(host: str, url: str | None) -> bool:
    """Whether `Host` is an IP address, `localhost`, or the host of `url`: a name of somebody else is none of these."""
    name = _name(f"//{host}")
    if name is None:
        return False
    if name == "localhost" or (url is not None and name == _name(url)):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_own_origin(origin: str, host: str, url: str | None) -> bool:
    """Whether `Origin` is the site that the request goes to: the host that it names, or `url`."""
    given = origin.lower()
    own = [f"{scheme}://{host.lower()}" for scheme in ("http", "https")]
    if url is not None:
        parts = urlsplit(url.lower())
        own.append(f"{parts.scheme}://{parts.netloc}")
    return given in own


def _name(url: str) -> str | None:
    """The host of a URL without its port. None if it has none, or more than that."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.username is not None or not parts.hostname:
        return None
    return parts.hostname.rstrip(".")
