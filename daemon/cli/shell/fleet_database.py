"""The database of a fleet, for commands: reached by the login of this host, or of who made the fleet here."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from runward.config.settings import Settings
from runward.daemon.cli.exits import NOT_SO, TRY_AGAIN, WRONG_USAGE
from runward.daemon.cli.terminal.output import fail
from runward.daemon.configuration.extras import NO_FLEET, has_fleet

if TYPE_CHECKING:
    from runward.daemon.fleet.connecting import Connection


@contextmanager
def told_troubles(what_to_do: str = "") -> Iterator[None]:
    """Say what the database refuses, and exit: 75 if it can't be reached, with `what_to_do` then, else 1."""
    if not has_fleet():
        fail(NO_FLEET, NOT_SO)
    import psycopg

    from runward.daemon.fleet.connecting import DatabaseRefuses, DatabaseUnreachable, in_one_line

    try:
        yield
    except DatabaseUnreachable as error:
        fail(f"{error}{what_to_do}", TRY_AGAIN)
    except psycopg.OperationalError as error:
        fail(f"the fleet's database does not answer: {in_one_line(error)}{what_to_do}", TRY_AGAIN)
    except (DatabaseRefuses, psycopg.Error) as error:
        fail(in_one_line(error), NOT_SO)
    except UnicodeEncodeError as error:
        # Python passes bytes that are not UTF-8 on as lone surrogates, which no statement takes.
        fail(f"{error.object!r} is not valid UTF-8", WRONG_USAGE)


@contextmanager
def fleet_to_read(settings: Settings, what_to_do: str) -> "Iterator[Connection]":
    """A connection to read what hosts reported; exits as `told_troubles` does, and 1 if this machine knows no fleet."""
    with told_troubles(what_to_do):
        from runward.daemon.fleet.administration import administration
        from runward.daemon.fleet.connecting import as_host

        if settings.fleet is not None:
            opened = as_host(settings.fleet)
        else:
            known = administration(Path(settings.state_dir))
            if known is None:
                fail(
                    "this machine belongs to no fleet: `runward fleet join INVITATION` has it join one",
                    NOT_SO,
                )
            opened = known.connect()
        with closing(opened) as connection:
            yield connection
