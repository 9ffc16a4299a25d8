"""The standard streams as the caller left them: one may be closed, or its disk full."""

from __future__ import annotations

import io
import os
import sys

STDOUT = "<stdout>"
"""The `filename` of an `OSError` that stdout made."""


def open_missing() -> None:
    """A closed standard stream becomes /dev/null: no file that is opened later gets its number."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
        os.set_inheritable(descriptor, True)
        mode = "w" if descriptor else "r"
        setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for its life


def name_what_stdout_refuses() -> None:
    """Make an error of writing to stdout say that it is stdout's; a stream that took its place stays."""
    if sys.stdout is not sys.__stdout__ or not isinstance(sys.stdout, io.TextIOWrapper):
        return
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(before.fileno(), "w", closefd=False)),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
    )


class _Stdout(io.FileIO):
    def write(self, content: bytes, /) -> int:  # type: ignore[override]  # what a buffered writer hands on
        try:
            return super().write(content)
        except OSError as error:
            error.filename = STDOUT
            raise
