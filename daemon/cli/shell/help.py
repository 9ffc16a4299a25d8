"""What the command line says of itself: `runward help`, in words what `--help` says, and `runward completion`, the script that has a shell complete."""

import click
from click.shell_completion import get_completion_class


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


_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for your shell, to be read when it starts.

    \b
    Example:
      source <(runward completion bash)

    \b
    Put that line into ~/.bashrc (for zsh, into ~/.zshrc). For fish:
      runward completion fish > ~/.config/fish/completions/runward.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "click has each of the shells offered"
    click.echo(found(context.find_root().command, {}, "runward", "_RUNWARD_COMPLETE").source())
