"""`runward completion`: the script that has a shell complete commands, options and ids."""

import click
from click.shell_completion import get_completion_class

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
