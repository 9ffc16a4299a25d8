"""`runward help`: the text of `--help`, for those who ask in words."""

import click


@click.command()
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help(context: click.Context, words: tuple[str, ...]) -> None:  # noqa: A001 # the command's name
    """Show the help of a command, as --help does.

    \b
    Example:
      runward help session list
    """
    command, at = context.find_root().command, context.find_root()
    for word in words:
        if not isinstance(command, click.Group):
            raise click.UsageError(f"{at.command_path} has no commands", at)
        name, found, _ = command.resolve_command(at, [word])
        assert found is not None, "an unknown name is refused before"
        command, at = found, click.Context(found, info_name=name, parent=at)
    click.echo(command.get_help(at))
