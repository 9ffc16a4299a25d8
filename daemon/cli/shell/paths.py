"""Paths on the command line: the code that reads one says whether it can be read, with the exit code for that."""

import os
from os import PathLike
from typing import Final

import click

LEADS_NOWHERE: Final = "the working directory is gone: cd to one that exists, or write an absolute path"


class NamedPath(click.Path):
    """A path that names something: an empty one is wrong usage, and never the current directory.

    So is a relative one where the working directory was deleted.
    """

    def convert(
        self,
        value: str | PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | PathLike[str]:
        if not str(value):
            self.fail("an empty path names nothing", param, ctx)
        if leads_nowhere(str(value)):
            self.fail(LEADS_NOWHERE, param, ctx)
        return super().convert(value, param, ctx)


def leads_nowhere(path: str) -> bool:
    """Whether a path is relative to a working directory that was deleted."""
    if os.path.isabs(path):
        return False
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
