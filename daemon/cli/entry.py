"""From the command line to an exit code: how every command but `run` is called and ends.

Whatever goes wrong is one or two lines on stderr; a traceback only with `--debug`.
"""

import io
import os
import sys
from contextlib import suppress

import click

from runward.config.problem import printable
from runward.daemon.cli.exits import GOOD, INTERRUPTED, OWN_BUG, READER_GONE, TRY_AGAIN, WRONG_SETTINGS
from runward.daemon.cli.terminal.output import STDOUT, say
from runward.daemon.disk.state_rights import StateDirectoryUnsafe
from runward.daemon.store.reading import StoreRefused, StoreUnreadable

_COMPLETING = "_RUNWARD_COMPLETE"
"""The variable in which a shell's completion script says what it wants; click reads it."""


def call(arguments: list[str]) -> int:
    """Carry out the command line; returns the exit code."""
    _name_what_stdout_refuses()
    _escape_what_cannot_be_shown()
    # click takes options of the whole program only before the command's name; people write them anywhere.
    arguments = hoisted(arguments)
    try:
        code = _carry_out(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # As `head` does it: the reader has what it wanted, and an error message would only disturb it.
        code = READER_GONE
    except OSError as error:
        code = _blame(error, f"can't write to stdout: {error.strerror}", TRY_AGAIN, arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    _let_go_of_output()
    return code


def _carry_out(arguments: list[str]) -> int:
    from runward.daemon.cli.commands import runward

    try:
        if _COMPLETING in os.environ:
            runward.main(arguments, prog_name="runward")
        # click's own `main` would end with 1 if the reader of the output went away.
        with runward.make_context("runward", list(arguments)) as context:
            runward.invoke(context)
    except SystemExit as end:
        return _code(end)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):  # the exit code says it, too
            error.show()
        return error.exit_code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "runward"
        said = _in_one_line(error).rstrip(".")
        # What was meant is said already, and has room in one line of a terminal.
        is_guessed = sys.stderr.isatty() and "; did you mean " in said
        _say(said if is_guessed else f"{said} (see `{where} --help`)")
        return error.exit_code
    except click.ClickException as error:
        _say(_in_one_line(error))
        return error.exit_code
    except BrokenPipeError:
        raise  # an OSError, too, but not one of the machine's: `call` ends with its own code
    except (StoreRefused, StateDirectoryUnsafe) as error:
        return _blame(error, str(error), WRONG_SETTINGS, arguments)
    except StoreUnreadable as error:
        return _blame(error, str(error), TRY_AGAIN, arguments)
    except OSError as error:
        if error.filename == STDOUT:
            raise
        return _blame(error, f"the machine refused: {error}", TRY_AGAIN, arguments)
    except Exception as error:  # noqa: BLE001  # the last one to hear of it
        message = f"a bug in Runward: {type(error).__name__}: {error} (--debug shows where)"
        return _blame(error, message, OWN_BUG, arguments)
    return GOOD


def _code(end: SystemExit) -> int:
    if end.code is None:
        return GOOD
    return end.code if isinstance(end.code, int) else OWN_BUG


def _blame(error: Exception, message: str, code: int, arguments: list[str]) -> int:
    if "--debug" in arguments:
        import traceback

        traceback.print_exception(error)
    else:
        _say(message)
    return code


def _say(message: str) -> None:
    say(printable(message))


def _in_one_line(error: click.ClickException) -> str:
    """What click says. It lists the choices on lines of their own, behind tabs."""
    return " ".join(line.strip() for line in error.format_message().split("\n"))


def _escape_what_cannot_be_shown() -> None:
    """A character that the terminal's encoding lacks is escaped; it is not a reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _let_go_of_output() -> None:
    """Discard buffered output that can't be written."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Python flushes once more at its end, and would end with 120 because of it.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def hoisted(arguments: list[str]) -> list[str]:
    """The arguments with `--config`, `--color` and `--debug` first."""
    first: list[str] = []
    rest: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        if argument == "--":
            rest += [argument, *waiting]
        elif argument in ("--config", "--color"):
            first += [argument, *(value for value in [next(waiting, None)] if value is not None)]
        elif argument == "--debug" or argument.startswith(("--config=", "--color=")):
            first.append(argument)
        else:
            rest.append(argument)
    return first + rest


def _name_what_stdout_refuses() -> None:
    """Make an error of writing to stdout say that it is stdout's; a stream that took its place stays."""
    if sys.stdout is not sys.__stdout__ or not isinstance(sys.stdout, io.TextIOWrapper):
        return
    before = sys.stdout
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(before.fileno(), "w", closefd=False)),
        encoding=before.encoding,
        errors=before.errors,
        line_buffering=before.line_buffering,
    )


class _Stdout(io.FileIO):
    def write(self, content: bytes, /) -> int:  # type: ignore[override]  # what a buffered writer hands on
        try:
            return super().write(content)
        except OSError as error:
            error.filename = STDOUT
            raise
