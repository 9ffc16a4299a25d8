"""The `runward` command. Its start decides how quick it feels, so everything is imported late."""

import sys


def main() -> None:
    """The console script: the launcher takes its own short path, everything else goes through click."""
    from runward.daemon.cli.terminal.streams import open_missing

    open_missing()
    arguments = sys.argv[1:]
    if "run" in arguments:
        from runward.daemon.cli.run.launch import run_and_end, words_of_run

        words = words_of_run(arguments)
        if words is not None:
            run_and_end(words)
    if arguments in (["--version"], ["-V"]):
        from runward.daemon import __version__

        try:
            print(f"runward {__version__}", flush=True)
        except OSError:
            pass  # the long path says why
        else:
            return
    from runward.daemon.cli.entry import call

    sys.exit(call(arguments))
