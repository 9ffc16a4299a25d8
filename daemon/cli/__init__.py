"""The `runward` command. Its start decides how quick it feels, so everything is imported late."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The console script: the launcher takes its own short path, everything else goes through click."""
    # Before anything is opened: a file that got the number of a closed stdout would be written to by every print.
    open_missing()
    arguments = sys.argv[1:]
    # Only a line with this word can call the launcher; the others don't pay for importing it.
    if "run" in arguments:
        from runward.daemon.cli.run_launch import run_and_end, words_of_run

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


def open_missing() -> None:
    """A closed standard stream becomes /dev/null: no file that is opened later gets its number."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, os.O_RDWR)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
        # Programs that this one starts get it as their own stream, as they would get a terminal.
        os.set_inheritable(descriptor, True)
        mode = "w" if descriptor else "r"
        setattr(sys, name, open(descriptor, mode, encoding="utf-8", closefd=False))  # noqa: SIM115  # for its life
