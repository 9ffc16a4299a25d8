"""Where process numbers are valid: on a host, and in one of its PID namespaces if that is known."""

from typing import Final

_NAMESPACE: Final = "/pid:"
"""Separates a host's name, which has no slash, from the PID namespace there in which processes are numbered."""


def host_with_namespace(host: str | None, namespace: int | None) -> str | None:
    """The host with its PID namespace. None if no host is named."""
    return host if host is None or namespace is None else f"{host}{_NAMESPACE}{namespace}"


def has_namespace(host: str | None) -> bool:
    """Whether the host is named with a PID namespace."""
    return host is not None and _NAMESPACE in host


def bare_host(host: str) -> str:
    """The host without its PID namespace."""
    return host.partition(_NAMESPACE)[0]


def is_here(host: str | None, here: str) -> bool:
    """Whether processes of this host and namespace have the numbers that are used here. If it isn't named, they do."""
    return host is None or host in (here, bare_host(here))
