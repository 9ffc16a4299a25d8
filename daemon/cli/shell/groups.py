"""Groups of commands that name the nearest one for a mistyped name."""

import click

from runward.config.problem import nearest, quoted


class Group(click.Group):
    """A group whose refusal of an unknown name says which one was probably meant."""

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and not context.resilient_parsing:
            known = self.list_commands(context)
            if name not in known:
                guess = nearest(name, known)
                fix = f"did you mean {guess!r}?" if guess else f"there are {', '.join(known)}"
                raise click.UsageError(f"no such command {quoted(name)}; {fix}", context)
        return super().resolve_command(context, args)
