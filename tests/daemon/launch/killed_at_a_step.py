"""Programs that kill themselves, by SIGKILL, at a step of their own: at the n-th of the system calls that matter."""

from collections.abc import Sequence

_COUNTING = """
import os, signal, sys
left = int(sys.argv.pop(1))
def counted(call):
    def wrapper(*arguments, **keywords):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **keywords)
    return wrapper
from {module} import main
for name in {calls!r}:
    setattr(os, name, counted(getattr(os, name)))
sys.exit(main({arguments}))
"""


def program(module: str, calls: Sequence[str], arguments: str = "") -> str:
    """A program that calls `main(ARGUMENTS)` of a module; its first own argument, taken away, is the number of the step."""
    return _COUNTING.format(module=module, calls=tuple(calls), arguments=arguments)
