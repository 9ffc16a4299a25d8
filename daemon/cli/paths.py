"""Paths on the command line: whether one can be read is said by whoever reads it, with the exit code for that."""

import os
from os import PathLike

import click


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
        if not os.path.isabs(value) and _is_working_directory_gone():
            self.fail(
                "the working directory is gone: cd to one that is there, or write an absolute path",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def _is_working_directory_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
