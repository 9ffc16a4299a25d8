"""Doing things as a user who has no rights of its own, which only root can become."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Final

import pytest

USER: Final = 65534
AS_USER: Final = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
"""The words that a command begins with which this user runs."""


def as_unprivileged(work: Callable[[], list[str]]) -> list[str]:
    """What `work` returns in a child process of an unprivileged user."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: the child only looks
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
            os.write(writing, "\0".join(work()).encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        answer = said.read()
    os.waitpid(child, 0)
    return answer.split("\0")


def python_for_all(imports: str, environment: Mapping[str, str]) -> str:
    """A Python that this user may run, and that can import these modules; skips where there is none.

    A clone or an interpreter in root's own home is nobody else's to read.
    """
    ask = f"import sys, {imports}; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        # By a shell: setpriv(1) itself still finds what only root may see.
        words = [*AS_USER, "sh", "-c", 'exec "$@"', "sh", python, "-c", ask]
        if subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 0:
            return python
    pytest.skip(f"no Python 3.11 here that an ordinary user may run and that has {imports}")
