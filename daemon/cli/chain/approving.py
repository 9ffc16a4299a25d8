"""`runward chain approvals|approve|deny`: the steps that wait for a person."""

import click

from runward.daemon.cli.shell import completing
from runward.daemon.cli.shell.context import settings_in_force, store_to_read


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def approvals(context: click.Context, as_json: bool) -> None:
    """List the steps that wait for approval.

    Each is shown with the command that it would run, the oldest first.

    \b
    Example:
      runward chain approvals
    """
    from runward.daemon.cli.chain.approvals import print_approvals
    from runward.daemon.store.reading_chains import open_approvals

    with store_to_read(settings_in_force(context)) as connection:
        found = open_approvals(connection)
    print_approvals(found, as_json=as_json)


@click.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.approvals)
@click.option("--note", default="", metavar="TEXT", help="The reason, for the record.")
@click.option(
    "--without",
    multiple=True,
    metavar="PATH",
    shell_complete=completing.files,
    help="A file, as it was shown, that the approval does not cover. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def approve(
    context: click.Context, identifier: str, note: str, without: tuple[str, ...], as_json: bool
) -> None:
    """Approve a waiting step: it runs exactly as it was shown.

    An approval covers every file that the earlier steps left. One that can't be read, or keeps changing, is named; approve
    without it (--without PATH), or not at all.

    ID is an approval, a chain run that waits for one, or @last. Exit code 1: the answer does not count, because it was
    decided before, it has expired, or what was shown has changed (then the daemon asks for approval again).

    \b
    Example:
      runward chain approve @last --note "looks right"
    """
    from runward.daemon.cli.chain.approvals import answer

    answer(settings_in_force(context), identifier, "approved", note, without, as_json=as_json)


@click.command()
@click.argument("identifier", metavar="ID", shell_complete=completing.approvals)
@click.option("--reason", default="", metavar="TEXT", help="The reason, for the record.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def deny(context: click.Context, identifier: str, reason: str, as_json: bool) -> None:
    """Deny a waiting step: its chain run is aborted.

    \b
    Example:
      runward chain deny @last --reason "not before the freeze"
    """
    from runward.daemon.cli.chain.approvals import answer

    answer(settings_in_force(context), identifier, "denied", reason, as_json=as_json)
