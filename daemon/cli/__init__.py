"""The `runward` command. Its start decides how quick it feels, so everything is imported late."""

import sys


def main() -> None:
    """The console script: the launcher goes its own short way, everything else goes through click."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from runward.daemon.cli.run import main as run

        sys.exit(run(arguments[1:]))
    if arguments == ["--version"]:
        from runward.daemon import __version__

        print(f"runward {__version__}")
        return
    from runward.daemon.cli.commands import runward

    runward(hoisted(arguments), prog_name="runward")


def hoisted(arguments: list[str]) -> list[str]:
    """The arguments with `--config`, `--color` and `--debug` first: people write them anywhere."""
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
