"""`runward studio`: a logged-in browser, at the daemon's Studio or at one that this command serves."""

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

import click

from runward.config.json_value import JsonValue
from runward.config.settings import Settings
from runward.config.studio import StudioSettings
from runward.daemon.cli.exits import NOT_SO
from runward.daemon.cli.shell.context import settings_in_force
from runward.daemon.cli.terminal.output import fail, note, print_text
from runward.daemon.disk.credentials import KeyUnusable, log_out_all, new_code, own_name, studio_key
from runward.daemon.store.ownership import holder, prepare
from runward.daemon.views.daemon_report import report_of, settings_in_report


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Print the login link, and open no browser.")
@click.option("--logout", is_flag=True, help="Log out every browser.")
@click.pass_context
def studio(context: click.Context, only_print: bool, logout: bool) -> None:
    """Show and control runs in a browser.

    If the daemon serves the Studio ([studio] in the settings), this opens a browser that is logged in. Otherwise it serves
    the Studio itself until Ctrl-C, also without a daemon.

    A login link works once, for five minutes. Exit code 1: the address is taken, or the key can't be used.

    \b
    Example:
      runward studio
      runward studio --print
    """
    if only_print and logout:
        raise click.UsageError("--print can't be combined with --logout")
    settings = settings_in_force(context)
    state = Path(settings.state_dir)
    prepare(state)
    try:
        if logout:
            log_out_all(state)
            print_text("every browser is logged out; `runward studio` logs in again")
            return
        report = _report(state)
        served_at = _served_at(report)
        if served_at is None:
            _serve(settings, state, only_print)
        in_force = (settings_in_report(report) or settings).studio
        _open(_links(state, served_at, in_force), only_print)
    except KeyUnusable as error:
        fail(str(error), NOT_SO)


_STARTS_WITHIN_S: Final = 10.0


def _report(state: Path) -> Mapping[str, JsonValue]:
    """The report of the daemon; empty if none runs. One that has only just begun is waited for, and so is its Studio."""
    # It takes the lock first and reports when it is ready. After a reload it first has the settings, and then the Studio. In
    # between, this command would think that it serves none.
    patience = time.monotonic() + _STARTS_WITHIN_S
    while True:
        pid = holder(state)
        report = report_of(str(state), pid)
        is_ready = bool(report) and (_served_at(report) is not None or not _is_to_serve(report))
        if is_ready or not pid or time.monotonic() > patience:
            return report
        time.sleep(0.05)


def _is_to_serve(report: Mapping[str, JsonValue]) -> bool:
    """Whether the settings that the daemon uses have a Studio."""
    in_force = settings_in_report(report)
    return in_force is not None and in_force.studio is not None


def _served_at(report: Mapping[str, JsonValue]) -> int | None:
    """The port at which the running daemon serves the Studio. None if it doesn't."""
    served = report.get("studio")
    return urlsplit(str(served["address"])).port if isinstance(served, dict) else None


def _links(state: Path, port: int, studio: StudioSettings | None) -> list[str]:
    """A login link for each address of the Studio."""
    own = f"http://{own_name(studio_key(state))}:{port}"
    beyond = studio.url if studio is not None else None
    return [f"{base}/login?code={new_code(state)}" for base in (own, beyond) if base is not None]


def _open(links: list[str], only_print: bool) -> None:
    for link in links:
        click.echo(link)
    if only_print:
        return
    import webbrowser

    if not webbrowser.open(links[0]):
        note("no browser could be started: open this link in one")


def _serve(settings: Settings, state: Path, only_print: bool) -> NoReturn:
    """Serve the Studio until Ctrl-C."""
    import anyio

    from runward.daemon.studio.program import log_to_stderr, serve
    from runward.daemon.web.child_server import open_studio
    from runward.daemon.web.sockets import CannotListen

    chosen = settings.studio or StudioSettings()
    try:
        listening = open_studio(state, chosen.address)
    except CannotListen as error:
        fail(str(error), NOT_SO)

    def in_force() -> Settings:
        """Those that the daemon uses, if one runs now."""
        return settings_in_report(report_of(settings.state_dir, holder(state))) or settings

    with listening:
        links = _links(state, listening.getsockname()[1], chosen)
        _open(links, only_print)
        note("serving the Studio until Ctrl-C")
        try:
            anyio.run(partial(serve, state, in_force, listening, log_to_stderr(), idle_s=None))
        except KeyboardInterrupt:
            note("stopped")
    sys.exit(0)
