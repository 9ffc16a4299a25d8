"""Paths on the command line: whether one can be read is said by whoever reads it, with the exit code for that."""

from os import PathLike

import click


class NamedPath(click.Path):
    """A path that names something: an empty one is wrong usage, and never the current directory."""

    def convert(
        self,
        value: str | PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | PathLike[str]:
        if not str(value):
            self.fail("an empty path names nothing", param, ctx)
        return super().convert(value, param, ctx)
