"""Where processes are known by their numbers: a host, and a PID namespace in it where that is known."""

from typing import Final

_NAMESPACE: Final = "/pid:"
"""Between a host's name, which has no slash, and the PID namespace there in which processes have their numbers."""


def host_with_namespace(host: str | None, namespace: int | None) -> str | None:
    """The host with its PID namespace; None where nobody says which host."""
    return host if host is None or namespace is None else f"{host}{_NAMESPACE}{namespace}"


def bare_host(host: str) -> str:
    """The host without its PID namespace."""
    return host.partition(_NAMESPACE)[0]


def is_here(host: str | None, here: str) -> bool:
    """Whether processes of this host and namespace have the numbers that are used here. What nobody says is here."""
    return host is None or host in (here, bare_host(here))
